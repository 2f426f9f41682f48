"""A policy that chapter 4 omits: confidence bounds where CTS-Beta and MP-TS sample. For comparison only."""

import math

import numpy as np

from weakfeedback.allocation.common import SLACK, give_chosen, give_top
from weakfeedback.kernels.knapsack import pack
from weakfeedback.validate import integer, number, vector


class KnownThresholdsUcb:
    """Confidence bounds for the mean losses when the thresholds are given (SDCB, which is CUCB for 0/1 losses).

    The learner is optimistic about the arms it does not serve, so it serves the set

        A_t = KP(low, theta, Q),   low_i = max(0, m_i - sqrt(1.5 log t / N_i)),

    with m_i the mean of N_i losses seen, low_i = 0 before the first. With one threshold for all arms, A_t is the M arms
    with the largest low_i.

    Draws: none.

    Parameters
    ----------
    arms, budget
        K and Q.
    thresholds : K numbers >= 0

    References
    ----------
    W. Chen, W. Hu, F. Li, J. Li, Y. Liu, P. Lu, Combinatorial multi-armed bandit with general reward functions, NIPS
    2016.

    Examples
    --------
    >>> policy = KnownThresholdsUcb(3, budget=1.0, thresholds=[0.4, 0.4, 0.4])
    >>> policy.select(None).tolist()
    [0.4, 0.4, 0.0]
    """

    delay_safe = True
    made_for = ("loss",)

    def __init__(self, arms, budget, thresholds):
        self.K = integer("arms", arms, 1)
        self.Q = number("budget", budget, above=0.0)
        self.theta_hat = vector("thresholds", thresholds, at_least=0.0, size=self.K)
        low, high = self.theta_hat.min(), self.theta_hat.max()
        same = high > 0.0 and high - low <= SLACK * high
        self.M = min(self.K, math.floor(self.Q / high * (1.0 + SLACK))) if same else 0  # 0: thresholds differ
        self.total = np.zeros(self.K)  # losses seen of arm i
        self.N = np.zeros(self.K)  # rounds in which it was not served
        self.t = 1
        self.found = True

    def select(self, rng):
        """Return the allocation of this round."""
        low = np.zeros(self.K)
        for i in range(self.K):
            if self.N[i] > 0.0:
                radius = math.sqrt(1.5 * math.log(self.t) / self.N[i])
                low[i] = max(0.0, self.total[i] / self.N[i] - radius)
        if self.M > 0:
            return give_top(low, self.M, self.theta_hat[0])
        return give_chosen(pack(low, self.theta_hat, self.Q), self.theta_hat)

    def update(self, allocation, observed, rng):
        """Learn from the losses that were not censored."""
        self.t += 1
        for i in range(self.K):
            if allocation[i] < self.theta_hat[i] * (1.0 - SLACK):
                self.total[i] += observed[i]
                self.N[i] += 1.0
