"""Shared base of the learning policies: kept rounds, the state after a stage, ridge-logistic regressions."""

import math

import numpy as np

from weakfeedback.adaptive.arguments import stage_costs
from weakfeedback.kernels.linalg import (
    add_half_rows,
    add_outer,
    add_rows,
    dot_rows,
    inner,
    invert,
    logistic,
    longer,
    times,
)
from weakfeedback.validate import integer, number

FEATURES = 7  # number of features of the state after a stage
REFERENCE = 512  # reference scores per stage, among which others are ranked
FEWEST = 8  # with fewer reference scores there are no ranks
FIRST_FIT = 16  # rounds
GROWTH = 1.25  # growth of the number of rounds from one fit to the next
NEWTON_STEPS = 200
CLOSE = 1e-8  # a fit has converged when g' Q g, the squared step in standard deviations, is at most this


class RoundMemory:
    """The last rounds, and K - 1 regressions on the state after a stage. Not a policy: a base class of policies.

    The state after stage k is phi = (1, u_k, u_k^2 - .33, a, a u_k, u_{k-1}, e u_{k-1}): u is 2 * rank - 1 of a score
    among the first 512 scores seen of its stage (mid-ranks; 0 while fewer than 8 were seen, or if there is none), a is
    2 * (share of earlier stages with the answer of stage k) - 1, e is 1 if the stage before gave that answer, else -1.
    For the first stage the last four are 0.
    """

    def __init__(self, costs, ridge, scale, memory):
        self.c = stage_costs(costs)
        self.K = self.c.size
        self.ridge = number("ridge", ridge, at_least=1e-12)
        self.scale = number("scale", scale, at_least=0.0)
        self.memory = integer("memory", memory, FIRST_FIT, 10**7)
        self.t = 0  # rounds learned
        self.next_fit = FIRST_FIT  # rounds at which everything is refitted
        self.refresh = 0  # maximum number of rounds from one fit to the next; 0: no limit
        self.held = 0  # kept rounds
        self.n = np.zeros(self.K, dtype=np.int64)  # rounds that went on from each stage
        room = min(64, self.memory)
        self.arms = np.zeros((room, 1), dtype=np.int64)
        self.answers = np.zeros((room, self.K), dtype=np.int64)
        self.score = np.zeros((room, self.K))
        self.scored = np.zeros((room, self.K), dtype=np.bool_)
        self.u = np.zeros((room, self.K))
        self.reference = np.zeros((self.K, REFERENCE))  # sorted
        self.filled = np.zeros(self.K, dtype=np.int64)
        self.ranked = np.zeros(self.K, dtype=np.int64)  # the value of ``filled`` when u was computed
        self.rise = np.zeros((self.K, FEATURES))
        self.Qrise = np.zeros((self.K, FEATURES, FEATURES))  # inverse Hessians
        for k in range(FEATURES):
            self.Qrise[:, k, k] = 1.0 / self.ridge

    def check(self, arm, outputs, scores):
        """Reject an invalid round before anything is learned from it."""
        if arm < 0 or arm >= self.K:
            raise ValueError("arm must be one of the policy's stages")
        if outputs.size != arm + 1 or scores.size != arm + 1:
            raise ValueError("outputs and scores must be those of the stages up to arm")
        for k in range(arm + 1):
            if math.isinf(scores[k]):
                raise ValueError("scores must be finite numbers, or NaN where there is none")

    def keep(self, arm, outputs, scores):
        """Store a round, replacing the oldest if there is no room; return its position."""
        while self.held == self.arms.shape[0] and self.held < self.memory:
            self.arms = longer(self.arms)
            self.answers = longer(self.answers)
            self.score = longer(self.score)
            self.scored = longer(self.scored)
            self.u = longer(self.u)
        r = self.t % self.memory
        self.t += 1
        self.held = min(self.held + 1, self.memory)
        self.arms[r, 0] = arm
        for k in range(self.K):
            self.answers[r, k] = outputs[k] if k <= arm else 0
            self.scored[r, k] = k <= arm and not math.isnan(scores[min(k, arm)])
            self.score[r, k] = scores[k] if self.scored[r, k] else 0.0
        for k in range(arm + 1):
            if self.scored[r, k]:
                self.refer(k, self.score[r, k])
            if k < arm:
                self.n[k] += 1
        for k in range(self.K):
            self.u[r, k] = self.rank(k, self.score[r, k]) if self.scored[r, k] else 0.0
        return r

    def refer(self, k, score):
        """Add a score to the reference of its stage, while there is room."""
        n = self.filled[k]
        if n < REFERENCE:
            line = self.reference[k]
            i = n
            while i > 0 and line[i - 1] > score:
                line[i] = line[i - 1]
                i -= 1
            line[i] = score
            self.filled[k] = n + 1

    def rank(self, k, score):
        """Return u = 2 * (mid-rank of a score in its reference) - 1, or 0 if the reference is too short."""
        n = self.filled[k]
        if n < FEWEST:
            return 0.0
        below = count_below(self.reference[k], n, score, False)
        upto = count_below(self.reference[k], n, score, True)
        return (below + upto) / n - 1.0

    def rank_again(self):
        """Compute u of the kept rounds with the current references."""
        for k in range(self.K):
            if self.ranked[k] != self.filled[k]:
                for r in range(self.held):
                    self.u[r, k] = self.rank(k, self.score[r, k]) if self.scored[r, k] else 0.0
                self.ranked[k] = self.filled[k]

    def describe(self, k, outputs, now, before, x):
        """Write the state after stage k into x; ``now`` and ``before`` are u of this stage and the one before it."""
        x[0] = 1.0
        x[1] = now
        x[2] = now * now - 0.33
        if k == 0:
            x[3] = x[4] = x[5] = x[6] = 0.0
            return
        same = 0
        for j in range(k):
            same += outputs[j] == outputs[k]
        a = 2.0 * same / k - 1.0
        x[3] = a
        x[4] = a * now
        x[5] = before
        x[6] = before if outputs[k] == outputs[k - 1] else -before

    def describe_kept(self, r, k, x):
        """Write the state of a kept round after stage k into x."""
        self.describe(k, self.answers[r], self.u[r, k], self.u[r, max(k - 1, 0)], x)

    def describe_now(self, k, outputs, scores, x):
        """Write the state of the current round after stage k into x."""
        before = k - 1 if k > 0 else 0
        now = 0.0 if math.isnan(scores[k]) else self.rank(k, scores[k])
        earlier = 0.0 if math.isnan(scores[before]) else self.rank(before, scores[before])
        self.describe(k, outputs, now, earlier, x)

    def best_guess(self):
        """Return the stage at which most of the kept rounds stopped; ties go to the first."""
        return int(np.argmax(np.bincount(self.arms[: self.held, 0], minlength=self.K)))

    def take_costs(self, costs):
        """Continue with other prices: everything is refitted when the next round is learned."""
        self.c[:] = stage_costs(costs)
        if self.t >= FIRST_FIT:
            self.next_fit = min(self.next_fit, self.t + 1)

    def is_due(self):
        """Whether to refit everything; if so, schedule the next time."""
        if self.t < self.next_fit:
            return False
        self.next_fit = max(self.t + FIRST_FIT, math.ceil(GROWTH * self.t))
        if self.refresh > 0:
            self.next_fit = min(self.next_fit, self.t + self.refresh)
        return True

    def renew(self):
        """Drop what does not belong to the kept rounds: reference scores, and counts of rounds that went on."""
        for k in range(self.K):
            self.filled[k] = 0
            self.n[k] = 0
            for age in range(self.held):  # the newest first
                r = (self.t - 1 - age) % self.memory
                if self.scored[r, k]:
                    self.refer(k, self.score[r, k])
                if self.arms[r, 0] > k:
                    self.n[k] += 1
            self.ranked[k] = -1  # all ranks are outdated


