"""The hidden part of a contextual cascade: contexts in turn, and outputs or disagreements drawn for all arms."""

import numpy as np


class ShuffledContexts:
    """Contexts of a data set in an order shuffled per replication, then cycled.

    Draws: ``begin`` shuffles the rows once (Fisher-Yates from the end, ``int((k + 1) * rng.random())``).
    """

    def __init__(self, phi, regrets):
        self.phi = phi  # features of every row
        self.regrets = regrets  # of every row and arm, in units
        self.order = np.arange(phi.shape[0])
        self.served = 0

    def begin(self, rng):
        """Start a replication."""
        for k in range(self.order.size - 1, 0, -1):
            j = int((k + 1) * rng.random())
            kept = self.order[k]
            self.order[k] = self.order[j]
            self.order[j] = kept

    def next_row(self, phi):
        """Write the next context; return its row."""
        row = self.order[self.served]
        self.served += 1
        if self.served == self.order.size:
            self.served = 0
        for k in range(phi.size):
            phi[k] = self.phi[row, k]
        return row

    def regret(self, row, arm):
        """The regret of stopping at an arm, in units."""
        return self.regrets[row, arm]


class ContextualWorld(ShuffledContexts):
    """The labels of all arms.

    Draws: with random labels every round takes one ``u = rng.random()`` per arm, in order; the label is 1 if
    u < m_i(x). Thresholded labels (every m_i(x) is 0 or 1) take none.
    """

    def __init__(self, phi, chance, truths, regrets, losses, drawn):
        super().__init__(phi, regrets)
        self.chance = chance  # m_i(x): the probability that arm i says 1
        self.truths = truths
        self.losses = losses  # error probability of every row and arm, in units
        self.drawn = bool(drawn)

    def draw(self, phi, outputs, rng):
        """Write the context and the outputs of all arms in this round; return the row."""
        row = self.next_row(phi)
        for i in range(outputs.size):
            if self.drawn:
                outputs[i] = 1 if rng.random() < self.chance[row, i] else 0
            else:
                outputs[i] = 1 if self.chance[row, i] > 0.5 else 0
        return row

    def truth(self, row):
        """Return the hidden label of a row."""
        return self.truths[row]

    def loss(self, row, arm):
        """Return the error probability of an arm, in units."""
        return self.losses[row, arm]


class RealizableWorld(ShuffledContexts):
    """The disagreements of pairs, drawn in place of the outputs of arms; regret is pseudo-regret.

    Draws: every round takes one ``u = rng.random()`` per pair, in the order (0, 1), (0, 2), ..., (1, 2), ...; the pair
    disagrees if u < p_ij(x).
    """

    def __init__(self, phi, chance, regrets):
        super().__init__(phi, regrets)
        self.chance = chance  # p_ij(x), shape (n, K, K)

    def draw(self, phi, differ, rng):
        """Write the context and the disagreements i < j of this round; return the row."""
        row = self.next_row(phi)
        for i in range(differ.shape[0]):
            for j in range(i + 1, differ.shape[0]):
                differ[i, j] = rng.random() < self.chance[row, i, j]
        return row
