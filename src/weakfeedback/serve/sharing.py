"""One of several instances that share a store: which learners it serves, and which instance serves the others.

Every instance counts a beat a few times a second and looks who else is there. Each owns its share of the shards: one
that has more releases some, one that has less takes those that are free, whose owners have released them or have ended.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from weakfeedback.journal import JournalError
from weakfeedback.journal.shards import SHARDS, Member, shard_of
from weakfeedback.plaintext import counted
from weakfeedback.serve.config import ConfigError
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.models import Problem
from weakfeedback.serve.recover import recover_all

if TYPE_CHECKING:
    from weakfeedback.serve.passing import Passing
    from weakfeedback.serve.service import Service

PERIOD = 0.25  # seconds between two beats
SILENT = 6  # beats of this instance in which another has counted none, and is taken for dead
UNREADABLE = 5.0  # seconds until shards are read again that cannot be read
PATIENCE = 3.0  # seconds in which a request waits for the owner of a learner that moves
PAUSE = 0.05  # seconds between two looks of such a request

log = logging.getLogger("weakfeedback.serve")
Work = Callable[[], Awaitable[Any]]
Finish = Callable[[Sequence[str]], Awaitable[Any]]


class Sharing:
    """What one instance has of a shared store, and who has the rest."""

    def __init__(self, service: Service, address: str) -> None:
        self._service, self.address = service, address
        self.secret = secrets.token_hex().encode()  # known to all who share the store, once it is open
        self.shards: set[int] = set()  # whose learners are served here
        self.members: dict[int, Member] = {}
        self.gone: list[Callable[[int], None]] = []  # called with the id of a member that has ended
        self.joined: list[Callable[[], Any]] = []  # called when the others can see us, at first or again
        self.passing: Passing | None = None  # asks the others, once requests are served
        self.finish: list[Finish] = []  # awaited with the names of learners that will leave
        self._owners: dict[int, Member] = {}  # of each shard that somebody has
        self._works: list[Work] = []  # whenever shards were taken
        self._arriving: set[int] = set()
        self._beats: dict[
            int, tuple[int, int]
        ] = {}  # the last beat of each member, and how often it was seen
        self._moving: asyncio.Task[Any] | None = None
        self._turn = asyncio.Lock()  # one change at a time
        self._begun = asyncio.Event()
        self._problem: Exception | None = None  # of the first share

    # -- the share

    async def begin(self, then: Work | None) -> None:
        """Take a share of the learners, and keep to it from now on; ``then`` is done whenever some have arrived."""
        if then is not None:
            self._works.append(then)
        store, _ = self._service.held()
        self.secret = sha256(f"weakfeedback shared {store.identity}".encode()).hexdigest().encode()
        self._service.spawn(self._run())
        await self._begun.wait()
        if self._problem is not None:
            raise self._problem

    async def when_taken(self, work: Work) -> None:
        """Do ``work`` now, for the learners that are here, and whenever others arrive."""
        async with self._turn:
            self._works.append(work)
            await self._work([work], self.shards)

    async def _work(self, works: Iterable[Work], shards: Iterable[int]) -> None:
        self._arriving = set(shards)
        try:
            for work in works:
                await work()
        finally:
            self._arriving = set()

    def is_arriving(self, name: str) -> bool:
        """Whether a learner is one of those for which work is done now."""
        return shard_of(name) in self._arriving

    def forget(self) -> None:
        """Serve nothing: the session has ended, and others may have taken over."""
        self.shards.clear()
        self._owners.clear()

    async def _run(self) -> None:
        while True:
            if self._service.state == "ready":
                try:
                    await self._look()
                except Problem as problem:  # the store was lost
                    log.warning("the other instances cannot be seen: %s", problem.detail)
                except Exception:
                    log.exception("the other instances cannot be seen")
            await asyncio.sleep(PERIOD)

    async def _look(self) -> None:
        store, committer = self._service.held()
        shards = store.shards
        shards.address = "" if self._service.draining else self.address
        found = await self._service.steps.wait(committer.run(shards.look))
        before, self.members = self.members, {member.id: member for member in found}
        self._owners = {number: member for member in found for number in member.shards}
        if shards.me not in before:
            for join in self.joined:
                join()
        for id in before.keys() - self.members.keys():
            place = before[id].address
            log.warning("the instance %s has ended", f"at {place}" if place else "that was stopping")
            for tell in self.gone:
                tell(id)
        for member in self._silent(shards.me):
            log.warning("the instance at %s is silent: its session is ended", member.address)
            await self._service.steps.wait(committer.run(lambda id=member.id: shards.end(id)))  # type: ignore[misc]
        if self._moving is None or self._moving.done():
            move = self._plan(shards.me, shards.held)
            if move is not None:
                self._moving = self._service.spawn(self._move(*move))
            else:
                self._begun.set()

    async def others(self) -> list[Member]:
        """Return the other instances that answer requests, as they are now."""
        store, committer = self._service.held()
        found = await self._service.steps.wait(committer.run(store.shards.look))
        return [member for member in found if member.address not in ("", self.address)]

    def _silent(self, me: int) -> list[Member]:
        """Return the members that have counted no beat for long: their machine is gone, or they are stopped."""
        beats = {}
        for id, member in self.members.items():
            beat, seen = self._beats.get(id, (-1, 0))
            beats[id] = member.beat, seen + 1 if member.beat == beat else 1
        self._beats = beats
        return [self.members[id] for id, (_, seen) in beats.items() if seen > SILENT and id != me]

    def _plan(
        self, me: int, held: Iterable[int]
    ) -> tuple[Callable[[list[int]], Awaitable[None]], list[int]] | None:
        """Return what to do next to have a fair share."""
        staying = sorted(id for id, member in self.members.items() if member.address)
        mine = sorted(held)
        unread = [number for number in mine if number not in self.shards]
        if unread:  # something failed after they were taken
            return self._serve, unread
        if not staying:
            return None
        share = 0
        if me in staying:
            share = SHARDS // len(staying) + (staying.index(me) < SHARDS % len(staying))
        if len(mine) > share:
            return self._release, mine[share:]
        free = [number for number in range(SHARDS) if number not in self._owners and number not in mine]
        wanted = free[: share - len(mine)]
        return (self._take, wanted) if wanted else None

    async def _move(self, move: Callable[[list[int]], Awaitable[None]], numbers: list[int]) -> None:
        try:
            async with self._turn:
                await move(numbers)
        except Problem as problem:
            log.warning("shards could not be moved: %s", problem.detail)
        except Exception as error:
            if self._begun.is_set():
                log.exception("shards could not be moved")
            else:
                self._problem = error
                self._begun.set()

    async def _take(self, numbers: list[int]) -> None:
        store, committer = self._service.held()
        taken = await self._service.steps.wait(committer.run(lambda: store.shards.take(numbers)))
        if taken:
            await self._serve(taken)

    async def _serve(self, taken: list[int]) -> None:
        """Read the learners of shards that were taken, and serve them."""
        service, began = self._service, time.perf_counter()
        (store, _), options, reader = service.held(), service.options, service.reader
        if reader is None:
            return

        def is_lost() -> bool:  # while this waited
            return service.store is not store or service.state != "ready"

        def read(numbers: Sequence[int]) -> Any:
            wanted = lambda name: shard_of(name) in numbers  # noqa: E731
            return recover_all(
                reader,
                trust=options.trust_log,
                clock=options.clock,
                compiled=options.compiled,
                wanted=wanted,
                keep_out=True,
            )

        try:
            found = await asyncio.to_thread(read, taken)
        except JournalError as error:  # of the store itself
            if not self._begun.is_set():
                raise
            log.error("the learners of shards %s cannot be read yet: %s", taken, error)
            await asyncio.sleep(UNREADABLE)
            return
        if is_lost():
            return
        for words in found.warnings:
            log.warning(words)
        service.learners |= {learner.name: learner for learner in found.learners}
        for stored, why in found.kept_out:
            service.kept_out.add(stored, why, store)
        service.leave_gaps(found)
        service.empty |= found.empty
        service.metrics.replayed(found.events, time.perf_counter() - began, found.differences)
        try:
            await self._work(self._works, taken)
        except ConfigError as error:
            if not self._begun.is_set():
                raise
            log.error("learners arrived that the configuration does not fit: %s", error)
        if is_lost():
            return
        self.shards.update(taken)
        log.warning("shards %s were taken: %s", taken, counted(len(found.learners), "learner"))
        service.steps.compile(found.learners)

    async def _release(self, numbers: list[int]) -> None:
        service = self._service
        store, committer = service.held()
        self.shards.difference_update(numbers)  # what comes now waits for the next owner

        def leaving() -> list[Learner]:
            return [learner for name, learner in service.learners.items() if shard_of(name) in numbers]

        for finish in self.finish:
            await finish([learner.name for learner in leaving()])
        await service.steps.take_snapshots(leaving())
        async with service.making:
            left = leaving()
            for learner in left:
                async with learner.lock:
                    service.learners.pop(learner.name, None)
                    learner.moved = True
            service.kept_out.forget(lambda name: shard_of(name) in numbers)
            for name in [name for name in service.empty if shard_of(name) in numbers]:
                del service.empty[name]
            await service.steps.wait(committer.run(lambda: store.shards.release(numbers)))
        log.warning("shards %s were released: %s", numbers, counted(len(left), "learner"))

    def words(self) -> str:
        """Return what is served here, and where the rest is."""
        others = sorted(
            member.address for member in self.members.values() if member.address not in ("", self.address)
        )
        told = f"serves {len(self.shards)} of {SHARDS} shards"
        return f"{told}; the other learners are at {', '.join(others)}" if others else told

    # -- requests

    def check_here(self, name: str) -> None:
        """Raise Problem unless the learner of this name would be served here."""
        shard = shard_of(name)
        if shard not in self.shards and shard not in self._arriving:
            raise moving(name)

    def is_here(self, name: str) -> bool:
        """Whether a learner is served here, or would be."""
        return shard_of(name) in self.shards

    def is_coming(self, name: str) -> bool:
        """Whether a learner will soon be served here."""
        store = self._service.store
        return store is not None and shard_of(name) in store.shards.held and not self.is_here(name)

    def owner(self, name: str) -> Member | None:
        """Return the other instance that serves a learner; None if it is this one, or not known."""
        owner = None if self.is_here(name) else self._owners.get(shard_of(name))
        return None if owner is None or owner.address in ("", self.address) else owner

    async def find(self, name: str, end: float) -> Member | None:
        """Return the instance that serves a learner, None if it is this one; wait until ``end`` while it moves."""
        while not self.is_here(name):
            owner = self.owner(name)
            if owner is not None:
                return owner
            if time.monotonic() >= end:
                raise moving(name)
            await asyncio.sleep(PAUSE)
        return None


def moving(name: str) -> Problem:
    """Return the problem of a learner that nobody serves at the moment."""
    return Problem(
        "moving", f"learner {name!r:.70} moves to another instance: repeat the request", retry_after=1
    )
