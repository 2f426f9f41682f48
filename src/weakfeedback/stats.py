"""Intervals and tests over replications."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


def rounded(parts: Sequence[float], decimals: int) -> list[float]:
    """Return amounts with so many decimals, which add up to the rounded sum.

    >>> rounded([1.004, 1.004, 1.004], 2)
    [1.01, 1.0, 1.0]
    """
    scale = 10**decimals
    units = [math.floor(part * scale) for part in parts]
    left = round(sum(parts) * scale) - sum(units)
    order = sorted(range(len(parts)), key=lambda k: -(parts[k] * scale - units[k]))
    for k in order[:left]:
        units[k] += 1
    return [unit / scale for unit in units]


def add_up(amounts: Iterable[float]) -> float:
    """Return the sum from left to right: from Python 3.12 on, sum() rounds otherwise.

    Stored sums must be the same when they are made again by another Python.

    >>> add_up([0.1] * 10), add_up([])
    (0.9999999999999999, 0)
    """
    total: float = 0
    for amount in amounts:
        total += amount
    return total


def student_interval(values: np.ndarray, level: float = 0.95, axis: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the endpoints (low, high) of Student's interval for the mean along an axis; NaN for a single value.

    >>> low, high = student_interval(np.array([1.0, 2.0, 3.0]))
    >>> round(float(low), 3), round(float(high), 3)
    (-0.484, 4.484)
    """
    from scipy.special import stdtrit

    values = np.asarray(values, dtype=float)
    n = values.shape[axis]
    mean = values.mean(axis=axis)
    if n < 2:
        return np.full_like(mean, math.nan), np.full_like(mean, math.nan)
    half = float(stdtrit(n - 1, 0.5 + level / 2)) * values.std(axis=axis, ddof=1) / math.sqrt(n)
    return mean - half, mean + half


@dataclass(frozen=True)
class Comparison:
    """The mean of paired differences ``first - second``, its 95 % interval and the p-value of a paired t-test."""

    first: str
    second: str
    mean: float
    low: float
    high: float
    p_value: float
    replications: int

    def __getitem__(self, name: str) -> float:
        found: float = getattr(self, name)
        return found


def paired_comparison(first: str, second: str, a: np.ndarray, b: np.ndarray) -> Comparison:
    """Compare two policies that played on the same worlds; two-sided p-value.

    >>> paired_comparison("a", "b", np.array([1.0, 2.0, 4.0]), np.array([2.0, 4.0, 7.0])).mean
    -2.0
    """
    from scipy.special import stdtr

    difference = np.asarray(a, dtype=float) - np.asarray(b, dtype=float)
    n, mean = difference.size, float(difference.mean())
    low, high = (float(end) for end in student_interval(difference))
    spread = float(difference.std(ddof=1)) if n > 1 else math.nan
    if n < 2:
        p_value = math.nan
    elif spread == 0.0:
        p_value = 1.0 if mean == 0.0 else 0.0
    else:
        p_value = float(2 * stdtr(n - 1, -abs(mean) / (spread / math.sqrt(n))))
    return Comparison(first, second, mean, low, high, p_value, n)


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Return Holm's adjusted p-values, in the order given. NaN stays NaN and is not part of the family.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    given = np.asarray(p_values, dtype=float)
    adjusted = np.full(given.shape, math.nan)
    tested = np.flatnonzero(~np.isnan(given))
    least = 0.0
    for k, index in enumerate(tested[np.argsort(given[tested], kind="stable")]):
        least = max(least, min(1.0, (tested.size - k) * given[index]))
        adjusted[index] = least
    return adjusted
