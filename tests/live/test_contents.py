"""What is remembered of answers, and what is counted of them; the user's own code on the way."""

import hashlib
import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.live import inside

from weakfeedback import Cascade
from weakfeedback.cascade import UssTs
from weakfeedback.live import FeedbackConflict
from weakfeedback.live import core as ledgers
from weakfeedback.live.answers import fingerprint, labelled_content, plain_content, same_content
from weakfeedback.live.games.cascade import Counts, pairs_compared

# plain labels, short and long, and equal ones of other types
PLAIN = [
    0,
    1,
    True,
    False,
    "a",
    "b",
    "1",
    "",
    "x" * 16,
    "x" * 17,
    2**63 - 1,
    2**63,
    -(2**63),
    10**40,
    "\ud800",
]


@pytest.mark.parametrize(
    "options",
    [{"combine": max}, {"compare": lambda a, b: a == b}, {"metric": lambda a, b: float(a != b)}],
    ids=["combine", "compare", "metric"],
)
def test_code_of_the_user_is_not_run_under_the_lock(options):
    free = []
    name, function = options.popitem()

    def try_lock():
        free.append(inside.lock(cascade).acquire(blocking=False))
        if free[-1]:
            inside.lock(cascade).release()

    def watched(*arguments):
        thread = threading.Thread(target=try_lock)
        thread.start()
        thread.join()
        return function(*arguments)

    cascade = Cascade([abs] * 2, stage_costs=[0.1, 0.1], policy="Fixed", arm=1, seed=0, **{name: watched})
    assert cascade.feedback(cascade.decide().id, [0, 1]) == "accepted"
    assert free
    assert all(free)


def test_a_policy_made_of_uss_ts_is_asked_itself():
    class Deaf(UssTs):
        def select(self, rng):
            return 1

        def update_pairs(self, arm, differ, rng):
            pass

    cascade = Cascade([abs] * 3, stage_costs=[0.1] * 3, policy=Deaf([0.1, 0.2, 0.3]), seed=0)
    decision = cascade.decide()
    cascade.feedback(decision.id, [0, 1])
    assert decision.arm == 1
    assert (cascade.policy.S == 1.0).all()
    assert (cascade.policy.F == 1.0).all()


def test_a_policy_that_fails_leaves_the_decision_open():
    class Fails:
        delay_safe = True

        def select(self, rng):
            return 1

        def update_pairs(self, arm, differ, rng):
            raise ArithmeticError("no")

    cascade = Cascade([abs] * 2, stage_costs=[0.1, 0.1], policy=Fails(), seed=0)
    id = cascade.decide().id
    before = cascade.state()
    with pytest.raises(ArithmeticError):
        cascade.feedback(id, [0, 1])
    assert cascade.state() == before
    assert cascade.pending == [id]


@pytest.mark.parametrize("taken", [False, True], ids=["in memory", "after a state was taken"])
def test_the_same_said_in_other_types_is_a_duplicate_and_other_content_is_not(taken):
    cascade = Cascade([abs] * 3, stage_costs=[0.1] * 3, policy="Fixed", arm=2, seed=0)
    id = cascade.decide().id
    assert cascade.feedback(id, [1, True, "no"]) == "accepted"
    if taken:
        cascade.state()
    for same in ((1, 1, "no"), [True, 1, "no"], [1.0, np.int64(1), "no"], np.array([1, 1, "no"], object)):
        assert cascade.feedback(id, same) == "duplicate"
    for other in ([1, 1, "yes"], [1, 0, "no"], [1, 1], [1, 1, "no", 1], [1.5, 1, "no"], ["1", 1, "no"]):
        with pytest.raises(FeedbackConflict):
            cascade.feedback(id, other)


def test_labels_are_not_in_the_file(tmp_path):
    cascade = Cascade([abs] * 2, stage_costs=[0.1] * 2, policy="Fixed", arm=1, seed=0)
    id = cascade.decide().id
    cascade.feedback(id, ["melanoma", "benign"])
    cascade.save(tmp_path / "saved")
    assert b"melanoma" not in (tmp_path / "saved").read_bytes()
    loaded = Cascade.load(tmp_path / "saved", [abs] * 2)
    assert loaded.feedback(id, ["melanoma", "benign"]) == "duplicate"
    with pytest.raises(FeedbackConflict):
        loaded.feedback(id, ["benign", "melanoma"])


