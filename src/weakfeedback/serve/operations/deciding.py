"""Open decisions: decide, begin."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from weakfeedback.journal import Event
from weakfeedback.journal.events import OPENS
from weakfeedback.serve.learner import ITEM, Learner
from weakfeedback.serve.models import BeginRequest, DecideRequest, Problem, check_batch
from weakfeedback.serve.operations.lookup import asked_before, checked_key, find_by_key
from weakfeedback.serve.wording import moment

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service


async def decide(
    service: Service, name: str, given: DecideRequest | None = None, key: str | None = None
) -> dict[str, Any]:
    """Decide: which stages to call.

    Several are made in one commit. A repeated key returns the same ones.
    """
    many = given is not None and (given.count is not None or given.contexts is not None)
    told, future = await decide_ahead(service, name, given, key)
    await service.steps.wait(future)
    return {"decisions": told} if many else told[0]


async def decide_ahead(
    service: Service, name: str, given: DecideRequest | None = None, key: str | None = None
) -> tuple[list[dict[str, Any]], asyncio.Future[Any] | None]:
    """Make decisions; return them, and the future of their commit, before which they must not be revealed."""
    learner, contexts = service.learner(name), _contexts(given)
    return await _open(service, learner, learner.decide, (contexts,), contexts, key)


async def begin(
    service: Service, name: str, given: BeginRequest | None = None, key: str | None = None
) -> dict[str, Any]:
    """Begin a round of a learner that decides after every answer.

    A repeated key returns the same round.
    """
    learner = service.learner(name)
    group = None if given is None else given.group
    (told,), future = await _open(service, learner, learner.begin_round, (group,), [group], key)
    await service.steps.wait(future)
    answer = {"id": told["id"], "stage": told["stage"], "name": told["name"], "answer": None}
    return answer | {"expires": told["expires"], "repeated": told["repeated"]}


async def _open(
    service: Service,
    learner: Learner,
    work: Callable[..., list[Event]],
    arguments: tuple[Any, ...],
    contexts: list[Any],
    key: str | None,
) -> tuple[list[dict[str, Any]], asyncio.Future[Any] | None]:
    """Run a step that opens decisions; return what clients are told of them, and the future of their commit."""
    check = None
    if key is not None:
        known = checked_key(key)
        check = asked_before(
            service, learner, known, lambda first: _repeat(service, learner, known, first, contexts)
        )
    found, future = await service.steps.take(learner, work, *arguments, key, check=check, units=len(contexts))
    return [_describe(learner, one) if isinstance(one, Event) else one for one in found], future


def _describe(learner: Learner, event: Event) -> dict[str, Any]:
    waits = learner.kind.waits(event.body)
    expires = moment(learner.expires(event)) if waits else None
    return {
        "id": event.decision,
        **learner.answer(event),
        "expires": expires,
        "repeated": False,
    }


async def _repeat(
    service: Service, learner: Learner, key: str, first: Event, contexts: list[Any]
) -> list[dict[str, Any]]:
    """Return the decisions that were made with this key, of which ``first`` is one."""
    keys = [f"{key}{ITEM}{n}" for n in range(1, len(contexts) + 1)]  # one more, which must not exist
    *others, more = await asyncio.gather(*(find_by_key(service, learner, one) for one in keys))
    if more is not None or None in others:
        raise Problem("key_reused", "the key was used for another number of decisions")
    events = [first, *(event for event in others if event is not None)]
    for event, context in zip(events, contexts):
        if event.kind not in OPENS or not learner.kind.is_same(learner.live, event.body, context):
            raise Problem("key_reused", "the key was used for another request")
    return [{**_describe(learner, event), "repeated": True} for event in events]


def is_routed(given: DecideRequest) -> bool:
    """Whether a request says what only a router can be told."""
    own = (given.prices, given.conversation, given.switching)
    return own != (None, None, None) or isinstance(given.context, dict)


def _contexts(given: DecideRequest | None) -> list[Any]:
    """Return one context for each requested decision, None where there is none."""
    if given is None:
        return [None]
    if is_routed(given):
        if given.contexts is not None or given.count is not None:
            raise Problem("invalid", "contexts and count go without conversation and prices", field="count")
        return [given]
    if given.group is not None and (given.context is not None or given.contexts is not None):
        raise Problem(
            "invalid", "group goes with a promise, context with a contextual learner", field="group"
        )
    if given.contexts is not None:
        if given.context is not None or given.count not in (None, len(given.contexts)) or not given.contexts:
            raise Problem("invalid", "contexts must be at least one, and as many as count", field="contexts")
        check_batch(len(given.contexts))
        return [DecideRequest(context=one) if isinstance(one, dict) else one for one in given.contexts]
    count = 1 if given.count is None else given.count
    check_batch(count)
    return [given.context if given.group is None else given.group] * count
