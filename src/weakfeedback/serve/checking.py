"""Check a store: read everything, and rebuild every learner from its events.

A learner is rebuilt from its first event and from every snapshot, all in one pass, so that the log is read once. Each
snapshot must equal the state that the events have led to; at the end all rebuilt learners must be equal, field by
field. Nothing is written.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from weakfeedback import live as lives
from weakfeedback._version import __version__
from weakfeedback.journal import Event, JournalError, Snapshot, Store
from weakfeedback.journal import Learner as Stored
from weakfeedback.journal.recover import differences, not_led_to
from weakfeedback.live.base import Live
from weakfeedback.live.journalled import made_again
from weakfeedback.live.live import Live as NewLive
from weakfeedback.live.persistence import Replayed, replayed
from weakfeedback.plaintext import counted
from weakfeedback.serve.learner import Learner

FUNCTIONS = ("combine", "compare", "metric", "label")


@dataclass
class Checked:
    """The result of checking one learner."""

    name: str
    events: int = 0
    first: int = 0  # the first event that is kept
    snapshots: int = 0
    problems: list[str] = field(default_factory=list)
    differences: int = 0  # decisions of another version that this version makes differently

    def __str__(self) -> str:
        """Return the result as one line."""
        kept = counted(self.events, "event") + (f" from {self.first} on" if self.first else "")
        found = f"{self.name}: {kept}, {counted(self.snapshots, 'snapshot')}: "
        if self.problems:
            return f"{found}WRONG: {self.problems[0]}" + _more(len(self.problems) - 1)
        if self.differences:
            return f"{found}sound, but {self.differences} decisions of another version fall otherwise now"
        return f"{found}every decision made again, all states the same"


def _more(count: int) -> str:
    return f" (and {count} more)" if count else ""


class Fold(Protocol):
    """A state that events are folded into."""

    def apply(self, event: Event, same: bool, where: str) -> None:
        """Apply an event."""

    def picture(self) -> dict[str, Any]:
        """Return everything as plain data."""


class OwnJournal:
    """A live object with a journal of its own."""

    def __init__(self, store: Store, learner: int, body: dict[str, Any]) -> None:
        cls: Any = _kind(body["kind"])
        make = replayed if issubclass(cls, NewLive) else made_again
        made: Any = make(cls, body, _code(body), store, learner)
        self.live = made.live if isinstance(made, Replayed) else made

    def apply(self, event: Event, same: bool, where: str) -> None:
        """Apply an event."""
        self.live._apply(event, same, where)

    def picture(self) -> dict[str, Any]:
        """Return everything as the journal stores it."""
        live = self.live
        return {"kind": live.kind, "seed": live._seed, "every": live._every, "state": live.state()}


def _kind(name: str) -> Any:
    for one in (getattr(lives, public) for public in lives.__all__):
        if isinstance(one, type) and issubclass(one, (Live, NewLive)) and one.kind == name:
            return one
    raise JournalError(f"there is no live object of kind {name!r:.40}")


def _code(body: dict[str, Any]) -> dict[str, Any]:
    """Return stand-ins for the object's functions: they are never called here, as their results are in the log."""
    made: Any = _kind(body["kind"])
    known = inspect.signature(made.from_state).parameters
    return {name: _never for name in FUNCTIONS if name in known and body["state"].get(name) is True}


def _never(*_: Any) -> Any:
    raise JournalError("the log does not hold what a function gave")


def fold_of(store: Store, stored: Stored, body: dict[str, Any], seq: int, made: int | None = None) -> Fold:
    """Return the state that ``body`` holds: of the first event ``seq``, created at ``made``, or of a snapshot."""
    if "service" not in body:
        return OwnJournal(store, stored.id, body)
    learner = Learner.of(stored.name, stored.id, body, seq)
    if made is not None:
        learner.created = made
    return learner


def check_store(store: Store) -> Iterator[Checked | str]:
    """Yield the result for each learner, then one line for each other problem of the store."""
    told: list[str] = []
    for stored in store.learners():
        checked = check_learner(store, stored)
        told += checked.problems
        yield checked
    yield from (line for line in store.integrity() if line not in told)


def check_learner(store: Store, stored: Stored) -> Checked:
    """Rebuild a learner from every starting point, and compare."""
    floor = store.floor(stored.id).seq
    found = Checked(stored.name, first=floor)
    snapshots = sorted(store.snapshots(stored.id, found.problems), key=lambda one: one.seq)
    found.snapshots = len(snapshots)
    if store.last(stored.id)[0] < 0:
        return found
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            _replay(store, stored, floor, snapshots, found)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            found.problems.append(str(error))
    found.differences = sum("the logged one stands" in str(one.message) for one in caught)
    return found


def _replay(store: Store, stored: Stored, floor: int, snapshots: list[Snapshot], found: Checked) -> None:
    where = f"{store.place}: learner {stored.name}"
    waiting = list(snapshots)
    folds: list[tuple[str, bool, Fold]] = []  # start, whether this version wrote it, state
    for event in store.events(stored.id, floor - 1):
        found.events += 1
        for _, same, fold in folds:
            fold.apply(event, same, where)
        if event.seq == 0:
            if event.kind != "create":
                raise JournalError(f"{where}: event 0 is {event.kind}: it does not begin with its making")
            package = event.body.get("package")
            folds.append(
                ("the beginning", package == __version__, fold_of(store, stored, event.body, 0, event.at))
            )
        while waiting and waiting[0].seq == event.seq:
            snapshot = waiting.pop(0)
            made = functools.cache(functools.partial(fold_of, store, stored, snapshot.body, snapshot.seq))
            for begun, _, fold in folds:
                found.problems += [
                    f"{where}: snapshot {snapshot.seq} is not what the events from {begun} lead to: {words}"
                    for words in not_led_to(fold.picture(), snapshot.body, made)[:1]
                ]
            folds.append((f"snapshot {snapshot.seq}", snapshot.package == __version__, made()))
    if waiting:
        found.problems.append(f"{where}: snapshot {waiting[0].seq} belongs to no event")
    if not folds:
        found.problems.append(f"{where}: there is nothing to begin with: events before {floor} were removed")
        return
    begun, _, first = folds[0]
    expected = first.picture()
    for other, _, fold in folds[1:]:
        for words in differences(expected, fold.picture())[:1]:
            found.problems.append(f"{where}: from {begun} and from {other} other states come out: {words}")
