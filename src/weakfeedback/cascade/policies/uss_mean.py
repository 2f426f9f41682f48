"""USS-mean: USS-TS for stages that answer with numbers, from the mean squared movement of their answers."""

import math

import numpy as np

from weakfeedback.validate import cumulative_costs, number


class UssMean:
    """Thompson sampling for a cascade that answers with numbers, whose errors are never observed.

    The movement of two answers is min(((a - b) / scale)^2, 1), the loss of an answer its movement from the truth. If
    every later stage is calibrated given the earlier ones (let it see their answers, or stack it), what it improves is
    exactly its mean movement s_ij, and

        I_t = min { i : C_j - C_i > s_ij for all j > i } or K,   s_ij ~ Normal(mean, max(variance, 1 / n^2) / n)

    with mean and variance of the n movements of the pair that were seen; a pair that was seen less than twice is never
    below its cost. Where the answers are labels the movement is 1 if they differ (with scale 1), and the same rule
    learns disagreements. No regret bound is known.

    Draws: in ``select``, for i = 0, 1, ... until an arm is accepted (at most to K-2), one ``rng.standard_normal()`` for
    every j = i+1, ..., K-1 in this order, all of them even after one has failed. ``update`` draws nothing.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``, where an error of size ``scale`` costs 1.
    scale : number > 0
        The size of an error that costs 1. Larger errors cost no more.

    Examples
    --------
    A second stage that moves the answer by .3, squared .09, and costs .35 more:

    >>> rng = np.random.default_rng(7)
    >>> policy = UssMean(costs=[0.05, 0.40])
    >>> pulls = [0, 0]
    >>> for t in range(1000):
    ...     arm = policy.select(rng)
    ...     policy.update(arm, np.array([2.0, 2.3 if t % 2 else 1.7])[: arm + 1], rng)
    ...     pulls[arm] += 1
    >>> pulls
    [995, 5]
    """

    in_short = "USS-TS for answers that are numbers"
    explained = (
        "USS-mean compares the extra cost with a random draw from what is known about the mean squared movement of the "
        "answers, so it now and then goes further than the estimate suggests, to learn."
    )
    sample_problem = "numbers"
    delay_safe = True
    recostable = True  # nothing that is learned depends on the costs: C may change
    numeric_outputs = True  # outputs may be real numbers

    def __init__(self, costs, scale=1.0):
        self.C = cumulative_costs(costs)
        self.K = self.C.size
        self.scale = number("scale", scale, above=0.0)
        self.n = np.zeros((self.K, self.K))  # n[i, j]: how often arms i < j were compared
        self.total = np.zeros((self.K, self.K))  # sum of their movements
        self.squares = np.zeros((self.K, self.K))  # sum of the squares of their movements

    def select(self, rng):
        """Return the arm I_t at which to stop the cascade in this round."""
        for i in range(self.K - 1):
            if self.is_best(i, rng):
                return i
        return self.K - 1

    def is_best(self, i, rng):
        """Whether C_j - C_i > s_ij for every later arm j, with s_ij drawn."""
        best = True
        for j in range(i + 1, self.K):
            z = rng.standard_normal()
            if self.n[i, j] < 2.0 or self.C[j] - self.C[i] <= self.movement(i, j, z):
                best = False  # no early exit: as in USS-TS, all pairs are drawn
        return best

    def movement(self, i, j, z):
        """Return the mean movement of a pair plus z standard errors."""
        n = self.n[i, j]
        mean = self.total[i, j] / n
        variance = max(self.squares[i, j] / n - mean * mean, 1.0 / (n * n))
        return mean + z * math.sqrt(variance / n)

    def best_guess(self):
        """Return the arm at which to stop if the mean movements were exact."""
        means = np.where(self.n > 1.0, self.total / np.maximum(self.n, 1.0), math.inf)
        passing = (
            arm for arm in range(self.K) if (self.C[arm + 1 :] - self.C[arm] > means[arm, arm + 1 :]).all()
        )
        return next(passing)

    def update(self, arm, outputs, rng):
        """Learn from the answers of arms 0, ..., arm."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                moved = (outputs[i] - outputs[j]) / self.scale
                self.count(i, j, min(moved * moved, 1.0))

    def update_pairs(self, arm, moved, rng):
        """Learn how far the answers of pairs i < j <= arm lie apart: numbers from 0 to 1, or whether they differ."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                self.count(i, j, 1.0 * moved[i, j])

    def count(self, i, j, moved):
        """Add what was seen of one pair."""
        self.n[i, j] += 1.0
        self.total[i, j] += moved
        self.squares[i, j] += moved * moved
