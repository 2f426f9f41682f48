"""A policy of your own: one plain class, checked, compiled, and compared with USS-TS on the same worlds."""

import numpy as np

from weakfeedback import simulate
from weakfeedback.cascade import UssTs, instances
from weakfeedback.checks import check_policy


class Greedy:
    """Stops by the share of disagreements; explores with a probability. Draws: one ``random()`` in ``select``."""

    delay_safe = True

    def __init__(self, costs, explore=0.02):
        self.C = np.array(costs, dtype=float)
        self.K = self.C.size
        self.explore = float(explore)
        self.D = np.ones((self.K, self.K))  # D[i, j] - 1 disagreements of arms i < j
        self.N = np.ones((self.K, self.K))  # in N[i, j] - 1 comparisons
        self.differ = np.zeros((self.K, self.K), dtype=np.bool_)

    def select(self, rng):
        """Return the arm at which to stop."""
        if rng.random() < self.explore:
            return self.K - 1
        for i in range(self.K - 1):
            best = True
            for j in range(i + 1, self.K):
                if self.C[j] - self.C[i] <= self.D[i, j] / self.N[i, j]:
                    best = False
            if best:
                return i
        return self.K - 1

    def update(self, arm, outputs, rng):
        """Learn from the outputs of arms 0 to arm."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                self.differ[i, j] = outputs[i] != outputs[j]
        self.update_pairs(arm, self.differ, rng)

    def update_pairs(self, arm, differ, rng):
        """Learn which pairs disagreed."""
        for i in range(arm + 1):
            for j in range(i + 1, arm + 1):
                self.D[i, j] += differ[i, j]
                self.N[i, j] += 1.0


problem = instances.load("bsc-2")
print(check_policy(lambda p: Greedy(p.costs), problem))
results = simulate(
    problem, {"Greedy": Greedy(problem.costs), "USS-TS": UssTs(problem.costs)}, replications=50
)
print(results.final().round(1))
print(f"Greedy minus USS-TS, paired: {results.compare('Greedy', 'USS-TS').mean:.1f}")
