"""Variants of USS-UCB that the experiments need. They are for study, not for use."""

import math

from weakfeedback.cascade.policies.uss_ucb import UssUcb
from weakfeedback.validate import number


class UssLcb(UssUcb):
    """USS-UCB with the lower confidence bound in B^h: a negative result, it gets stuck.

    The test against a later arm becomes C_j - C_i > D_ij / N_ij - sqrt(alpha log t / N_ij). An early arm that passes is
    played, so its disagreement with later arms is never seen again while the bound falls with t, and it passes for ever
    (thesis, remark DecisionSet and its discussion in the appendix of chapter 2). The first round plays the last arm, as
    in USS-UCB.

    Draws: none.

    Examples
    --------
    The arms agreed once, and that settles it:

    >>> policy = UssLcb(costs=[0.05, 0.40])
    >>> policy.select(None)
    1
    >>> policy.update(1, [1, 1], None)
    >>> policy.select(None)
    0
    """

    def in_higher_set(self, i, width):
        """Whether no later arm seems worth its extra cost, by the lower bound on the disagreement."""
        for j in range(i + 1, self.K):
            if self.N[i, j] == 0.0:
                return False
            lower = self.D[i, j] / self.N[i, j] - math.sqrt(width / self.N[i, j])
            if self.C[j] - self.C[i] <= lower:
                return False
        return True


class UssUcbExploring(UssUcb):
    """USS-UCB with another exploration function: f(t) = t^power (1 + log t)^log_power instead of f(t) = t.

    Draws: none.

    Examples
    --------
    >>> UssUcbExploring(costs=[0.05, 0.40], power=2.0).select(None)
    1
    """

    def __init__(self, costs, alpha=0.5, power=1.0, log_power=0.0):
        super().__init__(costs, alpha)
        self.power = number("power", power, above=0.0)
        self.log_power = number("log_power", log_power, at_least=0.0)

    def select(self, rng):
        """Return the arm I_t at which to stop the cascade in this round."""
        log_t = math.log(self.t)
        width = self.alpha * (self.power * log_t + self.log_power * math.log(1.0 + log_t))
        for i in range(self.K - 1):
            if self.in_higher_set(i, width) and self.in_lower_set(i, width):
                return i
        return self.K - 1


class ForcedComparison(UssLcb):
    """The lower bound of ``UssLcb``, and t^(2/3) forced rounds at the last arm, which keep it from getting stuck.

    Plays the last arm while fewer than t^(2/3) rounds went there; otherwise the smallest i with
    C_j - C_i >= D_ij / N_ij - sqrt(log t / N_ij) for all j > i. An arm whose extra cost ties with its disagreement is
    accepted in the end, and an arm that loses by any fixed amount is rejected. So it learns every problem with rho >=
    1, at the rate T^(2/3) sqrt(log T): ``theory.forced_comparison_regret``. (The thesis says that this set cannot be
    learned: section 2.3, proposition on rho >= 1.)

    Draws: none.

    Examples
    --------
    >>> ForcedComparison(costs=[0.05, 0.40]).select(None)
    1
    """

    def __init__(self, costs):
        super().__init__(costs, alpha=1.0)

    def select(self, rng):
        """Return the arm at which to stop the cascade in this round."""
        if self.K == 1:
            return 0
        explored = self.N[0, self.K - 1]
        if explored * explored * explored < float(self.t) * float(self.t):
            return self.K - 1
        width = self.alpha * math.log(self.t)
        for i in range(self.K - 1):
            if self.in_higher_set(i, width):
                return i
        return self.K - 1

    def in_higher_set(self, i, width):
        """Whether no later arm is certainly worth its extra cost."""
        for j in range(i + 1, self.K):
            lower = self.D[i, j] / self.N[i, j] - math.sqrt(width / self.N[i, j])
            if self.C[j] - self.C[i] < lower:
                return False
        return True
