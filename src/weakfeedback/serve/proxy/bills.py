"""The bills of the proxy on their way to the store.

Each has a key. One that cannot be stored waits here, and is sent every second to whoever owns its learner by then. As
the commit of an earlier attempt may have succeeded all the same, its key is looked for first.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import Counter
from dataclasses import dataclass
from typing import Any

from weakfeedback.serve.api import read_json
from weakfeedback.serve.app import read_body
from weakfeedback.serve.invoice import Invoice, add_paid, money_of
from weakfeedback.serve.limits import BODY_LIMIT
from weakfeedback.serve.models import Problem
from weakfeedback.serve.operations.lookup import checked_key
from weakfeedback.serve.proxy.calls import stop
from weakfeedback.serve.proxy.decider import BILLS, Decider, Unavailable
from weakfeedback.serve.service import Service

log = logging.getLogger("weakfeedback.serve")
PERIOD = 1.0  # seconds between two attempts
MOST = 100_000  # bills that wait
TOGETHER = 200  # bills that are sent at the same time


class Bills:
    """Stores bills, and keeps those that cannot be stored now."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._waiting: dict[str, tuple[str, dict[str, Any]]] = {}  # learner and bill, by their keys
        self.owed: Counter[str] = Counter()  # money of those that wait, by token
        self._turn = asyncio.Lock()  # one goes through those that wait
        self._sending: asyncio.Task[None] | None = None  # as long as some wait

    async def add(self, learner: str, bill: dict[str, Any]) -> None:
        """Store a new bill, or keep it."""
        key = f"bill-{secrets.token_hex(12)}"
        try:
            await self._decider.bill(learner, bill, key)
        except Unavailable:
            self._keep(key, learner, bill)
        except asyncio.CancelledError:
            self._keep(key, learner, bill)
            raise

    def _keep(self, key: str, learner: str, bill: dict[str, Any]) -> None:
        if len(self._waiting) >= MOST:
            log.error("%d bills wait for the store: the oldest is lost", MOST)
            del self._waiting[next(iter(self._waiting))]
        self._waiting[key] = learner, bill
        self._owe(bill)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_until_done())

    def _owe(self, bill: dict[str, Any]) -> None:
        if "token" in bill:
            self.owed[bill["token"]] += money_of(bill)  # type: ignore[assignment]

    async def _send_until_done(self) -> None:
        while self._waiting:
            await asyncio.sleep(PERIOD)
            await self.send()

    async def send(self) -> None:
        """Store those that wait, as far as that can be done now."""
        async with self._turn:
            keys, unable = list(self._waiting), set[str]()
            for start in range(0, len(keys), TOGETHER):
                await asyncio.gather(*(self._send(key, unable) for key in keys[start : start + TOGETHER]))
            if keys:
                self.owed.clear()
                for _, bill in self._waiting.values():
                    self._owe(bill)

    async def _send(self, key: str, unable: set[str]) -> None:
        """Store one that waits, unless its learner is among those that cannot be reached."""
        learner, bill = self._waiting.get(key, ("", {}))
        if not learner or learner in unable:  # the oldest make room for new ones
            return
        try:
            await self._decider.bill(learner, bill, key, again=True)
        except Unavailable:
            unable.add(learner)
            return
        except Exception:
            log.exception("learner %s: a bill over %.6g is refused, and lost", learner, money_of(bill))
        self._waiting.pop(key, None)

    async def close(self, seconds: float) -> None:
        """Send those that wait, within a time limit; say what is lost."""
        if self._sending is not None:
            await stop([self._sending])
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.send()
                while self._waiting:
                    await asyncio.sleep(PERIOD / 4)
                    await self.send()
        if self._waiting:
            money = sum(money_of(bill) for _, bill in self._waiting.values())
            log.error("%d bills over %.6g could not be stored, and are lost", len(self._waiting), money)


@dataclass(frozen=True, slots=True)
class TakesBills:
    """A route for other instances only: stores a bill of a request that one of them has answered for a learner here."""

    service: Service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Store a bill."""
        if not scope["weakfeedback.passed"]:  # it is nothing for others
            raise Problem("not_found", "no such page")
        scope["weakfeedback.route"] = BILLS
        headers, name = dict(scope["headers"]), scope["path_params"]["name"]
        given = read_json(await read_body(receive, headers, BODY_LIMIT), headers)
        invoice = self.service.learner(name).invoice
        try:
            key, bill = checked_key(given["key"]), given["bill"]
            Invoice(len(invoice.lines)).add(bill)
            add_paid({}, bill, 0)
        except (TypeError, ValueError, LookupError, AttributeError):
            raise Problem("invalid", "this is no bill of this learner") from None
        await self.service.note(name, "bill", bill, key, again=True)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
