"""The ledger of a live object: ids, pending decisions and digests of answers."""

from __future__ import annotations

import numbers
import secrets
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from typing import Any

import numpy as np

from weakfeedback.live import storage
from weakfeedback.live.answers import VAGUE, Content, digest_of, fingerprint, same_content
from weakfeedback.live.errors import FeedbackConflict, PendingDecision, UnknownDecision
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import brief

PENDING_LIMIT = 10_000  # maximum number of decisions waiting for feedback
REMEMBERED = 10_000  # answers that are remembered individually
GAP = 2**36  # maximum random gap before fresh ids
ALONE = 100  # decisions that await no answer and can still be cancelled
RUNS = 10_000  # intervals of ids that are remembered as answered, after the content of their answers is forgotten


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
        self.alone: OrderedDict[int, Any] = (
            OrderedDict()
        )  # decisions that await no answer, and can still be cancelled
        # A plain dict would search for its oldest entry among all deleted ones.
        # id -> its digest or, while no state was taken, the content if that is short; the oldest answer first
        self._answered: OrderedDict[int, Content] = OrderedDict()
        self._runs: list[
            tuple[int, int]
        ] = []  # first and last ids of intervals whose answers were forgotten, increasing
        self._floor = 0  # up to this id the runs were forgotten as well
        self._stated = 0  # number of answers when a state was last taken
        self.recalled: dict[int, str] | None = (
            None  # digests that were read from a journal, the oldest answer first
        )

    def ensure_room(self, decisions: int = 1) -> None:
        """Raise `PendingDecision` if ``decisions`` more decisions cannot be opened."""
        if self.one_at_a_time and self.waiting:
            open_id = next(iter(self.waiting))
            raise PendingDecision(
                f"decision {open_id} is open, and this policy learns in order (it is not delay_safe): "
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
            vague = digest_of(content).startswith(VAGUE)
            why = (
                "and a repr with an address does not tell whether with this"
                if vague
                else "with other content"
            )
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
        digests, runs = self.recalled, list[tuple[int, int]]()
        ids = sorted(id for id in digests if self._was_answered(id))
        for first, last in self._runs:
            for id in ids[bisect_left(ids, first) : bisect_right(ids, last)]:
                if first < id:
                    runs.append((first, id - 1))
                first = id + 1
            if first <= last:
                runs.append((first, last))
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
                raise UnknownDecision(
                    f"decision {known} is so old that nobody knows whether it was answered or cancelled"
                )
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
        if not ledger._consistent(state):
            raise StateError("the ledger contradicts itself")
        return ledger

    def _consistent(self, state: dict[str, Any]) -> bool:
        ids = [*self.waiting, *self._answered]
        runs = self._runs
        forgotten = sum(last - first + 1 for first, last in runs)
        return (
            len(set(ids)) == len(state["pending"]) + len(state["answered"])
            and all(0 < id < self.next and not self._was_answered(id) for id in ids)
            and list(self.waiting) == sorted(self.waiting)
            and all(isinstance(digest, str) for digest in self._answered.values())
            and len(self.waiting) <= (1 if self.one_at_a_time else PENDING_LIMIT)
            and len(self._answered) <= self.remember
            and 0 <= self._floor < self.next
            and len(runs) <= RUNS
            and all(self._floor < first <= last < self.next for first, last in runs)
            and all(before[1] + 1 < after[0] for before, after in pairwise(runs))
            and 0 <= self.rounds - forgotten - len(self._answered) <= self._floor
            and self.rounds + len(self.waiting) < self.next
        )
