"""Responses to the client: a whole answer, a stream, or an error in OpenAI's form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import orjson

from weakfeedback.serve.proxy.request import Refused

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LARGEST = 16 << 20  # maximum bytes of a request


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


class Reply:
    """Sends one answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def whole(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        """Send a JSON body."""
        data = orjson.dumps(body)
        found = {"content-type": "application/json", "content-length": str(len(data)), **headers}
        await self._start(status, found)
        await self._send({"type": "http.response.body", "body": data})

    async def error(self, refused: Refused) -> None:
        """Send an error, unless a response has started."""
        if not self.started:
            await self.whole(refused.status, {"error": refused.error}, refused.headers)

    async def stream(self, headers: Mapping[str, str]) -> None:
        """Begin a stream of events."""
        await self._start(200, {"content-type": "text/event-stream; charset=utf-8", **headers})

    async def piece(self, data: bytes) -> None:
        """Send a piece of a stream."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """Send the last piece of a stream."""
        await self._send({"type": "http.response.body", "body": data})

    async def _start(self, status: int, headers: Mapping[str, str]) -> None:
        self.started = True
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        pairs.append((b"cache-control", b"no-store"))
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})


async def read_body(receive: Receive, most: int = LARGEST) -> bytes:
    """Return the body of a request; Refused if it is too large, ClientLeft if it never arrives."""
    pieces, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientLeft
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > most:
            raise Refused(413, f"the body must be at most {most >> 20} MiB", "too_large")
        if not message.get("more_body"):
            return b"".join(pieces)


async def until_left(receive: Receive) -> None:
    """Wait until the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
