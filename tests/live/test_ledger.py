"""The ledger against a model that remembers everything, and its limits."""

import json
import threading
from collections import Counter
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.rig.threads import in_threads

from weakfeedback import Cascade
from weakfeedback.live import core as module
from weakfeedback.live.answers import fingerprint
from weakfeedback.live.errors import FeedbackConflict, PendingDecision, UnknownDecision
from weakfeedback.live.storage import StateError


class Ledger(module.Ledger):
    """With whole steps, as the core takes them."""

    @property
    def pending(self):
        """The ids decided but not yet answered, in increasing order."""
        return list(self.waiting)

    def open(self, decided):
        """Record a decision and return its id."""
        id = self.reserved()
        self.enter(id, decided)
        return id

    def settle(self, id, content):
        """Record the answer to a decision; return "accepted" or "duplicate"."""
        if self.check(id, content) == "duplicate":
            return "duplicate"
        self.close(int(id), content, self.rounds + 1)
        return "accepted"

    def cancel(self, id):
        """Cancel a pending decision: nothing will be learned from it."""
        self.decided(id)
        self.drop(int(id))


PENDING, REMEMBERED = 4, 2  # small limits, so that the machine meets them


class LedgerMachine(RuleBasedStateMachine):
    """The model keeps every id for ever; only what the ledger may forget is told from its limits."""

    def __init__(self):
        super().__init__()
        self.kept = module.PENDING_LIMIT, module.REMEMBERED
        module.PENDING_LIMIT, module.REMEMBERED = PENDING, REMEMBERED
        self.ledger = Ledger()
        self.opened = 0
        self.pending = {}
        self.answers = []  # (id, digest) in the order of the answers

    def teardown(self):
        module.PENDING_LIMIT, module.REMEMBERED = self.kept

    @rule(decided=st.integers(0, 5))
    def open(self, decided):
        if len(self.pending) == PENDING:
            with pytest.raises(PendingDecision, match="4 decisions wait"):
                self.ledger.open(decided)
            return
        self.opened += 1
        assert self.ledger.open(decided) == self.opened
        self.pending[self.opened] = decided

    def expected(self, id, digest):
        """What the documentation promises for this feedback."""
        if id in self.pending:
            return "accepted"
        known = dict(self.answers[-REMEMBERED:])
        if id in known:
            return "duplicate" if known[id] == digest else FeedbackConflict
        return "duplicate" if id in dict(self.answers) else UnknownDecision

    @rule(back=st.integers(-1, 14), digest=st.sampled_from(["a", "b"]))
    def settle(self, back, digest):
        id = self.opened - back
        expected = self.expected(id, digest)
        if not isinstance(expected, str):
            with pytest.raises(expected):
                self.ledger.settle(id, digest)
            return
        assert self.ledger.settle(id, digest) == expected
        if expected == "accepted":
            del self.pending[id]
            self.answers.append((id, digest))

    @rule(back=st.integers(-1, 6))
    def cancel(self, back):
        id = self.opened - back
        if id not in self.pending:
            with pytest.raises(UnknownDecision):
                self.ledger.cancel(id)
            return
        self.ledger.cancel(id)
        del self.pending[id]

    @rule()
    def restart(self):
        state = json.loads(json.dumps(self.ledger.state(encode=lambda arm: arm)))
        self.ledger = Ledger.from_state(state, decode=lambda arm: arm)

    @invariant()
    def agrees(self):
        assert self.ledger.pending == sorted(self.pending)
        assert self.ledger.rounds == len(self.answers)
        assert {id: self.ledger.decided(id) for id in self.ledger.pending} == self.pending


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)


def test_ten_thousand_decisions_may_wait_and_no_more():
    ledger = Ledger()
    for _ in range(10_000):
        ledger.open(0)
    with pytest.raises(PendingDecision, match="10000"):
        ledger.open(0)
    assert len(ledger.pending) == 10_000
    ledger.cancel(17)
    assert ledger.open(0) == 10_001


