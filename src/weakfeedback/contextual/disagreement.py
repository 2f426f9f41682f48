"""Shared base of policies on pairwise disagreements: one regression per pair of arms, and the optimistic rule."""

import numpy as np

from weakfeedback.contextual.arguments import LEAST_RIDGE, kept, pairs, per_pair_fits
from weakfeedback.contextual.glm import Regressions
from weakfeedback.kernels.linalg import copy_block, inner, logistic
from weakfeedback.kernels.loops import disagreements
from weakfeedback.validate import MOST_INPUTS, cumulative_costs, fraction, limited, number


class PairRegressions(Regressions):
    """Learns how often each pair of arms disagrees, given the context.

    Not a policy: a subclass selects, and says how long the forced phase is, ``is_over()``.
    """

    def __init__(self, costs, dimension, tolerance, ridge, per_pair, keep):
        self.C = cumulative_costs(costs)
        first, second = pairs(self.C.size)
        dimension = limited("dimension", dimension, 1, MOST_INPUTS)
        per_pair_fits(per_pair, dimension, len(first))
        tau = number("tolerance", tolerance, above=0.0) / 25.0
        ridge = number("ridge", ridge, at_least=LEAST_RIDGE)
        super().__init__(self.C.size, dimension, second, tau, ridge, per_pair, kept(keep))
        self.first = np.array(first, dtype=np.int64)  # regression m is of the pair (first[m], stop[m])
        self.pair = np.zeros((self.K, self.K), dtype=np.int64)  # the number of each pair
        for m in range(self.M):
            self.pair[first[m], second[m]] = m

    def is_over(self):
        """Whether the forced phase ends with this feedback."""
        raise NotImplementedError

    def update(self, phi, arm, outputs, rng):
        """Learn from the outputs of arms 0, ..., arm."""
        self.check(phi, arm)
        if outputs.size != arm + 1:
            raise ValueError("outputs must be those of arms 0 to arm")
        differ = np.zeros((self.K, self.K), dtype=np.bool_)
        disagreements(outputs, arm, differ)
        self.update_pairs(phi, arm, differ, rng)

    def update_pairs(self, phi, arm, differ, rng):
        """Learn which pairs i < j <= arm disagreed in this context (line 12)."""
        self.check(phi, arm)
        s = self.remember(phi, arm)
        for m in range(self.M):
            if self.stop[m] <= arm and differ[self.first[m], self.stop[m]]:
                self.label[s, m] = 1
        self.gather(s)
        start = not self.ready and self.is_over()
        if self.ready or start:
            self.estimate(s, start)
            self.trim()


class PairwiseDisagreement(PairRegressions):
    """Stops at the first arm whose disagreement with every later arm, by an upper bound, is below the extra cost.

    Not a policy: a subclass says how long the forced phase is, and how wide the bound is, ``bonus(m)`` for the pair
    with number m.
    """

    def __init__(self, costs, dimension, tolerance, ridge, delta, sigma, kappa, per_pair, keep):
        super().__init__(costs, dimension, tolerance, ridge, per_pair, keep)
        self.delta = fraction("delta", delta)
        self.sigma = number("sigma", sigma, above=0.0)
        self.kappa = number("kappa", kappa, above=0.0)

    def select(self, phi, rng):
        """Return the arm I_t at which to stop the cascade for this context."""
        self.check(phi, 0)
        if not self.ready:
            return self.K - 1  # line 2: the forced phase
        widths = np.empty(self.reach.size)
        for s in range(widths.size):
            widths[s] = -1.0  # not computed yet
        for i in range(self.K - 1):
            if self.is_best(i, phi, widths):
                return i
        return self.K - 1

    def is_best(self, i, phi, widths):
        """Whether C_j - C_i exceeds the optimistic disagreement for every later arm j (lines 8 and 9)."""
        x = np.empty(self.d)
        v = np.empty(self.d)
        for j in range(i + 1, self.K):
            m = self.pair[i, j]
            s = self.slot[m]
            if widths[s] < 0.0:
                widths[s] = self.width(phi, s, x, v)
            copy_block(phi, self.begins[s], x)
            p = logistic(inner(x, self.theta[m]) + self.bonus(m) * widths[s])
            if self.C[j] - self.C[i] <= p:
                return False
        return True

    def bonus(self, m):
        """Return the factor of the confidence width of pair m."""
        raise NotImplementedError
