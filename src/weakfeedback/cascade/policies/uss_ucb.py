"""USS-UCB: optimism for unsupervised sequential selection (thesis, section 2.4)."""

import math

import numpy as np

from weakfeedback.kernels.loops import disagreements, upper_bound
from weakfeedback.validate import cumulative_costs, number


class UssUcb:
    """Upper confidence bounds on disagreements for a cascade whose errors are never observed.

    Stops at the first arm that looks optimal against the earlier and the later ones, or at the last arm:

        B^l = { i : C_i - C_j <= U_ji for all j < i },   B^h = { i : C_j - C_i > U_ij for all j > i },
        I_t = min( (B^l and B^h) or {K} ),   U_ij = D_ij / N_ij + sqrt(alpha log t / N_ij)

    with D_ij disagreements in N_ij comparisons of arms i < j. A pair never compared has U_ij = inf, so
    the first round plays the last arm.

    Draws: none.

    Parameters
    ----------
    costs : K non-decreasing numbers >= 0
        ``costs[i]`` is the total cost C_i of stopping at arm ``i``.
    alpha : number > 0
        Width of the confidence bounds. The regret bound needs alpha > 0.5; the thesis's experiments,
        and so the default, use 0.5.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm USS-UCB.

    Examples
    --------
    Two tests that never disagree: the second is not worth its cost.

    >>> rng = np.random.default_rng(7)
    >>> policy = UssUcb(costs=[0.05, 0.40])
    >>> pulls = [0, 0]
    >>> for _ in range(1000):
    ...     arm = policy.select(rng)
    ...     policy.update(arm, np.ones(arm + 1), rng)
    ...     pulls[arm] += 1
    >>> pulls
    [971, 29]
    """

    in_short = "upper confidence bounds on disagreements"
    explained = (
        "USS-UCB compares the extra cost with the largest plausible disagreement, so it goes further than"
        " the estimate suggests while it knows little."
    )
    delay_safe = True
    recostable = True  # nothing that is learned depends on the costs: C may change

    def __init__(self, costs, alpha=0.5):
        self.C = cumulative_costs(costs)
        self.K = self.C.size
        self.alpha = number("alpha", alpha, above=0.0)
        self.t = 1  # the round: one more than the feedbacks so far
        self.D = np.zeros((self.K, self.K))  # D[i, j] disagreements of arms i < j
        self.N = np.zeros((self.K, self.K))  # N[i, j] comparisons of arms i < j
        self.differ = np.zeros((self.K, self.K), dtype=np.bool_)  # buffer for the disagreements of a round

    def select(self, rng):
        """Return the arm I_t at which to stop the cascade in this round."""
        width = self.alpha * math.log(self.t)
        for i in range(self.K - 1):
            if self.in_higher_set(i, width) and self.in_lower_set(i, width):
                return i
        return self.K - 1

    def in_lower_set(self, i, width):
        """Whether i is in B^l: it is worth its extra cost over every earlier arm, optimistically."""
        for j in range(i):
            if self.C[i] - self.C[j] > upper_bound(self.D[j, i], self.N[j, i], width):
                return False
        return True

    def in_higher_set(self, i, width):
        """Whether i is in B^h: no later arm is worth its extra cost, even optimistically."""
        for j in range(i + 1, self.K):
            if self.C[j] - self.C[i] <= upper_bound(self.D[i, j], self.N[i, j], width):
                return False
        return True

    def update(self, arm, outputs, rng):
        """Learn from the outputs of arms 0, ..., arm."""
        disagreements(outputs, arm, self.differ)
        self.update_pairs(arm, self.differ, rng)

    def update_pairs(self, arm, differ, rng):
        """Learn which pairs i < j <= arm disagreed (lines 10 and 11)."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                if differ[i, j]:
                    self.D[i, j] += 1.0
                self.N[i, j] += 1.0
        self.t += 1
