"""MP-TS and CTS-Beta with known thresholds: what it costs to learn the means alone (thesis, section 4.3)."""

import math
from typing import ClassVar

import numpy as np

from weakfeedback.allocation.common import (
    SLACK,
    all_or_nothing,
    coin,
    draw_means,
    give_chosen,
    give_top,
    weight_of,
)
from weakfeedback.kernels.knapsack import pack_again
from weakfeedback.validate import MOST_ARMS, integer, limited, number, one_of, vector


class KnownThresholds:
    """Thompson sampling of the means with given thresholds: the reference for all other policies.

    With one threshold for all arms this is MP-TS, the M = min(K, floor(Q / theta)) arms with the largest draws get
    theta; otherwise it is CTS-Beta:

        A_t = KP(mu, theta, Q),   mu_i ~ Beta(S_i, F_i),   a_i = theta_i for i in A_t.

    Losses are learned from arms that are not served, rewards from those that are.

    Draws: in ``select`` one ``rng.beta(S[i], F[i])`` for each arm in index order, in every round. ``update`` draws one
    ``rng.random()`` for each arm whose S and F it changes with an outcome strictly between 0 and 1, in index order.

    Parameters
    ----------
    arms, budget
        K and Q.
    thresholds : K numbers >= 0
    setting : "loss" or "reward"
    every : integer >= 1
        Solve the knapsack once in this many rounds and keep the set in between (different thresholds only).

    References
    ----------
    J. Komiyama, J. Honda, H. Nakagawa, Optimal regret analysis of Thompson sampling in multiple-play
    multi-armed bandits, ICML 2015.
    P. Perrault, E. Boursier, V. Perchet, M. Valko, Statistical efficiency of Thompson sampling for combinatorial
    semi-bandits, NeurIPS 2020.

    Examples
    --------
    >>> policy = KnownThresholds(3, budget=1.0, thresholds=[0.4, 0.4, 0.4])
    >>> policy.M, policy.select(np.random.default_rng(0)).tolist()
    (2, [0.0, 0.4, 0.4])
    """

    in_short = "the thresholds are given: the reference for all others"
    sample_options: ClassVar = {"thresholds": (0.5, 0.5, 0.5, 0.5)}
    delay_safe = True
    made_for = ("loss", "reward")
    takes_gaps = True  # NaN among the observed outcomes says that there is no report

    def __init__(self, arms, budget, thresholds, setting="loss", every=1):
        self.K = limited("arms", arms, 1, MOST_ARMS)
        self.Q = number("budget", budget, above=0.0)
        self.theta_hat = vector("thresholds", thresholds, at_least=0.0, size=self.K)
        self.reward = one_of("setting", setting, ("loss", "reward")) == "reward"
        self.N = integer("every", every, 1)
        low, high = float(self.theta_hat.min()), float(self.theta_hat.max())
        same = high > 0.0 and high - low <= SLACK * high
        self.M = math.floor(min(self.K, self.Q / high * (1.0 + SLACK))) if same else 0  # 0: thresholds differ
        self.S = np.ones(self.K)  # S[i] - 1 ones seen of arm i
        self.F = np.ones(self.K)  # F[i] - 1 zeros
        self.found = True
        self.A = np.zeros(self.K, dtype=np.bool_)  # the set that was served last
        self.phase = 0  # feedbacks so far

    def select(self, rng):
        """Return the allocation of this round."""
        mu = draw_means(self.S, self.F, rng)
        if self.M > 0:
            return give_top(mu, self.M, self.theta_hat[0])
        if self.phase % self.N != 0 and weight_of(self.A, self.theta_hat) <= self.Q * (1.0 + SLACK):
            return give_chosen(self.A, self.theta_hat)
        return give_chosen(pack_again(mu, self.theta_hat, self.Q, self.A), self.theta_hat)

    def update(self, allocation, observed, rng):
        """Learn from the outcomes that were not censored."""
        if all_or_nothing(allocation, self.theta_hat):
            self.phase += 1
            for i in range(self.K):
                self.A[i] = allocation[i] > 0.0
        for i in range(self.K):
            served = allocation[i] >= self.theta_hat[i] * (1.0 - SLACK)
            if served == self.reward and observed[i] == observed[i]:  # NaN: no report for this arm
                bit = coin(observed[i], rng)
                self.S[i] += bit
                self.F[i] += 1.0 - bit
