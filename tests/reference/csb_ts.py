"""Slow twins of CSB-TS and CSB-TS-same: the exact posterior by enumeration of every level, 0-based arms.

Outcomes are counted, so Beta functions are 1 / ((P + F + 1) binom(P + F, P)): whole numbers, of which ratios are
taken with 28 digits. A fast policy works with doubles, so both can part only at a draw that falls within about
1e-13 of the border between two levels, or at values of two sets or arms that are as close.
Nothing of `weakfeedback` is imported here: that is what makes a comparison worth something.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from tests.reference.allocation import brute_knapsack

RARE = Decimal("0.001") * (1 + Decimal("1e-9"))  # what a .999-quantile leaves above it; equal levels are ties
HALF = Decimal("0.5") * (1 + Decimal("1e-9"))
MOST = Decimal("0.9") * (1 + Decimal("1e-9"))


@functools.cache
def beta_function(P: int, F: int) -> Decimal:
    """B(1 + P, 1 + F) = P! F! / (P + F + 1)!"""
    return Decimal(1) / ((P + F + 1) * math.comb(P + F, P))


def invert(u: float | Decimal, law: dict[int, Decimal]) -> int:
    """The first candidate, in the order given, whose cumulative weight exceeds u times the total."""
    wanted = Decimal(u) * sum(law.values())
    cumulative = Decimal(0)
    for candidate, weight in law.items():
        cumulative += weight
        if cumulative > wanted:
            return candidate
    return candidate


def coin(x: float, rng: Any) -> int:
    if x <= 0 or x >= 1:
        return int(x >= 1)
    return int(rng.random() < x)


class SlowArm:
    """What is known of one arm: P, S, zeros per level 0..C, and the outcomes that bound its threshold."""

    def __init__(self, C: int, reward: bool):
        self.C, self.reward = C, reward
        self.P = self.S = self.between = 0
        self.zeros = [0] * (C + 1)
        self.positive: set[int] = set()  # levels with a positive outcome

    def enter(self, level: int, x: float, rng: Any) -> None:
        if self.reward and level == 0:
            return  # an arm given nothing is not served, whatever its threshold
        if x > 0:
            self.P += 1
            self.between += x < 1
            self.S += coin(x, rng)
            self.positive.add(level)
        else:
            self.zeros[level] += 1

    def support(self) -> Iterable[int]:
        """The thresholds that explain every positive outcome, those of the fewest zeros F(k) first."""
        if self.reward:
            return range(min(self.positive, default=self.C + 1), 0, -1)
        return range(max(self.positive, default=0) + 1, self.C + 2)

    def failures(self) -> dict[int, int]:
        """F(k) for k = 0..C + 1: zeros at levels where the arm's own outcome was to be seen if theta = k."""
        F = {0: 0}
        for k in range(1, self.C + 2):
            F[k] = F[k - 1] + self.zeros[k - 1]
        if self.reward:
            every = F[self.C + 1]
            return {k: every - below for k, below in F.items()}
        return F

    def genuine(self) -> int:
        """Zeros that are outcomes of the arm whatever its threshold."""
        F = self.failures()
        return min(F[k] for k in self.support())

    def posterior(self, lent: tuple[int, int] = (0, 0)) -> dict[int, Decimal]:
        """Pr(theta = k) on the support, given positive outcomes and zeros that other arms lend."""
        F = self.failures()
        weights = {k: beta_function(self.P + lent[0], F[k] + lent[1]) for k in self.support()}
        total = sum(weights.values())
        return {k: weight / total for k, weight in weights.items()}

    def mean(self, k: int, rng: Any) -> float:
        """A draw of mu given theta = k."""
        return rng.beta(1 + self.S, 1 + self.failures()[k] + self.P - self.S)


def at_most(level: int, law: dict[int, Decimal]) -> Decimal:
    return sum((weight for k, weight in law.items() if k <= level), Decimal(0))


