"""Shards of a store in PostgreSQL: several sessions share the store, and each learner belongs to one of them.

A learner belongs to the shard that its name tells. A session owns a shard as another owns a whole store: by an advisory
lock, and by an epoch that every new owner raises and every transaction checks. Each session also holds a lock of its
own, by which the others know that it lives, and counts a beat, by which they know that it is not stuck. PostgreSQL
holds all of this: when a session ends, however it ends, its shards are free.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from weakfeedback.journal.events import JournalError

if TYPE_CHECKING:
    from weakfeedback.journal.postgres import PostgresStore

SHARDS = 16
_TABLES = (
    "CREATE TABLE IF NOT EXISTS instance (id BIGINT PRIMARY KEY, address TEXT NOT NULL, beat BIGINT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS shard (number BIGINT PRIMARY KEY, epoch BIGINT NOT NULL, instance BIGINT)",
    f"INSERT INTO shard SELECT number, 0 FROM generate_series(0, {SHARDS - 1}) AS number ON CONFLICT DO NOTHING",
)
_MINE = (
    "SELECT number FROM shard JOIN unnest(%b::bigint[], %b::bigint[]) AS held (shard, since) "
    "ON number = held.shard AND epoch = held.since FOR SHARE OF shard"
)
_BATCH = f"""WITH mine AS ({_MINE})
INSERT INTO event SELECT new.* FROM unnest(
  %b::bigint[], %b::bigint[], %b::bigint[], %b::text[], %b::bigint[], %b::text[], %b::text[]) AS new
WHERE (SELECT count(*) FROM mine) = %s"""
_HOLDERS = (
    "FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND mode = 'ExclusiveLock' "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
_LOCKS = f"SELECT (classid::bigint << 32) | objid::bigint {_HOLDERS}"
_BURY = (
    "DELETE FROM instance WHERE id IN "
    f"(SELECT id FROM instance WHERE id NOT IN ({_LOCKS}) FOR UPDATE SKIP LOCKED)"
)
_END = f"SELECT pg_terminate_backend(pid, 1000) {_HOLDERS} AND (classid::bigint << 32) | objid::bigint = ?"


def shard_of(name: str) -> int:
    """Return the shard of the learner of this name."""
    return crc32(name.encode()) % SHARDS


def sign() -> int:
    """Return the number of the lock of a new session."""
    return secrets.randbits(62)


def forget(store: PostgresStore) -> None:
    """End the epochs of all shards; within the transaction by which a session begins to own the whole store."""
    if store._all("SELECT to_regclass('shard') IS NOT NULL")[0][0]:
        store._all("UPDATE shard SET epoch = epoch + 1, instance = NULL")


@dataclass(frozen=True, slots=True)
class Member:
    """A session that shares the store: where its process is reached ("" if it is leaving), its beat and its shards."""

    id: int
    address: str
    beat: int
    shards: tuple[int, ...]


class Shards:
    """The shards that the session of ``store`` owns, and the sessions that own the others."""

    def __init__(self, store: PostgresStore, me: int, address: str) -> None:
        self._store, self.me, self.address = store, me, address
        self.held: dict[int, int] = {}  # the epoch of each shard that is owned

        def enter() -> None:
            for command in _TABLES:
                store._all(command)
            if store._all("SELECT count(*) FROM shard")[0][0] != SHARDS:
                raise JournalError(f"{store.place} has another number of shards than {SHARDS}")
            store._all("INSERT INTO instance VALUES (?, ?, 0)", me, address)

        store._run(lambda: store._committed(enter))

    def look(self) -> list[Member]:
        """Count a beat, and return all who share the store, this one too."""
        store = self._store

        def work() -> list[Member]:
            beat = "UPDATE instance SET beat = beat + 1, address = ? WHERE id = ? RETURNING beat"
            if not store._all(beat, self.address, self.me):
                raise store._lose("others have found it silent")
            store._all(_BURY)  # never waits for a session that was stopped while it did the same
            owners: dict[int, list[int]] = {}
            for number, owner in store._all(
                "SELECT number, instance FROM shard WHERE instance IS NOT NULL ORDER BY 1"
            ):
                owners.setdefault(owner, []).append(number)
            rows = store._all("SELECT id, address, beat FROM instance ORDER BY id")
            return [
                Member(id, address.decode(), beat, tuple(owners.get(id, ()))) for id, address, beat in rows
            ]

        return store._run(lambda: store._committed(work, sync=False))

    def end(self, member: int) -> None:
        """End the session of a member that is silent: what it has not committed by then is never committed."""

        self._store._run(lambda: self._store._end_session(_END, member))
        self._store._run(lambda: self._store._all("DELETE FROM instance WHERE id = ?", member))

    def take(self, numbers: Iterable[int]) -> list[int]:
        """Take those of the shards that are free, each with a new epoch, and return them."""
        store = self._store

        def work() -> dict[int, int]:
            free = [
                number
                for number in numbers
                if number not in self.held
                and store._all("SELECT pg_try_advisory_lock(?)", self._lock(number))[0][0]
            ]
            raised = store._all(
                "UPDATE shard SET epoch = epoch + 1, instance = ? WHERE number = ANY(?) RETURNING number, epoch",
                self.me,
                free,
            )
            return dict(raised)

        taken = store._run(lambda: store._committed(work))
        self.held |= taken
        store._tails = {}  # others may have written since
        store.learners()  # and have created some
        return sorted(taken)

    def release(self, numbers: Sequence[int]) -> None:
        """Let others take shards; everything of theirs must be committed."""
        store = self._store

        def note() -> None:
            store._note_heads()
            store._all("UPDATE shard SET instance = NULL WHERE number = ANY(?)", list(numbers))

        def work() -> None:
            store._transaction(note)
            for number in numbers:
                self.held.pop(number, None)
                store._all("SELECT pg_advisory_unlock(?)", self._lock(number))
            store._tails = {}

        store._run(work)

    def _lock(self, number: int) -> int:
        return self._store._lock_of(f"shard {number}")

    # For transactions of the store

    def is_mine(self, learner: int) -> bool:
        """Whether a shard that is owned has this learner."""
        name = self._store._names.get(learner)
        return name is not None and shard_of(name) in self.held

    def are_mine(self) -> bool:
        """Whether all epochs are current; nobody can take a shard before the transaction ends."""
        columns = list(self.held), list(self.held.values())
        return len(self._store._database.execute(_MINE, columns).fetchall()) == len(self.held)

    def put(self, rows: Sequence[Any]) -> int:
        """Store rows if the epochs of their shards are current; return their number, or 0."""
        try:
            numbers = {shard_of(self._store._names[learner]) for learner in {row[0] for row in rows}}
            held = [self.held[number] for number in numbers]
        except KeyError:
            return 0
        columns = [list(column) for column in zip(*rows)]
        values = (list(numbers), held, *columns, len(held))
        return self._store._database.execute(_BATCH, values).rowcount
