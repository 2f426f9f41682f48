"""One round of a cascade taken apart, for checks that must stand between its steps."""

import numpy as np


class Script:
    """A world that replays given rows (y, y1, ..., yK)."""

    def __init__(self, rows):
        self.rows = rows
        self.served = 0

    def begin(self, rng):
        """Nothing to prepare."""

    def draw(self, outputs, rng):
        """Write the outputs of the next row and return its truth."""
        row = self.served
        self.served += 1
        for k in range(outputs.size):
            outputs[k] = self.rows[row, k + 1]
        return self.rows[row, 0]


class Protocol:
    """Draw, decide, show and learn as separate steps."""

    decides = "select"  # the method that returns the decision

    def record(self, problem, rounds, rng):
        """What the world hides in so many rounds: one row (y, y1, ..., yK) each."""
        world = problem.world()
        world.begin(rng)
        rows = np.empty((rounds, problem.arms + 1), dtype=np.int64)
        for row in rows:
            outputs = np.empty(problem.arms, dtype=np.int64)
            row[0] = world.draw(outputs, rng)
            row[1:] = outputs
        return rows

    def script(self, hidden):
        """A world that replays what was recorded."""
        return Script(hidden)

    def decide(self, policy, rng):
        """Ask for the arm."""
        return policy.select(rng)

    def show(self, row, arm):
        """What the policy may see of a row."""
        return row[1 : arm + 2].copy()

    def learn(self, policy, arm, seen, rng):
        """Give the feedback of a decision."""
        policy.update(arm, seen, rng)

    def scramble(self, row, arm, rng):
        """Another row that shows the same."""
        other = rng.integers(0, 1000, size=row.size)
        other[1 : arm + 2] = row[1 : arm + 2]
        return other
