"""Slow twins of chapter 3: policies, worlds, features and the quantities of a problem, as literal as Python allows.

Inside, arms are numbered 1..K as in the thesis and models are kept in dictionaries keyed by pairs (i, j), i < j
(the supervised comparator: by arms). At the boundary arms are 0-based. Every decision solves the likelihood
equations of the whole history anew, to the last digits. Nothing of `weakfeedback` is imported here: that is
what makes a comparison worth something.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

# The estimate


def log_likelihood(X: np.ndarray, y: np.ndarray, ridge: float, theta: np.ndarray) -> float:
    z = X @ theta
    return float(np.sum(y * z - np.logaddexp(0.0, z)) - ridge / 2 * theta @ theta)


def exact_mle(X: np.ndarray, y: np.ndarray, ridge: float, start: np.ndarray) -> np.ndarray:
    """The maximiser of the penalised likelihood: Newton, halving a step as long as the likelihood falls."""
    theta = np.array(start, dtype=float)
    now = log_likelihood(X, y, ridge, theta)
    for _ in range(200):
        p = expit(X @ theta)
        gradient = X.T @ (y - p) - ridge * theta
        hessian = (X.T * (p * (1.0 - p))) @ X + ridge * np.eye(theta.size)
        step = np.linalg.solve(hessian, gradient)
        if gradient @ step <= 1e-20:
            return theta + step
        then = log_likelihood(X, y, ridge, theta + step)
        while then < now - 1e-12 * max(1.0, abs(now)):
            step = step / 2
            then = log_likelihood(X, y, ridge, theta + step)
        theta, now = theta + step, then
    raise AssertionError("Newton's method did not end")


class SlowModel:
    """The observations of one pair (or arm) and what is computed from them."""

    def __init__(self, d: int, ridge: float):
        self.d, self.ridge = d, ridge
        self.X = np.zeros((0, d))  # a row for each observation
        self.y = np.zeros(0)
        self.theta = np.zeros(d)
        self.solved = 0  # observations that theta accounts for

    @property
    def n(self) -> int:
        return self.y.size

    def observe(self, phi: np.ndarray, label: int) -> None:
        self.X = np.vstack([self.X, phi])
        self.y = np.append(self.y, float(label))

    def gram(self) -> np.ndarray:
        """V without the ridge."""
        return sum((np.outer(phi, phi) for phi in self.X), np.zeros((self.d, self.d)))

    def estimate(self) -> np.ndarray:
        if self.solved < self.n:
            self.theta = exact_mle(self.X, self.y, self.ridge, self.theta)
            self.solved = self.n
        return self.theta

    def norm(self, phi: np.ndarray) -> float:
        """||phi|| in the inverse of V = ridge I + the sum of phi phi'."""
        V = self.ridge * np.eye(self.d) + self.X.T @ self.X
        return math.sqrt(phi @ np.linalg.solve(V, phi))


# Policies


class SlowContextualPolicy:
    """K arms, their cumulative costs C, the number t of feedbacks so far, and the walk of lines 5 to 9."""

    sees_truth = False

    def __init__(self, costs: Sequence[float]):
        self.K = len(costs)
        self.C = {i: float(costs[i - 1]) for i in range(1, self.K + 1)}
        self.t = 0

    def arms(self) -> range:
        return range(1, self.K + 1)

    def above(self, i: int) -> range:
        return range(i + 1, self.K + 1)

    def forced_phase(self) -> bool:
        raise NotImplementedError

    def bound(self, phi: np.ndarray, i: int, j: int) -> float:
        """What C_j - C_i has to exceed for arm i to be preferred to arm j > i."""
        raise NotImplementedError

    def decisions(self, phi: Any, slack: float = 0.0) -> set[int]:
        """Every arm that the rule may select when each bound is known up to `slack` only."""
        if self.forced_phase():
            return {self.K - 1}
        x = np.array(phi, dtype=float)
        possible = set()
        for i in self.arms():
            margin = min(
                (self.C[j] - self.C[i] - self.bound(x, i, j) for j in self.above(i)), default=math.inf
            )
            if margin > -slack:
                possible.add(i - 1)
            if margin > slack:
                return possible
        raise AssertionError("the last arm has no arm above it and is always accepted")

    def select(self, phi: Any, rng: Any) -> int:
        (arm,) = self.decisions(phi)
        return arm

    def checked(self, arm: int, outputs: Any) -> dict[int, int]:
        """The outputs Y^1..Y^I of a round that stopped at arm I, and no output beyond."""
        if not 0 <= arm < self.K:
            raise ValueError(f"arm must be in 0..{self.K - 1}, got {arm}")
        if len(outputs) != arm + 1:
            raise ValueError(f"outputs must be those of arms 0..{arm}, got {len(outputs)} of them")
        return {i: int(outputs[i - 1]) for i in range(1, arm + 2)}


