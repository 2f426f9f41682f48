"""Faults that were found by attack, each with the test that shows it."""

import copy
import random
import signal
from pathlib import Path

import pytest
from tests.live import inside

from weakfeedback import Allocator, Cascade, FeedbackConflict, Router, Scored, StateError

OLD = Path(__file__).parent / "old"  # files that were written before the first release, in format 1
COSTS = {"stage_costs": [1.0, 4.0, 9.0], "error_cost": 60.0}
SCORED = [
    lambda x: Scored(x % 2, (x * 7 % 11) / 11),
    lambda x: Scored(x % 3, (x * 5 % 13) / 13),
    lambda x: Scored(x % 5, (x * 3 % 17) / 17),
]


# -- an object loaded from a journal knows what was answered


def answer(cascade, rounds):
    """Answer rounds with their own ids; the contents that were given."""
    given = {}
    for _ in range(rounds):
        decision = cascade.decide()
        given[decision.id] = [f"{decision.id} {k}" for k in range(decision.arm + 1)]
        assert cascade.feedback(decision.id, given[decision.id]) == "accepted"
    return given


def contradict(cascade, given):
    """What is said again is a duplicate, and something else a conflict."""
    for id, outputs in given.items():
        with pytest.raises(FeedbackConflict, match=f"decision {id} was already answered"):
            cascade.feedback(id, ["something else"] * len(outputs))
        assert cascade.feedback(id, outputs) == "duplicate"


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_loaded_journal_keeps_what_was_answered(tmp_path, snapshot):
    path = tmp_path / "journal.db"
    with Cascade.open(path, 3, **COSTS, seed=0) as cascade:
        given = answer(cascade, 20)
        cascade.cancel(cascade.decide().id)
        given |= answer(cascade, 5)
        state = cascade.state()
        if not snapshot:
            inside.kill(cascade)
            cascade._journal = None
    loaded = Cascade.load(path, 3)
    assert loaded.state() == state  # the journal's own: what it remembers is beside it
    contradict(loaded, given)
    given |= answer(loaded, 3)  # from here on it remembers by itself
    contradict(loaded, given)
    assert loaded.rounds == 28
    loaded.save(tmp_path / "state.json")
    again = Cascade.load(tmp_path / "state.json", 3)
    contradict(again, given)
    assert again.state() == loaded.state()


def test_a_loaded_journal_that_is_saved_at_once_keeps_them_too(tmp_path):
    with Router.open(tmp_path / "journal.db", 2, [1, 20], error_cost=100) as router:
        decision = router.decide()
        router.feedback(decision.id, [0, 1])
        router.decide()
    Router.load(tmp_path / "journal.db", 2).save(tmp_path / "state.json")
    loaded = Router.load(tmp_path / "state.json", 2)
    with pytest.raises(FeedbackConflict):
        loaded.feedback(decision.id, [1, 1])
    assert loaded.feedback(decision.id, [0, 1]) == "duplicate"
    assert loaded.feedback(2, [0, 0]) == "accepted"


def test_no_more_answers_are_read_from_a_journal_than_are_remembered(tmp_path, monkeypatch):
    from weakfeedback.live import core, persistence

    monkeypatch.setattr(core, "REMEMBERED", 5)
    monkeypatch.setattr(persistence, "REMEMBERED", 5)
    with Cascade.open(tmp_path / "journal.db", 3, **COSTS, seed=0) as cascade:
        given = answer(cascade, 12)
    loaded = Cascade.load(tmp_path / "journal.db", 3)
    contradict(loaded, {id: given[id] for id in list(given)[-5:]})
    assert loaded.feedback(1, ["something else"]) == "duplicate"  # older ones are not checked
    loaded.save(tmp_path / "state.json")
    assert len(Cascade.load(tmp_path / "state.json", 3).state()["core"]["ledger"]["answered"]) == 5


# -- files of an older format


@pytest.mark.parametrize(
    "load",
    [lambda: Allocator.load(OLD / "allocator.json"), lambda: Cascade.load(OLD / "cascade.json", 2)],
    ids=["Allocator", "Cascade"],
)
def test_files_from_before_the_first_release_are_refused_in_words(load):
    with pytest.raises(StateError, match=r"format 1, of a version before the first release.*: begin anew"):
        load()


# -- an exception of a signal handler is not taken for one of a label


class Boom(Exception):
    """Raised by a signal handler."""


class Interrupting:
    """A label in whose ``repr`` a signal comes."""

    def __repr__(self):
        signal.raise_signal(signal.SIGUSR1)
        return "a label"


class Mute:
    """A label that cannot be shown."""

    def __repr__(self):
        raise RuntimeError("no")


class Handler:
    """A handler that is an object."""

    def __call__(self, number, frame):
        raise Boom


def handle(number, frame):
    raise Boom


@pytest.mark.parametrize(
    "handler", [handle, Handler(), Handler().__call__], ids=["function", "object", "method"]
)
def test_an_exception_of_a_handler_passes_through_the_repr_of_a_label(handler):
    cascade = Cascade(3, **COSTS, policy="USS-A", seed=1)
    id = cascade.begin().id
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Boom):
            cascade.tell(id, Interrupting())
        with pytest.raises(ValueError, match="Mute is no label: its repr fails with RuntimeError"):
            cascade.tell(id, Mute())
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert cascade.pending == [id]
    assert cascade.tell(id, "a").id == id


# -- a forged state is refused, not read beyond its tables


def forged(fields, luck):
    """Change one number of the policy's fields; return the name of the field."""
    name = luck.choice(sorted(fields))
    value = fields[name]
    if isinstance(value, dict) and value.get("data"):
        place = luck.randrange(len(value["data"]))
        if type(value["data"][place]) is int:
            value["data"][place] = luck.choice([-1, 7, 10**6, 2**62])
    elif type(value) is int:
        fields[name] = luck.choice([-1, 0, value - 1, value + 1, 10**6, 2**40])
    return name


def test_a_forged_state_of_a_policy_that_keeps_rounds_is_refused_or_plausible():
    cascade = Cascade(SCORED, **COSTS, policy="USS-A", seed=1, memory=24)
    for x in range(40):
        cascade(x)
    state, luck = cascade.state(), random.Random(0)
    refused = set()
    for _ in range(150):
        body = copy.deepcopy(state)
        name = forged(body["core"]["fields"], luck)
        try:
            thing = Cascade.from_state(body, SCORED)
        except StateError:
            refused.add(name)
            continue
        try:
            for x in range(30):
                thing(x)
            str(thing.report())
        except ValueError:  # of what the policy checks by itself
            assert name not in ("K", "memory", "arms", "filled", "judging")
    assert {"K", "memory", "held", "t"} <= refused
