"""The rounds of an allocation, for checks that replay and change them."""

from typing import Any

import numpy as np

from weakfeedback.allocation.world import reaches
from weakfeedback.contract.steps import Replay, Steps
from weakfeedback.contract.typing import Problem, Rng


class Protocol(Steps):
    """The rounds of an allocation: the outcomes of all arms."""

    def record(self, problem: Problem, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        world, rows = problem.world(), np.empty((rounds, problem.arms))
        for row in rows:
            world.draw(row, rng)
        return rows

    def script(self, problem: Problem, rows: np.ndarray) -> Any:
        """Return a world that replays recorded rounds."""
        return Replay(problem.world(), rows)

    def scramble(self, problem: Any, row: np.ndarray, allocation: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy: censored outcomes are redrawn."""
        served = np.array([reaches(amount, need) for amount, need in zip(allocation, problem.thresholds)])
        return np.where(served == (problem.outcome == "reward"), row, rng.random(row.size))


class GradualProtocol(Protocol):
    """The same for arms that respond gradually: what decides their outcomes."""

    def scramble(self, problem: Any, row: np.ndarray, allocation: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy: what decides is redrawn on its side of the curve."""
        world = problem.world()
        at = np.array([world.curves[i, world.level(amount)] for i, amount in enumerate(allocation)])
        return np.where(row < at, at * rng.random(row.size), at + (1.0 - at) * rng.random(row.size))
