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
import numbers
import os
import secrets
import threading
import weakref
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NoReturn, TypeVar

import numpy as np

from weakfeedback.contract.readonly import writes_to_loan
from weakfeedback.live import storage
from weakfeedback.live.answers import VAGUE, Content, digest_of, fingerprint, same_content
from weakfeedback.live.change import Change, Closed, Shut, Sink
from weakfeedback.live.driver import Interpreted, driver_of
from weakfeedback.live.errors import FeedbackConflict, PendingDecision, UnknownDecision
from weakfeedback.live.game import Altered, Choice, View
from weakfeedback.live.hooks import Hooks
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import brief

PENDING_LIMIT = 10_000  # maximum number of decisions waiting for feedback
REMEMBERED = 10_000  # answers that are remembered individually
GAP = 2**36  # maximum random gap before fresh ids
ALONE = 100  # decisions that await no answer and can still be cancelled
RUNS = 10_000  # intervals of ids that are remembered as answered, after the content of their answers is forgotten

T = TypeVar("T")
_alive: weakref.WeakSet[Core] = weakref.WeakSet()


class Ledger:
    """Ids, pending decisions and digests of answers, in bounded memory.

    Every issued id is pending, answered or cancelled. For the last ``remember`` answers the digest of the content is
    kept, so that a repeated answer can be distinguished from a conflict. For older answers only their existence is
    known: another answer counts as a duplicate, unchecked, unless there is an ``archive`` to ask. For this the answered
    ids are kept as intervals; all other ids were never answered. If there are more than 10,000 intervals, the lowest
    are forgotten: an answer for such an old id is refused, whether or not it was answered.

    It has no lock: the core holds its own around every call. Methods that take an id, or a number of rounds, can be
    repeated after an interruption: the second time they change nothing.

    With ``one_at_a_time`` a decision must be answered before the next, as policies that are not ``delay_safe`` need.
    """

    def __init__(self, one_at_a_time: bool = False, remember: int | None = None) -> None:
        self.one_at_a_time = one_at_a_time
        self.remember = REMEMBERED if remember is None else remember
        # id -> the digest of an answer that is no longer remembered, None if the decision was cancelled
        self.archive: Callable[[int], str | None] | None = None
        # id -> how a decision that was not answered ended, None if that is unknown
        self.ending: Callable[[int], str | None] | None = None
        self.next = 1  # the id of the next decision
        self.gap = 0  # ids to skip before the next decision
        self.rounds = 0  # answers accepted so far
        self.waiting: dict[int, Any] = {}  # pending decisions: id -> what was decided, ids increasing
        # decisions that await no answer, and can still be cancelled
        self.alone: OrderedDict[int, Any] = OrderedDict()
        # id -> its digest, or short content until a state is taken; oldest first (a dict would search for it)
        self._answered: OrderedDict[int, Content] = OrderedDict()
        # first and last ids of intervals whose answers were forgotten, increasing
        self._runs: list[tuple[int, int]] = []
        self._floor = 0  # up to this id the runs were forgotten as well
        self._stated = 0  # number of answers when a state was last taken
        # digests that were read from a journal, the oldest answer first
        self.recalled: dict[int, str] | None = None

    def ensure_room(self, decisions: int = 1) -> None:
        """Raise `PendingDecision` if ``decisions`` more decisions cannot be opened."""
        if self.one_at_a_time and self.waiting:
            raise PendingDecision(
                f"decision {next(iter(self.waiting))} is open, and this policy learns in order (it is not delay_safe): "
                "give its feedback or cancel it first"
            )
        if len(self.waiting) + decisions > PENDING_LIMIT:
            raise PendingDecision(
                f"{len(self.waiting)} decisions wait for feedback, at most {PENDING_LIMIT} may: "
                "answer or cancel some first"
            )

    def reserved(self) -> int:
        """Return the id of the next decision, after ensuring that there is room."""
        if self.waiting and (self.one_at_a_time or len(self.waiting) >= PENDING_LIMIT):
            self.ensure_room()
        return self.next + self.gap

    def enter(self, id: int, decided: Any) -> None:
        """Record the next decision; there must be room."""
        self.waiting[id] = decided
        if id >= self.next:  # in a batch, later ones that await no answer are recorded first
            self.next, self.gap = id + 1, 0

    def enter_alone(self, id: int, decided: Any) -> None:
        """Record the next decision, which awaits no answer."""
        self.skip_to(id + 1)
        self.alone[id] = decided
        while len(self.alone) > ALONE:
            self.alone.popitem(last=False)

    def decided(self, id: int) -> Any:
        """Return what was decided under a pending id."""
        checked = self._known(id)
        if checked not in self.waiting:
            raise UnknownDecision(f"decision {checked} was already answered")
        return self.waiting[checked]

    def check(self, id: int, content: Content) -> str:
        """Return "pending" or "duplicate", or raise `FeedbackConflict` or `UnknownDecision`."""
        checked = self._known(id)
        if checked in self.waiting:
            return "pending"
        known: Content | None = self._answered.get(checked)
        if known is None:
            known = self._recalled(checked)
        if known is not None and not same_content(known, content):
            why = "with other content"
            if digest_of(content).startswith(VAGUE):
                why = "and a repr with an address does not tell whether with this"
            raise FeedbackConflict(f"decision {checked} was already answered, {why}")
        return "duplicate"

    def awaited(self, id: int, content: Content) -> Any:
        """Return what was decided under a pending id, None for a duplicate, or raise as `check` does.

        A pending id can then be passed to `close`.
        """
        if type(id) is int and id in self.waiting:
            return self.waiting[id]
        return None if self.check(id, content) == "duplicate" else self.waiting[int(id)]

    def close(self, id: int, content: Content, rounds: int) -> None:
        """Record the answer to a pending decision as number ``rounds``."""
        if self.rounds >= rounds:  # already done before an interruption
            self.waiting.pop(id, None)  # but if it went on in the same change, it was entered again
            return
        if self.recalled is not None:
            self.adopt()
        self.waiting.pop(id, None)
        self._answered[id] = content
        while len(self._answered) > self.remember:
            oldest = next(iter(self._answered))
            self._forget(oldest)
            self._answered.pop(oldest, None)
        self.rounds = rounds  # last, so that a partial change is repeated

    def recall(self, digests: dict[int, str]) -> None:
        """Know these answers, which a journal remembered, until they are adopted; the state is that of the journal."""
        self.recalled, self.archive, self.ending = digests, digests.get, None

    def adopt(self) -> None:
        """Remember answers that were recalled as an object without a journal does. A single assignment."""
        if self.recalled is None:
            return
        digests = self.recalled
        runs = storage.intervals_without(self._runs, sorted(id for id in digests if self._was_answered(id)))
        known = OrderedDict((id, digests[id]) for id in digests if self._was_answered(id)) | self._answered
        remember = max(self.remember, REMEMBERED)
        vars(self).update(_runs=runs, _answered=known, remember=remember, recalled=None, archive=None)

    def drop(self, id: int) -> None:
        """Cancel a decision that is pending."""
        self.waiting.pop(id, None)  # an id that is neither pending nor answered was cancelled
        self.alone.pop(id, None)

    def leap(self) -> None:
        """Skip a random number of ids, to issue none that another copy of the same state has issued."""
        self.gap = 1 + secrets.randbelow(GAP)

    def skip_to(self, id: int) -> None:
        """Issue no id below this one."""
        if id > self.next:
            self.next, self.gap = id, 0

    def _known(self, id: Any) -> int:
        """Return the id of a decision that is pending or was answered."""
        known: int = id
        if type(id) is not int:
            if not isinstance(id, numbers.Integral) or isinstance(id, (bool, np.bool_)):
                raise ValueError(f"id must be the integer id of a decision, got {brief(id)}")
            known = int(id)
        if not 1 <= known < self.next:
            raise UnknownDecision(f"there is no decision {known}")
        if known not in self.waiting and known not in self._answered and not self._was_answered(known):
            if known > self._floor:
                raise UnknownDecision(f"decision {known} {self._end_of(known)}")
            if self.archive is None:
                unknown = "is so old that nobody knows whether it was answered or cancelled"
                raise UnknownDecision(f"decision {known} {unknown}")
        return known

    def _recalled(self, id: int) -> Content | None:
        """Return the content of an answer that is not remembered, or None if it is unknown."""
        recalled = None if self.archive is None else self.archive(id)
        if recalled is None and not self._was_answered(id):
            raise UnknownDecision(f"decision {id} {self._end_of(id)}")
        return recalled

    def _end_of(self, id: int) -> str:
        """Return what happened to a decision that is neither pending nor answered."""
        known = None if self.ending is None else self.ending(id)
        return known or "was cancelled or never given out"

    def _forget(self, id: int) -> None:
        """Remember only that there was an answer. Each change is one assignment, and can be repeated."""
        runs = self._runs
        if runs and runs[-1][1] + 1 == id:  # the usual case
            runs[-1] = runs[-1][0], id
            return
        if id <= self._floor or self._was_answered(id):
            return
        k = bisect_left(runs, (id, id))
        first, last, begin, end = id, id, k, k
        if k > 0 and runs[k - 1][1] + 1 == id:
            first, begin = runs[k - 1][0], k - 1
        if k < len(runs) and runs[k][0] == id + 1:
            last, end = runs[k][1], k + 1
        runs[begin:end] = [(first, last)]
        if len(runs) > RUNS:
            self._floor = runs[0][1]
            del runs[0]

    def _was_answered(self, id: int) -> bool:
        """Return whether an id is in one of the runs."""
        k = bisect_right(self._runs, (id, self.next))
        return k > 0 and self._runs[k - 1][1] >= id

    def forgotten(self) -> Iterator[int]:
        """Yield the ids whose answers are no longer remembered one by one, the highest first."""
        for first, last in reversed(self._runs):
            yield from range(last, first - 1, -1)

    def state(self, encode: Callable[[Any], Any]) -> dict[str, Any]:
        """Return everything as plain data; ``encode`` converts what was decided to plain data."""
        new = islice(reversed(self._answered.items()), self.rounds - self._stated)
        for id, content in list(new):
            if type(content) is tuple:
                self._answered[id] = fingerprint(content)
        self._stated = self.rounds
        return {
            "next": self.next,
            "rounds": self.rounds,
            "remember": self.remember,
            "floor": self._floor,
            "runs": [list(run) for run in self._runs],
            "pending": [[id, encode(decided)] for id, decided in self.waiting.items()],
            "answered": [[id, digest] for id, digest in self._answered.items()],
        }

    @classmethod
    def from_state(cls, state: Any, decode: Callable[[Any], Any], one_at_a_time: bool = False) -> Ledger:
        """Return the ledger that gave ``state``, or raise `StateError`."""
        keys = dict.fromkeys(("next", "rounds", "remember", "floor"), int)
        require("ledger", state, {**keys, "runs": list, "pending": list, "answered": list})
        ledger = cls(one_at_a_time, state["remember"])
        ledger.next, ledger.rounds, ledger._floor = state["next"], state["rounds"], state["floor"]
        ledger._runs = storage.id_pairs(state["runs"])
        storage.integer_ids([last for _, last in ledger._runs])
        ledger.waiting = {id: decode(decided) for id, decided in storage.id_pairs(state["pending"])}
        ledger._answered = OrderedDict(storage.id_pairs(state["answered"]))
        limit = 1 if one_at_a_time else PENDING_LIMIT
        if not storage.is_consistent(state, ledger.waiting, ledger._answered, limit, RUNS):
            raise StateError("the ledger contradicts itself")
        return ledger


