"""Slow twins of chapter 2: policies, worlds and the quantities of a problem, as literal as Python allows.

Inside, arms are numbered 1..K as in the thesis and statistics are dictionaries keyed by pairs (i, j), i < j.
At the boundary (what `select` returns, what `update` takes, every field of `SlowProblem`) arms are 0-based.
Nothing of `weakfeedback` is imported here: that is what makes a comparison worth something.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

TOLERANCE = Fraction(1, 10**12)  # decimal ties (.1 + .2 against .3) are ties


# Policies


class SlowPolicy:
    """K arms, their cumulative costs C, and the pairs i < j."""

    def __init__(self, costs: Sequence[float]):
        self.K = len(costs)
        self.C = {i: float(costs[i - 1]) for i in range(1, self.K + 1)}

    def arms(self) -> range:
        return range(1, self.K + 1)

    def below(self, i: int) -> range:
        return range(1, i)

    def above(self, i: int) -> range:
        return range(i + 1, self.K + 1)

    def pairs(self, last: int) -> list[tuple[int, int]]:
        """Every (i, j) with i < j <= last."""
        return [(i, j) for i in range(1, last + 1) for j in range(i + 1, last + 1)]

    def select(self, rng: Any) -> int:
        raise NotImplementedError

    def update(self, arm: int, outputs: Sequence[int], rng: Any) -> None:
        self.observed(arm, outputs)

    def observed(self, arm: int, outputs: Sequence[int]) -> dict[int, int]:
        """The outputs Y^1..Y^I of a round that stopped at arm I, and no output beyond."""
        if not 0 <= arm < self.K:
            raise ValueError(f"arm must be in 0..{self.K - 1}, got {arm}")
        if len(outputs) != arm + 1:
            raise ValueError(f"outputs must be those of arms 0..{arm}, got {len(outputs)} of them")
        return {i: int(outputs[i - 1]) for i in range(1, arm + 2)}


class SlowCounts(SlowPolicy):
    """The counts D_ij and N_ij of USS-UCB and its upper bound p_ij + Psi_ij, with f(t) = t."""

    def __init__(self, costs: Sequence[float], alpha: float):
        super().__init__(costs)
        self.alpha = alpha
        self.t = 1
        self.D = dict.fromkeys(self.pairs(self.K), 0)
        self.N = dict.fromkeys(self.pairs(self.K), 0)

    def upper(self, i: int, j: int) -> float:
        D, N = self.D[i, j], self.N[i, j]
        if N == 0:
            return math.inf
        return D / N + math.sqrt(self.alpha * math.log(self.t) / N)

    def update(self, arm: int, outputs: Sequence[int], rng: Any) -> None:
        Y = self.observed(arm, outputs)
        for i, j in self.pairs(arm + 1):
            if Y[i] != Y[j]:
                self.D[i, j] += 1
            self.N[i, j] += 1
        self.t += 1


class SlowUssUcb(SlowCounts):
    """Algorithm USS-UCB."""

    def __init__(self, costs: Sequence[float], alpha: float = 0.5):
        super().__init__(costs, alpha)

    def lower_set(self) -> set[int]:
        C = self.C
        return {i for i in self.arms() if all(C[i] - C[j] <= self.upper(j, i) for j in self.below(i))} | {1}

    def upper_set(self) -> set[int]:
        C = self.C
        return {i for i in self.arms() if all(C[j] - C[i] > self.upper(i, j) for j in self.above(i))} | {
            self.K
        }

    def select(self, rng: Any) -> int:
        if self.t == 1:
            return self.K - 1  # line 1
        B = self.lower_set() & self.upper_set()
        return min(B | {self.K}) - 1


class SlowHanawal(SlowCounts):
    """The one-sided heuristic of Hanawal et al. (2017), reconstructed: `>=` in the test, last arm first."""

    def __init__(self, costs: Sequence[float], alpha: float = 1.5):
        super().__init__(costs, alpha)

    def select(self, rng: Any) -> int:
        if self.t == 1:
            return self.K - 1
        for i in self.arms():
            if all(self.C[j] - self.C[i] >= self.upper(i, j) for j in self.above(i)):
                return i - 1
        raise AssertionError("the last arm has no arm above it and is always accepted")


class SlowUssTs(SlowPolicy):
    """Algorithm USS-TS. A fresh draw for every pair (i, j > i) as arm i is examined, failed tests or not."""

    def __init__(self, costs: Sequence[float]):
        super().__init__(costs)
        self.S = dict.fromkeys(self.pairs(self.K), 1)
        self.F = dict.fromkeys(self.pairs(self.K), 1)

    def select(self, rng: Any) -> int:
        i = 1
        chosen = 0
        while chosen == 0:
            p = {}
            for j in self.above(i):
                p[j] = rng.beta(self.S[i, j], self.F[i, j])
            if all(self.C[j] - self.C[i] > p[j] for j in self.above(i)) or i == self.K:
                chosen = i
            else:
                i = i + 1
        return chosen - 1

    def update(self, arm: int, outputs: Sequence[int], rng: Any) -> None:
        Y = self.observed(arm, outputs)
        for i, j in self.pairs(arm + 1):
            if Y[i] != Y[j]:
                self.S[i, j] += 1
            else:
                self.F[i, j] += 1


class SlowFixedArm(SlowPolicy):
    """Always the same arm (0-based)."""

    def __init__(self, costs: Sequence[float], arm: int):
        super().__init__(costs)
        self.arm = arm

    def select(self, rng: Any) -> int:
        return self.arm


class SlowRandomArm(SlowPolicy):
    """A uniform arm from one uniform draw."""

    def select(self, rng: Any) -> int:
        return int(self.K * rng.random())


# Worlds: rows are (y, y1, ..., yK)


class SlowLawWorld:
    """Rows drawn independently from a finite law, one uniform number per round."""

    def __init__(self, outcomes: Sequence[Sequence[int]], probabilities: Sequence[float]):
        self.rows = [tuple(int(label) for label in row) for row in outcomes]
        total = math.fsum(probabilities)
        self.cumulative: list[float] = []
        running = 0.0
        for probability in probabilities:
            running += float(probability) / total
            self.cumulative.append(running)

    def start(self, rng: Any) -> None:
        """Nothing is drawn before the first round."""

    def row(self, t: int, rng: Any) -> tuple[int, ...]:
        u = rng.random()
        for row, cumulative in zip(self.rows, self.cumulative):
            if cumulative > u:
                return row
        return self.rows[-1]


class SlowTableWorld:
    """Rows of a data set, shuffled once per replication and then served in a cycle."""

    def __init__(self, outcomes: Sequence[Sequence[int]]):
        self.rows = [tuple(int(label) for label in row) for row in outcomes]
        self.order: list[int] = []

    def start(self, rng: Any) -> None:
        order = list(range(len(self.rows)))
        for k in range(len(order) - 1, 0, -1):
            j = int((k + 1) * rng.random())
            order[k], order[j] = order[j], order[k]
        self.order = order

    def row(self, t: int, rng: Any) -> tuple[int, ...]:
        return self.rows[self.order[(t - 1) % len(self.rows)]]


def slow_world(outcomes: Any, probabilities: Any, cycled: bool) -> SlowLawWorld | SlowTableWorld:
    """The world of a data set, or of a law, from arrays."""
    rows = outcomes.tolist()
    return SlowTableWorld(rows) if cycled else SlowLawWorld(rows, probabilities.tolist())


def stream(seed: int, replication: int, which: int) -> np.random.Generator:
    """The generator of the world (which = 0) or of the policy (which = 1) in one replication."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(replication, which))))


