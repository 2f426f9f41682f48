"""One round of a cascade taken apart, for checks that must stand between its steps."""

import numpy as np

from weakfeedback.kernels.loops import disagreements


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
    # the same as others, for those who compare outputs in their own way
    pair_methods: tuple[str, ...] = ("update_pairs",)

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

    def learn_pairs(self, policy, arm, seen, rng, size):
        """Give the same feedback as a matrix of disagreements, of so many rows."""
        policy.update_pairs(arm, _differ(seen, arm, size), rng)

    def scramble(self, row, arm, rng):
        """Another row that shows the same."""
        other = rng.integers(0, 1000, size=row.size)
        other[1 : arm + 2] = row[1 : arm + 2]
        return other


class LabelProtocol(Protocol):
    """The same where the truth is sold; to learn returns whether it was."""

    pair_methods = ("update_pairs", "wants_label_pairs", "learn_label_pairs")

    def show(self, row, arm):
        """What the policy may see of a row, and the truth, which it gets if it buys it."""
        return row[1 : arm + 2].copy(), int(row[0])

    def learn(self, policy, arm, seen, rng):
        """Sell the label if it is wanted, then give the feedback of a decision."""
        outputs, truth = seen
        sold = bool(policy.wants_label(arm, outputs, rng))
        if sold:
            policy.learn_label(arm, outputs, truth)
        policy.update(arm, outputs, rng)
        return sold

    def learn_pairs(self, policy, arm, seen, rng, size):
        """The same by a matrix of disagreements, and by which arms were right."""
        outputs, truth = seen
        differ = _differ(outputs, arm, size)
        sold = bool(policy.wants_label_pairs(arm, differ, rng))
        if sold:
            policy.learn_label_pairs(arm, differ, outputs == truth)
        policy.update_pairs(arm, differ, rng)
        return sold


def _differ(outputs, arm, size):
    differ = np.zeros((size, size), dtype=np.bool_)
    disagreements(outputs, arm, differ)
    return differ
