"""Responses to the client: a whole answer or a stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import orjson

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Reply:
    """Sends one answer."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def whole(self, body: Any, headers: Mapping[str, str]) -> None:
        """Send a JSON body."""
        data = orjson.dumps(body)
        kind = {"content-type": "application/json", "content-length": str(len(data))}
        await self._start({**kind, **headers})
        await self.end(data)

    async def stream(self, headers: Mapping[str, str]) -> None:
        """Begin a stream of events."""
        kind = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}
        await self._start({**kind, **headers})

    async def piece(self, data: bytes) -> None:
        """Send a piece of a stream."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes) -> None:
        """Send the last piece."""
        await self._send({"type": "http.response.body", "body": data})

    async def _start(self, headers: Mapping[str, str]) -> None:
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        pairs.append((b"cache-control", b"no-store"))
        await self._send({"type": "http.response.start", "status": 200, "headers": pairs})


async def until_left(receive: Receive) -> None:
    """Wait until the client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
