"""Measure the rows: everybody is started, then all run in alternation."""

import contextlib
from dataclasses import dataclass, field
from typing import Any

from benchmarks.participant import OURS, Failed, Participant
from benchmarks.peers.install import PEERS, NotInstalled, command
from benchmarks.timing import Ratio, Timing, alternate, machine, plain
from benchmarks.works import Row


@dataclass
class Measured:
    """A row with its numbers; ``skipped`` says of each absent peer why."""

    row: Row
    ours: Timing
    floor: Timing
    peers: dict[str, Timing]
    peak_mb: float
    peer_peaks: dict[str, float] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    load: list[float] = field(default_factory=list)

    @property
    def to_floor(self) -> Ratio:
        """Our time over the floor's."""
        return Ratio.of(self.ours, self.floor)

    def to_peer(self, name: str) -> Ratio:
        """A peer's time over ours."""
        return Ratio.of(self.peers[name], self.ours)

    @property
    def fastest(self) -> str | None:
        """The peer that needs least."""
        return min(self.peers, key=lambda name: self.peers[name].best, default=None)

    def goals(self) -> list[tuple[str, bool]]:
        """Each goal of the row in words, and whether it is met."""
        found, row = [], self.row
        if row.floor_at_most is not None:
            met = self.to_floor.value <= row.floor_at_most
            found.append((f"at most {row.floor_at_most:g} x the floor: {self.to_floor}", met))
        wanted = {}
        if row.fastest_at_least is not None and self.fastest is not None:
            wanted[self.fastest] = row.fastest_at_least
        for name, least in row.peer_at_least.items():
            wanted[name] = max(least, wanted.get(name, 0.0))
        for name, least in wanted.items():
            if name in self.peers:
                ratio = self.to_peer(name)
                found.append((f"{name} at least {least:g} x slower: {ratio}", ratio.value >= least))
        return found

    def data(self) -> dict[str, Any]:
        """The row for the file."""
        return {
            "work": self.row.work,
            "ours": plain(self.ours),
            "floor": plain(self.floor),
            "to_floor": plain(self.to_floor),
            "nearest": self.row.nearest,
            "peers": {
                name: {
                    **plain(timing),
                    "ratio": plain(self.to_peer(name)),
                    "peak_mb": self.peer_peaks.get(name),
                }
                for name, timing in self.peers.items()
            },
            "skipped": self.skipped,
            "peak_mb": self.peak_mb,
            "load": self.load,
            "goals": [{"goal": words, "met": met} for words, met in self.goals()],
        }


def measure(row: Row, repetitions: int, peers: bool) -> Measured:
    """Run a row: ourselves, the floor and every peer that is there."""
    skipped: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        everybody = {
            role: stack.enter_context(Participant(OURS, work=row.work, role=role))
            for role in ("ours", "floor")
        }
        for name, request in row.peers.items() if peers else ():
            try:
                everybody[name] = stack.enter_context(Participant(command(PEERS[name]), **request))
            except (NotInstalled, Failed) as reason:
                skipped[name] = str(reason)
        timings = _alternated(everybody, repetitions, skipped)
        return Measured(
            row,
            timings.pop("ours"),
            timings.pop("floor"),
            timings,
            everybody["ours"].peak_mb,
            {name: everybody[name].peak_mb for name in timings},
            skipped,
            machine()["load"],
        )


def _alternated(
    everybody: dict[str, Participant], repetitions: int, skipped: dict[str, str]
) -> dict[str, Timing]:
    """All timings; a peer that fails is left out, with its reason, and the others start again."""
    for name in [name for name in everybody if name not in ("ours", "floor")]:
        try:
            everybody[name].measure()
        except Failed as reason:
            skipped[name] = str(reason)
            everybody.pop(name)
    return alternate({name: one.measure for name, one in everybody.items()}, repetitions)
