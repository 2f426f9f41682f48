"""What a store of events can do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from weakfeedback.journal.events import Event, Row


@dataclass(frozen=True, slots=True)
class Learner:
    """A named sequence of events; ``created`` and ``archived`` are microseconds since 1970."""

    id: int
    name: str
    created: int
    archived: int | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a learner after event ``seq``, and the package version that wrote it."""

    seq: int
    at: int
    package: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Floor:
    """What compaction left: the first event that is kept, and the highest decision that an earlier one named."""

    seq: int
    decision: int | None


class Store(Protocol):
    """Learners, their events in order, and snapshots. See ``SqlStore`` for the meaning of each method."""

    place: str

    def learners(self) -> list[Learner]: ...
    def create_learner(self, name: str, at: int) -> int: ...
    def archive_learner(self, learner: int, at: int) -> None: ...
    def append(self, rows: Sequence[tuple[int, Event]], *, sync: bool = True) -> None: ...
    def write(self, rows: Sequence[Row], *, sync: bool = True) -> None: ...
    def sync(self) -> None: ...
    def events(self, learner: int, after: int = -1, limit: int | None = None) -> Iterator[Event]: ...
    def last(self, learner: int) -> tuple[int, int]: ...
    def end_of(self, learner: int, decision: int) -> Event | None: ...
    def decided(self, learner: int, decision: int) -> Event | None: ...
    def by_key(self, learner: int, key: str) -> Event | None: ...
    def add_snapshot(self, learner: int, seq: int, at: int, body: dict[str, Any]) -> None: ...
    def snapshots(self, learner: int, damaged: list[str] | None = None) -> Iterator[Snapshot]: ...
    def compact(self, learner: int, before_at: int) -> int: ...
    def floor(self, learner: int) -> Floor: ...
    def integrity(self) -> list[str]: ...
    def fill(self, source: "Store") -> int: ...
    def close(self) -> None: ...
