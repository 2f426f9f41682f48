"""NUM-SK: rewards, one threshold for all arms, known horizon and smallest mean (thesis, section 4.6)."""

from typing import ClassVar

from weakfeedback.allocation.common import count_served, some_positive
from weakfeedback.allocation.policies.csb_sk import CsbSk


class NumSk(CsbSk):
    """Binary search for a common threshold among Q/K, Q/(K-1), ..., Q when rewards are seen, not losses.

    Allocations are those of CSB-SK:

        A_t = top-M of mu_i ~ Beta(S_i, F_i),   a_i = Theta[j] = Q/M for i in A_t,   M = K - j + 1

    but a reward in A_t proves that Theta[j] suffices (u = j), and after W rounds without a reward it counts as too
    small (l = j + 1). Zeros seen at Theta[j] wait in Z_i until a reward proves that they are genuine. The search tests
    the raw reward, x > 0; S and F use the bit of the binarisation trick. Rewards that are never 0 allow ``wait=1``.

    Deviations from the printed algorithm: those of CSB-SK. Late feedback at a candidate known to suffice is a true
    sample of the arms served; at one found too small it is ignored.

    Draws: in ``select`` one ``rng.beta(S[i], F[i])`` for each arm in index order. ``update`` draws one ``rng.random()``
    for each arm whose S and F it changes with a reward strictly between 0 and 1, in index order (none for 0/1).

    Parameters
    ----------
    arms, budget, epsilon, delta, wait
        As in CSB-SK; epsilon bounds the mean rewards.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm NUM-SK.
    A. Verma, M. K. Hanawal, Stochastic network utility maximization with unknown utilities, INFOCOM 2020.

    Examples
    --------
    >>> import numpy as np
    >>> policy, rng = NumSk(arms=4, budget=2.0, epsilon=0.5, delta=0.1, wait=1), np.random.default_rng(0)
    >>> while not policy.found:
    ...     allocation = policy.select(rng)
    ...     policy.update(allocation, np.where(allocation >= 0.6, 0.9, 0.0), rng)
    >>> policy.theta_hat.round(3).tolist()
    [0.667, 0.667, 0.667, 0.667]
    """

    in_short = "CSB-SK where rewards are seen, not losses"
    sample_options: ClassVar = {"epsilon": 0.1, "delta": 0.1}
    sample_problem = "rewards"
    delay_safe = True
    made_for = ("reward",)

    def update(self, allocation, observed, rng):
        """Learn from the rewards that were seen under this allocation (lines 8 to 18)."""
        played = self.K - count_served(allocation) + 1
        if played >= self.u:  # the amount suffices, as it also does once the search has ended
            for i in range(self.K):
                if allocation[i] > 0.0:
                    self.learn(i, observed[i], 0.0, rng)
        elif played == self.j:
            if some_positive(allocation, observed):
                self.lower_candidate(allocation, observed, rng)
            else:
                self.count_empty_round(allocation)

    def lower_candidate(self, allocation, observed, rng):
        """Record a reward: Theta[j] suffices, and what was seen at it is genuine (lines 10 to 12)."""
        for i in range(self.K):
            if allocation[i] > 0.0:
                self.learn(i, observed[i], self.Z[i], rng)
            else:
                self.F[i] += self.Z[i]
            self.Z[i] = 0.0
        self.u = self.j
        self.next_candidate()

    def count_empty_round(self, allocation):
        """Count a round without a reward: after W such rounds Theta[j] is too small (lines 14 and 15)."""
        for i in range(self.K):
            if allocation[i] > 0.0:
                self.Z[i] += 1.0
        self.C += 1
        if self.C == self.W:
            for i in range(self.K):
                self.Z[i] = 0.0
            self.l = self.j + 1
            self.next_candidate()
