"""The heuristic of Hanawal, Szepesvari and Saligrama (2017), the thesis's baseline in chapter 2."""

import math

import numpy as np

from weakfeedback.kernels.loops import disagreements, upper_bound
from weakfeedback.validate import cumulative_costs, number


class HanawalHeuristic:
    """The one-sided test with upper confidence bounds on disagreements.

    Stops at the first arm for which no later arm is worth its extra cost, even optimistically, or at the last:

        I_t = min { i : C_j - C_i >= U_ij for all j > i } or K,
        U_ij = D_ij / N_ij + sqrt(alpha log t / N_ij)

    with D_ij disagreements in N_ij comparisons of arms i < j. The thesis compares against "Algorithm 2" of
    the paper without printing it; this is a reconstruction. With the same alpha it decides as USS-UCB does, except for
    ties: the difference that the thesis shows between the two is that of alpha = 1.5 and alpha = 0.5.

    Draws: none.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    alpha : number > 0
        Width of the confidence bounds; 1.5 in the paper.

    References
    ----------
    M. K. Hanawal, C. Szepesvari, V. Saligrama, Unsupervised sequential sensor acquisition, AISTATS 2017.

    Examples
    --------
    Two tests that never disagree: the second is not worth its cost.

    >>> rng = np.random.default_rng(7)
    >>> policy = HanawalHeuristic(costs=[0.05, 0.40])
    >>> pulls = [0, 0]
    >>> for _ in range(1000):
    ...     arm = policy.select(rng)
    ...     policy.update(arm, np.ones(arm + 1), rng)
    ...     pulls[arm] += 1
    >>> pulls
    [915, 85]
    """

    in_short = "one-sided test with upper confidence bounds"
    explained = (
        "Hanawal compares the extra cost with the largest plausible disagreement, so it goes further than"
        " the estimate suggests while it knows little."
    )
    delay_safe = True

    def __init__(self, costs, alpha=1.5):
        self.C = cumulative_costs(costs)
        self.K = self.C.size
        self.alpha = number("alpha", alpha, above=0.0)
        self.t = 1  # the round: one more than the feedbacks so far
        self.D = np.zeros((self.K, self.K))  # D[i, j] disagreements of arms i < j
        self.N = np.zeros((self.K, self.K))  # N[i, j] comparisons of arms i < j
        self.differ = np.zeros((self.K, self.K), dtype=np.bool_)  # buffer for the disagreements of a round

    def select(self, rng):
        """Return the arm at which to stop the cascade in this round."""
        width = self.alpha * math.log(self.t)
        for i in range(self.K - 1):
            if self.is_best(i, width):
                return i
        return self.K - 1

    def is_best(self, i, width):
        """Whether C_j - C_i >= U_ij for every later arm j."""
        for j in range(i + 1, self.K):
            if self.C[j] - self.C[i] < upper_bound(self.D[i, j], self.N[i, j], width):
                return False
        return True

    def update(self, arm, outputs, rng):
        """Learn from the outputs of arms 0, ..., arm."""
        disagreements(outputs, arm, self.differ)
        self.update_pairs(arm, self.differ, rng)

    def update_pairs(self, arm, differ, rng):
        """Learn which pairs i < j <= arm disagreed."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                if differ[i, j]:
                    self.D[i, j] += 1.0
                self.N[i, j] += 1.0
        self.t += 1
