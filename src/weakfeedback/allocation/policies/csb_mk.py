"""CSB-MK and CSB-DK: several thresholds, known horizon and smallest mean (thesis, section 4.3.2)."""

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
from weakfeedback.allocation.waiting import rounds_to_wait, wait_multiple
from weakfeedback.kernels.knapsack import pack_again
from weakfeedback.kernels.loops import rank_down
from weakfeedback.validate import MOST_ARMS, brief, integer, limited, number


class CsbMk:
    """Binary search for every arm's threshold, then Thompson sampling with a knapsack (CTS-Beta).

    Arm i's threshold is known to lie in (theta_l, theta_u]. Until it is known to within gamma, the arm is tried
    at the middle: a loss raises theta_l to the amount given, W rounds without a loss lower theta_u. Such unknown arms
    get their trial amounts first, in index order; then known arms get theta_u, in the order of

        mu_i / theta_u,i,   mu_i ~ Beta(S_i, F_i)

    while budget is left. When all thresholds are known, the arms KP(mu, theta_hat, Q) get theta_hat_i.

    If only n < K thresholds are different (``distinct``), the first unknown arm is tried at thresholds already found,
    Theta_n, before the middle of its interval. Only that n < K is used, not its value. Without ``distinct``, or with
    ``distinct=arms``, this is CSB-DK.

    W_delta = log(K log2(ceil(1 + Q/gamma)) / delta) / log(1 / (1 - epsilon)), rounded up.

    Deviations from the printed algorithm, whose regret is linear: ``docs/algorithms/csb-mk.md``.

    Draws: in ``select`` one ``rng.beta(S[i], F[i])`` for each arm in index order, in every round. ``update`` draws one
    ``rng.random()`` for each arm whose S and F it changes with a loss strictly between 0 and 1, in index order.

    Parameters
    ----------
    arms, budget
        K and Q.
    epsilon, delta : numbers in (0, 1)
        A lower bound on the mean losses; the accepted probability of a wrong threshold.
    gamma : number > 0
        How precisely thresholds are found. Safe up to ``problem.gamma``, which a learner does not know.
    distinct : integer from 1 to K, optional
        n, the number of different thresholds.
    search_max : number > 0 and at most Q, optional
        The largest threshold that is searched, Q if left out. The program of 2019 has 1.
    wait : integer >= 1, optional
        W, instead of the formula.
    decimals : integer >= 0, optional
        Round the estimates to this many decimals, as the program of 2019 does (after a search to one digit more).
        Right only if the true thresholds have no more decimals.
    every : integer >= 1
        Solve the knapsack in the first round after the search and then once in this many rounds; keep the set in
        between.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, algorithm CSB-MK.
    P. Perrault, E. Boursier, V. Perchet, M. Valko, Statistical efficiency of Thompson sampling for combinatorial
    semi-bandits, NeurIPS 2020.

    Examples
    --------
    >>> from weakfeedback.allocation import AllocationProblem
    >>> problem = AllocationProblem([0.9, 0.8, 0.7], [0.3, 0.7, 0.3], budget=1.1)
    >>> policy, rng, loss = CsbMk(3, 1.1, epsilon=0.5, delta=0.01, gamma=0.01), np.random.default_rng(0), np.zeros(3)
    >>> for _ in range(600):
    ...     problem.world().draw(loss, rng)
    ...     allocation = policy.select(rng)
    ...     policy.update(allocation, np.where(allocation < problem.thresholds, loss, 0.0), rng)
    >>> policy.found, problem.really_equivalent(policy.theta_hat), (policy.theta_hat - problem.thresholds).max() < 0.01
    (True, True, np.True_)
    """

    in_short = "each arm's threshold by binary search, then a knapsack"
    sample_options: ClassVar = {"epsilon": 0.1, "delta": 0.1, "gamma": 0.02}
    sample_problem = "different"
    delay_safe = True
    made_for = ("loss",)

    def __init__(
        self,
        arms,
        budget,
        epsilon,
        delta,
        gamma,
        distinct=None,
        search_max=None,
        wait=None,
        decimals=None,
        every=1,
    ):
        self.K = limited("arms", arms, 1, MOST_ARMS)
        self.Q = number("budget", budget, above=0.0)
        self.gamma = number("gamma", gamma, above=0.0)
        self.top = self.Q if search_max is None else number("search_max", search_max, above=0.0)
        if self.top > self.Q * (1.0 + SLACK):
            raise ValueError(f"search_max must be at most the budget {self.Q:g}, got {brief(search_max)}")
        self.W = rounds_to_wait(wait, wait_multiple(self.K, epsilon, delta, self.top, self.gamma))
        self.N = integer("every", every, 1)
        self.scale = 0.0 if decimals is None else 10.0 ** integer("decimals", decimals, 0, 12)
        self.many = distinct is not None and integer("distinct", distinct, 1, self.K) < self.K  # n < K
        self.S = np.ones(self.K)  # S[i] - 1 losses of arm i, where it was certainly not served
        self.F = np.ones(self.K)  # F[i] - 1 rounds without a loss there
        self.Z = np.zeros(self.K, dtype=np.int64)  # rounds without a loss at probed[i]
        self.probed = np.zeros(self.K)  # the amount at which arm i was last tried
        self.theta_l = np.zeros(self.K)
        self.theta_u = np.full(self.K, self.top)
        self.theta_g = np.zeros(self.K, dtype=np.bool_)  # whether the threshold is known to within gamma
        self.theta_hat = np.full(self.K, self.top)  # the estimate: theta_u, rounded once it is good
        self.Theta_n = np.zeros(self.K)  # the thresholds found so far, increasing: the first `known` entries
        self.known = 0
        self.n_i = 0  # the first arm whose threshold is not known
        self.found = False
        self.A = np.zeros(self.K, dtype=np.bool_)  # the set that was served last, after the search
        self.phase = 0  # feedbacks after the search

    def select(self, rng):
        """Return the allocation of this round."""
        mu = draw_means(self.S, self.F, rng)  # line 5
        if not self.found:
            return self.explore(mu)
        if self.phase % self.N != 0 and weight_of(self.A, self.theta_hat) <= self.Q * (1.0 + SLACK):
            return give_chosen(self.A, self.theta_hat)
        return give_chosen(pack_again(mu, self.theta_hat, self.Q, self.A), self.theta_hat)  # line 26

    def explore(self, mu):
        """Try the unknown arms, and serve known ones with the rest (events B and H, line 18)."""
        allocation = np.zeros(self.K)
        room = self.Q * (1.0 + SLACK)
        used = 0.0
        ratio = np.empty(self.K)
        for i in range(self.K):
            ratio[i] = -1.0
            if self.theta_g[i]:
                ratio[i] = mu[i] / self.theta_hat[i] if self.theta_hat[i] > 0.0 else math.inf
        for i in range(self.K):
            if not self.theta_g[i]:
                amount = self.probe(i)
                if used + amount > room:
                    break  # B_i charges the arms before i whether they got it or not: every later B_i fails
                allocation[i] = amount
                used += amount
        order = rank_down(ratio)
        for k in range(self.K):
            i = order[k]
            if not self.theta_g[i] or used + self.theta_hat[i] > room:
                break  # and so does every later H_i
            allocation[i] = self.theta_hat[i]
            used += self.theta_hat[i]
        return allocation

    def probe(self, i):
        """Return the amount at which to try arm i (lines 11 to 15)."""
        if self.many and i == self.n_i:
            first = -1
            last = -1
            for k in range(self.known):
                inside = (
                    self.Theta_n[k] > self.theta_l[i] + TINY and self.Theta_n[k] <= self.theta_u[i] + TINY
                )
                if inside:
                    first = k if first < 0 else first
                    last = k
            if first >= 0:
                amount = self.Theta_n[(first + last) // 2]
                return amount - self.gamma if abs(amount - self.theta_u[i]) <= TINY else amount
        return (self.theta_l[i] + self.theta_u[i]) / 2.0

    def update(self, allocation, observed, rng):
        """Learn from the losses that were seen under this allocation (lines 19 to 24 and 27)."""
        self.keep_set(allocation)
        for i in range(self.K):
            lost = observed[i] > 0.0
            if allocation[i] <= self.theta_l[i] + TINY:  # certainly not served
                self.learn(i, observed[i], 0, rng)
            elif not self.theta_g[i]:
                zeros = self.narrow(i, allocation[i], lost)
                if lost:
                    self.learn(i, observed[i], zeros, rng)
        self.advance()

    def narrow(self, i, amount, lost):
        """Narrow the interval of arm i, and return how many zeros a loss at this amount proves genuine."""
        if abs(amount - self.probed[i]) > TINY:
            self.probed[i] = amount
            self.Z[i] = 0
        zeros = self.Z[i]
        if lost:
            self.theta_l[i] = amount
            self.Z[i] = 0
            if amount >= self.theta_u[i] - TINY:  # late: theta_u was wrong
                self.theta_u[i] = self.top
        elif amount < self.theta_u[i] - TINY:
            self.Z[i] += 1
            if self.Z[i] == self.W:
                self.theta_u[i] = amount
                self.Z[i] = 0
        self.settle(i)
        return zeros

    def settle(self, i):
        """Set the estimate of arm i, and whether it is good (line 22)."""
        self.theta_hat[i] = self.theta_u[i]
        if self.theta_u[i] - self.theta_l[i] <= self.gamma + TINY:
            self.theta_g[i] = True
            if self.scale > 0.0:
                self.theta_hat[i] = math.floor(self.theta_u[i] * self.scale + 0.5) / self.scale

    def advance(self):
        """Advance to the first arm that is not known; Theta_n collects the thresholds before it (lines 8 to 10)."""
        while self.n_i < self.K and self.theta_g[self.n_i]:
            self.collect(self.theta_hat[self.n_i])
            self.n_i += 1
        self.found = self.n_i == self.K

    def collect(self, theta):
        """Insert a threshold into Theta_n, unless it is already there."""
        for k in range(self.known):
            if abs(self.Theta_n[k] - theta) <= TINY:
                return
        k = self.known
        while k > 0 and self.Theta_n[k - 1] > theta:
            self.Theta_n[k] = self.Theta_n[k - 1]
            k -= 1
        self.Theta_n[k] = theta
        self.known += 1

    def keep_set(self, allocation):
        """Record the set that was served, if this is feedback of a round after the search."""
        if self.found and all_or_nothing(allocation, self.theta_hat):
            self.phase += 1
            for i in range(self.K):
                self.A[i] = allocation[i] > 0.0

    def learn(self, i, x, zeros, rng):
        """Add an outcome of arm i, and zeros that turned out to be genuine."""
        bit = coin(x, rng)
        self.S[i] += bit
        self.F[i] += 1.0 - bit + zeros
