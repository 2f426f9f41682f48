"""End decisions: feedback, tell, cancel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from weakfeedback.journal import Event, Store
from weakfeedback.serve.kinds import same_output
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.models import (
    AgainRequest,
    CancelRequest,
    FeedbackBatch,
    FeedbackRequest,
    Problem,
    TellRequest,
    check_batch,
)
from weakfeedback.serve.operations.lookup import find_end
from weakfeedback.serve.wording import moment

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service

YIELD = 16  # feedbacks of a batch between which other requests are served


async def feedback(
    service: Service,
    name: str,
    id: int,
    given: FeedbackRequest,
    *,
    digest: str | None = None,
    extra: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Tell what was seen under a decision.

    A front end that compares answers itself identifies them by ``digest``; their cost can be stored in ``extra``,
    as ``spent`` and ``tokens``.
    """
    learner = service.learner(name)
    told, future = await _learn(service, learner, id, given, digest, extra)
    await service.steps.wait(future)
    return told


async def feedback_batch(service: Service, name: str, given: FeedbackBatch) -> dict[str, Any]:
    """Tell what was seen under up to 1000 decisions.

    They are learned in one commit; each is accepted or refused on its own.
    """
    learner = service.learner(name)
    check_batch(len(given.items))
    results: list[dict[str, Any]] = []
    last = None
    for n, item in enumerate(given.items):
        if n % YIELD == YIELD - 1:
            await asyncio.sleep(0)  # other requests in between
        try:
            told, future = await _learn(service, learner, item.id, item)
            last = future or last
        except Problem as problem:
            if problem.status == 503:
                raise
            told = problem.body()
        results.append(told)
    await service.steps.wait(last)
    return {"results": results}


async def _learn(
    service: Service,
    learner: Learner,
    id: int,
    given: FeedbackRequest,
    digest: str | None = None,
    extra: dict[str, Any] | None = None,
) -> tuple[dict[str, Any], asyncio.Future[Any] | None]:
    """Learn a feedback; return the answer to the client, which is valid once the future is done."""
    digest = digest or learner.kind.digest(given)
    if id not in learner.core.ledger.waiting:
        # a thread may be about to end it, and has not said yet how
        await service.steps.wait_for_thread(learner)
        return await _answer_ended(service, learner, id, digest), service.steps.commit(learner)
    if given.dry_run:
        wants, _ = await service.steps.take(learner, _wants, learner, id, given)
        return {"result": "possible", "id": id, "wants_label": wants}, service.steps.commit(learner)
    event, future = await service.steps.take(learner, _learn_once, learner, id, given, digest, extra)
    if event is None:  # another request was faster
        return await _answer_ended(service, learner, id, digest), service.steps.commit(learner)
    differ = event.body.get("differ", [] if "far" in event.body else None)
    told = {"result": "accepted", "id": id, **learner.asks_again(id)}
    if differ is not None:
        told |= {"differ": differ, "wants_label": False}
    return told, future


def _learn_once(
    learner: Learner, id: int, given: FeedbackRequest, digest: str, extra: dict[str, Any] | None
) -> Event | None:
    waits = id in learner.core.ledger.waiting
    return learner.feedback(id, given, digest, extra) if waits else None


def _wants(learner: Learner, id: int, given: FeedbackRequest) -> bool:
    if id not in learner.core.ledger.waiting:
        raise Problem("unknown_decision", f"decision {id} is not pending")
    return learner.kind.wants(learner.live, id, given)


async def _answer_ended(service: Service, learner: Learner, id: int, digest: str) -> dict[str, Any]:
    """Return the answer to feedback for a decision that does not wait for any."""
    end = await find_end(service, learner, id)
    if end.kind == "feedback":
        if end.body.get("digest") == digest:
            learner.note_refused("duplicate")
            return {"result": "duplicate", "id": id, **learner.asks_again(id)}
        await service.steps.confirm(learner, None)
        learner.note_refused("conflict")
        raise Problem(
            "conflict",
            f"decision {id} was answered at {moment(end.at)} with other content",
            title=f"Decision {id} was answered with other content",
        )
    await service.steps.confirm(learner, None)
    learner.note_refused("late")
    code = "expired" if end.kind == "expire" else "cancelled"
    word = "has expired" if end.kind == "expire" else "was cancelled"
    raise Problem(code, f"decision {id} {word} at {moment(end.at)}; nothing is learned from it")


