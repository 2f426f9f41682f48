"""A slow twin of CSB-DT: the budget is a set of purses between which money is carried, arms 1-based inside.

Purse 0 holds what is free, purse i what arm i holds. Nothing is made or lost: every step is a call of `carry`.
Intervals are pairs (l, u); an arm is searched as long as it has one, and known when it has a threshold.
"""

import math
from collections.abc import Sequence
from typing import Any

from tests.reference.allocation import TINY, TOL, SlowKnapsack, whole_wait

FREE = 0


class SlowCsbDt(SlowKnapsack):
    """CSB-DT as the program of 2019 has it, its slips mended."""

    def __init__(
        self,
        arms: int,
        budget: float,
        epsilon: float,
        delta: float,
        gamma: float,
        search_max: float | None = None,
        wait: int | None = None,
        decimals: int | None = None,
        every: int = 1,
    ):
        super().__init__(arms, budget, every)
        self.gamma, self.decimals = gamma, decimals
        self.top_theta = budget if search_max is None else search_max
        candidates = math.ceil((1 + self.top_theta / gamma) * (1 - TOL))
        real = math.log(arms * math.log2(candidates) / delta) / math.log(1 / (1 - epsilon))
        self.W = whole_wait(real / max(1, math.floor(budget)), wait)
        self.interval = dict.fromkeys(self.arms, (0.0, self.top_theta))
        self.threshold: dict[int, float] = {}
        self.quiet: dict[int, tuple[float, int]] = dict.fromkeys(self.arms, (0.0, 0))  # amount, rounds
        self.purse = {FREE: budget}
        self.open_purses()

    def open_purses(self) -> None:
        m = min(self.K, math.floor(self.Q * (1 + TOL)))
        groups = [[i for i in self.arms if i <= m], [i for i in self.arms if i > m]]
        for group in groups:  # half the budget for each group
            for i in group:
                self.purse[i] = 0.0
                self.carry(FREE, i, min(self.top_theta / 2, self.Q / (2 * len(group))))

    def carry(self, giver: int, taker: int, wanted: float) -> float:
        """Carry what is wanted, or all there is; return how much is still wanted."""
        amount = min(wanted, self.purse[giver])
        self.purse[giver] -= amount
        self.purse[taker] += amount
        return wanted - amount

    # What the battery compares

    @property
    def theta_l(self) -> list[float]:
        return [self.interval[i][0] for i in self.arms]

    @property
    def theta_u(self) -> list[float]:
        return [self.interval[i][1] for i in self.arms]

    @property
    def theta_g(self) -> list[bool]:
        return [i in self.threshold for i in self.arms]

    @property
    def theta_hat(self) -> list[float]:  # type: ignore[override]
        return [self.threshold.get(i, self.interval[i][1]) for i in self.arms]

    @property
    def Z(self) -> list[int]:
        return [self.quiet[i][1] for i in self.arms]

    @property
    def h(self) -> list[float]:
        return [self.purse[i] for i in self.arms]

    @property
    def free(self) -> float:
        return self.purse[FREE]

    @property
    def found(self) -> bool:
        return len(self.threshold) == self.K

    # The two phases

    def select(self, rng: Any) -> list[float]:
        if self.found:
            return self.knapsack(self.samples(rng))
        a = {i: self.purse[i] for i in self.arms if i not in self.threshold}
        left = self.free
        for i in sorted(self.threshold):
            if self.threshold[i] <= left + TOL * self.Q:
                a[i] = self.threshold[i]
                left -= a[i]
        return self.vector(a)

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        a, x, A = self.feedback(allocation, observed)
        if self.found:
            self.note(a, A)
            for i in self.arms:
                if a[i] <= self.interval[i][0] + TINY:
                    self.learn(i, x[i], rng)
            return
        moved: set[int] = set()
        for i in self.arms:
            if i not in self.threshold and i not in moved:
                self.judge(i, a[i], x[i] > 0)
                if i not in self.threshold:
                    moved |= self.settle_purse(i, x[i] > 0)

    def judge(self, i: int, a: float, lost: bool) -> None:
        """What a round at a says of the interval of arm i."""
        low, high = self.interval[i]
        amount, rounds = self.quiet[i]
        if lost:
            # at the upper end or above it (late only) the end was wrong
            self.interval[i] = (max(low, a), self.top_theta if a >= high - TINY else high)
            self.quiet[i] = (amount, 0)
        elif low + TINY < a < high - TINY:
            again = abs(a - amount) <= TINY
            self.quiet[i] = (amount, rounds + 1) if again else (a, 1)
            if self.quiet[i][1] == self.W:
                self.interval[i] = (low, a)
                self.quiet[i] = (self.quiet[i][0], 0)
        low, high = self.interval[i]
        if high - low <= self.gamma + TINY:
            scale = None if self.decimals is None else 10.0**self.decimals
            self.threshold[i] = high if scale is None else math.floor(high * scale + 0.5) / scale
            self.carry(i, FREE, self.purse[i])

    def settle_purse(self, i: int, lost: bool) -> set[int]:
        """Bring arm i's purse to the middle of its interval; return the arms that had to give."""
        low, high = self.interval[i]
        middle = (low + high) / 2
        if self.purse[i] > middle:
            self.carry(i, FREE, self.purse[i] - middle)
            self.purse[i] = middle  # to the last bit
            return set()
        if self.purse[i] > low:
            return set()
        short = self.carry(FREE, i, middle - self.purse[i])
        robbed = set()
        for k in reversed(self.arms):
            if lost and short > 0 and k > i and k not in self.threshold and self.purse[k] > 0:
                short = self.carry(k, i, short)
                robbed.add(k)
        return robbed
