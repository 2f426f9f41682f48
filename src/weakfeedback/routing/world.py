"""The hidden side of routing: chooses (Y, Y^1, ..., Y^K) in every round, and shows the outputs of the models called.

``groups`` has one row of groups per row, known before any call; no columns where nothing is known.
"""

import numpy as np

from weakfeedback.cascade import world


class LawWorld(world.LawWorld):
    """Rows (y, y1, ..., yK) drawn independently from their law.

    Draws: one ``u = rng.random()`` a round; the row is the first whose cumulative probability exceeds u.
    """

    def __init__(self, rows, probabilities, groups=None):
        super().__init__(rows, probabilities)
        self.groups = no_groups(rows) if groups is None else groups

    def show(self, row, call, seen):
        """Write the outputs of the models called into ``seen``, side by side, and return how many they are."""
        n = 0
        for k in range(call.size):
            if call[k]:
                seen[n] = self.rows[row, k + 1]
                n += 1
        return n


class TableWorld(world.TableWorld):
    """Rows (y, y1, ..., yK) of a data set, shuffled once per replication and then served cyclically.

    Draws: ``begin`` shuffles by Fisher and Yates from the end, ``int((k + 1) * rng.random())`` for k = n-1, ..., 1;
    nothing after that.
    """

    def __init__(self, rows, groups=None):
        super().__init__(rows)
        self.groups = no_groups(rows) if groups is None else groups

    def show(self, row, call, seen):
        """Write the outputs of the models called into ``seen``, side by side, and return how many they are."""
        n = 0
        for k in range(call.size):
            if call[k]:
                seen[n] = self.rows[row, k + 1]
                n += 1
        return n


def no_groups(rows):
    """Return what is known beforehand of rows of which nothing is."""
    return np.zeros((rows.shape[0], 0), dtype=np.int64)
