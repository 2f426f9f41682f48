"""What an event store keeps beside events: learners, snapshots, and where compaction has ended."""

from dataclasses import dataclass
from typing import Any


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
    """The result of compaction: the first event kept, and the highest decision number among the removed events."""

    seq: int
    decision: int | None
