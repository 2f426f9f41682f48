"""The core of a live object: it runs a game, with ids, a lock, counts, a generator and a sink of events.

Every change follows the same path, under the lock. (1) A `Change` is announced, with what is needed to undo it. (2) It
is filled with everything that may fail: the policy decides or learns, the events are prepared. (3) One assignment
commits it. (4) It is carried out; every line of that may be repeated.

An exception may arrive at any bytecode. Whether an unfinished change is a leftover is told by the lock: ``change`` is
set and cleared only by a thread that has the lock, and every way out releases it. So a thread that has just taken the
lock finds leftovers only: it undoes them, or carries them out if they were committed. A thread that already has the
lock is a signal handler, or a policy that calls back: it is refused.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np

from weakfeedback.contract.readonly import writes_to_loan
from weakfeedback.live import storage
from weakfeedback.live.driver import Interpreted, driver_of
from weakfeedback.live.errors import PendingDecision, UnknownDecision
from weakfeedback.live.game import Choice, View
from weakfeedback.live.ledger import Content, Ledger

T = TypeVar("T")
_alive: weakref.WeakSet[Core] = weakref.WeakSet()


class Sink(Protocol):
    """Receives the events of a core, such as a journal."""

    def prepare(
        self, kind: str, id: int | None, body: dict[str, Any], ahead: int = 0, tag: Any = None
    ) -> Any:
        """Return the row of a future event that comes after ``ahead`` others. May raise, and changes nothing."""

    def put(self, row: Any) -> None:
        """Queue a row. Never raises; a repetition has no effect."""


class Change:
    """A change in progress. The defaults are class attributes, so that making one is cheap."""

    ready = False  # True: committed
    backup: Any = None  # of the policy, if it may have changed
    generator: Any = None  # its state before
    counts: Any = None
    terms: Any = None
    resumed: tuple[int, int] | None = None  # the next id, and ``every``
    installed: Interpreted | None = None  # a new driver
    opened: list[int] | None = None  # of the caller, who cancels these ids if it is interrupted
    enter: Sequence[tuple[int, Any]] = ()  # new decisions that wait for an answer
    alone: Sequence[tuple[int, Any]] = ()  # new decisions that do not
    alter: Sequence[tuple[int, Any]] = ()  # open decisions that go on
    close: Sequence[tuple[int, Content, int]] = ()  # answers, and the number of answers then
    drop: Sequence[int] = ()  # cancelled decisions
    kept: Sequence[tuple[int, Any]] = ()
    rows: Sequence[Any] = ()  # of the sink


class Closed(Change):
    """The final change: no other may follow."""

    def __init__(self, words: str) -> None:
        self.words = words


class Shut:
    """Replaces the lock of a core that must no longer be used; its error says why."""

    def __init__(self, words: str) -> None:
        self._words = words

    def _is_owned(self) -> NoReturn:
        raise RuntimeError(self._words)

    __enter__ = _is_owned

    def __exit__(self, *error: object) -> None:
        pass


class Core:
    """Decides, learns and cancels. All methods without an underscore take the lock themselves, and only once.

    ``tag`` is handed to the sink unread.
    """

    def __init__(
        self,
        game: Any,  # a `Game`
        driver: Interpreted,
        rng: np.random.Generator,
        seed: int | None,
        counts: Any,
        terms: Any,
        one_at_a_time: bool,
        remember: int | None,
    ) -> None:
        self.game, self.driver, self.rng, self.seed = game, driver, rng, seed
        self.counts, self.terms = counts, terms
        self.ledger = Ledger(one_at_a_time, remember)
        self.kept: OrderedDict[int, Any] = OrderedDict()  # explanations, or the history
        self.sink: Sink | None = None
        self.every = 1  # of the journal that it was recovered from
        self.change: Change | None = None
        self.lock: Any = threading.RLock()
        self.saving: Any = threading.RLock()  # taken before ``lock``, if both are needed
        game.bind(driver)
        _alive.add(self)

    # -- the lock

    def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return ``work(*arguments)``, done under the lock after leftovers are finished."""
        lock = self.lock
        if lock._is_owned():
            self._refuse()
        try:
            with lock:
                if self.change is not None:
                    self._recover()
                return work(*arguments)
        except BaseException:
            if lock._is_owned():  # only a tracer can raise between the end of the block and the release
                lock.release()
            raise

    def _refuse(self) -> NoReturn:
        raise RuntimeError(
            f"this {self.game.kind} was used by a signal handler that interrupted its use: try again later"
        )

    def _recover(self) -> None:
        """Undo a change that was not committed, or finish one that was; can be repeated from any point."""
        change = self.change
        if change is None:
            return
        if isinstance(change, Closed):
            raise RuntimeError(change.words)
        if change.ready:
            self._carry_out(change)
            return
        if change.generator is not None:
            self.rng.bit_generator.state = change.generator
        if change.backup is not None:
            self.driver.restore(change.backup)
        self.change = None

    def _carry_out(self, change: Change) -> None:
        """Carry out a change that is committed. Every line may be repeated."""
        ledger = self.ledger
        for id, decided in change.enter:
            ledger.enter(id, decided)
        for id, decided in change.alone:
            ledger.enter_alone(id, decided)
        for id, decided in change.alter:
            ledger.waiting[id] = decided
        for id, content, rounds in change.close:
            ledger.close(id, content, rounds)
        for id in change.drop:
            ledger.drop(id)
        if change.kept:
            kept, most = self.kept, self.game.keeps
            for id, why in change.kept:
                kept[id] = why
            while len(kept) > most:
                kept.popitem(last=False)
        if change.counts is not None:
            self.counts = change.counts
        if change.terms is not None:
            self.terms = change.terms
        if change.installed is not None:
            self._install(change.installed)
        if change.resumed is not None:
            ledger.skip_to(change.resumed[0])
            self.every = change.resumed[1]
        if change.opened is not None:
            _complete(change.opened, sorted(id for id, _ in (*change.enter, *change.alone)))
        for row in change.rows:
            self.sink.put(row)  # type: ignore[union-attr]
        self.change = None

    def _install(self, driver: Interpreted) -> None:
        self.driver = driver
        self.game.bind(driver)

    @property
    def closed(self) -> bool:
        """Whether it was shut in this process."""
        return isinstance(self.change, Closed)

    def shut(self, words: str) -> None:
        """Refuse all further use."""
        self.run(self._shut, words)

    def _shut(self, words: str) -> None:
        self.change = Closed(words)  # for threads that are already waiting for the lock
        self.lock = Shut(words)

    # -- decisions

    def decide(
        self, context: tuple[Any, ...] = (), opened: list[int] | None = None, tag: Any = None
    ) -> tuple[int, Any]:
        """Let the policy decide, and open the decision.

        Its id is added to ``opened`` as part of the change, so that an interrupted caller knows what to cancel.
        """
        lock = self.lock
        if lock._is_owned():
            self._refuse()
        try:
            with lock:
                if self.change is not None:
                    self._recover()
                id, choice = self._decide(context, opened, tag)
                return id, choice.decided
        except BaseException:
            if lock._is_owned():
                lock.release()
            raise

    def _decide(
        self, context: tuple[Any, ...] = (), opened: list[int] | None = None, tag: Any = None
    ) -> tuple[int, Choice]:
        game = self.game
        if game.resize is not None:
            self.ledger.ensure_room()
            self._resize(context)  # the lengths stay fixed even if the decision fails
        change = Change()
        change.generator = self.rng.bit_generator.state
        if game.choosing_learns:
            change.backup = self.driver.backup()
        self.change = change
        try:
            id = self.ledger.reserved()
            choice = game.choose(self.rng, self.counts, self.terms, *context)
            if choice.waits:
                change.enter = ((id, choice.decided),)
            else:
                change.alone = ((id, choice.decided),)
            change.counts, change.opened = choice.counts, opened
            if choice.why is not None:
                change.kept = ((id, choice.why),)
            if self.sink is not None:
                change.rows = (self.sink.prepare(game.opening, id, game.opened(choice.decided), 0, tag),)
            change.ready = True
            self._carry_out(change)
        except BaseException as error:
            self._recover()
            raise self._explained(error)  # noqa: B904
        return id, choice

    def decide_many(
        self, contexts: Sequence[tuple[Any, ...]], opened: list[int] | None = None, tags: Any = None
    ) -> list[tuple[int, Any]]:
        """Return a decision for each of the contexts, with consecutive ids: all or none."""
        return self.run(self._decide_many, contexts, opened, tags)

    def _decide_many(
        self, contexts: Sequence[tuple[Any, ...]], opened: list[int] | None, tags: Sequence[Any] | None
    ) -> list[tuple[int, Any]]:
        game, ledger = self.game, self.ledger
        ledger.ensure_room(len(contexts))
        if game.resize is not None:
            for context in contexts:
                self._resize(context)
        change = Change()
        change.generator = self.rng.bit_generator.state
        if game.choosing_learns:
            change.backup = self.driver.backup()
        self.change = change
        try:
            first, counts = ledger.reserved(), self.counts
            enter, alone, kept, rows = list[Any](), list[Any](), list[Any](), list[Any]()
            for n, context in enumerate(contexts):
                id, choice = first + n, game.choose(self.rng, counts, self.terms, *context)
                (enter if choice.waits else alone).append((id, choice.decided))
                counts = counts if choice.counts is None else choice.counts
                if choice.why is not None:
                    kept.append((id, choice.why))
                if self.sink is not None:
                    tag = None if tags is None else tags[n]
                    rows.append(self.sink.prepare(game.opening, id, game.opened(choice.decided), n, tag))
            change.enter, change.alone, change.kept, change.rows = enter, alone, kept, rows
            change.counts, change.opened = counts, opened
            change.ready = True
            self._carry_out(change)
        except BaseException as error:
            self._recover()
            raise self._explained(error)  # noqa: B904
        return sorted([*enter, *alone], key=lambda made: made[0])

    def current(self) -> tuple[int, Any]:
        """Return the open decision or, if there is none, a new one."""
        return self.run(self._current)

    def _current(self) -> tuple[int, Any]:
        for id, decided in self.ledger.waiting.items():
            return id, decided
        id, choice = self._decide()
        return id, choice.decided

    def resize(self, context: tuple[Any, ...]) -> None:
        """Fix the lengths of all further contexts to those of this one, if none came before."""
        self.run(self._resize, context)

    def _resize(self, context: tuple[Any, ...]) -> None:
        made = self.game.resize(self.terms, context)
        if made is None:
            return
        policy, terms = made
        change = Change()
        if policy is not None:
            old = self.driver
            change.installed = driver_of(policy, old.origin, self.game, old.compiled, self.rng)
        change.terms = terms
        self.change = change
        change.ready = True
        self._carry_out(change)

    def advance(self, id: int, before: Any, told: Any, learn: bool, tag: Any = None) -> Any:
        """Let an open decision go on with an output; return it as it is then, None if it has changed meanwhile.

        With ``learn``, a round that has its last output is learned in the same change.
        """
        return self.run(self._advance, id, before, told, learn, tag)

    def _advance(self, id: int, before: Any, told: Any, learn: bool, tag: Any = None) -> Any:
        game = self.game
        if self.ledger.decided(id) is not before:
            return None
        change = Change()
        change.generator = self.rng.bit_generator.state
        if game.choosing_learns:
            change.backup = self.driver.backup()
        self.change = change
        try:
            after, why = game.advance(before, told, self.kept.get(id), self.terms, self.rng)
            rows = list[Any]()
            if self.sink is not None:
                rows.append(self.sink.prepare("tell", id, game.told(after), 0, tag))
            change.alter, change.kept = ((id, after),), ((id, why),)
            if learn and not game.calls(after):
                change.backup = change.backup or self.driver.backup()  # until here the policy only chose
                record = game.record(id, after, (), self.terms)
                change.counts = game.teach(after, record, self.counts, self.terms, self.rng)
                change.close = ((id, record.content, self.ledger.rounds + 1),)
                if self.sink is not None:
                    rows.append(self.sink.prepare("feedback", id, game.answered(after, record), 1, tag))
            change.rows = rows
            change.ready = True
            self._carry_out(change)
        except BaseException as error:
            self._recover()
            raise self._explained(error)  # noqa: B904
        return after

    # -- answers

    def awaited(self, id: int, content: Content) -> Any:
        """Return what was decided under a pending id, None if it has this answer already."""
        return self.run(self.ledger.awaited, id, content)

    def learn(self, records: list[Any], tag: Any = None) -> None:
        """Learn these rounds: all or, if one is no longer pending, none."""
        lock = self.lock
        if lock._is_owned():
            self._refuse()
        try:
            with lock:
                if self.change is not None:
                    self._recover()
                self._learn(records, tag)
        except BaseException:
            if lock._is_owned():
                lock.release()
            raise

    def _learn(self, records: list[Any], tag: Any = None) -> None:
        game, ledger, sink = self.game, self.ledger, self.sink
        waiting, rounds = ledger.waiting, ledger.rounds
        decided = [waiting[one.id] if one.id in waiting else ledger.decided(one.id) for one in records]
        change = Change()
        change.generator, change.backup = self.rng.bit_generator.state, self.driver.backup()
        self.change = change
        try:
            counts, terms, rng = self.counts, self.terms, self.rng
            close, kept, rows = list[Any](), list[Any](), list[Any]()
            for record, known in zip(records, decided):
                counts = game.teach(known, record, counts, terms, rng)
                rounds += 1
                close.append((record.id, record.content, rounds))
                if record.keep is not None:
                    kept.append((record.id, record.keep))
                if sink is not None:
                    body = game.answered(known, record)
                    rows.append(sink.prepare("feedback", record.id, body, len(rows), tag))
            change.counts, change.close, change.kept, change.rows = counts, close, kept, rows
            change.ready = True
            self._carry_out(change)
        except BaseException as error:
            self._recover()
            raise self._explained(error)  # noqa: B904

    def settle(self, record: Any, tag: Any = None) -> str:
        """Learn a round, unless another thread has learned it already: "accepted" or "duplicate"."""
        return self.run(self._settle, record, tag)

    def _settle(self, record: Any, tag: Any) -> str:
        if self.ledger.awaited(record.id, record.content) is None:
            return "duplicate"
        self._learn([record], tag)
        return "accepted"

    # -- ends without an answer

    def cancel(self, id: int, cost: float) -> None:
        """Cancel one decision, which must be open."""
        self.run(self._cancel, id, cost)

    def _cancel(self, id: int, cost: float) -> None:
        if not (type(id) is int and self._can_be_closed(id)):
            self.ledger.decided(id)
        wasted = getattr(self.counts, "wasted", 0.0)
        if not math.isfinite(wasted + cost):
            raise ValueError(f"cost must have a finite sum with the {wasted:g} wasted so far, got {cost!r}")
        self._close([int(id)], cost)

    def close(
        self, ids: Iterable[int], cost: float = 0.0, kind: str = "cancel", reason: str = ""
    ) -> list[int]:
        """Cancel, or expire, the decisions that are still open, and return their ids; ``cost`` was spent on each."""
        return self.run(self._close, ids, cost, kind, reason)

    def _can_be_closed(self, id: int) -> bool:
        return id in self.ledger.waiting or id in self.ledger.alone

    def _close(self, ids: Iterable[int], cost: float, kind: str = "cancel", reason: str = "") -> list[int]:
        found = [id for id in dict.fromkeys(ids) if self._can_be_closed(id)]
        for id in found:
            change = Change()
            if self.game.cancelling_learns:
                change.backup = self.driver.backup()
            self.change = change
            self._drop(change, id, cost, kind, reason)
        return found

    def _drop(self, change: Change, id: int, cost: float, kind: str, reason: str) -> None:
        try:
            change.counts = self.game.drop(self.ledger.waiting.get(id), cost, self.counts)
            change.drop = (id,)
            if self.sink is not None:
                body = {"cost": cost, "reason": reason} if kind == "cancel" else {}
                change.rows = (self.sink.prepare(kind, id, body),)
            change.ready = True
            self._carry_out(change)
        except BaseException:
            self._recover()
            raise

    # -- everything else

    def alter(self, kind: str, body: dict[str, Any], tag: Any = None) -> dict[str, Any]:
        """Make an alteration of the game, such as new prices; return the body as journalled."""
        return self.run(self._alter, kind, body, tag)

    def _alter(self, kind: str, body: dict[str, Any], tag: Any) -> dict[str, Any]:
        game = self.game
        if kind not in game.alters:
            raise ValueError(f"there is no kind of event {kind!r:.40}")
        if kind in game.in_order and self.ledger.one_at_a_time and self.ledger.waiting:
            raise PendingDecision("a decision is open, and this policy learns in order: answer it first")
        if game.resize is not None:
            for context in game.contexts_in(body):
                self._resize(context)
        change = Change()
        change.generator, change.backup = self.rng.bit_generator.state, self.driver.backup()
        self.change = change
        try:
            altered = game.alters[kind](body, self.counts, self.terms, self.rng)
            change.counts, change.terms = altered.counts, altered.terms
            if self.sink is not None:
                change.rows = (self.sink.prepare(kind, None, altered.body, 0, tag),)
            change.ready = True
            self._carry_out(change)
        except BaseException as error:
            self._recover()
            raise self._explained(error)  # noqa: B904
        found: dict[str, Any] = altered.body
        return found

    def skip(self, start: int, every: int) -> None:
        """Issue no id below ``start``: some may have been issued before a power loss."""
        self.run(self._skip, start, every)

    def _skip(self, start: int, every: int) -> None:
        change = Change()
        change.resumed = start, every
        self.change = change
        self._resume(change, {"next": start, "every": every})

    def _resume(self, change: Change, body: dict[str, Any]) -> None:
        try:
            if self.sink is not None:
                change.rows = (self.sink.prepare("resume", None, body),)
            change.ready = True
            self._carry_out(change)
        except BaseException:
            self._recover()
            raise

    def _explained(self, error: BaseException) -> BaseException:
        """Return the error, in words if the policy wrote to a borrowed array."""
        words = writes_to_loan(error, self.driver.policy) if isinstance(error, ValueError) else None
        if words is None:
            return error
        found = ValueError(words)
        found.__cause__ = error
        return found

    # -- what can be seen

    def view(self, work: Callable[[View], T]) -> T:
        """Return ``work(view)``: what it makes of counts, prices and policy, between two changes."""
        found: T = self.run(self._view, work)
        return found

    def _view(self, work: Callable[[View], T]) -> T:
        ledger, policy = self.ledger, self.driver.write_back()
        return work(View(self.counts, self.terms, len(ledger.waiting), ledger.rounds, policy, self.kept))

    def policy(self) -> Any:
        """Return the policy object, up to date."""
        return self.run(lambda: self.driver.write_back())

    @property
    def label(self) -> str:
        """The name of the policy."""
        return self.driver.origin.name or type(self.driver.policy).__name__

    def pending(self) -> list[int]:
        """Return the ids decided but not yet answered, in increasing order."""
        found: list[int] = self.run(lambda: list(self.ledger.waiting))
        return found

    # -- states

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return self.run(self._state)

    def _state(self) -> dict[str, Any]:
        game = self.game
        policy, (name, options, told) = self.driver.write_back(), self.driver.origin
        core = {
            "policy": name if options is not None else None,
            "class": type(policy).__qualname__,
            "options": {
                key: storage.encode(value) for key, value in (told if options is None else options).items()
            },
            "fields": storage.encode_fields(policy),
            "generator": storage.encode_generator(self.rng),
            "ledger": self.ledger.state(game.encode),
        }
        found = {"core": core, **game.state(self.counts, self.terms, self.kept)}
        if "alone" in game.form.other:
            found["alone"] = [[id, game.encode_alone(decided)] for id, decided in self.ledger.alone.items()]
        return found

    def restore(self, body: dict[str, Any]) -> None:
        """Continue where the core that gave this state stopped; for a core not yet shared."""
        game = self.game
        counts, terms, kept = game.restore(body)
        if game.resize is not None and terms.dimension:
            made = game.resized(terms)
            if made is not None:
                self._install(driver_of(made, self.driver.origin, game, self.driver.compiled, self.rng))
        policy, ledger = self._restored(body, self.driver.policy, terms)
        self.rng, self.ledger = storage.restore_generator(body["core"]["generator"]), ledger
        self.counts, self.terms, self.kept = counts, terms, OrderedDict(kept)
        game.check(policy, terms)
        self._install(driver_of(policy, self.driver.origin, game, self.driver.compiled, self.rng))

    def check(self, body: dict[str, Any]) -> None:
        """Raise `StateError` for a state that could not be restored."""
        _, terms, _ = self.game.restore(body)
        self._restored(body, self.driver.born, terms)

    def _restored(self, body: dict[str, Any], born: Any, terms: Any) -> tuple[Any, Ledger]:
        game = self.game
        policy = storage.restore_fields(born, body["core"]["fields"])
        state, order = body["core"]["ledger"], self.ledger.one_at_a_time
        ledger = Ledger.from_state(state, lambda data: game.decode(data, terms), order)
        for item in body.get("alone", ()):
            ledger.enter_alone(*game.decode_alone(item, ledger.next))
        return policy, ledger

    def replace_driver(self, driver: Interpreted) -> None:
        """Continue with another driver of the same policy."""
        self.run(self._install, driver)

    # -- for the fold of a journal: each returns the body made again

    @property
    def opening(self) -> str:
        """The kind of the event that opens a decision."""
        found: str = self.game.opening
        return found

    def reopen(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Make a logged decision again; what was played is played."""
        id, choice = self.run(self._decide, self.game.context_of(body))
        return id, self.game.opened(choice.decided if choice.chosen is None else choice.chosen)

    def relearn(self, id: int, body: dict[str, Any]) -> dict[str, Any]:
        """Learn a logged answer again."""
        decided = self.run(self.ledger.decided, id)
        record = self.game.record_from(id, decided, body, self.terms)
        self.learn([record])
        found: dict[str, Any] = self.game.answered(decided, record)
        return found

    def retell(self, id: int, body: dict[str, Any]) -> dict[str, Any]:
        """Let a decision go on with a logged output again."""
        game = self.game
        if not game.stepwise:
            raise ValueError("there is no kind of event 'tell'")
        before = self.run(self.ledger.decided, id)
        after = self.advance(id, before, game.told_from(body, before), learn=False)
        found: dict[str, Any] = game.told(after)
        return found

    def reclose(self, id: int, body: dict[str, Any], kind: str) -> None:
        """End a decision again as it was logged."""
        if not self.close([id], body.get("cost", 0.0), kind):
            raise UnknownDecision(f"decision {id} is not pending")

    def overrule(self, kind: str, id: int, body: dict[str, Any]) -> None:
        """Let a logged decision stand against the one made now."""
        game = self.game
        known = self.ledger.waiting.get(id)
        if known is not None and kind == self.game.opening:
            self.ledger.waiting[id] = game.decided_from(body, self.terms)
        elif known is not None and kind == "tell":
            self.ledger.waiting[id] = game.overruled(known, body)


def _complete(ids: list[int], new: list[int]) -> None:
    """Append ids to a list, unless they are already there."""
    for id in new:
        if not ids or ids[-1] < id:
            ids.append(id)


def _disown() -> None:
    """Make every core of the parent unusable in a forked child."""
    for one in list(_alive):
        words = (
            f"this {one.game.kind} belongs to process {os.getppid()}, not to its fork {os.getpid()}: "
            "make or load one in each process, or share one through a service"
        )
        one.saving = one.lock = Shut(words)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown)