def test_the_last_ten_thousand_answers_are_checked_and_older_ones_are_not():
    ledger = Ledger()
    for _ in range(10_001):
        ledger.settle(ledger.open(0), "a")
    assert ledger.settle(1, "other") == "duplicate"
    with pytest.raises(FeedbackConflict, match="decision 2 "):
        ledger.settle(2, "other")
    assert ledger.rounds == 10_001
    assert len(ledger.state(int)["answered"]) == 10_000


def test_answers_are_forgotten_in_the_order_they_came(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 1)
    ledger = Ledger()
    for _ in range(4):
        ledger.open(0)
    for id in (3, 1, 2):  # 3 is forgotten first, then 1
        ledger.settle(id, "a")
    assert ledger.settle(3, "b") == "duplicate"
    assert ledger.settle(1, "b") == "duplicate"
    with pytest.raises(FeedbackConflict):
        ledger.settle(2, "b")
    assert ledger.pending == [4]


def test_a_cancelled_decision_is_known_among_forgotten_answers(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 1)
    ledger = Ledger()
    for _ in range(3):
        ledger.open(0)
    ledger.cancel(1)
    for id in (2, 3):
        ledger.settle(id, "a")
    with pytest.raises(UnknownDecision, match="decision 1 was cancelled"):
        ledger.settle(1, "a")


def test_an_id_never_answered_is_unknown_even_when_its_cancellation_is_forgotten(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 1)
    ledger = Ledger()
    for _ in range(3):
        ledger.cancel(ledger.open(0))
    with pytest.raises(UnknownDecision, match="decision 1 was cancelled"):
        ledger.settle(1, "a")


def test_what_was_never_answered_is_never_a_duplicate():
    """However long ago it was cancelled: 30,000 answers and 15,000 cancellations lie between."""
    ledger = Ledger()
    for n in range(45_000):
        id = ledger.open(0)
        if n % 4500 < 1500:
            ledger.cancel(id)
        else:
            ledger.settle(id, "a")
    for id in (1, 1500, 4501, 6000):
        with pytest.raises(UnknownDecision, match=f"decision {id} was cancelled"):
            ledger.settle(id, "a")
    assert [ledger.settle(id, "b") for id in (1501, 4500, 6001)] == ["duplicate"] * 3
    assert len(json.dumps(ledger.state(int)["runs"])) < 150


def test_too_many_intervals_of_answers_make_the_oldest_ids_unknown(monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 1)
    monkeypatch.setattr(module, "RUNS", 2)
    ledger = Ledger()
    for _ in range(9):
        ledger.open(0)
    for id in (2, 4, 6, 8):  # 2 goes when 8 is remembered, and 6, as the third interval, is kept
        ledger.settle(id, "a")
    again = Ledger.from_state(ledger.state(int), int)
    for each in (ledger, again):
        with pytest.raises(UnknownDecision, match="decision 2 is so old that nobody knows"):
            each.settle(2, "a")
        assert [each.settle(id, "b") for id in (4, 6)] == ["duplicate"] * 2
        assert each.settle(1, "a") == "accepted"  # pending is pending, however old
        assert each.rounds == 5
        each.archive = {2: "a", 8: "a"}.get
        assert each.settle(2, "a") == "duplicate"


@pytest.mark.parametrize("id", range(1, 9))
def test_intervals_grow_together_in_any_order(monkeypatch, id):
    monkeypatch.setattr(module, "REMEMBERED", 0)
    rng = np.random.default_rng(id)
    ledger = Ledger()
    for _ in range(9):
        ledger.open(0)
    for other in rng.permutation([k for k in range(1, 10) if k != id]).tolist():
        ledger.settle(other, "a")
    ledger.cancel(id)
    expected = [run for run in ([1, id - 1], [id + 1, 9]) if run[0] <= run[1]]
    assert ledger.state(int)["runs"] == expected
    with pytest.raises(UnknownDecision):
        ledger.settle(id, "a")


def test_one_at_a_time():
    ledger = Ledger(one_at_a_time=True)
    first = ledger.open(0)
    with pytest.raises(PendingDecision, match="decision 1 is open"):
        ledger.open(0)
    ledger.settle(first, "a")
    assert ledger.open(0) == 2


def test_an_id_is_an_integer():
    ledger = Ledger()
    ledger.open(0)
    for wrong in ("1", 1.0, True, None):
        with pytest.raises(ValueError, match="id must be"):
            ledger.settle(wrong, "a")
    assert ledger.settle(np.int64(1), "a") == "accepted"


