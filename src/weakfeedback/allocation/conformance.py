"""One round of an allocation split into its steps, for checks that act between them."""

from typing import Any

import numpy as np

from weakfeedback.allocation.world import AllocationWorld, reaches
from weakfeedback.contract.typing import AllocationPolicy, Problem, Rng

# A recorded row: Q, the optimal value, whether outcomes are rewards, then mu, theta and the outcomes of K arms.
HEAD = 3


class Script(AllocationWorld):
    """A world that replays recorded rows."""

    def __init__(self, rows: np.ndarray) -> None:
        mu, theta, _ = rows[0, HEAD:].reshape(3, -1)
        super().__init__(mu.copy(), theta.copy(), rows[0, 0], rows[0, 2] > 0.0, False, rows[0, 1])
        self.outcomes = rows[:, HEAD + 2 * mu.size :].copy()
        self.served = 0

    def draw(self, outcomes: np.ndarray, rng: Rng) -> None:
        """Write the outcomes of the next row."""
        for i in range(outcomes.size):
            outcomes[i] = self.outcomes[self.served, i]
        self.served += 1


class Protocol:
    """Draw, decide, show and learn as separate steps."""

    decides = "select"  # the method that returns the decision

    def record(self, problem: Problem, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        world = problem.world()
        world.begin(rng)
        rows = np.empty((rounds, HEAD + 3 * problem.arms))
        outcomes = np.empty(problem.arms)
        for row in rows:
            world.draw(outcomes, rng)
            row[:] = [world.Q, world.value, world.reward, *world.mu, *world.theta, *outcomes]
        return rows

    def script(self, hidden: np.ndarray) -> Script:
        """Return a world that replays recorded data."""
        return Script(hidden)

    def decide(self, policy: AllocationPolicy, rng: Rng) -> Any:
        """Ask for the allocation."""
        return policy.select(rng)

    def show(self, row: np.ndarray, allocation: np.ndarray) -> Any:
        """Return what the policy may see of a row."""
        return np.where(self._visible(row, allocation), self._outcomes(row), 0.0)

    def learn(self, policy: AllocationPolicy, allocation: np.ndarray, seen: Any, rng: Rng) -> None:
        """Give the feedback of a decision."""
        policy.update(allocation, seen, rng)

    def scramble(self, row: np.ndarray, allocation: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy: censored outcomes are redrawn."""
        other = row.copy()
        fresh = rng.random(allocation.size)
        other[-allocation.size :] = np.where(self._visible(row, allocation), self._outcomes(row), fresh)
        return other

    def _outcomes(self, row: np.ndarray) -> np.ndarray:
        return row[HEAD + 2 * ((row.size - HEAD) // 3) :]

    def _visible(self, row: np.ndarray, allocation: np.ndarray) -> np.ndarray:
        arms = (row.size - HEAD) // 3
        theta = row[HEAD + arms : HEAD + 2 * arms]
        served = np.array([reaches(allocation[i], theta[i]) for i in range(arms)])
        return served if row[2] > 0.0 else ~served
