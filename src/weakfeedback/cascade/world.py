"""The hidden part of a cascade: draws (Y, Y^1, ..., Y^K) in every round, independently of the policy."""

import numpy as np


class LawWorld:
    """Rows (y, y1, ..., yK) drawn independently from their law.

    Draws: one ``u = rng.random()`` a round; the row is the first whose cumulative probability exceeds u.
    """

    def __init__(self, rows, probabilities):
        self.rows = rows
        self.cumulative = np.cumsum(probabilities)
        self.cumulative[-1] = np.inf  # rounding errors fall to the last row
        # first[g]: the first row that can be drawn when g <= size(first) * u < g + 1; there are enough cells that
        # the search from there rarely takes a step
        cells = 64 * rows.shape[0]
        self.first = np.searchsorted(self.cumulative, np.arange(cells) / cells, side="right")
        self.cumulative.setflags(write=False)  # the same in every replication
        self.first.setflags(write=False)

    def begin(self, rng):
        """Start a replication."""

    def draw(self, rng):
        """Return the row of this round: the truth and the outputs of all arms."""
        u = rng.random()
        row = self.first[int(u * self.first.size)]
        while self.cumulative[row] <= u:
            row += 1
        return row

    def sell(self, row):
        """Return the truth of a row, to a policy that pays for it."""
        return self.rows[row, 0]

    def show(self, row, arm, seen):
        """Write the outputs of arms 0, ..., arm, and nothing else, into ``seen``."""
        for k in range(arm + 1):
            seen[k] = self.rows[row, k + 1]


class TableWorld:
    """Rows (y, y1, ..., yK) of a data set, shuffled once per replication and then served cyclically.

    Draws: ``begin`` shuffles by Fisher and Yates from the end, ``int((k + 1) * rng.random())`` for k = n-1, ..., 1;
    nothing after that.
    """

    def __init__(self, rows):
        self.rows = rows
        self.order = np.arange(rows.shape[0])
        self.served = 0

    def begin(self, rng):
        """Start a replication."""
        for k in range(self.order.size - 1, 0, -1):
            j = int((k + 1) * rng.random())
            kept = self.order[k]
            self.order[k] = self.order[j]
            self.order[j] = kept

    def draw(self, rng):
        """Return the row of this round: the truth and the outputs of all arms."""
        row = self.order[self.served]
        self.served += 1
        if self.served == self.order.size:
            self.served = 0
        return row

    def sell(self, row):
        """Return the truth of a row, to a policy that pays for it."""
        return self.rows[row, 0]

    def show(self, row, arm, seen):
        """Write the outputs of arms 0, ..., arm, and nothing else, into ``seen``."""
        for k in range(arm + 1):
            seen[k] = self.rows[row, k + 1]