def test_a_cancelled_decision_is_unknown_and_an_answered_one_cannot_be_cancelled():
    ledger = Ledger()
    first, second = ledger.open(0), ledger.open(0)
    ledger.cancel(first)
    with pytest.raises(UnknownDecision, match="was cancelled"):
        ledger.settle(first, "a")
    ledger.settle(second, "a")
    with pytest.raises(UnknownDecision, match="already answered"):
        ledger.cancel(second)


@pytest.mark.parametrize(
    "change",
    [
        {"next": 2},  # pending ids beyond it
        {"next": True},
        {"rounds": 5},
        {"rounds": -1},
        {"floor": 5},
        {"floor": -1},
        {"runs": [[4, 4]]},  # one answer too many
        {"runs": [[1, 1]], "rounds": 2},  # also remembered
        {"runs": [[5, 4]]},
        {"runs": [["4", 4]]},
        {"runs": [[4, "4"]]},
        {"runs": [[4]]},
        {"pending": [[3, 0], [2, 0]]},
        {"pending": [[2, 0], [2, 0]]},
        {"pending": [[1, 0]]},  # also answered
        {"pending": [["2", 0]]},
        {"pending": [[2]]},
        {"answered": [[1, 5]]},
        {"answered": [[1, "a"], [1, "a"]]},
        {"cancelled": [4]},
        {"extra": 1},
    ],
)
def test_a_state_that_contradicts_itself_is_refused(change):
    ledger = Ledger()
    for _ in range(4):
        ledger.open(0)
    ledger.settle(1, "a")
    ledger.cancel(4)
    good = ledger.state(int)
    assert Ledger.from_state(good, int).state(int) == good
    with pytest.raises(StateError):
        Ledger.from_state({**good, **change}, int)


def test_threads_lose_nothing():
    core = Cascade(2, [1, 2], error_cost=10, seed=0).core  # whose lock guards its ledger
    core.ledger = ledger = Ledger()
    run = core.run
    outcomes = Counter()
    guard = threading.Lock()

    def work(thread):
        mine = Counter()
        for step in range(500):
            id = run(ledger.open, thread)
            if step % 5 == 0:
                run(ledger.cancel, id)
                mine["cancelled"] += 1
            elif step % 5 != 1:
                mine[run(ledger.settle, id, "a")] += 1
                mine[run(ledger.settle, id, "a")] += 1
            else:
                mine["left"] += 1
        with guard:
            outcomes.update(mine)

    in_threads(8, work)
    # Of 500 steps 100 cancel, 100 leave their decision open and 300 answer twice.
    assert outcomes == {"cancelled": 800, "left": 800, "accepted": 2400, "duplicate": 2400}
    assert ledger.rounds == 2400
    assert len(ledger.pending) == 800
    assert ledger.open(0) == 4001


class Colour(Enum):
    RED = 1
    BLUE = 2


@dataclass
class Point:
    x: int
    y: int


class Opaque:
    pass


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (1, np.int64(1)),
        (1, 1.0),
        (True, np.bool_(True)),
        ("a", np.str_("a")),
        ([1, 2], (1, 2)),
        ({"b": 1, "a": 2}, {"a": 2, "b": 1}),
        ({3, 1, 2}, {1, 2, 3}),
        (Colour.RED, Colour(1)),
        (Point(1, 2), Point(1, 2)),
        (Opaque(), Opaque()),
        (np.array([1.5, 2.0]), np.array([1.5, 2.0])),
    ],
)
def test_equal_content_has_the_same_fingerprint(one, same):
    assert fingerprint([one]) == fingerprint([same])


def test_other_content_has_another_fingerprint():
    values = [0, 1, -1, 0.5, "1", "", None, "None", b"1", [1], [[1]], [1, 1], {"a": 1}, {"a": 2}, Colour.RED]
    values += [
        Colour.BLUE,
        Point(1, 2),
        Point(2, 1),
        float("inf"),
        "a,b",
        ["a", "b"],
        np.array([[1]]),
        "\ud800",
    ]
    assert len({fingerprint(value) for value in values}) == len(values)
