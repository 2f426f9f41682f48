"""Authorisation: tokens and their scopes, host names, the origin of requests, the page's cookie."""

from __future__ import annotations

import asyncio
import functools
import hmac
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from ipaddress import ip_address
from typing import Any

from weakfeedback.serve.models import Problem
from weakfeedback.serve.usage import Usage

LEVELS = {"none": 0, "read": 1, "use": 2, "admin": 3}
SHORTEST = 16  # minimum length of a token, in characters
COOKIE = "weakfeedback"
SESSION = 12 * 3600  # lifetime of a cookie, in seconds
FAILURES, PERIOD, DELAY = 10, 60.0, 1.0  # this many failures within this time delay the next ones
ADDRESSES = 10_000  # whose failures are counted
WAITING = 500  # requests that wait at once for having failed
LOOPBACK = ("127.0.0.1", "::1", "localhost")
SAFE = ("GET", "HEAD", "OPTIONS")
FORM = b"x-weakfeedback-form"  # the header in which the page proves that a change comes from it
SINGLE = (b"host", b"authorization", b"x-api-key")  # headers of which a request must not have two


@dataclass(frozen=True)
class Token:
    """A token by its digest, and what it allows."""

    name: str
    digest: bytes
    level: int
    expires: float = math.inf  # seconds since 1970
    per_minute: int | None = None  # requests
    per_day: float | None = None  # money

    @classmethod
    def of(cls, name: str, secret: str, scope: str, **limits: Any) -> Token:
        """Return a token for its secret; the secret is not kept."""
        if len(secret) < SHORTEST:
            raise ValueError(f"a token must have at least {SHORTEST} characters, got {len(secret)}")
        return cls(name, sha256(secret.encode()).digest(), LEVELS[scope], **limits)

    @property
    def scope(self) -> str:
        """The name of what it allows."""
        return next(name for name, level in LEVELS.items() if level == self.level)

    @property
    def sign(self) -> str:
        """What a cookie names it by."""
        return self.digest.hex()[:16]

    def is_over(self) -> bool:
        """Whether it has expired."""
        return time.time() >= self.expires


