"""Base class of the live objects: a policy, its generator, the ledger, and how a round is learned.

Every change follows the same path. Under the lock a `Change` is announced, with what is needed to undo it. The policy
decides or learns. Then the change gets its steps: this single assignment commits it. Then the steps are carried out.
An exception may arrive at any bytecode. The next caller that holds the lock finds the announced change and either
undoes it (no steps yet) or carries out its steps again. Both can be repeated, so an exception there does no harm.
A signal handler that uses the object in the middle of a change holds the lock too, and is refused.
"""

from __future__ import annotations

import math
import os
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np

from weakfeedback.contract.readonly import writes_to_loan
from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.engine.replication import fresh
from weakfeedback.journal.events import JournalError
from weakfeedback.live import journalled, storage
from weakfeedback.live.driver import Backup, Compiled, Examples, Interpreted
from weakfeedback.live.errors import DurabilityWarning as DurabilityWarning
from weakfeedback.live.ledger import Ledger, UnknownDecision
from weakfeedback.live.remaking import arguments_of, options_of, remade, saved_policy
from weakfeedback.live.storage import StateError
from weakfeedback.plaintext import with_article
from weakfeedback.settings import catalog
from weakfeedback.validate import brief, integer, number

Step = tuple[Callable[..., Any], tuple[Any, ...]]
Self = TypeVar("Self", bound="Live")
EXPLAINED = 1000  # decisions that can be explained
_alive: weakref.WeakSet[Live] = weakref.WeakSet()


class Change:
    """A change in progress: how to undo it and, once it is decided, the steps that carry it out."""

    __slots__ = ("generator", "policy", "steps")

    def __init__(self, policy: Backup | None, generator: Any) -> None:
        self.policy = policy  # None if the policy learns nothing
        self.generator = generator
        self.steps: list[Step] | None = None


