"""Logistic regressions kept near their maximum-likelihood estimate, at a cost per round that does not grow.

An exact fit in every round costs O(n d^2) each time. Here each regression keeps a quadratic model of its
log-likelihood around an anchor a: its gradient g at a and its inverse Hessian Q. The estimate is the maximum of the
model, one Newton step away from the anchor,

    theta = a + Q g.

One more observation y at features x is added in O(d^2). It enters the model by its tangent at the logit where
the estimate will be with it (``settle``), which matters for the rare observation that moves the estimate a lot.

The model is brought up to date when the step has become long, g' Q g > tau^2 n / d, where the error of a probability
is of the order of tau^2; n counts an observation as 4 mu', so that those far from the boundary, which carry no
curvature, do not hide what happens near it. Then the anchor moves to the estimate and the gradient is summed anew
over all data, O(n d), while Q is kept, again and again until the step is short; if that does not converge fast, a
full fit by Newton's method follows, O(n d^2). This happens not more than once while n grows by 0.1 %. When n has grown
by a factor since the last full fit, 2 unless a policy needs a better Q, there is one in any case, and all matrices are
rebuilt. So the amortised cost of an observation is bounded, whatever n; it falls with n, because an observation
moves the estimate less and less.
"""

import math

import numpy as np

from weakfeedback.linalg import (
    add_half_rows,
    add_outer,
    add_rows,
    dot_rows,
    exceeds,
    inner,
    invert,
    logistic,
    mirror,
    shrink,
    times,
)

NEWTON_STEPS = 50
BLOCK = 64  # observations that are summed over at a time
CLOSE = 1e-6  # a full fit is done when g' Q g <= CLOSE n / d, with n as above
NEAR = 0.05  # a new anchor is good when g' Q g <= NEAR tau^2 n / d
NOTHING, CENTRE, FULL = 0, 1, 2  # what an observation may call for


