"""The report of a player: what it has played, observed and earned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from weakfeedback.live.game import View
from weakfeedback.live.games.player import PlayerCounts
from weakfeedback.live.report import Report, between, columns, percent, wilson
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
        ]
        rows = [["arm", "played", "collided", "mean reward (95 % interval)"]]
        for arm, plays in enumerate(self.plays):
            mean = f"{percent(self.means[arm])} {between(self.intervals[arm])}" if self.free[arm] else "-"
            cells = [self.words.short(arm), str(plays), str(plays - self.free[arm]), mean]
            rows.append([*cells, "<- settled"] if self.settled and arm == self.arm else cells)
        return "\n".join(lines + columns((self.words.width(4), 8, 8, 28, 0), rows))


def make_player_report(view: View, label: str, words: Words) -> PlayerReport:
    """Return the report from the counts and from what the policy knows."""
    tally: PlayerCounts = view.counts
    policy, arms = view.policy, tally.free.size
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
        description=description_of(policy, view.rounds),
        players=players,
        rank=int(policy.rank) if players and hasattr(policy, "rank") else None,
        failed=bool(getattr(policy, "failed", False)),
    )
