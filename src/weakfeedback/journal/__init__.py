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

from typing import TYPE_CHECKING

from weakfeedback.lazy import importing

if TYPE_CHECKING:
    from weakfeedback.journal.events import ENDS as ENDS
    from weakfeedback.journal.events import Event as Event
    from weakfeedback.journal.events import JournalError as JournalError
    from weakfeedback.journal.events import OwnedElsewhere as OwnedElsewhere
    from weakfeedback.journal.events import OwnershipLost as OwnershipLost
    from weakfeedback.journal.events import SecondEnd as SecondEnd
    from weakfeedback.journal.events import SecondKey as SecondKey
    from weakfeedback.journal.events import StoreDamaged as StoreDamaged
    from weakfeedback.journal.events import StoreUnavailable as StoreUnavailable
    from weakfeedback.journal.log import Log as Log
    from weakfeedback.journal.opening import open_store as open_store
    from weakfeedback.journal.sql import SqlStore as SqlStore
    from weakfeedback.journal.sql import Store as Store
    from weakfeedback.journal.sqlite import SqliteStore as SqliteStore
    from weakfeedback.journal.store import Floor as Floor
    from weakfeedback.journal.store import Learner as Learner
    from weakfeedback.journal.store import Snapshot as Snapshot

# by module, its names; for type checkers the same above, which a test compares
_HOMES = {
    "events": "ENDS Event JournalError OwnedElsewhere OwnershipLost SecondEnd SecondKey StoreDamaged "
    "StoreUnavailable",
    "log": "Log",
    "opening": "open_store",
    "sql": "SqlStore Store",
    "sqlite": "SqliteStore",
    "store": "Floor Learner Snapshot",
}
__getattr__, __dir__ = importing(__name__, _HOMES)
__all__ = __dir__()
