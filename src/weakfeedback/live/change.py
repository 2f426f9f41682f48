"""A change of a live object in progress, where its events go, and what takes the place of its lock at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

from weakfeedback.live.answers import Content
from weakfeedback.live.driver import Interpreted


class Sink(Protocol):
    """Receives the events of a core, such as a journal."""

    def prepare(
        self, kind: str, id: int | None, body: dict[str, Any], ahead: int = 0, tag: Any = None
    ) -> Any:
        """Return the row of a future event that comes after ``ahead`` others. May raise, and changes nothing."""

    def put(self, row: Any) -> None:
        """Queue a row. Never raises; a repetition has no effect."""


class Change:
    """A change in progress. The defaults are class attributes, so that making one is cheap."""

    ready = False  # True: committed
    rare = False  # True: there is more than decisions, answers, counts and events
    backup: Any = None  # of the policy, if it may have changed
    generator: Any = None  # its state before
    counts: Any = None
    terms: Any = None
    resumed: tuple[int, int] | None = None  # the next id, and ``every``
    installed: Interpreted | None = None  # a new driver
    opened: tuple[list[int], Sequence[int]] | None = None  # a list of the caller, and the ids that it gets
    enter: Sequence[tuple[int, Any]] = ()  # new decisions that wait for an answer
    alone: Sequence[tuple[int, Any]] = ()  # new decisions that do not
    alter: Sequence[tuple[int, Any]] = ()  # open decisions that go on
    close: Sequence[tuple[int, Content, int]] = ()  # answers, and the number of answers then
    drop: Sequence[int] = ()  # cancelled decisions
    talk: Any = None  # a turn of a conversation, and the model that answers it
    talks: Any = None  # all conversations, for other models
    kept: Sequence[tuple[int, Any]] = ()
    rows: Sequence[Any] = ()  # of the sink


class Closed(Change):
    """The final change: no other may follow."""

    def __init__(self, words: str) -> None:
        self.words = words


class Shut:
    """Replaces the lock of a core that must no longer be used; its error says why."""

    def __init__(self, words: str) -> None:
        self._words = words

    def _is_owned(self) -> NoReturn:
        raise RuntimeError(self._words)

    __enter__ = _is_owned

    def __exit__(self, *error: object) -> None:
        pass
