"""The hidden side of a cascade: draws every arm's output in every round, whatever the policy does."""

import numpy as np


class CascadeWorld:
    """Rows (y, y1, ..., yK) drawn from their law, or served in turn from a data set.

    Draws: a law takes one ``u = rng.random()`` a round and gives the first row whose cumulative probability
    exceeds u. A data set is shuffled once by ``begin`` (Fisher-Yates from the end, ``int((k + 1) * rng.random())``)
    and then cycled without further draws.
    """

    def __init__(self, rows, probabilities, cycled):
        self.rows = rows
        self.cycled = bool(cycled)
        self.order = np.arange(rows.shape[0])
        self.served = 0
        self.cumulative = np.cumsum(probabilities)
        # first[g]: the first row that can be drawn when g <= size(first) * u < g + 1
        cells = 4 * rows.shape[0]
        self.first = np.searchsorted(self.cumulative, np.arange(cells) / cells, side="right")

    def begin(self, rng):
        """Start a replication."""
        if self.cycled:
            for k in range(self.order.size - 1, 0, -1):
                j = int((k + 1) * rng.random())
                kept = self.order[k]
                self.order[k] = self.order[j]
                self.order[j] = kept

    def draw(self, outputs, rng):
        """Write the outputs of all arms in this round and return the hidden truth."""
        if self.cycled:
            row = self.order[self.served]
            self.served += 1
            if self.served == self.order.size:
                self.served = 0
        else:
            u = rng.random()
            row = self.first[int(u * self.first.size)]
            last = self.cumulative.size - 1
            while row < last and self.cumulative[row] <= u:
                row += 1
            if row > last:
                row = last
        for k in range(outputs.size):
            outputs[k] = self.rows[row, k + 1]
        return self.rows[row, 0]
