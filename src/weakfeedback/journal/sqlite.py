"""The store of events in one SQLite file.

What keeps it consistent:

* a transaction is either in the file or not (WAL); with ``sync`` it survives a loss of power;
* one process owns the file (``owner.py``); if two write nevertheless, the second one to use an event number
  fails;
* every event, snapshot and learner has a checksum over all its columns; a missing event leaves a gap; events
  missing at the end are detected by the number of the last one, recorded at every snapshot and clean close.

The write-ahead log is read only up to the first damage, because SQLite cannot tell damage from a transaction that
was being written when the power failed: the events before it remain. Damage to an index hides rows from ``end_of``,
``by_key`` and ``decided``; ``integrity`` detects it.
"""

import ctypes
import errno
import functools
import os
import sqlite3
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from weakfeedback._version import __version__
from weakfeedback.journal.events import JournalError, OwnedElsewhere, Row, StoreDamaged, StoreUnavailable
from weakfeedback.journal.owner import Owner
from weakfeedback.journal.sql import SqlStore, Tails, check_schema, no_learner, refused

T = TypeVar("T")

CREATING = "creating"  # the mark while a store is made
MAGIC = b"SQLite format 3\0"  # the first bytes of an SQLite file
# file systems on which a store must not lie: their locks and fsync are not reliable between machines, or not always
NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "beegfs", "gpfs"}
    | {"ocfs2", "gfs2", "coda", "ncpfs", "davfs"}
    | {"fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs2"}
)
_AT_ONCE = 128  # rows per statement; old versions allow 999 values
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
    # the primary key supplies the other columns; if "learner" were named, the planner would scan a learner's events
    "event_open": "CREATE INDEX event_open ON event (decision) WHERE kind IN ('decide', 'begin')",
    "snapshot": """CREATE TABLE snapshot (
  learner INTEGER NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL, package TEXT NOT NULL,
  body TEXT NOT NULL, checksum TEXT NOT NULL, PRIMARY KEY (learner, seq))""",
}


