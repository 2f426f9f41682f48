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
from typing import Any

from weakfeedback import live as lives
from weakfeedback.journal import Event, JournalError, Store
from weakfeedback.journal import Learner as Stored
from weakfeedback.journal.recover import Checked, Fold, verify
from weakfeedback.live.base import Live
from weakfeedback.live.journalled import made_again
from weakfeedback.live.live import Live as NewLive
from weakfeedback.live.persistence import Replayed, replayed
from weakfeedback.serve.learner import Learner

FUNCTIONS = ("combine", "compare", "metric", "label")


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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = verify(store, stored, functools.partial(fold_of, store, stored))
    found.differences += sum("the logged one stands" in str(one.message) for one in caught)
    return found
