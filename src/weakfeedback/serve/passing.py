"""Requests that reach an instance which does not own their learner: passed on to the owner, streams too.

The owner checks the token and answers; whoever passes a request on has checked host and origin, and says so by a secret
that those who share the store have in common. A request is passed on once: if it meets no owner either, that is told to
the first instance, which looks again for a few seconds and then answers 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from weakfeedback.journal.shards import Member
from weakfeedback.plaintext import one_line
from weakfeedback.serve.line import Answer, AnsweringLine, AskingLine, NoLine
from weakfeedback.serve.models import Problem
from weakfeedback.serve.sharing import PATIENCE, PAUSE, Sharing, moving

PASSED = b"x-weakfeedback-passed"
OWNER = b"x-weakfeedback-owner"  # tells clients which instance to ask next time
LARGEST = 16 << 20  # bytes of a body
NOT_HERE = 421  # how an instance says that it does not own the learner of a request that was passed on
PATH = re.compile(r"/(?:v1/)?learners/([a-z0-9][a-z0-9_-]{0,63})(?:/.*)?")
LIST = "/v1/learners"
# of one connection, made anew here, or added by the gate of this instance
OWN = ("connection", "keep-alive", "transfer-encoding", "x-request-id", "access-control-allow-origin")
OWN_BYTES = frozenset(name.encode() for name in OWN) | {PASSED}
TRACED = frozenset((b"traceparent", b"tracestate"))
AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class Passing:
    """Passes requests on to those who share a store."""

    def __init__(self, sharing: Sharing, read_body: Callable[..., Any]) -> None:
        self._sharing, self._read_body = sharing, read_body
        self._sessions: dict[int, aiohttp.ClientSession] = {}
        self._closing: set[asyncio.Task[Any]] = set()
        self._lines: dict[int, AskingLine | None] = {}  # None where none is made
        self._making: dict[int, asyncio.Task[Any]] = {}
        self._asked: set[AnsweringLine] = set()
        sharing.gone.append(self._forget)

    def is_passed(self, headers: dict[bytes, bytes]) -> bool:
        """Whether another instance has passed a request on."""
        given = headers.get(PASSED)
        return given is not None and hmac.compare_digest(given, self._sharing.secret)

    def is_refused(self, answer: Answer) -> bool:
        """Whether another instance says that it does not own the learner of a request that was passed on."""
        return answer[0] == NOT_HERE and PASSED in answer[1]

    def is_here(self, name: str | None) -> bool:
        """Whether this instance owns a learner, or a request is about none."""
        return name is None or self._sharing.is_here(name)

    async def route(self, scope: Any, receive: Any, send: Any) -> Any:
        """Return how to receive a request that is answered here; None if another instance has answered it."""
        path = scope["path"]
        if path == LIST and scope["method"] == "GET" and not scope["weakfeedback.passed"]:
            return await self._gather(scope, receive, send)
        found = PATH.fullmatch(path)
        if found is None:
            return receive
        return await self.pass_on(found[1], scope, receive, send, watch=path.endswith("/live"))

    async def pass_on(
        self,
        name: str,
        scope: Any,
        receive: Any,
        send: Any,
        body: bytes | None = None,
        watch: bool = False,
    ) -> Any:
        """Let the owner of a learner answer; return how to receive the request if that is this instance, else None.

        With ``watch`` the answer ends as soon as the client leaves.
        """
        sharing, headers = self._sharing, scope["weakfeedback.headers"]
        if sharing.is_here(name):
            return receive if body is None else again(body, receive)
        end = time.monotonic() + PATIENCE
        if scope["weakfeedback.passed"]:
            while sharing.is_coming(name) and time.monotonic() < end:
                await asyncio.sleep(PAUSE)
            if sharing.is_here(name):
                return receive if body is None else again(body, receive)
            await send({"type": "http.response.start", "status": NOT_HERE, "headers": [(PASSED, b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return None
        scope.setdefault("weakfeedback.route", "passed on")
        scope["weakfeedback.learner"] = name
        if "weakfeedback.ended" in scope:
            raise _ended("ConnectionError")
        if body is None:
            body = await self._read_body(receive, headers, LARGEST)
        while True:
            owner = await sharing.find(name, end)
            if owner is None:
                return again(body, receive)
            work = self._copy(owner, scope, send, body)
            if await (work if not watch else _unless_left(work, receive)):
                return None
            if time.monotonic() >= end:
                raise moving(name)
            await asyncio.sleep(PAUSE)

    def line_to(self, path: str) -> tuple[AskingLine, str, tuple[bytes, bytes]] | None:
        """Return the line to the owner of the learner of a path, its name, and the header that tells the owner.

        None if this is the owner, or there is no line yet.
        """
        found = PATH.fullmatch(path)
        owner = None if found is None else self._sharing.owner(found[1])
        if found is None or owner is None:
            return None
        line = self._lines.get(owner.id)
        if line is not None and not line.is_left and not line.transport.is_closing():
            return line, found[1], (OWNER, owner.address.encode())
        if (line is not None or owner.id not in self._lines) and owner.id not in self._making:
            self._making[owner.id] = asyncio.get_running_loop().create_task(self._make_line(owner))
        return None

    async def _make_line(self, owner: Member) -> None:
        header = b"%s: %s" % (PASSED, self._sharing.secret)
        try:
            with contextlib.suppress(OSError):  # later, perhaps
                try:
                    self._lines[owner.id] = await AskingLine.make(owner.address, header)
                except NoLine:
                    self._lines[owner.id] = None
        finally:
            del self._making[owner.id]

    def answer_line(
        self, gate: Any, app: Any, tasks: set[asyncio.Task[Any]], scope: Any, transport: Any
    ) -> None:
        """Let ``gate`` or else ``app`` answer the requests of another instance that come over a line."""
        AnsweringLine(gate.answer_short, app, tasks, scope, self._asked).connection_made(transport)

    def leave(self) -> None:
        """Ask the others for no more requests over their lines."""
        for asked in self._asked:
            asked.leave()

    async def _copy(self, owner: Member, scope: Any, send: Any, body: bytes) -> bool:
        """Send the answer of another instance; False if it was not reached, or is not the owner."""
        begun = False
        try:
            async with self._ask(owner, scope, body) as answer:
                if answer.status == NOT_HERE and PASSED.decode() in answer.headers:
                    return False
                headers = [
                    (name.lower(), value)
                    for name, value in answer.raw_headers
                    if name.decode("latin-1").lower() not in OWN
                ]
                if answer.status < 400:
                    headers.append((OWNER, owner.address.encode()))
                await send({"type": "http.response.start", "status": answer.status, "headers": headers})
                begun = True
                async for piece in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                return True
        except aiohttp.ClientConnectorError:
            return False
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if begun:
                raise
            raise _ended(type(error).__name__) from None

    async def tell(self, name: str, path: str, told: dict[str, Any]) -> int | None:
        """Tell the owner of a learner something of our own; return the status of its answer, None if there is none."""
        owner = self._sharing.owner(name)
        found = None if owner is None else await self._post(owner, path, orjson.dumps(told))
        return None if found is None else found[0]

    async def tell_all(self, path: str) -> None:
        """Tell all others something of our own; Problem if one refuses or is not reached."""
        others = await self._sharing.others()
        failed = [one for one in await asyncio.gather(*(self._tell(one, path) for one in others)) if one]
        if failed:
            words = "done here, but not everywhere: " + "; ".join(one.detail for one in failed)
            if any(one.code == "invalid" for one in failed):
                raise Problem("invalid", words)
            raise Problem("moving", words, retry_after=1)

    async def _tell(self, member: Member, path: str) -> Problem | None:
        found = await self._post(member, path)
        if found is None:
            return Problem("moving", f"{member.address} was not reached")
        status, body = found
        if status < 300:
            return None
        said = body.decode("utf-8", "replace")
        with contextlib.suppress(ValueError, TypeError, LookupError):
            said = str(orjson.loads(said)["detail"])
        return Problem("invalid", f"{member.address} says {status}: {one_line(said, 300)}")

    async def _post(self, member: Member, path: str, body: bytes = b"") -> tuple[int, bytes] | None:
        """Return the status and the body of an answer to something of our own; None if there is none."""
        headers = {PASSED.decode(): self._sharing.secret.decode()}
        if body:
            headers["content-type"] = "application/json"
        limit = aiohttp.ClientTimeout(total=PATIENCE)
        try:
            async with self._session(member).post(
                member.address + path,
                data=body or None,
                headers=headers,
                timeout=limit,
                allow_redirects=False,
            ) as answer:
                return answer.status, await answer.read()
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    def _session(self, owner: Member) -> aiohttp.ClientSession:
        session = self._sessions.get(owner.id)
        if session is None:
            session = self._sessions[owner.id] = aiohttp.ClientSession(
                # servers close idle ones after 5 s
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=3.0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=1.0),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                skip_auto_headers=AUTOMATIC,
            )
        return session

    def _ask(self, owner: Member, scope: Any, body: bytes) -> Any:
        headers = [*self._headers(scope), (PASSED, self._sharing.secret)]
        sent = [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in headers
            if name != b"content-length"
        ]
        address = owner.address + quote(scope["path"])
        if scope["query_string"]:
            address += "?" + scope["query_string"].decode("latin-1")
        return self._session(owner).request(
            scope["method"],
            URL(address, encoded=True),
            headers=sent,
            data=body or None,
            allow_redirects=False,
        )

    def head(self, scope: Any) -> list[bytes]:
        """Return what a line carries of a request beside its body."""
        head = [scope["path"].encode(), scope["query_string"]]
        for pair in self._headers(scope):
            head += pair
        return head

    def _headers(self, scope: Any) -> list[tuple[bytes, bytes]]:
        """Return the headers of a request as they are sent on."""
        trace = scope["weakfeedback.trace"]
        replaced = OWN_BYTES if trace is None else OWN_BYTES | TRACED
        headers = [pair for pair in scope["headers"] if pair[0] not in replaced]
        headers.append((b"x-request-id", scope["weakfeedback.number"]))
        if trace is not None:
            headers += [(name.encode(), value.encode()) for name, value in trace.headers().items()]
        return headers

    async def _gather(self, scope: Any, receive: Any, send: Any) -> Any:
        """List the learners of all instances; the first answer that is none is sent instead."""
        asked = [member for member in self._sharing.members.values() if member.address]
        if len(asked) < 2:
            return receive

        async def ask(member: Member) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
            async with self._ask(member, scope, b"") as answer:
                kept = [(name.lower(), value) for name, value in answer.raw_headers]
                return answer.status, kept, await answer.read()

        scope.setdefault("weakfeedback.route", LIST)
        try:
            found = await asyncio.gather(*(ask(member) for member in asked))
        except (aiohttp.ClientError, OSError, TimeoutError):
            words = "not all instances can be reached now: repeat the request"
            raise Problem("moving", words, retry_after=1) from None
        status, headers, body = next((one for one in found if one[0] != 200), found[0])
        if status == 200:
            lists = dict[str, list[Any]]()
            for *_, body in found:
                for field, learners in orjson.loads(body).items():
                    lists.setdefault(field, []).extend(learners)
            body = orjson.dumps({f: sorted(them, key=lambda one: one["name"]) for f, them in lists.items()})
        headers = [
            pair for pair in headers if pair[0] in (b"content-type", b"www-authenticate", b"retry-after")
        ]
        headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return None

    def _forget(self, member: int) -> None:
        """Close the connections to a member that has ended; requests that wait for it fail."""
        session, line = self._sessions.pop(member, None), self._lines.pop(member, None)
        if line is not None:
            line.transport.abort()
        if session is not None:
            task = asyncio.get_running_loop().create_task(session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all connections."""
        for member in self._sessions.keys() | self._lines.keys():
            self._forget(member)
        for asked in self._asked:
            asked.transport.abort()
        await asyncio.gather(*self._closing, *self._making.values(), return_exceptions=True)


def _ended(how: str) -> Problem:
    """Return the problem of a request whose owner ended before it had answered."""
    words = f"the instance that owns the learner ended: repeat the request ({how})"
    return Problem("moving", words, retry_after=1)


def again(body: bytes, receive: Any) -> Any:
    """Return how to receive a request whose body was read."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def received() -> Any:
        return messages.pop() if messages else await receive()

    return received


async def _unless_left(work: Any, receive: Any) -> Any:
    """Return what ``work`` returns; cancel it when the client has closed the connection."""

    async def left() -> bool:
        while (await receive())["type"] != "http.disconnect":
            pass
        return True

    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(left())]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0] in done else True
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
