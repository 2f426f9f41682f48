"""Small loops shared by policies, which give the same bits interpreted and compiled.

A policy may import these names and nothing else of the package. Each function is written with
scalar loops and ``math``: sums run in index order, ties go to the smaller index.
"""

import math

import numpy as np

__all__ = ["disagreements", "ordered_sum", "rank_down", "top_set", "upper_bound"]


def disagreements(outputs, arm, differ):
    """Write ``outputs[i] != outputs[j]`` into ``differ[i, j]`` for all i < j <= arm.

    >>> differ = np.zeros((3, 3), dtype=bool)
    >>> disagreements([1, 0, 1], 2, differ)
    >>> differ[0]
    array([False,  True, False])
    """
    for i in range(arm + 1):
        for j in range(i + 1, arm + 1):
            differ[i, j] = outputs[i] != outputs[j]


def upper_bound(count, tries, width):
    """Return ``count / tries + sqrt(width / tries)``, infinite when there was no try.

    >>> upper_bound(1.0, 4.0, 1.0)
    0.75
    """
    if tries == 0:
        return math.inf
    return count / tries + math.sqrt(width / tries)


def ordered_sum(values):
    """Return the sum of ``values`` added from the first to the last (NumPy adds in pairs)."""
    total = 0.0
    for k in range(values.size):
        total += values[k]
    return total


def rank_down(values):
    """Return the indices of ``values`` from the largest to the smallest, ties to the smaller index.

    >>> rank_down(np.array([0.2, 0.5, 0.2, 0.9]))
    array([3, 1, 0, 2])
    """
    n = values.size
    order = np.empty(n, dtype=np.int64)
    if n <= 100:  # counting: no branches to mispredict
        for k in range(n):
            order[k] = -1
        for k in range(n):
            place = 0
            for j in range(n):
                place += values[j] > values[k]
            while order[place] >= 0:  # taken by an equal value of a smaller index
                place += 1
            order[place] = k
        return order
    for k in range(n):
        order[k] = k
    spare = np.empty(n, dtype=np.int64)
    width = 1
    while width < n:
        for low in range(0, n, 2 * width):
            middle = min(low + width, n)
            high = min(low + 2 * width, n)
            i = low
            j = middle
            for k in range(low, high):
                if i < middle and (j >= high or values[order[i]] >= values[order[j]]):
                    spare[k] = order[i]
                    i += 1
                else:
                    spare[k] = order[j]
                    j += 1
        for k in range(n):
            order[k] = spare[k]
        width *= 2
    return order


def top_set(values, size):
    """Return which ``size`` of the values are the largest, as a bool array; ties to the smaller index.

    Hoare's selection: linear in the number of values, where a ranking is not.

    >>> top_set(np.array([0.2, 0.5, 0.2, 0.9]), 3)
    array([ True,  True, False,  True])
    """
    n = values.size
    chosen = np.zeros(n, dtype=np.bool_)
    if size <= 0:
        return chosen
    size = min(size, n)
    spare = np.empty(n)
    for k in range(n):
        spare[k] = values[k]
    low = 0
    high = n - 1
    while low < high:  # until spare[size - 1] is where it belongs
        a = spare[low]
        b = spare[(low + high) // 2]
        c = spare[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i = low
        j = high
        while i <= j:
            while spare[i] > pivot:
                i += 1
            while spare[j] < pivot:
                j -= 1
            if i <= j:
                kept = spare[i]
                spare[i] = spare[j]
                spare[j] = kept
                i += 1
                j -= 1
        if size - 1 <= j:
            high = j
        elif size - 1 >= i:
            low = i
        else:
            break
    least = spare[size - 1]
    left = size
    for k in range(n):
        chosen[k] = values[k] > least
        left -= chosen[k]
    for k in range(n):
        if left > 0 and values[k] == least:
            chosen[k] = True
            left -= 1
    return chosen
