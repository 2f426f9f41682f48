"""The queue of rows, and the thread that writes all waiting rows in one transaction.

The disk sets the pace: while one transaction is being written, rows for the next one collect. It begins when a turn of
the loop has brought no more of them: those who ask together are then answered together, and ask together again. There
is no other delay.

After a failure nothing more is written: everything that waits fails, and so does everything that comes later. The owner
of the committer must then discard its state in memory and read the store again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from weakfeedback.journal.events import Row, StoreUnavailable
from weakfeedback.journal.sql import Store

MOST = 64  # requests for which a transaction waits

Job = Callable[[], Any]
Watch = Callable[[float, int], None]  # called with the seconds and events of a transaction
Stored = Callable[[], None]
Item = tuple[list[Row] | Job, asyncio.Future[Any], Stored | None]
Done = list[tuple[asyncio.Future[Any], Any, Stored | None]]


class Committer:
    """Writes rows, and runs other jobs on the store, in order of arrival."""

    def __init__(
        self,
        store: Store,
        loop: asyncio.AbstractEventLoop,
        *,
        sync: bool = True,
        failed: Callable[[BaseException], None] | None = None,
        watch: Watch | None = None,
    ) -> None:
        self.store, self._loop, self._sync = store, loop, sync
        self._failed, self._watch = failed, watch
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._queue: list[Item] = []
        self._error: BaseException | None = None
        self._stopping = False
        self._is_called = False  # `_gather` is about to run
        self._seen = 0  # requests that waited when it ran last
        self._is_asked = False  # the thread shall write
        self._is_busy = False  # it was asked, and the loop has not heard yet that it is done
        self._thread = threading.Thread(target=self._work, name="weakfeedback commit", daemon=True)
        self._thread.start()

    def commit(self, rows: list[Row], stored: Stored | None = None) -> asyncio.Future[Any]:
        """Return a future that is done once the rows are stored and ``stored`` was called; use the loop's thread."""
        return self._put(rows, stored)

    def run(self, job: Job) -> asyncio.Future[Any]:
        """Return a future of the result of a job on the store; it runs after everything queued before it."""
        return self._put(job)

    def _put(self, item: list[Row] | Job, stored: Stored | None = None) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        with self._lock:
            if self._error is not None or self._stopping:
                _refuse(future, self._error or StoreUnavailable(0, "the service is stopping"))
                return future
            self._queue.append((item, future, stored))
            if not (self._is_called or self._is_busy):
                self._call()
        return future

    def _call(self) -> None:
        self._is_called = True
        self._loop.call_soon(self._gather)

    def _gather(self) -> None:
        """Ask the thread to write what waits, once a turn of the loop has brought no more."""
        with self._wake:
            count = len(self._queue)
            if 1 < count < MOST and count > self._seen:
                self._seen = count
                self._call()
                return
            self._seen, self._is_called = 0, False
            self._is_asked = self._is_busy = True
            self._wake.notify()

    def stop(self) -> None:
        """Write all waiting rows, and end the thread; call it from any other thread."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join()

    def _work(self) -> None:
        while True:
            with self._wake:
                while not (self._is_asked or self._stopping):
                    self._wake.wait()
                self._is_asked = False
                taken, self._queue = self._queue, []
                if not taken:
                    return
            try:
                done = self._carry_out(taken)
            except BaseException as error:
                self._fail(taken, error)
                return
            self._tell(self._finish, done)

    def _finish(self, done: Done) -> None:
        """Tell of what is stored, and go on."""
        with self._lock:
            self._is_busy = False
            if self._queue and not self._is_called:
                self._call()
        _resolve(done)

    def _carry_out(self, taken: list[Item]) -> Done:
        """Write consecutive rows together; run jobs in between."""
        done: Done = []
        rows: list[Row] = []
        for item, future, stored in taken:
            if callable(item):
                self._write(rows)
                rows = []
                done.append((future, item(), stored))
            else:
                rows += item
                done.append((future, None, stored))
        self._write(rows)
        return done

    def _write(self, rows: list[Row]) -> None:
        if rows:
            start = time.perf_counter()
            self.store.write(rows, sync=self._sync)
            if self._watch is not None:
                self._watch(time.perf_counter() - start, len(rows))

    def _fail(self, taken: list[Item], error: BaseException) -> None:
        with self._wake:
            self._error = error
            taken, self._queue = taken + self._queue, []
        self._tell(self._refuse, [future for _, future, _ in taken], error)

    def _refuse(self, futures: list[asyncio.Future[Any]], error: BaseException) -> None:
        if self._failed is not None:
            self._failed(error)  # first: nobody may read the old state after an acknowledgement
        for future in futures:
            _refuse(future, error)

    def _tell(self, call: Callable[..., None], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)


def _resolve(done: Done) -> None:
    for future, value, stored in done:
        if stored is not None:
            stored()
        if not future.done():
            future.set_result(value)


def _refuse(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # mark it as retrieved: if the client has gone, asyncio must not log it as an error
