"""What a player has played, heard and earned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.live import storage
from weakfeedback.live.player_words import description_of, phase_of
from weakfeedback.live.report import percent, wilson
from weakfeedback.live.storage import StateError

IDLE = -1
ARRAYS = ("free", "met", "earned")


class PlayerTally:
    """Counts of a player's slots, whatever statistics the policy keeps itself."""

    def __init__(self, arms: int) -> None:
        self.idle = 0
        self.free = np.zeros(arms, dtype=np.int64)  # plays without a collision
        self.met = np.zeros(arms, dtype=np.int64)  # plays with one
        self.earned = np.zeros(arms)

    @property
    def slots(self) -> int:
        """All slots counted."""
        return self.idle + int(self.free.sum() + self.met.sum())

    def add(self, arm: int, reward: float, collided: bool) -> None:
        """Count one slot."""
        if arm == IDLE:
            self.idle += 1
        elif collided:
            self.met[arm] += 1
        else:
            self.free[arm] += 1
            self.earned[arm] += reward

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {name: storage.encode(getattr(self, name)) for name in ("idle", *ARRAYS)}

    @classmethod
    def from_state(cls, arms: int, state: Any) -> PlayerTally:
        """Return the tally that gave ``state``, or raise `StateError`."""
        tally = cls(arms)
        if not isinstance(state, dict) or set(state) != {"idle", *ARRAYS}:
            raise StateError(f"the counts must hold exactly: idle, {', '.join(ARRAYS)}")
        for name, value in state.items():
            setattr(tally, name, storage.restored(name, getattr(tally, name), value))
        sound = tally.idle >= 0 and (tally.free >= 0).all() and (tally.met >= 0).all()
        # Rewards are at most 1, and sums of them do not round above their number.
        if not sound or not ((tally.earned >= 0.0) & (tally.earned <= tally.free)).all():
            raise StateError("the counts contradict each other")
        return tally


@dataclass(frozen=True)
class PlayerReport:
    """What a player has played, heard and earned. ``print`` it for a table.

    Attributes
    ----------
    slots, idle, collisions : int
        Slots observed; of these, slots of idling and slots with a collision.
    earned : float
        All rewards together.
    plays, free : K integers
        How often each arm was played, and how often nobody else was there.
    means : K numbers
        Mean reward of the free plays of each arm, NaN without one.
    intervals : K x 2 array
        95 % Wilson intervals of the means; for rewards that are not 0 or 1 they are wider than need be.
    settled, arm, phase, description
        As of the player.
    players, rank : int or None
        How many players there are and which one she is (0 leads), as far as her policy knows.
    failed : bool
        Whether she found no arm of her own in time, and knows it.
    """

    policy: str
    slots: int
    idle: int
    collisions: int
    earned: float
    plays: np.ndarray
    free: np.ndarray
    means: np.ndarray
    intervals: np.ndarray
    settled: bool
    arm: int
    phase: str
    description: str
    players: int | None
    rank: int | None
    failed: bool

    def __str__(self) -> str:
        lines = [
            f"Player of {len(self.plays)} arms, {self.policy}: {self.slots} slots, {self.collisions} collisions, "
            f"{self.idle} idle, earned {self.earned:.6g}",
            self.description,
            "",
            f"{'arm':>4}  {'played':>8}  {'collided':>8}  {'mean reward (95 % interval)':>28}",
        ]
        return "\n".join(lines + [self._line(arm) for arm in range(len(self.plays))])

    def _line(self, arm: int) -> str:
        low, high = self.intervals[arm]
        mean = f"{percent(self.means[arm])} ({percent(low)} to {percent(high)})" if self.free[arm] else "-"
        here = "  <- settled" if self.settled and arm == self.arm else ""
        return f"{arm:>4}  {self.plays[arm]:>8}  {self.plays[arm] - self.free[arm]:>8}  {mean:>28}{here}"


def make_player_report(label: str, policy: Any, slot: int, tally: PlayerTally) -> PlayerReport:
    """Return the report on what was counted and on what the policy knows."""
    arms = tally.free.size
    means = np.full(arms, math.nan)
    played = tally.free > 0
    means[played] = tally.earned[played] / tally.free[played]
    players = int(getattr(policy, "N", 0)) or None
    return PlayerReport(
        policy=label,
        slots=tally.slots,
        idle=tally.idle,
        collisions=int(tally.met.sum()),
        earned=float(tally.earned.sum()),
        plays=tally.free + tally.met,
        free=tally.free.copy(),
        means=means,
        intervals=np.array([wilson(tally.earned[k], tally.free[k]) for k in range(arms)]),
        settled=bool(policy.settled),
        arm=int(policy.arm),
        phase=phase_of(policy),
        description=description_of(policy, slot),
        players=players,
        rank=int(policy.rank) if players and hasattr(policy, "rank") else None,
        failed=bool(getattr(policy, "failed", False)),
    )
