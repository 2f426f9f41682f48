"""Slow twins of the policies of chapter 4 that search a threshold per arm by bisection, arms 1-based inside."""

import math
from collections.abc import Sequence
from typing import Any

from tests.reference.allocation import TINY, TOL, SlowKnapsack, whole_wait


class SlowSearch(SlowKnapsack):
    """What CSB-MK and NUM-MK have in common: a bisection per arm, and who gets resources meanwhile."""

    def __init__(
        self,
        arms: int,
        budget: float,
        epsilon: float,
        delta: float,
        gamma: float,
        distinct: int | None = None,
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
        self.W = whole_wait(real, wait)
        self.many = distinct is not None and distinct < arms
        self.Z = dict.fromkeys(self.arms, 0)
        self.probed = dict.fromkeys(self.arms, 0.0)
        self.theta_l = dict.fromkeys(self.arms, 0.0)
        self.theta_u = dict.fromkeys(self.arms, self.top_theta)
        self.theta_g = dict.fromkeys(self.arms, False)

    @property
    def found(self) -> bool:
        return all(self.theta_g.values())

    def estimate(self, i: int) -> float:
        """theta_u, rounded (halves up) once the arm is good if that was asked for."""
        if self.theta_g[i] and self.decimals is not None:
            scale = 10.0**self.decimals
            return math.floor(self.theta_u[i] * scale + 0.5) / scale
        return self.theta_u[i]

    @property
    def theta_hat(self) -> list[float]:  # type: ignore[override]
        return [self.estimate(i) for i in self.arms]

    @property
    def n_i(self) -> int:
        """The first arm that is not good; K + 1 when there is none."""
        return min([i for i in self.arms if not self.theta_g[i]], default=self.K + 1)

    @property
    def Theta_n(self) -> list[float]:
        """The estimates of the arms before n_i, each once, in increasing order."""
        known: list[float] = []
        for i in range(1, self.n_i):
            if all(abs(self.estimate(i) - other) > TINY for other in known):
                known.append(self.estimate(i))
        return sorted(known)

    def probe(self, i: int) -> float:
        """What a bad arm asks for: an estimate of an earlier arm if one lies in its interval, or the middle."""
        low, high = self.theta_l[i], self.theta_u[i]
        if self.many and i == self.n_i:
            Theta = dict(enumerate(self.Theta_n, start=1))
            inside = [k for k in Theta if low + TINY < Theta[k] <= high + TINY]
            if inside:
                j = math.floor((min(inside) + max(inside)) / 2)
                return Theta[j] - self.gamma if abs(Theta[j] - high) <= TINY else Theta[j]
        return (low + high) / 2

    def select(self, rng: Any) -> list[float]:
        mu = self.samples(rng)
        if self.found:
            return self.knapsack(mu)
        a: dict[int, float] = {}
        used = 0.0
        for i in [i for i in self.arms if not self.theta_g[i]]:  # events B
            if not self.fits(used + self.probe(i)):
                break
            a[i] = self.probe(i)
            used += a[i]
        ratio = {}
        for i in [i for i in self.arms if self.theta_g[i]]:
            ratio[i] = mu[i] / self.estimate(i) if self.estimate(i) > 0 else math.inf
        for i in sorted(ratio, key=lambda i: (-ratio[i], i)):  # events H
            if not self.fits(used + self.estimate(i)):
                break
            a[i] = self.estimate(i)
            used += a[i]
        return self.vector(a)

    def update(self, allocation: Sequence[float], observed: Sequence[float], rng: Any) -> None:
        a, x, A = self.feedback(allocation, observed)
        if self.found:
            self.note(a, A)
        for i in self.arms:
            self.learn_arm(i, a[i], x[i], rng)

    def learn_arm(self, i: int, a: float, x: float, rng: Any) -> None:
        raise NotImplementedError

    def new_probe(self, i: int, a: float) -> None:
        """Zeros count for one probed value only."""
        if abs(a - self.probed[i]) > TINY:
            self.Z[i], self.probed[i] = 0, a

    def check_good(self, i: int) -> None:
        if self.theta_u[i] - self.theta_l[i] <= self.gamma + TINY:
            self.theta_g[i] = True


class SlowCsbMk(SlowSearch):
    """Algorithm CSB-MK (CSB-DK when all thresholds may differ): a loss shows that a probe is too small."""

    def learn_arm(self, i: int, a: float, x: float, rng: Any) -> None:
        if a <= self.theta_l[i] + TINY:
            self.learn(i, x, rng)
        elif not self.theta_g[i]:
            self.new_probe(i, a)
            if x > 0:
                if a >= self.theta_u[i] - TINY:  # late, and against what was concluded: the end is open again
                    self.theta_u[i] = self.top_theta
                zeros, self.Z[i], self.theta_l[i] = self.Z[i], 0, a
                self.learn(i, x, rng, zeros)
            elif a < self.theta_u[i] - TINY:
                self.Z[i] += 1
                if self.Z[i] == self.W:
                    self.theta_u[i], self.Z[i] = a, 0
            self.check_good(i)


class SlowNumMk(SlowSearch):
    """Algorithm NUM-MK: a reward shows that a probe is large enough."""

    def learn_arm(self, i: int, a: float, x: float, rng: Any) -> None:
        if a >= self.estimate(i) - TINY:
            self.learn(i, x, rng)
        elif not self.theta_g[i] and a > TINY:
            self.new_probe(i, a)
            if x > 0:
                if a <= self.theta_l[i] + TINY:  # late, and against what was concluded: the end is open again
                    self.theta_l[i] = 0.0
                zeros, self.Z[i], self.theta_u[i] = self.Z[i], 0, a
                self.learn(i, x, rng, zeros)
            elif a > self.theta_l[i] + TINY:
                self.Z[i] += 1
                if self.Z[i] == self.W:
                    self.theta_l[i], self.Z[i] = a, 0
            self.check_good(i)
