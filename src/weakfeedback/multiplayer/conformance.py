"""The rounds of several players, for checks that replay and change them."""

from typing import Any

import numpy as np

from weakfeedback.contract.steps import Replay, Steps
from weakfeedback.contract.typing import Rng
from weakfeedback.multiplayer.world import AWAKE

IDLE = -1


class Protocol(Steps):
    """The rounds of several players: the rewards of all arms. A decision is one arm for each player."""

    decides = "choose"

    def record(self, problem: Any, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        world, rows = problem.world(), np.empty((rounds, problem.arms))
        world.begin(rng)
        for row in rows:
            world.draw(row, rng)
        return rows

    def script(self, problem: Any, rows: np.ndarray) -> Any:
        """Return a world that replays recorded rounds."""
        return Replay(problem.world(), rows)

    def scramble(self, problem: Any, row: np.ndarray, arms: list[int], rng: Rng) -> Any:
        """Return another row that looks the same: a player alone on its arm keeps its reward there."""
        rewards = row.reshape(-1, problem.arms)  # one row for all players, or one for each
        other = rng.random(rewards.shape)
        for n, arm in enumerate(arms):
            if arm != IDLE and arms.count(arm) == 1:
                other[n % len(rewards), arm] = rewards[n % len(rewards), arm]
        return other.ravel()


class OpenReplay(Replay):
    """The same for a world whose players come and go: everybody plays in every slot."""

    def draw(self, rewards: np.ndarray, awake: np.ndarray, *rest: Any) -> None:
        """Write the next row."""
        super().draw(rewards)
        awake[:] = AWAKE


class OpenProtocol(Protocol):
    """The rounds of players with means of their own or without sensing, all of whom are always there."""

    def record(self, problem: Any, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        if problem.presence is not None or problem.lost > 0.0:
            raise ValueError(
                f"problem must have no presence and no lost slots for the checks, got {problem!r}"
            )
        world, awake = problem.world(), np.empty(problem.players, dtype=np.int64)
        world.begin(rng)
        rows = np.empty((rounds, *world.means.shape))
        for slot, row in enumerate(rows):
            world.draw(row, awake, slot, rng)
        return rows.reshape(rounds, -1)

    def script(self, problem: Any, rows: np.ndarray) -> Any:
        """Return a world that replays recorded rounds."""
        return OpenReplay(problem.world(), rows)
