"""The ledger of decisions: which were made, which wait for feedback, which were answered and how."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import numbers
import re
import secrets
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Set
from itertools import islice, pairwise
from typing import Any

import numpy as np

from weakfeedback.live.errors import FeedbackConflict as FeedbackConflict
from weakfeedback.live.errors import PendingDecision as PendingDecision
from weakfeedback.live.errors import UnknownDecision as UnknownDecision
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import brief

PENDING_LIMIT = 10_000  # maximum number of decisions waiting for feedback
REMEMBERED = 10_000  # answers that are remembered individually
GAP = 2**36  # maximum random gap before fresh ids
ALONE = 100  # decisions that await no answer and can still be cancelled
RUNS = 10_000  # intervals of ids that are remembered as answered, after the content of their answers is forgotten
VAGUE = "?"  # prefix of the digest of content that cannot be distinguished from other content of its kind

# What is remembered of an answer: its digest or, for speed, the answer itself if it is a few short labels or numbers.
Content = str | tuple[Any, ...]
FEW_LABELS, LENGTH, LARGE = 8, 16, 2**63
UNTOLD = " at \0"  # replaces a memory address


class Ledger:
    """Ids, pending decisions and digests of answers, in bounded memory.

    Every issued id is pending, answered or cancelled. For the last ``remember`` answers the digest of the content is
    kept, so that a repeated answer can be distinguished from a conflict. For older answers only their existence is
    known: another answer counts as a duplicate, unchecked, unless there is an ``archive`` to ask. For this the answered
    ids are kept as intervals; all other ids were never answered. If there are more than 10,000 intervals, the lowest
    are forgotten: an answer for such an old id is refused, whether or not it was answered.

    The methods acquire the lock themselves unless they say that the caller must hold it. Hold ``ledger.lock`` (it is
    re-entrant) around several calls that belong together. Methods that take an id, or a number of rounds, can be
    repeated after an interruption: the second time they change nothing.

    Parameters
    ----------
    one_at_a_time : bool
        Whether a decision must be answered before the next one, as policies that are not ``delay_safe`` need.
    remember : integer >= 0
        How many answers are remembered individually.
    """

    def __init__(self, one_at_a_time: bool = False, remember: int | None = None) -> None:
        self.lock: Any = threading.RLock()
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

    @property
    def pending(self) -> list[int]:
        """The ids decided but not yet answered, in increasing order."""
        with self.lock:
            return list(self.waiting)

    def ensure_room(self, decisions: int = 1) -> None:
        """Raise `PendingDecision` if ``decisions`` more decisions cannot be opened; the caller must hold the lock."""
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

    def open(self, decided: Any) -> int:
        """Record a decision and return its id."""
        with self.lock:
            id = self.reserved()
            self.enter(id, decided)
            return id

    def reserved(self) -> int:
        """Return the id of the next decision, after ensuring that there is room; the caller must hold the lock."""
        if self.waiting and (self.one_at_a_time or len(self.waiting) >= PENDING_LIMIT):
            self.ensure_room()
        return self.next + self.gap

    def enter(self, id: int, decided: Any) -> None:
        """Record the next decision; the caller must hold the lock and have ensured that there is room."""
        self.waiting[id] = decided
        self.next, self.gap = id + 1, 0

    def enter_alone(self, id: int, decided: Any) -> None:
        """Record the next decision, which awaits no answer; the caller must hold the lock."""
        self.skip_to(id + 1)
        self.alone[id] = decided
        while len(self.alone) > ALONE:
            self.alone.popitem(last=False)

    def decided(self, id: int) -> Any:
        """Return what was decided under a pending id."""
        with self.lock:
            checked = self._known(id)
            if checked not in self.waiting:
                raise UnknownDecision(f"decision {checked} was already answered")
            return self.waiting[checked]

    def check(self, id: int, content: Content) -> str:
        """Return "pending" or "duplicate", or raise `FeedbackConflict` or `UnknownDecision`."""
        with self.lock:
            checked = self._known(id)
            if checked in self.waiting:
                return "pending"
            known: Content | None = self._answered.get(checked)
            if known is None:
                known = self._recalled(checked)
            if known is not None and not _same(known, content):
                vague = digest_of(content).startswith(VAGUE)
                why = (
                    "and a repr with an address does not tell whether with this"
                    if vague
                    else "with other content"
                )
                raise FeedbackConflict(f"decision {checked} was already answered, {why}")
            return "duplicate"

    def settle(self, id: int, content: Content) -> str:
        """Record the answer to a decision; return "accepted" or "duplicate"."""
        with self.lock:
            if self.check(id, content) == "duplicate":
                return "duplicate"
            self.close(int(id), content, self.rounds + 1)
            return "accepted"

    def awaited(self, id: int, content: Content) -> Any:
        """Return what was decided under a pending id, None for a duplicate, or raise as `check` does.

        The caller must hold the lock. A pending id can then be passed to `close`.
        """
        if type(id) is int and id in self.waiting:
            return self.waiting[id]
        return None if self.check(id, content) == "duplicate" else self.waiting[int(id)]

    def close(self, id: int, content: Content, rounds: int) -> None:
        """Record the answer to a pending decision as number ``rounds``; the caller must hold the lock."""
        if self.rounds >= rounds:  # already done before an interruption
            return
        self.waiting.pop(id, None)
        self._answered[id] = content
        while len(self._answered) > self.remember:
            oldest = next(iter(self._answered))
            self._forget(oldest)
            self._answered.pop(oldest, None)
        self.rounds = rounds  # last, so that a partial change is repeated

    def cancel(self, id: int) -> None:
        """Cancel a pending decision: nothing will be learned from it."""
        with self.lock:
            self.decided(id)
            self.drop(int(id))

    def drop(self, id: int) -> None:
        """Cancel a decision that is pending; the caller must hold the lock."""
        self.waiting.pop(id, None)  # an id that is neither pending nor answered was cancelled
        self.alone.pop(id, None)

    def leap(self) -> None:
        """Skip a random number of ids, to issue none that another copy of the same state has issued."""
        self.gap = 1 + secrets.randbelow(GAP)

    def skip_to(self, id: int) -> None:
        """Issue no id below this one; the caller must hold the lock."""
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

    def state(self, encode: Callable[[Any], Any]) -> dict[str, Any]:
        """Return everything as plain data; ``encode`` converts what was decided to plain data."""
        with self.lock:
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
        ledger._runs = _pairs(state["runs"])
        _ids([last for _, last in ledger._runs])
        ledger.waiting = {id: decode(decided) for id, decided in _pairs(state["pending"])}
        ledger._answered = OrderedDict(_pairs(state["answered"]))
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


def _ids(values: list[Any]) -> list[int]:
    if not all(type(value) is int for value in values):
        raise StateError("the ids of the ledger must be integers")
    return values


def _pairs(values: list[Any]) -> list[tuple[int, Any]]:
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in values):
        raise StateError("the ledger must list pairs that start with an id")
    _ids([pair[0] for pair in values])
    return [(pair[0], pair[1]) for pair in values]


def plain_content(labels: tuple[Any, ...]) -> Content | None:
    """Return what is remembered of plain labels: the labels if they are few and short, else their digest.

    Return None for other labels. Such tuples are equal if and only if their digests are.

    >>> plain_content((1, True, "no")), plain_content((1.0,)), plain_content(("no" * 100,))
    ((1, True, 'no'), None, '0424c7b66e29910e')
    """
    short = len(labels) <= FEW_LABELS
    for label in labels:
        kind = type(label)
        if kind is int or kind is bool:
            if not -LARGE < label < LARGE:
                short = False
        elif kind is not str:
            return None
        elif len(label) > LENGTH:
            short = False
    return labels if short else fingerprint(labels)


def content_of(outputs: list[Any]) -> Content:
    """Return what is remembered of outputs: the outputs if they are few, plain and short, else their digest."""
    content = plain_content(tuple(outputs))
    return fingerprint(outputs) if content is None else content


def labelled_content(content: Content, label: Any) -> str:
    """Return what is remembered of outputs with a label."""
    digest = digest_of(content)
    found = fingerprint([digest, label])
    return VAGUE + found if digest.startswith(VAGUE) and not found.startswith(VAGUE) else found


def _same(one: Content, other: Content) -> bool:
    """Return whether two contents are certainly the same; vague ones never are."""
    if type(one) is not type(other):
        one, other = digest_of(one), digest_of(other)
    return one == other and not (isinstance(one, str) and one.startswith(VAGUE))


def digest_of(content: Content) -> str:
    """Return the digest of what is remembered of an answer."""
    return content if isinstance(content, str) else fingerprint(content)


def fingerprint(content: Any) -> str:
    """Return a short digest that is the same for equal content, in this process and after a restart.

    Equal numbers have the same digest whatever their type. An object whose ``repr`` contains a memory address cannot
    be distinguished from others of its class, and the digest of anything that holds one begins with "?".

    >>> fingerprint(["yes", 1]) == fingerprint(("yes", np.float64(1.0)))
    True
    >>> fingerprint([object()])[0], fingerprint(["<object object at 0x7f>"])[0] == "?"
    ('?', False)
    """
    text = _canonical(content)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return VAGUE + digest if UNTOLD in text else digest


def _canonical(value: Any) -> str:
    kind = type(value)  # the usual kinds first: a digest is computed in every round
    if kind is int or kind is bool:
        return f"i{int(value)}"
    if kind is float:
        return f"i{int(value)}" if value.is_integer() else f"f{value!r}"
    if kind is str:
        return f"s{len(value)}:{value}"
    if kind is list or kind is tuple:
        return "[" + ",".join([f"i{item}" if type(item) is int else _canonical(item) for item in value]) + "]"
    if isinstance(value, np.generic) and value.dtype.kind in "biufcSU":
        value = value.item()
    if isinstance(value, (bool, int)):
        return f"i{int(value)}"
    if isinstance(value, float):
        return f"i{int(value)}" if value.is_integer() else f"f{value!r}"
    if isinstance(value, str):
        return f"s{len(value)}:{str.__str__(value)}"
    if isinstance(value, np.ndarray):
        items = value.ravel().tolist()
        texts = _texts(items) if value.dtype == np.float64 else _canonical(items)
        return f"a{value.shape}" + texts
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_canonical(item) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{_canonical(k)}={_canonical(v)}" for k, v in value.items())) + "}"
    if isinstance(value, Set):
        return "<" + ",".join(sorted(_canonical(item) for item in value)) + ">"
    name = type(value).__qualname__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return name + _canonical([getattr(value, field.name) for field in dataclasses.fields(value)])
    if isinstance(value, enum.Enum):
        return f"e{name}.{value.name}"
    try:
        text = repr(value)
    except Exception as error:  # raised by the user's ``repr``
        raise ValueError(f"{name} is no label: its repr fails with {type(error).__name__}") from None
    # A memory address is not content, and changes with a restart.
    return f"r{name}:" + re.sub(r" at 0x[0-9a-fA-F]+", UNTOLD, text)


def _texts(numbers: list[float]) -> str:
    """Return `_canonical` of a list of floats, mostly zeros and ones."""
    known = {0.0: "i0", 1.0: "i1"}
    return "[" + ",".join([known.get(item) or _canonical(item) for item in numbers]) + "]"
