"""The rounds of several players, for checks that replay and change them."""

from typing import Any

import numpy as np

from weakfeedback.contract.steps import Rows, Steps
from weakfeedback.contract.typing import Problem, Rng
from weakfeedback.multiplayer.world import AWAKE

IDLE = -1


class Script(Rows):
    """A world that replays given rows: the order of the arms, then their rewards."""

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__(rows)
        self.order = np.zeros(rows.shape[1] // 2, dtype=np.int64)

    def begin(self, rng: Rng) -> None:
        """Set the order of the arms."""
        for k in range(self.order.size):
            self.order[k] = int(self.rows[0, k])

    def draw(self, rewards: np.ndarray, rng: Rng) -> None:  # type: ignore[override]
        """Write the rewards of the next row."""
        for k in range(rewards.size):
            rewards[k] = self.rows[self.served, rewards.size + k]
        self.served += 1


class Protocol(Steps):
    """The rounds of players that all have the same means; a decision is one arm for each of them."""

    decides = "choose"
    replays: Any = Script

    def record(self, problem: Problem, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds: one row (order, rewards) each."""
        world = problem.world()
        world.begin(rng)
        rows = np.empty((rounds, 2 * problem.arms))
        for row in rows:
            rewards = np.empty(problem.arms)
            world.draw(rewards, rng)
            row[: problem.arms] = world.order
            row[problem.arms :] = rewards
        return rows

    def scramble(self, row: Any, arms: list[int], rng: Rng) -> Any:
        """Return another row that looks the same: only arms with exactly one player keep their reward."""
        other = row.copy()
        for k in range(row.size // 2):
            if list(arms).count(k) != 1:
                other[row.size // 2 + k] = rng.random()
        return other


class OpenScript(Rows):
    """A world that replays the rows of an `OpenProtocol`; everybody plays in every slot."""

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__(rows)
        arms = int(rows[0, 0])
        self.means = np.zeros((rows.shape[1] // arms - 1, arms))  # only its shape is read
        self.order = rows[0, 2 : 2 + arms].astype(np.int64)
        self.sensing = bool(rows[0, 1])

    def draw(self, rewards: np.ndarray, awake: np.ndarray, slot: int, rng: Rng) -> None:  # type: ignore[override]
        """Write the rewards of the next row."""
        rewards[:] = self.rows[self.served, 2 + self.order.size :].reshape(rewards.shape)
        awake[:] = AWAKE
        self.served += 1


class OpenProtocol(Protocol):
    """The rounds of players with means of their own or without sensing, all of whom are always there.

    A row is K, whether collisions are sensed, the order of the arms, and the rewards of every player on every arm.
    """

    replays = OpenScript

    def record(self, problem: Any, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        if problem.presence is not None or problem.lost > 0.0:
            raise ValueError(
                f"problem must have no presence and no lost slots for the checks, got {problem!r}"
            )
        world, (N, K) = problem.world(), (problem.players, problem.arms)
        world.begin(rng)
        rewards, awake = np.empty((world.means.shape[0], K)), np.empty(N, dtype=np.int64)
        rows = []
        for slot in range(rounds):
            world.draw(rewards, awake, slot, rng)
            everybody = np.broadcast_to(rewards, (N, K)).ravel()
            rows.append(np.concatenate(([K, world.sensing], world.order, everybody)))
        return np.array(rows)

    def scramble(self, row: Any, arms: list[int], rng: Rng) -> Any:
        """Return another row that looks the same: a player alone on its arm keeps its reward there."""
        other, start = row.copy(), 2 + int(row[0])
        rewards = other[start:].reshape(len(arms), -1)
        rewards[:] = rng.random(rewards.shape)
        for n, arm in enumerate(arms):
            if arm != IDLE and list(arms).count(arm) == 1:
                rewards[n, arm] = row[start:].reshape(len(arms), -1)[n, arm]
        return other