def slow_run(
    policy: Any, world: SlowLawWorld | SlowTableWorld, seed: int, replication: int, horizon: int
) -> list[int]:
    """The arms (0-based) that `policy` plays; it is changed in place. Outputs are a plain tuple of those of
    arms 0..arm, so that nothing of the hidden label or of the stages not reached leaks through them."""
    world_rng, policy_rng = stream(seed, replication, 0), stream(seed, replication, 1)
    world.start(world_rng)
    played = []
    for t in range(1, horizon + 1):
        _, *labels = world.row(t, world_rng)
        arm = policy.select(policy_rng)
        assert 0 <= arm < len(labels), f"round {t}: arm {arm} of {len(labels)}"
        outputs = tuple(labels[: arm + 1])
        assert len(outputs) == arm + 1
        policy.update(arm, outputs, policy_rng)
        played.append(int(arm))
    return played


# The quantities of a problem


@dataclass(frozen=True)
class SlowProblem:
    """Exact quantities of a problem, arms 0-based. Infinite ones are the float inf, the others fractions.
    `np.array(field, dtype=float)` turns a tuple of fractions into floats."""

    costs: tuple[Fraction, ...]  # lambda_i C_i
    errors: tuple[Fraction, ...]  # gamma_i
    disagreement: tuple[tuple[Fraction, ...], ...]  # p_ij
    total_costs: tuple[Fraction, ...]  # gamma_i + lambda_i C_i
    optimal_arm: int
    gaps: tuple[Fraction, ...]  # Delta_j
    kappas: tuple[Fraction, ...]  # 0 at the optimal arm
    xis: tuple[Fraction, ...]  # 0 at the optimal arm
    rho: Fraction | float
    xi: Fraction | float
    strong_dominance: bool
    weak_dominance: bool
    lower_set: frozenset[int]
    upper_set: frozenset[int]


