"""One round of a cascade taken apart, for checks that must stand between its steps."""

import numpy as np


class Script:
    """A world that replays given rows (y, y1, ..., yK)."""

    def __init__(self, rows):
        self.rows = rows
        self.served = 0
        self.sold = []  # rows whose truth was bought

    def begin(self, rng):
        """Nothing to prepare."""

    def draw(self, rng):
        """Return the next row."""
        self.served += 1
        return self.served - 1

    def show(self, row, arm, seen):
        """Write the outputs of arms 0, ..., arm into ``seen``."""
        for k in range(arm + 1):
            seen[k] = self.rows[row, k + 1]

    def sell(self, row):
        """Return the truth of a row, and note that it was bought."""
        self.sold.append(row)
        return self.rows[row, 0]


class Protocol:
    """Draw, decide, show and learn as separate steps."""

    decides = "select"  # the method that returns the decision

    def record(self, problem, rounds, rng):
        """What the world hides in so many rounds: one row (y, y1, ..., yK) each."""
        world = problem.world()
        world.begin(rng)
        return np.array([world.rows[world.draw(rng)] for _ in range(rounds)])

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


class LabelProtocol(Protocol):
    """The same where the truth is sold."""

    def show(self, row, arm):
        """What the policy may see of a row, and the truth, which it gets if it buys it."""
        return row[1 : arm + 2].copy(), int(row[0])

    def learn(self, policy, arm, seen, rng):
        """Sell the label if it is wanted, then give the feedback of a decision."""
        outputs, truth = seen
        if policy.wants_label(arm, outputs, rng):
            policy.learn_label(arm, outputs, truth)
        policy.update(arm, outputs, rng)
