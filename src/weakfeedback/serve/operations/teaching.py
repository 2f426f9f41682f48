"""Learn rows that were seen elsewhere, once per key: warm start, calibration."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from weakfeedback.canonical import digest_of
from weakfeedback.journal import Event
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.models import CalibrateRequest, Problem, WarmStartRequest
from weakfeedback.serve.operations.lookup import asked_before, checked_key
from weakfeedback.serve.wording import moment

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service


async def warm_start(
    service: Service, name: str, given: WarmStartRequest, key: str | None = None
) -> dict[str, Any]:
    """Learn rows of outputs of all stages.

    Only once per key.
    """
    learner = service.learner(name)
    repeated = isinstance(await run_once(service, learner, "warm", learner.warm, given, key), Event)
    return {"rows": len(given.outputs), "repeated": repeated}


async def calibrate(
    service: Service, name: str, given: CalibrateRequest, key: str | None = None
) -> dict[str, Any]:
    """Learn from labelled rows how far the last stage of an adaptive learner can be believed.

    Only once per key.
    """
    learner = service.learner(name)
    if learner.kind.opening != "begin":
        raise Problem("not_offered", f"a {learner.kind.name} learner is not calibrated")
    repeated = isinstance(await run_once(service, learner, "calibrate", learner.calibrate, given, key), Event)
    return {"rows": len(given.outputs), "repeated": repeated}


async def run_once(
    service: Service, learner: Learner, kind: str, work: Callable[..., Any], given: BaseModel, key: str | None
) -> Any:
    """Run a step of a learner with ``given``; if the key was already used for it, return its event instead."""
    digest = check = None
    if key is not None:
        known, digest = checked_key(key), digest_of(given.model_dump())
        check = asked_before(service, learner, known, lambda event: _repeat(event, kind, digest, given))
    units = len(getattr(given, "outputs", "1"))
    result, future = await service.steps.take(learner, work, given, key, digest, check=check, units=units)
    await service.steps.wait(future)
    return result


async def _repeat(event: Event, kind: str, digest: str, given: Any) -> Event:
    """Return the event of an earlier request with the same key, which must have been the same."""
    if event.kind != kind:
        raise Problem("key_reused", "the key was used for another request")
    known = event.body.get("digest")
    if known is None:  # old warm starts were kept without it: only their rows can be counted
        same = len(event.body["differ"]) == len(given.outputs)
    else:
        same = known == digest
    if not same:
        words = "The key was used with other content"
        raise Problem("conflict", f"the key was used at {moment(event.at)} with other content", title=words)
    return event
