"""CSB-TS-drift: Thompson sampling from the exact filter of thresholds and means that may change; no bound known."""

import math
from typing import ClassVar

import numpy as np

from weakfeedback.allocation.common import coin
from weakfeedback.kernels.knapsack import pack_rounded
from weakfeedback.validate import MOST_ARMS, brief, limited, number, one_of

BINS = 20  # of a mean
MOST_LEVELS = 1000
NODES = 3000  # nodes of the knapsack's search tree
SHARE = 0.001  # of the weight of a rate that is spread over all: the rate may change as well
WORTH = 1e-6  # an arm is probed only if its expected gain is larger
MEMORY = 1000.0  # rounds over which changes are counted for reports
LEAST = 1e-300  # smaller probabilities count as 0


class CsbTsDrift:
    """Keep the exact law of every arm's threshold and mean while both may change, and serve a draw from it; anytime.

    Before every round, (theta_i, mu_i) of an arm is drawn anew with probability h, independently; how often is not
    known: h is one of ``rates``. Amounts are levels 0, ..., C of Q/C each, theta_i is one of 1, ..., C + 1 (C + 1: the
    budget cannot serve it), mu_i lies in one of 20 bins. For every rate h and arm, b is the law of (theta_i, bin):

        predict: b <- (1 - h) b + h / (20 (C + 1))
        a loss at l:     b(k, j) <- b(k, j) m_j if l < k, else 0        (m_j the middle of bin j)
        nothing at l:    b(k, j) <- b(k, j) (1 - m_j) if l < k, else b(k, j)
        w_h <- w_h times the sum of b;  b is divided by it;  no report: only the first line

    and then w <- .999 w + .001 / H, as the rate may change too. Rewards are kept mirrored, level l as C + 1 - l and
    theta as C + 2 - theta, which makes them losses. Every round draws a rate by its weight, then (theta_i, bin) of
    every arm from its law under that rate and mu_i uniformly in its bin;

        A_t = KP(mu, theta, C),   a_i = theta_i on A_t

    and what is left goes to the arm outside A_t with the largest mu_i Pr(theta_i <= R), if that exceeds 1e-6. It
    explores by itself: a little of every law leaks to all levels, and play refutes it.

    No regret bound is known. It costs three times the regret of CSB-TS where nothing changes, and its levels are
    coarse: needs are rounded up to 1 % of the budget. Late feedback enters when it comes, which is fine if the delay is
    short against 1/h; the order matters, so it is not ``delay_safe`` to the bit, but it takes feedback at any time.

    Draws: in ``select`` ``rng.random()`` for the rate; for each arm in index order ``rng.random()``, which inverts its
    law by increasing threshold (mirrored for rewards), within a threshold by increasing bin, and ``rng.random()`` for
    the mean. ``update`` draws one ``rng.random()`` for each recorded outcome strictly between 0 and 1, in index order.

    Parameters
    ----------
    arms, budget
        K and Q.
    levels : integer from 1 to 1000
        C.
    rates : numbers from 0 to 1
        Probabilities that an arm changes in a round; their weights are learned.
    setting : "loss" or "reward"

    References
    ----------
    L. E. Baum, T. Petrie, Statistical inference for probabilistic functions of finite state Markov chains, 1966.
    A. Verma, M. K. Hanawal, A. Rajkumar, R. Sankaran, Censored semi-bandits, NeurIPS 2019 (the problem).

    Examples
    --------
    One place of two can be kept quiet. Its need is .7, and falls to .2: then both can.

    >>> policy, rng = CsbTsDrift(2, 1.0, levels=5), np.random.default_rng(0)
    >>> quiet = []
    >>> for t in range(800):
    ...     needs = np.array([0.8 if t < 300 else 0.2, 0.6])
    ...     allocation = policy.select(rng)
    ...     policy.update(allocation, (rng.random(2) < 0.9) * (allocation < needs - 1e-9), rng)
    ...     quiet.append((allocation >= needs - 1e-9).sum())
    >>> round(np.mean(quiet[200:300]).item()), round(np.mean(quiet[700:]).item())
    (1, 2)
    """

    in_short = "for needs and risks that change; anytime"
    sample_problem = "different"
    sample_options: ClassVar = {"levels": 5}
    made_for = ("loss", "reward")
    delay_safe = True
    takes_gaps = True  # NaN among the observed outcomes says that there is no report

    def __init__(self, arms, budget, levels=100, rates=(1e-6, 1e-4, 1e-3), setting="loss"):
        self.K = limited("arms", arms, 1, MOST_ARMS)
        self.Q = number("budget", budget, above=0.0)
        self.levels = limited("levels", levels, 1, MOST_LEVELS)  # C
        self.reward = one_of("setting", setting, ("loss", "reward")) == "reward"
        self.rates = chances(rates)
        self.step = self.Q / self.levels
        H = self.rates.size
        self.weight = np.full(H, 1.0 / H)  # of the rates
        cells = (self.levels + 1) * BINS
        self.law = np.full((H, self.K, self.levels + 1, BINS), 1.0 / cells)  # of (threshold - 1, bin)
        self.changed = np.zeros(self.K)  # expected changes, counted over about the last 1000 rounds

    def select(self, rng):
        """Return the allocation of this round."""
        C = self.levels
        h = pick(self.weight, rng.random())
        k = np.empty(self.K)
        mu = np.empty(self.K)
        for i in range(self.K):
            t, j = locate(self.law[h, i], rng.random())
            k[i] = C + 1 - t if self.reward else t + 1
            mu[i] = (j + rng.random()) / BINS
        chosen = pack_rounded(mu, k, C, np.int64(NODES))
        allocation = np.zeros(self.K)
        left = C
        for i in range(self.K):
            if chosen[i]:
                allocation[i] = k[i] * self.step
                left -= int(k[i])
        best = -1
        worth = WORTH
        if left > 0:
            for i in range(self.K):
                if not chosen[i]:
                    value = mu[i] * self.served(h, i, left)
                    if value > worth:
                        best = i
                        worth = value
        if best >= 0:
            allocation[best] = left * self.step
        return allocation

    def served(self, h, i, level):
        """Return Pr(theta_i <= level) under a rate."""
        total = 0.0
        low = self.levels + 1 - level if self.reward else 0
        high = self.levels + 1 if self.reward else level
        for t in range(low, high):
            for j in range(BINS):
                total += self.law[h, i, t, j]
        return total

    def update(self, allocation, observed, rng):
        """Let every arm change, and record what was seen under this allocation."""
        H = self.rates.size
        for i in range(self.K):
            missing = observed[i] != observed[i]
            positive = False if missing else coin(observed[i], rng) > 0.0
            level = min(int(allocation[i] / self.step + 0.5), self.levels)
            place = self.levels + 1 - level if self.reward else level  # genuine for t + 1 > place
            if self.reward and level == 0:
                missing = True  # nothing can be earned there
            expected = 0.0
            for h in range(H):
                before = self.weight[h]
                fresh, total = filtered(self.law[h, i], self.rates[h], place, positive, missing)
                self.weight[h] *= total
                expected += before * fresh
            self.changed[i] += expected - self.changed[i] / MEMORY
            total = 0.0
            for h in range(H):
                total += self.weight[h]
            for h in range(H):
                self.weight[h] /= total
        for h in range(H):
            self.weight[h] = (1.0 - SHARE) * self.weight[h] + SHARE / H

    def belief(self, arm):
        """Return what is known about an arm: amounts, increasing, probability, and parameters a, b of its mean.

        The threshold is ``amounts[j, 0] = amounts[j, 1]`` with ``probability[j]``; the mean is about Beta(a[j], b[j]),
        which has the mean and the variance of all bins. For reports.
        """
        law = np.tensordot(self.weight, self.law[:, arm], axes=1)
        middles = (np.arange(BINS) + 0.5) / BINS
        bins = law.sum(axis=0)
        mean = float(bins @ middles)
        spread = float(bins @ (middles - mean) ** 2) + 1.0 / (12.0 * BINS**2)
        size = mean * (1.0 - mean) / spread - 1.0
        probability = law.sum(axis=1)[:: -1 if self.reward else 1]
        amounts = np.append(np.arange(1, self.levels + 1) * self.step, math.inf)
        each = np.ones(probability.size)
        return (
            np.repeat(amounts, 2).reshape(-1, 2),
            probability,
            mean * size * each,
            (1.0 - mean) * size * each,
        )

    def changes(self):
        """Return the expected number of changes of each arm in about the last 1000 rounds, and the learned rate."""
        return self.changed.copy(), float(self.weight @ self.rates)