class Core:
    """Decides, learns and cancels. All methods without an underscore take the lock themselves, and only once.

    The ``tag`` of a decision is handed to the sink unread.
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

    def _backup(self, only: Any = None) -> Any:
        """Return what undoes what a method of the policy does next; where its fields are known, without a detour."""
        if self.driver.known is None:
            return self.driver.backup(only)
        fields, arrays = self.driver.known
        return fields.copy(), [
            (fields[one], fields[one].copy()) for one in arrays if only is None or one in only
        ]

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
            self._tell_of(self.hooks, [(id, choice.decided)])
        return id, choice.decided

    def _tell_of(self, hooks: Hooks, decisions: Sequence[tuple[int, Any]]) -> None:
        for id, decided in decisions if hooks.hears("decision") else ():
            hooks.note("decision", id, self.game.opened(decided))
        hooks.tell()

    def _decide(
        self, context: tuple[Any, ...] = (), opened: list[int] | None = None, tag: Any = None
    ) -> tuple[int, Choice]:
        game = self.game
        if game.resize is not None:
            self.ledger.ensure_room()
            self._resize(context)  # the lengths stay fixed even if the decision fails
        self.change = change = self._chosen(self.game.scratch)
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
        if self.hooks is not None:
            self._tell_of(self.hooks, found)
        return found

    def _decide_many(
        self, contexts: Sequence[tuple[Any, ...]], opened: list[int] | None, tags: Sequence[Any] | None
    ) -> list[tuple[int, Any]]:
        game, ledger = self.game, self.ledger
        ledger.ensure_room(len(contexts))
        if game.resize is not None:
            for context in contexts:
                self._resize(context)
        return self._make(self._chosen(self.game.scratch), self._fill_many, contexts, opened, tags)

    def _chosen(self, only: Any = None) -> Change:
        """Return a change in which the policy chooses, and changes no array but ``only`` these."""
        change = Change()
        change.generator = self.rng.bit_generator.state
        if self.game.choosing_learns:
            change.backup = self._backup(only)
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

    def _resize(self, context: tuple[Any, ...]) -> None:
        """Fix the lengths of all further contexts to those of this one, if none came before."""
        made = self.game.resize(self.terms, context)
        if made is None:
            return
        policy, terms = made
        change = Change()
        if policy is not None:
            change.installed = self._driver_of(policy)
        change.terms, change.rare = terms, True
        self._make(change, lambda _: None)

    def advance(self, id: int, before: Any, told: Any, learn: bool) -> Any:
        """Let an open decision go on with an output; return it as it is then, None if others changed or ended it.

        With ``learn``, a round that has its last output is learned in the same change.
        """
        found = self.run(self._advance, id, before, told, learn)
        if self.hooks is not None:
            self.hooks.tell()
        return found

    def _advance(self, id: int, before: Any, told: Any, learn: bool) -> Any:
        if self.ledger.waiting.get(id) is not before:
            return None
        return self._make(self._chosen(), self._fill_advance, id, before, told, learn)

    def _fill_advance(self, change: Change, id: int, before: Any, told: Any, learn: bool) -> Any:
        game, rows = self.game, []
        after, why = game.advance(before, told, self.kept.get(id), self.terms, self.rng)
        if self.sink is not None:
            rows.append(self.sink.prepare("tell", id, game.told(after)))
        change.alter, change.kept, change.rare = ((id, after),), ((id, why),), True
        if learn and not game.calls(after):
            change.backup = change.backup or self._backup()  # until here the policy only chose
            record = game.record(id, after, (), self.terms)
            change.counts = game.teach(after, record, self.counts, self.terms, self.rng)
            change.close = ((id, record.content, self.ledger.rounds + 1),)
            if self.hooks is not None and self.hooks.hears("feedback"):
                self.hooks.note("feedback", id, game.answered(after, record))
            if self.sink is not None:
                rows.append(self.sink.prepare("feedback", id, game.answered(after, record), 1))
        change.rows = rows
        return after

    # -- answers

    def awaited(self, id: int, content: Content) -> Any:
        """Return what was decided under a pending id, None if it has this answer already."""
        # one look, which needs no lock; the answer is checked again
        if self.change is None and type(id) is int:
            decided = self.ledger.waiting.get(id)
            if decided is not None:
                return decided
        return self.run(self.ledger.awaited, id, content)

    def learn(self, records: list[Any]) -> None:
        """Learn these rounds: all or, if one is no longer pending, none."""
        self.run(self._learn, records)
        if self.hooks is not None:
            self.hooks.tell()

    def _learn(self, records: list[Any]) -> None:
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
                    rows.append(sink.prepare("feedback", record.id, body, len(rows)))
            change.counts, change.close, change.kept, change.rows = counts, close, kept, rows
            change.ready = True
            self._carry_out(change)
            if self.hooks is not None and self.hooks.hears("feedback"):
                for record, known in zip(records, decided):
                    self.hooks.note("feedback", record.id, game.answered(known, record))
        except BaseException as error:
            self._recover()
            raise self._explained(error)  # noqa: B904

    def settle(self, record: Any) -> str:
        """Learn a round, unless another thread has learned it already: "accepted" or "duplicate"."""
        found = self.run(self._settle, record)
        if self.hooks is not None:
            self.hooks.tell()
        return found

    def _settle(self, record: Any) -> str:
        if self.ledger.awaited(record.id, record.content) is None:
            return "duplicate"
        self._learn([record])
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

    def alter(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make an alteration of the game, such as new prices; return the body as journalled."""
        return self.run(self._alter, kind, body)

    def _alter(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
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
        return self._make(change, self._fill_alter, kind, body)

    def _fill_alter(self, change: Change, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        altered: Altered = self.game.alters[kind](body, self.counts, self.terms, self.rng)
        change.counts, change.terms, change.rare = altered.counts, altered.terms, True
        change.talk, change.talks = altered.talk, altered.talks
        if altered.policy is not None:
            change.installed = self._driver_of(altered.policy)
        if self.sink is not None:
            change.rows = (self.sink.prepare(kind, None, altered.body),)
        return altered.body

    def alter_anew(
        self, kind: str, body: dict[str, Any], reason: str, taken: Any = lambda _: None, which: Any = None
    ) -> None:
        """Alter after open decisions, all or those of ``which``, were cancelled; tell ``taken`` the next id."""

        def work() -> None:
            over = [id for id, one in self.ledger.waiting.items() if which is None or which(one)]
            self._close(over, 0.0, reason=reason)
            self._alter(kind, body)
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
        return self.run(lambda: list(self.ledger.waiting))

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
        return str(self.game.opening)

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
