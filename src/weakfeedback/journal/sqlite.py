"""The store of events in one SQLite file.

What keeps it whole:

* a transaction is either in the file or not (WAL); with ``sync`` it survives a loss of power;
* one process owns the file (``owner.py``); should two write all the same, the second one to use a number
  of an event fails;
* every event, snapshot and learner carries a checksum over all its columns; a missing event is a gap; events
  missing at the end are found by the number of the last one, noted at every snapshot and clean end.

Damage to the write-ahead log ends it there, as SQLite cannot tell it from a transaction that was being written
when the power went: the events before it remain. Damage to an index hides rows from ``end_of`` and ``by_key``
and is found by ``integrity``.
"""

import ctypes
import errno
import os
import secrets
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from weakfeedback._version import __version__
from weakfeedback.journal.events import (
    ENDS,
    LARGEST,
    Event,
    JournalError,
    OwnedElsewhere,
    Row,
    SecondEnd,
    SecondKey,
    StoreUnavailable,
    checksum,
    event_of,
    row_of,
    seal,
    unseal,
)
from weakfeedback.journal.owner import Owner, check_process
from weakfeedback.journal.places import network_file_system
from weakfeedback.journal.store import Floor, Learner, Snapshot
from weakfeedback.journal.turn import Turn

T = TypeVar("T")

SCHEMA = 1
MAGIC = b"SQLite format 3\0"  # how an SQLite file begins
KEPT_SNAPSHOTS = 3
_PAGE = 1000  # events read at once
_TABLES = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "learner": """CREATE TABLE learner (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, created BIGINT NOT NULL, archived BIGINT)""",
    "event": """CREATE TABLE event (
  learner INTEGER NOT NULL REFERENCES learner(id), seq BIGINT NOT NULL, at BIGINT NOT NULL,
  kind TEXT NOT NULL, decision BIGINT, key TEXT, body TEXT NOT NULL,
  PRIMARY KEY (learner, seq)) WITHOUT ROWID""",
    "event_end": """CREATE UNIQUE INDEX event_end ON event (learner, decision)
  WHERE kind IN ('feedback', 'cancel', 'expire')""",
    "event_key": "CREATE UNIQUE INDEX event_key ON event (learner, key) WHERE key IS NOT NULL",
    "snapshot": """CREATE TABLE snapshot (
  learner INTEGER NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL, package TEXT NOT NULL,
  body TEXT NOT NULL, checksum TEXT NOT NULL, PRIMARY KEY (learner, seq))""",
}
# as bytes: a damaged text is then an event that can be named, not an error of the driver
_COLUMNS = "learner, seq, at, CAST(kind AS BLOB), decision, CAST(key AS BLOB), CAST(body AS BLOB)"
_ENDED = "kind IN ('feedback', 'cancel', 'expire')"  # word for word as in the index
_OPENS = f"decision IS NOT NULL AND NOT {_ENDED} AND kind != 'tell'"