def confidence(d: int, K: int, delta: float, sigma: float, kappa: float, t: int) -> float:
    """alpha of the lemma "Confidence Ellipsoid"."""
    radicand = d / 2 * math.log(1 + 2 * t / d) + math.log(K**2 / (2 * delta))
    return 2 * sigma / kappa * math.sqrt(max(radicand, 0.0))


class SlowPairs(SlowContextualPolicy):
    """A model of every pair, and the upper bound of line 8."""

    def __init__(self, costs: Sequence[float], d: int, ridge: float, per_pair: bool):
        super().__init__(costs)
        self.d, self.per_pair = d, per_pair
        pairs = [(i, j) for i in self.arms() for j in self.above(i)]
        self.position = {pair: k for k, pair in enumerate(pairs)}
        self.models = {pair: SlowModel(d, ridge) for pair in pairs}

    def block(self, phi: np.ndarray, i: int, j: int) -> np.ndarray:
        """Phi_ij(x): the features that all pairs share, or those of the pair (i, j)."""
        if not self.per_pair:
            return phi
        first = self.position[i, j] * self.d
        return phi[first : first + self.d]

    def width(self, i: int, j: int) -> float:
        """The factor of the norm in the bonus of a pair."""
        raise NotImplementedError

    def bound(self, phi: np.ndarray, i: int, j: int) -> float:
        model, x = self.models[i, j], self.block(phi, i, j)
        return float(expit(x @ model.estimate() + self.width(i, j) * model.norm(x)))

    def update(self, phi: Any, arm: int, outputs: Any, rng: Any) -> None:
        Y = self.checked(arm, outputs)
        self.learn(phi, arm, {(i, j): int(Y[i] != Y[j]) for i, j in self.models if j <= arm + 1})

    def update_pairs(self, phi: Any, arm: int, differ: Any, rng: Any) -> None:
        self.learn(phi, arm, {(i, j): int(differ[i - 1][j - 1]) for i, j in self.models if j <= arm + 1})

    def learn(self, phi: Any, arm: int, disagreements: Mapping[tuple[int, int], int]) -> None:
        x = np.array(phi, dtype=float)
        for (i, j), label in disagreements.items():
            self.models[i, j].observe(self.block(x, i, j), label)
        self.t += 1


class Forced:
    """Whether the forced phase of USS-PD (line 2) lasts: m rounds, or as many as make every V large."""

    def __init__(self, m: int | None, limit: int):
        self.m, self.limit = m, limit
        self.over = False

    def after_feedback(self, t: int, models: Mapping[Any, SlowModel]) -> None:
        if self.over:
            return
        if self.m is not None:
            self.over = t == self.m
        else:
            large = all(np.linalg.eigvalsh(model.gram())[0] >= 1.0 for model in models.values())
            self.over = large or t == self.limit


class SlowUssPd(SlowPairs):
    """Algorithm USS-PD."""

    def __init__(
        self,
        costs: Sequence[float],
        d: int,
        delta: float = 0.05,
        sigma: float = 0.1,
        kappa: float = 0.25,
        forced: int | None = None,
        ridge: float = 1e-3,
        forced_limit: int = 500,
        per_pair: bool = False,
    ):
        super().__init__(costs, d, ridge, per_pair)
        self.delta, self.sigma, self.kappa = delta, sigma, kappa
        self.forced = Forced(forced, forced_limit)

    def forced_phase(self) -> bool:
        return not self.forced.over

    def width(self, i: int, j: int) -> float:
        return confidence(self.d, self.K, self.delta, self.sigma, self.kappa, self.t)

    def learn(self, phi: Any, arm: int, disagreements: Mapping[tuple[int, int], int]) -> None:
        super().learn(phi, arm, disagreements)
        self.forced.after_feedback(self.t, self.models)