@given(
    st.lists(st.sampled_from(PLAIN), max_size=10).map(tuple),
    st.lists(st.sampled_from(PLAIN), max_size=10).map(tuple),
)
def test_contents_are_equal_when_digests_are(one, other):
    contents = plain_content(one), plain_content(other)
    assert same_content(*contents) == (fingerprint(one) == fingerprint(other))
    assert same_content(contents[0], fingerprint(other)) == (fingerprint(one) == fingerprint(other))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([1, True, 2.0, "no", 0.5], "[i1,i1,i2,s2:no,f0.5]"),
        (np.array([0.0, 1.0, 0.5, -0.0, np.inf]), "a(5,)[i0,i1,f0.5,i0,finf]"),
        (np.array([[1, 0]]), "a(1, 2)[i1,i0]"),
    ],
)
def test_digests_are_those_of_older_files(content, text):
    assert fingerprint(content) == hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def test_what_is_remembered_of_an_answer_is_small():
    for labels in (
        (1,) * 8,
        ("x" * 16,) * 8,
        (2**63 - 1,) * 8,
        (1,) * 9,
        ("x" * 17,),
        (2**63,),
        (-(10**999),),
    ):
        content = plain_content(labels)
        size = len(content) * 8 if isinstance(content, str) else 64 + 8 * sum(map(len, map(str, content)))
        assert size <= 2000
    assert isinstance(plain_content(("x" * 17,)), str)
    assert isinstance(plain_content((1,) * 9), str)
    assert plain_content((1, None)) is plain_content((1.0,)) is plain_content((b"x",)) is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**25 - 1)), max_size=30))
@settings(deadline=None)
def test_comparisons_are_those_counted_pair_by_pair(rounds):
    counts = warmed = Counts.of(5)
    differed, compared = np.zeros((5, 5), dtype=int), np.zeros((5, 5), dtype=int)
    for arm, bits in rounds:
        differ = np.zeros((arm + 1, arm + 1), dtype=bool)
        before = counts.differed, counts.differed.copy()
        for i, j in itertools.combinations(range(arm + 1), 2):
            compared[i, j] += 1
            differ[i, j] = bits >> (5 * i + j) & 1
            differed[i, j] += differ[i, j]
        counts = counts.after_round(arm, differ, 1.0, 0.5, 2.0)
        warmed = warmed.after_comparison(arm, differ)
        assert np.array_equal(*before)  # what a record keeps is never changed
    for each in (counts, warmed, Counts.from_state(5, counts.state())):
        assert np.array_equal(each.differed, differed)
        assert np.array_equal(each.compared, compared)
        assert np.array_equal(pairs_compared(each.seen), compared)
    assert (counts.rounds, counts.spent, counts.saved, counts.alone) == (
        len(rounds),
        len(rounds),
        0.5 * len(rounds),
        2.0 * len(rounds),
    )
    assert (warmed.rounds, warmed.spent) == (0, 0)


def test_every_state_has_digests_only_whatever_was_taken_before(monkeypatch):
    monkeypatch.setattr(ledgers, "REMEMBERED", 5)
    cascade = Cascade([abs] * 2, stage_costs=[0.1] * 2, policy="Fixed", arm=1, seed=0)
    for rounds in (1, 0, 3, 2, 9, 4):
        for t in range(rounds):
            cascade.feedback(cascade.decide().id, [t, 1.0 if t % 3 == 1 else 1])
        answered = cascade.state()["core"]["ledger"]["answered"]
        assert len(answered) == min(cascade.rounds, 5)
        assert [digest for _, digest in answered] == list(inside.answered(cascade).values())
        assert all(isinstance(digest, str) and len(digest) == 16 for _, digest in answered)


class Untold:
    """Equal to every other one, and its repr is an address."""

    def __eq__(self, other):
        return isinstance(other, Untold)

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("taken", [False, True], ids=["in memory", "after a state was taken"])
def test_an_answer_that_cannot_be_told_from_another_is_never_a_silent_duplicate(taken):
    cascade = Cascade([abs] * 2, stage_costs=[0.1] * 2, policy="Fixed", arm=1, seed=0)
    ids = [cascade.decide().id for _ in range(3)]
    said = [[Untold(), 1], [{"box": [Untold()]}, 1], [0, 1]]
    for id, outputs in zip(ids, said):
        assert cascade.feedback(id, outputs) == "accepted"
    if taken:
        cascade = Cascade.from_state(cascade.state(), [abs] * 2)
    for id, outputs in zip(ids[:2], said):
        with pytest.raises(FeedbackConflict, match="a repr with an address does not tell"):
            cascade.feedback(id, outputs)
    with pytest.raises(FeedbackConflict):
        cascade.feedback(ids[2], [Untold(), 1])
    assert cascade.feedback(ids[2], [0, 1]) == "duplicate"
    assert labelled_content(fingerprint([Untold()]), "yes").startswith("?")
    assert labelled_content(fingerprint([1]), Untold()).startswith("?")
