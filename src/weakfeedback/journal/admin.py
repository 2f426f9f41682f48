"""Operations on whole stores: copy, compact, export."""

import json
from collections.abc import Iterator
from itertools import zip_longest

from weakfeedback.journal.events import JournalError
from weakfeedback.journal.sql import Store
from weakfeedback.journal.store import Learner


def copy_store(source: Store, target: Store) -> int:
    """Copy everything into an empty store of any kind, and return the number of events.

    The copy is one transaction: all or nothing. Then both stores are read and compared, event by event and snapshot by
    snapshot; JournalError names the first difference. A process that opens the copy continues exactly where the
    original stands.
    """
    damaged: list[str] = []
    for learner in source.learners():
        for _ in source.snapshots(learner.id, damaged):
            pass
    if damaged:
        raise JournalError(f"nothing was copied, as a snapshot is damaged: {damaged[0]}")
    count = target.fill(source)
    if source.learners() != target.learners():
        raise JournalError(f"{target.place}: the learners are not those of {source.place}")
    for learner in source.learners():
        _compare(source, target, learner)
    return count


def _compare(source: Store, target: Store, learner: Learner) -> None:
    about = f"{target.place}: learner {learner.name}"
    floor = source.floor(learner.id)
    if target.floor(learner.id) != floor:
        raise JournalError(f"{about}: what was removed is not the same as in {source.place}")
    after = floor.seq - 1
    for one, other in zip_longest(source.events(learner.id, after), target.events(learner.id, after)):
        if one != other:
            seq = (one or other).seq
            raise JournalError(f"{about}: event {seq} is not the same as in {source.place}")
    for old, new in zip_longest(source.snapshots(learner.id), target.snapshots(learner.id)):
        if old != new:
            seq = (old or new).seq
            raise JournalError(f"{about}: snapshot {seq} is not the same as in {source.place}")


def compact_store(store: Store, before_at: int) -> dict[str, int]:
    """Remove events older than both ``before_at`` (microseconds since 1970) and their learner's oldest snapshot.

    Returns the number of removed events by learner. Removed feedback can never be learned twice: see ``Store.floor``.
    """
    return {learner.name: store.compact(learner.id, before_at) for learner in store.learners()}


def export_lines(store: Store) -> Iterator[str]:
    """Yield every event as a line of JSON, learner by learner, in order."""
    for learner in store.learners():
        for event in store.events(learner.id, store.floor(learner.id).seq - 1):
            told = {"learner": learner.name, **event._asdict()}
            yield json.dumps(told, separators=(",", ":"), allow_nan=False)
