"""The store of events in a schema of a PostgreSQL database.

What keeps it consistent, in addition to the checks that all stores have:

* one session writes, and the same session holds an advisory lock: a process that has lost the lock cannot write;
* the table ``owner`` counts the owners. A new owner raises ``epoch``. Every transaction first checks that its own
  epoch is current, and stores nothing if it is not;
* a batch of events is one statement, which waits for the disk unless it is told not to.

The session ends with its connection, and the ownership ends with the session: every later call raises OwnershipLost.
Discard what is in memory then, because another process may own the store by now; open the store and read it again.
"""

import errno
import logging
import os
import socket
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from weakfeedback._version import __version__
from weakfeedback.journal.events import JournalError, OwnershipLost, Row, StoreUnavailable
from weakfeedback.journal.session import (
    connect,
    line_of,
    lock_of,
    parsed,
    psycopg,
    refuse_pooler,
    schema_of,
    take,
    translated,
)
from weakfeedback.journal.shards import Shards, forget, sign
from weakfeedback.journal.sql import SqlStore, Tails, check_schema

TransactionStatus = psycopg.pq.TransactionStatus
T = TypeVar("T")
COPIED = ("meta", "learner", "event", "snapshot", "owner")

log = logging.getLogger("weakfeedback.journal")

_OPEN_INDEX = "CREATE INDEX event_open ON event (learner, decision, seq) WHERE kind IN ('decide', 'begin')"
# indexed texts use byte order: the order of a locale changes with the operating system
_TABLES = (
    'CREATE TABLE meta (key TEXT COLLATE "C" PRIMARY KEY, value TEXT NOT NULL)',
    """CREATE TABLE learner (id BIGINT PRIMARY KEY, name TEXT COLLATE "C" NOT NULL UNIQUE,
  created BIGINT NOT NULL, archived BIGINT)""",
    """CREATE TABLE event (
  learner BIGINT NOT NULL REFERENCES learner(id), seq BIGINT NOT NULL, at BIGINT NOT NULL,
  kind TEXT NOT NULL, decision BIGINT, key TEXT COLLATE "C", body TEXT NOT NULL,
  PRIMARY KEY (learner, seq))""",
    """CREATE UNIQUE INDEX event_end ON event (learner, decision)
  WHERE kind IN ('feedback', 'cancel', 'expire')""",
    "CREATE UNIQUE INDEX event_key ON event (learner, key) WHERE key IS NOT NULL",
    _OPEN_INDEX,
    """CREATE TABLE snapshot (
  learner BIGINT NOT NULL, seq BIGINT NOT NULL, at BIGINT NOT NULL, package TEXT NOT NULL,
  body TEXT NOT NULL, checksum TEXT NOT NULL, PRIMARY KEY (learner, seq))""",
    "CREATE TABLE owner (epoch BIGINT NOT NULL)",
    "INSERT INTO owner VALUES (0)",
)
_DESCRIBED = {
    "event": "learner bigint!, seq bigint!, at bigint!, kind text!, decision bigint, key text, body text!",
    "learner": "id bigint!, name text!, created bigint!, archived bigint",
    "meta": "key text!, value text!",
    "owner": "epoch bigint!",
    "snapshot": "learner bigint!, seq bigint!, at bigint!, package text!, body text!, checksum text!",
    "indexes": """event_end ON event USING btree (learner, decision) \
WHERE kind = ANY (ARRAY['feedback'::text, 'cancel'::text, 'expire'::text])
event_key ON event USING btree (learner, key) WHERE key IS NOT NULL
event_pkey ON event USING btree (learner, seq)
learner_name_key ON learner USING btree (name)
learner_pkey ON learner USING btree (id)
meta_pkey ON meta USING btree (key)
snapshot_pkey ON snapshot USING btree (learner, seq)""",
    "references": "FOREIGN KEY (learner) REFERENCES learner(id)",
    "triggers": "",
}
_BATCH = """WITH mine AS (SELECT epoch FROM owner WHERE epoch = %s FOR SHARE)
INSERT INTO event SELECT new.* FROM mine, unnest(
  %b::bigint[], %b::bigint[], %b::bigint[], %b::text[], %b::bigint[], %b::text[], %b::text[]) AS new"""