class SlowUssPdRidge(SlowPairs):
    """Algorithm USS-PD-lambdaI, with the bonus of its pseudo-code (alpha) or of its lemma (beta)."""

    def __init__(
        self,
        costs: Sequence[float],
        d: int,
        ridge: float = 1.0,
        bonus: str = "alpha",
        norm_bound: float = 1.0,
        delta: float = 0.05,
        sigma: float = 0.1,
        kappa: float = 0.25,
        per_pair: bool = False,
    ):
        super().__init__(costs, d, ridge, per_pair)
        self.ridge, self.bonus, self.S = ridge, bonus, norm_bound
        self.delta, self.sigma, self.kappa = delta, sigma, kappa

    def forced_phase(self) -> bool:
        return self.t == 0

    def width(self, i: int, j: int) -> float:
        if self.bonus == "alpha":
            return confidence(self.d, self.K, self.delta, self.sigma, self.kappa, self.t)
        n, d, ridge = self.models[i, j].n, self.d, self.ridge
        radicand = d / 2 * math.log(1 + n / (d * ridge)) + math.log(self.K**2 / (2 * self.delta))
        return 2 * self.sigma / self.kappa * math.sqrt(max(radicand, 0.0)) + 2 * math.sqrt(ridge) * self.S


class SlowSupervised(SlowContextualPolicy):
    """The comparator that is told the truth: a model of the errors of every arm."""

    sees_truth = True

    def __init__(
        self,
        costs: Sequence[float],
        d: int,
        delta: float = 0.05,
        sigma: float = 0.1,
        kappa: float = 0.25,
        forced: int | None = None,
        ridge: float = 1e-3,
        forced_limit: int = 500,
    ):
        super().__init__(costs)
        self.d, self.delta, self.sigma, self.kappa = d, delta, sigma, kappa
        self.models = {i: SlowModel(d, ridge) for i in self.arms()}
        self.forced = Forced(forced, forced_limit)

    def forced_phase(self) -> bool:
        return not self.forced.over

    def error(self, phi: np.ndarray, i: int, sign: int) -> float:
        """The upper (+1) or lower (-1) bound of gamma_i(x)."""
        alpha = confidence(self.d, self.K, self.delta, self.sigma, self.kappa, self.t)
        model = self.models[i]
        return float(expit(phi @ model.estimate() + sign * alpha * model.norm(phi)))

    def bound(self, phi: np.ndarray, i: int, j: int) -> float:
        return self.error(phi, i, +1) - self.error(phi, j, -1)

    def update(self, phi: Any, arm: int, outputs: Any, rng: Any, truth: int) -> None:
        for i, label in self.checked(arm, outputs).items():
            self.models[i].observe(np.array(phi, dtype=float), int(label != truth))
        self.t += 1
        self.forced.after_feedback(self.t, self.models)


class SlowFixedArm(SlowContextualPolicy):
    """Always the same arm (0-based)."""

    def __init__(self, costs: Sequence[float], arm: int):
        super().__init__(costs)
        self.arm = arm

    def select(self, phi: Any, rng: Any) -> int:
        return self.arm

    def update(self, phi: Any, arm: int, outputs: Any, rng: Any) -> None:
        self.checked(arm, outputs)

    def update_pairs(self, phi: Any, arm: int, differ: Any, rng: Any) -> None:
        """Nothing is learnt."""


class SlowRandomArm(SlowFixedArm):
    """A uniform arm from one uniform draw."""

    def __init__(self, costs: Sequence[float]):
        super().__init__(costs, -1)

    def select(self, phi: Any, rng: Any) -> int:
        return int(self.K * rng.random())


# Features


def quadratic_columns(x: Sequence[float], bound: float) -> list[float]:
    """Coordinates of ((1 + x.z) / (1 + B^2))^2 before any is dropped."""
    root = math.sqrt(2)
    products = [root * a * b for a, b in itertools.combinations(x, 2)]
    return [c / (1 + bound**2) for c in [1.0, *(root * a for a in x), *(a * a for a in x), *products]]


def independent_columns(table: np.ndarray) -> list[int]:
    """Columns that do not depend linearly on the columns before them."""
    kept: list[int] = []
    for k in range(table.shape[1]):
        column, before = table[:, k], table[:, kept]
        residual = column
        if kept:
            residual = column - before @ np.linalg.lstsq(before, column, rcond=None)[0]
        if np.linalg.norm(residual) > 1e-8 * np.linalg.norm(column):
            kept.append(k)
    return kept


def slow_features(contexts: Sequence[Sequence[float]], bound: float | None = None) -> np.ndarray:
    """The default map of all contexts; B is their largest norm (1 if all are 0) unless given."""
    if bound is None:
        bound = max(math.sqrt(sum(a * a for a in x)) for x in contexts) or 1.0
    table = np.array([quadratic_columns(x, bound) for x in contexts])
    return table[:, independent_columns(table)]
