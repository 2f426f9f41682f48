"""Reports on what a player has played, observed and earned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.live import storage
from weakfeedback.live.player_words import description_of, phase_of
from weakfeedback.live.report import Report, between, percent, wilson
from weakfeedback.live.storage import StateError

IDLE = -1
ARRAYS = ("free", "met", "earned")


class PlayerCounts(NamedTuple):
    """Counts of a player's slots, independent of the policy's own statistics. Immutable: a slot creates new ones."""

    idle: int
    free: np.ndarray  # plays without a collision
    met: np.ndarray  # plays with one
    earned: np.ndarray

    @classmethod
    def of(cls, arms: int) -> PlayerCounts:
        """Return the counts before the first slot."""
        whole = np.zeros(arms, dtype=np.int64)
        return cls(0, whole, whole, np.zeros(arms))

    @property
    def slots(self) -> int:
        """All slots counted."""
        return self.idle + int(self.free.sum() + self.met.sum())

    def after_slot(self, arm: int, reward: float, collided: bool) -> PlayerCounts:
        """Count one slot."""
        if arm == IDLE:
            return self._replace(idle=self.idle + 1)
        if collided:
            return self._replace(met=_plus(self.met, arm, 1))
        return self._replace(free=_plus(self.free, arm, 1), earned=_plus(self.earned, arm, reward))

    def after_failure(self, cost: float) -> PlayerCounts:
        """Costs of slots that did not take place are not counted here."""
        return self

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {name: storage.encode(getattr(self, name)) for name in ("idle", *ARRAYS)}

    @classmethod
    def from_state(cls, arms: int, state: Any) -> PlayerCounts:
        """Return the counts that gave ``state``, or raise `StateError`."""
        if not isinstance(state, dict) or set(state) != {"idle", *ARRAYS}:
            raise StateError(f"the counts must hold exactly: idle, {', '.join(ARRAYS)}")
        fresh = cls.of(arms)
        counts = cls(
            **{name: storage.restored(name, getattr(fresh, name), state[name]) for name in cls._fields}
        )
        sound = counts.idle >= 0 and (counts.free >= 0).all() and (counts.met >= 0).all()
        # Rewards are at most 1, and sums of them do not round above their number.
        if not sound or not ((counts.earned >= 0.0) & (counts.earned <= counts.free)).all():
            raise StateError("the counts contradict each other")
        return counts


def _plus(array: np.ndarray, place: int, amount: float) -> np.ndarray:
    """Return a copy with an amount added at one place."""
    made = array.copy()
    made[place] += amount
    return made


@dataclass(frozen=True)
class PlayerReport(Report):
    """What a player has played, observed and earned. ``print`` it for a table.

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
        How many players there are and which one it is (0 leads), as far as its policy knows.
    failed : bool
        Whether it found no arm of its own in time, and knows it.
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
        mean = f"{percent(self.means[arm])} {between(self.intervals[arm])}" if self.free[arm] else "-"
        here = "  <- settled" if self.settled and arm == self.arm else ""
        return f"{arm:>4}  {self.plays[arm]:>8}  {self.plays[arm] - self.free[arm]:>8}  {mean:>28}{here}"


def make_player_report(label: str, policy: Any, slot: int, tally: PlayerCounts) -> PlayerReport:
    """Return the report from the counts and from what the policy knows."""
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
