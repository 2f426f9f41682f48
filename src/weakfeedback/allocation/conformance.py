"""The rounds of an allocation, for checks that replay and change them."""

from typing import Any

import numpy as np

from weakfeedback.allocation.world import AllocationWorld, GradualWorld, reaches
from weakfeedback.contract.steps import Steps
from weakfeedback.contract.typing import Problem, Rng

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


class Protocol(Steps):
    """The steps of an allocation."""

    replays = Script

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

    def scramble(self, row: np.ndarray, allocation: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy: censored outcomes are redrawn."""
        theta, outcomes = row[HEAD:].reshape(3, -1)[1:]
        served = np.array([reaches(amount, need) for amount, need in zip(allocation, theta)])
        visible = served if row[2] > 0.0 else ~served
        other = row.copy()
        fresh = rng.random(allocation.size)
        other[-allocation.size :] = np.where(visible, outcomes, fresh)
        return other


class GradualScript(GradualWorld):
    """A world that replays recorded rows: K, Q, the curves, and what decides the outcomes."""

    def __init__(self, rows: np.ndarray) -> None:
        arms = int(rows[0, 0])
        super().__init__(rows[0, 2:-arms].reshape(arms, -1).copy(), rows[0, 1])
        self.rows = rows[:, -arms:].copy()
        self.served = 0

    def draw(self, hidden: np.ndarray, rng: Rng) -> None:
        """Write the next row."""
        for i in range(hidden.size):
            hidden[i] = self.rows[self.served, i]
        self.served += 1


class GradualProtocol(Steps):
    """The same for arms that respond gradually."""

    replays = GradualScript

    def record(self, problem: Problem, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        world = problem.world()
        hidden = np.empty(problem.arms)
        rows = []
        for _ in range(rounds):
            world.draw(hidden, rng)
            rows.append([problem.arms, world.Q, *world.curves.ravel(), *hidden])
        return np.array(rows)

    def scramble(self, row: np.ndarray, allocation: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy: what decides is redrawn on its side of the curve."""
        world, other = GradualScript(row[None]), row.copy()
        for i in range(allocation.size):
            at = world.curves[i, world.level(allocation[i])]
            k = row.size - allocation.size + i
            other[k] = at * rng.random() if row[k] < at else at + (1.0 - at) * rng.random()
        return other
