"""Slow twins of the worlds of chapter 3 and the quantities of its problems. Arms are 0-based here.

Nothing of `weakfeedback` is imported: that is what makes a comparison worth something.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

TOLERANCE = 1e-12  # decimal ties (.1 + .2 against .3) are ties


def mu(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def accepts(C: Sequence[float], p: Callable[[int, int], float], i: int) -> bool:
    """C_j - C_i > p_ij for all j > i."""
    return all(C[j] - C[i] - p(i, j) > TOLERANCE for j in range(i + 1, len(C)))


class SlowContextualProblem:
    """Arms that are logistic classifiers. The law of the labels at a context is written out, 2^K label vectors."""

    def __init__(
        self,
        contexts: Any,
        truth: Any,
        parameters: Any,
        costs: Any,
        labels: str = "random",
        intercepts: Any = None,
    ):
        self.x = [[float(a) for a in row] for row in contexts]
        self.y = [int(label) for label in truth]
        self.theta = [[float(a) for a in vector] for vector in parameters]
        self.C = [float(c) for c in costs]
        self.K = len(self.C)
        self.b = [0.0] * self.K if intercepts is None else [float(b) for b in intercepts]
        self.random = labels == "random"

    def one(self, row: int, i: int) -> float:
        """P(Y^i = 1 | x)."""
        z = sum(a * b for a, b in zip(self.x[row], self.theta[i])) + self.b[i]
        return mu(z) if self.random else float(z > 0)

    def law(self, row: int) -> list[tuple[tuple[int, ...], float]]:
        """Label vectors and their probabilities: independent arms given the context."""
        m = [self.one(row, i) for i in range(self.K)]
        vectors = itertools.product((0, 1), repeat=self.K)
        return [(v, math.prod(m[i] if v[i] else 1 - m[i] for i in range(self.K))) for v in vectors]

    def errors_at(self, row: int) -> list[float]:
        law, y = self.law(row), self.y[row]
        return [math.fsum(p for v, p in law if v[i] != y) for i in range(self.K)]

    def disagreement_at(self, row: int) -> list[list[float]]:
        law, K = self.law(row), self.K
        return [[math.fsum(p for v, p in law if v[i] != v[j]) for j in range(K)] for i in range(K)]

    def totals_at(self, row: int) -> list[float]:
        return [error + c for error, c in zip(self.errors_at(row), self.C)]

    def optimal_arm_at(self, row: int) -> int:
        return largest_minimiser(self.totals_at(row))

    def best_fixed_arm(self) -> int:
        rows = [self.totals_at(row) for row in range(len(self.x))]
        return largest_minimiser([math.fsum(column) / len(rows) for column in zip(*rows)])

    def dominant_at(self, row: int, arm: int) -> bool:
        p = self.disagreement_at(row)
        return accepts(self.C, lambda i, j: p[i][j], arm)

    def weak_dominance_fraction(self) -> float:
        n = len(self.x)
        return sum(self.dominant_at(row, self.optimal_arm_at(row)) for row in range(n)) / n

    def weak_dominance_fraction_fixed(self) -> float:
        arm, n = self.best_fixed_arm(), len(self.x)
        return sum(self.dominant_at(row, arm) for row in range(n)) / n

    def strong_dominance_fraction(self) -> float:
        """Contexts at which an arm that is right is never followed by one that is wrong."""

        def holds(row: int) -> bool:
            y = self.y[row]
            met = [v for v, p in self.law(row) if p > 0]
            return all(
                not (v[i] == y != v[j]) for v in met for i, j in itertools.combinations(range(self.K), 2)
            )

        return sum(holds(row) for row in range(len(self.x))) / len(self.x)

    def regret_at(self, row: int, arm: int) -> float:
        total = self.totals_at(row)
        return total[arm] - total[self.optimal_arm_at(row)]


def largest_minimiser(totals: Sequence[float]) -> int:
    return max(i for i, total in enumerate(totals) if total <= min(totals) + TOLERANCE)


class SlowRealizableProblem:
    """Disagreement probabilities mu(phi.theta_ij), theta_ij in a dictionary."""

    def __init__(
        self,
        features: Any,
        theta: Mapping[tuple[int, int], Any],
        costs: Any,
        regret: str = "signed",
    ):
        self.phi, self.theta = features, theta
        self.C, self.K = [float(c) for c in costs], len(costs)
        self.absolute = regret == "absolute"

    def p(self, row: int, i: int, j: int) -> float:
        if i == j:
            return 0.0
        return mu(sum(a * b for a, b in zip(self.phi[row], self.theta[min(i, j), max(i, j)])))

    def optimal_arm_at(self, row: int) -> int:
        return min(i for i in range(self.K) if accepts(self.C, lambda a, b: self.p(row, a, b), i))

    def regret_at(self, row: int, arm: int) -> float:
        best = self.optimal_arm_at(row)
        gap = self.C[arm] - self.C[best]
        return (abs(gap) if self.absolute else gap) + self.p(row, best, arm)


# Worlds


class SlowRows:
    """Rows shuffled once per replication and then served in a cycle."""

    def __init__(self, n: int):
        self.n, self.order = n, list(range(n))

    def start(self, rng: Any) -> None:
        order = list(range(self.n))
        for k in range(self.n - 1, 0, -1):
            j = int((k + 1) * rng.random())
            order[k], order[j] = order[j], order[k]
        self.order = order

    def row(self, t: int) -> int:
        return self.order[(t - 1) % self.n]


def stream(seed: int, replication: int, which: int) -> np.random.Generator:
    """The generator of the world (which = 0) or of the policy (which = 1) in one replication."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(replication, which))))


