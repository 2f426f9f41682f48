"""The trace that a request belongs to: W3C trace context, taken from its headers and sent on with calls of models."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol

# version, trace, span of the caller, flags, and what later versions may add
_PARENT = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
LONGEST_STATE = 512  # characters of what others have noted about a trace; longer notes are not sent on


class Trace(NamedTuple):
    """A trace, and the span within it that is the parent of what comes next."""

    id: str
    span: str
    flags: str = "01"
    state: str = ""

    def headers(self) -> dict[str, str]:
        """Return the headers that send it on."""
        found = {"traceparent": f"00-{self.id}-{self.span}-{self.flags}"}
        return found | {"tracestate": self.state} if self.state else found


CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)  # that of the request in progress


def read_trace(headers: Iterable[tuple[bytes, bytes]]) -> Trace | None:
    """Return the trace in the headers of a request; None if there is none, or not one alone that is valid."""
    pairs = list(headers)
    parents = [value for name, value in pairs if name == b"traceparent"]
    found = _PARENT.fullmatch(parents[0]) if len(parents) == 1 else None
    if found is None or (found[1] == b"00" and found[5] is not None):
        return None
    state = b",".join(value for name, value in pairs if name == b"tracestate").decode("latin-1")
    if len(state) > LONGEST_STATE or not (state.isascii() and state.isprintable()):
        state = ""
    return Trace(found[2].decode(), found[3].decode(), found[4].decode(), state)


class Span(Protocol):
    """What is told of one call of a model; the trace within `with` is its own."""

    def __enter__(self) -> Span: ...
    def __exit__(self, kind: Any, error: BaseException | None, where: Any) -> None: ...

    def take(self, found: dict[str, Any]) -> None:
        """Note what an answer, or a chunk of one, says of itself."""

    def end(self, error: BaseException | None = None) -> None:
        """End it, unless it has ended."""


class NoSpan:
    """A call that nobody wants to hear of."""

    def __enter__(self) -> Span:
        """Do nothing, as all else here."""
        return self

    def __exit__(self, *_: object) -> None: ...
    def take(self, found: dict[str, Any]) -> None: ...
    def end(self, error: BaseException | None = None) -> None: ...
