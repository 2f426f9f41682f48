"""Decisions that have waited too long, and the clock by which they do."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from weakfeedback.serve.learner import Learner
from weakfeedback.serve.limits import BATCH_LIMIT

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service

PIECE = 200  # learners that are looked at at once
JUMP = 60.0  # seconds by which a clock has changed if it was not time that passed

log = logging.getLogger("weakfeedback.serve")


async def tick(service: Service) -> None:
    """Expire decisions; check whether the store was lost while nothing was written."""
    before = _watch_clock(service)
    while True:
        await asyncio.sleep(service.options.tick)
        try:
            before = _watch_clock(service, before)
            if service.state == "ready":
                if service.store is not None and service.committer is not None:
                    service.committer.run(service.store.check_owner)
                await service.expire()
        except Exception:  # whatever it was, the next time may be better
            log.exception("decisions could not expire")


def _watch_clock(service: Service, before: float | None = None) -> float:
    """Return the difference of the clock to a steady one; warn if it has changed."""
    ahead = service.options.clock() / 1e6 - service.options.steady()
    if before is not None and abs(ahead - before) > JUMP:
        log.warning("the clock has jumped by %+.0f seconds", ahead - before)
    return ahead


async def expire(service: Service) -> int:
    """Expire decisions that have waited too long; return their number. A learner that fails stops no other."""
    count = 0
    for k, learner in enumerate(list(service.learners.values())):
        if k % PIECE == PIECE - 1:
            await asyncio.sleep(0)
        if learner.torn:
            continue
        try:
            count += await _expire_one(service, learner)
            learner.stuck = False
        except Exception as error:
            if not learner.stuck:  # once, not every second
                log.warning("decisions of learner %s could not expire: %s", learner.name, error)
            learner.stuck = True
    return count


async def _expire_one(service: Service, learner: Learner) -> int:
    count = 0
    while (old := learner.older(BATCH_LIMIT)) > 0:
        events = await service.steps.run(learner, learner.expire, BATCH_LIMIT, units=old)
        count += len(events)
        if not events:
            break
    return count
