"""NUM-MK: rewards, several thresholds, known horizon and smallest mean (thesis, section 4.6)."""

from typing import ClassVar

from weakfeedback.allocation.common import TINY
from weakfeedback.allocation.policies.csb_mk import CsbMk


class NumMk(CsbMk):
    """Binary search for every arm's threshold when rewards are seen, then Thompson sampling with a knapsack.

    Allocations are those of CSB-MK. A reward lowers theta_u to the amount given; W rounds without a reward raise
    theta_l. Zeros wait in Z_i until a reward at the same amount proves that they are genuine. An arm that gets its
    estimate theta_hat (theta_u during the search) or more gives a true sample. The search tests the raw reward, x > 0;
    S and F use the bit of the binarisation trick. Rewards that are never 0 allow ``wait=1``.

    Deviations from the printed algorithm, with their reasons: ``docs/algorithms/num-mk.md``.

    Draws: in ``select`` one ``rng.beta(S[i], F[i])`` for each arm in index order, in every round. ``update`` draws one
    ``rng.random()`` for each arm whose S and F it changes with a reward strictly between 0 and 1, in index order.

    Parameters
    ----------
    arms, budget, epsilon, delta, gamma, distinct, search_max, wait, decimals, every
        As in CSB-MK; epsilon bounds the mean rewards.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm NUM-MK.
    A. Verma, M. K. Hanawal, Stochastic network utility maximization with unknown utilities, INFOCOM 2020.

    Examples
    --------
    Rewards that are never 0, so one round shows whether an amount suffices:

    >>> import numpy as np
    >>> policy, rng = NumMk(2, 1.0, epsilon=0.5, delta=0.1, gamma=0.01, wait=1), np.random.default_rng(0)
    >>> while not policy.found:
    ...     allocation = policy.select(rng)
    ...     policy.update(allocation, np.where(allocation >= [0.3, 0.6], 0.9, 0.0), rng)
    >>> policy.theta_hat.round(3).tolist()
    [0.305, 0.602]
    """

    in_short = "CSB-MK where rewards are seen, not losses"
    sample_options: ClassVar = {"epsilon": 0.1, "delta": 0.1, "gamma": 0.02}
    sample_problem = "rewards"
    delay_safe = True
    made_for = ("reward",)

    def update(self, allocation, observed, rng):
        """Learn from the rewards that were seen under this allocation (lines 19 to 24 and 27)."""
        self.keep_set(allocation)
        for i in range(self.K):
            gained = observed[i] > 0.0
            if allocation[i] >= self.theta_hat[i] - TINY:  # certainly served
                self.learn(i, observed[i], 0, rng)
            elif not self.theta_g[i] and allocation[i] > TINY:
                zeros = self.narrow(i, allocation[i], gained)
                if gained:
                    self.learn(i, observed[i], zeros, rng)
        self.advance()

    def narrow(self, i, amount, gained):
        """Narrow the interval of arm i, and return how many zeros a reward at this amount proves genuine."""
        if abs(amount - self.probed[i]) > TINY:
            self.probed[i] = amount
            self.Z[i] = 0
        zeros = self.Z[i]
        if gained:
            self.theta_u[i] = amount
            self.Z[i] = 0
            if amount <= self.theta_l[i] + TINY:  # late: theta_l was wrong
                self.theta_l[i] = 0.0
        elif amount > self.theta_l[i] + TINY:
            self.Z[i] += 1
            if self.Z[i] == self.W:
                self.theta_l[i] = amount
                self.Z[i] = 0
        self.settle(i)
        return zeros
