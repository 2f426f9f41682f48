"""CSB-DU: several thresholds, only their precision known (thesis, section 4.4.2)."""

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
from weakfeedback.kernels.knapsack import pack_again
from weakfeedback.validate import MOST_ARMS, brief, integer, limited, number

CELLS = 100_000_000  # maximum number of amounts kept, of all arms
LEVELS = 4096  # maximum number of amounts with pending zeros kept per arm


class CsbDu:
    """Linear search for every arm's threshold in steps of gamma, with Thompson sampling of the means; anytime.

    Arm i's threshold is known to exceed L_i, and L_i + gamma is its estimate. While the budget covers all estimates,
    every arm gets something: L_i + gamma where L_i > 0, an equal share of the rest where L_i = 0. Afterwards

        A_t = KP(mu, L + gamma, Q),   mu_i ~ Beta(S_i, F_i),   a_i = L_i + gamma for i in A_t.

    A loss at a_i gives L_i = max(L_i, a_i). S_i - 1 losses and F_i - 1 rounds without a loss were seen of arm i where
    it was certainly not served. Zeros wait in Z_i, counted by amount: a loss proves that those at its amount and below
    are genuine.

    Deviations from the printed algorithm, with their reasons: ``docs/algorithms/csb-du.md``.

    Draws: in ``select`` one ``rng.beta(S[i], F[i])`` for each arm in index order, in every round. ``update`` draws one
    ``rng.random()`` for each arm whose S and F it changes with a loss strictly between 0 and 1, in index order.

    Parameters
    ----------
    arms, budget
        K and Q.
    gamma : number > 0
        The step. Safe up to ``problem.gamma``, which a learner does not know; the regret grows like 1 / gamma.
    every : integer >= 1
        Solve the knapsack once in this many rounds, and whenever the current set no longer fits.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm CSB-DU.

    Examples
    --------
    >>> from weakfeedback.allocation import AllocationProblem
    >>> problem = AllocationProblem([0.9, 0.8, 0.7], [0.3, 0.7, 0.3], budget=1.1)
    >>> policy, rng, loss = CsbDu(3, 1.1, gamma=0.03), np.random.default_rng(0), np.zeros(3)
    >>> for _ in range(300):
    ...     problem.world().draw(loss, rng)
    ...     allocation = policy.select(rng)
    ...     policy.update(allocation, np.where(allocation < problem.thresholds, loss, 0.0), rng)
    >>> problem.really_equivalent(policy.theta_hat)
    True
    """

    in_short = "each arm's threshold by linear search; anytime"
    sample_options: ClassVar = {"gamma": 0.02}
    sample_problem = "different"
    delay_safe = True
    made_for = ("loss",)

    def __init__(self, arms, budget, gamma, every=1):
        self.K = limited("arms", arms, 1, MOST_ARMS)
        self.Q = number("budget", budget, above=0.0)
        self.gamma = number("gamma", gamma, above=0.0)
        self.N = integer("every", every, 1)
        self.S = np.ones(self.K)  # S[i] - 1 losses of arm i, where it was certainly not served
        self.F = np.ones(self.K)  # F[i] - 1 rounds without a loss there
        self.L = np.zeros(self.K)  # the threshold of arm i is larger than this
        self.theta_hat = np.full(self.K, self.gamma)  # L + gamma
        # the equal share falls with every loss, and the budget allows Q / gamma losses
        size = math.ceil(min(LEVELS, self.Q / self.gamma + self.K + 2.0))
        if self.K * size > CELLS:
            raise ValueError(f"arms must be at most {CELLS // size} for this gamma, got {brief(arms)}")
        self.levels = np.zeros((self.K, size))  # Z_i: amounts larger than L_i, increasing, ...
        self.counts = np.zeros((self.K, size), dtype=np.int64)  # ... with the zeros seen at each
        self.used = np.zeros(self.K, dtype=np.int64)
        self.A = np.zeros(self.K, dtype=np.bool_)  # the set that was served last, in the second phase
        self.phase = 0  # feedbacks of the second phase

    def select(self, rng):
        """Return the allocation of this round (lines 4 to 9)."""
        mu = draw_means(self.S, self.F, rng)
        if self.can_pay_all():
            return self.share()
        if self.phase % self.N != 0 and weight_of(self.A, self.theta_hat) <= self.Q * (1.0 + SLACK):
            return give_chosen(self.A, self.theta_hat)
        return give_chosen(pack_again(mu, self.theta_hat, self.Q, self.A), self.theta_hat)

    def can_pay_all(self):
        """Whether every arm can get its estimate (line 5)."""
        total = 0.0
        for i in range(self.K):
            total += self.theta_hat[i]
        return total <= self.Q * (1.0 + SLACK)

    def share(self):
        """Return L_i + gamma for arms that had a loss, and equal shares of the rest for the others."""
        left = 0.0
        untouched = 0
        for i in range(self.K):
            if self.L[i] > 0.0:
                left += self.theta_hat[i]
            else:
                untouched += 1
        left = self.Q - left
        allocation = np.empty(self.K)
        for i in range(self.K):
            allocation[i] = self.theta_hat[i] if self.L[i] > 0.0 else left / untouched
        return allocation

    def update(self, allocation, observed, rng):
        """Learn from the losses that were seen under this allocation (lines 10 to 19)."""
        if not self.can_pay_all() and all_or_nothing(allocation, self.theta_hat):
            self.phase += 1
            for i in range(self.K):
                self.A[i] = allocation[i] > 0.0
        for i in range(self.K):
            if allocation[i] <= self.L[i] + TINY:  # certainly not served
                self.learn(i, observed[i], 0, rng)
            elif observed[i] > 0.0:
                self.L[i] = allocation[i]
                self.theta_hat[i] = self.L[i] + self.gamma
                self.learn(i, observed[i], self.release(i), rng)
            else:
                self.count_zero(i, allocation[i])

    def release(self, i):
        """Return the zeros seen at amounts up to L_i, and forget them."""
        zeros = 0
        gone = 0
        while gone < self.used[i] and self.levels[i, gone] <= self.L[i] + TINY:
            zeros += self.counts[i, gone]
            gone += 1
        self.used[i] -= gone
        for k in range(self.used[i]):
            self.levels[i, k] = self.levels[i, k + gone]
            self.counts[i, k] = self.counts[i, k + gone]
        return zeros

    def count_zero(self, i, amount):
        """Add a zero seen at this amount to Z_i."""
        k = 0
        while k < self.used[i] and self.levels[i, k] < amount - TINY:
            k += 1
        full = self.used[i] == self.levels.shape[1]
        if k < self.used[i] and (full or self.levels[i, k] <= amount + TINY):
            self.counts[i, k] += 1
        elif full:
            self.counts[i, k - 1] += 1
            self.levels[i, k - 1] = amount
        else:
            for m in range(self.used[i], k, -1):
                self.levels[i, m] = self.levels[i, m - 1]
                self.counts[i, m] = self.counts[i, m - 1]
            self.levels[i, k] = amount
            self.counts[i, k] = 1
            self.used[i] += 1

    def learn(self, i, x, zeros, rng):
        """Add an outcome of arm i, and zeros that turned out to be genuine."""
        bit = coin(x, rng)
        self.S[i] += bit
        self.F[i] += 1.0 - bit + zeros
