"""The core of the service: coroutines called by routes and other front ends.

An operation takes one learner's lock, is queued for the committer, and returns once it is stored. Reads wait for the
commit of what they show. When a commit fails, the state in memory is discarded, every waiting request gets an error,
and the store is opened and read again until that succeeds: no answer ever contains what is not in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import BaseModel

from weakfeedback.cascade.certificate import certificate_level
from weakfeedback.journal import Event, JournalError, OwnedElsewhere, SqliteStore, Store, StoreUnavailable
from weakfeedback.live.errors import UnknownDecision
from weakfeedback.live.report import plain
from weakfeedback.plaintext import counted
from weakfeedback.serve.commit import Committer
from weakfeedback.serve.config import ConfigError
from weakfeedback.serve.kinds import kind_of, same_output
from weakfeedback.serve.learner import ITEM, Clock, Learner, Weight, now
from weakfeedback.serve.limits import BATCH_LIMIT, KEY_LIMIT, LEARNERS_LIMIT
from weakfeedback.serve.metrics import Metrics
from weakfeedback.serve.models import (
    AuditLabels,
    AuditRequest,
    CalibrateRequest,
    CancelRequest,
    CostsRequest,
    DecideRequest,
    FeedbackBatch,
    FeedbackRequest,
    Problem,
    TellRequest,
    WarmStartRequest,
)
from weakfeedback.serve.outputs import check_labels, digest_of
from weakfeedback.serve.recover import Recovered, missing_in, read_again, recover_all
from weakfeedback.serve.wording import unlike

THREADS = 2  # for heavy steps
YIELD = 16  # feedbacks of a batch between which other requests are served
BACK_OFF = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds between attempts to open the store again
LAST = 253_402_300_799  # the last second that can be written, in the year 9999
JUMP = 60.0  # seconds by which a clock has changed if it was not time that passed
TICK = 1.0  # seconds between checks for expired decisions
DURABILITY = {"full": True, "process": False}

log = logging.getLogger("weakfeedback.serve")
Open = Callable[..., Store]
Told = TypeVar("Told")


@dataclass
class Options:
    """How a service runs: the settings that are not in the store."""

    durability: str = "full"
    compiled: bool = True
    trust_log: bool = False
    clock: Clock = now
    steady: Callable[[], float] = time.monotonic  # seconds, of a clock that never jumps
    tick: float = TICK
    standby: bool = False  # wait for a store that another process owns
    restored: bool = False  # at the start, accept a store that has lost events, and skip ids


class Service:
    """Many named learners over one store.

    Parameters
    ----------
    open_store : callable
        Returns the store, owned by this process; with ``read_only=True`` a second connection that only reads; with
        ``create=False`` only an existing store.
    options : Options
    """

    def __init__(
        self, open_store: Open, options: Options | None = None, metrics: Metrics | None = None
    ) -> None:
        self._open = open_store
        self.options = options or Options()
        self.metrics = metrics or Metrics()
        self.metrics.watch(self)
        self.learners: dict[str, Learner] = {}
        self.state = "starting"  # then standby, ready, replaying, stopping or stopped
        self.recovered = Recovered()
        self.store: Store | None = None
        self.reader: Store | None = None
        self.committer: Committer | None = None
        self.draining = False  # no longer ready, but requests in progress are finished
        self.models: list[str] = []  # learners that serve OpenAI clients
        self.commits = 0
        self.last_snapshot: float | None = None
        self.fatal: BaseException | None = None  # why the service stopped on its own
        self.ended = asyncio.Event()
        self._empty: dict[str, int] = {}
        self._making = asyncio.Lock()
        self._pool = ThreadPoolExecutor(THREADS, "weakfeedback step")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._steps: set[asyncio.Task[Any]] = set()  # those in a thread, which cannot be cancelled
        self._unexpired: set[str] = set()  # learners whose decisions could not expire
        self._was_owner = False
        self._identity = ""
        self._acknowledged: dict[
            int, tuple[str, int]
        ] = {}  # the last event of each learner when the store was lost
        self._returning: asyncio.Task[Any] | None = None  # opens the store again
        self._leaving = threading.Event()  # stops the thread of a waiting standby
        self._then: list[Callable[[], Awaitable[Any]]] = []  # when the store is owned for the first time
        self._again: list[Callable[[], Awaitable[Any]]] = []  # each time that it is owned again

    # -- start and stop

    async def start(self, then: Callable[[], Awaitable[Any]] | None = None) -> None:
        """Take ownership of the store, read it, call ``then``, and serve.

        Raises JournalError if the store cannot be trusted, OSError if it cannot be read. If another process owns it
        and ``options.standby`` is set, all this happens later, when that process has released the store.
        """
        self._then = [] if then is None else [then]
        try:
            await self._own()
        except OwnedElsewhere as error:
            if not self.options.standby:
                raise
            self._stand_by(error)
            self._returning = self._spawn(self._return())
        except Problem as problem:  # raised by ``then``
            raise StoreUnavailable(0, problem.detail) from None
        self._spawn(self._tick())
        if self.options.compiled:
            self._spawn(self._compile(list(self.learners.values())))

    async def when_owned(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Run ``work`` now if the store is owned, otherwise when it is, after the ``then`` of ``start``."""
        if self.state != "ready":
            self._then.append(work)
            return
        try:
            await work()
        except Problem as problem:
            raise StoreUnavailable(0, problem.detail) from None

    def when_owned_again(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Run ``work`` each time the store was lost and is owned again; others may have owned it in between."""
        self._again.append(work)

    def _stand_by(self, error: BaseException) -> None:
        self.state = "standby"
        log.warning("standby: %s", error)

    async def _own(self, wait: bool = False) -> None:
        """Open the store and rebuild every learner; with ``wait``, wait until no other process owns the store.

        An existing store is never replaced by an empty one.
        """
        loop = asyncio.get_running_loop()
        clock, trust = self.options.clock, self.options.trust_log
        began = time.perf_counter()

        def opened() -> tuple[Store, Store, Recovered]:
            waiting = {"wait": True, "stop": self._leaving.is_set} if wait else {}
            store = self._open(create=not self._was_owner, **waiting)
            try:
                if self._leaving.is_set():
                    raise StoreUnavailable(0, "the service is stopping")
                self._check_store(store)
                found = recover_all(store, trust=trust, clock=clock, compiled=self.options.compiled)
                return store, self._open(read_only=True), found
            except BaseException:
                store.close()
                raise

        store, self.reader, found = await asyncio.to_thread(opened)
        again, restored = (self._again, False) if self._was_owner else ([], self.options.restored)
        self.store, self._was_owner, self._identity = store, True, store.identity
        for words in found.warnings:
            log.warning(words)
        self.recovered, self._empty = found, found.empty
        self.metrics.replayed(found.events, time.perf_counter() - began, found.differences)
        self.learners = {learner.name: learner for learner in found.learners}
        for learner in found.learners:
            if learner.outbox.ahead > JUMP * 1e6:
                log.warning(
                    "the last event of learner %s lies %.0f seconds ahead of the clock: new events get its time until "
                    "then, and decisions expire by the clock",
                    learner.name,
                    learner.outbox.ahead / 1e6,
                )
        sync = DURABILITY[self.options.durability]
        self.committer = Committer(store, loop, sync=sync, failed=self._lost, watch=self._committed)
        if restored or store.is_moved():
            self._skip_ids(store, self.committer)
        before, self.state = self.state, "ready"
        then, self._then = self._then, []
        try:
            for work in (*then, *again):
                await work()
        except BaseException:
            self._then = then + self._then
            if self.state == "ready":
                self.state = before
            raise

    def _check_store(self, store: Store) -> None:
        """Refuse a store that is not the one that was owned, or holds less than was acknowledged."""
        words = missing_in(store, self._identity, self._acknowledged) if self._was_owner else store.surprise()
        if words is not None and (self._was_owner or not self.options.restored):
            hint = "with serve --restored the service goes on with what is there, and skips ids"
            raise JournalError(f"{words}; {hint}")

    def _skip_ids(self, store: Store, committer: Committer) -> None:
        """Go on with a copy: ids that were given out since it was made must not be given out again."""
        log.warning("%s was moved or restored: the ids of its learners go on after a gap", store.place)
        for learner in self.learners.values():
            learner.skip_ids()
            learner.submit(committer)
        committer.run(store.accept)

    def _held(self) -> tuple[Store, Committer]:
        """Return the store and its committer, while this process owns the store."""
        if self.store is None or self.committer is None:
            raise Problem("store_unavailable", "the store is not open: repeat the request", retry_after=1)
        return self.store, self.committer

    def _committed(self, seconds: float, events: int) -> None:
        self.commits += 1
        self.metrics.committed(seconds, events)

    def _lost(self, error: BaseException) -> None:
        """Handle a failed commit: the state in memory is no longer valid. Runs in the loop's thread."""
        if self.state != "ready":
            return
        log.error("a commit failed, and the store is read again: %s", error)
        self._acknowledged = {one.id: (one.name, one.committed) for one in self.learners.values()}
        self.state = "replaying"
        self.learners = {}
        if self._returning is None or self._returning.done():
            self._returning = self._spawn(self._return())

    async def _return(self) -> None:
        """Open the store, again or for the first time; retry until it succeeds."""
        attempt = 0
        while self.state in ("replaying", "standby"):
            await asyncio.to_thread(self._let_go)
            if self.state == "replaying" or attempt > 0:
                await asyncio.sleep(BACK_OFF[min(attempt, len(BACK_OFF) - 1)])
            attempt += 1
            try:
                await self._own(wait=self.state == "standby")
            except (JournalError, ConfigError) as error:  # damaged: nothing may be repaired silently
                self.fatal, self.state = error, "stopped"
                self.ended.set()
                return
            except OwnedElsewhere as error:
                if self.options.standby and self.state == "replaying":
                    attempt = 0
                    self._stand_by(error)
                continue
            except Exception as error:
                log.error("the store cannot be opened again yet: %s", error)
                continue
            log.warning("the store is open again: %s", counted(len(self.learners), "learner"))
            if self.options.compiled:
                self._spawn(self._compile(list(self.learners.values())))

    def _let_go(self) -> None:
        committer, self.committer = self.committer, None
        if committer is not None:
            committer.stop()
        for store in (self.reader, self.store):
            if store is not None:
                with contextlib.suppress(Exception):
                    store.close()
        self.reader = self.store = None

    async def stop(self) -> None:
        """Finish the work in progress, take snapshots, and release the store."""
        if self.state == "stopped":
            return
        was, self.state = self.state, "stopping"
        self._leaving.set()
        for task in self._tasks - self._steps:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if was == "ready":
            for learner in list(self.learners.values()):
                async with learner.lock:
                    if learner.seq > learner.pictured and not learner.torn:
                        self._keep(learner, await self._in_pool(self._picture, learner))
        await asyncio.to_thread(self._let_go)
        self._pool.shutdown(wait=True)
        self.state = "stopped"
        self.ended.set()

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _tick(self) -> None:
        """Expire decisions; check whether the store was lost while nothing was written."""
        before = self._watch_clock()
        while True:
            await asyncio.sleep(self.options.tick)
            try:
                before = self._watch_clock(before)
                if self.state == "ready":
                    if self.store is not None and self.committer is not None:
                        self.committer.run(self.store.check_owner)
                    await self.expire()
            except Exception:  # whatever it was, the next time may be better
                log.exception("decisions could not expire")

    def _watch_clock(self, before: float | None = None) -> float:
        """Return the difference of the clock to a steady one; warn if it has changed."""
        ahead = self.options.clock() / 1e6 - self.options.steady()
        if before is not None and abs(ahead - before) > JUMP:
            log.warning("the clock has jumped by %+.0f seconds", ahead - before)
        return ahead

    async def expire(self) -> int:
        """Expire decisions that have waited too long; return their number. A learner that fails stops no other."""
        count = 0
        for learner in list(self.learners.values()):
            if learner.torn:
                continue
            try:
                count += await self._expire(learner)
                self._unexpired.discard(learner.name)
            except Exception as error:
                if learner.name not in self._unexpired:  # once, not every second
                    log.warning("decisions of learner %s could not expire: %s", learner.name, error)
                self._unexpired.add(learner.name)
        return count

    async def _expire(self, learner: Learner) -> int:
        count = 0
        while (old := learner.older(BATCH_LIMIT)) > 0:
            events = await self._step(learner, learner.expire, BATCH_LIMIT, units=old)
            count += len(events)
            if not events:
                break
        return count

    # -- the path of every operation

    def learner(self, name: str) -> Learner:
        """Return the learner of this name; Problem if there is none."""
        self.check_ready()
        learner = self.learners.get(name)
        if learner is None:
            raise Problem("unknown_learner", f"there is no learner {name!r:.70}")
        _check_whole(learner)
        return learner

    def check_ready(self) -> None:
        """Raise Problem if the service cannot serve now."""
        if self.state == "ready":
            return
        code = self.state if self.state in ("starting", "stopping", "standby") else "store_unavailable"
        raise Problem(code, f"the service is {self.state}", retry_after=1)

    async def _step(self, learner: Learner, work: Callable[..., Any], *arguments: Any, units: int = 1) -> Any:
        """Run a step of a learner, and return its result once it is stored."""
        result, future = await self._taken(learner, work, *arguments, units=units)
        if future is not None:
            await self._wait(future)
        return result

    async def _taken(
        self,
        learner: Learner,
        work: Callable[..., Any],
        *arguments: Any,
        check: Callable[[], Awaitable[Any]] | None = None,
        units: int = 1,
    ) -> tuple[Any, asyncio.Future[Any] | None]:
        """Run a step of a learner, of so many units of work; return its result, and the future of its commit.

        If ``check``, called under the lock, returns the result of an earlier step, that is returned instead. A step
        either changes nothing and raises, or its events are handed over, whatever fails afterwards.
        """
        weight, units = learner.weight(getattr(work, "__name__", "audit")), max(units, 1)
        if weight.is_heavy(units):  # a cancelled caller must not release the lock
            task = self._spawn(self._take_heavy(learner, work, arguments, check, weight, units))
            self._steps.add(task)
            task.add_done_callback(self._steps.discard)
            return await asyncio.shield(task)
        if check is None and not learner.lock.locked():  # no other task can run in between
            return self._take(learner, work, arguments, weight, units)
        async with learner.lock:
            self._check_current(learner)
            found = None if check is None else await check()
            if found is not None:
                return found, self._commit(learner)
            return self._take(learner, work, arguments, weight, units)

    def _take(
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
            self._step_failed(learner, error)
            raise
        if began is not None:
            weight.timed(time.thread_time() - began, units)
        return result, self._submit(learner)

    async def _take_heavy(
        self,
        learner: Learner,
        work: Callable[..., Any],
        arguments: tuple[Any, ...],
        check: Callable[[], Awaitable[Any]] | None,
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

        async with learner.lock:
            self._check_current(learner)
            found = None if check is None else await check()
            if found is not None:
                return found, self._commit(learner)
            self._check_current(learner)
            learner.in_thread = True
            try:
                result = await self._in_pool(timed)
            except Exception as error:
                if self._is_kept(learner):
                    self._step_failed(learner, error)
                raise
            finally:
                learner.in_thread = False
            self._check_kept(learner)
            future = learner.submit(self._held()[1])  # no other request came in between
            if learner.wants_snapshot():
                body = await self._in_pool(self._picture, learner)
                if self._is_kept(learner):
                    self._keep(learner, body)
            return result, future

    async def _in_pool(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    async def _step_ended(self, learner: Learner) -> None:
        """Return when no thread changes the learner: what it has changed is handed over when its step ends."""
        if learner.in_thread:
            async with learner.lock:
                pass

    def _check_current(self, learner: Learner) -> None:
        """Refuse to work on a learner that was discarded while the caller waited for its lock."""
        self._check_kept(learner)
        self.check_ready()

    def _check_kept(self, learner: Learner) -> None:
        _check_whole(learner)
        if not self._is_kept(learner):
            raise Problem(
                "store_unavailable", "the store could not be written: repeat the request", retry_after=1
            )

    def _is_kept(self, learner: Learner) -> bool:
        return self.learners.get(learner.name) is learner

    def _step_failed(self, learner: Learner, error: Exception) -> None:
        """Hand over what a failed step has changed; if its events do not tell all of that, read the learner again."""
        learner.torn = not learner.settle_failed()
        with contextlib.suppress(Problem):  # the store was lost meanwhile: all learners are read again
            self._submit(learner)
        if learner.torn:
            log.error(
                "learner %s: a step failed halfway; it alone is read again", learner.name, exc_info=error
            )
            self._spawn(self._mend(learner))

    async def _mend(self, learner: Learner) -> None:
        """Replace a learner whose memory is not what its events say by one that is read from the store."""
        for pause in (0.0, *BACK_OFF):
            await asyncio.sleep(pause)
            try:
                future = learner.commit()
                if future is not None:
                    await future
                if not self._is_kept(learner) or self.state != "ready":
                    return
                again = await asyncio.to_thread(self._read_again, learner)
            except Exception as error:
                if not self._is_kept(learner):
                    return
                log.error("learner %s cannot be read again yet: %s", learner.name, error)
                continue
            if self._is_kept(learner):
                self.learners[learner.name] = again
                log.warning("learner %s was read again, to event %d", learner.name, again.seq)
                if self.options.compiled:
                    self._spawn(self._compile([again]))
            return
        log.error("learner %s cannot be read: it answers 503 until the service is started anew", learner.name)

    def _read_again(self, learner: Learner) -> Learner:
        reader = self.reader
        if reader is None:
            raise StoreUnavailable(0, "the store is closed")
        again, told = read_again(reader, learner, trust=self.options.trust_log, clock=self.options.clock)
        for words in told:
            log.warning(words)
        return again

    def _submit(self, learner: Learner) -> asyncio.Future[Any] | None:
        future = learner.submit(self._held()[1])
        if learner.wants_snapshot():
            self._keep(learner, self._picture(learner))
        return future

    def _picture(self, learner: Learner) -> dict[str, Any] | None:
        """Return a snapshot of a learner, whose lock the caller must hold.

        A snapshot is never required: whatever makes it fail, the next one is tried thousands of events later.
        """
        learner.pictured = learner.seq
        try:
            return learner.picture()
        except Exception as error:
            _warn_of_snapshot(learner.name, learner.pictured, error)
            return None

    def _keep(self, learner: Learner, body: dict[str, Any] | None) -> None:
        """Let the committer store a snapshot of a learner."""
        store, committer = self._held()
        name, id, seq, at = learner.name, learner.id, learner.pictured, self.options.clock()

        def add() -> None:
            try:
                store.add_snapshot(id, seq, at, body)  # type: ignore[arg-type]
                self.last_snapshot = time.time()
            except Exception as error:
                _warn_of_snapshot(name, seq, error)

        if body is not None:
            committer.run(add)

    def _commit(self, learner: Learner) -> asyncio.Future[Any] | None:
        """Return a future of the commit of all that was handed over; None if it is stored."""
        self._check_kept(learner)  # a step may have ended too late to be handed over
        return learner.commit()

    async def _wait(self, future: asyncio.Future[Any]) -> None:
        """Return when a commit is done, or raise Problem if it failed; only one caller may wait for ``future``."""
        try:
            await future
        except (OSError, JournalError, RuntimeError) as error:
            raise Problem(
                "store_unavailable",
                f"the store could not be written, so repeat the request: {_reason(error)}",
                retry_after=1,
            ) from None

    async def _shown(self, learner: Learner, told: Told) -> Told:
        """Return what was read from memory once all of it is stored, and if the store is still owned.

        A process that slept may have lost its store to a standby meanwhile, which knows more.
        """
        await self._step_ended(learner)
        future = self._commit(learner)
        if future is None and self.options.standby:
            store, committer = self._held()
            future = committer.run(store.check_owner)
        if future is not None:
            await self._wait(future)
        return told

    async def _look(self, read: Callable[..., Any], *arguments: Any) -> Any:
        """Read the store: directly if that takes microseconds, otherwise in a thread."""
        try:
            if isinstance(self.reader, SqliteStore):
                return read(self.reader, *arguments)
            return await asyncio.to_thread(read, self.reader, *arguments)
        except (OSError, ValueError, AttributeError) as error:  # closed meanwhile, or not readable
            raise Problem(
                "store_unavailable", f"the store cannot be read: {_reason(error)}", retry_after=1
            ) from None

    # -- learners

    async def create(self, name: str, config: Any) -> tuple[dict[str, Any], bool]:
        """Create a learner; return its description, and whether it is new."""
        self.check_ready()
        # a cancelled request must not leave a name in the store that this process does not know
        return await asyncio.shield(self._spawn(self._create(name, config)))

    async def _create(self, name: str, config: Any) -> tuple[dict[str, Any], bool]:
        kind = kind_of(config)
        async with self._making:
            known = self.learners.get(name)
            if known is not None:
                return await self._shown(known, self._same(known, config)), False
            if len(self.learners) >= LEARNERS_LIMIT:
                raise Problem("too_many_learners", f"there may be at most {LEARNERS_LIMIT} learners")
            seed = int.from_bytes(os.urandom(16)) if config.seed is None else config.seed
            try:
                live = await asyncio.to_thread(kind.make, seed, False)
            except (TypeError, ValueError) as error:
                raise Problem("invalid", str(error)) from None
            self.check_ready()
            store, committer = self._held()
            id = self._empty.pop(name, None)
            if id is None:
                id = await self._done(committer.run(lambda: store.create_learner(name, self.options.clock())))
            learner = Learner(name, id, config, live, self.options.clock)
            learner.begin()
            future = learner.submit(committer)
            if future is not None:
                await self._done(future)
            if self.committer is not committer:
                raise Problem(
                    "store_unavailable", "the store was opened again: repeat the request", retry_after=1
                )
            self.learners[name] = learner
            if self.options.compiled:
                self._spawn(self._compile([learner]))
            return self.told(learner), True

    async def _done(self, future: asyncio.Future[Any]) -> Any:
        await self._wait(future)
        return future.result()

    def _same(self, learner: Learner, config: Any) -> dict[str, Any]:
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
        return self.told(learner)

    async def _compile(self, learners: Iterable[Learner]) -> None:
        """Switch learners to compiled policies, one after the other, while they serve."""
        for learner in learners:
            if learner.live.compiled or not self._is_kept(learner):
                continue
            try:  # the slow part runs in a thread, and the engine caches it
                await self._in_pool(_compiled, learner)
                async with learner.lock:  # no other task changes it meanwhile, and other learners are served
                    live = await self._in_pool(_compiled, learner)
                    if self._is_kept(learner) and not learner.torn:
                        learner.become(live)
            except ValueError:  # cannot be compiled
                continue

    def told(self, learner: Learner) -> dict[str, Any]:
        """Return the description of a learner."""
        settings = learner.settings()
        return {
            "name": learner.name,
            "kind": learner.kind.name,
            "revision": learner.revision,
            "policy": learner.core.label,
            "archived": learner.archived,
            "created": moment(learner.created),
            "seq": learner.seq,
            "rounds": learner.live.rounds,
            "pending": len(learner.opened),
            "durability": self.options.durability,
            "config": settings,
        }

    async def info(self, name: str) -> dict[str, Any]:
        """Return the description of a learner, once it is stored."""
        learner = self.learner(name)
        async with learner.lock:
            told = self.told(learner)
        return await self._shown(learner, told)

    async def infos(self) -> dict[str, Any]:
        """Return the descriptions of all learners."""
        self.check_ready()
        return {"learners": [await self.info(name) for name in sorted(self.learners)]}

    async def recost(self, name: str, given: CostsRequest) -> dict[str, Any]:
        """Set new prices; setting the same again changes nothing."""
        learner = self.learner(name)
        wanted = given.model_dump(exclude_none=True)
        if not wanted:
            raise Problem("invalid", "stage_costs, prices or error_cost must be given")
        settings = learner.settings()
        if all(settings.get(field) == value for field, value in wanted.items()):
            return await self._shown(learner, self.told(learner))
        await self._step(learner, learner.recost, wanted)
        return await self.info(name)

    async def archive(self, name: str) -> dict[str, Any]:
        """Stop the decisions of this learner; its log stays."""
        learner = self.learner(name)
        if await self._step(learner, learner.archive):
            (store, committer), at = self._held(), self.options.clock()
            await self._done(committer.run(lambda: store.archive_learner(learner.id, at)))
        return await self.info(name)

    # -- decisions

    async def decide(
        self, name: str, given: DecideRequest | None = None, key: str | None = None
    ) -> dict[str, Any]:
        """Make one decision, or several in one commit; a repeated key returns the same ones."""
        many = given is not None and (given.count is not None or given.contexts is not None)
        told, future = await self._decide(name, given, key)
        if future is not None:
            await self._wait(future)
        return {"decisions": told} if many else told[0]

    async def decide_ahead(
        self, name: str, given: DecideRequest | None = None, key: str | None = None
    ) -> tuple[dict[str, Any], asyncio.Future[Any] | None]:
        """Make one decision; return it with the future of its commit. Do not reveal it before `stored` has returned."""
        told, future = await self._decide(name, given, key)
        if future is not None:
            future.add_done_callback(_looked_at)  # the caller may be gone by then
        return told[0], future

    async def _decide(
        self, name: str, given: DecideRequest | None, key: str | None
    ) -> tuple[list[dict[str, Any]], asyncio.Future[Any] | None]:
        learner = self.learner(name)
        contexts = _contexts(given)
        check = None
        if key is not None:
            known = checked_key(key)
            check = lambda: self._repeated(learner, known, contexts)  # noqa: E731
        found, future = await self._taken(
            learner, learner.decide, contexts, key, check=check, units=len(contexts)
        )
        return self._answers(learner, found), future

    def _answers(self, learner: Learner, found: list[Any]) -> list[dict[str, Any]]:
        """Return the answers to a client: made of new events, or found in the store."""
        return [self._decision(learner, one) if isinstance(one, Event) else one for one in found]

    async def stored(self, future: asyncio.Future[Any] | None) -> None:
        """Return when a commit is done, or raise Problem if it failed; can be called repeatedly."""
        if future is not None:
            await self._wait(asyncio.shield(future))

    async def _repeated(self, learner: Learner, key: str, contexts: list[Any]) -> list[dict[str, Any]] | None:
        """Return the decisions that were made with this key."""
        count = len(contexts)
        first = await self._by_key(learner, key)
        if first is None:
            return None
        events = [first]
        for n in range(1, count + 1):  # one more, which must not exist
            event = await self._by_key(learner, f"{key}{ITEM}{n}")
            if (event is None) != (n == count):
                raise Problem("key_reused", "the key was used for another number of decisions")
            if event is not None:
                events.append(event)
        for event, context in zip(events, contexts):
            if event.kind not in ("decide", "begin") or not learner.kind.is_same(
                learner.live, event.body, context
            ):
                raise Problem("key_reused", "the key was used for another request")
        return [{**self._decision(learner, event), "repeated": True} for event in events]

    async def _by_key(self, learner: Learner, key: str) -> Event | None:
        known = learner.keys.get(key)
        return known or await self._look(lambda store: store.by_key(learner.id, key))

    def _decision(self, learner: Learner, event: Event) -> dict[str, Any]:
        waits = learner.kind.waits(event.body)
        expires = moment(learner.expires(event)) if waits else None
        return {
            "id": event.decision,
            **learner.kind.answer(event.body),
            "expires": expires,
            "repeated": False,
        }

    async def feedback(
        self,
        name: str,
        id: int,
        given: FeedbackRequest,
        *,
        digest: str | None = None,
        extra: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Learn the feedback of a decision.

        A front end that compares answers itself identifies them by ``digest``; their cost can be stored in ``extra``,
        as ``spent`` and ``tokens``.
        """
        learner = self.learner(name)
        told, future = await self._fed(learner, id, given, digest, extra)
        if future is not None:
            await self._wait(future)
        return told

    async def _fed(
        self,
        learner: Learner,
        id: int,
        given: FeedbackRequest,
        digest: str | None = None,
        extra: dict[str, Any] | None = None,
    ) -> tuple[dict[str, Any], asyncio.Future[Any] | None]:
        """Learn a feedback; return the answer to the client, which is valid once the future is done."""
        digest = digest or learner.kind.digest(given)
        if id not in learner.core.ledger.waiting:
            await self._step_ended(learner)  # a thread may be about to end it, and has not said yet how
            return await self._ended(learner, id, digest), self._commit(learner)
        if given.dry_run:
            wants, _ = await self._taken(learner, self._wants, learner, id, given)
            return {"result": "possible", "id": id, "wants_label": wants}, self._commit(learner)
        event, future = await self._taken(learner, self._learn_once, learner, id, given, digest, extra)
        if event is None:  # another request was faster
            return await self._ended(learner, id, digest), self._commit(learner)
        differ = event.body.get("differ")
        told = {"result": "accepted", "id": id}
        if differ is not None:
            told |= {"differ": differ, "wants_label": False}
        return told, future

    def _learn_once(
        self, learner: Learner, id: int, given: FeedbackRequest, digest: str, extra: dict[str, Any] | None
    ) -> Event | None:
        waits = id in learner.core.ledger.waiting
        return learner.feedback(id, given, digest, extra) if waits else None

    def _wants(self, learner: Learner, id: int, given: FeedbackRequest) -> bool:
        if id not in learner.core.ledger.waiting:
            raise Problem("unknown_decision", f"decision {id} is not pending")
        return learner.kind.wants(learner.live, id, given)

    async def _ended(self, learner: Learner, id: int, digest: str) -> dict[str, Any]:
        """Return the answer to feedback for a decision that does not wait for any."""
        end = await self._end_of(learner, id)
        if end.kind == "feedback":
            if end.body.get("digest") == digest:
                learner.note_refused("duplicate")
                return {"result": "duplicate", "id": id}
            await self._shown(learner, None)
            learner.note_refused("conflict")
            raise Problem(
                "conflict",
                f"decision {id} was answered at {moment(end.at)} with other content",
                title=f"Decision {id} was answered with other content",
            )
        await self._shown(learner, None)
        learner.note_refused("late")
        code = "expired" if end.kind == "expire" else "cancelled"
        word = "has expired" if end.kind == "expire" else "was cancelled"
        raise Problem(code, f"decision {id} {word} at {moment(end.at)}; nothing is learned from it")

    async def _end_of(self, learner: Learner, id: int) -> Event:
        """Return the event that ended a decision that is not pending; Problem if there is none."""
        end = learner.ends.get(id)
        if end is None and 1 <= id < 2**63:
            end = await self._look(lambda store: store.end_of(learner.id, id))
        if end is not None:
            return end
        raise await self._no_end(learner, id)

    async def _no_end(self, learner: Learner, id: int) -> Problem:
        """Return the reason why a decision that is not pending has no end."""
        if not 1 <= id < learner.core.ledger.next:
            return Problem("unknown_decision", f"there is no decision {id!r:.30}")
        floor = await self._look(lambda store: store.floor(learner.id))
        if floor.decision is not None and id <= floor.decision:
            return Problem("forgotten", f"decision {id} is older than the log that is kept")
        return Problem("unknown_decision", f"decision {id} waits for no feedback")

    async def feedback_batch(self, name: str, given: FeedbackBatch) -> dict[str, Any]:
        """Learn many feedbacks in one commit; each is accepted or refused on its own."""
        learner = self.learner(name)
        check_batch(len(given.items))
        results: list[dict[str, Any]] = []
        last = None
        for n, item in enumerate(given.items):
            if n % YIELD == YIELD - 1:
                await asyncio.sleep(0)  # other requests in between
            try:
                told, future = await self._fed(learner, item.id, item)
                last = future or last
            except Problem as problem:
                if problem.status == 503:
                    raise
                told = problem.body()
            results.append(told)
        if last is not None:
            await self._wait(last)
        return {"results": results}

    async def cancel(self, name: str, id: int, given: CancelRequest | None = None) -> dict[str, Any]:
        """Cancel a decision; a repetition changes nothing."""
        learner = self.learner(name)
        given = given or CancelRequest()
        events = await self._step(learner, learner.cancel, id, given.cost, given.reason)
        if events:
            return {"result": "cancelled", "id": id}
        end = await self._end_of(learner, id)
        await self._shown(learner, None)
        if end.kind == "cancel":
            return {"result": "duplicate", "id": id}
        if end.kind == "expire":
            raise Problem("expired", f"decision {id} has expired at {moment(end.at)}")
        raise Problem("conflict", f"decision {id} was answered at {moment(end.at)}, and cannot be cancelled")

    async def begin(self, name: str, key: str | None = None) -> dict[str, Any]:
        """Begin a round of a learner that decides after every answer; a repeated key returns the same round."""
        learner = self.learner(name)
        check = None
        if key is not None:
            known = checked_key(key)
            check = lambda: self._repeated(learner, known, [None])  # noqa: E731
        found, future = await self._taken(learner, learner.begin_round, key, check=check)
        (begun,) = self._answers(learner, found)
        if future is not None:
            await self._wait(future)
        return {
            "id": begun["id"],
            "stage": 0,
            "name": learner.kind.names[0],
            "answer": None,
            "expires": begun["expires"],
            "repeated": begun["repeated"],
        }

    async def tell(self, name: str, id: int, given: TellRequest) -> dict[str, Any]:
        """Tell the output of a stage; return which stage to run next, or whose answer counts."""
        learner = self.learner(name)
        if learner.kind.opening != "begin":
            raise Problem("not_offered", f"a {learner.kind.name} learner takes feedback, it is not told")
        step, future = await self._taken(learner, self._tell_once, learner, id, given)
        if future is not None:
            await self._wait(future)
        repeated = step is None
        if step is None:
            step = await self._told_before(learner, id, given)
        stage, answer = step
        stage_name = None if stage is None else learner.kind.names[stage]
        return {"id": id, "stage": stage, "name": stage_name, "answer": answer, "repeated": repeated}

    def _tell_once(
        self, learner: Learner, id: int, given: TellRequest
    ) -> tuple[int | None, int | None] | None:
        return learner.tell(id, given) if id in learner.core.ledger.waiting else None

    async def _told_before(
        self, learner: Learner, id: int, given: TellRequest
    ) -> tuple[int | None, int | None]:
        """Return what followed an output of a round that has ended, from the log."""
        end = await self._end_of(learner, id)
        await self._shown(learner, None)
        if end.kind != "feedback":
            learner.note_refused("late")
            code = "expired" if end.kind == "expire" else "cancelled"
            raise Problem(code, f"decision {id} has ended at {moment(end.at)}; nothing is learned from it")
        told = await self._look(lambda store: _tells(store, learner.id, id, end.seq))
        stage = len(told) - 1 if given.stage is None else given.stage
        kind: Any = learner.kind
        if not 0 <= stage < len(told) or not same_output(kind.output(given), told[stage].body):
            learner.note_refused("conflict")
            raise Problem("conflict", f"decision {id} has ended, and was told something else")
        learner.note_refused("duplicate")
        after = told[stage].body["next"]
        return after, stage if after is None else None

    async def calibrate(self, name: str, given: CalibrateRequest, key: str | None = None) -> dict[str, Any]:
        """Learn from labelled rows how far the last stage can be trusted; only once per key."""
        learner = self.learner(name)
        if learner.kind.opening != "begin":
            raise Problem("not_offered", f"a {learner.kind.name} learner is not calibrated")
        repeated = isinstance(await self._once(learner, "calibrate", learner.calibrate, given, key), Event)
        return {"rows": len(given.outputs), "repeated": repeated}

    async def _once(
        self, learner: Learner, kind: str, work: Callable[..., Any], given: BaseModel, key: str | None
    ) -> Any:
        """Run a step of a learner with ``given``; if the key was already used for it, return its event instead."""
        digest = check = None
        if key is not None:
            known, digest = checked_key(key), digest_of(dict(given))
            check = lambda: self._known(learner, kind, known, digest, given)  # noqa: E731
        units = len(getattr(given, "outputs", ()))
        result, future = await self._taken(learner, work, given, key, digest, check=check, units=units)
        if future is not None:
            await self._wait(future)
        return result

    async def _known(self, learner: Learner, kind: str, key: str, digest: str, given: Any) -> Event | None:
        """The event of an earlier request with this key, which must have been the same."""
        event = await self._by_key(learner, key)
        if event is None:
            return None
        if event.kind != kind:
            raise Problem("key_reused", "the key was used for another request")
        known = event.body.get("digest")
        if known is None:  # old warm starts were kept without it: only their rows can be counted
            same = len(event.body["differ"]) == len(given.outputs)
        else:
            same = known == digest
        if not same:
            words = "The key was used with other content"
            raise Problem(
                "conflict", f"the key was used at {moment(event.at)} with other content", title=words
            )
        return event

    async def served(self, name: str, stage: int, cost: float, tokens: Sequence[int] = ()) -> None:
        """Record a request that a front end answered at a stage without comparison; changes only the accounts."""
        learner = self.learner(name)
        body: dict[str, Any] = {"stage": stage, "cost": cost}
        if tokens:
            body["tokens"] = list(tokens)
        await self._step(learner, learner.note, "serve", body)

    async def noted(self, name: str, kind: str, body: dict[str, Any]) -> None:
        """Record a "bill" of a front end, or the "terms" of the next ones; changes only the accounts."""
        learner = self.learner(name)
        await self._step(learner, learner.note, kind, body)

    async def decision(self, name: str, id: int) -> dict[str, Any]:
        """Return the status of a decision."""
        learner = self.learner(name)
        return await self._shown(learner, await self._standing(learner, id))

    async def _standing(self, learner: Learner, id: int) -> dict[str, Any]:
        await asyncio.sleep(0)  # many are looked up in a row: let other requests run
        made = None
        if 0 < id < learner.core.ledger.next:
            made = await self._look(lambda store: store.decided(learner.id, id))
        if made is None and id in learner.opened:
            await self._shown(learner, None)
            made = await self._look(lambda store: store.decided(learner.id, id))
        if made is None:
            raise await self._no_end(learner, id)
        waits = learner.kind.waits(made.body)
        told = {
            "id": id,
            "status": "pending" if waits else "alone",
            "decided": moment(made.at),
            "ended": None,
            "expires": moment(learner.expires(made)) if waits else None,
            **learner.kind.answer(made.body),
        }
        told.pop("name", None)
        if id not in learner.opened:
            end = learner.ends.get(id) or await self._look(lambda store: store.end_of(learner.id, id))
            if end is not None:
                status = {"feedback": "answered", "cancel": "cancelled", "expire": "expired"}[end.kind]
                told |= {"status": status, "ended": moment(end.at), "expires": None}
        return told

    async def decisions(self, name: str, status: str, after: int, limit: int) -> dict[str, Any]:
        """Return decisions of a status, or all, in the order of their ids."""
        learner = self.learner(name)
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
                told = await self._standing(learner, id)
            except Problem as problem:
                if problem.status == 503:
                    raise
                continue
            if status in ("all", told["status"]):
                found.append(told)
        more = seen + 1 < learner.core.ledger.next if status != "pending" else bool(ids) and ids[-1] > seen
        return await self._shown(learner, {"decisions": found, "next": seen if more else None})

    async def explain(self, name: str, id: int) -> dict[str, Any]:
        """Explain a decision."""
        learner = self.learner(name)
        explain = getattr(learner.live, "explain", None)
        if explain is None:
            raise Problem("not_offered", f"decisions of a {learner.kind.name} learner are not explained")
        async with learner.lock:
            try:
                text = explain(id)
            except UnknownDecision as error:
                raise Problem("not_explained", str(error)) from None
        return await self._shown(learner, {"id": id, "text": text})

    # -- what was learned

    async def report(self, name: str) -> dict[str, Any]:
        """Return what a learner has seen, spent and saved, as data."""
        learner = self.learner(name)
        async with learner.lock:
            told = await self._in_pool(self.report_now, learner)
        return await self._shown(learner, told)

    def report_now(self, learner: Learner) -> dict[str, Any]:
        """Return the current report of a learner, committed or not; the caller must hold its lock."""
        own = learner.kind.report(learner.live, learner.invoice)
        if own.get("weak_dominance") is not None:
            done = [audit for audit in learner.audits.values() if audit.get("verdict")]
            last = done[-1]["verdict"] if done else "none"
            own["weak_dominance"] = f"{own['weak_dominance']} Last audit: {last}."
        told = {
            "name": learner.name,
            "kind": learner.kind.name,
            **own,
            "late": learner.refused["late"],
            "cancelled": learner.counts["cancelled"],
            "expired": learner.counts["expired"],
            "currency": learner.config.currency,
            "seq": learner.seq,
        }
        if learner.invoice.terms is not None:
            told["proxy"] = {**learner.invoice.summary(), "since": moment(learner.invoice.since or 0)}
            told |= {name: told["proxy"][name] for name in ("spent", "wasted", "saved")}
        watch: Any = learner.observers.get("watch")
        if watch is not None and watch.kind != "allocation":
            told["drift"] = [
                {**row, "since": None if row["since"] is None else moment(row["since"])}
                for row in watch.drift.rows()
            ]
        return told

    async def report_text(self, name: str) -> str:
        """Return the report as the library's own table."""
        learner = self.learner(name)
        async with learner.lock:
            text = await self._in_pool(learner.kind.text, learner.live, learner.invoice)
            if learner.invoice.terms is not None:
                text += "\n\n" + learner.invoice.table(learner.config.currency)
        return await self._shown(learner, text)

    async def certificate(self, name: str, alpha: float) -> dict[str, Any]:
        """Return what the comparisons prove without labels."""
        learner = self.learner(name)
        certificate = getattr(learner.live, "certificate", None)
        if certificate is None:
            raise Problem("not_offered", f"a {learner.kind.name} learner has no certificate")
        try:
            certificate_level(alpha)
        except ValueError as error:
            raise Problem("invalid", str(error)) from None
        async with learner.lock:
            try:
                found = await self._in_pool(certificate, alpha)
            except ValueError as error:
                raise Problem("not_offered", str(error)) from None
        told = {
            "verdict": found.verdict,
            "possible": list(found.possible),
            "needed": found.needed,
            "alpha": found.alpha,
            "text": str(found),
        }
        return await self._shown(learner, told)

    async def warm_start(self, name: str, given: WarmStartRequest, key: str | None = None) -> dict[str, Any]:
        """Learn rows in which all stages ran; only once per key."""
        learner = self.learner(name)
        repeated = isinstance(await self._once(learner, "warm", learner.warm, given, key), Event)
        return {"rows": len(given.outputs), "repeated": repeated}

    # -- audits

    async def audit(self, name: str, given: AuditRequest, key: str | None = None) -> dict[str, Any]:
        """Begin an audit; return which of the fresh items need labels. Only once per key."""
        learner = self.learner(name)
        if learner.kind.name not in ("cascade", "router") or not hasattr(learner.live, "audit_outputs"):
            raise Problem("not_offered", f"a {learner.kind.name} learner has no audit")
        for outputs in given.outputs:
            check_labels("outputs", outputs)
        found = await self._once(learner, "audit", functools.partial(self._audit, learner), given, key)
        begun = (found if isinstance(found, Event) else found[-1]).body
        return _audit_told(learner.audits.get(begun["audit"], begun))

    def _audit(
        self, learner: Learner, given: AuditRequest, key: str | None, digest: str | None
    ) -> list[Event]:
        live: Any = learner.live
        try:
            arm = live._audited(given.arm, len(given.outputs))
        except ValueError as error:
            raise Problem("invalid", str(error)) from None
        rows, wanted = [], []
        for row, outputs in enumerate(given.outputs):
            if not arm < len(outputs) <= len(learner.kind.names):
                raise Problem(
                    "wrong_outputs",
                    f"outputs[{row}] must be of the stages 0 to {arm} at least, got {len(outputs)}",
                    field="outputs",
                )
            comparator: Any = learner.kind.comparator  # type: ignore[attr-defined]
            labels = [digest_of(label) for label in comparator.labels("outputs", outputs[: arm + 1])]
            same = len(set(labels)) == 1
            rows.append(None if same else labels)
            if not same:
                wanted.append(row)
        number = max(learner.audits, default=0) + 1
        body = {"audit": number, "arm": arm, "alpha": given.alpha, "rows": rows, "wanted": wanted}
        if digest is not None:
            body["digest"] = digest
        return learner.audit(body, key)

    async def audit_labels(self, name: str, number: int, given: AuditLabels) -> dict[str, Any]:
        """End an audit with the requested labels."""
        learner = self.learner(name)
        await self._step(learner, self._audit_end, learner, number, given)
        return await self.audit_told(name, number)

    def _audit_end(self, learner: Learner, number: int, given: AuditLabels) -> list[Event]:
        known = _audit_of(learner, number)
        live: Any = learner.live
        comparator: Any = learner.kind.comparator  # type: ignore[attr-defined]
        wanted = {str(row) for row in known["wanted"]}
        if set(given.labels) != wanted:
            raise Problem(
                "wrong_label", f"labels must be those of the {len(wanted)} rows asked for", field="labels"
            )
        told = {
            row: digest_of(comparator.labels("labels", [label])[0]) for row, label in given.labels.items()
        }
        if known.get("verdict"):
            if known["labels"] != told:
                raise Problem("conflict", f"audit {number} was answered with other labels")
            return []
        outputs = [["="] * (known["arm"] + 1) if labels is None else labels for labels in known["rows"]]
        truth = [told.get(str(row), "=") for row in range(len(outputs))]
        found = live.audit_outputs(outputs, truth, known["alpha"], known["arm"])
        result = {"low": found.low, "high": found.high, "against": plain(found.against), "text": str(found)}
        return learner.audit(
            {
                "audit": number,
                "labels": told,
                "verdict": found.verdict,
                **plain(result),
                "count": found.labels,
            }
        )

    async def audit_told(self, name: str, number: int) -> dict[str, Any]:
        """Return the status of an audit."""
        learner = self.learner(name)
        return await self._shown(learner, _audit_told(_audit_of(learner, number)))

    # -- the log

    async def events(self, name: str, after: int, limit: int) -> list[Event]:
        """Return the stored events after number ``after``; Problem if they were removed."""
        learner = self.learner(name)
        reader = self.reader

        def read() -> list[Event]:
            if reader is None:
                raise OSError("it is closed")
            first = reader.floor(learner.id).seq
            if after + 1 < first:
                raise Problem(
                    "forgotten", f"events before {first} were removed: begin with after={first - 1}"
                )
            return list(reader.events(learner.id, after, limit))

        try:
            return await asyncio.to_thread(read)
        except OSError as error:
            raise Problem(
                "store_unavailable", f"the store cannot be read: {_reason(error)}", retry_after=1
            ) from None


def moment(at: int) -> str:
    """Return a time, microseconds since 1970, in the format of RFC 3339."""
    return _second(min(at // 1_000_000, LAST))


@functools.lru_cache(1024)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def checked_key(key: str) -> str:
    """Return the idempotency key; Problem if it is too long or not printable ASCII."""
    if not key or not key.isascii() or not key.isprintable():
        raise Problem("wrong_key", "Idempotency-Key must be of printable ASCII characters")
    if len(key) > KEY_LIMIT:
        raise Problem(
            "key_too_long", f"Idempotency-Key must have at most {KEY_LIMIT} characters, got {len(key)}"
        )
    return key


def _warn_of_snapshot(name: str, seq: int, error: Exception) -> None:
    log.warning("learner %s: no snapshot of event %d could be stored: %s", name, seq, error)


def _check_whole(learner: Learner) -> None:
    if learner.torn:
        words = f"learner {learner.name} is read again: repeat the request"
        raise Problem("learner_replaying", words, retry_after=1)


def check_batch(count: int) -> None:
    """Refuse more items than one request may have."""
    if count > BATCH_LIMIT:
        raise Problem("too_many_items", f"there may be at most {BATCH_LIMIT} in one request, got {count}")


def _contexts(given: DecideRequest | None) -> list[Any]:
    """Return one context for each requested decision, None where there is none."""
    if given is None:
        return [None]
    if given.contexts is not None:
        if given.context is not None or given.count not in (None, len(given.contexts)) or not given.contexts:
            raise Problem("invalid", "contexts must be at least one, and as many as count", field="contexts")
        check_batch(len(given.contexts))
        return list(given.contexts)
    count = 1 if given.count is None else given.count
    check_batch(count)
    return [given.context] * count


def _compiled(learner: Learner) -> Any:
    return learner.kind.again(learner.live.state(), True)


def _tells(store: Store, learner: int, id: int, last: int) -> list[Event]:
    """Return the ``tell`` events of a round that ended with event ``last``."""
    begun = store.decided(learner, id)
    if begun is None:
        return []
    events = store.events(learner, begun.seq, last - begun.seq)
    return [event for event in events if event.kind == "tell" and event.decision == id]


def _audit_of(learner: Learner, number: int) -> dict[str, Any]:
    known = learner.audits.get(number)
    if known is None:
        raise Problem("unknown_audit", f"there is no audit {number!r:.30}")
    return known


def _audit_told(audit: dict[str, Any]) -> dict[str, Any]:
    told = {"id": audit["audit"], "arm": audit["arm"], "alpha": audit["alpha"]}
    told |= {"items": len(audit["rows"]), "rows": audit["wanted"]}
    if audit.get("verdict"):
        told |= {name: audit[name] for name in ("verdict", "low", "high", "against", "text")}
        told["labels"] = audit["count"]
    return told


def _looked_at(future: asyncio.Future[Any]) -> None:
    """Mark an error as retrieved, if no caller waits for it."""
    if not future.cancelled():
        future.exception()


def _reason(error: BaseException) -> str:
    """Return the reason of an error, without the location of the store."""
    text = str(error)
    return text.rsplit(": ", 1)[-1] if ": " in text else text
