"""Check a store: read everything, and rebuild every learner from its events. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weakfeedback import live as lives
from weakfeedback.journal import JournalError, Store, StoreDamaged
from weakfeedback.journal import Learner as Stored
from weakfeedback.journal.recover import Checked, verify
from weakfeedback.live.live import Live
from weakfeedback.live.persistence import replayed
from weakfeedback.live.storage import StateError
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.recover import other_version


def check_store(store: Store) -> Iterator[Checked | str]:
    """Yield the result for each learner, then one line for each other problem of the store."""
    told: list[str] = []
    for stored in store.learners():
        try:
            checked = check_learner(store, stored)
        except StoreDamaged:
            raise
        except JournalError as error:
            checked = Checked(stored.name, problems=[str(error)])
        apart = [words for id, words in store.apart.items() if id == stored.id]
        checked.problems += [words for words in apart if words not in checked.problems]
        told += checked.problems
        yield checked
    yield from (line for line in store.integrity() if line not in told)


def check_learner(store: Store, stored: Stored) -> Checked:
    """Rebuild a learner from every starting point, and compare."""
    return verify(store, stored, lambda body, seq, at: fold_of(store, stored, body, seq, at))


def fold_of(store: Store, stored: Stored, body: dict[str, Any], seq: int, made: int | None = None) -> Any:
    """Return the state that ``body`` holds: of the first event ``seq``, created at ``made``, or of a snapshot."""
    if "service" not in body:
        return replayed(_kind(body["kind"]), body, _code(body), store, stored.id)
    try:
        learner = Learner.of(stored.name, stored.id, body, seq)
    except StateError as error:
        raise JournalError(f"learner {stored.name}: {other_version(seq, body, error)}") from None
    if made is not None:
        learner.created = made
    return learner


def _kind(name: str) -> Any:
    for one in (getattr(lives, public) for public in lives.__all__):
        if isinstance(one, type) and issubclass(one, Live) and one.kind == name:
            return one
    raise JournalError(f"there is no live object of kind {name!r:.40}")


def _code(body: dict[str, Any]) -> dict[str, Any]:
    """Return stand-ins for the object's functions: they are never called here, as their results are in the log."""
    arguments = _kind(body["kind"]).form.arguments
    return {one.name: _never for one in arguments if one.was_given(body["state"])}


def _never(*_: Any) -> Any:
    raise JournalError("the log does not hold what a function gave")
