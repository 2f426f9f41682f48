"""Slow twins of the cascade policies beyond the thesis: USS-WD, drifting USS-TS, and Q-USS which buys labels.

Inside, arms are numbered 1..K and statistics are dictionaries keyed by pairs (i, j), i < j, or by tree nodes.
At the boundary (what `select` returns, what `update` takes) arms are 0-based.
Nothing of `weakfeedback` is imported here: that is what makes a comparison worth something.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from tests.reference.cascade import SlowPolicy, exact, stream


class SlowWalk(SlowPolicy):
    """The smallest i with C_j - C_i > bound(i, j) for all j > i, else K; every bound of an arm is asked for."""

    def walk(self, bound: Callable[[int, int], float]) -> int:
        for i in self.arms():
            bounds = {j: bound(i, j) for j in self.above(i)}
            if all(self.C[j] - self.C[i] > bounds[j] for j in bounds):
                return i
        raise AssertionError("the last arm has no arm above it and is always accepted")


class SlowUssWd(SlowWalk):
    """USS-WD: the law of all outputs as a tree. A node is the tuple of the bits of arms 1..k, where a bit says
    whether the arm's output differs from that of arm 1. A law under which min B^h is not in B^l is drawn again."""

    def __init__(self, costs: Sequence[float], redraws: int = 20):
        super().__init__(costs)
        self.redraws = redraws
        self.drawn: list[int] = []  # laws per round, for the tests' own sake
        # depth by depth, in a depth as binary numbers: this is the order of the draws
        self.nodes = [(0, *rest) for k in range(self.K - 1) for rest in itertools.product((0, 1), repeat=k)]
        self.d = dict.fromkeys(self.nodes, 0)
        self.n = dict.fromkeys(self.nodes, 0)

    def select(self, rng: Any) -> int:
        for laws in itertools.count(1):
            p = self.one_law(rng)
            i = self.walk(lambda i, j, p=p: p[i, j])
            possible = all(self.C[i] - self.C[k] <= p[k, i] for k in range(1, i))
            if possible or laws == self.redraws:
                self.drawn.append(laws)
                return i - 1
        raise AssertionError

    def one_law(self, rng: Any) -> dict[tuple[int, int], float]:
        q = {node: rng.beta(self.d[node] + 1 / 2, self.n[node] - self.d[node] + 3 / 2) for node in self.nodes}
        law = {}
        for rest in itertools.product((0, 1), repeat=self.K - 1):
            row = (0, *rest)
            steps = [q[row[:k]] if row[k] != row[k - 1] else 1 - q[row[:k]] for k in range(1, self.K)]
            law[row] = math.prod(steps)

        return {
            (i, j): math.fsum(weight for row, weight in law.items() if row[i - 1] != row[j - 1])
            for i, j in itertools.combinations(range(1, self.K + 1), 2)
        }

    def update(self, arm: int, outputs: Sequence[int], rng: Any) -> None:
        Y = self.observed(arm, outputs)
        if len(set(Y.values())) > 2:
            raise ValueError("more than two labels")
        row = tuple(int(Y[i] != Y[1]) for i in range(1, arm + 2))
        for k in range(1, arm + 1):
            self.n[row[:k]] += 1
            self.d[row[:k]] += Y[k + 1] != Y[k]


class SlowUssMean(SlowWalk):
    """USS-mean: normal draws around the mean movement of each pair, kept as lists."""

    def __init__(self, costs: Sequence[float], scale: float = 1.0):
        super().__init__(costs)
        self.scale = scale
        self.seen: dict[tuple[int, int], list[float]] = {pair: [] for pair in self.pairs(self.K)}

    def select(self, rng: Any) -> int:
        def bound(i: int, j: int) -> float:
            z, moved = rng.standard_normal(), self.seen[i, j]
            if len(moved) < 2:
                return math.inf
            mean = math.fsum(moved) / len(moved)
            variance = math.fsum((x - mean) ** 2 for x in moved) / len(moved)
            return mean + z * math.sqrt(max(variance, len(moved) ** -2) / len(moved))

        return self.walk(bound) - 1

    def update(self, arm: int, outputs: Sequence[float], rng: Any) -> None:
        Y = dict(enumerate(outputs, 1))
        for i, j in self.pairs(arm + 1):
            self.seen[i, j].append(min(((Y[i] - Y[j]) / self.scale) ** 2, 1.0))