def above(level: int, law: dict[int, Decimal]) -> Decimal:
    return sum((weight for k, weight in law.items() if k > level), Decimal(0))


def quantile(law: dict[int, Decimal]) -> int:
    """The smallest level that suffices with probability .999."""
    left = Decimal(0)
    for k in sorted(law, reverse=True):
        left += law[k]
        if left > RARE:
            return k
    raise AssertionError("the weights of a law sum up to 1")


def nearly_enough(law: dict[int, Decimal]) -> int:
    """The largest level that suffices with probability .9 at most; 0 if there is none."""
    return max((k for k in range(max(law) + 1) if at_most(k, law) <= MOST), default=0)


class SlowCsbTs:
    """CSB-TS on the levels 0..C; a threshold of C + 1 cannot be served.

    Edition 1, under which older policies were saved: losses are not padded, a share of the cover may be tiny, and a
    probe must be worth 1e-6.
    """

    def __init__(
        self, arms: int, budget: float, step: float | None = None, setting: str = "loss", edition: int = 2
    ):
        if step is None:  # the leading decimal place, six places on; for rewards five
            places = 6 if setting == "loss" else 5
            step = float(Decimal(1).scaleb(Decimal(repr(budget)).adjusted() - places))
        self.edition = edition
        self.K, self.Q, self.step, self.reward = arms, budget, step, setting == "reward"
        self.C = math.floor(budget / step + 1e-9)
        self.arms = [SlowArm(self.C, self.reward) for _ in range(arms)]
        self.route: set[str] = set()  # what the last decisions went through, for the tests' own sake

    @property
    def P(self) -> list[int]:
        return [arm.P for arm in self.arms]

    @property
    def S(self) -> list[int]:
        return [arm.S for arm in self.arms]

    def select(self, rng: Any) -> list[float]:
        lent = self.lent()
        laws = [arm.posterior(lent) for arm in self.arms]
        a = {} if self.reward else self.cover(laws)
        return [level * self.step for _, level in sorted((a or self.serve(laws, rng)).items())]

    def lent(self) -> tuple[int, int]:
        """What the arms lend each other where most positive outcomes are not 1: 30 outcomes of all at most."""
        positive, zero = sum(self.P), sum(arm.genuine() for arm in self.arms)
        if sum(arm.between for arm in self.arms) * 2 <= positive:
            return 0, 0
        size = min(30, positive + zero)
        zeros = int(Decimal(size * zero) / (positive + zero))
        return size - zeros, zeros

    def cover(self, laws: Sequence[dict]) -> dict[int, int]:
        """Levels for all arms while at least half of an equal share is left beyond all bounds, else nothing."""
        edge = [max(arm.positive, default=0) for arm in self.arms]
        left = self.C - sum(edge)
        if left < self.K or left < Decimal(self.C) / (2 * self.K):
            return {}
        self.route.add("cover")
        powers = [2**n for n in range(64)]
        middle = [invert(HALF, law) for law in laws]
        least = (left - self.K) // (4 * self.K) if self.edition == 2 else 0
        beyond = [min(p for p in powers if e + p >= m and p >= least) for m, e in zip(middle, edge)]
        extra = [(left - self.K) * w // sum(beyond) for w in beyond]
        return {i: edge[i] + 1 + extra[i] for i in range(self.K)}

    def serve(self, laws: Sequence[dict], rng: Any) -> dict[int, int]:
        """Levels that are best for a draw of all thresholds and means."""
        k, mu = {}, {}
        for i, arm in enumerate(self.arms):
            k[i] = invert(rng.random(), laws[i])
            mu[i] = arm.mean(k[i], rng)
            if self.reward:  # m = 2: the smaller of two draws
                k[i] = min(k[i], invert(rng.random(), laws[i]))
        A = brute_knapsack(mu, k, self.C)
        a = {i: k[i] if i in A else 0 for i in range(self.K)}
        if self.reward or self.edition == 2:
            self.pad(A, a, mu, laws)
        self.probe(A, a, mu, laws)
        return a

    def left(self, a: dict[int, int]) -> int:
        return self.C - sum(a.values())

    def pad(self, A: Sequence[int], a: dict[int, int], mu: dict[int, float], laws: Sequence[dict]) -> None:
        u = {i: quantile(laws[i]) if self.reward else nearly_enough(laws[i]) for i in A}
        waiting = {i for i in A if u[i] > a[i]}
        while self.left(a) > 0 and waiting:
            gain = {i: Decimal(mu[i]) * above(a[i], laws[i]) / (u[i] - a[i]) for i in waiting}
            i = min(waiting, key=lambda i: (-gain[i], i))
            self.route.add("pad" if u[i] - a[i] <= self.left(a) else "pad, in part")
            a[i] += min(self.left(a), u[i] - a[i])
            waiting.remove(i)

    def probe(self, A: Sequence[int], a: dict[int, int], mu: dict[int, float], laws: Sequence[dict]) -> None:
        R = self.left(a)
        outside = {i: Decimal(mu[i]) * at_most(R, laws[i]) for i in range(self.K) if i not in A}
        if R > 0 and outside:
            i = min(outside, key=lambda i: (-outside[i], i))
            least = Decimal("1e-12") if self.edition == 2 else Decimal("1e-6")
            self.route.add("probe" if outside[i] > least else "no probe")
            if outside[i] > least:
                a[i] = R

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        for arm, amount, x in zip(self.arms, allocation, observed):
            level = min(self.C, max(0, int(amount / self.step + 0.5)))
            arm.enter(level, x, rng)


class SlowCsbTsSame:
    """CSB-TS-same: theta = Q / M for some M = 1..K, and every feedback is kept as it came."""

    def __init__(self, arms: int, budget: float, setting: str = "loss"):
        self.K, self.Q, self.reward = arms, budget, setting == "reward"
        self.P, self.S = [0] * arms, [0] * arms
        self.zeros: list[tuple[int, int]] = []  # (arm, L); L = 0: the arm was given nothing
        self.candidates = set(range(1, arms + 1))

    def failures(self, i: int, M: int) -> int:
        """F_i(M): zeros of rounds that would have shown the outcome of arm i if theta = Q / M."""
        served = [1 <= L <= M for arm, L in self.zeros if arm == i]
        return sum(one == self.reward for one in served)

    def law(self) -> dict[int, Decimal]:
        order = sorted(self.candidates, reverse=not self.reward)
        weights = {}
        for M in order:
            factors = (beta_function(self.P[i], self.failures(i, M)) for i in range(self.K))
            weights[M] = math.prod(factors, start=Decimal(1))
        return weights

    def select(self, rng: Any) -> list[float]:
        M = invert(rng.random(), self.law())
        F = [self.failures(i, M) for i in range(self.K)]
        mu = [rng.beta(1 + S, 1 + f + P - S) for P, S, f in zip(self.P, self.S, F)]
        chosen = sorted(range(self.K), key=lambda i: (-mu[i], i))[:M]
        return [self.Q / M if i in chosen else 0.0 for i in range(self.K)]

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        given = sum(a > 0 for a in allocation)
        for i, (a, x) in enumerate(zip(allocation, observed)):
            L = given if a > 0 else 0
            if self.reward and L == 0:
                continue
            if x > 0:
                self.P[i] += 1
                self.S[i] += coin(x, rng)
                self.bound(L)
            else:
                self.zeros.append((i, L))

    def bound(self, L: int) -> None:
        """A positive outcome of an arm given Q / L: served in the reward setting, not served with losses."""
        if self.reward:
            self.candidates = {M for M in self.candidates if M >= L}
        elif L > 0:
            self.candidates = {M for M in self.candidates if M < L} or {1}