def chances(rates):
    """Return rates as an array, or raise ValueError."""
    found = np.array(rates, dtype=float) if np.ndim(rates) == 1 else np.empty(0)
    if found.size == 0 or not ((found >= 0.0) & (found <= 1.0)).all():
        raise ValueError(f"rates must be numbers from 0 to 1, got {brief(rates)}")
    return found


def pick(weight, u):
    """Return the index at which the cumulative weight first exceeds u."""
    total = 0.0
    for h in range(weight.size - 1):
        total += weight[h]
        if total > u:
            return h
    return weight.size - 1


def locate(law, u):
    """Return the row and the bin at which the cumulative law first exceeds u; the last possible one at the end."""
    total = 0.0
    row = 0
    column = 0
    for t in range(law.shape[0]):
        for j in range(law.shape[1]):
            if law[t, j] > 0.0:
                total += law[t, j]
                row = t
                column = j
                if total > u:
                    return row, column
    return row, column


def filtered(law, h, place, positive, missing):
    """Let a law leak at rate h and learn an outcome, in place; return the share that has changed, and the total.

    Row t is the threshold t + 1; an outcome is genuine for thresholds beyond the place.
    """
    rows, bins = law.shape
    leak = h / (rows * bins)
    shared = min(place, rows)  # rows in which an outcome that is positive cannot be
    below = 0.0 if positive and not missing else 1.0
    factor = np.ones(bins)  # of the other rows
    sums = np.zeros(bins)  # by bins: sums that do not wait for each other are compiled to vectors
    for j in range(bins):
        mean = (j + 0.5) / bins
        if not missing:
            factor[j] = mean if positive else 1.0 - mean
    for t in range(rows):
        for j in range(bins):
            law[t, j] = ((1.0 - h) * law[t, j] + leak) * (below if t < shared else factor[j])
            sums[j] += law[t, j]
    total = 0.0
    fresh = 0.0  # what has leaked to all cells
    for j in range(bins):
        total += sums[j]
        fresh += leak * (shared * below + (rows - shared) * factor[j])
    if total < LEAST:  # what cannot be under this rate: begin anew
        for t in range(rows):
            for j in range(bins):
                law[t, j] = 1.0 / (rows * bins)
        return 1.0, LEAST
    inverse = 1.0 / total
    for t in range(rows):
        for j in range(bins):
            law[t, j] *= inverse
    return fresh / total, total
