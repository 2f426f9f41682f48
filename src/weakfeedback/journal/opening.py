"""Open a store by its address: a file, or a schema in PostgreSQL."""

import os
from collections.abc import Callable

from weakfeedback.journal.events import JournalError
from weakfeedback.journal.sql import SqlStore

POSTGRES = ("postgresql://", "postgres://")
FILE = "sqlite:///"


def open_store(
    address: str | os.PathLike[str],
    *,
    read_only: bool = False,
    create: bool = True,
    wait: bool = False,
    stop: Callable[[], bool] | None = None,
    shared: str | None = None,
    lenient: bool = False,
) -> SqlStore:
    """Open the store at ``address``; this process owns it until it is closed.

    Arguments:
        address: a file (``runs.db``, ``sqlite:///runs.db``, ``sqlite:////var/lib/runs.db``), or
            ``postgresql://user@host/database`` (needs the extra ``postgres``).
        read_only: only read; a store in use can be read.
        create: create the store if it is missing.
        wait: PostgreSQL only: if another session owns the store, wait as a standby until it is free.
        stop: called now and then while waiting; True ends the wait with OwnedElsewhere.
        shared: PostgreSQL only: share it with others, as the process that is reached at this address; see `Shards`.
        lenient: if one learner lacks events, or its row is not what was stored, set it ``apart`` instead of
            refusing the store: nothing of it is written then.

    A store that cannot be opened raises JournalError (a ValueError), OwnedElsewhere (a RuntimeError),
    StoreUnavailable or FileNotFoundError (OSErrors), each with a message of one line.
    """
    words = os.fspath(address)
    if words.startswith(POSTGRES):
        from weakfeedback.journal.postgres import PostgresStore

        return PostgresStore.open(
            words,
            read_only=read_only,
            create=create,
            wait=wait,
            stop=stop,
            shared=shared,
            lenient=lenient,
        )
    if shared is not None:
        raise JournalError("only a store in PostgreSQL can be shared: a file has one owner")
    if words.startswith(FILE):
        words = words.removeprefix(FILE)
    elif "://" in words:
        raise JournalError(
            f"a store is a file, sqlite:///FILE or postgresql://USER@HOST/DATABASE, got {words.split('://')[0]}://..."
        )
    if not words:
        raise JournalError("the address of a store must name a file")
    from weakfeedback.journal.sqlite import SqliteStore

    return SqliteStore.open(words, read_only=read_only, create=create, lenient=lenient)
