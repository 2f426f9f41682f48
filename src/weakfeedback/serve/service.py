"""The service: it owns a store and its learners, and lists what can be asked of it.

An operation takes one learner's lock, is queued for the committer, and returns once it is stored. Reads wait for the
commit of what they show. When a commit fails, the state in memory is discarded, every waiting request gets an error,
and the store is opened and read again until that succeeds: no answer ever contains what is not in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weakfeedback.journal import JournalError, OwnedElsewhere, Store, StoreUnavailable
from weakfeedback.journal import Learner as Stored
from weakfeedback.plaintext import counted
from weakfeedback.serve import expiry
from weakfeedback.serve.commit import Committer
from weakfeedback.serve.config import ConfigError
from weakfeedback.serve.kept_out import KeptOut
from weakfeedback.serve.key_lookups import KeyLookups
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.metrics import Metrics
from weakfeedback.serve.models import Problem
from weakfeedback.serve.operations import answering, auditing, deciding, lookup, registry, reporting, teaching
from weakfeedback.serve.outbox import Clock, now
from weakfeedback.serve.recover import Recovered, missing_in, recover_all
from weakfeedback.serve.sharing import Sharing
from weakfeedback.serve.steps import BACK_OFF, Steps, check_whole

if TYPE_CHECKING:
    from weakfeedback.serve.telemetry import Telemetry

TICK = 1.0  # seconds between checks for expired decisions
DURABILITY = {"full": True, "process": False}

log = logging.getLogger("weakfeedback.serve")
Open = Callable[..., Store]


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
    shared: str | None = None  # share the store with others, who reach this instance at this address


class Service:
    """Many named learners over one store.

    Parameters
    ----------
    open_store : callable
        Returns the store, owned by this process; with ``read_only=True`` a second connection that only reads; with
        ``create=False`` only an existing store.
    options : Options
    """

    # learners
    create = registry.create
    info = registry.info
    infos = registry.infos
    recost = registry.recost
    change_models = registry.change_models
    archive = registry.archive
    # decisions, from their beginning to their end
    decide = deciding.decide
    decide_ahead = deciding.decide_ahead
    begin = deciding.begin
    tell = answering.tell
    again = answering.again
    unseen = answering.unseen
    move_conversation = answering.move_conversation
    feedback = answering.feedback
    feedback_batch = answering.feedback_batch
    cancel = answering.cancel
    expire = expiry.expire
    decision = lookup.decision
    decisions = lookup.decisions
    explain = lookup.explain
    # what is learned in other ways, and what was learned
    warm_start = teaching.warm_start
    calibrate = teaching.calibrate
    report = reporting.report
    report_text = reporting.report_text
    certificate = reporting.certificate
    note = reporting.note
    audit = auditing.audit
    audit_labels = auditing.audit_labels
    audit_told = auditing.audit_told
    events = lookup.events

    def __init__(self, open_store: Open, options: Options | None = None) -> None:
        self._open = open_store
        self.options = options or Options()
        self.metrics = Metrics()
        self.metrics.watch(self)
        self.learners: dict[str, Learner] = {}
        self.kept_out = KeptOut()  # learners that cannot be read
        self.state = "starting"  # then standby, ready, replaying, stopping or stopped
        self.store: Store | None = None
        self.reader: Store | None = None
        self.committer: Committer | None = None
        self.draining = False  # no longer ready, but requests in progress are finished
        self.models: list[str] = []  # learners that serve OpenAI clients
        self.telemetry: Telemetry | None = None  # who hears of spans, with the extra
        self.commits = 0
        self.last_snapshot: float | None = None
        self.fatal: BaseException | None = None  # why the service stopped on its own
        self.ended = asyncio.Event()
        self.when_stopped: Callable[[], Awaitable[Any]] | None = None
        self.empty: dict[str, int] = {}  # ids of learners that were named but never created
        self.making = asyncio.Lock()  # one learner at a time is created
        self.steps = Steps(self)
        self.key_lookups = KeyLookups(self)
        self.sharing = None if self.options.shared is None else Sharing(self, self.options.shared)
        self._tasks: set[asyncio.Task[Any]] = set()
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
        self._then = [] if then is None or self.sharing is not None else [then]
        try:
            await self._own()
            if self.sharing is not None:
                await self.sharing.begin(then)
        except OwnedElsewhere as error:
            if not self.options.standby:
                raise
            self._stand_by(error)
            self._returning = self.spawn(self._return())
        except Problem as problem:  # raised by ``then``
            raise StoreUnavailable(0, problem.detail) from None
        self.spawn(expiry.tick(self))
        self.steps.compile(list(self.learners.values()))

    async def when_owned(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Run ``work`` now if the store is owned, otherwise when it is, after the ``then`` of ``start``.

        Of a shared store: for the learners that are owned now, and for others as soon as they are; see `is_arriving`.
        """
        if self.sharing is None and self.state != "ready":
            self._then.append(work)
            return
        try:
            await (work() if self.sharing is None else self.sharing.when_taken(work))
        except Problem as problem:
            raise StoreUnavailable(0, problem.detail) from None

    def is_arriving(self, name: str) -> bool:
        """Whether a learner of this name is or would be among those that were just read."""
        return name not in self.kept_out and (self.sharing is None or self.sharing.is_arriving(name))

    def when_owned_again(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Run ``work`` each time the store was lost and is owned again; others may have owned it in between.

        Of a shared store nothing is owned again: what is taken is new.
        """
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
            more: dict[str, Any] = {"wait": True, "stop": self._leaving.is_set} if wait else {}
            if self.options.shared is not None:
                more["shared"] = self.options.shared
            store = self._open(create=not self._was_owner, **more)
            try:
                if self._leaving.is_set():
                    raise StoreUnavailable(0, "the service is stopping")
                self._check_store(store)
                found = Recovered()
                if self.sharing is None:  # otherwise no learner is owned yet
                    found = recover_all(
                        store, trust=trust, clock=clock, compiled=self.options.compiled, keep_out=True
                    )
                return store, self._open(read_only=True), found
            except BaseException:
                store.close()
                raise

        store, self.reader, found = await asyncio.to_thread(opened)
        first = not self._was_owner or self.sharing is not None
        again, restored = ([], self.options.restored) if first else (self._again, False)
        self.store, self._was_owner, self._identity = store, True, store.identity
        for words in found.warnings:
            log.warning(words)
        self.empty = found.empty
        self.metrics.replayed(found.events, time.perf_counter() - began, found.differences)
        self.learners = {learner.name: learner for learner in found.learners}
        self.kept_out.forget()
        for stored, why in found.kept_out:
            self.kept_out.add(stored, why, store)
        for learner in found.learners:
            if learner.outbox.ahead > expiry.JUMP * 1e6:
                log.warning(
                    "the last event of learner %s lies %.0f seconds ahead of the clock: new events get its time until "
                    "then, and decisions expire by the clock",
                    learner.name,
                    learner.outbox.ahead / 1e6,
                )
        sync = DURABILITY[self.options.durability]
        self.committer = Committer(store, loop, sync=sync, failed=self._handle_loss, watch=self._count_commit)
        if restored or store.is_moved():
            self._skip_ids(store, self.committer)
        self.leave_gaps(found)
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
        if self.kept_out:
            ids = self.kept_out.ids()
            committer.run(lambda: store.owe_gaps(ids))
        committer.run(store.accept)

    def leave_gaps(self, found: Recovered) -> None:
        """Let learners skip ids that were kept out when the others did."""
        store, committer = self.held()
        again = [learner for learner in found.learners if learner.id in found.owed]
        for learner in again:
            learner.skip_ids()
            learner.submit(committer)
        if again:
            committer.run(lambda: store.owe_gaps([learner.id for learner in again], owed=False))

    def keep_out(self, learner: Learner, why: str) -> None:
        """Serve a learner no more: its memory is wrong, and it cannot be read again."""
        del self.learners[learner.name]
        self.kept_out.add(Stored(learner.id, learner.name, learner.created, None), why, self.held()[0])

    def held(self) -> tuple[Store, Committer]:
        """Return the store and its committer, while this process owns the store."""
        if self.store is None or self.committer is None:
            raise Problem("store_unavailable", "the store is not open: repeat the request", retry_after=1)
        return self.store, self.committer

    def _count_commit(self, seconds: float, events: int) -> None:
        self.commits += 1
        self.metrics.committed(seconds, events)

    def _handle_loss(self, error: BaseException) -> None:
        """Handle a failed commit: the state in memory is no longer valid. Runs in the loop's thread."""
        if self.state != "ready":
            return
        log.error("a commit failed, and the store is read again: %s", error)
        self._acknowledged = {one.id: (one.name, one.committed) for one in self.learners.values()}
        self.state = "replaying"
        self.learners = {}
        if self.sharing is not None:
            self.sharing.forget()
        if self._returning is None or self._returning.done():
            self._returning = self.spawn(self._return())

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
            self.steps.compile(list(self.learners.values()))

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
        for task in self._tasks - self.steps.in_threads:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if was == "ready":
            await self.steps.take_snapshots(list(self.learners.values()))
        await asyncio.to_thread(self._let_go)
        self.steps.close()
        if self.when_stopped is not None:
            await self.when_stopped()
        self.state = "stopped"
        self.ended.set()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine until the service stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- for operations

    def learner(self, name: str) -> Learner:
        """Return the learner of this name; Problem if there is none."""
        self.check_ready()
        learner = self.learners.get(name)
        if learner is None:
            self.check_here(name)
            raise Problem("unknown_learner", f"there is no learner {name!r:.70}")
        check_whole(learner)
        return learner

    def check_here(self, name: str) -> None:
        """Raise Problem if the learner of this name is kept out, or if another instance owns it, or would."""
        self.kept_out.check(name)
        if self.sharing is not None:
            self.sharing.check_here(name)

    def check_ready(self) -> None:
        """Raise Problem if the service cannot serve now."""
        if self.state == "ready":
            return
        code = self.state if self.state in ("starting", "stopping", "standby") else "store_unavailable"
        raise Problem(code, f"the service is {self.state}", retry_after=1)