class Live:
    """A policy in use: ids, pending decisions, lock, saved states and the journal. Subclasses define the feedback.

    A subclass defines how the policy is asked (``_choose``) and taught (``_teach``), and what the journal records of a
    decision and of an answer (``_decision_event``, ``_answer_event``).
    """

    kind: ClassVar[str]  # the kind of object that files declare
    setting: ClassVar[str]  # where the catalogue lists the policies
    form: ClassVar[dict[str, type | tuple[type, ...]]]  # what a state holds
    code: ClassVar[tuple[str, ...]] = ("policy",)  # arguments that no file holds
    opening: ClassVar[str] = "decide"  # the kind of the event that opens a decision
    choosing_learns: bool = False  # whether a decision may change what the policy knows
    cancelling_learns: ClassVar[bool] = False  # whether a cancellation may do so

    def __init__(
        self,
        policy: Any,
        make: Callable[..., Any],
        methods: tuple[str, ...],
        seed: Any,
        options: dict[str, Any],
        compiled: Any,
        remember: int | None = None,
    ) -> None:
        if isinstance(policy, str):
            self._policy_name: str | None = catalog.canonical_name(self.setting, policy)
            self._options: dict[str, Any] | None = dict(options)
            self._told: dict[str, Any] = {}
            chosen = make(self._policy_name, **options)
        else:
            if options:
                raise ValueError(
                    f"options go with the name of a policy, not with an object: {', '.join(options)}"
                )
            for method in methods:
                if isinstance(policy, type) or not callable(getattr(policy, method, None)):
                    raise ValueError(f"policy must be a name or a policy object, got {brief(policy)}")
            self._policy_name = catalog.policy_name(self.setting, policy)
            self._options = options_of(self.setting, self._policy_name, policy)
            self._told = arguments_of(policy) if self._options is None else {}
            chosen = policy
        if not isinstance(compiled, bool):
            raise ValueError(f"compiled must be True or False, got {brief(compiled)}")
        if remember is not None:
            remember = integer("remember", remember, 0)
        self._rng, self._seed = generator_of(seed)
        self._delay_safe = bool(getattr(chosen, "delay_safe", False))
        self._ledger = Ledger(one_at_a_time=not self._delay_safe, remember=remember)
        self._saving: Any = threading.RLock()  # acquired before the ledger's lock, if both are needed
        self._change: Change | None = None
        self._counts: Any = None  # a subclass sets it
        self._records: OrderedDict[int, Any] = OrderedDict()  # explanations of the last decisions
        self._log: Any = None  # the log of the journal
        self._journal: Any = None
        self._every = 1  # ``every`` of the journal that this object was recovered from
        self._owed: set[Any] = set()  # the calls that could not be written because the disk failed
        self._compiled = compiled
        self._drive(chosen)
        _alive.add(self)

    def _drive(self, policy: Any) -> None:
        """Install a policy."""
        self._install(*self._driven(policy))

    def _driven(self, policy: Any) -> tuple[Interpreted, Any]:
        """Return the driver of a policy, and the fresh policy, which a state must match."""
        driver = Interpreted(policy)
        if self._compiled:
            examples, undrawn = self._examples(policy)
            try:
                driver = Compiled(policy, self._rng, examples, undrawn)
            except CannotLower as reason:
                raise ValueError(
                    f"compiled must be False for {type(policy).__name__}, which cannot be compiled: {reason}"
                ) from None
        return driver, fresh(policy) if hasattr(policy, "__dict__") else policy

    def _install(self, driver: Interpreted, born: Any) -> None:
        self._driver, self._born = driver, born
        if not type(self).choosing_learns:
            # Policies of the catalogue guarantee that choosing changes nothing but ``scratch``; others do not.
            own = self._policy_name is None
            self.choosing_learns = own or bool(getattr(driver.policy, "scratch", ()))
        self._bind()

    def _examples(self, policy: Any) -> tuple[Examples, tuple[str, ...]]:
        """Return example arguments of each method that is called, and the methods that take no generator."""
        raise NotImplementedError

    def _bind(self) -> None:
        """Get the methods of the policy from the driver."""
        raise NotImplementedError

    # -- what can be seen

    @property
    def policy(self) -> Any:
        """The policy object itself, up to date: read it, but leave the learning to this object."""
        with self._ledger.lock:
            self._recover()
            return self._driver.write_back()

    @property
    def compiled(self) -> bool:
        """Whether the policy's methods run compiled; the decisions are the same either way."""
        return self._driver.compiled

    @property
    def rounds(self) -> int:
        """The number of feedbacks accepted so far."""
        with self._ledger.lock:
            self._recover()
            return self._ledger.rounds

    @property
    def pending(self) -> list[int]:
        """The ids decided but not yet answered."""
        with self._ledger.lock:
            self._recover()
            return self._ledger.pending

    @property
    def _label(self) -> str:
        return self._policy_name or type(self._driver.policy).__name__

    # -- the path of a round: decide, learn, count, acknowledge

    def _decide(self, *context: Any, opened: list[int] | None = None) -> tuple[int, Any]:
        """Let the policy decide, and open the decision.

        Its id is added to ``opened`` as part of the change, so that an interrupted caller knows what to cancel.
        """
        with self._ledger.lock:
            if self._change is not None:
                self._recover()
            backup = self._driver.backup() if self.choosing_learns else None
            change = self._change = Change(backup, self._rng.bit_generator.state)
            try:
                id = self._ledger.reserved()
                decided, record = self._choose(*context)
                steps = self._steps_of_decision(id, decided)
                if opened is not None:
                    steps.append((_add_last, (opened, id)))
                if record is not None:
                    steps.append((self._records.__setitem__, (id, record)))
                if self._log is not None:
                    steps.append(self._noted(self.opening, id, self._decision_event(decided)))
                self._commit(change, steps)
            except BaseException as error:
                self._recover()
                self._tell_borrower(error)
                raise
            while len(self._records) > EXPLAINED:
                self._records.popitem(last=False)
        return id, decided

    def _learn(self, records: list[Any]) -> None:
        """Learn these rounds: all or, if one is no longer pending, none."""
        with self._ledger.lock:
            if self._change is not None:
                self._recover()
            ledger = self._ledger
            waiting = ledger.waiting
            decided = [waiting[one.id] if one.id in waiting else ledger.decided(one.id) for one in records]
            change = self._change = Change(self._driver.backup(), self._rng.bit_generator.state)
            try:
                counts, rounds, steps = self._counts, ledger.rounds, list[Step]()
                for n, (kept, record) in enumerate(zip(decided, records)):
                    counts = self._teach(kept, record, counts)
                    steps.append((ledger.close, (record.id, record.content, rounds + n + 1)))
                    if self._log is not None:
                        steps.append(self._noted("feedback", record.id, self._answer_event(kept, record), n))
                steps.append((self._set_counts, (counts,)))
                self._commit(change, steps)
            except BaseException as error:
                self._recover()
                self._tell_borrower(error)
                raise

    def _close(self, ids: Iterable[int], cost: float, kind: str = "cancel", reason: str = "") -> list[int]:
        """Cancel the decisions that are still pending, and return their ids; ``cost`` was spent on each."""
        with self._ledger.lock:
            self._recover()
            found = []
            for id in ids:
                if not self._can_be_cancelled(id):
                    continue
                change = self._change = Change(
                    self._driver.backup() if self.cancelling_learns else None, None
                )
                try:
                    steps = [*self._steps_of_cancel(id, cost), (self._ledger.drop, (id,))]
                    if self._log is not None:
                        body = {"cost": cost, "reason": reason} if kind == "cancel" else {}
                        steps.append(self._noted(kind, id, body))
                    self._commit(change, steps)
                except BaseException:
                    self._recover()
                    raise
                found.append(id)
            return found

    def _steps_of_decision(self, id: int, decided: Any) -> list[Step]:
        """Return the steps of a decision other than those of the policy."""
        return [(self._ledger.enter, (id, decided))]

    def _can_be_cancelled(self, id: int) -> bool:
        return id in self._ledger.waiting

    def _steps_of_cancel(self, id: int, cost: float) -> list[Step]:
        """Return the steps of a cancellation other than those of the ledger; ``cost`` was spent on the decision."""
        return [(self._set_counts, (self._counts.after_failure(cost),))] if cost else []

    def _commit(self, change: Change, steps: list[Step]) -> None:
        change.steps = steps  # from here on the change is committed
        for step, arguments in steps:
            step(*arguments)
        self._change = None

    def _recover(self) -> None:
        """Undo or finish a change that an exception has interrupted; the caller must hold the lock."""
        change = self._change
        if change is None:
            return
        if isinstance(change, _Closed):
            raise RuntimeError(change.words)
        if _is_under_way(change, sys._getframe(1)):
            raise RuntimeError(
                f"this {self.kind} was used by a signal handler that interrupted its use: try again later"
            )
        if change.steps is not None:
            self._commit(change, change.steps)
            return
        if change.generator is not None:
            self._rng.bit_generator.state = change.generator
        if change.policy is not None:
            self._driver.restore(change.policy)
        self._change = None

    def _tell_borrower(self, error: BaseException) -> None:
        """Explain the error if the policy wrote to a borrowed array."""
        words = writes_to_loan(error, self._driver.policy) if isinstance(error, ValueError) else None
        if words is not None:
            raise ValueError(words) from error

    def _set_counts(self, counts: Any) -> None:
        self._counts = counts

    def _choose(self, *context: Any) -> tuple[Any, Any]:
        """Ask the policy; return its validated decision and the explanation, or None if no explanation is kept."""
        raise NotImplementedError

    def _teach(self, decided: Any, record: Any, counts: Any) -> Any:
        """Teach the policy the outcome of a decision, and return the counts after it."""
        raise NotImplementedError

    def cancel(self, id: int, cost: float = 0.0) -> None:
        """Cancel a pending decision: nothing is learned from it. ``cost`` was spent on it anyway."""
        spent = number("cost", cost, at_least=0.0)
        call = ("cancel", str(id))
        if self._settle_debt(call):
            return
        with self._ledger.lock:
            self._recover()
            if not (type(id) is int and self._can_be_cancelled(id)):
                self._ledger.decided(id)
            self._check_wasted(spent)
            self._close([int(id)], spent)
        self._acknowledge(call)

    def _check_wasted(self, cost: float) -> None:
        """Reject a cost that would overflow the sum."""
        wasted = getattr(self._counts, "wasted", 0.0)
        if not math.isfinite(wasted + cost):
            raise ValueError(f"cost must have a finite sum with the {wasted:g} wasted so far, got {cost!r}")

    # -- the journal

    def _connect(self, sink: Any) -> None:
        self._journal = self._log = sink

    def _take_over(self, seed: int | None, every: int, kept: Any = None) -> None:
        self._seed, self._every = seed, every
        self._records = self._records if kept is None else kept

    def _noted(self, kind: str, id: int | None, body: dict[str, Any], ahead: int = 0) -> Step:
        """Return the step that queues an event for the journal, after ``ahead`` other events of the same change."""
        # anything that cannot be written is rejected here
        return self._journal.put, (self._journal.prepare(kind, id, body, ahead),)

    def _acknowledge(self, call: Any = None) -> None:
        """Wait until the journal has everything done so far; the caller must not hold the lock.

        If the disk fails, the call is remembered, so that repeating it only writes.
        """
        journal = self._journal
        if journal is None:
            return
        try:
            journal.flush()
        except OSError:
            if call is not None:
                self._owed.add(call)
            raise
        self._owed.discard(call)
        if isinstance(self._change, _Closed):  # another thread has closed it meanwhile
            return
        if journal.wants_snapshot():
            with suppress(OSError):  # recovery works without a snapshot
                journal.snapshot(self)
        if journal.is_time_to_look():
            self.expire(journal.pending_ttl)

    def _settle_debt(self, call: Any) -> bool:
        """Return whether this call repeats one that was done but not written; if so, it is written now."""
        if not self._owed or call not in self._owed:
            return False
        self._acknowledge(call)
        return True

    @classmethod
    def open(
        cls: type[Self],
        path: str | os.PathLike[str],
        *arguments: Any,
        every: int = 1,
        pending_ttl: float | None = None,
        **named: Any,
    ) -> Self:
        """Return the object whose journal is at ``path``: a new one, or the recovered one if the journal exists.

        Every decision, feedback and cancellation is in the journal before its call returns. So nothing that a caller
        was told is lost when the process is killed or the power fails. Threads that wait for the disk share one write.

        Parameters
        ----------
        path : file
            On a local disk. Only one process may have it open; a second one is refused (`OwnedElsewhere`) until the
            first has closed it or died.
        *arguments, **named
            As for the class. When the object is recovered, arguments left out come from the journal. Different prices
            apply from now on (see ``recost``); any other difference raises ValueError.
        every : integer >= 1
            How often to wait for the disk. With n, a killed process still loses nothing, and a power failure loses at
            most the last n - 1 events; even then no id is issued twice.
        pending_ttl : number > 0, optional
            Seconds after which a decision without an answer expires: nothing is learned from it, and a late answer is
            refused.

        If the disk fails, a decision raises OSError and is cancelled. Feedback, cancellations and similar calls raise
        OSError, and repeating them writes them. An answer that was paid for is returned with a `DurabilityWarning`.
        `close` the object, or use it in a ``with`` block, to let other processes open the file.
        """
        found: Self = journalled.opened(cls, storage.file_at(path), arguments, named, every, pending_ttl)
        return found

    def close(self) -> None:
        """Close the journal, if there is one: the object becomes unusable, and the file can be opened again.

        If the last events cannot be written, they are lost: OSError is raised, and the journal is closed anyway.
        """
        journal = self._journal
        if journal is None:
            return
        if not isinstance(self._change, _Closed):  # otherwise an earlier call of close was interrupted
            with self._ledger.lock:
                self._recover()  # raises in a signal handler, and in a forked child
        try:
            if not isinstance(self._change, _Closed):
                self._finish(journal, f"this {self.kind} was closed: open {journal.store.place} again")
            journal.log.flush()  # other threads may have added events since, and wait for them
        finally:
            journal.store.close()
            self._journal = self._log = None

    def _finish(self, journal: Any, words: str) -> None:
        """Take a final snapshot, and refuse further changes."""
        try:
            with suppress(OSError):  # recovery works without a snapshot
                journal.snapshot(self)
        finally:
            with self._ledger.lock:
                self._recover()
                self._change = _Closed(words)  # for threads that are already waiting for the lock
                self._ledger.lock = _NoLock(words)

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def expire(self, seconds: float) -> list[int]:
        """Expire decisions that were made at least ``seconds`` ago and not answered; return their ids.

        Nothing is learned from them, and a late answer is refused. This needs a journal, which records their times.
        """
        age = number("seconds", seconds, at_least=0.0)
        pending, journal = self.pending, self._journal  # a closed object refuses the first
        if journal is None:
            raise ValueError("decisions expire only with a journal, which knows their age: see open()")
        old: list[int] = journal.expired(pending, age)
        if old:
            old = self._close(old, 0.0, "expire")
            self._acknowledge()
        return old

    def _skip_ids(self, count: int, every: int) -> None:
        """Skip the ids that may have been issued before a power loss."""
        with self._ledger.lock:
            self._recover()
            change = self._change = Change(None, None)
            start = self._ledger.next + count
            steps: list[Step] = [(self._ledger.skip_to, (start,)), (setattr, (self, "_every", every))]
            if self._log is not None:
                steps.append(self._noted("resume", None, {"next": start, "every": every}))
            self._commit(change, steps)
        self._acknowledge()

    def _apply(self, event: Any, same: bool, where: str) -> None:
        """Apply an event; ``same`` is true if this version of the package wrote it."""
        body, id = event.body, event.decision
        try:
            if event.kind == self.opening:
                made, decided = self._decide(*self._context_of(body))
                found, expected = self._decision_event(self._chosen_again(decided)), body
                journalled.check_decision(event, made, id, same, where)
                journalled.check_decision(event, found, expected, same, where)
                if found != expected:
                    self._let_stand(made, body)
            elif event.kind == "feedback":
                record = self._record_from_event(id, self._ledger.decided(id), body)
                self._learn([record])
                if self._answer_event(None, record) != body:
                    journalled.check_decision(event, self._answer_event(None, record), body, same, where)
            elif event.kind in ("cancel", "expire"):
                if not self._close([id], body.get("cost", 0.0), event.kind):
                    raise UnknownDecision(f"decision {id} is not pending")
            elif event.kind == "tell":
                self._apply_tell(event, same, where)
            elif event.kind == "resume":
                self._skip_ids(body["next"] - self._ledger.next, body["every"])
            else:
                self._apply_other(event.kind, body)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            if isinstance(error, JournalError):
                raise
            words = f"{where}: event {event.seq} ({event.kind}) cannot be applied: {error}"
            raise JournalError(words) from None

    def _chosen_again(self, decided: Any) -> Any:
        """Return what the policy has just chosen; a subclass may have played something else."""
        return decided

    def _let_stand(self, id: int, body: dict[str, Any]) -> None:
        """Keep a decision as logged, where this version of the package would decide differently."""
        self._ledger.enter(id, self._decoded(body))

    def _apply_other(self, kind: str, body: dict[str, Any]) -> None:
        raise ValueError(f"there is no kind of event {kind!r:.40}")

    def _apply_tell(self, event: Any, same: bool, where: str) -> None:
        self._apply_other(event.kind, event.body)

    def _context_of(self, body: dict[str, Any]) -> tuple[Any, ...]:
        """Return the argument of `_decide` from the event of a decision."""
        return ()

    def _decoded(self, body: dict[str, Any]) -> Any:
        """Return what the ledger keeps of a decision, from its event."""
        raise NotImplementedError

    def _record_from_event(self, id: int, decided: Any, body: dict[str, Any]) -> Any:
        """Return the argument of `_learn` from the event of an answer."""
        raise NotImplementedError

    def _code(self) -> dict[str, Any]:
        """Return the arguments that no file holds."""
        return {} if self._options is not None else {"policy": fresh(self._born)}

    @classmethod
    def _arguments_of(cls, state: dict[str, Any]) -> dict[str, Any]:
        """Return the constructor arguments of an object with this state, without prices and code."""
        core = state["core"]
        if core["policy"] is None:
            return {}
        options = {name: storage.decode(value) for name, value in core["options"].items()}
        return {"policy": core["policy"], **options}

    def _give_out(self, id: int) -> None:
        """Wait for the journal before a decision is returned; cancel it if that fails."""
        try:
            self._acknowledge()
        except BaseException:
            self._close([id], 0.0, reason="the journal could not be written")
            raise

    def _decision_event(self, decided: Any) -> dict[str, Any]:
        raise NotImplementedError

    def _answer_event(self, decided: Any, record: Any) -> dict[str, Any]:
        raise NotImplementedError

    # -- states

    @classmethod
    def _load(
        cls: type[Self],
        path: str | os.PathLike[str],
        code: dict[str, Any],
        policy: Any,
        compiled: bool,
        fresh_ids: bool = False,
    ) -> Self:
        """Return the object in a file, either a state or a journal; ``code`` is what files do not store."""
        file = storage.file_at(path)
        if journalled.is_journal(file):
            live: Self = journalled.read_journal(cls, file, {**code, "policy": policy, "compiled": compiled})
        else:
            live = cls._made_again(storage.read(file, cls.kind), code, policy, compiled, str(file))
        if not isinstance(fresh_ids, bool):
            raise ValueError(f"fresh_ids must be True or False, got {brief(fresh_ids)}")
        if fresh_ids:
            live._ledger.leap()
        return live

    @classmethod
    def _made_again(
        cls: type[Self], body: dict[str, Any], code: dict[str, Any], policy: Any, compiled: bool, where: str
    ) -> Self:
        """Return the object with this state."""
        storage.require("state", body, cls.form)
        cls._check_code(body, code, where)
        chosen, options = saved_policy(body["core"], policy)
        arguments = {**code, **cls._arguments_in(body), **options, "policy": chosen}
        live: Self = remade(lambda: cls(**arguments, seed=0, compiled=compiled))
        remade(lambda: live._restore(body))
        return live

    @classmethod
    def _check_code(cls, body: dict[str, Any], code: dict[str, Any], where: str) -> None:
        """Reject code that does not match the state."""

    @classmethod
    def _arguments_in(cls, body: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments that a state holds, without the options of the policy."""
        raise NotImplementedError

    def _restore(self, body: dict[str, Any]) -> None:
        """Continue where the object that gave this state stopped."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return everything as plain data, as `save` writes it; `from_state` makes an object of it."""
        with self._ledger.lock:
            self._recover()
            return {"core": self._core(), **self._state()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the whole state to ``path``, atomically. The loaded object decides as this one would have.

        A state that could not be loaded again is refused, and so is the path of a journal; the file is then unchanged.
        """
        file = storage.file_at(path)
        if journalled.is_journal(file):
            raise ValueError(f"path must not be a journal, which holds more than a state, got {str(path)!r}")
        with self._saving:  # so that the last state written is the latest
            body = self.state()
            try:
                self._check_state(body)
            except StateError as error:
                raise ValueError(
                    f"{path} is not written, because it could not be loaded again: {error}"
                ) from None
            storage.write(file, self.kind, body)

    def _check_state(self, body: dict[str, Any]) -> None:
        """Raise `StateError` for a state that could not be restored."""
        storage.restore_fields(self._born, body["core"]["fields"])
        Ledger.from_state(body["core"]["ledger"], self._decode_decision, not self._delay_safe)

    def _state(self) -> dict[str, Any]:
        raise NotImplementedError

    def _encode_decision(self, decided: Any) -> Any:
        raise NotImplementedError

    def _decode_decision(self, data: Any) -> Any:
        raise NotImplementedError

    def _core(self) -> dict[str, Any]:
        options = self._told if self._options is None else self._options
        policy = self._driver.write_back()
        return {
            "policy": self._policy_name if self._options is not None else None,
            "class": type(policy).__qualname__,
            "options": {name: storage.encode(value) for name, value in options.items()},
            "fields": storage.encode_fields(policy),
            "generator": storage.encode_generator(self._rng),
            "ledger": self._ledger.state(self._encode_decision),
        }

    def _restore_core(self, core: dict[str, Any]) -> None:
        """Continue where the saved object stopped; called on an object not yet shared."""
        policy = storage.restore_fields(self._driver.policy, core["fields"])
        rng = storage.restore_generator(core["generator"])
        ledger = Ledger.from_state(core["ledger"], self._decode_decision, one_at_a_time=not self._delay_safe)
        self._rng, self._ledger = rng, ledger
        self._drive(policy)

    # -- unsupported operations

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{with_article(self.kind)} cannot be pickled: "
            "use save(path) and load(path), or state() and from_state(state)"
        )

    def __copy__(self) -> NoReturn:
        raise TypeError(
            f"{with_article(self.kind)} cannot be copied, for two would give out the same ids: "
            "use state() and from_state(state) for one that goes its own way"
        )

    def __deepcopy__(self, memo: Any) -> NoReturn:
        self.__copy__()


class _Closed(Change):
    """The final change of an object: no other may follow."""

    __slots__ = ("words",)

    def __init__(self, words: str) -> None:
        super().__init__(None, None)
        self.words = words


class _NoLock:
    """Replaces the lock of an object that must no longer be used; its error says why."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __enter__(self) -> NoReturn:
        raise RuntimeError(self._words)

    def __exit__(self, *error: object) -> None:
        pass


def _is_under_way(change: Change, caller: FrameType) -> bool:
    """Return whether an outer call on this stack is making the change: it will continue, and must finish it itself."""
    frame = caller.f_back  # the caller itself may be making the change, after it caught an exception
    while frame is not None:
        if "change" in frame.f_code.co_varnames and frame.f_locals.get("change") is change:
            return True
        frame = frame.f_back
    return False


def _add_last(ids: list[int], id: int) -> None:
    """Append an id to a list, unless it is already there."""
    if ids[-1:] != [id]:
        ids.append(id)


def _disown() -> None:
    """Make every object of the parent unusable in a forked child."""
    for one in list(_alive):
        words = (
            f"this {one.kind} belongs to process {os.getppid()}, not to its fork {os.getpid()}: "
            "make or load one in each process, or share one through a service"
        )
        one._saving = one._ledger.lock = _NoLock(words)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown)


def generator_of(seed: Any) -> tuple[np.random.Generator, int | None]:
    """Return the generator of a seed, and the seed if it is an integer or was drawn as one.

    A seed is an integer, a SeedSequence, a Generator over PCG64, or None for fresh entropy.
    """
    if isinstance(seed, np.random.Generator):
        if not isinstance(seed.bit_generator, np.random.PCG64):
            raise ValueError(
                f"seed must be a Generator over PCG64, whose state can be saved, got {brief(seed)}"
            )
        return seed, None
    if isinstance(seed, np.random.SeedSequence):
        return np.random.Generator(np.random.PCG64(seed)), None
    known = int.from_bytes(os.urandom(16)) if seed is None else integer("seed", seed, 0)
    return np.random.Generator(np.random.PCG64(known)), known
