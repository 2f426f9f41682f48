"""CSB-DT: the predecessor of CSB-DK; it learns the means only after the thresholds (NeurIPS 2019)."""

import math
from typing import ClassVar

import numpy as np

from weakfeedback.allocation.common import (
    SLACK,
    TINY,
    all_or_nothing,
    coin,
    draw_means,
    give_chosen,
    weight_of,
)
from weakfeedback.allocation.waiting import published_share, rounds_to_wait, wait_multiple
from weakfeedback.kernels.knapsack import pack_again
from weakfeedback.validate import brief, integer, number


class CsbDt:
    """Binary search for all thresholds at once with parts of the budget, CTS-Beta afterwards.

    Arm i's threshold lies in (theta_l, theta_u]. Every unknown arm holds a part h_i of the budget and gets exactly that
    part. A loss raises theta_l to h_i, W rounds without a loss lower theta_u to h_i. Then h_i moves to the middle of
    the interval: a surplus goes back to the free budget; what is missing comes from the free budget and, after a loss,
    from the last unknown arms. Known arms are served from the free budget, in index order. When all thresholds are
    known to within gamma, the arms KP(mu, theta_hat, Q) get theta_hat_i, with mu_i ~ Beta(S_i, F_i) from S = F = 1: the
    means are not learned before that.

    W_delta is that of CSB-MK divided by max(1, floor(Q)) as published. The program of 2019 waited
    ``wait_program(arms, budget, epsilon, delta)`` rounds, searched in [0, 1] to one digit more (``search_max=1``) and
    rounded the estimates (``decimals``).

    The publication does not say who gets what during the search; what is done here, and why, is in
    ``docs/algorithms/csb-dt.md``.

    Draws: none during the search. Afterwards one ``rng.beta(S[i], F[i])`` for each arm in index order in ``select``,
    and in ``update`` one ``rng.random()`` for each arm whose S and F it changes with a loss strictly between 0 and 1.

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
    Three places, a budget of 2: at first two arms hold 1/2 each, and the third holds 1.

    >>> policy = CsbDt(arms=3, budget=2.0, epsilon=0.1, delta=1e-4, gamma=0.01)
    >>> policy.W, policy.select(None).tolist()
    (59, [0.5, 0.5, 1.0])
    """

    in_short = "all thresholds at once with parts of the budget, then means"
    sample_options: ClassVar = {"epsilon": 0.1, "delta": 0.1, "gamma": 0.02}
    sample_problem = "different"
    delay_safe = True
    made_for = ("loss",)

    def __init__(
        self, arms, budget, epsilon, delta, gamma, search_max=None, wait=None, decimals=None, every=1
    ):
        self.K = integer("arms", arms, 1)
        self.Q = number("budget", budget, above=0.0)
        self.gamma = number("gamma", gamma, above=0.0)
        self.top = self.Q if search_max is None else number("search_max", search_max, above=0.0)
        if self.top > self.Q * (1.0 + SLACK):
            raise ValueError(f"search_max must be at most the budget {self.Q:g}, got {brief(search_max)}")
        real = wait_multiple(self.K, epsilon, delta, self.top, self.gamma)
        self.W = rounds_to_wait(wait, real / published_share(self.Q))
        self.N = integer("every", every, 1)
        self.scale = 0.0 if decimals is None else 10.0 ** integer("decimals", decimals, 0, 12)
        self.S = np.ones(self.K)  # S[i] - 1 losses of arm i after the search, certainly not served
        self.F = np.ones(self.K)  # F[i] - 1 rounds without a loss there
        self.Z = np.zeros(self.K, dtype=np.int64)  # rounds without a loss at probed[i]
        self.probed = np.zeros(self.K)  # the amount at which arm i was last without a loss
        self.theta_l = np.zeros(self.K)
        self.theta_u = np.full(self.K, self.top)
        self.theta_g = np.zeros(self.K, dtype=np.bool_)  # whether the threshold is known to within gamma
        self.theta_hat = np.full(self.K, self.top)  # the estimate: theta_u, rounded once it is good
        self.h = np.zeros(self.K)  # the part of the budget that each unknown arm holds
        self.free = self.Q  # the free budget
        m = min(self.K, math.floor(self.Q * (1.0 + SLACK)))
        for i in range(self.K):
            self.h[i] = min(self.top / 2.0, self.Q / (2 * m if i < m else 2 * (self.K - m)), self.free)
            self.free -= self.h[i]
        self.moved = np.zeros(self.K, dtype=np.bool_)  # arms whose part was taken in this update
        self.found = False
        self.A = np.zeros(self.K, dtype=np.bool_)  # the set that was served last, after the search
        self.phase = 0  # feedbacks after the search

    def select(self, rng):
        """Return the allocation of this round."""
        if not self.found:
            return self.explore()
        mu = draw_means(self.S, self.F, rng)
        if self.phase % self.N != 0 and weight_of(self.A, self.theta_hat) <= self.Q * (1.0 + SLACK):
            return give_chosen(self.A, self.theta_hat)
        return give_chosen(pack_again(mu, self.theta_hat, self.Q, self.A), self.theta_hat)

    def explore(self):
        """Give unknown arms their parts, and serve known arms from the free budget."""
        allocation = np.zeros(self.K)
        left = self.free
        for i in range(self.K):
            if not self.theta_g[i]:
                allocation[i] = self.h[i]
            elif self.theta_hat[i] <= left + SLACK * self.Q:
                allocation[i] = self.theta_hat[i]
                left -= self.theta_hat[i]
        return allocation

    def update(self, allocation, observed, rng):
        """Learn from the losses that were seen under this allocation: the thresholds, or the means."""
        if self.found:
            self.keep_set(allocation)
            for i in range(self.K):
                if allocation[i] <= self.theta_l[i] + TINY:  # certainly not served
                    self.learn(i, observed[i], rng)
        else:
            self.search(allocation, observed)

    def search(self, allocation, observed):
        """Narrow the intervals of the unknown arms in index order, and redistribute the budget."""
        for i in range(self.K):
            self.moved[i] = False
        self.found = True
        for i in range(self.K):
            if not self.theta_g[i] and not self.moved[i]:
                lost = observed[i] > 0.0
                self.narrow(i, allocation[i], lost)
                if self.theta_u[i] - self.theta_l[i] <= self.gamma + TINY:
                    self.settle(i)
                else:
                    self.share(i, lost)
            self.found = self.found and self.theta_g[i]

    def narrow(self, i, amount, lost):
        """Narrow the interval of arm i by the outcome at this amount."""
        if lost:
            self.theta_l[i] = max(self.theta_l[i], amount)
            self.Z[i] = 0
            if amount >= self.theta_u[i] - TINY:  # late: theta_u was wrong
                self.theta_u[i] = self.top
        elif amount > self.theta_l[i] + TINY and amount < self.theta_u[i] - TINY:
            if abs(amount - self.probed[i]) > TINY:
                self.probed[i] = amount
                self.Z[i] = 0
            self.Z[i] += 1
            if self.Z[i] == self.W:
                self.theta_u[i] = amount
                self.Z[i] = 0
        self.theta_hat[i] = self.theta_u[i]

    def settle(self, i):
        """Mark arm i as known: round its estimate if required, and free its part."""
        self.theta_g[i] = True
        if self.scale > 0.0:
            self.theta_hat[i] = math.floor(self.theta_u[i] * self.scale + 0.5) / self.scale
        self.free += self.h[i]
        self.h[i] = 0.0

    def share(self, i, lost):
        """Move the part of arm i to the middle of its interval, as far as the budget allows."""
        mid = (self.theta_l[i] + self.theta_u[i]) / 2.0
        if self.h[i] > mid:
            self.free += self.h[i] - mid
            self.h[i] = mid
        elif self.h[i] <= self.theta_l[i]:
            short = mid - self.h[i]
            given = min(short, self.free)
            self.free -= given
            self.h[i] += given
            short -= given
            for k in range(self.K - 1, i, -1):
                if lost and short > 0.0 and self.h[k] > 0.0:  # known arms hold nothing
                    given = min(short, self.h[k])
                    self.h[k] -= given
                    self.h[i] += given
                    short -= given
                    self.moved[k] = True

    def keep_set(self, allocation):
        """Record the set that was served, if this is feedback of a round after the search."""
        if all_or_nothing(allocation, self.theta_hat):
            self.phase += 1
            for i in range(self.K):
                self.A[i] = allocation[i] > 0.0

    def learn(self, i, x, rng):
        """Add an outcome of arm i."""
        bit = coin(x, rng)
        self.S[i] += bit
        self.F[i] += 1.0 - bit