class Regressions:
    """A bank of logistic regressions over the rounds of a cascade; regression m is observed if stop[m] <= arm.

    Not a policy: what the policies of this chapter inherit. All data are kept. ``V[s]`` is the sum of phi phi' over
    the rounds that reach ``slots[s]`` and ``W[s]`` its inverse; regressions that see the same rounds and the same
    features share one. A ridge is added to V and to the likelihood, because the maximum-likelihood estimate
    need not exist (separable data) and V need not be invertible (dependent features).
    """

    def __init__(self, K, dimension, stop, tau, ridge, blocks):
        M = len(stop)
        self.K = K  # arms
        self.dimension = dimension  # the length of phi
        self.d = dimension // max(M, 1) if blocks else dimension  # d', the features of one regression
        self.M = M  # regressions
        self.tau = tau
        self.growth = 2.0  # of n from one full fit to the next
        self.ridge = ridge
        self.t = 0  # feedbacks so far
        self.ready = False  # whether there are estimates
        self.stop = np.array(stop, dtype=np.int64)
        own = np.arange(M) if blocks else np.unique(self.stop, return_inverse=True)[1]
        self.slot = own.astype(np.int64).reshape(M)  # the V of regression m
        slots = int(own.max()) + 1 if M else 0
        self.reach = np.zeros(slots, dtype=np.int64)  # the arm from which V[s] is observed
        self.begins = np.zeros(slots, dtype=np.int64)  # where its features begin in phi
        for m in range(M):
            self.reach[self.slot[m]] = self.stop[m]
            self.begins[self.slot[m]] = m * self.d if blocks else 0
        self.V = np.zeros((slots, self.d, self.d))
        for k in range(self.d):
            self.V[:, k, k] = ridge
        self.W = np.zeros((slots, self.d, self.d))
        self.n = np.zeros(M, dtype=np.int64)  # observations
        self.fitted = np.zeros(M, dtype=np.int64)  # observations at the last fit
        self.centred = np.zeros(M, dtype=np.int64)  # observations when the anchor was moved last
        self.weight = np.zeros(M)  # observations as the Hessian counts them: 4 mu' each, at most 1
        self.anchor = np.zeros((M, self.d))
        self.gradient = np.zeros((M, self.d))  # of the log-likelihood at the anchor
        self.Q = np.zeros((M, self.d, self.d))  # inverse Hessian at the anchor
        self.theta = np.zeros((M, self.d))
        self.past = np.zeros((64, dimension))  # phi of every feedback
        self.label = np.zeros((64, M), dtype=np.int8)
        self.arms = np.zeros(64, dtype=np.int64)  # the arm of every feedback

    def check(self, phi, arm):
        """Refuse a context or an arm before anything is learned from it."""
        if phi.size != self.dimension:
            raise ValueError("phi must have as many numbers as the policy's dimension")
        for k in range(phi.size):
            if not abs(phi[k]) < math.inf:
                raise ValueError("phi must be finite numbers")
        if arm < 0 or arm >= self.K:
            raise ValueError("arm must be one of the policy's arms")

    def remember(self, phi, arm):
        """Append a feedback to the data and return its place, where the labels are to be written."""
        s = self.t
        if s == self.arms.size:
            self.past = longer(self.past)
            self.label = longer(self.label)
            arms = np.zeros(2 * s, dtype=np.int64)
            for r in range(s):
                arms[r] = self.arms[r]
            self.arms = arms
        row = self.past[s]
        for k in range(row.size):
            row[k] = phi[k]
        self.arms[s] = arm
        self.t += 1
        return s

    def covers(self, level):
        """Whether every V, without the ridge, has all its eigenvalues above ``level``."""
        spare = np.empty((self.d, self.d))
        for s in range(self.reach.size - 1, -1, -1):  # the last arm is seen least
            if not exceeds(self.V[s], level + self.ridge, spare):
                return False
        return True

    def gather(self, s):
        """Bring the counts and V up to the feedback s."""
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
        """Bring the estimates up to the feedback s; ``start`` makes the first ones of all data."""
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
                self.fit(m, H, x, v, due == FULL)

    def absorb(self, m, x, y, v):
        """Add one observation to regression m; return which fit is due."""
        anchor = self.anchor[m]
        gradient = self.gradient[m]
        theta = self.theta[m]
        Q = self.Q[m]
        times(Q, x, v)
        c = inner(x, v)
        z = settle(inner(x, theta), c, y)
        p = logistic(z)
        w = p * (1.0 - p)
        pull = y - p + w * (z - inner(x, anchor))
        for k in range(x.size):
            gradient[k] += pull * x[k]
        add_outer(Q, -w / (1.0 + w * c), v)
        times(Q, gradient, v)
        for k in range(x.size):
            theta[k] = anchor[k] + v[k]
        self.weight[m] += 4.0 * w
        n = self.n[m]
        if n >= self.growth * self.fitted[m]:
            return FULL
        long = inner(gradient, v) > self.tau * self.tau * self.weight[m] / self.d
        return CENTRE if long and 1000 * n >= 1001 * self.centred[m] else NOTHING

    def fit(self, m, H, x, step, full):
        """Bring regression m to its maximum of likelihood: with the old Hessian, unless ``full`` or it converges badly.

        Newton's steps are damped. Along a step that changes no logit by more than R, the slope of the loss stays
        below that of its quadratic model times exp(R). So the whole step lowers the loss for R <= 1, and
        log(1 + R) / R of it always.
        """
        anchor = self.anchor[m]
        gradient = self.gradient[m]
        theta = self.theta[m]
        Q = self.Q[m]
        n = self.n[m]
        d = x.size
        for k in range(d):
            anchor[k] = theta[k]
        before = self.tau * self.tau * self.weight[m] / d  # what called for this
        close = max(CLOSE, NEAR * self.tau * self.tau)
        for tries in range(NEWTON_STEPS + 1):
            self.evaluate(m, anchor, gradient, H, full)
            if full:
                invert(H, Q)
            times(Q, gradient, step)
            left = inner(gradient, step)
            if left <= (CLOSE if full else close) * self.weight[m] / d or tries == NEWTON_STEPS:
                break
            if not full and left > 0.25 * before:
                full = True
                continue
            before = left
            size = 1.0
            if full:
                R = self.widest(m, step)
                if R > 1.0:
                    size = math.log(1.0 + R) / R
            for k in range(d):
                anchor[k] += size * step[k]
        for k in range(d):
            theta[k] = anchor[k] + step[k]
        self.centred[m] = n
        if full:
            self.fitted[m] = n
            self.rebuild(self.slot[m], H)

    def rebuild(self, s, spare):
        """Invert V[s] anew."""
        copy_matrix(self.V[s], spare)
        invert(spare, self.W[s])

    def evaluate(self, m, theta, gradient, H, curved):
        """Write the gradient and, if ``curved``, the Hessian of the loss of regression m at theta, over all data."""
        label = self.label
        begin = self.begins[self.slot[m]]
        weight = 0.0
        for i in range(self.d):
            gradient[i] = -self.ridge * theta[i]
            for j in range(self.d):
                H[i, j] = 0.0
            H[i, i] = self.ridge
        rows = np.empty(BLOCK, dtype=np.int64)
        z = np.empty(BLOCK)
        w = np.empty(BLOCK)
        s = 0
        while s < self.t:
            s, n = self.observed_rows(m, s, rows)
            dot_rows(self.past, rows, n, begin, theta, z)
            for r in range(n):
                p = logistic(z[r])
                w[r] = p * (1.0 - p)
                weight += 4.0 * w[r]
                z[r] = label[rows[r], m] - p
            add_rows(gradient, z, self.past, rows, n, begin)
            if curved:
                add_half_rows(H, w, self.past, rows, n, begin)
        mirror(H)
        self.weight[m] = weight

    def widest(self, m, step):
        """The largest change of a logit of regression m along a step."""
        begin = self.begins[self.slot[m]]
        rows = np.empty(BLOCK, dtype=np.int64)
        z = np.empty(BLOCK)
        most = 0.0
        s = 0
        while s < self.t:
            s, n = self.observed_rows(m, s, rows)
            dot_rows(self.past, rows, n, begin, step, z)
            for r in range(n):
                most = max(most, abs(z[r]))
        return most

    def observed_rows(self, m, s, rows):
        """Write the next feedbacks, from s on, that regression m has seen; return where to go on, and their number."""
        arms = self.arms
        stop = self.stop[m]
        n = 0
        while s < self.t and n < rows.size:
            if arms[s] >= stop:
                rows[n] = s
                n += 1
            s += 1
        return s, n

    def width(self, phi, s, x, v):
        """The norm of the features of phi in the inverse of V[s]."""
        copy_block(phi, self.begins[s], x)
        times(self.W[s], x, v)
        return math.sqrt(max(inner(x, v), 0.0))