def draw_labels(problem: SlowContextualProblem, row: int, rng: Any) -> list[int]:
    if not problem.random:
        return [int(problem.one(row, i)) for i in range(problem.K)]
    return [int(rng.random() < problem.one(row, i)) for i in range(problem.K)]


def draw_pairs(problem: SlowRealizableProblem, row: int, rng: Any) -> list[list[bool]]:
    """One uniform number per pair (0, 1), (0, 2), ..., (1, 2), ...; only i < j is filled."""
    differ = [[False] * problem.K for _ in range(problem.K)]
    for i, j in itertools.combinations(range(problem.K), 2):
        differ[i][j] = bool(rng.random() < problem.p(row, i, j))
    return differ


def slow_run(
    policy: Any,
    problem: SlowContextualProblem | SlowRealizableProblem,
    features: Any,
    seed: int,
    replication: int,
    horizon: int,
) -> tuple[list[int], list[float]]:
    """The arms that `policy` plays and the cumulative regret; the policy is changed in place. It is given plain
    copies of what may be seen, so that nothing of the truth or of the arms not reached leaks through them."""
    world_rng, rng = stream(seed, replication, 0), stream(seed, replication, 1)
    rows = SlowRows(len(features))
    rows.start(world_rng)
    played: list[int] = []
    regrets: list[float] = []
    for t in range(1, horizon + 1):
        row = rows.row(t)
        phi = np.array(features[row], dtype=float)
        if isinstance(problem, SlowRealizableProblem):
            differ = draw_pairs(problem, row, world_rng)
            arm = policy.select(phi, rng)
            seen = [[differ[i][j] for j in range(arm + 1)] for i in range(arm + 1)]
            policy.update_pairs(phi, arm, np.array(seen), rng)
        else:
            labels = draw_labels(problem, row, world_rng)
            arm = policy.select(phi, rng)
            outputs = np.array(labels[: arm + 1])
            if policy.sees_truth:
                policy.update(phi, arm, outputs, rng, truth=problem.y[row])
            else:
                policy.update(phi, arm, outputs, rng)
        played.append(int(arm))
        regrets.append(problem.regret_at(row, arm) + (regrets[-1] if regrets else 0.0))
    return played, regrets
