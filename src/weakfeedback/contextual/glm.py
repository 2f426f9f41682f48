"""Logistic regressions kept close to their maximum-likelihood estimate, at a cost per round that does not grow.

An exact fit in every round costs O(n d^2) each time. Here each regression keeps a quadratic model of its
log-likelihood around an anchor a: its gradient g at a and its inverse Hessian Q. The estimate is the maximum of the
model, one Newton step away from the anchor,

    theta = a + Q g.

A new observation y at features x is added in O(d^2). The model takes its tangent at the logit that the estimate will
have with it (``settle``); this matters for the rare observation that moves the estimate a lot.

The error of the estimate follows from the length of the step, s = g' Q g. The step leaves about the share

    rho + 4 s / n

of s undone: rho because Q belongs to older estimates (it is the largest share found since Q was computed); 4 s / n
because the Hessian changes along the step, by the mean squared change of the logits. Here n is the effective number of
observations (``is_doubtful``). The model is updated when s times this share exceeds 8 tau^4 n_f, where n_f counts all
data as if they lay as far out as the farthest. Then the error of a probability is of the order of tau^2: the variance
of a logit is at most about 4 d / n_f, and the error points in one of d directions.

To update it, the anchor moves to the estimate and the gradient is summed again over all data, O(n d), with the same Q;
this repeats until the step is short (``centre``). Once these sums have cost as much as one Hessian, O(n d^2), or when
rho would exceed 2 %, Q is recomputed as well. If the steps do not converge, a full fit by Newton's method follows
(``climb``). An update happens at most once while n grows by 0.025 %. When n has grown by a factor since the last full
fit (2, unless a policy needs a better Q), there is always a full fit, and all matrices are rebuilt. So the amortised
cost of an observation is bounded, whatever n is; it falls with n, because an observation moves the estimate less and
less.
"""

import math

import numpy as np

from weakfeedback.contextual.arguments import layout
from weakfeedback.contextual.history import BLOCK, History
from weakfeedback.kernels.linalg import (
    add_half_rows,
    add_outer,
    add_rows,
    copy_block,
    dot_rows,
    exceeds,
    inner,
    invert,
    logistic,
    part,
    settle,
    shrink,
    times,
)

NEWTON_STEPS = 50
BISECTIONS = 200
CLOSE = 1e-6  # a full fit has converged when g' Q g <= CLOSE / d times ``weight``
STALE, BAD = 0.02, 0.25  # the remaining part of a step above which Q is recomputed, or everything is refitted
FAR = 10.0  # the change of an observation's own logit from which on the model is not trusted
SPARSE = 4000  # the model is updated at most once while n grows by 1 / SPARSE
NOTHING, CENTRE, FULL = 0, 1, 2  # what an observation can trigger


