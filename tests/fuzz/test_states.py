"""Saved states with a right checksum and wrong content: refused, or an object that works and saves the same again."""

import copy
import json

import pytest
from hypothesis import strategies as st
from tests.fuzz.test_files import changed, places
from tests.fuzz.values import BIG, fuzz, sizes
from tests.live.kinds import KINDS, play, state

from weakfeedback import FeedbackConflict, PendingDecision, UnknownDecision
from weakfeedback.live import StateError, storage

DOCUMENTED = (ValueError, FeedbackConflict, PendingDecision, UnknownDecision)
WORDS = st.sampled_from(
    ["", "float", "dtype", "shape", "data", "float64", "int64", "PCG64", "USS-TS", "nan", "loss"]
)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.sampled_from(BIG),
    st.floats(allow_nan=False, allow_infinity=False),
    WORDS,
    st.text(max_size=4),
)
SAID = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(WORDS, inner, max_size=3),
        st.fixed_dictionaries({"dtype": WORDS, "shape": st.just([2]), "data": st.lists(inner, max_size=2)}),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    kind = KINDS[request.param]
    thing = kind.make()
    play(kind, thing, 8)
    kind.decide(thing)
    path = tmp_path_factory.mktemp("states") / "state.json"
    return kind, path, json.loads(json.dumps(state(thing)))


def loaded(kind, path, body):
    """The object of a state with a right checksum, None if refused."""
    storage.write(path, type(kind.make()).kind, body)
    try:
        return kind.load(path)
    except StateError as error:
        refusal = str(error)
    except ValueError as error:  # what the caller gave does not fit the file
        refusal = str(error)
        assert any(word in refusal for word in ("stages must be", "must be given", "policy that was given"))
    assert len(refusal.splitlines()) == 1
    return None


def test_the_states_that_are_altered_are_good(saved):
    kind, path, body = saved
    thing = loaded(kind, path, body)
    assert state(thing) == body


@sizes(50, 2000)
def test_altered_states(saved, examples, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda descriptor: None)  # thousands of files, none of which must last
    kind, path, body = saved
    changes = st.lists(
        st.tuples(
            st.sampled_from(places(body)), st.sampled_from(["replace", "replace", "drop", "add"]), SAID
        ),
        min_size=1,
        max_size=2,
    )

    @fuzz(examples, edits=changes)
    def check(edits):
        document = copy.deepcopy(body)
        for where, action, value in edits:
            if where in places(document):
                document = changed(document, where, action, value)
        thing = loaded(kind, path, document)
        if thing is None:
            return
        thing.save(path)
        assert state(kind.load(path)) == state(thing)
        use(kind, thing)


def use(kind, thing):
    """Play on: a policy whose numbers were forged may refuse to decide, but only as documented and without a trace."""
    for id in thing.pending:
        thing.cancel(id)
    for _ in range(3):
        before = state(thing)
        try:
            play(kind, thing, 1)
        except DOCUMENTED:
            for id in thing.pending:
                thing.cancel(id)
            after = state(thing)
            assert after["counts"] == before["counts"]
            assert after["core"]["fields"] == before["core"]["fields"]
            return
