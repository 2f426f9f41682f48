"""Stages that answer with numbers: what a movement of the answer says about the error, and when.

With squared errors, gamma_i = E (Y - Y^i)^2, movements s_ij = E (Y^i - Y^j)^2 and b_ij = E (Y - Y^j)(Y^j - Y^i),

    gamma_i - gamma_j = s_ij + 2 b_ij.

If b_ij = 0 for all i < j (every later stage is *calibrated given the earlier ones*) an improvement is exactly the
movement, weak dominance always holds and every gap can be observed. This is so if Y^j is the least-squares linear stack
of Y^1, ..., Y^j, or Y^j = E[Y | G] where G holds Y^1, ..., Y^(j-1). If only b_iK = 0, then i* minimises C_i + s_iK.
With |b| <= beta for all pairs the settled arm costs at most 2 (K - 1) beta more than the best, and the arm that
minimises C_i + s_iK at most 4 beta.

Without labels one can check that chains add up: s_ik - s_ij - s_jk = 2 (b_ij + b_jk - b_ik). A chain that does not
proves that some stage is not calibrated; one that does cannot clear the last stage. That needs labels: `calibration`.
All numbers are in units of ``scale``^2.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.validate import brief, fraction, number, vector

PROMISE = (
    "The saving is right only if each stage is calibrated given the earlier ones: "
    "let it see their answers, or stack it."
)
Interval = tuple[float, float, float]  # estimate, low, high


@dataclass(frozen=True)
class Chain:
    """Whether movements add up along the cascade, without labels. ``print`` it for a sentence.

    Attributes
    ----------
    movements : dict
        By pair (i, j) with i < j: s_ij and the ends of its interval.
    gaps : dict
        By arms (i, j, k): s_ik - s_ij - s_jk and the ends of its interval; 0 if all stages are calibrated.
    broken : tuple
        The arms (i, j, k) whose interval does not hold 0: some stage is certainly not calibrated.
    alpha : float
        The probability that anything is called broken although all chains add up (Bonferroni over the chains,
        normal approximation).
    """

    movements: dict[tuple[int, int], Interval]
    gaps: dict[tuple[int, int, int], Interval]
    broken: tuple[tuple[int, int, int], ...]
    alpha: float

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """Return the finding in words; ``names`` are those of the stages."""
        if not self.gaps:
            return PROMISE
        if not self.broken:
            return f"The chains add up. {PROMISE}"
        i, j, k = max(self.broken, key=lambda chain: abs(self.gaps[chain][0]))
        one, two, three = (f"stage {arm}" if names is None else str(names[arm]) for arm in (i, j, k))
        moved = self.movements[i, k][0], self.movements[i, j][0], self.movements[j, k][0]
        return (
            f"From {one} to {three} the answers move by {moved[0]:.3g}, "
            f"by way of {two} by {moved[1]:.3g} + {moved[2]:.3g}: some stage "
            f"is not calibrated, so the saving cannot be trusted. {PROMISE}"
        )

    def __str__(self) -> str:
        return self.sentence()


@dataclass(frozen=True)
class Calibration:
    """How far each stage is from calibrated given the earlier ones, from labels. ``print`` it for a sentence.

    Attributes
    ----------
    bias : dict
        By pair (i, j) with i < j: b_ij and the ends of its interval; the later stage over-reacts where it is negative.
    beta : float
        The largest |b_iK| that the intervals allow.
    excess : float
        4 beta: what the arm that minimises C_i + s_iK can cost more than the best, in units of an error of size
        ``scale``.
    alpha : float
        The probability that some b_iK lies outside its interval (Bonferroni, normal approximation).
    n : int
    """

    bias: dict[tuple[int, int], Interval]
    beta: float
    excess: float
    alpha: float
    n: int

    def __str__(self) -> str:
        return (
            f"The last stage, judged by {self.n} labels: |b| is at most {self.beta:.3g} at confidence "
            f"{100 * (1 - self.alpha):.6g} %, so trusting it costs at most {self.excess:.3g} per answer."
        )


def chain(predictions: Any, scale: float = 1.0, alpha: float = 0.05) -> Chain:
    """Return whether the movements of n answers of K stages add up; needs no labels.

    >>> answers = [[0.0, 1.0, 1.0], [0.0, -1.0, -1.0], [0.0, 1.0, 1.0], [0.0, -1.0, -1.0]]
    >>> chain(answers, scale=2.0).movements[0, 1]
    (0.25, 0.25, 0.25)
    """
    answers, size = prediction_table(predictions, least=2), number("scale", scale, above=0.0)
    level = fraction("alpha", alpha, "below 1")
    arms = answers.shape[1]
    chains = list(itertools.combinations(range(arms), 3))
    z = _quantile(level, max(len(chains), 1))
    moved = {
        (i, j): movement(answers[:, i], answers[:, j], size)
        for i, j in itertools.combinations(range(arms), 2)
    }
    gaps = {(i, j, k): _interval(moved[i, k] - moved[i, j] - moved[j, k], z) for i, j, k in chains}
    return Chain({pair: _interval(values, z) for pair, values in moved.items()}, gaps, _broken(gaps), level)


def chain_of_sums(
    n: np.ndarray,
    total: np.ndarray,
    squares: np.ndarray,
    gaps: np.ndarray,
    gap_squares: np.ndarray,
    alpha: float = 0.05,
) -> Chain:
    """Return the same from sums: ``n[i, j]`` movements of a pair, their sum and the sum of their squares.

    ``gaps[i, j, k]`` and ``gap_squares[i, j, k]`` are the sums of a chain, over the comparisons that reached k.
    """
    arms = len(total)
    chains = list(itertools.combinations(range(arms), 3))
    z = _quantile(alpha, max(len(chains), 1))
    pairs = itertools.combinations(range(arms), 2)
    movements = {(i, j): _interval_of_sums(n[i, j], total[i, j], squares[i, j], z) for i, j in pairs}
    found = {
        (i, j, k): _interval_of_sums(n[i, k], gaps[i, j, k], gap_squares[i, j, k], z) for i, j, k in chains
    }
    return Chain(movements, found, _broken(found), alpha)


def calibration(truth: Any, predictions: Any, scale: float = 1.0, alpha: float = 0.05) -> Calibration:
    """Return how far the stages are from calibrated, from n labels.

    >>> found = calibration([0.0, 2.0, 2.0, 0.0], [[1.0, 0.0], [1.0, 2.0], [1.0, 2.0], [1.0, 0.0]])
    >>> found.bias[0, 1], found.excess
    ((0.0, 0.0, 0.0), 0.0)
    """
    answers, size = prediction_table(predictions, least=2), number("scale", scale, above=0.0)
    right = vector("truth", truth, size=len(answers))
    level = fraction("alpha", alpha, "below 1")
    last = answers.shape[1] - 1
    z = _quantile(level, max(last, 1))
    bias = {
        (i, j): _interval((right - answers[:, j]) * (answers[:, j] - answers[:, i]) / size**2, z)
        for i, j in itertools.combinations(range(last + 1), 2)
    }
    beta = max(
        (max(abs(low), abs(high)) for (_, j), (_, low, high) in bias.items() if j == last), default=0.0
    )
    return Calibration(bias, beta, 4.0 * beta, level, len(answers))


def prediction_table(predictions: Any, least: int) -> np.ndarray:
    """Validate the answers of K stages to at least ``least`` items, as finite numbers."""
    try:
        answers = np.asarray(predictions, dtype=float)
    except (TypeError, ValueError):
        answers = np.empty(0)
    if answers.ndim != 2 or len(answers) < least or answers.shape[1] < 1 or not np.isfinite(answers).all():
        raise ValueError(
            f"predictions must be finite numbers of shape (n, K) with n >= {least}, got {brief(predictions)}"
        )
    return answers


def movement(one: np.ndarray, other: np.ndarray, scale: float) -> np.ndarray:
    """Return how far answers are apart: the square of the distance in units of ``scale``, at most 1."""
    found: np.ndarray = np.minimum(((one - other) / scale) ** 2, 1.0)
    return found


def _interval(values: np.ndarray, z: float) -> Interval:
    mean = float(values.mean())
    half = z * float(values.std(ddof=1)) / math.sqrt(values.size)
    return mean, mean - half, mean + half


def _interval_of_sums(n: Any, total: Any, squares: Any, z: float) -> Interval:
    mean = float(total) / max(float(n), 1.0)
    if n < 2:
        return mean, -math.inf, math.inf
    half = z * math.sqrt(max(float(squares) - n * mean * mean, 0.0) / (n - 1) / n)
    return mean, mean - half, mean + half


def _broken(gaps: dict[tuple[int, int, int], Interval]) -> tuple[tuple[int, int, int], ...]:
    return tuple(c for c, (mean, low, high) in gaps.items() if not low <= 0.0 <= high and abs(mean) > 1e-12)


def _quantile(alpha: float, tests: int) -> float:
    from scipy.special import ndtri

    return float(-ndtri(alpha / (2.0 * tests)))