class SlowUssTsDrift(SlowWalk):
    """USS-TS-P: the last arm now and then, and no more than M observations of a pair."""

    def __init__(self, costs: Sequence[float], probe: float = 0.02, memory: float = 100):
        super().__init__(costs)
        self.probe, self.M = probe, memory
        self.D = dict.fromkeys(self.pairs(self.K), 0.0)
        self.N = dict.fromkeys(self.pairs(self.K), 0.0)

    def select(self, rng: Any) -> int:
        if rng.random() < self.probe:
            return self.K - 1
        return self.walk(lambda i, j: rng.beta(1 + self.D[i, j], 1 + self.N[i, j] - self.D[i, j])) - 1

    def update(self, arm: int, outputs: Sequence[int], rng: Any) -> None:
        Y = self.observed(arm, outputs)
        for pair in self.pairs(arm + 1):
            if self.N[pair] > self.M - 1:
                self.D[pair] = self.D[pair] * (self.M - 1) / self.N[pair]
                self.N[pair] = self.M - 1
            self.N[pair] += 1
            self.D[pair] += Y[pair[0]] != Y[pair[1]]


class SlowQUss(SlowWalk):
    """Q-USS: two samples of the best arm; where they differ and the budget for labels allows, a label is bought."""

    def __init__(self, costs: Sequence[float], price: float, cap: float = 0.2):
        super().__init__(costs)
        self.price, self.cap = price, cap
        self.t, self.labels, self.buying = 1, 0, False
        self.D, self.N, self.A, self.B, self.E = (dict.fromkeys(self.pairs(self.K), 0) for _ in range(5))
        self.route: set[str] = set()  # what the decisions went through, for the tests' own sake

    def sample(self, p: dict[tuple[int, int], float], rng: Any) -> int:
        def bound(i: int, j: int) -> float:
            A, B, E = (count[i, j] for count in (self.A, self.B, self.E))
            th = rng.beta(6 + A, 1 + B)  # as if five labels had spoken for j
            m = 1.0 if E == 0 else rng.beta(1 + A + B, E)
            return p[i, j] * m * (2 * th - 1)

        return self.walk(bound)

    def by_means(self) -> int:
        def bound(i: int, j: int) -> float:
            D, N, A, B, E = (count[i, j] for count in (self.D, self.N, self.A, self.B, self.E))
            return (1 + D) / (2 + N) * ((1 + A + B) / (1 + A + B + E)) * (2 * ((6 + A) / (7 + A + B)) - 1)

        return self.walk(bound)

    def affordable(self) -> bool:
        """(labels + 1) l <= cap l^(1/3) t^(2/3), both sides to the third power.

        A tie of the decimal numbers that were meant is left to doubles, as they come.
        """
        price, cap, n = exact(self.price), exact(self.cap), self.labels + 1
        spent, allowed = (n * price) ** 3, cap**3 * price * self.t**2
        if abs(spent - allowed) <= Fraction(1, 10**12) * allowed:
            real = n * self.price
            return real * real * n <= self.cap * self.cap * self.cap * float(self.t * self.t)
        return spent <= allowed

    def select(self, rng: Any) -> int:
        p = {
            (i, j): rng.beta(1 + self.D[i, j], 1 + self.N[i, j] - self.D[i, j])
            for i in range(1, self.K)
            for j in range(i + 1, self.K + 1)
        }
        first, second = self.sample(p, rng), self.sample(p, rng)
        self.buying = first != second and self.affordable()
        if first == second:
            self.route.add("same")
            return first - 1
        if self.buying:
            self.route.add("buying")
            return max(first, second) - 1
        self.route.add("means")
        return self.by_means() - 1

    def wants_label(self, arm: int, outputs: Sequence[int], rng: Any) -> bool:
        return self.buying and len(set(self.observed(arm, outputs).values())) > 1

    def learn_label(self, arm: int, outputs: Sequence[int], truth: int) -> None:
        Y = self.observed(arm, outputs)
        self.labels += 1
        for i, j in self.pairs(arm + 1):
            if Y[i] != Y[j]:
                count = self.A if Y[j] == truth else self.B if Y[i] == truth else self.E
                count[i, j] += 1

    def update(self, arm: int, outputs: Sequence[int], rng: Any) -> None:
        Y = self.observed(arm, outputs)
        for i, j in self.pairs(arm + 1):
            self.N[i, j] += 1
            self.D[i, j] += Y[i] != Y[j]
        self.t += 1


def slow_sale(policy: Any, world: Any, seed: int, replication: int, horizon: int) -> list[tuple[int, bool]]:
    """Rounds in which the truth is sold to a policy that wants it: the arms (0-based), and who bought."""
    world_rng, rng = stream(seed, replication, 0), stream(seed, replication, 1)
    world.start(world_rng)
    played = []
    for t in range(1, horizon + 1):
        truth, *labels = world.row(t, world_rng)
        arm = int(policy.select(rng))
        outputs = tuple(labels[: arm + 1])
        bought = bool(policy.wants_label(arm, outputs, rng))
        if bought:
            policy.learn_label(arm, outputs, truth)
        policy.update(arm, outputs, rng)
        played.append((arm, bought))
    return played
