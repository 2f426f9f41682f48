"""The report of a player: what it has played, observed and earned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from weakfeedback.live.games.player import PlayerCounts
from weakfeedback.live.report import Report, between, percent, wilson
from weakfeedback.multiplayer.words import description_of, phase_of
from weakfeedback.words import ARMS, Words


@dataclass(frozen=True)
class PlayerReport(Report):
    """What a player has played, observed and earned. ``print`` it for a table.

    Attributes
    ----------
    slots, idle, collisions : int
        Slots observed; among them, idle slots and slots with a collision.
    earned : float
        The sum of all rewards.
    plays, free : K integers
        How often each arm was played, and how often nobody else was there.
    means : K numbers
        Mean reward of the free plays of each arm, NaN without one.
    intervals : K x 2 array
        95 % Wilson intervals of the means; wider than necessary for rewards that are not 0 or 1.
    settled, arm, phase, description
        As for the player.
    players, rank : int or None
        How many players there are and which one it is (0 leads), as far as its policy knows.
    failed : bool
        Whether it found no arm of its own in time, and knows it.
    """

    columns: ClassVar = ("plays", "free", "means", "intervals")
    row: ClassVar = "arm"
    drawn: ClassVar = "plays"

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
    words: Words = ARMS

    def __str__(self) -> str:
        lines = [
            f"Player of {len(self.plays)} arms, {self.policy}: {self.slots} slots, {self.collisions} collisions, "
            f"{self.idle} idle, earned {self.earned:.6g}",
            self.description,
            "",
            f"{'arm':>{self.words.width(4)}}  {'played':>8}  {'collided':>8}  {'mean reward (95 % interval)':>28}",
        ]
        return "\n".join(lines + [self._line(arm) for arm in range(len(self.plays))])

    def _line(self, arm: int) -> str:
        mean = f"{percent(self.means[arm])} {between(self.intervals[arm])}" if self.free[arm] else "-"
        here = "  <- settled" if self.settled and arm == self.arm else ""
        name = self.words.short(arm).rjust(self.words.width(4))
        return f"{name}  {self.plays[arm]:>8}  {self.plays[arm] - self.free[arm]:>8}  {mean:>28}{here}"


def make_player_report(
    label: str, policy: Any, slot: int, tally: PlayerCounts, words: Words = ARMS
) -> PlayerReport:
    """Return the report from the counts and from what the policy knows."""
    arms = tally.free.size
    means = np.full(arms, math.nan)
    played = tally.free > 0
    means[played] = tally.earned[played] / tally.free[played]
    players = int(getattr(policy, "N", 0)) or None
    return PlayerReport(
        words=words,
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
