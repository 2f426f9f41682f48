"""Helpers of the chapter compiled for calls from Python, when they are first called."""

import functools
import math
import numbers
from typing import Any

import numpy as np

from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.kernels.knapsack import pack_levels
from weakfeedback.validate import brief, plain

# made once: looking up attributes takes longer than making the arrays
FLOAT, BOOL = (np.dtype(np.float64), np.dtype(np.bool_))


@functools.cache
def compiled(function: Any) -> Any:
    """Return a compiled copy of a plain helper, with the same bits; the helper itself if it cannot be compiled."""
    try:
        from weakfeedback.engine.compiler.lowering import compiled_function

        return compiled_function(function)
    except CannotLower:
        return function


def knapsack(values: Any, weights: Any, capacity: Any) -> np.ndarray:
    """Return which items to take, as a bool array: an exact solution of the 0-1 knapsack with real weights.

    Arguments
    ---------
    values : n numbers
        Items with a value <= 0 are never taken.
    weights : n numbers >= 0
    capacity : number >= 0
        Filled to within a relative 1e-9, so that six items of .7 fit into 4.2.

    Branch and bound, exponential in the worst case: it raises a ValueError after a million nodes, unless the weights
    are integers, which are then solved by dynamic programming.

    >>> knapsack([0.9, 0.6, 0.4], [0.6, 0.55, 0.45], 1.0).tolist()
    [False, True, True]
    """
    try:
        v = _numbers(values)
        w = _numbers(weights)
        room = capacity if type(capacity) is float else _number(capacity)
    except (TypeError, ValueError, OverflowError):
        given = ", ".join(map(brief, (values, weights, capacity)))
        raise ValueError(f"values, weights and capacity must be numbers, got {given}") from None
    if v.ndim == w.ndim == 1:
        # passed as an argument, as returning an array takes longer than creating one
        chosen = np.empty(v.size, BOOL)
        if (_solve or _prepare())(v, w, room, chosen):
            return chosen
    raise ValueError(_complaint(v, w, room))


def _numbers(value: Any) -> np.ndarray:
    """Return an array of floats; raise ``TypeError`` for anything but a sequence of real numbers."""
    if type(value) is np.ndarray and value.dtype == FLOAT:
        return np.ascontiguousarray(value)
    array = np.asarray(plain(value))
    if array.dtype.kind == "O":
        return np.array([_number(one) for one in array.tolist()], FLOAT)
    if array.dtype.kind not in "iuf":
        raise TypeError("no numbers")
    return np.ascontiguousarray(array, FLOAT)


def _number(value: Any) -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, (bool, np.bool_)):
        raise TypeError("no number")
    return float(value)


_solve: Any = None


def _prepare() -> Any:
    """Return ``checked_pack`` compiled for arrays of floats, without dispatch on the types of its arguments."""
    global _solve
    _solve = compiled(checked_pack)
    if _solve is not checked_pack:
        from weakfeedback.engine.compiler.lowering import entry_point

        _solve = entry_point(_solve, np.ones(1), np.ones(1), 1.0, np.ones(1, BOOL))
    return _solve


def checked_pack(values: np.ndarray, weights: np.ndarray, capacity: float, chosen: np.ndarray) -> bool:
    """Write the result of ``pack_levels`` into ``chosen``; return whether the input was valid."""
    if values.size != weights.size or not 0.0 <= capacity < math.inf:
        return False
    good = 0
    for i in range(values.size):  # without branches
        good += (abs(values[i]) < math.inf) & (weights[i] >= 0.0) & (weights[i] < math.inf)
    if good < values.size:
        return False
    best = pack_levels(values, weights, capacity)
    for i in range(values.size):
        chosen[i] = best[i]
    return True


def _complaint(values: np.ndarray, weights: np.ndarray, capacity: float) -> str:
    if values.ndim != 1 or values.shape != weights.shape:
        return f"values and weights must be two sequences of equal length, got shapes {values.shape}, {weights.shape}"
    if not math.isfinite(capacity) or capacity < 0.0:
        return f"capacity must be a finite number >= 0, got {capacity!r}"
    if not np.isfinite(values).all():
        return f"values must be finite numbers, got {values[~np.isfinite(values)][0]!r}"
    wrong = weights[~(np.isfinite(weights) & (weights >= 0.0))][0]
    return f"weights must be finite numbers >= 0, got {float(wrong)!r}"