class SqliteStore(SqlStore):
    """Learners, their events and snapshots in the file ``path``. Make one with ``SqliteStore.open``.

    >>> import tempfile
    >>> from weakfeedback.journal import Event, SqliteStore
    >>> with tempfile.TemporaryDirectory() as folder, SqliteStore.open(folder + "/runs.db") as store:
    ...     triage = store.create_learner("triage", at=0)
    ...     store.append([(triage, Event(0, 5, "decide", 1, None, {"stage": 2}))])
    ...     [event.body for event in store.events(triage)]
    [{'stage': 2}]
    """

    text = "CAST({} AS BLOB)"
    errors = sqlite3.Error

    def __init__(
        self, file: Path, connection: sqlite3.Connection, owner: Owner | None, lenient: bool = False
    ):
        super().__init__(str(file), lenient)
        self.path = file
        self._connection: sqlite3.Connection | None = connection
        self._owner = owner
        self._synchronous = ""
        self._file, self._log_path = _identity(file), str(_log_of(file))
        self._log: tuple[int, int] | None = None  # the write-ahead log, if this process writes to it
        self._total = self._synced = 0  # events, and those that survive a loss of power
        self._own_name = ""  # its identity, if this process owns it
        self._surprise: str | None = None
        self._moved = False
        _stores.add(self)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        create: bool = True,
        lenient: bool = False,
    ) -> "SqliteStore":
        """Open the store in ``path``, a file on a local disk, as `open_store` does.

        ``path.lock`` beside it is the lock file, which is never removed. A new file is readable only by its owner.
        A file is also refused that is on a network file system, or was open when this process was forked.
        """
        file = Path(os.path.realpath(path))
        owner, connection, store = None, None, None
        try:
            _look_at(file, must_exist=read_only or not create)
            if not read_only:
                _refuse_inherited(file)
                owner = Owner(file)
                if not file.exists():
                    if not owner.mark:
                        owner.note(CREATING)
                        owner.mark = CREATING
                    _make(file)
            connection = _connect(file, read_only)
            store = cls(file, connection, owner, lenient)
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

    def _close(self) -> None:
        """Write the rest of the log into the file, and release the lock."""
        connection = self._connection
        if connection is None:
            return
        try:
            with suppress(sqlite3.Error, JournalError):  # nothing is lost if this fails: it stays in the log
                if self._owner is not None:
                    self._transaction(self._note_heads)
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                    self._note_written(0, True)
        finally:
            self._connection = None
            connection.close()
            if self._owner is not None:
                self._owner.release()
            _stores.discard(self)

    # The connection

    @property
    def _database(self) -> sqlite3.Connection:
        if self._connection is None:
            raise ValueError(f"{self.path}: the store is closed")
        return self._connection

    def _transaction(self, work: Callable[[], T], sync: bool = True) -> T:
        database = self._prepare_to_write(sync)
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

    def _prepare_to_write(self, sync: bool) -> sqlite3.Connection:
        database = self._database
        if database.in_transaction:  # an exception interrupted the previous rollback
            database.execute("ROLLBACK")
        level = "FULL" if sync else "NORMAL"
        if self._synchronous != level:
            self._synchronous = ""
            database.execute(f"PRAGMA synchronous={level}")
            self._synchronous = level
        return database

    def _all(self, command: str, *values: object) -> list[Any]:
        return self._database.execute(command, values).fetchall()

    def _insert(self, rows: Sequence[Row], check: Callable[[], Tails], sync: bool) -> Tails:
        def work() -> Tails:
            tails = check()
            self._put(rows)
            return tails

        if len(rows) > _AT_ONCE:
            return self._transaction(work, sync)
        self._prepare_to_write(sync)
        return work()  # a statement is a transaction: all or nothing

    def _put(self, rows: Sequence[Row]) -> None:
        """Store rows with few statements: after each statement other threads may hold the interpreter for a while."""
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            self._database.execute(_inserting(len(part)), [value for row in part for value in row])

    def _look(self) -> list[str]:
        found = [row[0] for row in self._all("PRAGMA integrity_check(20)")]
        return [f"{self.place}: {words}" for words in found if words != "ok"]

    def _translated(self, problem: Any) -> Exception:
        return _translated(self.path, problem)

    def _check_place(self) -> None:
        """Check that neither file was removed or replaced, which would lose everything written."""
        if _identity(self.place) != self._file:
            raise StoreUnavailable(errno.ENOENT, f"{self.path} was removed or replaced while it was in use")
        if self._log is not None and _identity(self._log_path) != self._log:
            raise StoreUnavailable(
                errno.ENOENT, f"{self._log_path} was removed or replaced while it was in use"
            )

    # What is kept outside of the store

    def _note_written(self, events: int, sync: bool) -> None:
        self._total += events
        if sync:
            self._synced = self._total
        if self._owner is not None and self._surprise is None:
            self._owner.note(f"store {self._own_name} {self._synced} {self._total} {_boot()}")

    def _compare_mark(self, mark: str) -> None:
        """Compare what is there with what the previous owner has noted."""
        self._own_name = self._meta("store") or ""
        self._total = self._synced = sum(last + 1 for _, _, last in self._ends())
        known = _marked(mark)
        if known is not None:
            name, stored = known
            if name != self._own_name:
                self._surprise = f"{self.path} is another store than the one that was in use here"
            elif stored > self._total + self._lost_of_those_apart():
                self._surprise = (
                    f"{self.path} holds {self._total} events, and {stored} were stored here: its log "
                    f"{_log_of(self.path).name} was removed, or an older copy was put in its place"
                )
        self._note_written(0, True)
        place = self._meta("file")
        if place is None:
            self._transaction(self._set_place)
        self._moved = place is not None and place != self._inode()

    def _inode(self) -> str:
        return str(self._file[1]) if self._file is not None else ""

    def _set_place(self) -> None:
        self._set_meta("file", self._inode())

    def surprise(self) -> str | None:
        """Return one line if less is there than was stored here, or another store; None if all is well."""
        return self._surprise

    def is_moved(self) -> bool:
        """Whether this is a copy, told from the number of its file."""
        return self._moved

    def accept(self) -> None:
        """Go on with what is there, whatever `surprise` and `is_moved` have said."""

        def work() -> None:
            self._transaction(self._set_place)
            self._surprise, self._moved = None, False
            self._note_written(0, True)

        self._run(work)

    def _prepare(self, read_only: bool, create: bool) -> None:
        database = self._database
        for pragma in ("trusted_schema=OFF", "cell_size_check=ON", "foreign_keys=ON"):
            database.execute(f"PRAGMA {pragma}")
        if read_only:
            database.execute("PRAGMA query_only=ON")
        empty = not _check_schema(self.path, database)
        if empty and (read_only or not create):
            raise JournalError(f"{self.path} is empty: it holds no store")
        mark, known = ("", "") if self._owner is None else (self._owner.mark, self._owner.previous)
        if empty and mark != CREATING and (mark or (known and self.path.stat().st_size > 0)):
            name = self.path.name
            raise JournalError(
                f"{self.path} holds no tables: its log {name}-wal is missing, or it was put there. It is not a new "
                f"store: for one, remove {name} and {name}.lock"
            )
        if not read_only:
            mode = self._one("PRAGMA journal_mode=WAL")[0]
            if mode != "wal":
                raise StoreUnavailable(errno.ENOTSUP, f"{self.path} cannot have a write-ahead log there")
            for pragma in (f"journal_size_limit={64 * 2**20}", "fullfsync=ON", "checkpoint_fullfsync=ON"):
                database.execute(f"PRAGMA {pragma}").fetchall()
            if empty:
                self._transaction(lambda: self._create(_TABLES.values()))
            else:
                if not self._all("SELECT 1 FROM sqlite_master WHERE name = 'event_open'"):  # an old store
                    self._copy_checked()
                    self._transaction(lambda: self._all(_TABLES["event_open"]))
                self._note_package()
        self._check_ends()
        if not read_only:
            self._log = _identity(_log_of(self.path))
            self._compare_mark(mark)

    def _copy_checked(self) -> None:
        """Copy a store of an earlier version before its tables are changed, and read all of the copy."""
        copy = self.path.with_name(f"{self.path.name}.before-{__version__}")
        copy.unlink(missing_ok=True)
        self._all("VACUUM INTO ?", str(copy))
        os.chmod(copy, 0o600)
        with SqliteStore.open(copy, read_only=True) as store:
            problems = store.integrity()
        if problems:
            raise JournalError(
                f"{self.path} is of an earlier version, and stays as it is, for its copy is not sound: {problems[0]}"
            )


