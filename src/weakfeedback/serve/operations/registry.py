"""Learners: create, describe, set prices, archive."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any

from weakfeedback.serve.kinds import kind_of
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.limits import LEARNERS_LIMIT
from weakfeedback.serve.models import CostsRequest, ModelsRequest, Problem
from weakfeedback.serve.operations.teaching import run_once
from weakfeedback.serve.wording import moment, unlike
from weakfeedback.words import prices_told_elsewhere

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service

log = logging.getLogger("weakfeedback.serve")
PIECE = 50  # learners that are described at once


async def create(service: Service, name: str, config: Any) -> tuple[dict[str, Any], bool]:
    """Create a learner; return its description, and whether it is new."""
    service.check_ready()
    # a cancelled request must not leave a name in the store that this process does not know
    return await asyncio.shield(service.spawn(_create(service, name, config)))


async def _create(service: Service, name: str, config: Any) -> tuple[dict[str, Any], bool]:
    kind = kind_of(config)
    async with service.making:
        service.check_here(name)
        known = service.learners.get(name)
        if known is not None:
            return await service.steps.confirm(known, _check_same(service, known, config)), False
        if len(service.learners) >= LEARNERS_LIMIT:
            raise Problem("too_many_learners", f"there may be at most {LEARNERS_LIMIT} learners")
        seed = int.from_bytes(os.urandom(16)) if config.seed is None else config.seed
        try:
            with prices_told_elsewhere():
                live = kind.named(await asyncio.to_thread(kind.make, seed, False))
        except (TypeError, ValueError) as error:
            raise Problem("invalid", str(error)) from None
        service.check_ready()
        store, committer = service.held()
        id = service.empty.pop(name, None)
        if id is None:
            id = await service.steps.wait(
                committer.run(lambda: store.create_learner(name, service.options.clock()))
            )
        learner = Learner(name, id, config, live, service.options.clock)
        learner.begin()
        future = learner.submit(committer)
        await service.steps.wait(future)
        if service.committer is not committer:
            raise Problem(
                "store_unavailable", "the store was opened again: repeat the request", retry_after=1
            )
        service.learners[name] = learner
        _warn(learner)
        service.steps.compile([learner])
        return describe(service, learner), True


def _check_same(service: Service, learner: Learner, config: Any) -> dict[str, Any]:
    """Return the description of an existing learner, if its configuration is this one."""
    wanted = config.model_dump(mode="json")
    now_known = {**learner.settings(), "seed": wanted["seed"]}
    born = learner.config.model_dump(mode="json")
    if wanted != born and (wanted != now_known or wanted["seed"] not in (None, born["seed"])):
        fields = [key for key in wanted if key != "seed" and wanted[key] != now_known.get(key)]
        told = [unlike(wanted, now_known, fields)] if fields else []
        told += ["another seed"] if wanted["seed"] not in (None, born["seed"]) else []
        detail = f"learner {learner.name} exists, and differs: {', '.join(told)}"
        raise Problem("exists", detail, field=(fields or ["seed"])[0])
    return describe(service, learner)


def describe(service: Service, learner: Learner) -> dict[str, Any]:
    """Return the description of a learner."""
    settings, warning = learner.settings(), learner.warning()
    told = {
        "name": learner.name,
        "kind": learner.kind.name,
        "revision": learner.revision,
        "policy": learner.core.label,
        "archived": learner.archived,
        "paused": learner.paused,
        "created": moment(learner.created),
        "seq": learner.seq,
        "rounds": learner.live.rounds,
        "pending": len(learner.opened),
        "durability": service.options.durability,
        "config": settings,
    }
    return told if warning is None else {**told, "warning": warning}


def _warn(learner: Learner) -> None:
    """Say at once, in the log, what is odd about its prices."""
    words = learner.warning()
    if words is not None:
        log.warning("%s", words)


async def info(service: Service, name: str) -> dict[str, Any]:
    """Show a learner: configuration, revision and counters."""
    learner = service.learner(name)
    async with learner.lock:
        told = describe(service, learner)
    return await service.steps.confirm(learner, told)


async def infos(service: Service) -> dict[str, Any]:
    """List the learners."""
    service.check_ready()
    found = []
    for k, name in enumerate(sorted(service.learners)):
        if k % PIECE == PIECE - 1:
            await asyncio.sleep(0)
        if name in service.learners:  # else it has moved meanwhile
            found.append(await info(service, name))
    return (
        {"learners": found, "kept_out": service.kept_out.told()} if service.kept_out else {"learners": found}
    )


async def recost(service: Service, name: str, given: CostsRequest) -> dict[str, Any]:
    """Set new prices, or change the promise, its shadow or its pause; what was counted stays.

    Setting the same again changes nothing.
    """
    learner = service.learner(name)
    wanted = given.model_dump(exclude_none=True)
    if not wanted:
        raise Problem(
            "invalid",
            "stage_costs, prices, error_cost, agree, budget, reference, shadow or paused must be given",
        )
    settings = {**learner.settings(), "paused": learner.paused}
    if all(settings.get(field) == value for field, value in wanted.items()):
        return await service.steps.confirm(learner, describe(service, learner))
    await service.steps.run(learner, learner.recost, wanted)
    _warn(learner)
    return await info(service, name)


async def change_models(
    service: Service, name: str, given: ModelsRequest, key: str | None = None
) -> dict[str, Any]:
    """Add, remove or replace a model of a router that runs: what is known of the others stays.

    Comparisons under way are cancelled. Only once per key.
    """
    learner = service.learner(name)
    await run_once(service, learner, "models", learner.change_models, given, key)
    _warn(learner)
    return await info(service, name)


async def archive(service: Service, name: str) -> dict[str, Any]:
    """Archive a learner: no more decisions; feedback for open ones is still welcome, and the log stays."""
    learner = service.learner(name)
    if await service.steps.run(learner, learner.archive):
        (store, committer), at = service.held(), service.options.clock()
        await service.steps.wait(committer.run(lambda: store.archive_learner(learner.id, at)))
    return await info(service, name)
