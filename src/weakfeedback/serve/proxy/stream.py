"""Server-sent events of streamed answers: read and assembled; a stream that breaks off never ends cleanly."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import orjson

from weakfeedback.serve.limits import is_deep
from weakfeedback.serve.proxy.answers import ModelAnswer, logprobs_of
from weakfeedback.serve.proxy.prices import Tokens, tokens_of

LONGEST_EVENT = 1 << 20  # bytes


class BrokenStream(Exception):
    """A stream that is not a valid stream of chunks; the message is for clients."""


class EventReader:
    """Splits arriving bytes into the data of server-sent events.

    >>> reader = EventReader()
    >>> list(reader.feed(b": hello\\n\\ndata: 1\\r\\n\\r\\ndata: 2\\ndata: 3\\n")), list(reader.feed(b"\\n"))
    ([b'1'], [b'2\\n3'])
    """

    def __init__(self) -> None:
        self._rest = bytearray()  # bytes of an incomplete line
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Take further bytes and yield the events that they complete; BrokenStream if one is too long."""
        self._rest += piece
        start = 0
        while (end := self._rest.find(b"\n", start)) >= 0:
            line = bytes(self._rest[start:end]).rstrip(b"\r")
            start = end + 1
            if line:
                self._take(line)
            elif self._data:
                event, self._data, self._size = b"\n".join(self._data), [], 0
                yield event
        del self._rest[:start]
        if len(self._rest) + self._size > LONGEST_EVENT:
            raise BrokenStream("an event is too long")

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            value = value.removeprefix(b" ")
            self._data.append(value)
            self._size += len(value)


class Assembly:
    """Assembles the chunks of one streamed answer.

    ``finished`` is set once a finish reason has arrived. ``characters`` is the number received so far. ``tokens`` come
    from the usage, in whichever chunk it is.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._tools: dict[int, tuple[list[str], list[str]]] = {}
        self._custom = set[int]()  # tools whose input is a text
        self._logprobs: list[float] = []
        self.finished = False
        self.characters = 0
        self.tokens: Tokens | None = None

    def take(self, chunk: dict[str, Any]) -> None:
        """Add one chunk; BrokenStream if it does not have the form of one."""
        tokens = tokens_of(chunk.get("usage"))
        if tokens is not None:
            self.tokens = tokens
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            raise BrokenStream("a chunk has no choices")
        for choice in choices:
            try:
                self._choice(choice)
            except (AttributeError, TypeError, KeyError, ValueError):
                raise BrokenStream("a chunk is malformed") from None

    def _choice(self, choice: dict[str, Any]) -> None:
        if choice.get("finish_reason") is not None:
            self.finished = True
        if choice.get("index", 0) != 0:
            self.characters += len(text_in(choice.get("delta") or {}, "content"))
            return
        delta = choice.get("delta") or {}
        for name, parts in (("content", self._text), ("refusal", self._refusal)):
            parts.append(text_in(delta, name))
            self.characters += len(parts[-1])
        for call in delta.get("tool_calls") or ():
            index = int(call.get("index", 0))
            name_parts, arguments = self._tools.setdefault(index, ([], []))
            function = call.get("function") or call.get("custom") or {}
            if call.get("custom"):
                self._custom.add(index)
            name_parts.append(text_in(function, "name"))
            arguments.append(text_in(function, "input" if call.get("custom") else "arguments"))
            self.characters += len(name_parts[-1]) + len(arguments[-1])
        if choice.get("logprobs"):
            self._logprobs += logprobs_of(choice["logprobs"])

    def answer(self) -> ModelAnswer:
        """Return the answer."""
        found = self._logprobs
        score = math.exp(min(0.0, sum(found) / len(found))) if found else None
        tools = tuple(
            ("".join(name), json.dumps("".join(given)) if index in self._custom else "".join(given))
            for index, (name, given) in sorted(self._tools.items())
        )
        return ModelAnswer("".join(self._text) or "".join(self._refusal), tools, score)


def text_in(table: dict[str, Any], name: str) -> str:
    """Return a text of a chunk, "" if it is not there; ValueError if it is something else."""
    found = table.get(name)
    if found is not None and not isinstance(found, str):
        raise ValueError(f"{name} is no text")
    return found or ""


def parsed(data: bytes) -> dict[str, Any]:
    """Return the chunk in the data of an event; BrokenStream if it is not a chunk."""
    try:
        chunk = orjson.loads(data)
    except orjson.JSONDecodeError:
        raise BrokenStream("a chunk is malformed") from None
    if not isinstance(chunk, dict) or is_deep(data, chunk):
        raise BrokenStream("a chunk is malformed")
    return chunk


def chunks_of(completion: dict[str, Any], with_usage: bool) -> Iterator[dict[str, Any]]:
    """Turn a plain answer into chunks, for a client that wanted a stream."""
    head: dict[str, Any] = {
        key: completion[key] for key in ("id", "created", "model", "system_fingerprint") if key in completion
    }
    head["object"] = "chat.completion.chunk"
    for choice in completion["choices"]:
        message = dict(choice["message"])
        index = choice.get("index", 0)
        calls = message.get("tool_calls")
        if calls:
            message["tool_calls"] = [{**call, "index": k} for k, call in enumerate(calls)]
        delta = {key: value for key, value in message.items() if value is not None}
        first: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": None}
        if choice.get("logprobs") is not None:
            first["logprobs"] = choice["logprobs"]
        yield {**head, "choices": [first]}
        last = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
        yield {**head, "choices": [last]}
    if with_usage and completion.get("usage") is not None:
        yield {**head, "choices": [], "usage": completion["usage"]}
