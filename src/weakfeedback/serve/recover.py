"""Recovery of learners: load the newest valid snapshot, then replay and compare every later event."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from weakfeedback._version import __version__
from weakfeedback.journal import JournalError
from weakfeedback.journal import Learner as Stored
from weakfeedback.journal.recover import differences
from weakfeedback.journal.store import Store
from weakfeedback.serve.learner import Clock, Learner, now


@dataclass
class Recovered:
    """The result of recovery."""

    learners: list[Learner] = field(default_factory=list)
    empty: dict[str, int] = field(default_factory=dict)  # learners that were named but never created
    events: int = 0
    warnings: list[str] = field(default_factory=list)  # one line each; includes decisions that differ now
    differences: int = 0


def recover_all(store: Store, *, trust: bool = False, clock: Clock = now) -> Recovered:
    """Recover all learners of a store. JournalError names the first learner and event that cannot be replayed."""
    found = Recovered()
    for stored in store.learners():
        if store.last(stored.id)[0] < 0:  # the process ended before the learner was created
            found.empty[stored.name] = stored.id
            continue
        found.learners.append(recover(store, stored, found, trust=trust, clock=clock))
    return found


def recover(
    store: Store, stored: Stored, found: Recovered, *, trust: bool = False, clock: Clock = now
) -> Learner:
    """Recover one learner; with ``trust``, logged decisions are kept where they would differ now."""
    where = f"learner {stored.name}"
    damaged: list[str] = []
    start: tuple[dict[str, Any], int, str] | None = None
    for snapshot in store.snapshots(stored.id, damaged):
        start = snapshot.body, snapshot.seq, snapshot.package
        break
    found.warnings += [f"a snapshot is damaged and was not used: {words}" for words in damaged]
    first = None
    if start is None:
        first = next(iter(store.events(stored.id, limit=1)), None)
        if first is None or first.kind != "create":
            raise JournalError(f"{where} does not begin with its making")
        start = first.body, first.seq, first.body.get("package", "")
    body, seq, package = start
    if "service" not in body:
        raise JournalError(f"{where} is the journal of a live object: open it with {body.get('kind')}.open")
    try:
        learner = Learner.of(stored.name, stored.id, body, seq, clock, found.warnings)
    except (LookupError, TypeError, ValueError) as error:
        raise JournalError(f"{where}: event {seq} cannot be begun with: {error}") from None
    if first is not None:
        learner.created = first.at
        learner.outbox._at = first.at
        learner.pictured = -1
    else:
        learner.outbox._at = store.last(stored.id)[1]
    same = package == __version__ and not trust
    with _counted(found):
        for event in store.events(stored.id, after=seq):
            learner.apply(event, same, where)
            found.events += 1
    learner.attach()
    return learner


def read_again(store: Store, learner: Learner, *, trust: bool, clock: Clock) -> tuple[Learner, list[str]]:
    """Return a learner as its events make it, in place of an object that a failed step has left; and warnings."""
    (stored,) = [one for one in store.learners() if one.id == learner.id]
    found = Recovered()
    again = recover(store, stored, found, trust=trust, clock=clock)
    again.continue_counting(learner)
    try:
        other = differences(learner.live.state(), again.live.state())
    except Exception as error:  # its state is what is wrong
        other = [str(error)]
    told = [f"learner {learner.name}: its memory was wrong: {words}" for words in other[:1]]
    return again, found.warnings + told


def missing_in(store: Store, identity: str, acknowledged: dict[int, tuple[str, int]]) -> str | None:
    """Return a line if a store that was opened again is another one, or lacks events that were acknowledged.

    ``acknowledged`` has the name and the last event of every learner.
    """
    if store.identity != identity:
        return f"{store.place}: another store was put in its place while it was in use"
    for id, (name, seq) in acknowledged.items():
        last = store.last(id)[0]
        if last < seq:
            return (
                f"{store.place}: learner {name} had {seq + 1} events, and has {last + 1}: an older copy was put in its "
                "place while it was in use"
            )
    return store.surprise()


class _counted:
    """Collects the warnings about decisions that differ now."""

    def __init__(self, found: Recovered) -> None:
        self._found = found
        self._catch = warnings.catch_warnings(record=True)

    def __enter__(self) -> None:
        self._caught = self._catch.__enter__()
        warnings.simplefilter("always")

    def __exit__(self, *error: object) -> None:
        self._catch.__exit__(*error)  # type: ignore[arg-type]
        for one in self._caught or ():
            self._found.warnings.append(str(one.message))
            self._found.differences += "stands" in str(one.message)