def count_below(line, n, score, equal):
    """Return how many of the first n numbers of a sorted array are below a score, or (``equal``) not above it."""
    low = 0
    high = n
    while low < high:
        middle = (low + high) // 2
        if line[middle] < score or (equal and line[middle] == score):
            low = middle + 1
        else:
            high = middle
    return low


def draw(theta, Q, x, scale, v, rng):
    """Draw the probability at x: the logistic of x.theta + scale * sqrt(x' Q x) * (a standard normal number)."""
    times(Q, x, v)
    return logistic(inner(x, theta) + scale * math.sqrt(max(inner(x, v), 0.0)) * rng.standard_normal())


def absorb(theta, Q, x, y, v):
    """Add one observation y at x to a regression: one Newton step, and a rank-one update of the inverse Hessian."""
    times(Q, x, v)
    p = logistic(inner(x, theta))
    w = p * (1.0 - p)
    c = 1.0 + w * inner(x, v)
    for k in range(x.size):
        theta[k] += (y - p) / c * v[k]
    add_outer(Q, -w / c, v)


def fit(theta, Q, x, y, n, mean, ridge):
    """Maximise sum y log p + (1 - y) log(1 - p) - ridge / 2 |theta - mean|^2 over the first n rows, from theta.

    Q becomes the inverse Hessian. All |x| are at most 1. Newton's method; a step changes no logit by more than 1, so
    the sum rises with every step: along a step of decrement s that changes logits by m it rises by at least t s - s
    (exp(t m) - t m - 1) / m^2 > 0 for t = min(1, 1 / m).
    """
    d = theta.size
    rows = np.arange(n)
    z = np.empty(n)
    w = np.empty(n)
    H = np.zeros((d, d))
    gradient = np.empty(d)
    step = np.empty(d)
    for _ in range(NEWTON_STEPS):
        for i in range(d):
            gradient[i] = -ridge * (theta[i] - mean[i])
            for j in range(d):
                H[i, j] = 0.0
            H[i, i] = ridge
        dot_rows(x, rows, n, 0, theta, z)
        for r in range(n):
            p = logistic(z[r])
            w[r] = p * (1.0 - p)
            z[r] = y[r] - p
        add_rows(gradient, z, x, rows, n, 0)
        add_half_rows(H, w, x, rows, n, 0)
        invert(H, Q)
        times(Q, gradient, step)
        change = 0.0
        for i in range(d):
            change += abs(step[i])
        t = 1.0 / max(change, 1.0)
        for i in range(d):
            theta[i] += t * step[i]
        if inner(gradient, step) <= CLOSE:
            break


def doubled(ratio):
    """Return the power of 2 next to a ratio, from 1/64 to 64: differences below that are not worth a feature."""
    return 2.0 ** math.floor(math.log(min(max(ratio, 1.0 / 64.0), 64.0)) / math.log(2.0) + 0.5)