def settle(z, c, y):
    """Solve u = z + c (y - mu(u)) for the logit u: where one more observation y moves an estimate z.

    The solution lies between z and z + c (2 y - 1). Newton's method, with bisection where it leaves that range or
    does not halve its step.

    >>> u = settle(-8.0, 30.0, 1.0)
    >>> round(u, 6), round(-8.0 + 30.0 * (1.0 - logistic(u)), 6)
    (0.868292, 0.868292)
    """
    low = min(z, z + c * (2.0 * y - 1.0))
    high = max(z, z + c * (2.0 * y - 1.0))
    u = z
    change = high - low
    for _ in range(200):
        p = logistic(u)
        excess = u - z - c * (y - p)
        slope = 1.0 + c * p * (1.0 - p)
        if excess > 0.0:
            high = u
        else:
            low = u
        newton = u - excess / slope
        if newton < low or newton > high or abs(2.0 * excess) > abs(change * slope):
            newton = 0.5 * (low + high)
        change = newton - u
        u = newton
        if abs(change) <= 1e-9:
            break
    return u


def copy_block(row, begin, out):
    """Copy the features of one regression, which begin at ``begin``."""
    for k in range(out.size):
        out[k] = row[begin + k]


def copy_matrix(matrix, out):
    """Copy a matrix."""
    for i in range(matrix.shape[0]):
        for j in range(matrix.shape[1]):
            out[i, j] = matrix[i, j]


def longer(table):
    """A copy of a table with twice as many rows."""
    bigger = np.zeros((2 * table.shape[0], table.shape[1]), dtype=table.dtype)
    for r in range(table.shape[0]):
        for k in range(table.shape[1]):
            bigger[r, k] = table[r, k]
    return bigger


def confidence(t, d, K, delta, sigma, kappa):
    """The factor alpha of the confidence ellipsoid (thesis, lemma theta_est_glm).

    alpha = (2 sigma / kappa) sqrt( d/2 log(1 + 2 t / d) + log(K^2 / (2 delta)) )
    """
    inside = 0.5 * d * math.log(1.0 + 2.0 * t / d) + math.log(K * K / (2.0 * delta))
    return 2.0 * sigma / kappa * math.sqrt(max(inside, 0.0))
