"""The sink of a learner's changes: events, numbered and timed, until the committer takes their rows."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from weakfeedback.journal import Event
from weakfeedback.journal.events import OPENS, Row, make_row

SLACK = 1_000_000  # microseconds that a clock may be behind the last event without being called wrong
Clock = Callable[[], int]
Noted = tuple[Row, Event]


def now() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000


class Tag(NamedTuple):
    """What the service adds to an event: an idempotency key, and parts of its body, see `EXTRA`."""

    key: str | None = None
    extra: Mapping[str, Any] = {}


NO_TAG = Tag()


class Outbox:
    """The sink of a learner's changes: it numbers events and keeps their rows until they are committed."""

    def __init__(self, learner: int, last: tuple[int, int], clock: Clock) -> None:
        self.learner, self.clock = learner, clock
        self.last_seq, self._at = last
        self._tag = NO_TAG  # of the next event, if it brings none itself
        self._noted: list[Noted] = []

    @contextlib.contextmanager
    def tagged(self, key: str | None, extra: Mapping[str, Any]) -> Iterator[None]:
        """Tag the event that is made meanwhile."""
        self._tag = Tag(key, extra)
        try:
            yield
        finally:
            self._tag = NO_TAG

    def prepare(
        self, kind: str, decision: int | None, body: dict[str, Any], ahead: int = 0, tag: Tag | None = None
    ) -> Noted:
        """Return a future event that comes after ``ahead`` others, and its row."""
        key, extra = tag or (NO_TAG if kind == "cancel" else self._tag)
        if extra:
            body = {**body, **extra}
        now = self.clock()
        if now < self._at - SLACK and kind in OPENS:
            body = {**body, "clock": now}  # times in the log never decrease: keep that of the clock, too
        self._at = max(now, self._at)
        event = Event(self.last_seq + 1 + ahead, self._at, kind, decision, key, body)
        return make_row(self.learner, *event), event

    def put(self, row: Noted) -> None:
        """Queue an event; queueing it twice has no effect."""
        seq = row[1].seq
        if seq > self.last_seq:
            self._noted.append(row)
            self.last_seq = seq

    @property
    def ahead(self) -> int:
        """How far the last event lies ahead of the clock, in microseconds."""
        return self._at - self.clock()

    def append(self, kind: str, body: dict[str, Any], key: str | None = None) -> None:
        """Queue an event of the service itself."""
        self.put(self.prepare(kind, None, body, tag=Tag(key)))

    def begin_at(self, at: int) -> None:
        """Let no later event be earlier than this."""
        self._at = at

    def take(self) -> list[Noted]:
        """Return what was queued since the last call."""
        taken, self._noted = self._noted, []
        return taken
