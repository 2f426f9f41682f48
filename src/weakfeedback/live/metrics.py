"""Numeric answers: how far apart they are, and why a tolerance is not enough."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weakfeedback.live.labels import Compare, freeze, short
from weakfeedback.validate import vector

Metric = Callable[[Any, Any], Any]

TOLERANCES = ("tolerance", "tol", "atol", "rtol", "abs_tol", "rel_tol")
CLOSENESS = (math.isclose, np.isclose, np.allclose)
WHY = (
    "a tolerance must not be used: let the truth be 0 and two stages answer 1.2 tol and 0.6 tol; they count as the "
    "same, so nothing is seen, yet the first is wrong and the second right, and disagreement no longer bounds what "
    "a stage saves; use metric=, a function into [0, 1] such as lambda a, b: min(abs(a - b) / scale, 1)"
)


def refuse_tolerance(options: Mapping[str, Any], compare: Compare | None) -> None:
    """Reject a tolerance given by name, or as a function known to be one."""
    named = [name for name in TOLERANCES if name in options]
    if named:
        raise ValueError(f"{named[0]}={short(options[named[0]])}: {WHY}")
    function: Any = compare
    while isinstance(function, functools.partial):
        function = function.func
    if any(function is known for known in CLOSENESS):
        raise ValueError(f"compare={short(compare)}: {WHY}")


def refuse_closeness(answers: Sequence[Any], compare: Compare) -> bool:
    """Reject ``compare`` if it turns out to be a tolerance; return whether the answers tested that.

    Take two different numbers that count as the same, and double the step between them until its ends no longer count
    as the same. If the ends of each half of the step still do, ``compare`` is not transitive, as it must be.
    """
    numbers = [float(answer) for answer in answers if isinstance(answer, (float, np.floating))]
    for i, a in enumerate(numbers):
        for b in numbers[i + 1 :]:
            if a != b and math.isfinite(a) and math.isfinite(b) and compare(a, b):
                start, end = sorted((a, b), key=abs)  # away from 0: a relative tolerance grows there
                _walk(start, end - start, compare)
                return True
    return False


def _walk(start: float, step: float, compare: Compare) -> None:
    while math.isfinite(start + 2.0 * step):
        if not compare(start, start + 2.0 * step):
            if compare(start + step, start + 2.0 * step):
                raise ValueError(
                    f"compare takes {start:g} and {start + step:g} for the same, {start + step:g} and "
                    f"{start + 2.0 * step:g} too, but not {start:g} and {start + 2.0 * step:g}: {WHY}"
                )
            return
        step *= 2.0


def distances(answers: Sequence[Any], metric: Metric) -> np.ndarray:
    """Return the matrix of the distances between answers i < j, each from 0 to 1.

    >>> distances([0.1, 0.4], lambda a, b: abs(a - b)).round(3)[0].tolist()
    [0.0, 0.3]
    """
    size = len(answers)
    far = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1, size):
            given = metric(answers[i], answers[j])
            try:
                far[i, j] = given
            except (TypeError, ValueError):
                far[i, j] = math.nan
            if not 0.0 <= far[i, j] <= 1.0:
                raise ValueError(
                    f"metric must give a number from 0 to 1, got {short(given)} for {short(answers[i])} and "
                    f"{short(answers[j])}"
                )
    return far


def far_matrix(far: Any, arm: int) -> np.ndarray:
    """Return the matrix of the distances of the pairs (0, 1), (0, 2), ..., (1, 2), ... of the stages up to ``arm``."""
    given = vector("far", far, at_least=0.0, size=arm * (arm + 1) // 2) if arm else np.zeros(0)
    if (given > 1.0).any():
        raise ValueError(f"far must be numbers from 0 to 1, got {short(far)}")
    matrix = np.zeros((arm + 1, arm + 1))
    matrix[np.triu_indices(arm + 1, 1)] = given
    return matrix


def sample_disagreements(far: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sample which pairs i < j count as different, in the order (0, 1), (0, 2), ..., (1, 2), ....

    Draws: one ``rng.random()`` for every pair, whatever its distance; the pair differs if the number is smaller.
    """
    size = len(far)
    differ = np.zeros((size, size), dtype=np.bool_)
    for i in range(size):
        for j in range(i + 1, size):
            differ[i, j] = rng.random() < far[i, j]
    return freeze(differ)