async def cancel(service: Service, name: str, id: int, given: CancelRequest | None = None) -> dict[str, Any]:
    """Take a decision back: nothing is learned from it.

    A repetition changes nothing.
    """
    learner = service.learner(name)
    given = given or CancelRequest()
    events = await service.steps.run(learner, learner.cancel, id, given.cost, given.reason)
    if events:
        return {"result": "cancelled", "id": id}
    end = await find_end(service, learner, id)
    await service.steps.confirm(learner, None)
    if end.kind == "cancel":
        return {"result": "duplicate", "id": id}
    if end.kind == "expire":
        raise Problem("expired", f"decision {id} has expired at {moment(end.at)}")
    raise Problem("conflict", f"decision {id} was answered at {moment(end.at)}, and cannot be cancelled")


async def tell(service: Service, name: str, id: int, given: TellRequest) -> dict[str, Any]:
    """Tell the output of a stage: which one to run next, or whose answer counts."""
    learner = service.learner(name)
    if learner.kind.opening != "begin":
        raise Problem("not_offered", f"a {learner.kind.name} learner takes feedback, it is not told")
    step, future = await service.steps.take(learner, _tell_once, learner, id, given)
    await service.steps.wait(future)
    repeated = step is None
    if step is None:
        step = await _find_told(service, learner, id, given)
    stage, answer = step
    stage_name = None if stage is None else learner.kind.names[stage]
    told = {"id": id, "stage": stage, "name": stage_name, "answer": answer, "repeated": repeated}
    return told if stage is not None else {**told, **learner.asks_again(id)}


async def again(service: Service, name: str, id: int, given: AgainRequest) -> dict[str, Any]:
    """Tell what the reference said when it was asked a second time.

    A repetition changes nothing.
    """
    learner = service.learner(name)
    differs, repeated = await service.steps.run(learner, learner.check_again, id, given)
    return {"result": "duplicate" if repeated else "accepted", "id": id, "differs": differs}


async def move_conversation(service: Service, name: str, conversation: str, model: int) -> None:
    """Let a conversation go on with the model that answered, where that is another than was decided."""
    learner = service.learner(name)
    await service.steps.run(learner, learner.move_conversation, conversation, model)


async def unseen(service: Service, name: str, group: str | None) -> bool:
    """Count an answer that goes out because the reference failed; False if the promise has no room for it."""
    learner = service.learner(name)
    return bool(await service.steps.run(learner, learner.unseen, group))


def _tell_once(learner: Learner, id: int, given: TellRequest) -> tuple[int | None, int | None] | None:
    return learner.tell(id, given) if id in learner.core.ledger.waiting else None


async def _find_told(
    service: Service, learner: Learner, id: int, given: TellRequest
) -> tuple[int | None, int | None]:
    """Return what followed an output of a round that has ended, from the log."""
    end = await find_end(service, learner, id)
    await service.steps.confirm(learner, None)
    if end.kind != "feedback":
        learner.note_refused("late")
        code = "expired" if end.kind == "expire" else "cancelled"
        raise Problem(code, f"decision {id} has ended at {moment(end.at)}; nothing is learned from it")
    # all that happened meanwhile is read, too
    told = await service.steps.look(lambda store: _tells(store, learner.id, id, end.seq), slow=True)
    bodies = {event.body["stage"]: event.body for event in told}  # in the order of the calls
    stage = next(reversed(bodies), None) if given.stage is None else given.stage
    kind: Any = learner.kind
    if stage not in bodies or not same_output(kind.output(given), bodies[stage]):
        learner.note_refused("conflict")
        raise Problem("conflict", f"decision {id} has ended, and was told something else")
    learner.note_refused("duplicate")
    body = bodies[stage]
    goes_out = stage == body["first"] if kind.answers_early(body) else body["next"] is None
    return body["next"], stage if goes_out else None


def _tells(store: Store, learner: int, id: int, last: int) -> list[Event]:
    """Return the ``tell`` events of a round that ended with event ``last``."""
    begun = store.decided(learner, id)
    if begun is None:
        return []
    events = store.events(learner, begun.seq, last - begun.seq)
    return [event for event in events if event.kind == "tell" and event.decision == id]
