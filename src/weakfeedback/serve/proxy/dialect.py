"""Dialects: the protocols in which clients ask and are answered. Inside, everything is chat as OpenAI has it.

A dialect is made for each request. It reads the body into a body of chat before anything else is checked, and says the
answer in its own words: `Dialect` itself has little to do, `weakfeedback.serve.proxy.responses` and
`weakfeedback.serve.proxy.messages` translate. What they do not speak is refused with a sentence.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from weakfeedback.plaintext import one_line
from weakfeedback.serve.models import Problem
from weakfeedback.serve.proxy.prices import Tokens
from weakfeedback.serve.proxy.settings import FIELDS
from weakfeedback.serve.proxy.stream import BrokenStream, chunks_of

DONE = b"data: [DONE]\n\n"


class Dialect:
    """One request in the words of a protocol: here those of the upstreams, ``/v1/chat/completions``."""

    with_usage = False  # whether a stream needs the usage, asked for or not

    def read(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the body as one of chat; a problem if something in it is not spoken."""
        return body

    def whole(self, completion: dict[str, Any], tokens: Tokens, note: dict[str, Any]) -> dict[str, Any]:
        """Return the body of a whole answer; ``note`` describes the decision."""
        return {**completion, "weakfeedback": note}

    def chunk(self, chunk: dict[str, Any], data: bytes | None = None) -> bytes:
        """Return the events for a chunk; ``data`` is the chunk as it came, if it was not changed."""
        data = orjson.dumps(chunk) if data is None else data
        return b"data: " + data.replace(b"\n", b"\ndata: ") + b"\n\n"

    def end(self, tokens: Tokens, note: dict[str, Any]) -> bytes:
        """Return the events that end a stream."""
        return DONE

    def cut(self, message: str) -> bytes:
        """Return the event that ends an incomplete stream."""
        return self.chunk({"error": cut_error(message)})


# -- what the translating dialects share


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a streamed answer: of its text, its refusal or one of its tool calls."""

    kind: str  # text, refusal or tool
    text: str
    index: int = 0  # of the tool call
    id: str = ""
    name: str = ""


def pieces_of(chunk: dict[str, Any], refusal: str) -> Iterator[Piece]:
    """Return the pieces in a chunk of the first choice; those of a refusal are of the kind ``refusal``."""
    for choice in chunk["choices"]:
        delta = choice.get("delta") or {}
        if choice.get("index", 0) != 0:
            continue
        for kind, name in (("text", "content"), (refusal, "refusal")):
            if delta.get(name):
                yield Piece(kind, str(delta[name]))
        for call in delta.get("tool_calls") or ():
            function = call.get("function") or {}
            text, name = str(function.get("arguments") or ""), str(function.get("name") or "")
            yield Piece("tool", text, int(call.get("index", 0)), str(call.get("id") or ""), name)


def finish_of(chunk: dict[str, Any]) -> str | None:
    """Return why the first choice ended, if a chunk says so."""
    found = [choice.get("finish_reason") for choice in chunk["choices"] if choice.get("index", 0) == 0]
    return next((str(reason) for reason in found if reason), None)


class Translated(Dialect, ABC):
    """An answer in other words than chat's, as it grows block by block: of text, a refusal or a tool call each."""

    with_usage = True
    refusal = "refusal"  # the kind of its pieces

    def __init__(self) -> None:
        self._model, self._finish, self._begun = "", "stop", False
        self._blocks: list[dict[str, Any]] = []
        self._open: tuple[str, int] | None = None  # kind and index of the block under way
        self._tools: set[int] = set()

    def chunk(self, chunk: dict[str, Any], data: bytes | None = None) -> bytes:
        events = b""
        if not self._begun:
            self._begun, self._model = True, str(chunk.get("model") or "")
            events += self._start()
        for piece in pieces_of(chunk, self.refusal):
            if self._open != (piece.kind, piece.index):
                events += self._close()
                if piece.kind == "tool" and piece.index in self._tools:
                    raise BrokenStream("the upstream mixes its tool calls")
                self._tools |= {piece.index} if piece.kind == "tool" else set()
                events += self._begin(piece)
                self._open = piece.kind, piece.index
            events += self._add(piece)
        self._finish = finish_of(chunk) or self._finish
        return events

    def _take(self, completion: dict[str, Any]) -> None:
        """Grow by a whole answer at once."""
        first = {**completion["choices"][0], "index": 0}  # there is one
        for chunk in chunks_of({**completion, "choices": [first]}, False):
            self.chunk(chunk)
        self._close()

    @abstractmethod
    def _start(self) -> bytes: ...

    @abstractmethod
    def _begin(self, piece: Piece) -> bytes: ...  # a block

    @abstractmethod
    def _add(self, piece: Piece) -> bytes: ...

    @abstractmethod
    def _close(self) -> bytes: ...  # the block under way, if there is one


def named_event(name: str, data: dict[str, Any]) -> bytes:
    """Return an event with a name."""
    return b"event: " + name.encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def cut_error(message: str) -> dict[str, Any]:
    """Return the error of a stream that broke off."""
    return {"message": message, "type": "upstream_error", "param": None, "code": "stream_cut"}


def refuse_fields(body: dict[str, Any], translated: set[str], same: set[str]) -> None:
    """Refuse fields of chat that are none of a dialect's own; a stage may still allow fields nobody knows."""
    for field in body:
        if field in FIELDS and field not in translated | same:
            raise Problem("unknown_parameter", f"unknown parameter: {field}", field=field)


def not_spoken(field: str, value: Any, instead: str) -> NoReturn:
    """Refuse a value that has no counterpart in chat."""
    words = f"{field} {instead}, got {one_line(repr(value), 60)}"
    raise Problem("bad_value", words, field=field)


def text_or_parts(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return the content of a message: a text where there is nothing else, which every upstream reads."""
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def objects(field: str, value: Any) -> list[dict[str, Any]]:
    """Return a list of objects, or refuse it."""
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        not_spoken(field, value, "must be a list of objects")
    return value


def text(field: str, value: Any) -> str:
    """Return a text, or refuse it."""
    if not isinstance(value, str):
        not_spoken(field, value, "must be a text")
    return value
