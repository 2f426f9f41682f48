"""The hidden part of an adaptive cascade: each round draws a recorded row and shows it stage by stage."""


class RecordedWorld:
    """Rows of a table, drawn independently and uniformly.

    Draws: one ``u = rng.random()`` a round; the row is ``int(n * u)``.
    """

    def __init__(self, outputs, scores, wrong, chances):
        self.outputs = outputs
        self.scores = scores  # NaN where a stage gives none
        self.wrong = wrong  # 1 where a stage errs
        self.chances = chances  # the last stage's probability of every stage's answer; no columns if unknown

    def begin(self, rng):
        """Start a replication."""

    def draw(self, rng):
        """Return the row of this round."""
        return int(self.outputs.shape[0] * rng.random())

    def show(self, row, stage, outputs, scores):
        """Write what a stage says into ``outputs[stage]`` and ``scores[stage]``."""
        outputs[stage] = self.outputs[row, stage]
        scores[stage] = self.scores[row, stage]

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