class Regressions(History):
    """A bank of logistic regressions over the rounds of a cascade; regression m is observed if stop[m] <= arm.

    Not a policy: the base class of the policies of this chapter. All data are kept, or the last ``keep`` and a
    quadratic that replaces the likelihood of the others (``History``). ``V[s]`` is the sum of phi phi' over the rounds
    that reach ``slots[s]`` and ``W[s]`` its inverse; regressions that see the same rounds and the same features share
    one. A ridge is added to V and to the likelihood, because the maximum-likelihood estimate need not exist (separable
    data) and V need not be invertible (dependent features).
    """

    def __init__(self, K, dimension, stop, tau, ridge, blocks, keep):
        M = len(stop)
        self.K = K  # arms
        self.dimension = dimension  # the length of phi
        self.d = dimension // max(M, 1) if blocks else dimension  # d', the features of one regression
        super().__init__(dimension, M, self.d, keep)
        self.M = M  # regressions
        self.tau = tau
        self.growth = 2.0  # of n from one full fit to the next
        self.ridge = ridge
        self.ready = False  # whether there are estimates
        self.stop = np.array(stop, dtype=np.int64)
        # the index of the V of regression m; the arm from which V[s] is observed; where its features begin in phi
        self.slot, self.reach, self.begins = layout(self.stop, self.d, blocks)
        slots = self.reach.size
        self.V = np.zeros((slots, self.d, self.d))
        for k in range(self.d):
            self.V[:, k, k] = ridge
        self.W = np.zeros((slots, self.d, self.d))
        self.n = np.zeros(M, dtype=np.int64)  # observations
        self.fitted = np.zeros(M, dtype=np.int64)  # observations at the last fit
        self.centred = np.zeros(M, dtype=np.int64)  # observations when the anchor last moved
        self.weight = np.zeros(M)  # observations as the Hessian counts them: 4 mu' each, at most 1
        self.moments = np.zeros((M, 3))  # sums of mu', mu' l and mu' l^2, with l the relative leverage
        self.farthest = np.ones(M)  # the largest (4 mu')^2 l / 4, at least 1
        self.rho = np.zeros(M)  # the share of a step that Q got wrong
        self.sums = np.zeros(M, dtype=np.int64)  # of gradients over all data since Q was computed
        self.anchor = np.zeros((M, self.d))
        self.gradient = np.zeros((M, self.d))  # of the log-likelihood at the anchor
        self.Q = np.zeros((M, self.d, self.d))  # inverse Hessian at the anchor
        self.theta = np.zeros((M, self.d))

    def check(self, phi, arm):
        """Reject an invalid context or arm before anything is learned from it."""
        if phi.size != self.dimension:
            raise ValueError("phi must have as many numbers as the policy's dimension")
        for k in range(phi.size):
            if not abs(phi[k]) < math.inf:
                raise ValueError("phi must be finite numbers")
        if arm < 0 or arm >= self.K:
            raise ValueError("arm must be one of the policy's arms")

    def covers(self, level):
        """Whether every V, without the ridge, has all its eigenvalues above ``level``."""
        spare = np.empty((self.d, self.d))
        for s in range(self.reach.size - 1, -1, -1):  # the last arm is seen least
            if not exceeds(self.V[s], level + self.ridge, spare):
                return False
        return True

    def gather(self, s):
        """Update the counts and V with the feedback s."""
        x = np.empty(self.d)
        v = np.empty(self.d)
        arm = self.arms[s]
        for k in range(self.reach.size):
            if self.reach[k] <= arm:
                copy_block(self.past[s], self.begins[k], x)
                add_outer(self.V[k], 1.0, x)
                if self.ready:
                    shrink(self.W[k], 1.0, x, v)
        for m in range(self.M):
            if self.stop[m] <= arm:
                self.n[m] += 1

    def estimate(self, s, start):
        """Update the estimates with the feedback s; ``start`` makes the first ones from all data."""
        x = np.empty(self.d)
        v = np.empty(self.d)
        H = np.empty((self.d, self.d))
        if start:
            self.ready = True
        for m in range(self.M):
            due = FULL if start else NOTHING
            if self.stop[m] <= self.arms[s] and not start:
                copy_block(self.past[s], self.begins[self.slot[m]], x)
                due = self.absorb(m, x, float(self.label[s, m]), v)
            if due != NOTHING:
                self.fit(m, H, v, due == FULL)

    def absorb(self, m, x, y, v):
        """Add one observation to regression m; return which fit is due."""
        anchor = self.anchor[m]
        gradient = self.gradient[m]
        theta = self.theta[m]
        Q = self.Q[m]
        times(Q, x, v)
        c = inner(x, v)
        before = inner(x, theta)
        z = settle(before, c, y)
        p = logistic(z)
        w = p * (1.0 - p)
        pull = y - p + w * (z - inner(x, anchor))
        add_outer(Q, -w / (1.0 + w * c), v)
        s = 0.0
        for k in range(x.size):
            gradient[k] += pull * x[k]
            theta[k] += (y - p) * v[k]  # a + Q g again, with the current values
            s += gradient[k] * (theta[k] - anchor[k])
        self.weight[m] += 4.0 * w
        self.watch(m, w, c / (1.0 + w * c))
        n = self.n[m]
        if n >= self.growth * self.fitted[m]:
            return FULL
        rested = SPARSE * (n - self.centred[m]) >= self.centred[m]
        return (
            CENTRE if rested and (abs(z - before) > FAR or self.is_doubtful(m, s, self.rho[m])) else NOTHING
        )

    def watch(self, m, w, c):
        """Record the leverage of an observation: its w = mu', and c = x' Q x with it."""
        leverage = c * self.n[m] / self.d
        moments = self.moments[m]
        moments[0] += w
        moments[1] += w * leverage
        moments[2] += w * leverage * leverage
        self.farthest[m] = max(self.farthest[m], 4.0 * w * w * leverage)

    def is_doubtful(self, m, s, rho):
        """Whether a step with g' Q g = s leaves a larger error than allowed.

        n is the effective number of observations, at least one. Observations far from the boundary carry no curvature:
        each counts as 4 mu'. Those with small features carry little information: the effective share is (sum mu' l)^2 /
        (sum mu' sum mu' l^2).
        """
        moments = self.moments[m]
        n = self.weight[m]
        if moments[2] > 0.0:
            n *= (moments[1] / moments[0]) * (moments[1] / moments[2])
        n = max(n, min(self.weight[m], 1.0))
        bound = self.tau * self.tau
        return s * (rho * n + 4.0 * s) > 8.0 * bound * bound * n * self.weight[m] / self.farthest[m]

    def fit(self, m, H, step, full):
        """Move regression m to its maximum of likelihood, with the old Hessian while that is cheaper and converges."""
        anchor = self.anchor[m]
        gradient = self.gradient[m]
        theta = self.theta[m]
        s = 0.0
        for k in range(self.d):
            s += gradient[k] * (theta[k] - anchor[k])
            anchor[k] = theta[k]
        if full or not self.centre(m, H, step, s):
            self.climb(m, H, step)
            self.fitted[m] = self.n[m]
            self.rebuild(self.slot[m])
        self.centred[m] = self.n[m]

    def centre(self, m, H, step, before):
        """Move the anchor until the step is short, if that converges; ``before`` is the s of the step to it."""
        anchor = self.anchor[m]
        theta = self.theta[m]
        curved = 4 * self.sums[m] >= self.d + 16
        for _ in range(NEWTON_STEPS):
            left = self.newton(m, H, step, curved)
            if left >= BAD * before:
                return False
            if left > STALE * before and not curved:
                curved = True
                continue
            self.rho[m] = 0.0 if curved else max(self.rho[m], left / before)
            # the remainder lies where Q is less accurate than for the whole step
            if not self.is_doubtful(m, left, math.sqrt(self.rho[m])):
                for k in range(self.d):
                    theta[k] = anchor[k] + step[k]
                return True
            for k in range(self.d):
                anchor[k] += step[k]
            before = left
            curved = False
        return False

    def climb(self, m, H, step):
        """Find the maximum of likelihood by Newton's method, from the anchor."""
        anchor = self.anchor[m]
        theta = self.theta[m]
        self.rho[m] = 0.0
        size = 1.0
        for tries in range(NEWTON_STEPS + 1):
            left = self.newton(m, H, step, True)
            if left <= CLOSE * self.weight[m] / self.d:
                size = 1.0
                break
            size = self.stride(m, anchor, step, left)
            if tries < NEWTON_STEPS:
                for k in range(self.d):
                    anchor[k] += size * step[k]
        for k in range(self.d):
            theta[k] = anchor[k] + size * step[k]
        for k in range(3):  # at least half of what is known about leverages is forgotten while n doubles
            self.moments[m, k] /= self.growth
        self.farthest[m] = max(1.0, self.farthest[m] / self.growth)

    def newton(self, m, H, step, curved):
        """Sum the gradient and, if ``curved``, the Hessian at the anchor; write Q g into ``step`` and return g' Q g."""
        gradient = self.gradient[m]
        Q = self.Q[m]
        self.evaluate(m, self.anchor[m], gradient, H, curved)
        self.sums[m] += 1
        if curved:
            invert(H, Q)
            self.sums[m] = 0
        times(Q, gradient, step)
        return inner(gradient, step)

    def rebuild(self, s):
        """Recompute the inverse of V[s]."""
        invert(self.V[s], self.W[s])

    def evaluate(self, m, theta, gradient, H, curved):
        """Write the gradient and, if ``curved``, the lower triangle of the Hessian of regression m at theta."""
        label = self.label
        begin = self.begins[self.slot[m]]
        for i in range(self.d):
            gradient[i] = -self.ridge * theta[i]
            if curved:
                for j in range(self.d):  # all of it: uninitialised memory could raise warnings
                    H[i, j] = 0.0
                H[i, i] = self.ridge
        weight = 0.0
        if self.gone > 0:
            weight = self.add_quadratic(m, theta, gradient, H, curved)
        rows = np.empty(BLOCK, dtype=np.int64)
        z = np.empty(BLOCK)
        w = np.empty(BLOCK)
        s = 0
        while s < self.t:
            s, n = self.observed_rows(m, s, self.t, rows)
            dot_rows(self.past, rows, n, begin, theta, z)
            for r in range(n):
                p = logistic(z[r])
                w[r] = p * (1.0 - p)
                weight += 4.0 * w[r]
                z[r] = label[rows[r], m] - p
            add_rows(gradient, z, self.past, rows, n, begin)
            if curved:
                add_half_rows(H, w, self.past, rows, n, begin)
        self.weight[m] = weight

    def stride(self, m, anchor, step, rise):
        """Return the step length: 1 if no logit changes by more than 1, else to where the slope is a tenth.

        ``rise`` is the slope of the log-likelihood along the step at its beginning; the slope only falls from there.
        """
        arms, stop = self.arms, self.stop[m]
        past, label = self.past, self.label
        begin = self.begins[self.slot[m]]
        end = begin + self.d
        z = np.empty(self.t)
        change = np.empty(self.t)
        rises = -self.ridge * inner(anchor, step)
        steeper = self.ridge * inner(step, step)
        if self.gone > 0:
            slope, loss = self.slopes(m, anchor, step)
            rises += slope
            steeper += loss
        most = 0.0
        n = 0
        for s in range(self.t):
            if arms[s] >= stop:
                x = part(past, s, begin, end)
                z[n] = inner(x, anchor)
                change[n] = inner(x, step)
                rises += label[s, m] * change[n]
                most = max(most, abs(change[n]))
                n += 1
        if most <= 1.0:
            return 1.0
        low, high, size = 0.0, math.inf, 1.0
        for _ in range(BISECTIONS):
            slope = rises - size * steeper
            for r in range(n):
                slope -= change[r] * logistic(z[r] + size * change[r])
            if abs(slope) <= 0.1 * rise:
                break
            if slope > 0.0:
                low = size
            else:
                high = size
            size = 2.0 * size if high == math.inf else 0.5 * (low + high)
        return size

    def width(self, phi, s, x, v):
        """Return the norm of the features of phi in the inverse of V[s]."""
        copy_block(phi, self.begins[s], x)
        times(self.W[s], x, v)
        return math.sqrt(max(inner(x, v), 0.0))


def confidence(t, d, K, delta, sigma, kappa):
    """Return the factor alpha of the confidence ellipsoid (thesis, lemma theta_est_glm).

    alpha = (2 sigma / kappa) sqrt( d/2 log(1 + 2 t / d) + log(K^2 / (2 delta)) )
    """
    inside = 0.5 * d * math.log(1.0 + 2.0 * t / d) + math.log(K * K / (2.0 * delta))
    return 2.0 * sigma / kappa * math.sqrt(max(inside, 0.0))