class SqliteStore:
    """Learners, their events and snapshots in the file ``path``. Make one with ``SqliteStore.open``.

    Every method may be called from any thread. Whatever the disk refuses is StoreUnavailable (an OSError), has
    changed nothing, and can be repeated. Whatever is found damaged is JournalError.

    >>> import tempfile
    >>> from weakfeedback.journal import Event, SqliteStore
    >>> with tempfile.TemporaryDirectory() as folder, SqliteStore.open(folder + "/runs.db") as store:
    ...     triage = store.create_learner("triage", at=0)
    ...     store.append([(triage, Event(0, 5, "decide", 1, None, {"stage": 2}))])
    ...     [event.body for event in store.events(triage)]
    [{'stage': 2}]
    """

    def __init__(self, file: Path, connection: sqlite3.Connection, owner: Owner | None):
        self.path = file
        self._connection: sqlite3.Connection | None = connection
        self._owner = owner
        self._pid = os.getpid()
        self._turn = Turn()
        self._synchronous = ""
        self._names: dict[int, str] = {}
        self._tails: dict[int, tuple[int, int]] = {}  # last seq and at of learners, if known
        self._file = _identity(file)
        _stores.add(self)

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, read_only: bool = False, create: bool = True
    ) -> "SqliteStore":
        """The store in ``path``, owned by this process until ``close``.

        Arguments:
            path: a file on a local disk; ``path.lock`` beside it is the lock, and stays.
            read_only: look only; needs no lock, so a store in use can be read.
            create: make the file if it is missing, readable by its owner alone.

        Raises:
            OwnedElsewhere: another process, or this one, has it open already, or had when this one was forked.
            JournalError: the file is not a store, damaged, of a later version, or on a network file system.
            FileNotFoundError: it does not exist and may not be made.
        """
        file = Path(os.path.realpath(path))
        owner, connection, store = None, None, None
        try:
            _look_at(file, must_exist=read_only or not create)
            if not read_only:
                _refuse_inherited(file)
                owner = Owner(file)
                if not file.exists():
                    _make(file)
            connection = _connect(file, read_only)
            store = cls(file, connection, owner)
            store._prepare(read_only, create)
        except BaseException as problem:
            if store is not None:
                _stores.discard(store)
            if connection is not None:
                connection.close()
            if owner is not None:
                owner.release()
            if isinstance(problem, sqlite3.Error):
                raise _translated(file, problem) from problem
            if isinstance(problem, OSError) and not isinstance(
                problem, (StoreUnavailable, FileNotFoundError)
            ):
                raise StoreUnavailable(
                    problem.errno, f"{file} cannot be opened: {problem.strerror}"
                ) from problem
            raise
        return store

    def close(self) -> None:
        """Write what is left of the log into the file, and let go of the lock. Closing twice is fine."""
        check_process(self._pid)
        self._turn.run(self._close)

    def _close(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            with suppress(sqlite3.Error, JournalError):  # nothing is lost without: it stays in the log
                if self._owner is not None:
                    self._transaction(self._note_heads)
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._connection = None
            connection.close()
            if self._owner is not None:
                self._owner.release()
            _stores.discard(self)

    def __enter__(self) -> "SqliteStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Learners

    def learners(self) -> list[Learner]:
        """All learners, in the order in which they were made."""
        return self._run(self._learners)

    def _learners(self) -> list[Learner]:
        found = []
        rows = self._all("SELECT id, CAST(name AS BLOB), created, archived FROM learner ORDER BY id")
        for id, name, created, archived in rows:
            name = name.decode(errors="replace") if isinstance(name, bytes) else ""
            if self._meta(f"learner:{id}") != checksum(id, name, created, archived):
                raise JournalError(f"{self.path}: learner {id}: the checksum of its name is wrong")
            found.append(Learner(id, name, created, archived))
        sums = self._one("SELECT count(*) FROM meta WHERE key LIKE 'learner:%'")[0]
        if sums != len(found):
            raise JournalError(
                f"{self.path} is damaged: there were {sums} learners, and {len(found)} are left"
            )
        self._names = {learner.id: learner.name for learner in found}
        return found

    def create_learner(self, name: str, at: int) -> int:
        """A new learner, whose number is returned; ValueError if the name is taken."""
        if not isinstance(name, str) or not name or "\0" in name:
            raise ValueError(f"name must be a text without NUL that is not empty, got {name!r}")
        name.encode()  # UnicodeEncodeError, a ValueError, for half of a character
        if type(at) is not int or not 0 <= at <= LARGEST:
            raise ValueError(f"at must be microseconds since 1970, got {at!r}")

        def insert() -> int:
            if self._all("SELECT id FROM learner WHERE name = ?", name):
                raise ValueError(f"{self.path} has a learner named {name!r} already")
            id = self._one("SELECT coalesce(max(id), 0) + 1 FROM learner")[0]
            self._all("INSERT INTO learner VALUES (?, ?, ?, NULL)", id, name, at)
            self._set_meta(f"learner:{id}", checksum(id, name, at, None))
            return id

        id = self._run(lambda: self._transaction(insert))
        self._names[id] = name
        return id

    def archive_learner(self, learner: int, at: int) -> None:
        """Note that ``learner`` takes no more decisions since ``at``."""

        def update() -> None:
            found = {one.id: one for one in self._learners()}[learner]
            self._all("UPDATE learner SET archived = ? WHERE id = ?", at, learner)
            self._set_meta(f"learner:{learner}", checksum(learner, found.name, found.created, at))

        self._run(lambda: self._transaction(update))

    # Events

    def append(self, rows: Sequence[tuple[int, Event]], *, sync: bool = True) -> None:
        """Store events, each with its learner's number, in one transaction: all or none.

        With ``sync`` they survive a loss of power, and so do all that were stored before; without it only the
        end of the process, until the next ``sync``.

        Raises:
            SecondEnd: the decision has ended.
            SecondKey: the key is taken.
            JournalError: ``seq`` is not the next one, or ``at`` lies before the last one.
        """
        self.write([row_of(learner, event) for learner, event in rows], sync=sync)

    def write(self, rows: Sequence[Row], *, sync: bool = True) -> None:
        """``append`` for rows that ``row_of`` has made."""

        def insert() -> dict[int, tuple[int, int]]:
            tails: dict[int, tuple[int, int]] = {}
            for learner, seq, at, *_ in rows:
                last, before = tails.get(learner) or self._tails.get(learner) or self._last(learner)
                if seq != last + 1 or at < before:
                    raise JournalError(
                        f"{self._about(learner, seq)} cannot follow event {last}"
                        + (f": its time {at} lies before {before}" if seq == last + 1 else "")
                    )
                tails[learner] = seq, at
            self._database.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            return tails

        def work() -> None:
            self._check_place()
            tails = self._transaction(insert, sync)
            self._tails.update(tails)

        try:
            self._run(work)
        except BaseException:
            self._tails = {}  # whether they were stored is not known here: ask again
            raise

    def sync(self) -> None:
        """Make everything stored so far survive a loss of power."""

        def count() -> None:  # SQLite writes nothing where nothing changes
            self._all(
                "INSERT INTO meta VALUES ('syncs', '1') ON CONFLICT (key) DO UPDATE SET value = value + 1"
            )

        def work() -> None:
            self._check_place()
            self._transaction(count)

        self._run(work)

    def events(self, learner: int, after: int = -1, limit: int | None = None) -> Iterator[Event]:
        """The events behind number ``after``, in order, each checked; JournalError names the first bad one."""
        first = self._run(lambda: self._floor(learner)).seq
        if after + 1 < first:
            raise JournalError(
                f"{self.path}: learner {self._name(learner)}: events before {first} were removed; begin there"
            )
        last, before = after, 0
        while limit is None or limit > 0:
            size = _PAGE if limit is None else min(_PAGE, limit)
            rows = self._run(
                lambda last=last, size=size: self._all(  # type: ignore[misc]
                    f"SELECT {_COLUMNS} FROM event WHERE learner = ? AND seq > ? ORDER BY seq LIMIT ?",
                    learner,
                    last,
                    size,
                )
            )
            for row in rows:
                if row[1] != last + 1:
                    raise JournalError(f"{self._about(learner, last + 1)} is missing")
                event = self._event(row)
                if event.at < before:
                    raise JournalError(f"{self._about(learner, event.seq)} lies before the one it follows")
                last, before = event.seq, event.at
                yield event
            if len(rows) < size:
                return
            if limit is not None:
                limit -= size

    def last(self, learner: int) -> tuple[int, int]:
        """``seq`` and ``at`` of the last event; (-1, 0) if there is none."""
        return self._run(lambda: self._last(learner))

    def _last(self, learner: int) -> tuple[int, int]:
        rows = self._all("SELECT seq, at FROM event WHERE learner = ? ORDER BY seq DESC LIMIT 1", learner)
        if not rows:
            return -1, 0
        seq, at = rows[0]
        if type(seq) is not int or type(at) is not int:
            raise JournalError(f"{self._about(learner, seq)}: a number is not an integer")
        return seq, at

    def end_of(self, learner: int, decision: int) -> Event | None:
        """The feedback, cancellation or expiry of ``decision``."""
        event = self._first(f"learner = ? AND decision = ? AND {_ENDED}", learner, decision)
        if event is not None and (event.decision != decision or event.kind not in ENDS):
            raise JournalError(f"{self._about(learner, event.seq)} stands in the index in a wrong place")
        return event

    def by_key(self, learner: int, key: str) -> Event | None:
        """The event with this ``key``."""
        event = self._first("learner = ? AND key = ?", learner, key)
        if event is not None and event.key != key:
            raise JournalError(f"{self._about(learner, event.seq)} stands in the index in a wrong place")
        return event

    def decided(self, learner: int, decision: int) -> Event | None:
        """The event that opened ``decision``: the first one that names it, if that is not its end.

        It is found by bisection, as decisions are numbered in the order in which they are made; a number that
        is not found so is looked for everywhere.
        """

        def bisect() -> Event | None:
            low, high = self._floor(learner).seq, self._last(learner)[0] + 1
            while low < high:
                middle = (low + high) // 2
                found = self._all(
                    f"SELECT {_COLUMNS} FROM event WHERE learner = ? AND seq >= ? AND seq < ? AND {_OPENS} "
                    "ORDER BY seq LIMIT 1",
                    learner,
                    middle,
                    high,
                )
                event = self._event(found[0]) if found else None
                if event is None or event.decision is None or event.decision > decision:
                    high = middle
                elif event.decision < decision:
                    low = event.seq + 1
                else:
                    return event
            return None

        return self._run(bisect) or self._first(
            f"learner = ? AND decision = ? AND {_OPENS}", learner, decision
        )

    def _first(self, where: str, *values: object) -> Event | None:
        rows = self._run(
            lambda: self._all(f"SELECT {_COLUMNS} FROM event WHERE {where} ORDER BY seq LIMIT 1", *values)
        )
        return self._event(rows[0]) if rows else None

    def _event(self, row: Sequence[Any]) -> Event:
        try:
            return event_of(row)
        except JournalError as problem:
            raise JournalError(f"{self._about(row[0], row[1])}: {problem}") from None

    # Snapshots

    def add_snapshot(self, learner: int, seq: int, at: int, body: dict[str, Any]) -> None:
        """Keep the state after event ``seq``, and drop all but the newest three."""
        text = seal(body, learner, seq, at, __version__)
        digest = sha256(text.encode()).hexdigest()

        def insert() -> None:
            if not 0 <= seq <= self._last(learner)[0]:
                raise ValueError(
                    f"there is no event {seq} of learner {self._name(learner)} to take a snapshot of"
                )
            self._all(
                "INSERT OR REPLACE INTO snapshot VALUES (?, ?, ?, ?, ?, ?)",
                learner,
                seq,
                at,
                __version__,
                text,
                digest,
            )
            self._all(
                "DELETE FROM snapshot WHERE learner = ? AND seq NOT IN "
                "(SELECT seq FROM snapshot WHERE learner = ? ORDER BY seq DESC LIMIT ?)",
                learner,
                learner,
                KEPT_SNAPSHOTS,
            )
            self._note_heads()

        def work() -> None:
            self._check_place()
            self._transaction(insert)

        self._run(work)

    def snapshots(self, learner: int, damaged: list[str] | None = None) -> Iterator[Snapshot]:
        """The kept snapshots, newest first, one read at a time.

        Damaged ones are left out; a line about each is added to ``damaged``.
        """

        def numbers() -> list[tuple[int]]:
            return self._all("SELECT seq FROM snapshot WHERE learner = ? ORDER BY seq DESC", learner)

        for (seq,) in self._run(numbers):
            try:
                snapshot = self._snapshot(learner, seq)
            except JournalError as problem:
                if damaged is not None and (seq,) in self._run(numbers):  # or a newer one has taken its place
                    damaged.append(str(problem))
            else:
                yield snapshot

    def _snapshot(self, learner: int, seq: int) -> Snapshot:
        rows = self._run(
            lambda: self._all(
                "SELECT seq, at, CAST(package AS BLOB), CAST(body AS BLOB), CAST(checksum AS BLOB) FROM snapshot "
                "WHERE learner = ? AND seq = ?",
                learner,
                seq,
            )
        )
        about = f"{self.path}: learner {self._name(learner)}: snapshot {seq}"
        if len(rows) != 1:
            raise JournalError(f"{about} cannot be found")
        seq, at, package, text, digest = rows[0]
        if not isinstance(text, bytes) or sha256(text).hexdigest().encode() != digest:
            raise JournalError(f"{about}: the checksum is wrong")
        try:
            package = package.decode() if isinstance(package, bytes) else ""
            return Snapshot(seq, at, package, unseal(text.decode(), learner, seq, at, package))
        except JournalError as problem:
            raise JournalError(f"{about}: {problem}") from None
        except UnicodeDecodeError:
            raise JournalError(f"{about}: a text is not UTF-8") from None

    # Compaction and checks

    def compact(self, learner: int, before_at: int) -> int:
        """Remove the events older than the oldest snapshot and than ``before_at``; return how many.

        The event of that snapshot stays, so that there is always a last one. What a later reader must know of
        the removed ones is in ``floor``. The file does not shrink: new events use the room.
        """
        damaged: list[str] = []
        oldest = None
        for snapshot in self.snapshots(learner, damaged):
            oldest = snapshot.seq
        if damaged:
            raise JournalError(f"nothing was removed, as a snapshot is damaged: {damaged[0]}")
        if oldest is None:
            return 0

        def remove() -> int:
            late = self._all(
                "SELECT seq FROM event WHERE learner = ? AND seq < ? AND at >= ? ORDER BY seq LIMIT 1",
                learner,
                oldest,
                before_at,
            )
            first = late[0][0] if late else oldest
            floor = self._floor(learner)
            if first <= floor.seq:
                return 0
            highest = self._one(
                "SELECT max(decision) FROM event WHERE learner = ? AND seq < ?", learner, first
            )[0]
            if highest is None or (floor.decision is not None and floor.decision > highest):
                highest = floor.decision
            self._all("DELETE FROM event WHERE learner = ? AND seq < ?", learner, first)
            body = {"seq": first, "decision": highest}
            self._set_meta(f"floor:{learner}", seal(body, "floor", learner))
            return first - floor.seq

        return self._run(lambda: self._transaction(remove))

    def floor(self, learner: int) -> Floor:
        """The first event that is kept, and the highest decision that is forgotten unless it is found."""
        return self._run(lambda: self._floor(learner))

    def _floor(self, learner: int) -> Floor:
        text = self._meta(f"floor:{learner}")
        if text is None:
            return Floor(0, None)
        try:
            body = unseal(text, "floor", learner)
        except JournalError as problem:
            raise JournalError(
                f"{self.path}: learner {self._name(learner)}: what was removed is not known: {problem}"
            ) from None
        return Floor(body["seq"], body["decision"])

    def integrity(self) -> list[str]:
        """Read everything and check everything; one line about each thing that is wrong."""

        def look() -> list[str]:
            problems = [f"{self.path}: {row[0]}" for row in self._all("PRAGMA integrity_check(20)")]
            problems = [line for line in problems if not line.endswith(": ok")]
            if self._all("PRAGMA foreign_key_check") or self._all(
                "SELECT 1 FROM snapshot WHERE learner NOT IN (SELECT id FROM learner) LIMIT 1"
            ):
                problems.append(f"{self.path}: there are rows of learners that do not exist")
            return problems

        problems = []
        try:
            problems += self._run(look)
            self._run(self._check_ends)
            for learner in self.learners():
                try:
                    for _ in self.events(learner.id, self.floor(learner.id).seq - 1):
                        pass
                except JournalError as problem:
                    problems.append(str(problem))
                for _ in self.snapshots(learner.id, problems):
                    pass
        except JournalError as problem:
            problems.append(str(problem))
        return problems

    def _check_ends(self) -> None:
        """The first and the last event of every learner must be those that are known."""
        for learner in self._learners():
            about = f"{self.path}: learner {learner.name}"
            head = self._meta(f"head:{learner.id}")
            last, _ = self._last(learner.id)
            if head is not None and not (head.isdecimal() and int(head) <= last):
                raise JournalError(f"{about}: events behind {last} are missing: there were {head} at least")
            first = self._one("SELECT min(seq) FROM event WHERE learner = ?", learner.id)[0]
            floor = self._floor(learner.id).seq
            if first is not None and first != floor:
                raise JournalError(f"{about}: the first event is {first} and should be {floor}")

    def _note_heads(self) -> None:
        for (learner,) in self._all("SELECT id FROM learner"):
            last, _ = self._last(learner)
            if last >= 0:
                self._set_meta(f"head:{learner}", str(last))

    # The connection

    @property
    def _database(self) -> sqlite3.Connection:
        if self._connection is None:
            raise ValueError(f"{self.path} is closed")
        return self._connection

    def _run(self, work: Callable[[], T]) -> T:
        """The result of ``work()``, by one thread at a time, with the errors of this package."""
        check_process(self._pid)
        try:
            return self._turn.run(work)
        except sqlite3.Error as problem:
            raise _translated(self.path, problem) from problem

    def _transaction(self, work: Callable[[], T], sync: bool = True) -> T:
        """All that ``work`` does, or nothing of it."""
        database = self._database
        if database.in_transaction:  # an exception came in the middle of undoing the last one
            database.execute("ROLLBACK")
        level = "FULL" if sync else "NORMAL"
        if self._synchronous != level:
            self._synchronous = ""
            database.execute(f"PRAGMA synchronous={level}")
            self._synchronous = level
        try:
            database.execute("BEGIN IMMEDIATE")
            result = work()
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                with suppress(sqlite3.Error):
                    database.execute("ROLLBACK")
            raise
        return result

    def _all(self, command: str, *values: object) -> list[Any]:
        return self._database.execute(command, values).fetchall()

    def _one(self, command: str, *values: object) -> Any:
        rows = self._all(command, *values)
        if not rows:
            raise JournalError(f"{self.path} has no such row: {command} {values}")
        return rows[0]

    def _meta(self, key: str) -> str | None:
        rows = self._all("SELECT CAST(value AS BLOB) FROM meta WHERE key = ?", key)
        if not rows:
            return None
        return rows[0][0].decode(errors="replace") if isinstance(rows[0][0], bytes) else ""

    def _set_meta(self, key: str, value: str) -> None:
        self._all(
            "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            key,
            value,
        )

    def _name(self, learner: int) -> str:
        return self._names.get(learner, str(learner))

    def _about(self, learner: int, seq: int) -> str:
        return f"{self.path}: learner {self._name(learner)}: event {seq}"

    def _check_place(self) -> None:
        """A file that was removed or replaced would take all that is written with it."""
        if _identity(self.path) != self._file:
            raise StoreUnavailable(errno.ENOENT, f"{self.path} was removed or replaced while it was in use")

    def _prepare(self, read_only: bool, create: bool) -> None:
        database = self._database
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "foreign_keys=ON"):
            database.execute(f"PRAGMA {pragma}")
        if read_only:
            database.execute("PRAGMA query_only=ON")
        empty = not _check_schema(self.path, database)
        if empty and (read_only or not create):
            raise JournalError(f"{self.path} is empty: it holds no store")
        if not read_only:
            mode = self._one("PRAGMA journal_mode=WAL")[0]
            if mode != "wal":
                raise StoreUnavailable(errno.ENOTSUP, f"{self.path} cannot have a write-ahead log there")
            for pragma in (f"journal_size_limit={64 * 2**20}", "fullfsync=ON", "checkpoint_fullfsync=ON"):
                database.execute(f"PRAGMA {pragma}").fetchall()
            if empty:
                self._transaction(self._create_tables)
            elif self._meta("package") != __version__:
                self._transaction(lambda: self._set_meta("package", __version__))
        self._check_ends()

    def _create_tables(self) -> None:
        for command in _TABLES.values():
            self._all(command)
        self._set_meta("schema", str(SCHEMA))
        self._set_meta("store", secrets.token_hex(16))
        self._set_meta("package", __version__)


