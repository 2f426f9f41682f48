"""Recovery of learners: load the newest valid snapshot, then replay and compare every later event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weakfeedback._version import __version__
from weakfeedback.journal import JournalError, StoreDamaged
from weakfeedback.journal import Learner as Stored
from weakfeedback.journal import recover as journal_recovery
from weakfeedback.journal.sql import Store
from weakfeedback.live.storage import StateError
from weakfeedback.plaintext import one_line
from weakfeedback.serve.kinds import Kind
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.outbox import Clock, now
from weakfeedback.words import prices_told_elsewhere

LONG = 4_000  # events of a slow kind: to load compiled code takes about as long, and is done sooner or later anyway
FURTHER = 1_000  # of another slow kind, once the compiler is loaded


@dataclass
class Recovered:
    """The result of recovery."""

    learners: list[Learner] = field(default_factory=list)
    empty: dict[str, int] = field(default_factory=dict)  # learners that were named but never created
    events: int = 0
    warnings: list[str] = field(default_factory=list)  # one line each; includes decisions that differ now
    differences: int = 0
    compiled: bool = False  # whether compiled code may be loaded
    kept_out: list[tuple[Stored, str]] = field(default_factory=list)  # who cannot be recovered, and why
    owed: set[int] = field(default_factory=set)  # numbers of learners that have yet to skip ids
    slowly: dict[str, int] = field(default_factory=dict)  # events of slow kinds that were replayed without it
    quickly: set[str] = field(default_factory=set)  # slow kinds whose compiled code was loaded

    def compiles(self, kind: Kind, events: int) -> bool:
        """Whether a learner with so many events to replay is compiled first."""
        if not self.compiled or not kind.is_slow:
            return False
        enough = FURTHER if self.quickly else LONG
        return kind.name in self.quickly or self.slowly.get(kind.name, 0) + events >= enough


def recover_all(
    store: Store,
    *,
    trust: bool = False,
    clock: Clock = now,
    compiled: bool = False,
    wanted: Callable[[str], bool] = lambda _: True,
    keep_out: bool = False,
) -> Recovered:
    """Recover all learners of a store whose names are ``wanted``.

    JournalError names the first learner and event that cannot be replayed; with ``keep_out`` that learner is left out,
    and the others are recovered, unless the database itself is damaged.
    """
    found = Recovered(compiled=compiled, owed=store.owed_gaps())
    for stored in store.learners():
        if not wanted(stored.name):
            continue
        try:
            if stored.id in store.apart:
                raise JournalError(store.apart[stored.id])
            if store.last(stored.id)[0] < 0:  # the process ended before the learner was created
                found.empty[stored.name] = stored.id
                continue
            found.learners.append(recover(store, stored, found, trust=trust, clock=clock))
        except (OSError, MemoryError, StoreDamaged):
            raise
        except Exception as error:
            if not keep_out:
                raise
            found.kept_out.append((stored, reason_of(error, store)))
    return found


def reason_of(error: Exception, store: Store) -> str:
    """Return why a learner cannot be recovered, without the location of the store."""
    words = str(error) if isinstance(error, JournalError) else f"{type(error).__name__}: {error}"
    return one_line(words.replace(f"{store.place}: ", ""), 300)


def recover(
    store: Store, stored: Stored, found: Recovered, *, trust: bool = False, clock: Clock = now
) -> Learner:
    """Recover one learner; with ``trust``, logged decisions are kept where they would differ now."""
    where = f"learner {stored.name}"

    def make(body: dict[str, Any], seq: int, at: int | None) -> Learner:
        def compiles(kind: Kind) -> bool:
            return found.compiles(kind, store.last(stored.id)[0] - seq)

        if "service" not in body:
            raise JournalError(
                f"{where} is the journal of a live object: open it with {body.get('kind')}.open"
            )
        try:
            learner = Learner.of(stored.name, stored.id, body, seq, clock, found.warnings, compiles)
        except StateError as error:  # its seal is whole
            raise JournalError(f"{where}: {other_version(seq, body, error)}") from None
        except (OSError, MemoryError):
            raise
        except Exception as error:  # whatever nonsense stands there
            words = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            raise JournalError(f"{where}: event {seq} cannot be begun with: {words}") from None
        if at is None:
            learner.outbox.begin_at(store.last(stored.id)[1])
        else:
            learner.created, learner.pictured = at, -1
            learner.outbox.begin_at(at)
        return learner

    with prices_told_elsewhere():  # in the log
        made = journal_recovery.recover(store, stored, make, where, trust=trust)
    found.warnings += [*made.warnings, *made.stands]
    found.differences += len(made.stands)
    found.events += made.events
    learner: Learner = made.fold
    kind = learner.kind.name
    if learner.live.compiled:
        found.quickly.add(kind)
    else:
        found.slowly[kind] = found.slowly.get(kind, 0) + made.events
    learner.attach()
    return learner


def other_version(seq: int, body: dict[str, Any], error: StateError) -> str:
    """Return the words for a state that was stored whole, and that this version cannot read."""
    package = body.get("package", "unknown")
    return (
        f"event {seq} was written by version {package:.20} with a state that this one, {__version__}, does not read: "
        f"{error}"
    )


def read_again(store: Store, learner: Learner, *, trust: bool, clock: Clock) -> tuple[Learner, list[str]]:
    """Return a learner as its events make it, in place of an object that a failed step has left; and warnings."""
    (stored,) = [one for one in store.learners() if one.id == learner.id]
    found = Recovered()
    again = recover(store, stored, found, trust=trust, clock=clock)
    again.continue_counting(learner)
    try:
        other = journal_recovery.differences(learner.live.state(), again.live.state())
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
