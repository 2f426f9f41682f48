"""A PostgreSQL session that holds the lock of a store: connecting, waiting and checking."""

import errno
import os
import selectors
import struct
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from hashlib import blake2b
from typing import Any

from weakfeedback.environment import read_secret
from weakfeedback.journal.events import JournalError, OwnedElsewhere, StoreDamaged, StoreUnavailable
from weakfeedback.journal.sql import no_learner, refused

try:
    import psycopg as psycopg
    from psycopg import errors, sql
except ImportError as problem:
    raise JournalError(
        f"a store in PostgreSQL needs psycopg: pip install 'weakfeedback[postgres]' ({problem})"
    ) from None

PASSWORD = "WEAKFEEDBACK_STORE_PASSWORD"
OLDEST = 14  # the first version of PostgreSQL with all the settings used here
PAUSE = 0.2  # seconds between checks whether to keep waiting
PAUSES = (0.0, 0.02)  # seconds before each further connection that probes for a pooler
# a machine that has vanished is noticed within 20 seconds, on both sides; timeouts in the address take precedence
_CONNECTION = {"connect_timeout": 10, "keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 5}
_CONNECTION |= {"keepalives_count": 3, "tcp_user_timeout": 20_000}
_SESSION = {
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "client_connection_check_interval": "5s",  # a standby that was killed waits no longer than that
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "default_transaction_isolation": "read committed",
    "synchronous_commit": "on",
}


def parsed(url: str) -> tuple[dict[str, Any], str]:
    """Return the connection options, and the name of the store for messages."""
    try:
        given = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        raise JournalError(
            "the address of a store must look like postgresql://user@host/database (a name with other signs than "
            "letters and digits is written with %, as %2F for a slash)"
        ) from None
    if given.get("password") is not None:
        raise JournalError(
            f"the address of a store must hold no password: put it into the variable {PASSWORD}, into a file that "
            f"{PASSWORD}_FILE names, or into a service or password file"
        )
    options = {**_CONNECTION, "application_name": f"weakfeedback process {os.getpid()}", **given}
    try:
        password = read_secret(PASSWORD)
    except ValueError as error:
        raise JournalError(str(error)) from None
    if password:
        options["password"] = password
    where = str(given.get("host") or given.get("hostaddr") or "")
    if given.get("port"):
        where += f":{given['port']}"
    if given.get("user"):
        where = f"{given['user']}@{where}"
    if given.get("service"):
        where += f"service={given['service']}"
    return options, f"postgresql://{where}/{given.get('dbname') or ''}"


def connect(options: dict[str, Any], place: str, read_only: bool) -> "psycopg.Connection[Any]":
    try:
        connection = psycopg.connect(**options, autocommit=True, client_encoding="utf8")
    except psycopg.Error as problem:
        raise StoreUnavailable(errno.ECONNREFUSED, f"{place} cannot be reached: {line_of(problem)}") from None
    try:
        version = connection.info.server_version // 10_000
        if version < OLDEST:
            raise JournalError(f"{place} is PostgreSQL {version}; a store needs {OLDEST} or later")
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise JournalError(f"{place} has the encoding {encoding}; a store needs UTF8")
        settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SESSION.items())
        (fsync,) = connection.execute(f"SELECT current_setting('fsync'), {settings}").fetchone()[:1]  # type: ignore[index]
        if fsync != "on" and not read_only:
            warnings.warn(
                f"{place} runs with fsync = {fsync}: what it stores does not survive a loss of power",
                stacklevel=3,
            )
    except BaseException as problem:
        connection.close()
        if isinstance(problem, psycopg.Error):
            raise translated(place, problem) from None
        raise
    return connection


def schema_of(connection: "psycopg.Connection[Any]", place: str, create: bool) -> str:
    """Return the first schema of the search path, created if allowed."""
    ask = "SELECT current_schema(), current_setting('search_path')"
    schema, path = connection.execute(ask).fetchone()  # type: ignore[misc]
    if schema is None and create:
        wanted = path.split(",")[0].strip().strip('"')
        if wanted and wanted != "$user":
            with suppress(errors.UniqueViolation):  # another session creates it at the same moment
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(wanted)))
            schema, path = connection.execute(ask).fetchone()  # type: ignore[misc]
    if schema is None:
        raise FileNotFoundError(errno.ENOENT, f"there is no schema {path}", place)
    return str(schema)


def lock_of(schema: str) -> int:
    """Return the number of the advisory lock; its scope is one database."""
    return int(struct.unpack("q", blake2b(f"weakfeedback {schema}".encode(), digest_size=8).digest())[0])


def take(
    connection: "psycopg.Connection[Any]",
    lock: int,
    place: str,
    wait: bool,
    stop: Callable[[], bool] | None,
    shared: bool = False,
) -> None:
    """Take the lock, alone or ``shared`` with others who share it, or wait for it."""
    mode = "_shared" if shared else ""
    if connection.execute(f"SELECT pg_try_advisory_lock{mode}(%s)", (lock,)).fetchone() == (True,):
        return
    if not wait:
        raise OwnedElsewhere(f"{place} is in use by {_holder(connection, lock)}: close it there first")
    if not _wait(connection, f"SELECT pg_advisory_lock{mode}({lock})".encode(), stop or (lambda: False)):
        raise OwnedElsewhere(f"{place} is in use by {_holder(connection, lock)}, and waiting was ended")


