"""CSB-ST: the predecessor of CSB-SK, which learns the means only after the threshold (NeurIPS 2019)."""

from weakfeedback.allocation.common import count_served, some_positive
from weakfeedback.allocation.csb_sk import CsbSk
from weakfeedback.allocation.waiting import published_share, rounds_to_wait, wait_same
from weakfeedback.validate import MOST_ARMS, limited


class CsbSt(CsbSk):
    """Binary search for a common threshold first, Thompson sampling of the means afterwards.

    The search is that of CSB-SK, but S and F stay at 1 until it has ended, so that the M arms that get Q/M each
    are drawn at random meanwhile. Then MP-TS is played with the threshold found.

    W_delta is that of CSB-SK divided by max(1, floor(Q)) as published: thresholds are at most 1 there, and so many
    arms are tried together. The program of 2019 waited ``wait_program(arms, budget, epsilon, delta)`` rounds.

    The publication does not say which arms to try during the search; here it is left to the draws, as in CSB-SK.

    Draws: as CSB-SK; ``update`` draws nothing during the search.

    Parameters
    ----------
    arms, budget, epsilon, delta, wait
        As in CSB-SK.

    References
    ----------
    A. Verma, M. K. Hanawal, A. Rajkumar, R. Sankaran, Censored semi-bandits: a framework for resource allocation with
    censored feedback, NeurIPS 2019, algorithm CSB-ST.

    Examples
    --------
    >>> policy = CsbSt(arms=50, budget=15.0, epsilon=0.1, delta=1e-4)
    >>> policy.W, CsbSk(arms=50, budget=15.0, epsilon=0.1, delta=1e-4).W
    (7, 104)
    """

    delay_safe = True
    made_for = ("loss",)

    def __init__(self, arms, budget, epsilon, delta, wait=None):
        CsbSk.__init__(self, arms, budget, epsilon, delta)
        real = wait_same(limited("arms", arms, 1, MOST_ARMS), epsilon, delta) / published_share(self.Q)
        self.W = rounds_to_wait(wait, real)

    def update(self, allocation, observed, rng):
        """Learn from the losses that were seen under this allocation: the threshold, or the means."""
        played = self.K - count_served(allocation) + 1
        if self.found:
            if played < self.l:  # known to be too little: nothing was censored
                for i in range(self.K):
                    self.learn(i, observed[i], 0.0, rng)
            else:
                self.learn_outside(allocation, observed, rng)
        elif played == self.j:
            if some_positive(allocation, observed):
                self.l = self.j + 1
                self.next_candidate()
            else:
                self.C += 1
                if self.C == self.W:
                    self.u = self.j
                    self.next_candidate()