def _log_of(file: Path) -> Path:
    return file.with_name(file.name + "-wal")


@functools.cache
def _boot() -> str:
    """Return what identifies the run of the kernel: what was not synced may be gone after the next one began."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    return "-"


def _marked(mark: str) -> tuple[str, int] | None:
    """Return the store of a mark, and how many events it must hold; None if that is not known."""
    parts = mark.split()
    if len(parts) != 5 or parts[0] != "store" or not (parts[2] + parts[3]).isdecimal():
        return None
    same = parts[4] == _boot() != "-"
    return parts[1], int(parts[3] if same else parts[2])


@functools.cache
def _inserting(rows: int) -> str:
    return "INSERT INTO event VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?, ?)"] * rows)


def start_of(path: str | os.PathLike[str]) -> bytes:
    """Return the first bytes of a file, as many as `MAGIC` has. A file open as a store in this process is not touched.

    Closing a file releases all locks that the process has on it, including those of SQLite. The next program that
    reads the store would then believe that it is the last user, and remove the log that this process still writes to.
    """
    place = _identity(Path(path))
    if place is not None and any(store._file == place for store in list(_stores)):
        return MAGIC
    with open(path, "rb") as stream:
        return stream.read(len(MAGIC))


def network_file_system(path: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Return the type of the network file system that holds ``path``; None if it is not known to be one."""
    try:
        lines = os.fsdecode(mounts.read_bytes()).splitlines()
    except OSError:
        return None
    best, kind = -1, ""
    for line in lines:
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = Path(_unescaped(words[1]))
        if path.is_relative_to(point) and len(point.parts) >= best:  # a later mount hides an earlier one
            best, kind = len(point.parts), words[2]
    return kind if kind in NETWORK else None


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text