class Auth:
    """Checks requests. Without tokens everything is allowed, which is meant only for a loopback address."""

    def __init__(
        self,
        tokens: Iterable[Token] = (),
        hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        open_metrics: bool = False,
    ) -> None:
        self.tokens = list(tokens)
        self.usage = Usage()
        self.open_metrics = open_metrics  # whether /metrics can be read without a token
        self.hosts = {name.lower() for name in (*LOOPBACK, "[::1]", *hosts)}
        self.origins = set(origins)
        self._salt = secrets.token_bytes(32)  # of the signatures of cookies
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._waiting = 0

    def check_single(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Reject a request with two host names or two credentials: whoever stands in front may have read the other."""
        names = [name for name, _ in headers]
        for name in SINGLE:
            if names.count(name) > 1:
                raise Problem("bad_request", f"there must be one header {name.decode().title()}, got several")

    def check_host(self, headers: dict[bytes, bytes]) -> None:
        """Reject host names other than this service's (DNS rebinding)."""
        name = _name_of(headers.get(b"host", b""))
        if name not in self.hosts:
            raise Problem("unknown_host", f"this service does not answer to the name {name!r:.80}")

    def check_origin(self, method: str, headers: dict[bytes, bytes]) -> None:
        """Reject changes requested by another site's page."""
        origin = headers.get(b"origin")
        if origin is None or method in SAFE:
            return
        text = origin.decode("latin-1").lower()
        if (
            text not in self.origins
            and text.partition("://")[2] != headers.get(b"host", b"").decode("latin-1").lower()
        ):
            raise Problem("foreign_origin", "the request comes from a page of another site")

    def replace(self, tokens: Iterable[Token]) -> None:
        """Take other tokens from now on; those that are gone, and their cookies, are refused."""
        new = list(tokens)
        if self.tokens and not new:
            raise ValueError("there would be no token left, and everybody could do everything")
        self.tokens = new

    def share(self, salt: bytes) -> None:
        """Accept the cookies for our tokens of all who have the same ``salt``."""
        self._salt = salt

    def level(self, headers: dict[bytes, bytes]) -> int | None:
        """Return the level of the request; None if it has no credentials, or invalid ones."""
        if not self.tokens:
            return LEVELS["admin"]
        token = self._token(headers)
        return None if token is None or token.is_over() else token.level

    def _token(self, headers: dict[bytes, bytes]) -> Token | None:
        """Return the token of a request, which may have expired; None if it has none, or an unknown one."""
        given = headers.get(b"authorization")
        if given is not None:
            kind, _, secret = given.partition(b" ")
            return self._token_of(secret.strip()) if kind.lower() == b"bearer" else None
        if b"x-api-key" in headers:  # where Anthropic's clients put it
            return self._token_of(headers[b"x-api-key"].strip())
        cookie = headers.get(b"cookie")
        value = None if cookie is None else _cookie(cookie.decode("latin-1"))
        return None if value is None else self._token_of_cookie(value)

    def _token_of(self, secret: bytes) -> Token | None:
        digest, found = sha256(secret).digest(), None
        for token in self.tokens:  # all of them, so that timing reveals nothing
            if hmac.compare_digest(digest, token.digest):
                found = token
        return found

    async def check(self, scope: Any, headers: dict[bytes, bytes], needed: str, spends: bool = False) -> int:
        """Return the level of the request, and count it for its token.

        Raises 401 or 403, with a delay after many failures from one address, or 429 if the token has reached a limit,
        that of money if the request ``spends`` some.
        """
        if not self.tokens:
            return LEVELS["admin"]
        wanted = LEVELS[needed]
        if wanted == 0:
            return self.level(headers) or 0
        token = self._token(headers)
        if token is None:
            await self.fail(scope, headers)
            raise Problem("unauthorized", "a token is needed: Authorization: Bearer TOKEN")
        if token.is_over():
            raise Problem("unauthorized", "the token has expired")
        if token.level < wanted:
            raise Problem("forbidden", "the token does not allow this")
        by_token = b"authorization" in headers or b"x-api-key" in headers
        if scope["method"] not in SAFE and not by_token and not self._is_of_page(headers):
            words = "a browser's cookie changes nothing without the page's own header: load the page again"
            raise Problem("forbidden", words)
        self.usage.ask(token.name, token.per_minute, token.per_day if spends else None)
        scope["weakfeedback.token"] = token.name
        return token.level

    async def fail(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        """Count a failure; after many from one address, wait."""
        address, moment = origin_of(scope, headers), time.monotonic()
        since, count = self._failures.pop(address, (moment, 0))
        if moment - since > PERIOD:
            since, count = moment, 0
        self._failures[address] = since, count + 1
        while len(self._failures) > ADDRESSES:
            self._failures.popitem(last=False)
        if count >= FAILURES:
            if self._waiting >= WAITING:
                raise Problem("too_many_requests", "too many requests have failed", retry_after=1)
            scope.get("weakfeedback.step_aside", lambda: None)()
            self._waiting += 1
            try:
                await asyncio.sleep(DELAY)
            finally:
                self._waiting -= 1

    # -- the page's cookie

    def session(self, secret: str) -> str | None:
        """Return the value of a cookie for the holder of a token; None if the token is unknown."""
        token = self._token_of(secret.encode())
        if token is None or token.is_over():
            return None
        text = f"{token.sign}.{int(time.time()) + SESSION}"
        return f"{text}.{self._sign(token, text)}"

    def form_of(self, cookie: str) -> str:
        """Return what the page must send with a change, for the holder of a cookie; no other site can know it.

        Empty if the cookie is none of ours.
        """
        token = self._token_of_cookie(cookie)
        return "" if token is None else self._sign(token, f"form {cookie}")

    def _is_of_page(self, headers: dict[bytes, bytes]) -> bool:
        value = _cookie(headers.get(b"cookie", b"").decode("latin-1"))
        given = headers.get(FORM, b"").decode("latin-1").encode("ascii", "replace").decode()
        expected = "" if value is None else self.form_of(value)
        return expected != "" and hmac.compare_digest(expected, given)

    def _token_of_cookie(self, value: str) -> Token | None:
        signed, _, signature = value.rpartition(".")
        sign, _, until = signed.partition(".")
        token = next((token for token in self.tokens if token.sign == sign), None)
        if token is None:
            return None
        if not hmac.compare_digest(self._sign(token, signed), signature.encode("ascii", "replace").decode()):
            return None
        return token if time.time() < int(until) else None

    def _sign(self, token: Token, text: str) -> str:
        """Return the signature of a text for the holder of a token: it is good as long as there is the token."""
        return hmac.new(self._salt + token.digest, text.encode("latin-1", "replace"), sha256).hexdigest()


@functools.lru_cache(64)
def _name_of(host: bytes) -> str:
    """Return the name in a Host header, without the port."""
    text = host.decode("latin-1").lower()
    return text.rsplit(":", 1)[0] if text.rpartition(":")[2].isdigit() else text


def _cookie(text: str) -> str | None:
    """Return the value of the page's cookie."""
    parts = (part.strip().partition("=") for part in text.split(";"))
    return next((value for name, _, value in parts if name == COOKIE), None)


def origin_of(scope: Any, headers: dict[bytes, bytes]) -> str:
    """Return the address whose failures count together.

    That of the connection; but a reverse proxy on this machine connects for many, and appends for whom to
    X-Forwarded-For. Only its own entry, the last, is believed, and only to tell strangers apart.
    """
    address = str((scope.get("client") or ("",))[0])
    if not _is_loopback(address):
        return address
    last = headers.get(b"x-forwarded-for", b"").decode("latin-1").rpartition(",")[2].strip()
    return f"{address} for {last[:64]}" if last else address


def _is_loopback(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return address in LOOPBACK
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback
