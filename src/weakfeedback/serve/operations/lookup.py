"""Look up what was decided: decisions, their ends, the log."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from weakfeedback.journal import Event, Store
from weakfeedback.live.errors import UnknownDecision
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.limits import BATCH_LIMIT, KEY_LIMIT
from weakfeedback.serve.models import Problem
from weakfeedback.serve.wording import moment

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service

STATUSES = ("pending", "answered", "cancelled", "expired", "alone", "all")


async def decision(service: Service, name: str, id: int) -> dict[str, Any]:
    """Show where a decision stands."""
    learner = service.learner(name)
    told = {**await _status_of(service, learner, id), **learner.asks_again(id)}
    return await service.steps.confirm(learner, told)


async def decisions(
    service: Service, name: str, status: str = "pending", after: int = 0, limit: int = 100
) -> dict[str, Any]:
    """Page through decisions."""
    if status not in STATUSES:
        raise Problem("invalid", f"status must be one of {', '.join(STATUSES)}", field="status")
    _check_limit(limit)
    learner = service.learner(name)
    if status == "pending":
        ids = [id for id in list(learner.opened) if id > after]
    else:
        ids = list(range(after + 1, min(learner.core.ledger.next, after + 1 + 10 * limit)))
    found: list[dict[str, Any]] = []
    seen = after
    for id in ids:
        if len(found) == limit:
            break
        seen = id
        try:
            told = await _status_of(service, learner, id)
        except Problem as problem:
            if problem.status == 503:
                raise
            continue
        if status in ("all", told["status"]):
            found.append(told)
    more = seen + 1 < learner.core.ledger.next if status != "pending" else bool(ids) and ids[-1] > seen
    return await service.steps.confirm(learner, {"decisions": found, "next": seen if more else None})


async def _status_of(service: Service, learner: Learner, id: int) -> dict[str, Any]:
    await asyncio.sleep(0)  # many are looked up in a row: let other requests run
    made = None
    if 0 < id < learner.core.ledger.next:
        made = await service.steps.look(lambda store: store.decided(learner.id, id))
    if made is None and id in learner.opened:
        await service.steps.confirm(learner, None)
        made = await service.steps.look(lambda store: store.decided(learner.id, id))
    if made is None:
        raise await explain_no_end(service, learner, id)
    waits = learner.kind.waits(made.body)
    told = {
        "id": id,
        "status": "pending" if waits else "alone",
        "decided": moment(made.at),
        "ended": None,
        "expires": moment(learner.expires(made)) if waits else None,
        **learner.answer(made),
    }
    told.pop("name", None)
    if id not in learner.opened:
        end = learner.ends.get(id) or await service.steps.look(lambda store: store.end_of(learner.id, id))
        if end is not None:
            status = {"feedback": "answered", "cancel": "cancelled", "expire": "expired"}[end.kind]
            told |= {"status": status, "ended": moment(end.at), "expires": None}
    return told


async def explain(service: Service, name: str, id: int) -> dict[str, Any]:
    """Say why a decision fell as it did, for the last 1000."""
    learner = service.learner(name)
    explain = getattr(learner.live, "explain", None)
    if explain is None:
        raise Problem("not_offered", f"decisions of a {learner.kind.name} learner are not explained")
    async with learner.lock:
        try:
            text = explain(id)
        except UnknownDecision as error:
            raise Problem("not_explained", str(error)) from None
    return await service.steps.confirm(learner, {"id": id, "text": text})


async def events(service: Service, name: str, after: int, limit: int) -> list[Event]:
    """Return the stored events after number ``after``; Problem if they were removed."""
    _check_limit(limit)
    learner = service.learner(name)

    def read(store: Store) -> list[Event]:
        first = store.floor(learner.id).seq
        if after + 1 < first:
            raise Problem("forgotten", f"events before {first} were removed: begin with after={first - 1}")
        return list(store.events(learner.id, after, limit))

    found: list[Event] = await service.steps.look(read, slow=True)
    return found


def _check_limit(limit: int) -> None:
    if not 1 <= limit <= BATCH_LIMIT:
        raise Problem("invalid", f"limit must be from 1 to {BATCH_LIMIT}, got {limit}", field="limit")


def checked_key(key: str) -> str:
    """Return the idempotency key; Problem if it is too long or not printable ASCII."""
    if not key or not key.isascii() or not key.isprintable():
        raise Problem("wrong_key", "Idempotency-Key must be of printable ASCII characters")
    if len(key) > KEY_LIMIT:
        raise Problem(
            "key_too_long", f"Idempotency-Key must have at most {KEY_LIMIT} characters, got {len(key)}"
        )
    return key


async def find_by_key(service: Service, learner: Learner, key: str) -> Event | None:
    """Return the event that has this key, stored or not."""
    return learner.keys.get(key) or await service.key_lookups.find(learner.id, key)


@contextlib.asynccontextmanager
async def asked_before(
    service: Service, learner: Learner, key: str, repeat: Callable[[Event], Awaitable[Any]]
) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """Yield what returns ``repeat(event)`` if an event has this key, else None; call it when the learner is locked.

    The store is asked before that: meanwhile others decide, and their keys are asked for. So the event of a request
    that was made since then is kept in memory.
    """
    with learner.keeping(key):
        stored = await find_by_key(service, learner, key)

        async def find() -> Any:
            event = learner.keys.get(key, stored)
            return None if event is None else await repeat(event)

        yield find


async def find_end(service: Service, learner: Learner, id: int) -> Event:
    """Return the event that ended a decision that is not pending; Problem if there is none."""
    end = learner.ends.get(id)
    if end is None and 1 <= id < 2**63:
        end = await service.steps.look(lambda store: store.end_of(learner.id, id))
    if end is not None:
        return end
    raise await explain_no_end(service, learner, id)


async def explain_no_end(service: Service, learner: Learner, id: int) -> Problem:
    """Return the reason why a decision that is not pending has no end."""
    if not 1 <= id < learner.core.ledger.next:
        return Problem("unknown_decision", f"there is no decision {id!r:.30}")
    floor = await service.steps.look(lambda store: store.floor(learner.id))
    if floor.decision is not None and id <= floor.decision:
        return Problem("forgotten", f"decision {id} is older than the log that is kept")
    return Problem("unknown_decision", f"decision {id} waits for no feedback")
