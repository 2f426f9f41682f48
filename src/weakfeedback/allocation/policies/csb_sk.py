"""CSB-SK: one threshold for all arms, known horizon and smallest mean (thesis, section 4.3.1)."""

from typing import ClassVar

import numpy as np

from weakfeedback.allocation.common import coin, count_served, draw_means, give_top, some_positive
from weakfeedback.allocation.waiting import rounds_to_wait, wait_same
from weakfeedback.validate import MOST_ARMS, limited, number


class CsbSk:
    """Binary search for a common threshold among Q/K, Q/(K-1), ..., Q, with Thompson sampling of the means.

    In every round the M arms with the largest draws get Q/M each:

        A_t = top-M of mu_i ~ Beta(S_i, F_i),   a_i = Theta[j] = Q/M for i in A_t,   M = K - j + 1

    A loss in A_t proves that Theta[j] is too small (l = j + 1); after W rounds without a loss it is accepted (u = j);
    then j = floor((l + u) / 2). The search ends when j = u. S_i - 1 losses and F_i - 1 rounds without a loss were seen
    of arm i where it was certainly not served. Zeros seen at Theta[j] wait in Z_i until a loss proves that they are
    genuine.

    W_delta = log(log2(K) / delta) / log(1 / (1 - epsilon)), rounded up: over the whole search, the probability that a
    loss with mean at least epsilon fails to occur for so long is at most delta.

    Deviations from the printed algorithm, with their reasons: ``docs/algorithms/csb-sk.md``.

    Draws: in ``select`` one ``rng.beta(S[i], F[i])`` for each arm in index order. ``update`` draws one ``rng.random()``
    for each arm whose S and F it changes with a loss strictly between 0 and 1, in index order (none for 0/1).

    Parameters
    ----------
    arms, budget
        K and Q.
    epsilon : number in (0, 1)
        A lower bound on the mean losses.
    delta : number in (0, 1)
        The accepted probability of a wrong threshold.
    wait : integer >= 1, optional
        W, instead of the formula.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm CSB-SK.
    J. Komiyama, J. Honda, H. Nakagawa, Optimal regret analysis of Thompson sampling in multiple-play
    multi-armed bandits, ICML 2015.

    Examples
    --------
    Ten places, a budget of 3, losses at every place that gets less than .5: six can be served.

    >>> from weakfeedback.allocation import AllocationProblem
    >>> problem = AllocationProblem(np.linspace(0.9, 0.45, 10), [0.5] * 10, budget=3.0)
    >>> policy, rng, loss = CsbSk(10, 3.0, epsilon=0.4, delta=0.01), np.random.default_rng(0), np.zeros(10)
    >>> for _ in range(200):
    ...     problem.world().draw(loss, rng)
    ...     allocation = policy.select(rng)
    ...     policy.update(allocation, np.where(allocation < 0.5, loss, 0.0), rng)
    >>> policy.found, float(policy.theta_hat[0])
    (True, 0.5)
    """

    in_short = "common threshold by binary search, Thompson sampling"
    sample_options: ClassVar = {"epsilon": 0.1, "delta": 0.1}
    delay_safe = True
    made_for = ("loss",)

    def __init__(self, arms, budget, epsilon, delta, wait=None):
        self.K = limited("arms", arms, 1, MOST_ARMS)
        self.Q = number("budget", budget, above=0.0)
        self.W = rounds_to_wait(wait, wait_same(self.K, epsilon, delta))
        self.S = np.ones(self.K)  # S[i] - 1 losses of arm i, where it was certainly not served
        self.F = np.ones(self.K)  # F[i] - 1 rounds without a loss there
        self.Z = np.zeros(self.K)  # rounds without a loss at the candidate j
        self.C = 0  # rounds without any loss at the candidate j
        self.l = 1  # candidates count from 1, as printed: Theta[j] = Q / (K - j + 1)
        self.u = self.K
        self.j = (self.l + self.u) // 2
        self.found = self.j == self.u
        self.theta_hat = np.full(self.K, self.Q / (self.K - self.j + 1))

    def select(self, rng):
        """Return the allocation: Theta[j] for the arms with the largest draws (lines 5 to 7)."""
        M = self.K - self.j + 1
        return give_top(draw_means(self.S, self.F, rng), M, self.Q / M)

    def update(self, allocation, observed, rng):
        """Learn from the losses that were seen under this allocation (lines 8 to 19)."""
        played = self.K - count_served(allocation) + 1
        if played < self.l:  # the amount is known to be too small: nothing was censored
            for i in range(self.K):
                self.learn(i, observed[i], 0.0, rng)
        elif played == self.j and not self.found:
            if some_positive(allocation, observed):
                self.raise_candidate(observed, rng)
            else:
                self.count_quiet_round(allocation)
                self.learn_outside(allocation, observed, rng)
        else:
            self.learn_outside(allocation, observed, rng)

    def raise_candidate(self, observed, rng):
        """Record a loss: Theta[j] is too small, and what was seen at it is genuine (lines 10 and 11)."""
        for i in range(self.K):
            self.learn(i, observed[i], self.Z[i], rng)
            self.Z[i] = 0.0
        self.l = self.j + 1
        self.next_candidate()

    def count_quiet_round(self, allocation):
        """Count a round without a loss: after W such rounds Theta[j] suffices (lines 13 and 14)."""
        for i in range(self.K):
            if allocation[i] > 0.0:
                self.Z[i] += 1.0
        self.C += 1
        if self.C == self.W:
            for i in range(self.K):
                self.Z[i] = 0.0
            self.u = self.j
            self.next_candidate()

    def next_candidate(self):
        """Continue in the middle of the remaining candidates."""
        self.C = 0
        self.j = (self.l + self.u) // 2
        self.found = self.j == self.u
        for i in range(self.K):
            self.theta_hat[i] = self.Q / (self.K - self.j + 1)

    def learn_outside(self, allocation, observed, rng):
        """Learn from the arms that got nothing."""
        for i in range(self.K):
            if allocation[i] <= 0.0:
                self.learn(i, observed[i], 0.0, rng)

    def learn(self, i, x, zeros, rng):
        """Add an outcome of arm i, and zeros that turned out to be genuine."""
        bit = coin(x, rng)
        self.S[i] += bit
        self.F[i] += 1.0 - bit + zeros
