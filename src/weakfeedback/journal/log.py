"""The log of one learner: events are queued in memory, and waiting threads share one transaction."""

import copy
import os
import threading
import time
from typing import Any

from weakfeedback.journal.events import JournalError, Row, make_row
from weakfeedback.journal.locks import InterruptSafeLock
from weakfeedback.journal.owner import check_process
from weakfeedback.journal.sql import Store

PATIENCE = 1.0  # seconds; after an exception at a bad moment the end of a write may never be signalled
PAUSE, PAUSES = 0.001, 20


class Log:
    """The events of ``learner`` in ``store``; new ones are appended.

    ``append`` queues an event and does not touch the disk. The caller must hold a lock of its own, which orders the
    events. ``flush`` waits until an event is stored. Call it without that lock, so that other threads can queue
    theirs meanwhile. The first thread to arrive writes everything that is queued. Threads that arrive during the
    write wait for its end; then the first of them writes for all of them.

    An exception may be raised anywhere, for example by a signal handler. An event is then either in the queue once
    or not at all; ``last_seq`` tells which. A queued event is stored once, by the next ``flush``.

    The caller must not queue an event that the store refuses for its meaning (a second end of a decision, a key that
    is taken): every later ``flush`` would fail too, until the store is opened and read again.

    >>> import tempfile
    >>> from weakfeedback.journal import Log, SqliteStore
    >>> with tempfile.TemporaryDirectory() as folder, SqliteStore.open(folder + "/runs.db") as store:
    ...     log = Log(store, store.create_learner("triage", at=0))
    ...     seq = log.append("decide", {"stage": 1}, decision=1)
    ...     log.flush(seq)
    ...     log.last_seq, log.pending_writes
    (0, 0)
    """

    def __init__(self, store: Store, learner: int):
        self.store = store
        self.learner = learner
        self._pid = os.getpid()
        self._turn = InterruptSafeLock()
        self._queue: list[Row] = []  # in order; rows up to _stored are in the store
        self._stored = store.last(learner)  # seq and at of the last event known to be in the store
        self._synced = self._stored[0]  # events up to this one are known to survive a power loss
        self._unsure = False  # a transaction was begun, and its outcome is unknown
        self._latest = self._stored[1]  # time of the last prepared event
        self._writing: threading.Lock | None = None  # held during the current write
        self._failures = 0
        self._failure: Exception | None = None

    @property
    def last_seq(self) -> int:
        """The number of the last event, stored or queued; -1 if there is none."""
        return self._tail()[0]

    @property
    def pending_writes(self) -> int:
        """The number of events that are queued and not known to be stored."""
        return self.last_seq - self._stored[0]

    def append(
        self, kind: str, body: dict[str, Any], decision: int | None = None, key: str | None = None
    ) -> int:
        """Queue an event and return its number. The body is serialised immediately and may change later.

        Raises ValueError or TypeError, and queues nothing, for an event that could not be stored.
        """
        row = self.prepare(kind, body, decision, key)
        self._queue.append(row)  # the commit point
        return row[1]

    def prepare(
        self,
        kind: str,
        body: dict[str, Any],
        decision: int | None = None,
        key: str | None = None,
        ahead: int = 0,
    ) -> Row:
        """Return the row of a future event that comes after ``ahead`` others; queue it with ``put``.

        A caller that must not fail between two steps prepares the row first: ``put`` never refuses one.
        """
        check_process(self._pid)
        last, _ = self._tail()
        self._latest = max(time.time_ns() // 1000, self._latest)
        return make_row(self.learner, last + 1 + ahead, self._latest, kind, decision, key, body)

    def put(self, row: Row) -> None:
        """Queue a row made by ``prepare``; queueing it twice has no effect."""
        if self.last_seq < row[1]:
            self._queue.append(row)

    def flush(self, seq: int | None = None, sync: bool = True) -> None:
        """Wait until all events up to ``seq`` (by default all queued ones) are stored.

        With ``sync`` they survive a loss of power, otherwise only the end of the process.

        Raises:
            StoreUnavailable: the disk refuses. Every waiting thread gets this error, and the events stay queued: the
                next ``flush`` tries again.
        """
        check_process(self._pid)
        last = self.last_seq
        if seq is None:
            seq = last
        if seq > last:
            raise ValueError(f"there is no event {seq}: the last one is {last}")
        wanted, failures = seq, self._failures

        def work() -> None:
            if self._is_done(wanted, sync):
                return
            if self._failures != failures and self._failure is not None:
                raise copy.copy(self._failure)
            try:
                self._write(sync)
            except Exception as problem:
                self._failure = copy.copy(problem)
                self._failures += 1
                raise

        pauses, shared = PAUSES, False
        while not self._is_done(wanted, sync):
            writing, first = self._writing, wanted == self._stored[0] + 1
            if writing is not None:
                # wait for the end of the write, not for the turn: the thread that just had the turn would get it again
                # before the waiting ones, and would write for itself alone
                self._turn.caller()
                if writing.acquire(timeout=PATIENCE):
                    writing.release()
                    pauses, shared = PAUSES, True
                    continue
            elif pauses > 0 and (not self._turn.is_free() or (shared and not first)):
                pauses -= 1
                # the thread whose event comes first writes for all, unless it was interrupted
                time.sleep(PAUSE)
                continue
            self._turn.run(work)
            return

    def _is_done(self, seq: int, sync: bool) -> bool:
        return seq <= (self._synced if sync else self._stored[0])

    def _tail(self) -> tuple[int, int]:
        try:
            row = self._queue[-1]
        except IndexError:  # stored events leave the queue after _stored has changed
            return self._stored
        return row[1], row[2]

    def _write(self, sync: bool) -> None:
        """Store everything that is queued; one thread at a time."""
        writing = threading.Lock()  # an Event breaks if a signal handler raises
        writing.acquire()
        self._writing = writing
        try:
            self._write_queue(sync)
        finally:
            self._writing = None
            writing.release()

    def _write_queue(self, sync: bool) -> None:
        if self._unsure:
            self._find_out()
        self._drop_stored()
        rows = self._queue[:]
        if rows:
            self._unsure = True
            self.store.write(rows, sync=sync)
            self._stored = rows[-1][1], rows[-1][2]
            self._unsure = False
        elif sync:
            self.store.sync()
        if sync:
            self._synced = self._stored[0]
        self._drop_stored()

    def _find_out(self) -> None:
        """Ask the store how the last transaction ended."""
        seq, at = self.store.last(self.learner)
        known, _ = self._stored
        if seq != known:
            mine = [row for row in self._queue if row[1] == seq and row[2] == at]
            if not mine:
                raise JournalError(
                    f"event {seq} of learner {self.learner} was stored by somebody else: open the store again"
                )
            self._stored = seq, at
        self._unsure = False

    def _drop_stored(self) -> None:
        if self._queue:
            count = self._stored[0] - self._queue[0][1] + 1
            if count > 0:
                del self._queue[:count]
