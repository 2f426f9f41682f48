"""Slow worlds of chapter 4 and the quantities of a problem by enumeration of all sets of arms, 0-based."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tests.reference.allocation import TOL, brute_knapsack
from tests.reference.cascade import exact, stream

EXACT_TOL = Fraction(1, 10**9)


class SlowWorld:
    """Draws X_1..X_K every round and shows what an allocation lets through."""

    def __init__(
        self,
        means: Sequence[float],
        thresholds: Sequence[float],
        budget: float,
        setting: str = "loss",
        rewards: str = "bernoulli",
    ):
        self.means, self.thresholds, self.budget = list(means), list(thresholds), budget
        self.setting, self.rewards = setting, rewards

    def draw(self, rng: Any) -> list[float]:
        return [self.one(mean, rng.random()) for mean in self.means]

    def one(self, mean: float, u: float) -> float:
        if self.rewards == "bernoulli":
            return 1.0 if u < mean else 0.0
        return min(1.0, max(0.0, mean - 0.1 + 0.2 * u))

    def accepts(self, allocation: Sequence[float]) -> bool:
        total = 0.0
        for a in allocation:
            if math.isnan(a) or a < 0:
                return False
            total += a
        return len(allocation) == len(self.means) and total <= self.budget * (1 + TOL)

    def served(self, allocation: Sequence[float]) -> list[bool]:
        return [a >= theta * (1 - TOL) for a, theta in zip(allocation, self.thresholds)]

    def observed(self, X: Sequence[float], served: Sequence[bool]) -> list[float]:
        """Loss setting: seen where not served. Reward setting: seen where served."""
        shown = self.setting == "reward"
        return [x if one == shown else 0.0 for x, one in zip(X, served)]


@dataclass
class Round:
    allocation: list[float]
    served: list[bool]
    observed: list[float]


def slow_rounds(
    world: SlowWorld,
    policies: Sequence[Any],
    seed: int,
    replication: int,
    horizon: int,
    late: Callable[[int], int] = lambda t: 0,
    watch: Callable[[int, list[Round], list[Any]], None] = lambda t, rounds, rngs: None,
) -> list[Round]:
    """Rounds of policies side by side, each with a policy's generator of its own in the same state; those of
    the first are returned. Feedback of round t comes at the end of round t + late(t). `watch` sees every round.
    """
    world_rng = stream(seed, replication, 0)
    rngs = [stream(seed, replication, 1) for _ in policies]
    history: list[list[Round]] = []
    due: dict[int, list[int]] = {}
    for t in range(1, horizon + 1):
        X = world.draw(world_rng)
        rounds = []
        for policy, rng in zip(policies, rngs):
            allocation = [float(a) for a in policy.select(rng)]
            assert world.accepts(allocation), f"round {t}: {allocation} of a budget of {world.budget}"
            served = world.served(allocation)
            rounds.append(Round(allocation, served, world.observed(X, served)))
        history.append(rounds)
        due.setdefault(t + late(t), []).append(t)
        for earlier in due.pop(t, []):
            for policy, rng, one in zip(policies, rngs, history[earlier - 1]):
                policy.update(one.allocation, one.observed, rng)
        watch(t, rounds, rngs)
    return [rounds[0] for rounds in history]


class SlowProblem:
    """Exact quantities: decimal numbers are taken as written, only the capacity has its tolerance."""

    def __init__(self, means: Sequence[float], thresholds: Sequence[float], budget: float):
        self.K = len(means)
        self.means = {i: exact(mean) for i, mean in enumerate(means)}
        self.thresholds = {i: exact(theta) for i, theta in enumerate(thresholds)}
        self.budget = exact(budget)
        self.limit = self.budget * (1 + EXACT_TOL)
        self.answers: dict[tuple[float, ...], bool] = {}
        self.optimal_set = brute_knapsack(self.means, self.thresholds, self.limit)
        self.optimal_value = self.value(self.optimal_set)
        self.optimal_allocation = [
            self.thresholds[i] if i in self.optimal_set else Fraction(0) for i in self.means
        ]
        self.residual = max(Fraction(0), self.budget - sum(self.optimal_allocation))
        self.gamma = self.residual / self.K

    def value(self, arms: Sequence[int]) -> Fraction:
        return sum((self.means[i] for i in arms), Fraction(0))

    def distinct(self, gamma: float) -> int:
        return len({math.ceil(theta / exact(gamma)) for theta in self.thresholds.values()})

    def best_for(self, estimate: Sequence[float]) -> tuple[int, ...]:
        weights = [exact(theta) for theta in estimate]
        scale = math.lcm(*(number.denominator for number in [*weights, *self.means.values()]))
        values = {i: int(mean * scale) for i, mean in self.means.items()}  # whole numbers: exact and quick
        scaled = {i: int(weight * scale) for i, weight in enumerate(weights)}
        return brute_knapsack(values, scaled, math.floor(self.limit * scale))

    def equivalent(self, estimate: Sequence[float]) -> bool:
        """The definition: the same optimal value."""
        gap = abs(self.value(self.best_for(estimate)) - self.optimal_value)
        return gap <= EXACT_TOL * max(Fraction(1), self.optimal_value)

    def really_equivalent(self, estimate: Sequence[float]) -> bool:
        """What is best for the estimate is best for the true thresholds too."""
        key = tuple(float(theta) for theta in estimate)
        if key not in self.answers:
            chosen = self.best_for(estimate)
            given = [exact(estimate[i]) if i in chosen else Fraction(0) for i in range(self.K)]
            reached = [i for i in range(self.K) if given[i] >= self.thresholds[i] * (1 - EXACT_TOL)]
            worth = self.value(reached)
            self.answers[key] = worth >= self.optimal_value - EXACT_TOL * max(Fraction(1), self.optimal_value)
        return self.answers[key]

    def regret(self, served: Sequence[int], T: int) -> Fraction:
        """From the number of rounds in which each arm was served."""
        terms = (self.means[i] * (T * (i in self.optimal_set) - served[i]) for i in self.means)
        return sum(terms, Fraction(0))
