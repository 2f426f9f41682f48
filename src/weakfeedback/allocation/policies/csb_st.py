"""CSB-ST: the predecessor of CSB-SK; it learns the means only after the threshold (NeurIPS 2019)."""

import math
from typing import ClassVar

from weakfeedback.allocation.common import SLACK, count_served, some_positive
from weakfeedback.allocation.policies.csb_sk import CsbSk
from weakfeedback.allocation.waiting import published_share, rounds_to_wait, wait_same
from weakfeedback.validate import MOST_ARMS, limited, number


class CsbSt(CsbSk):
    """Binary search for a common threshold first, Thompson sampling of the means afterwards.

    The search is that of CSB-SK, but S and F stay at 1 until it has ended, so that the M arms that get Q/M each
    are drawn at random meanwhile. Then MP-TS is played with the threshold found.

    W_delta is that of CSB-SK divided by max(1, floor(Q)), as published: there thresholds are at most 1, so that many
    arms are tried together. The program of 2019 waited ``wait_program(arms, budget, epsilon, delta)`` rounds.

    The publication does not say which arms to try during the search; here the draws decide, as in CSB-SK. The
    authors' program also drops candidates above 1 (``search_max=1``).

    Draws: as CSB-SK; ``update`` draws nothing during the search.

    Parameters
    ----------
    arms, budget, epsilon, delta, wait
        As in CSB-SK.
    search_max : number > 0, optional
        The largest threshold that is searched: candidates above it are dropped (Q/K stays). W does not change.

    References
    ----------
    A. Verma, M. K. Hanawal, A. Rajkumar, R. Sankaran, Censored semi-bandits: a framework for resource allocation with
    censored feedback, NeurIPS 2019, algorithm CSB-ST.

    Examples
    --------
    >>> policy = CsbSt(arms=50, budget=15.0, epsilon=0.1, delta=1e-4)
    >>> policy.W, CsbSk(arms=50, budget=15.0, epsilon=0.1, delta=1e-4).W
    (7, 104)
    >>> CsbSt(50, 15.0, 0.1, 1e-4, search_max=1.0).u, policy.u  # 15/15 is the largest candidate, not 15/1
    (36, 50)
    """

    in_short = "common threshold first, means afterwards"
    sample_options: ClassVar = {"epsilon": 0.1, "delta": 0.1}
    delay_safe = True
    made_for = ("loss",)

    def __init__(self, arms, budget, epsilon, delta, wait=None, search_max=None):
        CsbSk.__init__(self, arms, budget, epsilon, delta)
        real = wait_same(limited("arms", arms, 1, MOST_ARMS), epsilon, delta) / published_share(self.Q)
        self.W = rounds_to_wait(wait, real)
        if search_max is not None:
            top = number("search_max", search_max, above=0.0)
            fewest = min(float(self.K), self.Q / top * (1.0 - SLACK))  # Q/M <= top
            self.u = self.K + 1 - max(1, math.ceil(fewest))
            self.next_candidate()

    def update(self, allocation, observed, rng):
        """Learn from the losses that were seen under this allocation: the threshold, or the means."""
        played = self.K - count_served(allocation) + 1
        if self.found:
            if played < self.l:  # the amount is known to be too small: nothing was censored
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
