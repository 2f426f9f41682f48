"""A run of the radio: an air, its players, and what an observer of both can measure."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weakfeedback.apps.radio.air import PATIENCE, Air, PlayerLost
from weakfeedback.apps.radio.crew import Crew
from weakfeedback.apps.radio.wire import IDLE
from weakfeedback.multiplayer.play import COLLISIONS, FIXED, ROUNDS, SETTLED, SETTLED_AT
from weakfeedback.multiplayer.problem import MultiplayerProblem
from weakfeedback.settings.catalog import canonical_name, make_policy, option_names
from weakfeedback.validate import integer, number

MAX_PLAYERS, MAX_CHANNELS, MAX_SLOTS = 64, 1000, 10_000_000
# Default options of a player, where its policy accepts them.
DEFAULTS = {"epsilon": 0.1, "delta": 0.05, "alarm": True, "learning_rounds": 3000, "horizon": 100_000}
BATCH = 10_000  # slots counted at a time
GLANCE = 32  # slots between checks of the clock


class RadioError(Exception):
    """A run could not be finished; the message is one line."""


@dataclass(frozen=True)
class RadioReport:
    """The outcome of a run.

    Attributes
    ----------
    problem, policy, options, seed
        What was run; the options include the defaults of the radio.
    ended : "settled", "max-slots" or "max-seconds"
        Why it ended.
    slots : int
        Number of slots counted: up to the one in which the last player settled, if all did.
    measures : dict
        Those of ``simulate`` with ``horizon=slots``: regret, collisions, settled_players, settled_at, optimal,
        shortfall.
    choices : integer array (slots, players)
        Who chose which channel, -1 for idling.
    seats, settled_at : lists
        By player: the channel it settled on and after how many slots, None if it has not.
    collisions : list
        By player.
    order : integer array
        The index of each channel's mean among the problem's means.
    seconds : float
        How long the slots took.
    """

    problem: Any
    policy: str
    options: dict[str, Any]
    seed: int
    ended: str
    slots: int
    measures: dict[str, float]
    choices: np.ndarray = field(repr=False)
    seats: list[int | None]
    settled_at: list[int | None]
    collisions: list[int]
    order: np.ndarray = field(repr=False)
    seconds: float

    def mean_of(self, channel: int) -> float:
        """Return the mean reward of a channel."""
        return float(self.problem.means[self.order[channel]])

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        players = [
            {
                "player": n,
                "channel": seat,
                "mean": None if seat is None else self.mean_of(seat),
                "settled_at": self.settled_at[n],
                "collisions": self.collisions[n],
            }
            for n, seat in enumerate(self.seats)
        ]
        return {
            "policy": self.policy,
            "options": self.options,
            "seed": self.seed,
            "channels": self.problem.arms,
            "players": self.problem.players,
            "rewards": self.problem.rewards,
            "means": [self.mean_of(k) for k in range(self.problem.arms)],
            "ended": self.ended,
            "slots": self.slots,
            **self.measures,
            "by_player": players,
            "seconds": round(self.seconds, 3),
        }


def full_options(policy: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a policy, completed with the defaults of the radio."""
    taken = option_names("multiplayer", policy)
    return {name: value for name, value in DEFAULTS.items() if name in taken} | options


