"""A small policy that is quick to compile, and a problem for it."""

import numpy as np

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem

PROBLEM = CascadeProblem.bsc([0.4, 0.3, 0.1], [0.05, 0.25, 0.5])


class Drawing:
    """A policy with an array, a number, a method that it calls, and draws."""

    def __init__(self):
        self.sums = np.zeros(3)
        self.rounds = 0

    def select(self, rng):
        """Sometimes any arm, else the one that was shown least."""
        return int(3 * rng.random()) if rng.random() < 0.2 else self.least()

    def least(self):
        """The arm that was shown least."""
        found = 0
        for k in range(3):
            if self.sums[k] < self.sums[found]:
                found = k
        return found

    def update(self, arm, outputs, rng):
        """Count what was shown."""
        self.rounds += 1
        self.sums[arm] += outputs[arm] + 0.5


def play(compiled=True):
    """The results of a few rounds."""
    return simulate(PROBLEM, {"a": Drawing()}, 500, 3, compiled=compiled)