# planned once in a session, perhaps when there were no events: a plain join would then read all of them at every look,
# but what OFFSET sets apart is looked for key by key in the index
_BY_KEYS = """SELECT found.* FROM unnest(?::bigint[], ?::text[]) AS asked (number, name) CROSS JOIN LATERAL (
  SELECT * FROM event WHERE learner = number AND key = name COLLATE "C" OFFSET 0) AS found"""


class PostgresStore(SqlStore):
    """Learners, their events and snapshots in one schema of a database. Make one with ``PostgresStore.open``."""

    text = "{}"  # see _Bytes
    errors = psycopg.Error

    def __init__(
        self,
        place: str,
        connection: "psycopg.Connection[Any]",
        lock: int | None,
        again: "Callable[[], psycopg.Connection[Any]]",
        lenient: bool = False,
    ):
        super().__init__(place, lenient)
        self._again = again
        self._connection: psycopg.Connection[Any] | None = connection
        self._lock = lock  # None if the store is only read
        self._lost: str | None = None
        self._durable: bool | None = None
        self._commands: dict[str, str] = {}
        self.epoch = 0
        _stores.add(self)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        read_only: bool = False,
        create: bool = True,
        wait: bool = False,
        stop: Callable[[], bool] | None = None,
        shared: str | None = None,
        lenient: bool = False,
    ) -> "PostgresStore":
        """Open the store in the database at ``url``, as `open_store` does; its ownership ends with the session, too.

        The schema is the first one of the search path, which ``?options=-csearch_path%3Dteam`` sets. The password comes
        from the variable WEAKFEEDBACK_STORE_PASSWORD, or from a service or password file; never from the address. A
        store is also refused if its session is shared, as behind a transaction pooler. One that is ``shared`` owns the
        shards that it takes, none at first; see `Shards`.
        """
        options, place = parsed(url)
        connection = connect(options, place, read_only)
        store = None
        try:
            schema = schema_of(connection, place, create and not read_only)
            place = f"{place} (schema {schema})"
            lock = None if read_only else lock_of(schema)
            if lock is not None:
                take(connection, lock, place, wait, stop, shared is not None)
                me = lock if shared is None else sign()
                if shared is not None:
                    take(connection, me, place, False, None)
                    take(connection, lock_of(f"{schema} entry"), place, True, stop)  # one at a time
                refuse_pooler(connection, options, me, place)
            store = cls(place, connection, lock, lambda: connect(options, place, read_only), lenient)
            store._prepare(schema, create, None if shared is None else (me, shared))
            if shared is not None:
                connection.execute("SELECT pg_advisory_unlock(%s)", (lock_of(f"{schema} entry"),))
        except BaseException as problem:
            if store is not None:
                _stores.discard(store)
            connection.close()
            if isinstance(problem, psycopg.Error):
                raise translated(place, problem) from problem
            raise
        return store

    def _close(self) -> None:
        """Record the last event, release the lock and end the session."""
        connection = self._connection
        if connection is None:
            return
        try:
            with suppress(psycopg.Error, JournalError, StoreUnavailable):  # nothing is lost without it
                if self._lock is not None and self._lost is None:
                    self._transaction(self._note_heads)
            # the server would release it too, but some time after the session's end
            with suppress(psycopg.Error):
                if self._lock is not None and self._lost is None:
                    connection.execute("SELECT pg_advisory_unlock_all()")
        finally:
            self._connection = None
            _stores.discard(self)
            connection.close()

    def _prepare(self, schema: str, create: bool, member: tuple[int, str] | None) -> None:
        self._schema = schema
        database = self._database
        self._set_up(database)
        found = _described(database, schema)
        tables = [name for name in _DESCRIBED if found.get(name) and " " in found[name]]
        if not tables:
            if self._lock is None or not create:
                raise FileNotFoundError(errno.ENOENT, "there is no store", self.place)
            self._own(lambda: self._create(_TABLES), member)
        else:
            known = None
            if "meta" in tables:
                with suppress(psycopg.ProgrammingError):
                    rows = self._all("SELECT key, value FROM meta WHERE key IN ('schema', 'store')")
                    known = {key.decode(): value.decode(errors="replace") for key, value in rows}
            check_schema(self.place, known, found == _DESCRIBED)
            if self._lock is not None:
                # a store of an earlier version
                if self._all("SELECT to_regclass('event_open') IS NULL")[0][0]:
                    self._copy_checked()
                index = _OPEN_INDEX.replace("INDEX", "INDEX IF NOT EXISTS")
                self._own(lambda: self._all(index), member)
                self._note_package()
        self._run(lambda: self._consistent(self._check_ends))

    def _set_up(self, database: "psycopg.Connection[Any]") -> None:
        if self._lock is None:
            database.execute("SET default_transaction_read_only = on")
        # all commands look for rows in an index, in its order; without statistics the server would rather collect all
        # events of a learner and sort them, for each page of its log
        database.execute("SET enable_bitmapscan = off")
        names = psycopg.sql.SQL("SET search_path = {}, pg_temp").format(psycopg.sql.Identifier(self._schema))
        database.execute(names)
        database.adapters.register_loader("text", _Bytes)

    def _copy_checked(self) -> None:
        """Copy a store of an earlier version into a schema beside it before it is changed, and read all of the copy."""
        end = f"_before_{__version__}"
        copy = self._schema[: 63 - len(end)] + end
        stays = f"{self.place} is of an earlier version, and stays as it is"
        try:
            made = self._committed(lambda: self._copy(copy), begin="BEGIN ISOLATION LEVEL REPEATABLE READ")
        except psycopg.errors.InsufficientPrivilege as problem:
            words = f"for no copy can be made in a schema {copy}: {line_of(problem)}"
            raise JournalError(f"{stays}, {words}") from None
        if made is None:
            raise JournalError(
                f"{stays}, for there is a schema {copy} that is not a copy of it: drop it first"
            )
        store = PostgresStore(f"{self.place}: its copy in {copy}", self._again(), None, self._again)
        try:
            store._prepare(copy, False, None)
            problems = store.integrity()
        except JournalError as problem:
            problems = [str(problem)]
        finally:
            store.close()
        if problems:
            if made:
                self._all(f"DROP SCHEMA {_quoted(copy)} CASCADE")
            raise JournalError(f"{stays}, for its copy is not sound: {problems[0]}")
        log.warning(
            "%s is of an earlier version: it was copied into the schema %s, and is changed", self.place, copy
        )

    def _copy(self, copy: str) -> bool | None:
        """Copy all rows into a new schema; False if they were there already, None if something else is there."""
        if self._all("SELECT to_regnamespace(?) IS NOT NULL", _quoted(copy))[0][0]:
            return False if self._is_copied(copy) else None
        self._all(f"CREATE SCHEMA {_quoted(copy)}")
        self._all(f"SET LOCAL search_path = {_quoted(copy)}, pg_temp")
        for command in _TABLES[:-1]:
            if command != _OPEN_INDEX:
                self._all(command)
        for table in COPIED:
            self._all(f"INSERT INTO {table} SELECT * FROM {_quoted(self._schema)}.{table}")
        self._all(f"SET LOCAL search_path = {_quoted(self._schema)}, pg_temp")
        if not self._is_copied(copy):
            raise JournalError(f"{self.place}: its copy in the schema {copy} has other rows")
        return True

    def _is_copied(self, copy: str) -> bool:
        """Whether another schema has the same rows, told from their numbers and sums of their hashes."""
        sums = "SELECT count(*), coalesce(sum(hashtextextended(one::text, 0)::numeric), 0) FROM {}.{} AS one"
        return all(
            self._all("SELECT to_regclass(?) IS NOT NULL", f"{_quoted(copy)}.{table}")[0][0]
            and self._all(sums.format(_quoted(self._schema), table))
            == self._all(sums.format(_quoted(copy), table))
            for table in COPIED
        )

    def _own(self, first: Callable[[], object], member: tuple[int, str] | None) -> None:
        """Begin a new epoch, which ends the epochs of all earlier owners; a member lets those of others be."""

        def begin() -> int:
            first()
            if member is None:
                forget(self)
            rows = self._all("UPDATE owner SET epoch = epoch + 1 RETURNING epoch")
            if len(rows) != 1:
                raise JournalError(f"{self.place} is damaged: its owners cannot be counted")
            return int(rows[0][0])

        self.epoch = self._committed(begin)
        self.shards = None if member is None else Shards(self, *member)

    # The session

    @property
    def _database(self) -> "psycopg.Connection[Any]":
        if self._lost is not None:
            raise OwnershipLost(errno.ENOTCONN, self._lost)
        if self._connection is None:
            raise ValueError(f"{self.place}: the store is closed")
        if self._connection.closed and self._lock is None:  # a reader has no ownership to lose
            self._connection = self._again()
            self._set_up(self._connection)
        return self._connection

    def _lose(self, why: str) -> OwnershipLost:
        """End the session, and with it the ownership."""
        self._lost = f"{self.place}: {why}: the store must be opened again"
        if self._connection is not None:
            self._connection.close()
        return OwnershipLost(errno.ENOTCONN, self._lost)

    def _translated(self, problem: Exception) -> Exception:
        """Return the package's error; a session that has ended, or is in an unknown state, is not used again."""
        connection = self._connection
        known = (TransactionStatus.IDLE, TransactionStatus.INTRANS, TransactionStatus.INERROR)
        if connection is not None and (connection.closed or connection.info.transaction_status not in known):
            if self._lock is None:
                connection.close()
                return StoreUnavailable(errno.ENOTCONN, f"{self.place} cannot be read: {line_of(problem)}")
            return self._lose(f"the session has ended ({line_of(problem)})")
        return translated(self.place, problem) if isinstance(problem, psycopg.Error) else problem

    def _all(self, command: str, *values: object) -> list[Any]:
        known = self._commands.get(command)
        if known is None:
            known = self._commands[command] = command.replace("%", "%%").replace("?", "%s")
        cursor = self._database.execute(known, values)
        return cursor.fetchall() if cursor.description is not None else []

    def _transaction(self, work: Callable[[], T], sync: bool = True) -> T:
        def mine() -> T:
            if self._lock is not None:
                self._fence()
            return work()

        return self._committed(mine, sync)

    def _fence(self) -> None:
        """End the ownership unless this epoch is current; nobody can take over before the transaction ends."""
        if self.shards is not None:
            self._check_epoch(self.shards.are_mine())
        else:
            self._check_epoch(len(self._all("SELECT epoch FROM owner WHERE epoch = ? FOR SHARE", self.epoch)))

    def check_owner(self) -> None:
        """Raise OwnershipLost if another process has taken over, or the session has ended."""

        def look() -> None:
            self._check_place()
            self._fence()

        self._run(look)

    def _consistent(self, work: Callable[[], T]) -> T:
        return self._committed(work, begin="BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def _committed(self, work: Callable[[], T], sync: bool = True, begin: str = "BEGIN") -> T:
        database = self._idle()
        self._set_durable(sync)
        try:
            database.execute(begin)
            result = work()
            database.execute("COMMIT")
        except BaseException:
            with suppress(psycopg.Error, StoreUnavailable):
                self._idle()
            raise
        return result

    def _idle(self) -> "psycopg.Connection[Any]":
        """Return the connection without an open transaction; one left by an exception is rolled back."""
        database = self._database
        status = database.info.transaction_status
        if status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            database.execute("ROLLBACK")
        elif status is not TransactionStatus.IDLE:
            raise self._lose("the session was interrupted")
        return database

    def _all_by_key(self, asked: Sequence[tuple[int, str]]) -> list[Any]:
        return self._all(_BY_KEYS, [learner for learner, _ in asked], [key for _, key in asked])

    def _set_durable(self, sync: bool) -> None:
        if self._durable is not sync and self._lock is not None:
            self._durable = None
            self._database.execute(f"SET synchronous_commit = {'on' if sync else 'off'}")
            self._durable = sync

    def _insert(self, rows: Sequence[Row], check: Callable[[], Tails], sync: bool) -> Tails:
        self._idle()
        tails = check()
        self._set_durable(sync)
        self._put(rows)
        return tails

    def _put(self, rows: Sequence[Row]) -> None:
        if rows and self.shards is not None:
            self._check_epoch(self.shards.put(rows))
        elif rows:
            columns = [list(column) for column in zip(*rows)]
            self._check_epoch(self._database.execute(_BATCH, (self.epoch, *columns)).rowcount)

    def _check_epoch(self, found: int) -> None:
        if not found:
            raise self._lose("somebody else has taken over")

    def _lock_of(self, what: str) -> int:
        return lock_of(f"{self._schema} {what}")

    def _end_session(self, command: str, member: int) -> None:
        # of another user: the server will notice some time
        with suppress(psycopg.errors.InsufficientPrivilege):
            self._all(command, member)

    def _reserve(self) -> None:
        if self.shards is not None:
            # not for ever, should a session be stopped that has it
            self._all("SET LOCAL lock_timeout = '2s'")
            self._all("LOCK TABLE learner IN SHARE ROW EXCLUSIVE MODE")
            self._all("SET LOCAL lock_timeout = 0")

    def _is_mine(self, learner: int) -> bool:
        return self.shards is None or self.shards.is_mine(learner)

    def _check_place(self) -> None:
        if self._lock is None:
            raise StoreUnavailable(
                errno.EROFS, f"{self.place}: it cannot be written: it was opened to be read"
            )

    def _look(self) -> list[str]:
        counted = self._all("SELECT count(*) FROM owner")[0][0]
        return [] if counted == 1 else [f"{self.place}: its owners cannot be counted"]


def _quoted(name: str) -> str:
    """Return the name of a schema as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


class _Bytes(psycopg.adapt.Loader):
    """Read texts as bytes: a damaged one then becomes a named bad event, not a driver error."""

    def load(self, data: Any) -> bytes:
        return bytes(data)


def _described(connection: "psycopg.Connection[Any]", schema: str) -> dict[str, str]:
    """Return the actual tables of a store: columns, indexes, references, triggers and rules."""

    def words(command: str) -> list[str]:
        rows = connection.execute(command.replace("%", "%%").replace("?", "%(s)s"), {"s": schema}).fetchall()
        return [row[0].decode() if isinstance(row[0], bytes) else str(row[0]) for row in rows]

    ours = (
        "relname IN ('event', 'learner', 'meta', 'owner', 'snapshot') "
        "AND relnamespace = to_regnamespace(quote_ident(?))"
    )
    found = {}
    for line in words(
        "SELECT relname || ': ' || string_agg(attname || ' ' || format_type(atttypid, atttypmod) || "
        "CASE WHEN attnotnull THEN '!' ELSE '' END, ', ' ORDER BY attnum) "
        f"FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid WHERE {ours} AND relkind = 'r' "
        "AND attnum > 0 AND NOT attisdropped GROUP BY relname"
    ):
        name, columns = line.split(": ", 1)
        found[name] = columns
    known = [
        "SELECT replace(pg_get_indexdef(indexrelid, 0, true), 'CREATE UNIQUE INDEX ', '') FROM pg_index "
        f"JOIN pg_class ON indrelid = pg_class.oid WHERE {ours} AND indisunique AND indisvalid",
        f"SELECT pg_get_constraintdef(pg_constraint.oid) FROM pg_constraint JOIN pg_class ON conrelid = pg_class.oid "
        f"WHERE {ours} AND contype IN ('f', 'c', 'x', 't')",
        f"SELECT tgname::text FROM pg_trigger JOIN pg_class ON tgrelid = pg_class.oid WHERE {ours} "
        "AND NOT tgisinternal "
        f"UNION ALL SELECT rulename FROM pg_rewrite JOIN pg_class ON ev_class = pg_class.oid WHERE {ours}",
    ]
    for name, command in zip(("indexes", "references", "triggers"), known):
        found[name] = "\n".join(sorted(words(command)))
    return found


# Forks

_stores: "weakref.WeakSet[PostgresStore]" = weakref.WeakSet()
_inherited: list[object] = []  # connections of the parent, which must never be finished here


def _leave_to_the_parent() -> None:
    """Close the child's side of the sockets: the session belongs to the parent and must end with it."""
    for store in list(_stores):
        connection = store._connection
        if connection is not None and not connection.closed:
            _inherited.append(connection)
            with suppress(OSError, psycopg.Error):
                socket.close(connection.fileno())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_the_parent)
