"""Slow twins of the policies of chapter 4, as literal as Python allows; CSB-MK and its kin: allocation_search.

Inside, arms are numbered 1..K as in the thesis and statistics are dictionaries keyed by arm. At the boundary
(what `select` returns, what `update` takes, `theta_hat`) they are 0-based lists.
A feedback (a, x) may belong to any earlier round: what it teaches depends on the allocation a alone.
Nothing of `weakfeedback` is imported here: that is what makes a comparison worth something.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TOL = 1e-9  # relative: thresholds reached, budgets kept
TINY = 1e-12  # absolute: allocations that are the same


def brute_knapsack(values: Mapping[int, Any], weights: Mapping[int, Any], limit: Any) -> tuple[int, ...]:
    """The best set of items of positive value, by enumeration; the lightest of equally good ones."""
    sets: list[tuple[Any, Any, tuple[int, ...]]] = [(0, 0, ())]
    for i in values:
        if values[i] > 0:
            sets += [
                (value + values[i], weight + weights[i], (*chosen, i))
                for value, weight, chosen in sets
                if weight + weights[i] <= limit
            ]
    return max(sets, key=lambda one: (one[0], -one[1]))[2]


def added(numbers: Iterable[Any]) -> Any:
    """The sum from left to right: from Python 3.12 on sum() rounds otherwise."""
    total: Any = 0
    for number in numbers:
        total = total + number
    return total


def whole_wait(real: float, wait: int | None) -> int:
    """W_delta as a number of rounds: the one given, or the real number rounded up."""
    return max(1, math.ceil(real)) if wait is None else wait


class SlowPolicy:
    """K arms, a budget Q, and the counts S, F of a Beta law per arm."""

    def __init__(self, arms: int, budget: float):
        self.K, self.Q = arms, budget
        self.arms = range(1, arms + 1)
        self.S = dict.fromkeys(self.arms, 1)
        self.F = dict.fromkeys(self.arms, 1)

    def samples(self, rng: Any) -> dict[int, float]:
        return {i: rng.beta(self.S[i], self.F[i]) for i in self.arms}

    def top(self, mu: Mapping[int, float], M: int) -> set[int]:
        return set(sorted(self.arms, key=lambda i: (-mu[i], i))[:M])

    def vector(self, a: Mapping[int, float]) -> list[float]:
        return [float(a.get(i, 0.0)) for i in self.arms]

    def feedback(self, allocation: Sequence[float], observed: Sequence[float]) -> tuple[dict, dict, set]:
        """a_i and X_i keyed by arm, and the set of the arms that were given something."""
        assert len(allocation) == len(observed) == self.K
        a = {i: float(allocation[i - 1]) for i in self.arms}
        return a, {i: float(observed[i - 1]) for i in self.arms}, {i for i in self.arms if a[i] > 0}

    def learn(self, i: int, x: float, rng: Any, zeros: int = 0) -> None:
        """S_i + X, F_i + 1 - X + zeros, where a real X is first turned into a bit of that mean."""
        if x <= 0:
            bit = 0
        elif x >= 1:
            bit = 1
        else:
            bit = 1 if rng.random() < x else 0
        self.S[i] += bit
        self.F[i] += 1 - bit + zeros


# One threshold for all


class SlowSame(SlowPolicy):
    """The binary search over Theta = {Q/K, ..., Q}; Theta[j] is Q/M with M = K - j + 1."""

    def __init__(self, arms: int, budget: float, epsilon: float, delta: float, wait: int | None = None):
        super().__init__(arms, budget)
        self.Z = dict.fromkeys(self.arms, 0)
        self.C, self.l, self.u = 0, 1, arms
        self.j = (self.l + self.u) // 2
        real = 1.0  # one arm: nothing to search
        if arms > 1:
            real = math.log(math.log2(arms) / delta) / (self.shared() * math.log(1 / (1 - epsilon)))
        self.W = whole_wait(real, wait)

    def shared(self) -> int:
        """What W_delta is divided by."""
        return 1

    @property
    def found(self) -> bool:
        return self.j == self.u

    @property
    def theta_hat(self) -> list[float]:
        return [self.Q / (self.K - self.j + 1)] * self.K

    def select(self, rng: Any) -> list[float]:
        M = self.K - self.j + 1
        return self.vector(dict.fromkeys(self.top(self.samples(rng), M), self.Q / M))

    def clear(self) -> None:
        self.Z = dict.fromkeys(self.arms, 0)

    def too_small(self) -> None:
        self.l = self.j + 1
        self.j, self.C = (self.l + self.u) // 2, 0

    def large_enough(self) -> None:
        self.u = self.j
        self.j, self.C = (self.l + self.u) // 2, 0


class SlowCsbSk(SlowSame):
    """Algorithm CSB-SK."""

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        _, x, A = self.feedback(allocation, observed)
        p = self.K - len(A) + 1  # the index of Theta that was played
        if p < self.l:  # late: this candidate is known to be too small, so every arm was seen
            learned, zeros = set(self.arms), dict.fromkeys(self.arms, 0)
        elif p == self.j != self.u and any(x[i] > 0 for i in A):
            learned, zeros = set(self.arms), dict(self.Z)
            self.too_small()
            self.clear()
        else:
            learned, zeros = set(self.arms) - A, dict.fromkeys(self.arms, 0)
            if p == self.j != self.u:
                self.C += 1
                for i in A:
                    self.Z[i] += 1
                if self.C == self.W:
                    self.large_enough()
                    self.clear()
        for i in sorted(learned):
            self.learn(i, x[i], rng, zeros[i])


class SlowCsbSt(SlowSame):
    """CSB-ST of 2019: first the search of CSB-SK without learning means, then the means."""

    def __init__(
        self,
        arms: int,
        budget: float,
        epsilon: float,
        delta: float,
        wait: int | None = None,
        search_max: float | None = None,
    ):
        super().__init__(arms, budget, epsilon, delta, wait)
        Theta = {j: budget / (arms - j + 1) for j in range(1, arms + 1)}
        kept = [j for j in Theta if search_max is None or Theta[j] * (1 - TOL) <= search_max]
        self.u = max(kept, default=1)
        self.j = (self.l + self.u) // 2

    def shared(self) -> int:
        return max(1, math.floor(self.Q))

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        _, x, A = self.feedback(allocation, observed)
        p = self.K - len(A) + 1
        if self.found:
            for i in self.arms:
                if p < self.l or i not in A:
                    self.learn(i, x[i], rng)
        elif p == self.j:
            if any(x[i] > 0 for i in A):
                self.too_small()
            else:
                self.C += 1
                if self.C == self.W:
                    self.large_enough()


class SlowNumSk(SlowSame):
    """Algorithm NUM-SK: a reward shows that a candidate is large enough."""

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        _, x, A = self.feedback(allocation, observed)
        p = self.K - len(A) + 1
        if p >= self.u:
            for i in sorted(A):
                self.learn(i, x[i], rng)
        elif p == self.j:
            if any(x[i] > 0 for i in A):
                self.large_enough()
                for i in self.arms:
                    if i in A:
                        self.learn(i, x[i], rng, self.Z[i])
                    else:
                        self.F[i] += self.Z[i]
                self.clear()
            else:
                self.C += 1
                for i in A:
                    self.Z[i] += 1
                if self.C == self.W:
                    self.too_small()
                    self.clear()


class SlowCsbSu(SlowPolicy):
    """Algorithm CSB-SU; L never falls below 1."""

    def __init__(self, arms: int, budget: float):
        super().__init__(arms, budget)
        self.L = arms
        self.Z = dict.fromkeys(self.arms, 0)

    @property
    def theta_hat(self) -> list[float]:
        return [self.Q / self.L] * self.K

    def select(self, rng: Any) -> list[float]:
        return self.vector(dict.fromkeys(self.top(self.samples(rng), self.L), self.Q / self.L))

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        _, x, A = self.feedback(allocation, observed)
        given, before, Z = len(A), self.L, self.Z
        lost = any(x[i] > 0 for i in A)
        if given <= before:
            if lost:
                self.L = max(1, given - 1)
                self.Z = dict.fromkeys(self.arms, 0)
            elif given == before:
                self.Z = {i: Z[i] + (i in A) for i in self.arms}
        for i in self.arms:
            if i not in A or given > before:
                self.learn(i, x[i], rng)
            elif lost and given == before:
                self.learn(i, x[i], rng, Z[i])


# A threshold for each arm


class SlowKnapsack(SlowPolicy):
    """KP(mu_hat, theta_hat, Q) in the first round of a phase and every N-th after; the set A between."""

    theta_hat: list[float]

    def __init__(self, arms: int, budget: float, every: int = 1):
        super().__init__(arms, budget)
        self.N, self.phase = every, 0
        self.A: set[int] = set()

    def fits(self, used: float) -> bool:
        return used <= self.Q * (1 + TOL)

    def weights(self) -> dict[int, float]:
        return {i: self.theta_hat[i - 1] for i in self.arms}

    def knapsack(self, mu: Mapping[int, float]) -> list[float]:
        weights = self.weights()
        chosen: Iterable[int] = self.A
        if self.phase % self.N == 0 or not self.fits(added(weights[i] for i in sorted(self.A))):
            chosen = brute_knapsack(mu, weights, self.Q * (1 + TOL))
        return self.vector({i: weights[i] for i in chosen})

    def note(self, a: Mapping[int, float], A: set[int]) -> None:
        """One more feedback of the phase, unless it is a late one from before."""
        weights = self.weights()
        if all(a[i] == 0 or abs(a[i] - weights[i]) <= TINY for i in self.arms):
            self.A, self.phase = set(A), self.phase + 1


class SlowCsbDu(SlowKnapsack):
    """Algorithm CSB-DU. Z_i maps an allocation to the zeros seen there; it holds a limited number of them."""

    def __init__(self, arms: int, budget: float, gamma: float, every: int = 1):
        super().__init__(arms, budget, every)
        self.gamma = gamma
        self.L = dict.fromkeys(self.arms, 0.0)
        self.Z: dict[int, dict[float, int]] = {i: {} for i in self.arms}
        self.capacity = min(math.ceil(budget / gamma) + arms + 2, 4096)

    @property
    def theta_hat(self) -> list[float]:  # type: ignore[override]
        return [self.L[i] + self.gamma for i in self.arms]

    def select(self, rng: Any) -> list[float]:
        mu = self.samples(rng)
        if not self.fits(added(self.theta_hat)):
            return self.knapsack(mu)
        weights = self.weights()
        bounded = [i for i in self.arms if self.L[i] > 0]
        left = self.Q - added(weights[i] for i in bounded)
        unknown = self.K - len(bounded)
        return self.vector({i: weights[i] if self.L[i] > 0 else left / unknown for i in self.arms})

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        a, x, A = self.feedback(allocation, observed)
        if not self.fits(added(self.theta_hat)):
            self.note(a, A)
        for i in self.arms:
            if a[i] <= self.L[i] + TINY:
                self.learn(i, x[i], rng)
            elif x[i] > 0:
                self.L[i] = a[i]
                below = [level for level in self.Z[i] if level <= a[i] + TINY]
                self.learn(i, x[i], rng, added(self.Z[i].pop(level) for level in below))
            else:
                self.count_zero(self.Z[i], a[i])

    def count_zero(self, Z: dict[float, int], a: float) -> None:
        for level in Z:
            if abs(level - a) <= TINY:
                Z[level] += 1
                return
        if len(Z) < self.capacity:
            Z[a] = 1
        elif a < max(Z):  # full: a zero may be learned from too late, never too early
            Z[min(level for level in Z if level > a)] += 1
        else:
            Z[a] = Z.pop(max(Z)) + 1


class SlowKnownThresholds(SlowKnapsack):
    """The thresholds are known: MP-TS when they are all the same, CTS-Beta otherwise."""

    found = True

    def __init__(
        self, arms: int, budget: float, thresholds: Sequence[float], setting: str = "loss", every: int = 1
    ):
        super().__init__(arms, budget, every)
        self.theta_hat = [float(theta) for theta in thresholds]
        self.setting = setting
        same = max(self.theta_hat) - min(self.theta_hat) <= TOL * max(self.theta_hat)
        self.M = 0
        if same and min(self.theta_hat) > 0:
            self.M = min(arms, math.floor(budget / self.theta_hat[0] * (1 + TOL)))

    def select(self, rng: Any) -> list[float]:
        mu = self.samples(rng)
        if self.M == 0:
            return self.knapsack(mu)
        return self.vector({i: self.weights()[i] for i in self.top(mu, self.M)})

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        a, x, A = self.feedback(allocation, observed)
        self.note(a, A)
        for i in self.arms:
            reached = a[i] >= self.theta_hat[i - 1] * (1 - TOL)
            if reached == (self.setting == "reward"):
                self.learn(i, x[i], rng)