def play_radio(
    problem: Any,
    policy: str = "DLC-LIX",
    seed: int = 0,
    max_slots: int = 200_000,
    max_seconds: float = 300.0,
    watch: Callable[[Air, Crew], Any] | None = None,
    patience: float = PATIENCE,
    **options: Any,
) -> RadioReport:
    """Run each player of a problem as a separate process until all have settled.

    With the same seed and options the choices are those of replication 0 of ``simulate``. The alarm of DLC and
    DLC-LIX is on by default.

    Parameters
    ----------
    problem : MultiplayerProblem
        With at most 64 players and 1000 arms.
    policy : name
    seed : integer >= 0
    max_slots : integer from 1 to 10 million
    max_seconds : number > 0
        After the first slot. The run ends, settled or not, at whichever of the two comes first.
    watch : callable, optional
        Takes the air and the crew of players; returns a context manager that is open while they play.
    patience : number > 0
        Maximum time in seconds that a player may take per slot.
    **options
        Of the policy: numbers, words and bools.

    Raises
    ------
    RadioError
        A player died, timed out or broke the protocol. All processes have been ended.
    """
    if not isinstance(problem, MultiplayerProblem):
        raise ValueError(f"problem must be a MultiplayerProblem, got {problem!r}")
    if problem.is_open:
        raise ValueError(f"problem must be one of a fixed team with equal means, got {problem!r}")
    name = canonical_name("multiplayer", policy)
    chosen = full_options(name, options)
    make_policy("multiplayer", name, problem.arms, **chosen)  # report a wrong option here, not in N processes
    integer("players", problem.players, 1, MAX_PLAYERS)
    integer("channels", problem.arms, 2, MAX_CHANNELS)
    seed = integer("seed", seed, 0)
    last = integer("max_slots", max_slots, 1, MAX_SLOTS)
    seconds = number("max_seconds", max_seconds, above=0.0)
    with (
        Air(problem, seed, number("patience", patience, above=0.0)) as air,
        Crew(air, name, chosen, seed) as crew,
    ):
        try:
            air.admit(crew.check, seconds=4 * air.patience)
            start = time.monotonic()
            deadline = start + seconds
            if watch is None:
                _play(air, crew, last, deadline)
            else:
                with watch(air, crew):
                    _play(air, crew, last, deadline)
        except PlayerLost as lost:
            words = str(lost)
            if lost.gone:
                words = f"slot {lost.slot}: player {lost.player} {crew.fate(lost.player)}"
            raise RadioError(words) from None
        except (ChildProcessError, TimeoutError) as error:
            raise RadioError(f"{error} before the first slot") from None
        spent = time.monotonic() - start
        air.close()
        crew.finish()
        return _report(air, crew, name, chosen, seed, last, spent)


def _play(air: Air, crew: Crew, last: int, deadline: float) -> None:
    while air.slots < last and not crew.all_settled:
        if air.slots % GLANCE == 0 and time.monotonic() > deadline:
            return
        air.slot()


def _report(
    air: Air, crew: Crew, policy: str, options: dict[str, Any], seed: int, last: int, spent: float
) -> RadioReport:
    """Count up to the slot in which the last player settled: the air may have played a few more."""
    moments = [device.settled_at() for device in crew.devices]
    done = [moment for moment in moments if moment is not None]
    everybody = len(done) == len(moments) and max(done) <= air.slots
    slots = max(done) if everybody else air.slots
    ended = "settled" if everybody else "max-slots" if air.slots >= last else "max-seconds"
    choices = air.choices[:slots]
    seats = [arm if settled else None for settled, arm in (device.at(slots) for device in crew.devices)]
    counts, hits = count(air.problem, air.order, choices, seats, slots if everybody else 0)
    measures = {name: value.item() for name, value in air.problem.measures(counts).items()}
    return RadioReport(
        problem=air.problem,
        policy=policy,
        options=options,
        seed=seed,
        ended=ended,
        slots=slots,
        measures=measures,
        choices=choices,
        seats=seats,
        settled_at=moments,
        collisions=hits,
        order=air.order,
        seconds=spent,
    )


def count(
    problem: Any, order: np.ndarray, choices: np.ndarray, seats: list[int | None], settled_at: int
) -> tuple[np.ndarray, list[int]]:
    """Return the counts of the simulations' round loop, from all choices, and the collisions of each player."""
    K = problem.arms
    counts = np.zeros(FIXED + 2 * K, dtype=np.int64)
    hits = np.zeros(problem.players, dtype=np.int64)
    for first in range(0, len(choices), BATCH):
        some = choices[first : first + BATCH]
        crowd = np.stack([(some == k).sum(axis=1) for k in range(K)], axis=1)
        for k in range(K):
            counts[FIXED + order[k]] += int((crowd[:, k] == 1).sum())
        company = np.take_along_axis(crowd, np.maximum(some, 0), axis=1)
        hits += ((some != IDLE) & (company > 1)).sum(axis=0)
    for seat in seats:
        if seat is not None:
            counts[SETTLED] += 1
            counts[FIXED + K + order[seat]] += 1
    counts[ROUNDS], counts[COLLISIONS], counts[SETTLED_AT] = len(choices), hits.sum(), settled_at
    return counts, hits.tolist()
