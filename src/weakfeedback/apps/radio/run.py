"""A run of the radio: an air, its players, and what an observer of both can measure."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Collection, Iterator
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
DEFAULTS["recheck"] = 300
GLANCES = 20  # how often the owners are listed, besides when somebody comes or goes
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
    events : list of (slot, words)
        Who came, left, was killed or was lost, and in which slot.
    owners : list of (slots, channels)
        After so many slots, the players that own each channel, as a list for each.
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
    events: list[tuple[int, str]] = field(default_factory=list)
    owners: list[tuple[int, list[list[int]]]] = field(default_factory=list, repr=False)

    def mean_of(self, channel: int) -> float:
        """Return the mean reward of a channel; that of all players if each has its own."""
        return float(self.problem.means[..., self.order[channel]].mean())

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
            "events": [{"slot": slot, "what": words} for slot, words in self.events],
            "owners": [{"slots": slots, "channels": channels} for slots, channels in self.owners],
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
    killed: Collection[int] = (),
    **options: Any,
) -> RadioReport:
    """Run each player of a problem as a separate process until all have settled.

    With the same seed and options the choices are those of replication 0 of ``simulate``. The alarm of DLC and
    DLC-LIX is on by default, and ``recheck=300`` of Claims. In a problem with ``presence`` a process is started when
    its player comes, and ended when it goes. If the policy ``survives`` (Claims, Selfish) the others go on without one
    whose process died by itself.

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
    killed : numbers of players
        Those whose process is killed (SIGKILL) when their presence ends, instead of being disconnected.
    **options
        Of the policy: numbers, words and bools.

    Raises
    ------
    RadioError
        A player died, timed out or broke the protocol, and its policy does not survive that. All processes have been
        ended.
    """
    if not isinstance(problem, MultiplayerProblem):
        raise ValueError(f"problem must be a MultiplayerProblem, got {problem!r}")
    name = canonical_name("multiplayer", policy)
    chosen = full_options(name, options)
    # report a wrong option here, not in N processes
    survives = bool(getattr(make_policy("multiplayer", name, problem.arms, **chosen), "survives", False))
    integer("players", problem.players, 1, MAX_PLAYERS)
    integer("channels", problem.arms, 2, MAX_CHANNELS)
    seed = integer("seed", seed, 0)
    last = integer("max_slots", max_slots, 1, MAX_SLOTS)
    seconds = number("max_seconds", max_seconds, above=0.0)
    with (
        Air(problem, seed, number("patience", patience, above=0.0), survives) as air,
        Crew(air, name, chosen, seed) as crew,
    ):
        try:
            calendar = Calendar(problem, killed)
            calendar.admit(air, crew)
            start = time.monotonic()
            deadline = start + seconds
            if watch is None:
                _play(air, crew, calendar, last, deadline)
            else:
                with watch(air, crew):
                    _play(air, crew, calendar, last, deadline)
        except PlayerLost as lost:
            words = str(lost)
            if lost.gone:
                words = f"slot {lost.slot}: player {lost.player} {crew.fate(lost.player)}"
            raise RadioError(words) from None
        except (ChildProcessError, TimeoutError) as error:
            when = f" in slot {air.slots}" if air.slots else " before the first slot"
            raise RadioError(f"{error}{when}") from None
        spent = time.monotonic() - start
        air.close()
        crew.finish()
        return _report(air, crew, calendar, name, chosen, seed, last, spent)


class Calendar:
    """Who comes and goes when; its events are those that took place."""

    def __init__(self, problem: Any, killed: Collection[int]) -> None:
        for player in killed:
            integer("killed", player, 0, problem.players - 1)
        self.problem, self.killed = problem, set(killed)
        pairs = problem.presence or ()
        self.coming: dict[int, list[int]] = {}
        self.going: dict[int, list[int]] = {}
        for n, (start, stop) in enumerate(pairs):
            if start > 0:
                self.coming.setdefault(start, []).append(n)
            if stop is not None:
                self.going.setdefault(stop, []).append(n)
        self.latest = max(self.coming, default=0)
        self.events: list[tuple[int, str]] = []

    def admit(self, air: Air, crew: Crew) -> None:
        """Wait for the players of the first slot."""
        there = [n for n, is_there in enumerate(self.problem.present(0)) if is_there]
        air.admit(crew.check, 4 * air.patience, there, last=self.latest == 0)

    def turn(self, air: Air, crew: Crew) -> None:
        """Let players go and come at the beginning of a slot."""
        for n in self.going.get(air.slots, ()):
            if n in air.lost:
                continue
            crew.devices[n].ended = "killed" if n in self.killed else "leaves"
            if n in self.killed:
                crew.kill(n)
            air.dismiss(n)
            crew.devices[n].phase, crew.devices[n].holds = "gone", False
            self.events.append((air.slots, f"player {n} {'is killed' if n in self.killed else 'leaves'}"))
        coming = self.coming.get(air.slots, [])
        if coming:
            crew.start(coming)
            air.admit(crew.check, 4 * air.patience, coming, last=air.slots == self.latest)
            self.events += [(air.slots, f"player {n} joins") for n in coming]


def _play(air: Air, crew: Crew, calendar: Calendar, last: int, deadline: float) -> None:
    while air.slots < last and not crew.all_settled:
        calendar.turn(air, crew)
        if air.slots % GLANCE == 0 and time.monotonic() > deadline:
            return
        air.slot()


def _report(
    air: Air,
    crew: Crew,
    calendar: Calendar,
    policy: str,
    options: dict[str, Any],
    seed: int,
    last: int,
    spent: float,
) -> RadioReport:
    """Count up to the slot in which the last player settled: the air may have played a few more."""
    moments = [device.settled_at() for device in crew.devices]
    done = [moment for moment in moments if moment is not None]
    everybody = len(done) == len(moments) and max(done) <= air.slots and not air.problem.is_open
    slots = max(done) if everybody else air.slots
    ended = "settled" if everybody else "max-slots" if air.slots >= last else "max-seconds"
    choices = air.choices[:slots]
    problem = _as_played(air)
    there = problem.present(slots - 1)
    ends = [device.at(len(air.slots_of(n)) if there[n] else 0) for n, device in enumerate(crew.devices)]
    if not problem.is_open:
        ends = [device.at(slots) for device in crew.devices]
    seats = [arm if settled else None for settled, arm in ends]
    if problem.is_open:
        counts, hits = count_open(problem, air.order, choices, seats)
    else:
        counts, hits = count(problem, air.order, choices, seats, slots if everybody else 0)
    measures = {name: value.item() for name, value in problem.measures(counts).items()}
    events = calendar.events + [(slot, f"player {n} is lost: {crew.fate(n)}") for n, slot in air.lost.items()]
    return RadioReport(
        problem=problem,
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
        events=sorted(events),
        owners=_owners(problem, air, crew, slots, [slot for slot, _ in events]),
    )


def _as_played(air: Air) -> Any:
    """Return the problem with those that were lost as players that left."""
    problem = air.problem
    if not air.lost:
        return problem
    presence = list(problem.presence or [(0, None)] * problem.players)
    for n, slot in air.lost.items():
        presence[n] = (presence[n][0], max(slot, presence[n][0] + 1))
    return MultiplayerProblem(
        problem.means,
        problem.players,
        problem.shuffle,
        problem.rewards,
        presence,
        problem.lost,
        problem.sensing,
    )


def _owners(
    problem: Any, air: Air, crew: Crew, slots: int, moments: list[int]
) -> list[tuple[int, list[list[int]]]]:
    """Return who owned which channel, at some times and around every event."""
    found = []
    times = {round(slots * k / GLANCES) for k in range(1, GLANCES + 1)} | {t for t in moments if t < slots}
    for time_ in sorted(times - {0}):
        channels: list[list[int]] = [[] for _ in range(problem.arms)]
        there = problem.present(time_ - 1)
        for n, device in enumerate(crew.devices):
            arm = device.at(bisect.bisect_left(air.slots_of(n), time_))[1] if there[n] else IDLE
            if arm != IDLE:
                channels[arm].append(n)
        found.append((time_, channels))
    return found


def meetings(problem: Any, choices: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield choices, some slots at a time, with the number of players on the channel of each, itself included."""
    for first in range(0, len(choices), BATCH):
        some = choices[first : first + BATCH]
        crowd = np.stack([(some == k).sum(axis=1) for k in range(problem.arms)], axis=1)
        yield some, np.take_along_axis(crowd, np.maximum(some, 0), axis=1)