def exact(number: Any) -> Fraction:
    """The decimal number that was meant: .1 is 1/10, not the nearest binary number."""
    return number if isinstance(number, Fraction) else Fraction(str(float(number)))


def slow_problem(
    outcomes: Sequence[Sequence[int]],
    probabilities: Sequence[float],
    costs: Sequence[float],
    tradeoff: float | Sequence[float] = 1.0,
) -> SlowProblem:
    """Every quantity of the law by enumeration of its rows (y, y1, ..., yK). For a data set: weights of 1."""
    K = len(costs)
    arms = range(1, K + 1)
    weights = [exact(p) for p in probabilities]
    law = [(tuple(row), w / sum(weights)) for row, w in zip(outcomes, weights)]

    def probability(event: Callable[[tuple[int, ...]], bool]) -> Fraction:
        return sum((w for row, w in law if event(row)), Fraction(0))

    factors = [tradeoff] * K if np.ndim(tradeoff) == 0 else list(tradeoff)  # type: ignore[arg-type]
    C = {i: exact(factors[i - 1]) * exact(costs[i - 1]) for i in arms}
    # Y is column 0 of a row and Y^i is column i.
    gamma = {i: probability(lambda row, i=i: row[i] != row[0]) for i in arms}  # type: ignore[misc]
    p = {(i, j): probability(lambda row, i=i, j=j: row[i] != row[j]) for i in arms for j in arms}  # type: ignore[misc]
    total = {i: gamma[i] + C[i] for i in arms}
    best = max(i for i in arms if total[i] <= min(total.values()) + TOLERANCE)
    Delta = {j: total[j] - total[best] for j in arms}
    kappa, xi = kappas_and_xis(best, gamma, p, Delta)
    later = range(best + 1, K + 1)
    # A later arm that never disagrees has the same errors and is not optimal: it costs more, ratio +inf.
    ratios = [(C[j] - C[best]) / p[best, j] if p[best, j] > 0 else math.inf for j in later]
    least = min((C[j] - C[best] - p[best, j] for j in later), default=math.inf)
    B_l = {i for i in arms if all(C[i] - C[j] <= p[i, j] + TOLERANCE for j in range(1, i))} | {1}
    B_h = {i for i in arms if all(C[j] - C[i] > p[i, j] + TOLERANCE for j in range(i + 1, K + 1))} | {K}
    return SlowProblem(
        costs=tuple(C[i] for i in arms),
        errors=tuple(gamma[i] for i in arms),
        disagreement=tuple(tuple(p[i, j] for j in arms) for i in arms),
        total_costs=tuple(total[i] for i in arms),
        optimal_arm=best - 1,
        gaps=tuple(Delta[j] for j in arms),
        kappas=tuple(kappa[j] for j in arms),
        xis=tuple(xi[j] for j in arms),
        rho=min(ratios, default=math.inf),
        xi=least,
        strong_dominance=strongly_dominant([row for row, w in law if w > 0], K),
        weak_dominance=bool(least > TOLERANCE),
        lower_set=frozenset(i - 1 for i in B_l),
        upper_set=frozenset(i - 1 for i in B_h),
    )


def kappas_and_xis(
    best: int,
    gamma: dict[int, Fraction],
    p: dict[tuple[int, int], Fraction],
    Delta: dict[int, Fraction],
) -> tuple[dict[int, Fraction], dict[int, Fraction]]:
    """kappa_j and xi_j as the thesis defines them for USS-UCB; 0 at the optimal arm, which it leaves open."""
    kappa, xi = {best: Fraction(0)}, {best: Fraction(0)}
    for j in gamma:
        if j < best:
            kappa[j] = p[best, j] - (gamma[j] - gamma[best])
            xi[j] = Delta[j] + kappa[j]
        if j > best:
            kappa[j] = p[best, j] - (gamma[best] - gamma[j])
            xi[j] = Delta[j] - kappa[j]
    return kappa, xi


def strongly_dominant(rows: list[tuple[int, ...]], K: int) -> bool:
    """Y^i = Y implies Y^j = Y for all j > i, in every row that can occur."""
    for row in rows:
        for i in range(1, K + 1):
            for j in range(i + 1, K + 1):
                if row[i] == row[0] and row[j] != row[0]:
                    return False
    return True
