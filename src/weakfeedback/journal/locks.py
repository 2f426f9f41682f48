"""Mutual exclusion that survives exceptions at any point."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class InterruptSafeLock:
    """A lock around calls that is released after any exception, even one raised by a signal handler.

    A nested call (from a signal handler that runs in the middle of a call) would wait for itself or see a
    half-finished state: it is refused with RuntimeError.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._thread = 0

    def run(self, work: Callable[[], T]) -> T:
        """Return ``work()``, called by one thread at a time."""
        thread = self.caller()
        try:
            with self._lock:
                return self._alone(work, thread)
        except BaseException:
            if self._thread == thread:
                self._thread = 0
            with suppress(RuntimeError):  # still held only if the exception came just before the release
                self._lock.release()
            raise

    def is_free(self) -> bool:
        """Whether no thread seems to have the turn."""
        self.caller()
        return self._thread == 0

    def caller(self) -> int:
        """Return the id of this thread; RuntimeError if it already has the turn."""
        thread = threading.get_ident()
        if self._thread == thread:
            raise RuntimeError(
                "the journal was used by a signal handler that interrupted its use: try again later"
            )
        return thread

    def _alone(self, work: Callable[[], T], thread: int) -> T:
        # separate from run: Python would not release the lock if an exception came at a "try:" inside the block
        self._thread = thread
        try:
            return work()
        finally:
            self._thread = 0
