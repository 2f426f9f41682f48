"""CSB-DT: the predecessor of CSB-DK, which learns the means only after the thresholds (NeurIPS 2019)."""

from weakfeedback.allocation.common import TINY
from weakfeedback.allocation.csb_mk import CsbMk
from weakfeedback.allocation.waiting import published_share, rounds_to_wait, wait_multiple


class CsbDt(CsbMk):
    """Binary search for every arm's threshold first, CTS-Beta afterwards.

    The search is that of CSB-DK (CSB-MK without ``distinct``), but S and F stay at 1 until it has ended: known arms are
    served in a random order meanwhile. Then KP(mu, theta_hat, Q) is played with mu_i ~ Beta(S_i, F_i).

    W_delta is that of CSB-MK divided by max(1, floor(Q)) as published. The program of 2019 waited
    ``wait_program(arms, budget, epsilon, delta)`` rounds, searched in [0, 1] to one digit more (``search_max=1``) and
    rounded the estimates (``decimals``); it also tried arms at whatever part of the budget was left, which is
    not done here.

    Draws: as CSB-MK; ``update`` draws nothing during the search.

    Parameters
    ----------
    arms, budget, epsilon, delta, gamma, search_max, wait, decimals, every
        As in CSB-MK.

    References
    ----------
    A. Verma, M. K. Hanawal, A. Rajkumar, R. Sankaran, Censored semi-bandits: a framework for resource allocation with
    censored feedback, NeurIPS 2019, algorithm CSB-DT.

    Examples
    --------
    >>> policy = CsbDt(arms=10, budget=3.0, epsilon=0.1, delta=1e-4, gamma=0.01)
    >>> policy.W, CsbMk(arms=10, budget=3.0, epsilon=0.1, delta=1e-4, gamma=0.01).W
    (44, 130)
    """

    delay_safe = True
    made_for = ("loss",)

    def __init__(
        self, arms, budget, epsilon, delta, gamma, search_max=None, wait=None, decimals=None, every=1
    ):
        CsbMk.__init__(
            self,
            arms,
            budget,
            epsilon,
            delta,
            gamma,
            search_max=search_max,
            decimals=decimals,
            every=every,
        )
        real = wait_multiple(self.K, epsilon, delta, self.top, self.gamma)
        self.W = rounds_to_wait(wait, real / published_share(self.Q))

    def update(self, allocation, observed, rng):
        """Learn from the losses that were seen under this allocation: the thresholds, or the means."""
        self.keep_set(allocation)
        learning = self.found
        for i in range(self.K):
            if allocation[i] <= self.theta_l[i] + TINY:  # surely not served
                if learning:
                    self.learn(i, observed[i], 0, rng)
            elif not self.theta_g[i]:
                self.narrow(i, allocation[i], observed[i] > 0.0)
        self.advance()