def count_open(
    problem: Any, order: np.ndarray, choices: np.ndarray, seats: list[int | None]
) -> tuple[np.ndarray, list[int]]:
    """Return the counts of the round loop of open problems, and the collisions of each player."""
    N, K = problem.players, problem.arms
    used, hits = np.zeros((N, K), dtype=np.int64), np.zeros(N, dtype=np.int64)
    for some, company in meetings(problem, choices):
        hits += ((some != IDLE) & (company > 1)).sum(axis=0)
        for k in range(K):
            used[:, order[k]] += ((some == k) & (company == 1)).sum(axis=0)
    places = [0 if seat is None else 1 + int(order[seat]) for seat in seats]
    head = [len(choices), int(hits.sum()), sum(place > 0 for place in places), 0]
    return np.array([*head, *used.ravel().tolist(), *places], dtype=np.int64), hits.tolist()


def count(
    problem: Any, order: np.ndarray, choices: np.ndarray, seats: list[int | None], settled_at: int
) -> tuple[np.ndarray, list[int]]:
    """Return the counts of the simulations' round loop, from all choices, and the collisions of each player."""
    K = problem.arms
    counts = np.zeros(FIXED + 2 * K, dtype=np.int64)
    hits = np.zeros(problem.players, dtype=np.int64)
    for some, company in meetings(problem, choices):
        for k in range(K):
            counts[FIXED + order[k]] += int(((some == k) & (company == 1)).sum())
        hits += ((some != IDLE) & (company > 1)).sum(axis=0)
    for seat in seats:
        if seat is not None:
            counts[SETTLED] += 1
            counts[FIXED + K + order[seat]] += 1
    counts[ROUNDS], counts[COLLISIONS], counts[SETTLED_AT] = len(choices), hits.sum(), settled_at
    return counts, hits.tolist()
