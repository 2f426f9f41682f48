"""Splitting levels over arms whose gain depends on what each gets: an exact dynamic programme.

Plain loops that policies may call: they give the same bits interpreted and compiled.
"""

import numpy as np

__all__ = ["split_levels"]


def split_levels(start, level, gain, capacity):
    """Return for each arm which of its choices to take, -1 for none: the largest total gain within the capacity.

    The choices of arm i are ``start[i], ..., start[i + 1] - 1``: they take ``level`` levels, increasing, and gain
    ``gain``. O(capacity x choices).

    >>> split_levels(np.array([0, 2, 3]), np.array([1, 3, 2]), np.array([0.5, 0.7, 0.4]), 3)
    array([0, 2])
    """
    K = start.size - 1
    best = np.zeros(capacity + 1)
    taken = np.empty((K, capacity + 1), dtype=np.int64)
    for i in range(K):
        for room in range(capacity, -1, -1):  # downwards: smaller rooms still hold what the arms before gain
            top = best[room]
            choice = -1
            for m in range(start[i], start[i + 1]):
                if level[m] > room:
                    break
                if best[room - level[m]] + gain[m] > top:
                    top = best[room - level[m]] + gain[m]
                    choice = m
            best[room] = top
            taken[i, room] = choice
    chosen = np.empty(K, dtype=np.int64)
    room = capacity
    for i in range(K - 1, -1, -1):
        chosen[i] = taken[i, room]
        if chosen[i] >= 0:
            room -= level[chosen[i]]
    return chosen
