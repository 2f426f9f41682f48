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
from typing import Any, NoReturn, TypeVar

import numpy as np

from weakfeedback.contract.readonly import writes_to_loan
from weakfeedback.live import storage
from weakfeedback.live.answers import Content
from weakfeedback.live.change import Change, Closed, Shut, Sink
from weakfeedback.live.driver import Interpreted, driver_of
from weakfeedback.live.errors import PendingDecision
from weakfeedback.live.game import Choice, View
from weakfeedback.live.hooks import Hooks
from weakfeedback.live.ledger import Ledger

T = TypeVar("T")
_alive: weakref.WeakSet[Core] = weakref.WeakSet()


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
        self.hooks: Hooks | None = None
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
            try:
                with lock:
                    if self.change is not None:
                        self._recover()
                    return work(*arguments)
            except BaseException:
                if lock._is_owned():  # only a tracer can raise between the end of the block and the release
                    lock.release()
                raise
        except BaseException:
            if lock._is_owned():  # or at these lines: a second time
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

    def _backup(self) -> Any:
        """Return what the driver needs to undo whatever a method of the policy does next."""
        driver = self.driver
        if driver.copied is None:
            return driver.backup()
        now = driver.policy.__dict__
        return now.copy(), [(now[name], now[name].copy()) for name in driver.copied]

    def _carry_out(self, change: Change) -> None:
        """Carry out a change that is committed. Every line may be repeated."""
        ledger = self.ledger
        if change.rare:
            self._carry_out_rare(change)  # first: a decision may go on and be answered in one change
        for id, decided in change.enter:
            ledger.enter(id, decided)
        for id, content, rounds in change.close:
            ledger.close(id, content, rounds)
        if change.kept:
            kept = self.kept
            for id, why in change.kept:
                kept[id] = why
            while len(kept) > self.game.keeps:
                kept.popitem(last=False)
        if change.counts is not None:
            self.counts = change.counts
        if change.opened is not None:
            ids, new = change.opened
            for id in new:
                if not ids or ids[-1] < id:
                    ids.append(id)
        for row in change.rows:
            self.sink.put(row)  # type: ignore[union-attr]
        self.change = None

    def _carry_out_rare(self, change: Change) -> None:
        ledger = self.ledger
        for id, decided in change.alone:
            ledger.enter_alone(id, decided)
        for id, decided in change.alter:
            ledger.waiting[id] = decided
        for id in change.drop:
            ledger.drop(id)
        if change.terms is not None:
            self.terms = change.terms
        if change.installed is not None:
            self._install(change.installed)
            self.kept.clear()  # it is about other models
            ledger.alone.clear()
        if change.talks is not None:
            self.game.talks = change.talks
        if change.talk is not None:
            self.game.talks.keep(*change.talk)
        if change.resumed is not None:
            ledger.skip_to(change.resumed[0])
            self.every = change.resumed[1]

    def _driver_of(self, policy: Any) -> Interpreted:
        """Return the driver of another policy, given in the same way as the present one."""
        return driver_of(policy, self.driver.origin, self.game, self.driver.compiled, self.rng)

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
        id, choice = self.run(self._decide, context, opened, tag)
        if self.hooks is not None:
            self._hear("decision", [(id, choice.decided)])
        return id, choice.decided

    def _hear(self, kind: str, decisions: Sequence[tuple[int, Any]]) -> None:
        """Tell the hooks of decisions, and of what was noted before."""
        if self.hooks is not None:
            for id, decided in decisions if self.hooks.hears(kind) else ():
                self.hooks.note(kind, id, self.game.opened(decided))
            self.hooks.tell()

    def _decide(
        self, context: tuple[Any, ...] = (), opened: list[int] | None = None, tag: Any = None
    ) -> tuple[int, Choice]:
        game = self.game
        if game.resize is not None:
            self.ledger.ensure_room()
            self._resize(context)  # the lengths stay fixed even if the decision fails
        self.change = change = self._chosen()
        try:
            ledger = self.ledger
            id = ledger.reserved() if ledger.waiting else ledger.next + ledger.gap
            choice = game.choose(self.rng, self.counts, self.terms, *context)
            if choice.waits:
                change.enter = ((id, choice.decided),)
            else:
                change.alone, change.rare = ((id, choice.decided),), True
            change.counts = choice.counts
            if choice.talk is not None:
                change.talk, change.rare = choice.talk, True
            if opened is not None:
                change.opened = opened, (id,)
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
        found = self.run(self._decide_many, contexts, opened, tags)
        self._hear("decision", found)
        return found

    def _decide_many(
        self, contexts: Sequence[tuple[Any, ...]], opened: list[int] | None, tags: Sequence[Any] | None
    ) -> list[tuple[int, Any]]:
        game, ledger = self.game, self.ledger
        ledger.ensure_room(len(contexts))
        if game.resize is not None:
            for context in contexts:
                self._resize(context)
        return self._make(self._chosen(), self._fill_many, contexts, opened, tags)

    def _chosen(self) -> Change:
        """Return a change in which the policy chooses."""
        change = Change()
        change.generator = self.rng.bit_generator.state
        if self.game.choosing_learns:
            change.backup = self._backup()
        return change

    def _make(self, change: Change, fill: Callable[..., T], *arguments: Any) -> T:
        """Announce a change, let it be filled, commit it and carry it out; what fails is undone."""
        self.change = change
        try:
            found = fill(change, *arguments)
            change.ready = True
            self._carry_out(change)
        except BaseException as error:
            self._recover()
            raise self._explained(error)  # noqa: B904
        return found

    def _fill_many(
        self,
        change: Change,
        contexts: Sequence[tuple[Any, ...]],
        opened: list[int] | None,
        tags: Sequence[Any] | None,
    ) -> list[tuple[int, Any]]:
        game, counts, first = self.game, self.counts, self.ledger.reserved()
        made, kept, rows = [], [], []
        for n, context in enumerate(contexts):
            id, choice = first + n, game.choose(self.rng, counts, self.terms, *context)
            made.append((id, choice.decided, choice.waits))
            counts = counts if choice.counts is None else choice.counts
            if choice.why is not None:
                kept.append((id, choice.why))
            if self.sink is not None:
                tag = None if tags is None else tags[n]
                rows.append(self.sink.prepare(game.opening, id, game.opened(choice.decided), n, tag))
        change.enter = [(id, decided) for id, decided, waits in made if waits]
        change.alone = [(id, decided) for id, decided, waits in made if not waits]
        change.kept, change.rows, change.counts, change.rare = kept, rows, counts, True
        if opened is not None:
            change.opened = opened, range(first, first + len(contexts))
        return [(id, decided) for id, decided, _ in made]

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
            change.installed = self._driver_of(policy)
        change.terms, change.rare = terms, True
        self._make(change, lambda _: None)

    def advance(self, id: int, before: Any, told: Any, learn: bool, tag: Any = None) -> Any:
        """Let an open decision go on with an output; return it as it is then, None if it has changed meanwhile.

        With ``learn``, a round that has its last output is learned in the same change.
        """
        found = self.run(self._advance, id, before, told, learn, tag)
        self._hear("feedback", ())
        return found

    def _advance(self, id: int, before: Any, told: Any, learn: bool, tag: Any = None) -> Any:
        if self.ledger.decided(id) is not before:
            return None
        return self._make(self._chosen(), self._fill_advance, id, before, told, learn, tag)

    def _fill_advance(self, change: Change, id: int, before: Any, told: Any, learn: bool, tag: Any) -> Any:
        game, rows = self.game, []
        after, why = game.advance(before, told, self.kept.get(id), self.terms, self.rng)
        if self.sink is not None:
            rows.append(self.sink.prepare("tell", id, game.told(after), 0, tag))
        change.alter, change.kept, change.rare = ((id, after),), ((id, why),), True
        if learn and not game.calls(after):
            change.backup = change.backup or self._backup()  # until here the policy only chose
            record = game.record(id, after, (), self.terms)
            change.counts = game.teach(after, record, self.counts, self.terms, self.rng)
            change.close = ((id, record.content, self.ledger.rounds + 1),)
            if self.hooks is not None and self.hooks.hears("feedback"):
                self.hooks.note("feedback", id, game.answered(after, record))
            if self.sink is not None:
                rows.append(self.sink.prepare("feedback", id, game.answered(after, record), 1, tag))
        change.rows = rows
        return after

    # -- answers

    def awaited(self, id: int, content: Content) -> Any:
        """Return what was decided under a pending id, None if it has this answer already."""
        if (
            self.change is None and type(id) is int
        ):  # one look, which needs no lock; the answer is checked again
            decided = self.ledger.waiting.get(id)
            if decided is not None:
                return decided
        return self.run(self.ledger.awaited, id, content)

    def learn(self, records: list[Any], tag: Any = None) -> None:
        """Learn these rounds: all or, if one is no longer pending, none."""
        self.run(self._learn, records, tag)
        self._hear("feedback", ())

    def _learn(self, records: list[Any], tag: Any = None) -> None:
        game, ledger, sink = self.game, self.ledger, self.sink
        waiting, rounds = ledger.waiting, ledger.rounds
        decided = [waiting[one.id] if one.id in waiting else ledger.decided(one.id) for one in records]
        change = Change()
        change.backup = self._backup()
        if game.teaching_draws:
            change.generator = self.rng.bit_generator.state
        self.change = change
        try:
            counts, terms, rng = self.counts, self.terms, self.rng
            close: list[Any] = []
            kept: list[Any] = []
            rows: list[Any] = []
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
            if self.hooks is not None and self.hooks.hears("feedback"):
                for record, known in zip(records, decided):
                    self.hooks.note("feedback", record.id, game.answered(known, record))
        except BaseException as error:
            self._recover()
            raise self._explained(error)  # noqa: B904

    def settle(self, record: Any, tag: Any = None) -> str:
        """Learn a round, unless another thread has learned it already: "accepted" or "duplicate"."""
        found = self.run(self._settle, record, tag)
        self._hear("feedback", ())
        return found

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
                change.backup = self._backup()
            self._make(change, self._fill_drop, id, cost, kind, reason)
        return found

    def _fill_drop(self, change: Change, id: int, cost: float, kind: str, reason: str) -> None:
        change.counts = self.game.drop(self.ledger.waiting.get(id), cost, self.counts)
        change.drop, change.rare = (id,), True
        if self.sink is not None:
            body = {"cost": cost, "reason": reason} if kind == "cancel" else {}
            change.rows = (self.sink.prepare(kind, id, body),)

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
        change.generator, change.backup = self.rng.bit_generator.state, self._backup()
        return self._make(change, self._fill_alter, kind, body, tag)

    def _fill_alter(self, change: Change, kind: str, body: dict[str, Any], tag: Any) -> dict[str, Any]:
        altered = self.game.alters[kind](body, self.counts, self.terms, self.rng)
        change.counts, change.terms, change.rare = altered.counts, altered.terms, True
        change.talk, change.talks = altered.talk, altered.talks
        if altered.policy is not None:
            change.installed = self._driver_of(altered.policy)
        if self.sink is not None:
            change.rows = (self.sink.prepare(kind, None, altered.body, 0, tag),)
        found: dict[str, Any] = altered.body
        return found

    def change_models(self, body: dict[str, Any], taken: Callable[[int], None]) -> None:
        """Go on with other models; open decisions are cancelled, and ``taken`` is told the first id from then on."""

        def work() -> None:
            self._close(list(self.ledger.waiting), 0.0, reason="other models")
            self._alter("models", body, None)
            taken(self.ledger.next)

        self.run(work)

    def skip(self, start: int, every: int) -> None:
        """Issue no id below ``start``: some may have been issued before a power loss."""
        change = Change()
        change.resumed, change.rare = (start, every), True
        self.run(self._make, change, self._fill_skip, {"next": start, "every": every})

    def _fill_skip(self, change: Change, body: dict[str, Any]) -> None:
        if self.sink is not None:
            change.rows = (self.sink.prepare("resume", None, body),)

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

    @property
    def label(self) -> str:
        """The name of the policy, or of what it plays now if it is two in one."""
        driver = self.driver
        plays = getattr(driver.policy, "plays_now", None)
        if driver.origin.name is not None and plays is not None:
            return str(plays(driver.fields()))
        return driver.origin.name or type(driver.policy).__name__

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
                self._install(self._driver_of(made))
        policy, ledger = self._restored(body, self.driver.policy, terms)
        self.rng, self.ledger = storage.restore_generator(body["core"]["generator"]), ledger
        self.counts, self.terms, self.kept = counts, terms, OrderedDict(kept)
        game.check(policy, terms)
        self._install(self._driver_of(policy))

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

    def overrule(self, kind: str, id: int, body: dict[str, Any]) -> None:
        """Let a logged decision stand against the one made now."""
        game = self.game
        known = self.ledger.waiting.get(id)
        if known is not None and kind == self.game.opening:
            self.ledger.waiting[id] = game.decided_from(body, self.terms)
        elif known is not None and kind == "tell":
            self.ledger.waiting[id] = game.overruled(known, body)


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
