"""The path of every operation: a step of one learner, its commit, its snapshots; and what a failed step leaves."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from weakfeedback.journal import JournalError, SqliteStore, Store, StoreUnavailable
from weakfeedback.journal.sql import snapshot_text
from weakfeedback.serve.learner import Learner, Weight
from weakfeedback.serve.models import Problem
from weakfeedback.serve.recover import read_again
from weakfeedback.serve.sharing import moving

if TYPE_CHECKING:
    from weakfeedback.serve.service import Service

THREADS = 2  # for whatever would stop the loop: heavy steps, snapshots and their texts, reports, compiling
TOGETHER = 100  # snapshots in one transaction, at the end
BACK_OFF = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between attempts to read the store again

log = logging.getLogger("weakfeedback.serve")
Told = TypeVar("Told")
State = tuple[int, int, int, dict[str, Any]]  # learner, event, time and body of a snapshot
Check = contextlib.AbstractAsyncContextManager[Callable[[], Awaitable[Any]]]


@contextlib.asynccontextmanager
async def _unchecked() -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    async def nothing() -> None:
        pass

    yield nothing


class Steps:
    """Runs the steps of the learners of a service: each under its learner's lock, then stored.

    Light steps run in the loop, heavy ones in a thread.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._pool = ThreadPoolExecutor(THREADS, "weakfeedback step")
        self._compiling = asyncio.Lock()  # one at a time, for seconds: the other threads are for steps
        self.in_threads: set[asyncio.Task[Any]] = set()  # these cannot be cancelled
        self._picturing: set[tuple[Learner, asyncio.Task[Any]]] = set()  # snapshots under way

    async def run(self, learner: Learner, work: Callable[..., Any], *arguments: Any, units: int = 1) -> Any:
        """Run a step of a learner, and return its result once it is stored."""
        result, future = await self.take(learner, work, *arguments, units=units)
        await self.wait(future)
        return result

    async def take(
        self,
        learner: Learner,
        work: Callable[..., Any],
        *arguments: Any,
        check: Check | None = None,
        units: int = 1,
    ) -> tuple[Any, asyncio.Future[Any] | None]:
        """Run a step of a learner, of so many units of work; return its result, and the future of its commit.

        If ``check``, entered before and called under the lock, returns the result of an earlier step, that is returned
        instead. A step either changes nothing and raises, or its events are handed over, whatever fails afterwards.
        """
        weight, units = learner.weight(getattr(work, "__name__", "audit")), max(units, 1)
        if weight.is_heavy(units):  # a cancelled caller must not release the lock
            return await asyncio.shield(
                self._spawn(self._take_in_thread(learner, work, arguments, check, weight, units))
            )
        if check is None and not learner.lock.locked():  # no other task can run in between
            return self._take_now(learner, work, arguments, weight, units)
        async with check or _unchecked() as repeated, learner.lock:
            self._check_current(learner)
            found = await repeated()
            if found is not None:
                return found, self.commit(learner)
            return self._take_now(learner, work, arguments, weight, units)

    def _take_now(
        self,
        learner: Learner,
        work: Callable[..., Any],
        arguments: tuple[Any, ...],
        weight: Weight,
        units: int,
    ) -> tuple[Any, asyncio.Future[Any] | None]:
        self._check_current(learner)
        # CPU time: by wall time all learners would look heavy on a busy machine; only a sample, as reading it is slow
        began = time.thread_time() if weight.is_timed() else None
        try:
            result = work(*arguments)
        except Exception as error:
            self._fail(learner, error)
            raise
        if began is not None:
            weight.timed(time.thread_time() - began, units)
        return result, self._submit(learner)

    async def _take_in_thread(
        self,
        learner: Learner,
        work: Callable[..., Any],
        arguments: tuple[Any, ...],
        check: Check | None,
        weight: Weight,
        units: int,
    ) -> tuple[Any, asyncio.Future[Any] | None]:
        def timed() -> Any:
            began = time.thread_time()
            try:
                return work(*arguments)
            finally:
                weight.is_timed()
                weight.timed(time.thread_time() - began, units)

        async with check or _unchecked() as repeated, learner.lock:
            self._check_current(learner)
            found = await repeated()
            if found is not None:
                return found, self.commit(learner)
            self._check_current(learner)
            learner.in_thread = True
            try:
                result = await self.in_pool(timed)
            except Exception as error:
                if self._is_kept(learner):
                    self._fail(learner, error)
                raise
            finally:
                learner.in_thread = False
            self._check_kept(learner)
            future = self._submit(learner)  # no other request came in between
            return result, future

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run what holds a lock while a thread works; the end of the service waits for it."""
        task = self._service.spawn(work)
        self.in_threads.add(task)
        task.add_done_callback(self.in_threads.discard)
        return task

    async def in_pool(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Run slow work in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    async def wait_for_thread(self, learner: Learner) -> None:
        """Return when no thread changes the learner: what it has changed is handed over when its step ends."""
        if learner.in_thread:
            async with learner.lock:
                pass

    def _check_current(self, learner: Learner) -> None:
        """Refuse to work on a learner that was discarded while the caller waited for its lock."""
        if learner.torn or not self._is_kept(learner) or self._service.state != "ready":
            self._check_kept(learner)
            self._service.check_ready()

    def _check_kept(self, learner: Learner) -> None:
        check_whole(learner)
        if learner.moved:
            raise moving(learner.name)
        if not self._is_kept(learner):
            raise Problem(
                "store_unavailable", "the store could not be written: repeat the request", retry_after=1
            )

    def _is_kept(self, learner: Learner) -> bool:
        return self._service.learners.get(learner.name) is learner

    def _fail(self, learner: Learner, error: Exception) -> None:
        """Hand over what a failed step has changed; if its events do not tell all of that, read the learner again."""
        learner.torn = not learner.settle_failed()
        with contextlib.suppress(Problem):  # the store was lost meanwhile: all learners are read again
            self._submit(learner)
        if learner.torn:
            log.error(
                "learner %s: a step failed halfway; it alone is read again", learner.name, exc_info=error
            )
            self._service.spawn(self._mend(learner))

    async def _mend(self, learner: Learner) -> None:
        """Replace a learner whose memory is not what its events say by one that is read from the store."""
        why = ""
        for pause in (0.0, *BACK_OFF):
            await asyncio.sleep(pause)
            try:
                future = learner.commit()
                if future is not None:
                    await future
                if not self._is_kept(learner) or self._service.state != "ready":
                    return
                again = await asyncio.to_thread(self._read_again, learner)
            except Exception as error:
                if not self._is_kept(learner):
                    return
                why = _reason(error)
                log.error("learner %s cannot be read again yet: %s", learner.name, error)
                continue
            if self._is_kept(learner):
                self._service.learners[learner.name] = again
                log.warning("learner %s was read again, to event %d", learner.name, again.seq)
                self.compile([again])
            return
        if self._is_kept(learner) and self._service.state == "ready":
            self._service.keep_out(learner, why)

    def _read_again(self, learner: Learner) -> Learner:
        reader = self._service.reader
        if reader is None:
            raise StoreUnavailable(0, "the store is closed")
        again, told = read_again(
            reader, learner, trust=self._service.options.trust_log, clock=self._service.options.clock
        )
        for words in told:
            log.warning(words)
        return again

    def _submit(self, learner: Learner) -> asyncio.Future[Any] | None:
        """Hand over what a step has changed; now and then let a snapshot be taken."""
        future = learner.submit(self._service.held()[1])
        if learner.wants_snapshot() and self._service.state == "ready":  # one that stops takes them by itself
            learner.pictured = learner.seq  # only once
            under_way = learner, self._spawn(self._take_snapshot(learner))
            self._picturing.add(under_way)
            under_way[1].add_done_callback(lambda _: self._picturing.discard(under_way))
        return future

    async def _take_snapshot(self, learner: Learner) -> None:
        async with learner.lock:
            if not self._is_kept(learner) or learner.torn:
                return
            state = await self.in_pool(self._picture, learner)
        await self._store_snapshots([(learner, state)])

    def _picture(self, learner: Learner) -> State | None:
        """Return a snapshot of a learner, whose lock the caller must hold.

        A snapshot is never required: whatever makes it fail, the next one is tried thousands of events later. After
        days of minutes it takes as long as hundreds of decisions: call this in a thread.
        """
        seq, at = learner.seq, self._service.options.clock()
        learner.pictured = seq
        try:
            return learner.id, seq, at, learner.picture()
        except Exception as error:
            _warn_of_snapshot(learner.name, seq, error)
            return None

    async def _store_snapshots(self, taken: list[tuple[Learner, State | None]]) -> None:
        """Let the committer store snapshots together; if that fails, each alone."""
        texts = await self.in_pool(_texts, taken)
        states = [(learner.name, text) for learner, text in texts if self._is_kept(learner)]
        if not states:
            return
        store, committer = self._service.held()

        def add(some: list[Any]) -> None:
            (name, first), *others = some
            try:
                if others:
                    store.add_snapshots([state for _, state in some])
                else:
                    store.add_snapshot(*first)
                self._service.last_snapshot = time.time()
            except Exception as error:
                if others:
                    for one in some:
                        add([one])
                else:
                    _warn_of_snapshot(name, first[1], error)

        committer.run(lambda: add(states))

    def commit(self, learner: Learner) -> asyncio.Future[Any] | None:
        """Return a future of the commit of all that was handed over; None if it is stored."""
        self._check_kept(learner)  # a step may have ended too late to be handed over
        return learner.commit()

    async def wait(self, future: asyncio.Future[Any] | None) -> Any:
        """Return the result of a commit, or raise Problem if it failed; only one caller may wait for ``future``."""
        try:
            return None if future is None else await future
        except (OSError, JournalError, RuntimeError) as error:
            raise Problem(
                "store_unavailable",
                f"the store could not be written, so repeat the request: {_reason(error)}",
                retry_after=1,
            ) from None

    def later(self, future: asyncio.Future[Any] | None) -> Callable[[], Awaitable[Any]]:
        """Return what waits for a commit as `wait` does, as often as it is called, or never: the caller may be gone."""
        if future is None:
            return lambda: self.wait(None)
        future.add_done_callback(lambda done: done.cancelled() or done.exception())  # it counts as retrieved
        return lambda: self.wait(asyncio.shield(future))

    async def confirm(self, learner: Learner, told: Told) -> Told:
        """Return what was read from memory once all of it is stored, and if the store is still owned.

        A process that slept may have lost its store to a standby meanwhile, which knows more.
        """
        await self.wait_for_thread(learner)
        self._check_kept(learner)  # a step may have ended too late to be handed over
        future: asyncio.Future[Any] | None
        if self._service.options.standby:  # what is not acknowledged may have been stored before
            store, committer = self._service.held()
            future = committer.run(store.check_owner)  # after all that was handed over
        else:
            future = learner.commit()
        await self.wait(future)
        return told

    async def confirm_owner(self) -> None:
        """Raise Problem if the store is no longer owned: what its learners refuse, others may know better."""
        if self._service.options.standby:
            self._service.check_ready()  # it may have been lost meanwhile
            store, committer = self._service.held()
            await self.wait(committer.run(store.check_owner))

    async def look(self, read: Callable[[Store], Any], *, slow: bool = False) -> Any:
        """Read the store: directly if that takes microseconds, otherwise in a thread."""
        reader = self._service.reader
        try:
            if reader is None:
                raise OSError("it is closed")
            if isinstance(reader, SqliteStore) and not slow:
                return read(reader)
            return await asyncio.to_thread(read, reader)
        except (OSError, ValueError, AttributeError) as error:  # closed meanwhile, or not readable
            raise Problem(
                "store_unavailable", f"the store cannot be read: {_reason(error)}", retry_after=1
            ) from None

    # -- policies

    def compile(self, learners: Iterable[Learner]) -> None:
        """Begin to compile the policies of learners, unless the service shall not."""
        if self._service.options.compiled:
            self._service.spawn(self._compile(learners))

    async def _compile(self, learners: Iterable[Learner]) -> None:
        """Switch learners to compiled policies, one after the other, while they serve."""
        for learner in learners:
            if learner.live.compiled or not self._is_kept(learner):
                continue
            try:  # the slow part runs in a thread, and the engine caches it
                async with self._compiling:
                    await self.in_pool(learner.compiled)
                async with learner.lock:  # no other task changes it meanwhile, and other learners are served
                    live = await self.in_pool(learner.compiled)
                    if self._is_kept(learner) and not learner.torn:
                        learner.become(live)
            except ValueError:  # cannot be compiled
                continue

    # -- the end

    async def take_snapshots(self, learners: Collection[Learner]) -> None:
        """Take a snapshot of every learner that has changed since its last one; return when all are handed over."""
        under_way = [task for learner, task in self._picturing if learner in learners]
        await asyncio.gather(*under_way, return_exceptions=True)
        taken: list[tuple[Learner, State | None]] = []
        for learner in learners:
            async with learner.lock:
                if learner.seq > learner.pictured and not learner.torn:
                    taken.append((learner, await self.in_pool(self._picture, learner)))
            if len(taken) == TOGETHER:
                await self._store_snapshots(taken)
                taken = []
        await self._store_snapshots(taken)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True)


def _texts(taken: list[tuple[Learner, State | None]]) -> list[tuple[Learner, tuple[int, int, int, str]]]:
    """Return snapshots as they are stored."""
    found = []
    for learner, state in taken:
        if state is not None:
            try:
                found.append((learner, (*state[:3], snapshot_text(*state))))
            except Exception as error:
                _warn_of_snapshot(learner.name, state[1], error)
    return found


def _warn_of_snapshot(name: str, seq: int, error: Exception) -> None:
    log.warning("learner %s: no snapshot of event %d could be stored: %s", name, seq, error)


def check_whole(learner: Learner) -> None:
    if learner.torn:
        words = f"learner {learner.name} is read again: repeat the request"
        raise Problem("learner_replaying", words, retry_after=1)


def _reason(error: BaseException) -> str:
    """Return the reason of an error, without the location of the store."""
    text = str(error)
    return text.rsplit(": ", 1)[-1] if ": " in text else text
