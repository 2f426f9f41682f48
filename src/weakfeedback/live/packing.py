"""The knapsack and other helpers of allocations for the interpreter: the same results, to the bit.

Simulations compile ``weakfeedback.knapsack``. A live object runs in the interpreter, where to read an array number by
number takes most of the time. So the search runs here on lists, by its own code; what can be done on whole
arrays is done so.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from weakfeedback import knapsack
from weakfeedback.knapsack import NODES

Array = np.ndarray


class Row(list[Any]):
    """A list that has a ``size``, as an array."""

    @property
    def size(self) -> int:
        """The number of items."""
        return len(self)


class Rows:
    """What the search takes from NumPy, with lists for arrays."""

    int64 = int
    bool_ = bool

    @staticmethod
    def full(size: int, value: Any) -> Row:
        """Return a list of so many equal items."""
        return Row([value] * size)

    @staticmethod
    def zeros(size: int, dtype: type = float) -> Row:
        """Return a list of zeros."""
        return Row([dtype()] * size)

    empty = zeros


def rank_down(values: list[float]) -> Row:
    """Return the indices by decreasing value, ties to the smaller index."""
    return Row(sorted(range(len(values)), key=values.__getitem__, reverse=True))


def fill_levels(values: Array, weights: Array, levels: int) -> Array:
    """Return the best set of items with integer weights below ``levels``, by dynamic programming."""
    best = np.zeros(levels)
    take = np.zeros((values.size, levels), dtype=np.bool_)
    for i in range(values.size):
        if values[i] > 0.0 and weights[i] < levels:
            weight = int(weights[i])
            # the loop goes down, so that what it reads is of before
            more = best[: levels - weight] + values[i]
            np.greater(more, best[weight:], out=take[i, weight:])
            np.maximum(more, best[weight:], out=best[weight:])
    chosen = np.zeros(values.size, dtype=np.bool_)
    level = levels - 1
    for i in range(values.size - 1, -1, -1):
        if take[i, level]:
            chosen[i] = True
            level -= int(weights[i])
    return chosen


def on_lists(module: Any, *names: str, **scope: Any) -> dict[str, Any]:
    """Return these functions of a module, made to call each other and what ``scope`` has."""
    own = {**vars(module), **scope}
    for name in names:
        function = getattr(module, name)
        own[name] = types.FunctionType(function.__code__, own, name, function.__defaults__)
    return own


_SEARCH = on_lists(
    knapsack,
    *("branch_and_bound", "candidates", "decide", "dominators", "relaxed"),
    np=Rows,
    rank_down=rank_down,
)


def branch_and_bound(
    values: list[float], weights: list[float], room: float, nodes: int = NODES
) -> tuple[list[bool], bool]:
    """Return the best set of items, and whether the search was finished within so many nodes."""
    chosen, done = _SEARCH["branch_and_bound"](Row(values), Row(weights), room, nodes, 0.0)
    return chosen, done


def top_set(values: Array, size: int) -> Array:
    """Return which ``size`` of the values are the largest, as a bool array; ties to the smaller index."""
    chosen = np.zeros(values.size, dtype=np.bool_)
    chosen[np.argsort(-values, kind="stable")[: max(0, size)]] = True
    return chosen


def give_top(mu: Array, M: int, amount: float) -> Array:
    """Return the allocation of ``amount`` to each of the M arms with the largest mu, ties to the smaller index."""
    return np.where(top_set(mu, M), amount, 0.0)


def count_served(allocation: Array) -> int:
    """Return how many arms got something."""
    return int(np.count_nonzero(allocation > 0.0))


def some_positive(allocation: Array, observed: Array) -> bool:
    """Return whether a loss or reward was seen on an arm that got something."""
    return bool(((allocation > 0.0) & (observed > 0.0)).any())
