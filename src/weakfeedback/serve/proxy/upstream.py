"""Calls of upstream models: addresses and keys only from the configuration, limits on size and time, retries."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import random
import re
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from weakfeedback.environment import secret_in
from weakfeedback.plaintext import one_line
from weakfeedback.serve.limits import is_deep
from weakfeedback.serve.proxy.stream import BrokenStream, EventReader, parsed
from weakfeedback.serve.trace import CURRENT, NoSpan, Span
from weakfeedback.toml import Positive, Table

if TYPE_CHECKING:
    from weakfeedback.serve.telemetry import Telemetry

LARGEST = 16 << 20  # maximum bytes of an answer
LONGEST_WAIT = 10.0  # maximum seconds of Retry-After to wait
REPEATED = (408, 429, 500, 502, 503, 504)
PASSED_ON = (400, 422)  # the request is wrong, and no other stage would do better
# the key or the model is wrong here: asking again does not help, another stage does
CONFIGURED = (401, 403, 404)
SHARED = 6  # as many characters in a row as in the key are a part of it
MASKED = re.compile(r"(?<![\w-])([\w-]*?)(?:[*\u2022\u25cf\u2026]{2,}|\u2026|\.{3,}|[xX]{4,})([\w-]*)")
# the data of every event with its chunk; the chunk of [DONE] is None
Events = AsyncGenerator[tuple[bytes, dict[str, Any] | None], None]
REMOVED = "[removed]"
LONGEST_ERROR = 4000  # characters of an upstream's error that are looked at
RESTING = "between two attempts"  # what a cancelled call says that was asking nothing then
BACK_OFF = 0.25  # seconds before the first retry, doubled with each


class UpstreamFailed(Exception):
    """A call that failed: ``status`` if the upstream sent one, ``outcome`` in a word, ``again`` if it can be retried.

    ``detail`` is the upstream's own error, without keys and addresses, for statuses that are passed on to clients.
    """

    def __init__(
        self,
        outcome: str,
        status: int | None = None,
        *,
        again: bool = False,
        wait: float | None = None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(outcome)
        self.outcome, self.status, self.again, self.wait, self.detail = outcome, status, again, wait, detail

    @property
    def passed_on(self) -> bool:
        """Whether the client must see the error."""
        return self.status in PASSED_ON


class Timeouts(Table):
    """Limits in seconds: to connect, to the start of a stream, to its next chunk, and in total."""

    connect: Positive = 5.0
    first_byte: Positive = 30.0
    chunk: Positive = 30.0
    total: Positive = 300.0


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """A table ``[upstream.NAME]``, checked. The key itself is in an environment variable, or in a file."""

    name: str
    url: str
    key_env: str | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: int = 2
    key_file: Path | None = None


class PrivateResolver(AbstractResolver):
    """Resolves host names of plain http, and refuses those with a public address."""

    def __init__(self) -> None:
        self._inner = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of a host; OSError if one is public."""
        found = await self._inner.resolve(host, port, family)
        if not all(is_private(entry["host"]) for entry in found):
            raise OSError("plain http is for private addresses only")
        return found

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def is_private(host: str) -> bool:
    """Whether an address belongs to this machine or a private network.

    >>> is_private("127.0.0.1"), is_private("10.1.2.3"), is_private("8.8.8.8"), is_private("169.254.169.254")
    (True, True, False, False)
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or (address.is_private and not address.is_link_local)


def _key_of(settings: UpstreamSettings) -> str:
    """Return the key of an upstream, "" if it needs none."""
    place = f"upstream.{settings.name}.key_"
    if settings.key_file is not None:
        key, place = secret_in(f"{place}file", settings.key_file), f"{place}file: {settings.key_file}"
    elif settings.key_env is not None:
        key = os.environ.get(settings.key_env, "")
        place = f"{place}env: the environment variable {settings.key_env}"
    else:
        return ""
    if not key or not key.isascii() or not key.isprintable():
        raise ValueError(f"{place} must hold the key")
    return key


class Upstream:
    """One model server."""

    def __init__(
        self,
        settings: UpstreamSettings,
        jitter: Callable[[], float] = random.random,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.settings, self._telemetry = settings, telemetry
        self._jitter = jitter
        self._key = _key_of(settings)
        self._session: aiohttp.ClientSession | None = None

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            plain_http = urlsplit(self.settings.url).scheme == "http"
            connector = aiohttp.TCPConnector(
                limit=0, resolver=PrivateResolver() if plain_http else None, keepalive_timeout=30.0
            )
            headers = {"Accept-Encoding": "identity", "User-Agent": "weakfeedback"}
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
            limits = self.settings.timeouts
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers=headers,
                trust_env=False,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=limits.total, sock_connect=limits.connect),
            )
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # -- calls

    async def ask(self, path: str, body: dict[str, Any], failed: Callable[[str], None]) -> dict[str, Any]:
        """Return the JSON object of a plain call; UpstreamFailed after the last retry.

        ``failed`` is called with the outcome of every attempt that is retried.
        """
        found: dict[str, Any] = await self._repeat(path, body, failed, self._ask_once)
        return found

    async def open(self, path: str, body: dict[str, Any], failed: Callable[[str], None]) -> Events:
        """Return the events of a streamed call once its first chunk has arrived; UpstreamFailed if it fails before."""
        found: Events = await self._repeat(path, body, failed, self._open_once)
        return found

    async def _repeat(
        self,
        path: str,
        body: dict[str, Any],
        failed: Callable[[str], None],
        once: Callable[[str, bytes, Span], Awaitable[Any]],
    ) -> Any:
        """Call once, and again while that may help."""
        sent, attempt = orjson.dumps(body), 0
        with self._span(path, body) as span:
            while True:
                try:
                    return await once(path, sent, span)
                except UpstreamFailed as error:
                    wait = error.wait
                    too_long = wait is not None and wait > LONGEST_WAIT
                    if not error.again or attempt >= self.settings.retries or too_long:
                        raise
                    failed(error.outcome)
                back_off = BACK_OFF * 2**attempt * (0.5 + self._jitter())
                try:
                    await asyncio.sleep(back_off if wait is None else wait)
                except asyncio.CancelledError as left:
                    left.args = (RESTING,)  # not a class of its own: limits of time know only this one
                    raise
                attempt += 1

    def _span(self, path: str, body: dict[str, Any]) -> Span:
        if self._telemetry is None:
            return NoSpan()
        return self._telemetry.call(self.settings.name, self.settings.url, path, body)

    async def _ask_once(self, path: str, sent: bytes, span: Span) -> dict[str, Any]:
        try:
            response = await self._post(path, sent, self.settings.timeouts.total)
            try:
                await self._check(response)
                text = await read_limited(response)
            finally:
                if not response.content.at_eof():
                    response.close()
                response.release()
        except aiohttp.ConnectionTimeoutError:
            raise UpstreamFailed("connection", again=True) from None
        except TimeoutError:
            raise UpstreamFailed("timeout") from None
        except (aiohttp.ClientError, OSError):
            raise UpstreamFailed("connection", again=True) from None
        try:
            found = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise UpstreamFailed("malformed", again=True) from None
        if not isinstance(found, dict) or is_deep(text, found):
            raise UpstreamFailed("malformed", again=True)
        span.take(found)
        span.end()
        return found

    async def _open_once(self, path: str, sent: bytes, span: Span) -> Events:
        limits = self.settings.timeouts
        started = monotonic()
        response: aiohttp.ClientResponse | None = None
        try:
            response = await self._post(path, sent, limits.first_byte)
            await self._check(response)
            if not response.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise UpstreamFailed("malformed", again=True)
            events = self._events(response)
            left = limits.first_byte - (monotonic() - started)
            async with asyncio.timeout(max(left, 0.001)):
                first = await anext(events, None)
            if first is None or first[1] is None:
                raise UpstreamFailed("malformed", again=True)
            if "error" in first[1]:
                raise self._told(first[1]["error"])
        except BaseException as error:
            if response is not None:
                response.close()
            if isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError):
                raise UpstreamFailed("timeout") from None
            if isinstance(error, (aiohttp.ClientError, OSError)):
                raise UpstreamFailed("connection", again=True) from None
            if isinstance(error, BrokenStream):
                raise UpstreamFailed("malformed", again=True) from None
            raise
        rest = self._rest(response, first, events, span)
        await anext(rest)  # only a generator that has started closes the response when it is closed
        return rest

    def _told(self, error: Any) -> UpstreamFailed:
        """Return the failure for an error event at the start of a stream: the same as for its status."""
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) else None
        outcome = str(status) if status in CONFIGURED else "error"
        return UpstreamFailed(
            outcome, status, again=status not in PASSED_ON + CONFIGURED, detail=self._scrubbed(error)
        )

    async def _rest(
        self,
        response: aiohttp.ClientResponse,
        first: tuple[bytes, dict[str, Any] | None],
        events: Events,
        span: Span,
    ) -> Events:
        """Yield data and chunk of every event; the last is ``[DONE]`` with None, else BrokenStream is raised."""
        try:
            yield first  # for the caller of ``open``
            span.take(first[1] or {})
            yield first
            async for found in events:
                if found[1] is None:
                    span.end()
                    yield found
                    return
                if "error" in found[1]:
                    raise BrokenStream("the upstream reported an error in the middle of its answer")
                span.take(found[1])
                yield found
            raise BrokenStream("the upstream ended its answer without saying that it is complete")
        except TimeoutError:
            raise BrokenStream("the upstream stopped sending in the middle of its answer") from None
        except (aiohttp.ClientError, OSError):
            raise BrokenStream("the upstream's connection was cut in the middle of its answer") from None
        finally:
            span.end(sys.exception())
            await events.aclose()
            if not response.content.at_eof():
                response.close()  # abort a transfer in progress; a finished connection can be reused
            response.release()

    async def _events(self, response: aiohttp.ClientResponse) -> Events:
        reader, size, limit = EventReader(), 0, self.settings.timeouts.chunk
        while True:
            async with asyncio.timeout(limit):
                piece = await response.content.readany()
            if not piece:
                return
            size += len(piece)
            if size > LARGEST:
                raise BrokenStream("the upstream's answer is too long")
            for data in reader.feed(piece):
                yield (data, None) if data.strip() == b"[DONE]" else (data, parsed(data))

    async def _post(self, path: str, sent: bytes, limit: float) -> aiohttp.ClientResponse:
        trace = CURRENT.get()
        async with asyncio.timeout(limit):
            return await self._client().post(
                self.settings.url.rstrip("/") + path,
                data=sent,
                headers={"Content-Type": "application/json"} | ({} if trace is None else trace.headers()),
                allow_redirects=False,
            )

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        """Raise UpstreamFailed unless the status is 200 and the body is not compressed."""
        if response.status != 200:
            detail = None
            if response.status in PASSED_ON:
                detail = self._scrubbed(await _error_in(response))
            wait = retry_after(response.headers.get("Retry-After"))
            response.close()
            again = response.status in REPEATED
            outcome = "redirect" if 300 <= response.status < 400 else str(response.status)
            raise UpstreamFailed(outcome, response.status, again=again, wait=wait, detail=detail)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise UpstreamFailed("encoded")

    def _scrubbed(self, error: Any) -> dict[str, Any]:
        """Return an upstream's error as OpenAI's clients expect it, without our key or its address."""
        found = error if isinstance(error, dict) else {}
        parts = urlsplit(self.settings.url)
        secrets = [self._key, self.settings.url, parts.netloc, parts.hostname or ""]

        def clean(value: Any, longest: int) -> str | None:
            if not isinstance(value, str):
                return None
            for secret in secrets:
                if secret:
                    value = value.replace(secret, REMOVED)
            return one_line(without_parts(value[:LONGEST_ERROR], self._key), longest)

        message = clean(found.get("message"), 1000) or "the upstream refused the request"
        names = {name: clean(found.get(name), 100) for name in ("type", "param", "code")}
        return {"message": message, **names}


def without_parts(text: str, key: str) -> str:
    """Return a text without parts of a key: its beginning and end around a mask, or several characters in a row.

    >>> without_parts("wrong key sk-secr****6789 (sk-secret-12)", "sk-secret-123456789")
    'wrong key [removed] ([removed])'
    """
    if not key:
        return text

    def unmasked(found: re.Match[str]) -> str:
        head, tail = found[1].lower(), found[2].lower()
        ours = (head and key.lower().startswith(head)) or (tail and key.lower().endswith(tail))
        return REMOVED if ours else found[0]

    parts, at = list[str](), 0
    text = MASKED.sub(unmasked, text)
    while at < len(text):
        end = at + SHARED
        if text[at:end] not in key or end > len(text):
            parts.append(text[at])
            at += 1
            continue
        while end < len(text) and text[at : end + 1] in key:
            end += 1
        parts.append(REMOVED)
        at = end
    return "".join(parts)


async def _error_in(response: aiohttp.ClientResponse) -> Any:
    try:
        found = orjson.loads(await read_limited(response, 1 << 16))
    except (UpstreamFailed, orjson.JSONDecodeError):
        return None
    return found.get("error") if isinstance(found, dict) else None


async def read_limited(response: aiohttp.ClientResponse, most: int = LARGEST) -> bytes:
    """Return the body; UpstreamFailed as soon as it exceeds the limit."""
    if (response.content_length or 0) > most:
        raise UpstreamFailed("too_large")
    pieces, size = [], 0
    while piece := await response.content.readany():
        size += len(piece)
        if size > most:
            raise UpstreamFailed("too_large")
        pieces.append(piece)
    return b"".join(pieces)


def retry_after(value: str | None) -> float | None:
    """Return the seconds requested by a header ``Retry-After``, which is a number or a date.

    >>> retry_after("1.5"), retry_after("soon"), retry_after(None)
    (1.5, None, None)
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time()
        except ValueError:
            return None
    return max(seconds, 0.0) if seconds == seconds else None
