"""A line between two instances: many short requests over one connection, and all that are ready in one write.

It begins as an HTTP request that asks for an upgrade. Then there are frames, in both directions: a request with its
number, and the answer with the same one, in any order.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import struct
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger("weakfeedback.serve")
UPGRADE = b"weakfeedback-line"
ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: %s\r\n\r\n" % UPGRADE
FRAME = struct.Struct("!IIIH")  # bytes of the head, bytes of the body, number, status of an answer
LEAVE = 0  # the number by which whoever answers says that no more requests should come
LARGEST = 64 << 20  # bytes of a frame
SHORT = 1 << 16  # bytes of the body of a request that goes over a line
PATIENCE = 1.0  # seconds for a line to be made

Pairs = list[tuple[bytes, bytes]]
Answer = tuple[int, list[bytes], bytes]  # status, headers one after the other, body
Short = Callable[..., bool]  # `Gate.answer_short`


class NoLine(OSError):
    """Whoever is at an address makes no lines; requests can be sent one by one."""


class Frames(asyncio.Protocol):
    """Reads frames, and writes those of one iteration of the loop together."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: list[bytes] = []
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        """Take the connection."""
        self.transport = transport

    def put(self, number: int, status: int, head: Iterable[bytes], body: bytes) -> None:
        """Write a frame, soon."""
        joined = b"\n".join(head)
        if not self._ready:
            self._loop.call_soon(self._write)
        self._ready += (FRAME.pack(len(joined), len(body), number, status), joined, body)

    def _write(self) -> None:
        ready, self._ready = self._ready, []
        if not self.transport.is_closing():
            self.transport.write(b"".join(ready))

    def data_received(self, data: bytes) -> None:
        """Take whole frames, and keep the rest."""
        if self._rest:
            data = self._rest + data
        place, size = 0, len(data)
        while size - place >= FRAME.size:
            head, body, number, status = FRAME.unpack_from(data, place)
            middle = place + FRAME.size + head
            if head + body > LARGEST:
                self.transport.abort()
                return
            if size < middle + body:
                break
            self.taken(
                number, status, data[middle - head : middle].split(b"\n"), data[middle : middle + body]
            )
            place = middle + body
        self._rest = data[place:]

    def taken(self, number: int, status: int, head: list[bytes], body: bytes) -> None:
        """Do something with a frame."""
        raise NotImplementedError


def pairs_of(flat: list[bytes], start: int = 0) -> Pairs:
    """Return headers that were written one after the other."""
    return list(zip(flat[start::2], flat[start + 1 :: 2]))


class AnsweringLine(Frames):
    """The end of an instance that is asked: it lets the application answer."""

    def __init__(
        self, short: Short, app: Any, tasks: set[asyncio.Task[Any]], like: Any, lines: set[AnsweringLine]
    ) -> None:
        super().__init__()
        self._short, self._app, self._tasks, self._lines = short, app, tasks, lines
        self._like = {key: like[key] for key in ("type", "asgi", "server", "client", "scheme", "root_path")}

    def connection_made(self, transport: Any) -> None:
        """Accept the line."""
        super().connection_made(transport)
        self._lines.add(self)
        transport.set_protocol(self)
        transport.write(ACCEPTED)

    def connection_lost(self, error: Exception | None) -> None:
        """Forget the line."""
        self._lines.discard(self)

    def taken(self, number: int, status: int, head: list[bytes], body: bytes) -> None:
        """Let the application answer a request."""
        path, query = head[:2]
        scope = {
            **self._like,
            "http_version": "1.1",
            "method": "POST",
            "path": path.decode(),
            "query_string": query,
            "headers": pairs_of(head, 2),
            "state": {},
        }

        def write(
            status: int | None = None, headers: Iterable[tuple[bytes, bytes]] = (), made: bytes = b""
        ) -> None:
            if status is not None:
                self.put(number, status, [part for pair in headers for part in pair], made)
                return
            scope["weakfeedback.passed"] = True
            task = self._loop.create_task(self._run(number, scope, body))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        if not self._short(scope, body, self._tasks, write, True):
            write()

    async def _run(self, number: int, scope: Any, body: bytes) -> None:
        begun: dict[str, Any] = {}
        pieces = list[bytes]()
        given, is_answered = [body], False

        async def receive() -> dict[str, Any]:
            if given:
                return {"type": "http.request", "body": given.pop(), "more_body": False}
            await self._loop.create_future()  # nobody says here that a client has left
            raise AssertionError

        async def send(message: Any) -> None:
            nonlocal is_answered
            if message["type"] == "http.response.start":
                begun.update(message)
                return
            pieces.append(message.get("body", b""))
            if not message.get("more_body", False):
                is_answered = True
                flat, whole = [part for pair in begun.get("headers", ()) for part in pair], b"".join(pieces)
                if b"content-length" not in flat:
                    flat += (b"content-length", b"%d" % len(whole))
                self.put(number, begun["status"], flat, whole)

        try:
            await self._app(scope, receive, send)
        except Exception:
            log.exception("a request of another instance failed")
        finally:
            if not is_answered:  # nobody may wait for ever
                self.put(number, 500, (b"content-length", b"0"), b"")

    def leave(self) -> None:
        """Ask for no more requests."""
        self.put(LEAVE, 0, (), b"")


class AskingLine(Frames):
    """The end of an instance that asks."""

    def __init__(self) -> None:
        super().__init__()
        self.open: asyncio.Future[None] = self._loop.create_future()
        self.is_left = False  # it takes no more requests
        self._numbers = itertools.count(LEAVE + 1)
        self._waiting: dict[int, Callable[[Answer | None], None]] = {}

    @classmethod
    async def make(cls, address: str, header: bytes) -> AskingLine:
        """Make a line to an instance; OSError if it is not reached in time, NoLine if it makes none."""
        parts = urlsplit(address)
        name, secure = str(parts.hostname), parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(PATIENCE):
            transport, line = await loop.create_connection(cls, name, port, ssl=secure or None)
        try:
            asked = b"GET / HTTP/1.1\r\nhost: %s\r\nconnection: upgrade\r\nupgrade: %s\r\n%s\r\n\r\n"
            transport.write(asked % (parts.netloc.encode(), UPGRADE, header))
            async with asyncio.timeout(PATIENCE):
                await line.open
        finally:
            if not line.open.done() or line.open.cancelled() or line.open.exception() is not None:
                transport.abort()
        return line

    def data_received(self, data: bytes) -> None:
        """Take the answer to the request for a line, then frames."""
        if self.open.done():
            super().data_received(data)
            return
        self._rest += data
        if b"\r\n\r\n" in self._rest:
            rest, self._rest = self._rest, b""
            if rest.startswith(ACCEPTED):
                self.open.set_result(None)
                super().data_received(rest[len(ACCEPTED) :])
            else:
                self.open.set_exception(NoLine("no line is made here"))

    def ask(self, head: Iterable[bytes], body: bytes, then: Callable[[Answer | None], None]) -> None:
        """Send a request; ``then`` gets the status, the headers and the body of the answer, None if the line ends."""
        number = next(self._numbers)
        self._waiting[number] = then
        self.put(number, 0, head, body)

    def taken(self, number: int, status: int, head: list[bytes], body: bytes) -> None:
        """Take an answer."""
        if number == LEAVE:
            self.is_left = True
        else:
            self._waiting.pop(number)((status, head, body))
        if self.is_left and not self._waiting:
            self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Tell all who wait."""
        self.is_left = True
        if not self.open.done():
            self.open.set_exception(NoLine("no line is made here"))
        waiting, self._waiting = self._waiting, {}
        for then in waiting.values():
            then(None)