def start_of(path: str | os.PathLike[str]) -> bytes:
    """The first bytes of a file, as many as `MAGIC` has. One that this process has open as a store is not touched.

    To close a file lets go of all locks that the process has on it, those of SQLite among them. The next program that
    reads the store would then take itself for the last one and remove the log into which this process still writes.
    """
    place = _identity(Path(path))
    if place is not None and any(store._file == place for store in list(_stores)):
        return MAGIC
    with open(path, "rb") as stream:
        return stream.read(len(MAGIC))


def _look_at(file: Path, must_exist: bool) -> None:
    """Refuse what is not a store without touching it."""
    system = network_file_system(file)
    if system is not None:
        raise JournalError(f"{file} lies on a network file system ({system}), where locks cannot be trusted")
    try:
        start, names = start_of(file), os.stat(file).st_nlink
    except FileNotFoundError:
        if must_exist:
            raise FileNotFoundError(errno.ENOENT, "there is no store", str(file)) from None
        return
    if start and start != MAGIC:
        raise JournalError(f"{file} is not a store: it is not an SQLite file")
    if names > 1:
        raise JournalError(
            f"{file} has {names} names (hard links): a store must have one, or its log is lost"
        )


def _make(file: Path) -> None:
    os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if os.name != "nt":  # a folder cannot be opened there
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _connect(file: Path, read_only: bool) -> sqlite3.Connection:
    def connect(options: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{file.as_uri()}?{options}", uri=True, isolation_level=None, check_same_thread=False, timeout=5.0
        )

    if not read_only:
        return connect("mode=rw")
    connection = connect("mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except sqlite3.OperationalError:
        log = file.with_name(file.name + "-wal")
        if log.exists() and log.stat().st_size > 0:
            connection.close()
            raise
    except sqlite3.Error:
        connection.close()
        raise
    else:
        return connection
    connection.close()
    return connect("mode=ro&immutable=1")  # a folder that cannot be written, and no log: nobody writes


def _check_schema(file: Path, database: sqlite3.Connection) -> bool:
    """False for an empty file, True for a store; JournalError for anything else."""
    found = dict(
        database.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite^_%' ESCAPE '^'")
    )
    if not found:
        return False
    schema = None
    if "meta" in found:
        with suppress(sqlite3.OperationalError):
            schema = dict(database.execute("SELECT key, value FROM meta WHERE key IN ('schema', 'store')"))
    if not schema or "schema" not in schema or "store" not in schema:
        raise JournalError(f"{file} is not a store: it is an SQLite file of another program")
    number = str(schema["schema"])
    if number.isdecimal() and int(number) > SCHEMA:
        raise JournalError(
            f"{file} was written by a later version (its schema is {number[:20]}, this version reads {SCHEMA})"
        )
    if number != str(SCHEMA) or found != _TABLES:
        raise JournalError(f"{file} is damaged: its tables are not those of a store")
    return True


def _identity(file: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(file)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


_DISK = {
    sqlite3.SQLITE_FULL: (errno.ENOSPC, "the disk is full"),
    sqlite3.SQLITE_IOERR: (errno.EIO, "the disk cannot be read or written"),
    sqlite3.SQLITE_BUSY: (errno.EBUSY, "another program is writing to it"),
    sqlite3.SQLITE_LOCKED: (errno.EBUSY, "it is locked"),
    sqlite3.SQLITE_READONLY: (errno.EROFS, "it cannot be written"),
    sqlite3.SQLITE_CANTOPEN: (errno.EACCES, "it cannot be opened"),
    sqlite3.SQLITE_PERM: (errno.EACCES, "access is denied"),
    sqlite3.SQLITE_AUTH: (errno.EACCES, "access is denied"),
    sqlite3.SQLITE_NOMEM: (errno.ENOMEM, "there is not enough memory"),
    sqlite3.SQLITE_PROTOCOL: (errno.EBUSY, "it is locked"),
}


def _translated(file: Path, problem: sqlite3.Error) -> Exception:
    """The error of this package for one of SQLite."""
    code = getattr(problem, "sqlite_errorcode", None)
    text = " ".join(str(problem).split())
    if isinstance(problem, sqlite3.IntegrityError):
        if "event.decision" in text or "event_end" in text:
            return SecondEnd(f"{file}: a decision that has ended cannot end again")
        if "event.key" in text or "event_key" in text:
            return SecondKey(f"{file}: the key of an event is taken")
        if "event.seq" in text:
            return JournalError(
                f"{file}: an event of this number is there: another process writes to the store"
            )
        if "FOREIGN KEY" in text:
            return JournalError(f"{file}: there is no such learner")
    if code is not None and code & 0xFF in _DISK:
        number, words = _DISK[code & 0xFF]
        return StoreUnavailable(number, f"{file}: {words} ({text})")
    return JournalError(f"{file} is damaged: {text}")


def _refuse_inherited(file: Path) -> None:
    """Refuse a file that was open when this process was forked.

    SQLite would take the locks of the parent for its own and set none. Any other program that reads the store would
    then remove the log into which this process writes.
    """
    if _identity(file) in _inherited:
        raise OwnedElsewhere(
            f"{file} was in use when process {os.getpid()} was forked, which can therefore not own it: "
            "open it in a process that was started anew"
        )


_inherited: set[tuple[int, int] | None] = set()  # files that were open when this process was forked
_stores: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()


def _never_close_in_the_child() -> None:
    """Keep the parent's connections for ever: SQLite must not be used after a fork, not even to close.

    The last connection to close removes the write-ahead log by its name. A child that ends late would so remove
    the log that a later owner left when it was killed, with all that is in it.
    """
    for store in list(_stores):
        if store._connection is not None:
            _inherited.add(store._file)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(store._connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_never_close_in_the_child)
