"""Idempotency keys that are looked for in a store that is asked over a connection: many with one question.

Almost every decision has a key of its own, which is nowhere yet. To ask a server for each alone costs as much as to
decide.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from weakfeedback.journal import Event, SqliteStore
from weakfeedback.serve.models import Problem

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service


class KeyLookups:
    """Looks for the events of keys: all that are asked for while one look takes place are the next one."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._asked: list[tuple[tuple[int, str], asyncio.Future[Event | None]]] = []
        self._looks = False

    async def find(self, learner: int, key: str) -> Event | None:
        """Return the stored event of a learner that has this key."""
        if isinstance(self._service.reader, SqliteStore):  # takes microseconds
            found: Event | None = await self._service.steps.look(lambda store: store.by_key(learner, key))
            return found
        future: asyncio.Future[Event | None] = asyncio.get_running_loop().create_future()
        self._asked.append(((learner, key), future))
        if not self._looks:
            self._looks = True
            self._service.spawn(self._look()).add_done_callback(self._end)
        return await future

    async def _look(self) -> None:
        while self._asked:
            asked, self._asked = self._asked, []
            keys = [key for key, _ in asked]
            found: list[Any] = [_stopping()] * len(asked)
            try:
                found = await self._service.steps.look(lambda store: store.by_keys(keys))  # noqa: B023
            except Exception as error:
                found = [error] * len(asked)
            finally:
                for (_, future), one in zip(asked, found):
                    _tell(future, one)
        self._looks = False

    def _end(self, task: asyncio.Task[Any]) -> None:
        """Let nobody wait for a look that was cancelled, which may not even have begun, or that failed."""
        if task.cancelled() or task.exception() is not None:
            self._looks = False
            for _, future in self._asked:
                _tell(future, _stopping())
            self._asked = []


def _stopping() -> Problem:
    return Problem("stopping", "the service is stopping", retry_after=1)


def _tell(future: asyncio.Future[Event | None], found: Any) -> None:
    if future.done():  # whoever asked is gone
        return
    if isinstance(found, Exception):
        future.set_exception(found)
    else:
        future.set_result(found)
