"""Tables of what is known of models, for other models: those that stay keep what is known of them."""

from collections.abc import Sequence

import numpy as np


def rows_of(table: np.ndarray, kept: Sequence[int], fresh: np.ndarray) -> np.ndarray:
    """Return a table with a row per model; ``kept[k]`` is what model k was before, -1 for one that is new.

    >>> rows_of(np.array([1, 2]), [0, -1, 1], np.zeros(3)).tolist()
    [1.0, 0.0, 2.0]
    """
    found = fresh.copy()
    for k, was in enumerate(kept):
        if was >= 0:
            found[k] = table[was]
    return found


def square_of(table: np.ndarray, kept: Sequence[int], fresh: np.ndarray) -> np.ndarray:
    """Return a K x K table of pairs.

    >>> square_of(np.array([[0, 7], [0, 0]]), [0, -1, 1], np.zeros((3, 3)))[0].tolist()
    [0.0, 0.0, 7.0]
    """
    found = fresh.copy()
    for i, j in pairs_of(len(kept)):
        if kept[i] >= 0 and kept[j] >= 0:
            found[i, j] = table[kept[i], kept[j]]
    return found


def pairs_table(table: np.ndarray, kept: Sequence[int], models: int, fresh: np.ndarray) -> np.ndarray:
    """Return a table with a row per pair i < j, in the order of `pairs_of`; there were ``models`` models before.

    >>> pairs_table(np.array([7]), [0, -1, 1], 2, np.zeros(3)).tolist()
    [0.0, 7.0, 0.0]
    """
    before = {pair: at for at, pair in enumerate(pairs_of(models))}
    found = fresh.copy()
    for at, (i, j) in enumerate(pairs_of(len(kept))):
        was = before.get((kept[i], kept[j]))
        if was is not None:
            found[at] = table[was]
    return found


def pairs_of(models: int) -> list[tuple[int, int]]:
    """Return the pairs i < j.

    >>> pairs_of(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return [(i, j) for i in range(models) for j in range(i + 1, models)]
