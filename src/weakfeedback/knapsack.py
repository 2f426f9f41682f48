"""The exact 0-1 knapsack on real weights: branch and bound with the bound of the continuous relaxation.

``pack`` and ``runner_up`` are plain loops that policies may call: they give the same bits interpreted and compiled.
"""

import math

import numpy as np

from weakfeedback.numeric import rank_down

__all__ = ["NODES", "TOLERANCE", "pack", "runner_up"]

TOLERANCE = 1e-9  # relative, of the capacity: six times 0.7 must fit into 4.2
NODES = 1_000_000  # of the search tree, before it is given up
CELLS = 100_000_000  # of the table of the dynamic programme
EQUAL = 1e-12  # relative: a set must be better by more than rounding errors


def pack(values, weights, capacity, nodes=NODES):
    """Return which items to take: the largest total value whose weight fits into the capacity.

    Items with a value <= 0 are never taken. The search tries items by decreasing value per weight (ties to the
    smaller index) and leaves a branch when its continuous relaxation, Dantzig's bound, is no better than the best
    set found. A second rule keeps (nearly) equal items cheap: an item is not taken while an earlier one that
    weighs no more and is worth no less was left out. When the search exceeds ``nodes`` nodes and all weights are
    integers, dynamic programming over the levels 0, ..., capacity answers instead.

    S. Martello, P. Toth, Knapsack Problems, Wiley 1990, chapter 2.

    >>> pack(np.array([0.9, 0.6, 0.4]), np.array([0.6, 0.55, 0.45]), 1.0)
    array([False,  True,  True])
    """
    chosen = np.zeros(values.size, dtype=np.bool_)
    room = capacity * (1.0 + TOLERANCE)
    order, n = candidates(values, weights, room)
    if n == 0:
        return chosen
    v = np.empty(n)
    w = np.empty(n)
    for k in range(n):
        v[k] = values[order[k]]
        w[k] = weights[order[k]]
    better = dominators(v, w)
    taken = np.zeros(n, dtype=np.bool_)
    best = np.zeros(n, dtype=np.bool_)
    best_value = 0.0
    value = 0.0
    left = room
    count = 0
    j = 0
    while True:
        count += 1
        if count > nodes:
            return pack_levels(values, weights, room)
        if relaxed(v, w, j, value, left) > best_value + EQUAL * best_value:
            while j < n and w[j] <= left and (better[j] < 0 or taken[better[j]]):
                taken[j] = True
                value += v[j]
                left -= w[j]
                j += 1
            if j < n:  # the first item that cannot be taken is left out, and the bound asked again
                taken[j] = False
                j += 1
                continue
            if value > best_value:
                best_value = value
                for k in range(n):
                    best[k] = taken[k]
        j -= 1
        while j >= 0 and not taken[j]:
            j -= 1
        if j < 0:
            break
        taken[j] = False  # the other branch of the last item taken: leave it out
        value -= v[j]
        left += w[j]
        j += 1
    for k in range(n):
        chosen[order[k]] = best[k]
    return chosen


def runner_up(values, weights, capacity, ceiling, nodes=NODES):
    """Return the largest total value below ``ceiling`` of a set that fits, -1.0 if there is none.

    >>> round(float(runner_up(np.array([0.9, 0.6, 0.4]), np.array([0.6, 0.55, 0.45]), 1.0, 0.999)), 12)
    0.9
    """
    room = capacity * (1.0 + TOLERANCE)
    order, n = candidates(values, weights, room)
    v = np.empty(n)
    w = np.empty(n)
    for k in range(n):
        v[k] = values[order[k]]
        w[k] = weights[order[k]]
    taken = np.zeros(n, dtype=np.bool_)
    best = -1.0
    value = 0.0
    left = room
    count = 0
    j = 0
    while True:
        count += 1
        if count > nodes:
            raise ValueError(
                "the search for the second best set was given up: too many sets are nearly optimal"
            )
        if relaxed(v, w, j, value, left) > best:
            while j < n and w[j] <= left:
                taken[j] = True
                value += v[j]
                left -= w[j]
                j += 1
            if j < n:
                taken[j] = False
                j += 1
                continue
            if best < value < ceiling:
                best = value
        j -= 1
        while j >= 0 and not taken[j]:
            j -= 1
        if j < 0:
            return best
        taken[j] = False
        value -= v[j]
        left += w[j]
        j += 1


def candidates(values, weights, room):
    """Return the items by decreasing value per weight, and how many of them are worth something and fit."""
    ratio = np.empty(values.size)
    n = 0
    for i in range(values.size):
        ratio[i] = -1.0
        if values[i] > 0.0 and weights[i] <= room:
            ratio[i] = values[i] / weights[i] if weights[i] > 0.0 else math.inf
            n += 1
    return rank_down(ratio), n


def dominators(v, w):
    """Return for each item a near earlier one that weighs no more and is worth no less, -1 if there is none."""
    better = np.empty(v.size, dtype=np.int64)
    for j in range(v.size):
        better[j] = -1
        for i in range(j - 1, max(j - 5, -1), -1):  # a few: this is only there to cut branches
            if w[i] <= w[j] and v[i] >= v[j]:
                better[j] = i
                break
    return better


def relaxed(v, w, j, value, left):
    """Return Dantzig's bound: ``value`` plus the best of the items j, j + 1, ... if they could be divided."""
    while j < v.size and w[j] <= left:
        value += v[j]
        left -= w[j]
        j += 1
    if j < v.size:
        value += left * (v[j] / w[j])
    return value


def pack_levels(values, weights, room):
    """Return the best set by dynamic programming over integer levels; raise if the weights are not integers."""
    n = values.size
    whole = True
    for i in range(n):
        if values[i] > 0.0 and weights[i] <= room and weights[i] != math.floor(weights[i]):
            whole = False
    levels = math.floor(room) + 1
    if not whole or n * levels > CELLS:
        raise ValueError("the knapsack was given up: too many sets are nearly optimal (node limit)")
    best = np.zeros(int(levels))
    take = np.zeros((n, int(levels)), dtype=np.bool_)
    for i in range(n):
        if values[i] > 0.0 and weights[i] <= room:
            weight = int(weights[i])
            for level in range(int(levels) - 1, weight - 1, -1):
                if best[level - weight] + values[i] > best[level]:
                    best[level] = best[level - weight] + values[i]
                    take[i, level] = True
    chosen = np.zeros(n, dtype=np.bool_)
    level = int(levels) - 1
    for i in range(n - 1, -1, -1):
        if take[i, level]:
            chosen[i] = True
            level -= int(weights[i])
    return chosen
