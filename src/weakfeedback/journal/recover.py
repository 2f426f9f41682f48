"""Recovery of one learner of a store, and its check: the newest valid snapshot, then every later event.

Live objects, the service and ``serve check`` differ only in what they make of the body that a recovery starts from.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weakfeedback._version import __version__
from weakfeedback.journal.events import JournalError, StoreDamaged, dump, parse
from weakfeedback.journal.sql import Store
from weakfeedback.journal.store import Learner, Snapshot
from weakfeedback.plaintext import numbered

FREE = ("package", "state/timeout")  # fields that may differ between two runs of one learner


# Body, seq and time of the first event -> a state with ``apply(event, same, where)``, which returns a line if the
# logged decision stands against the one made now, and ``picture()``, everything as plain data.
Make = Callable[[dict[str, Any], int, int | None], Any]


@dataclass
class Recovered:
    """The result of recovering one learner."""

    fold: Any
    events: int = 0  # that were applied
    stands: list[str] = field(default_factory=list)  # logged decisions that this version makes differently
    warnings: list[str] = field(default_factory=list)  # about snapshots


def recover(store: Store, stored: Learner, make: Make, where: str, *, trust: bool = False) -> Recovered:
    """Recover one learner; with ``trust``, logged decisions are kept where they would differ now.

    A snapshot of this version that does not lead to the events after it is not used: an earlier one is, or the first
    event. Raises JournalError for the first event that cannot be applied.
    """
    damaged: list[str] = []
    misled: list[_Misled] = []
    for snapshot in store.snapshots(stored.id, damaged):
        start = snapshot.body, snapshot.seq, None, snapshot.package
        try:
            found = _recover_from(start, store, stored, make, where, trust)
        except _Misled as problem:
            misled.append(problem)
            if snapshot.package != __version__:  # another version may mean something else by it
                raise
            continue
        break
    else:
        try:
            found = _recover_from(_beginning(store, stored, where), store, stored, make, where, trust)
        except StoreDamaged:
            raise
        except JournalError as problem:
            raise (*misled, problem)[0] from None
    if (
        misled
    ):  # by the state that all events lead to, perhaps: what could not be read again is not gone on with
        try:
            make(parse(dump(found.fold.picture())), store.last(stored.id)[0], None)
        except JournalError:
            raise misled[0] from None
    found.warnings = [f"a snapshot is damaged and was not used: {words}" for words in damaged]
    found.warnings += [f"{where}: a snapshot is wrong and was not used: {problem}" for problem in misled]
    return found


class _Misled(JournalError):
    """A state cannot be begun with, or does not lead to the events after it."""


Start = tuple[dict[str, Any], int, int | None, str]  # body, seq, time of the first event, version


def _beginning(store: Store, stored: Learner, where: str) -> Start:
    first = next(iter(store.events(stored.id, limit=1)), None)
    if first is None or first.kind != "create":
        raise JournalError(f"{where} does not begin with its making")
    return first.body, first.seq, first.at, first.body.get("package", "")


def _recover_from(
    start: Start, store: Store, stored: Learner, make: Make, where: str, trust: bool
) -> Recovered:
    body, seq, at, package = start
    try:
        found = Recovered(make(body, seq, at))
    except StoreDamaged:
        raise
    except JournalError as problem:
        raise _Misled(str(problem)) from None
    same = package == __version__ and not trust
    for event in store.events(stored.id, after=seq):
        try:
            words = found.fold.apply(event, same, where)
        except JournalError as problem:
            raise _Misled(str(problem)) from None
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as problem:
            raise _Misled(f"{where}: event {event.seq} ({event.kind}) cannot be counted: {problem}") from None
        found.events += 1
        if words is not None:
            found.stands.append(words)
    return found


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
        kept = numbered(self.events, "event") + (f" from {self.first} on" if self.first else "")
        found = f"{self.name}: {kept}, {numbered(self.snapshots, 'snapshot')}: "
        if self.problems:
            more = f" (and {len(self.problems) - 1} more)" if len(self.problems) > 1 else ""
            return f"{found}WRONG: {self.problems[0]}{more}"
        if self.differences:
            return f"{found}sound, but {self.differences} decisions of another version fall otherwise now"
        return f"{found}every decision made again, all states the same"


def verify(store: Store, stored: Learner, make: Make) -> Checked:
    """Rebuild a learner from its first event and from every snapshot, in one pass, and compare. Nothing is written.

    Each snapshot must equal the state that the events have led to; at the end all rebuilt states must be equal, field
    by field.
    """
    floor = store.floor(stored.id).seq
    found = Checked(stored.name, first=floor)
    snapshots = sorted(store.snapshots(stored.id, found.problems), key=lambda one: one.seq)
    found.snapshots = len(snapshots)
    if store.last(stored.id)[0] < 0:
        return found
    try:
        _replay(store, stored, make, floor, snapshots, found)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        found.problems.append(str(error))
    return found


def _replay(
    store: Store, stored: Learner, make: Make, floor: int, snapshots: list[Snapshot], found: Checked
) -> None:
    where = f"{store.place}: learner {stored.name}"
    waiting = list(snapshots)
    folds: list[tuple[str, bool, Any]] = []  # start, whether this version wrote it, state
    for event in store.events(stored.id, floor - 1):
        found.events += 1
        for _, same, fold in folds:
            found.differences += fold.apply(event, same, where) is not None
        if event.seq == 0:
            if event.kind != "create":
                raise JournalError(f"{where}: event 0 is {event.kind}: it does not begin with its making")
            package = event.body.get("package")
            folds.append(("the beginning", package == __version__, make(event.body, 0, event.at)))
        while waiting and waiting[0].seq == event.seq:
            snapshot = waiting.pop(0)
            made = functools.cache(functools.partial(make, snapshot.body, snapshot.seq, None))
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


def not_led_to(picture: dict[str, Any], body: dict[str, Any], made: Callable[[], Any]) -> list[str]:
    """Return in which fields a snapshot differs from a picture, in words.

    One in the form of another version, with other fields, is compared as it is ``made`` here.
    """
    shared = {key: value for key, value in picture.items() if key in body}
    words = differences(shared, body)
    with contextlib.suppress(JournalError):  # else the words above tell more than that it cannot be made
        found = differences(picture, made().picture())
        return (words or found) if found else []
    return words


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Return the fields in which two states differ, in words."""
    if path in FREE:
        return []
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted({*one, *other})
        inner = (f"{path}/{key}" if path else str(key) for key in keys)
        pairs = ((one.get(key, "nothing"), other.get(key, "nothing")) for key in keys)
        return [words for way, pair in zip(inner, pairs) for words in differences(*pair, way)]
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        return [
            words for n, pair in enumerate(zip(one, other)) for words in differences(*pair, f"{path}/{n}")
        ]
    return [] if one == other and type(one) is type(other) else [f"{path} is {one!r:.60} and {other!r:.60}"]
