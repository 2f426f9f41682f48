"""The hidden part of an adaptive cascade: each round draws a recorded row and shows it stage by stage."""

import numpy as np


class RecordedWorld:
    """Rows of a table, drawn independently and uniformly.

    Draws: one ``u = rng.random()`` a round; the row is ``int(n * u)``.
    """

    def __init__(self, outputs, scores, wrong, chances, groups):
        self.outputs = outputs
        self.scores = scores  # NaN where a stage gives none
        self.wrong = wrong  # 1 where a stage errs
        self.chances = chances  # the last stage's probability of every stage's answer; no columns if unknown
        self.groups = groups

    def begin(self, rng):
        """Start a replication."""

    def draw(self, rng):
        """Return the row of this round."""
        return int(self.outputs.shape[0] * rng.random())

    def show(self, row, stage, outputs, scores):
        """Write what a stage says into ``outputs[stage]`` and ``scores[stage]``."""
        outputs[stage] = self.outputs[row, stage]
        scores[stage] = self.scores[row, stage]

    def group(self, row):
        """Return the group of a row, which is known before the first stage is run."""
        return self.groups[row]

    def believe(self, row, arm, chances):
        """Write the last stage's probabilities of all answers, if it was run; return how many there are."""
        if arm < self.outputs.shape[1] - 1 or self.chances.shape[1] == 0:
            return 0
        for k in range(chances.size):
            chances[k] = self.chances[row, k]
        return chances.size

    def errs(self, row, arm):
        """Return 1 if the answer of a stage is wrong, else 0."""
        return self.wrong[row, arm]

    def differs(self, row, arm, reference):
        """Return 1 if the answer of a stage is not that of another one, else 0."""
        return 1 if self.outputs[row, arm] != self.outputs[row, reference] else 0


class OrderedWorld(RecordedWorld):
    """The same rows, each once in turn: in their own order, or (``shuffled``) in an order drawn for each replication.

    Draws: if shuffled, one ``rng.permutation(n)`` at the beginning.
    """

    def __init__(self, outputs, scores, wrong, chances, groups, shuffled):
        super().__init__(outputs, scores, wrong, chances, groups)
        self.shuffled = shuffled
        self.order = np.arange(outputs.shape[0])
        self.served = 0

    def begin(self, rng):
        """Start a replication."""
        self.served = 0
        if self.shuffled:
            self.order = rng.permutation(self.order.size)

    def draw(self, rng):
        """Return the next row; after the last one the first."""
        row = self.order[self.served % self.order.size]
        self.served += 1
        return row


class NotingWorld(OrderedWorld):
    """The same, which notes for every row who was called and who answered."""

    def __init__(self, outputs, scores, wrong, chances, groups, shuffled):
        super().__init__(outputs, scores, wrong, chances, groups, shuffled)
        self.called = np.zeros(outputs.shape, dtype=np.bool_)
        self.answered = np.zeros(outputs.shape[0], dtype=np.int64)

    def show(self, row, stage, outputs, scores):
        """Write what a stage says into ``outputs[stage]`` and ``scores[stage]``, and note the call."""
        outputs[stage] = self.outputs[row, stage]
        scores[stage] = self.scores[row, stage]
        self.called[row, stage] = True

    def errs(self, row, arm):
        """Return 1 if the answer of a stage is wrong, else 0, and note who answered."""
        self.answered[row] = arm
        return self.wrong[row, arm]