def _wait(connection: "psycopg.Connection[Any]", command: bytes, stop: Callable[[], bool]) -> bool:
    """Run a command that may wait forever, and cancel it when ``stop`` returns True; return whether it was done."""
    session = connection.pgconn
    session.send_query(command)
    with selectors.DefaultSelector() as ready:
        ready.register(session.socket, selectors.EVENT_READ)
        while session.is_busy():
            if ready.select(PAUSE):
                session.consume_input()
            if session.is_busy() and stop():
                connection.cancel_safe(timeout=5.0)
                break
        stopped = session.is_busy()
        while session.is_busy():
            ready.select(PAUSE)
            session.consume_input()
    problem = None
    while (result := session.get_result()) is not None:
        if result.status == psycopg.pq.ExecStatus.FATAL_ERROR:
            problem = result
    if problem is None:
        return True  # granted, possibly just before it was cancelled
    if stopped and problem.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"57014":
        return False
    raise psycopg.OperationalError(problem.error_message.decode(errors="replace"))


def _holder(connection: "psycopg.Connection[Any]", lock: int) -> str:
    """Describe the session that holds the lock."""
    row = connection.execute(
        "SELECT application_name, client_addr, to_char(backend_start, 'YYYY-MM-DD HH24:MI:SS') "
        f"FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE {_MINE} LIMIT 1",
        {"high": lock >> 32 & 0xFFFFFFFF, "low": lock & 0xFFFFFFFF},
    ).fetchone()
    if row is None or not row[0]:
        return "another session"
    name = row[0].removeprefix("weakfeedback ")
    return f"{name if name.isprintable() else 'another session'}{f' on {row[1]}' if row[1] else ''} since {row[2]}"


_MINE = (
    "locktype = 'advisory' AND granted AND classid::bigint = %(high)s AND objid::bigint = %(low)s AND objsubid = 1 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def refuse_pooler(
    connection: "psycopg.Connection[Any]", options: dict[str, Any], lock: int, place: str
) -> None:
    """Refuse shared sessions: other connections must be other sessions, and must not get the lock.

    The other connections hold open transactions, one more each time the first connection is queried again. A pooler
    serves them with free sessions, and so with the session of the first connection; then it cannot answer the first
    connection with that session. A pooler that takes a session back before it does anything else is always detected.
    Any other pooler is missed only if it is late both times, the second time by more than the pause.
    """
    numbers = {"high": lock >> 32 & 0xFFFFFFFF, "low": lock & 0xFFFFFFFF}
    find = f"SELECT pg_backend_pid(), (SELECT array_agg(pid) FROM pg_locks WHERE {_MINE})"
    with ExitStack() as others:
        pid, holders = connection.execute(find, numbers).fetchone()  # type: ignore[misc]
        own = holders == [pid]
        for pause in PAUSES:
            if not own:
                break
            time.sleep(pause)
            try:
                other = psycopg.connect(**options, autocommit=True, client_encoding="utf8")
            except psycopg.OperationalError:
                if pause == PAUSES[0]:
                    raise
                break  # the server allows no more connections
            others.callback(other.close)
            other.execute("BEGIN")
            ask = "SELECT pg_backend_pid(), pg_try_advisory_lock(%s)"
            another, taken = other.execute(ask, (lock,)).fetchone()  # type: ignore[misc]
            again = connection.execute(find, numbers).fetchone()
            if taken:
                other.execute("SELECT pg_advisory_unlock(%s)", (lock,))
            own = not taken and another != pid and again == (pid, [pid])
    if not own:
        with suppress(psycopg.Error):
            connection.execute("SELECT pg_advisory_unlock_all()")
        raise JournalError(
            f"{place} lies behind a pooler that shares sessions, where locks cannot be trusted: "
            "connect to the server itself, or by a pool of whole sessions"
        )


def line_of(problem: BaseException) -> str:
    """Return the driver's message in one line; its second line only repeats the command or guesses."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return lines[0] if lines else type(problem).__name__


def translated(place: str, problem: psycopg.Error) -> Exception:
    """Return the package's error for an error of the driver."""
    text = line_of(problem)
    if isinstance(problem, errors.UniqueViolation):
        return refused(place, problem.diag.constraint_name or "")
    if isinstance(problem, errors.ForeignKeyViolation):
        return no_learner(place)
    for kind, number, words in (
        (errors.DiskFull, errno.ENOSPC, "the disk is full"),
        (errors.ReadOnlySqlTransaction, errno.EROFS, "it cannot be written"),
        (errors.InsufficientPrivilege, errno.EACCES, "access is denied"),
        (errors.DataCorrupted, 0, "is damaged"),
        (errors.IndexCorrupted, 0, "is damaged"),
        (psycopg.OperationalError, errno.EIO, "the server refuses"),
    ):
        if isinstance(problem, kind):
            if number == 0:
                return StoreDamaged(f"{place} {words}: {text}")
            return StoreUnavailable(number, f"{place}: {words} ({text})")
    return JournalError(f"{place} is damaged: {text}")
