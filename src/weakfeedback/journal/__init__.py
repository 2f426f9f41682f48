"""The journal: an append-only log of what happened to live objects, in one file or in PostgreSQL.

::

    decide, feedback, ...  (many threads)
          |  append: a number, a time, one line of JSON; under the caller's lock
          v
    Log  [e7][e8][e9]      the queue, in memory
          |  flush: the first thread to call it writes for all that wait
          v
    SqliteStore            BEGIN; e7 e8 e9; COMMIT; synchronised  -> only then do the calls return
          |
          v
    runs.db        learner, event (append only), snapshot, meta      readable by any SQLite tool
    runs.db-wal    what was committed since the last checkpoint       removed by a clean close
    runs.db.lock   the owner of the store; the lock ends with its process, the file stays

    PostgresStore          the same tables in a schema; the session that writes holds the lock

    recovery:  newest valid snapshot + the events after it = the object as it was

This package stores and reads events. It does not know what they mean.
"""

from weakfeedback.journal.events import (
    ENDS,
    Event,
    JournalError,
    OwnedElsewhere,
    OwnershipLost,
    SecondEnd,
    SecondKey,
    StoreUnavailable,
)
from weakfeedback.journal.log import Log
from weakfeedback.journal.opening import open_store
from weakfeedback.journal.sql import SqlStore
from weakfeedback.journal.sqlite import SqliteStore
from weakfeedback.journal.store import Floor, Learner, Snapshot, Store

__all__ = [
    "ENDS",
    "Event",
    "Floor",
    "JournalError",
    "Learner",
    "Log",
    "OwnedElsewhere",
    "OwnershipLost",
    "SecondEnd",
    "SecondKey",
    "Snapshot",
    "SqlStore",
    "SqliteStore",
    "Store",
    "StoreUnavailable",
    "open_store",
]
