"""Plain labels take a short cut through a cascade; it must do what the long way does, wherever one looks."""

import hashlib
import json
import random
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from weakfeedback.live.tally import Tally, pairs_compared

from weakfeedback import Cascade, ContextualCascade
from weakfeedback.cascade import UssTs
from weakfeedback.live import Costed, FeedbackConflict
from weakfeedback.live import ledger as ledgers
from weakfeedback.live.ledger import fingerprint, plain_content
from weakfeedback.live.report import Record, explanation

# what a stage may say: plain labels short and long, equal ones of other types, costs of their own, no labels at all
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
OTHER = [
    0.0,
    1.0,
    0.5,
    None,
    np.int64(1),
    np.bool_(True),
    Costed(1, 0.3),
    Costed("a", 7),
    (1, 2),
    float("nan"),
]


class Slow(Cascade):
    """The long way: the policy's own methods, lessons, digests, and a matrix of comparisons counted pair by pair."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._plain = False
        self.pairs = np.zeros((len(self._stages),) * 2, dtype=np.int64)
        self.known = {}

    def _select(self, context):
        return self._policy.select(self._rng)

    def _teach(self, decided, arm, differ):
        self._policy.update_pairs(arm, differ, self._rng)
        for j in range(arm + 1):
            self.pairs[:j, j] += 1

    def _decide(self, context):
        decision = super()._decide(context)
        self.known[decision.id] = Record(decision.arm, self._tally.differed.copy(), self.pairs.copy())
        return decision

    def explain(self, id):
        return explanation(id, self.known[id], self._stage_costs, self._error_cost, self._label)


def pair_of(arms, policy="USS-TS", price=0.1, **options):
    made = [
        kind([lambda x: x] * arms, stage_costs=[price] * arms, policy=policy, seed=3, **options)
        for kind in (Cascade, Slow)
    ]
    assert type(made[0].policy) is type(made[1].policy)
    return made


def told(call, *arguments):
    """What a call returns, or raises."""
    try:
        return call(*arguments)
    except (ValueError, LookupError, RuntimeError) as error:
        return type(error), str(error)


def moving(cascade):
    """What can be looked at without a state being taken."""
    fields = {name: np.copy(value).tolist() for name, value in vars(cascade.policy).items()}
    return fields, cascade._rng.bit_generator.state, cascade.pending, cascade.rounds, str(cascade.report())


def same(quick, slow):
    assert moving(quick) == moving(slow)
    assert np.array_equal(quick._tally.compared, slow.pairs)


def same_files(quick, slow):
    bodies = [cascade.state() for cascade in (quick, slow)]
    assert bodies[0] == bodies[1]
    assert json.dumps(bodies[0]) == json.dumps(bodies[1])  # 1 and 1.0 are not the same text
    for id in quick._records:
        assert quick.explain(id) == slow.explain(id)


def script(rng, size=50):
    """Moves at random: what is done, to which id, with which labels, how many too many, wrapped in what."""
    for _ in range(size):
        labels = [rng.choice(PLAIN) for _ in range(10)]
        if rng.random() < 0.3:
            labels[rng.randrange(3)] = rng.choice(OTHER)
        yield (
            rng.choice(["decide"] * 5 + ["feedback"] * 5 + ["again", "again", "other", "cancel", "save"]),
            rng.randrange(size),
            labels,
            rng.choice([0] * 8 + [1, -1]),
            rng.choice([list] * 5 + [tuple, np.array, iter, str]),
        )


def as_id(rng, number):
    return rng.choice([int] * 6 + [np.int64, np.int8, bool, str, float])(number)


def play(quick, slow, rng):
    given, accepted = {}, 0
    for move, number, labels, excess, wrap in script(rng):
        pending = quick.pending
        if move in ("feedback", "cancel") and pending:
            number = pending[number % len(pending)]
        id = as_id(rng, number)
        if move == "decide":
            assert told(quick.decide) == told(slow.decide)
        elif move == "cancel":
            assert told(quick.cancel, id) == told(slow.cancel, id)
        elif move == "save":
            same_files(quick, slow)
        else:
            arm = quick._ledger._pending.get(number, 1)
            outputs = labels[: max(0, arm + 1 + excess)]
            if move == "again" and given:
                id, outputs = rng.choice(list(given.items()))
            outcomes = [told(each.feedback, id, wrapped(wrap, outputs)) for each in (quick, slow)]
            assert outcomes[0] == outcomes[1]
            if outcomes[0] == "accepted":
                given[number] = outputs
                accepted += 1
        same(quick, slow)
    same_files(quick, slow)
    return accepted


def wrapped(wrap, outputs):
    if wrap is np.array:
        array = np.empty(len(outputs), dtype=object)
        array[:] = outputs
        return array
    return wrap(outputs)


@pytest.mark.parametrize(
    ("arms", "policy"),
    [(1, "USS-TS"), (2, "USS-TS"), (3, "USS-TS"), (4, "USS-UCB"), (3, "USS-TS-joint"), (9, "USS-TS")],
)
def test_any_course_of_things(arms, policy):
    accepted = [play(*pair_of(arms, policy), random.Random(seed)) for seed in range(20)]
    assert sum(accepted) > 30


@pytest.mark.parametrize("arms", [2, 3, 6, 7, 12])
def test_many_rounds_late_and_in_another_order(arms):
    quick, slow = pair_of(arms, price=0.03)
    rng = np.random.default_rng(arms)
    stopped = set()
    for t in range(400):
        assert quick.decide() == slow.decide()
        if t >= 5:  # some wait for a while
            id = int(rng.choice(quick.pending))
            arm = quick._ledger.decided(id)
            stopped.add(arm)
            outputs = (rng.random(arm + 1) < np.linspace(0.05, 0.01, arms)[: arm + 1]).astype(int).tolist()
            assert quick.feedback(id, outputs) == slow.feedback(id, outputs) == "accepted"
            assert quick.feedback(id, outputs) == slow.feedback(id, outputs) == "duplicate"
        if t % 50 == 0:
            same(quick, slow)
    same(quick, slow)
    same_files(quick, slow)
    assert len(stopped) > 1


def test_the_short_cut_is_taken(monkeypatch):
    quick, slow = pair_of(3)
    monkeypatch.setattr(UssTs, "update_pairs", None)  # what is not called cannot fail
    quick.feedback(quick.decide().id, [0, 1, 0])
    with pytest.raises(TypeError):
        slow.feedback(slow.decide().id, [0, 1, 0])


@pytest.mark.parametrize(
    "options",
    [{"combine": max}, {"compare": lambda a, b: a == b}, {"metric": lambda a, b: float(a != b)}],
    ids=["combine", "compare", "metric"],
)
def test_code_of_the_user_is_not_run_under_the_lock(options):
    free = []
    name, function = options.popitem()

    def try_lock():
        free.append(cascade._ledger.lock.acquire(blocking=False))
        if free[-1]:
            cascade._ledger.lock.release()

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
    before = cascade._state(), cascade._ledger.state(int)
    with pytest.raises(ArithmeticError):
        cascade.feedback(id, [0, 1])
    assert (cascade._state(), cascade._ledger.state(int)) == before
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
    assert ledgers._same(*contents) == (fingerprint(one) == fingerprint(other))
    assert ledgers._same(contents[0], fingerprint(other)) == (fingerprint(one) == fingerprint(other))


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


def test_a_cascade_with_contexts_takes_the_same_short_cut():
    def make():
        return ContextualCascade([abs] * 3, stage_costs=[0.1] * 3, policy="USS-PD", forced=5, seed=0)

    quick, slow, rng = make(), make(), np.random.default_rng(0)
    slow._plain = False
    for _ in range(30):
        x = rng.uniform(-1, 1, 2)
        arm = quick.decide(x).arm
        id, outputs = slow.decide(x).id, rng.integers(0, 2, arm + 1).tolist()
        assert quick.feedback(id, outputs) == slow.feedback(id, outputs) == "accepted"
        assert quick.feedback(id, outputs) == slow.feedback(id, outputs) == "duplicate"
    assert quick._body() == slow._body()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**25 - 1)), max_size=30))
@settings(deadline=None)
def test_comparisons_are_those_counted_pair_by_pair(rounds):
    tally, other = Tally(5), Tally(5)
    differed, compared = np.zeros((5, 5), dtype=int), np.zeros((5, 5), dtype=int)
    for arm, bits in rounds:
        pairs = [(i, j) for j in range(arm + 1) for i in range(j)]
        differing = [(i, j) for i, j in pairs if bits >> (5 * i + j) & 1]
        differ = np.zeros((arm + 1, arm + 1), dtype=bool)
        before = tally.differed, tally.seen, tally.differed.copy(), tally.seen.copy()
        for i, j in pairs:
            compared[i, j] += 1
        for i, j in differing:
            differed[i, j] += 1
            differ[i, j] = True
        tally.compare_pairs(arm, differing)
        other.compare(arm, differ)
        assert np.array_equal(before[0], before[2])  # what a record keeps is never changed
        assert before[1] == before[3]
    for each in (tally, other, Tally.from_state(5, tally.state())):
        assert np.array_equal(each.differed, differed)
        assert np.array_equal(each.compared, compared)
        assert np.array_equal(pairs_compared(each.seen), compared)


def test_every_state_has_digests_only_whatever_was_taken_before(monkeypatch):
    monkeypatch.setattr(ledgers, "REMEMBERED", 5)
    cascade = Cascade([abs] * 2, stage_costs=[0.1] * 2, policy="Fixed", arm=1, seed=0)
    for rounds in (1, 0, 3, 2, 9, 4):
        for t in range(rounds):
            cascade.feedback(cascade.decide().id, [t, 1.0 if t % 3 == 1 else 1])
        answered = cascade._core()["ledger"]["answered"]
        assert len(answered) == min(cascade.rounds, 5)
        assert [digest for _, digest in answered] == list(cascade._ledger._answered.values())
        assert all(isinstance(digest, str) and len(digest) == 16 for _, digest in answered)
