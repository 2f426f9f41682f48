"""What live objects are told in use: accepted, or refused as documented with nothing changed."""

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.fuzz.values import NUMBERS, ODD, SCALARS, fuzz, mostly, sizes
from tests.live import inside
from tests.live.kinds import BY_ID, KINDS, play, state

from weakfeedback import FeedbackConflict, PendingDecision, Scored, UnknownDecision
from weakfeedback.live import Costed, WrongSlot

IDS = st.one_of(st.integers(-1, 12), SCALARS)
LABELS = st.lists(st.one_of(st.integers(0, 2), SCALARS), min_size=2, max_size=4)
COSTED = st.lists(st.builds(Costed, SCALARS, st.floats(0.0, 9.0)), min_size=1, max_size=3)
TOLD = st.one_of(
    SCALARS,
    ODD,
    st.builds(Scored, SCALARS, st.floats(-9.0, 9.0), st.none() | st.dictionaries(st.integers(0, 2), SCALARS)),
    st.builds(Costed, st.integers(0, 2), st.floats(0.0, 9.0)),
)
ARMS = KINDS["Allocator"].make().core.game.arms
CONTENT = {
    "Cascade": st.one_of(LABELS, COSTED, ODD),
    "ContextualCascade": st.one_of(LABELS, COSTED, ODD),
    "Allocator": st.one_of(
        st.lists(st.one_of(st.floats(0.0, 1.0), st.none()), min_size=ARMS, max_size=ARMS),
        st.lists(st.one_of(st.floats(0.0, 1.0), st.none(), NUMBERS), min_size=3, max_size=5),
        st.dictionaries(st.integers(-1, 5), st.one_of(st.floats(0.0, 1.0), SCALARS), max_size=4),
        ODD,
    ),
}


def begun(kind):
    """An object with eight rounds behind it and two decisions open."""
    thing = kind.make()
    play(kind, thing, 8)
    kind.decide(thing)
    kind.decide(thing)
    return thing


def outcome(call, *errors):
    """What a call returned, or the error it raised, of one line."""
    try:
        return call()
    except errors as error:
        refusal = error
    assert len(str(refusal).splitlines()) == 1
    return refusal


def learned(thing):
    """Its state without what changes with every decision: the generator, and what it was asked."""
    found = state(thing)
    return found["counts"], found["core"]["fields"], found["core"]["ledger"]


@sizes(60, 3000)
@pytest.mark.parametrize("name", CONTENT)
def test_feedback(name, examples):
    kind = KINDS[name]
    start = begun(kind)
    rounds = [start.rounds]

    @fuzz(examples, id=mostly(IDS), content=CONTENT[name], open_one=st.booleans())
    def check(id, content, open_one):
        before = state(start)
        id = start.pending[0] if open_one else id
        found = outcome(lambda: start.feedback(id, content), ValueError, FeedbackConflict, UnknownDecision)
        if found == "accepted":
            rounds[0] += 1
            kind.decide(start)  # so that two are open again
        else:
            assert isinstance(found, Exception) or found == "duplicate"
            assert state(start) == before
        assert start.rounds == rounds[0]

    assert rounds[0] > 8  # some of it was right


@sizes(60, 3000)
def test_outputs_told_one_by_one(examples):
    assert set(CONTENT) | {"Adaptive"} == set(BY_ID)
    kind = KINDS["Adaptive"]
    start = begun(kind)
    finished = [0]

    @fuzz(examples, id=mostly(IDS), output=TOLD, stage=st.one_of(st.none(), SCALARS), open_one=st.booleans())
    def check(id, output, stage, open_one):
        before, rounds = state(start), start.rounds
        id, stage = (start.pending[0], None) if open_one else (id, stage)
        found = outcome(
            lambda: start.tell(id, output, stage),
            ValueError,
            FeedbackConflict,
            UnknownDecision,
        )
        if isinstance(found, Exception):
            assert state(start) == before
        elif found.answer is not None:
            finished[0] += start.rounds > rounds
            if len(start.pending) < 2:
                kind.decide(start)
        assert start.rounds in (rounds, rounds + 1)

    assert finished[0] > 3  # some of it was right


@sizes(60, 3000)
@pytest.mark.parametrize("name", KINDS)
def test_ids_to_cancel_and_to_explain(name, examples):
    thing = begun(KINDS[name])

    @fuzz(examples, id=mostly(IDS))
    def check(id):
        if hasattr(thing, "explain"):
            before = state(thing)
            outcome(lambda: thing.explain(id), ValueError, UnknownDecision)
            assert state(thing) == before
        before = state(thing)
        if isinstance(outcome(lambda: thing.cancel(id), ValueError, UnknownDecision), Exception):
            assert state(thing) == before


@sizes(60, 3000)
def test_observations(examples):
    player = KINDS["Player"].make()

    @fuzz(
        examples,
        reward=mostly(st.floats(0.0, 1.0)),
        collided=mostly(st.booleans()),
        slot=mostly(st.one_of(st.none(), st.integers(0, 60))),
    )
    def check(reward, collided, slot):
        player.choose()
        before, rounds = state(player), player.rounds
        found = outcome(lambda: player.observe(reward, collided, slot), ValueError, WrongSlot)
        if found is None:
            assert player.rounds == rounds + 1
        else:
            assert state(player) == before

    assert player.rounds > 0


@sizes(60, 3000)
def test_contexts_and_batches(examples):
    kind = KINDS["ContextualCascade"]
    cascade = kind.make()
    play(kind, cascade, 8)
    contexts = st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=2)

    @fuzz(examples, x=mostly(contexts, 3), many=mostly(st.lists(contexts, max_size=3), 3))
    def check(x, many):
        before = state(cascade)
        decision = outcome(lambda: cascade.decide(x), ValueError, PendingDecision)
        if isinstance(decision, Exception):
            assert state(cascade) == before
        else:
            cascade.cancel(decision.id)
        before = learned(cascade)
        stages = inside.stages(cascade)
        answers = outcome(lambda: cascade.answers(many), ValueError, TypeError)
        if isinstance(answers, Exception):  # of the map, or of a stage that cannot count with such a sample
            assert learned(cascade)[:2] == before[:2]
            assert cascade.pending == []
        assert inside.stages(cascade) is stages


@sizes(60, 3000)
def test_logs(examples):
    cascade = KINDS["Cascade"].make()
    rows = st.lists(st.lists(st.integers(0, 2), min_size=3, max_size=3), max_size=3)

    @fuzz(examples, logs=mostly(rows, 2))
    def check(logs):
        before = state(cascade)
        found = outcome(lambda: cascade.warm_start(logs), ValueError)
        if isinstance(found, Exception):
            assert state(cascade) == before
        else:
            assert found == len(logs)

    assert np.sum(cascade.report().comparisons) > 0