def _look_at(file: Path, must_exist: bool) -> None:
    """Reject a file that is not a store without touching it."""
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
    if os.name != "nt":  # Windows cannot open a folder
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _connect(file: Path, read_only: bool) -> sqlite3.Connection:
    def connect(options: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{file.as_uri()}?{options}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=5.0,
            cached_statements=2 * _AT_ONCE,
        )

    if not read_only:
        return connect("mode=rw")
    connection = connect("mode=ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchall()
    except sqlite3.OperationalError:
        log = _log_of(file)
        if log.exists() and log.stat().st_size > 0:
            connection.close()
            raise
    except sqlite3.Error:
        connection.close()
        raise
    else:
        return connection
    connection.close()
    return connect("mode=ro&immutable=1")  # a read-only folder without a log: nobody writes


def _check_schema(file: Path, database: sqlite3.Connection) -> bool:
    """Return False for an empty file, True for a store; JournalError for anything else."""
    found = dict(
        database.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite^_%' ESCAPE '^'")
    )
    if not found:
        return False
    known = None
    if "meta" in found:
        with suppress(sqlite3.OperationalError):
            known = dict(database.execute("SELECT key, value FROM meta WHERE key IN ('schema', 'store')"))
    check_schema(str(file), known, {"event_open": _TABLES["event_open"], **found} == _TABLES)
    return True


def _identity(file: str | Path) -> tuple[int, int] | None:
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


_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _translated(file: Path, problem: sqlite3.Error) -> Exception:
    """Return the package's error for an error of SQLite."""
    code = getattr(problem, "sqlite_errorcode", None)
    text = " ".join(str(problem).split())
    if isinstance(problem, sqlite3.IntegrityError):
        if "FOREIGN KEY" in text:
            return no_learner(str(file))
        if "event" in text:
            return refused(str(file), text)
    if code is not None and code & 0xFF in _DISK:
        number, words = _DISK[code & 0xFF]
        return StoreUnavailable(number, f"{file}: {words} ({text})")
    kind = StoreDamaged if code is not None and code & 0xFF in _CORRUPT else JournalError
    return kind(f"{file} is damaged: {text}")


def _refuse_inherited(file: Path) -> None:
    """Refuse a file that was open when this process was forked.

    SQLite would mistake the parent's locks for its own and set none. Any other program that reads the store would
    then remove the log that this process writes to.
    """
    if _identity(file) in _inherited:
        raise OwnedElsewhere(
            f"{file} was in use when process {os.getpid()} was forked, which can therefore not own it: "
            "open it in a process that was started anew"
        )


_inherited: set[tuple[int, int] | None] = set()  # files that were open when this process was forked
_stores: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()


def _never_close_in_the_child() -> None:
    """Keep the parent's connections forever: SQLite must not be used after a fork, not even to close.

    The last connection to close removes the write-ahead log by its name. A child that ends late would thus remove
    the log that a later owner left when it was killed, with everything in it.
    """
    for store in list(_stores):
        if store._connection is not None:
            _inherited.add(store._file)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(store._connection))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_never_close_in_the_child)
