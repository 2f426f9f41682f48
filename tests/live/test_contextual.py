"""The live cascade with context: decisions, feedback, misuse, threads, batches."""

import asyncio
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rig.refusals import refusals
from tests.rig.threads import in_threads

from weakfeedback.contextual import FixedArm, PairFeatures, QuadraticFeatures, Supervised, UssPd
from weakfeedback.live import ContextualCascade, FeedbackConflict, PendingDecision, UnknownDecision, storage
from weakfeedback.settings.catalog import make_policy

COSTS = [1, 4, 25]
CONTEXTS = np.random.default_rng(1).uniform(-1, 1, size=(400, 2))
# Stage 0 differs from the others where the first number is large; stages 1 and 2 hardly ever differ.
DIFFERS = np.random.default_rng(2).random((400, 2)) < np.stack(
    [1 / (1 + np.exp(-6 * (CONTEXTS[:, 0] - 0.3))), np.full(400, 0.03)], axis=1
)
LABELS = np.stack([DIFFERS[:, 0], np.zeros(400, bool), DIFFERS[:, 1]], axis=1).astype(int)
BOUND = QuadraticFeatures(np.sqrt(2))
CASES = [
    ("USS-PD", {"forced": 40}),
    ("USS-PD", {}),
    ("USS-PD-lambdaI", {"bonus": "beta", "norm_bound": 0.2}),
    ("Fixed", {"arm": 1}),
    ("Random", {}),
]
IDS = ["USS-PD-forced", "USS-PD", "USS-PD-lambdaI", "Fixed", "Random"]


def row_of(x):
    return int(np.flatnonzero((x == CONTEXTS).all(axis=1))[0])


STAGES = [lambda x, k=k: int(LABELS[row_of(x), k]) for k in range(3)]


def make(policy="USS-PD-lambdaI", stages=STAGES, features=BOUND, seed=0, **options):
    return ContextualCascade(
        stages, COSTS, error_cost=100, policy=policy, features=features, seed=seed, **options
    )


def snapshot(cascade):
    return json.dumps(cascade.state(), sort_keys=True)


def bare(name, options):
    return make_policy("contextual", name, np.cumsum(COSTS) / 100, 6, **options)


# -- rounds


@pytest.mark.parametrize("keep", [None, 5000])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_decides_and_learns_as_the_bare_policy(name, options, keep):
    cascade = make(name, seed=5, keep=keep, **options)
    policy, rng = bare(name, options), np.random.Generator(np.random.PCG64(5))
    arms = []
    for x, labels, phi in zip(CONTEXTS[:250], LABELS, BOUND(CONTEXTS)):
        arm = policy.select(phi, rng)
        answer = cascade(x)
        assert (answer.arm, answer.label) == (arm, labels[arm])
        assert answer.cost == np.cumsum(COSTS)[arm]
        policy.update(phi, arm, labels[: arm + 1], rng)
        arms.append(arm)
    if keep is None:
        assert storage.encode_fields(cascade.policy) == storage.encode_fields(policy)
    else:  # nothing was let go yet
        for field in vars(policy).keys() - {"keep", "old_H", "old_b", "old_weight"}:
            assert np.array_equal(getattr(cascade.policy, field), getattr(policy, field)), field
    if options.get("forced"):
        assert set(arms[:40]) == {2}
        assert len(set(arms[40:])) > 1


@pytest.mark.parametrize("delay", [1, 5, 20])
@pytest.mark.parametrize(("name", "options"), CASES, ids=IDS)
def test_late_feedback_in_any_order_is_learned_for_its_own_context(name, options, delay):
    cascade = make(name, seed=5, **options)
    policy, rng = bare(name, options), np.random.Generator(np.random.PCG64(5))
    order, waiting = np.random.default_rng(delay), []
    for x, labels, phi in zip(CONTEXTS[:120], LABELS, BOUND(CONTEXTS)):
        arm = policy.select(phi, rng)
        decision = cascade.decide(x)
        assert decision.arm == arm
        waiting.append((decision.id, phi, arm, labels[: arm + 1]))
        if len(waiting) > delay:
            id, then, played, outputs = waiting.pop(order.integers(0, len(waiting)))
            assert cascade.feedback(id, outputs) == "accepted"
            policy.update(then, played, outputs, rng)
    assert cascade.pending == [entry[0] for entry in waiting]


def test_learns_where_it_pays_to_go_on():
    cascade = make("USS-PD-lambdaI", ridge=0.01)
    arms = np.array([cascade(x).arm for x in np.concatenate([CONTEXTS, CONTEXTS])])[400:]
    easy, hard = CONTEXTS[:, 0] < -0.3, CONTEXTS[:, 0] > 0.6
    # Going on from stage 0 costs .04 and there differs less than .03 or more than .85 of the time.
    assert (arms[hard] >= 1).mean() > 0.95
    assert (arms[easy] == 0).mean() > 0.5
    assert (arms == 2).mean() < 0.1


def test_the_context_may_be_given_apart():
    called = []
    stages = [lambda x: called.append(x) or "a", lambda x: called.append(x) or "b"]
    cascade = ContextualCascade(stages, [1, 2], error_cost=10, policy="Fixed", arm=1)
    answer = cascade("a text", context=[0.5, -0.5])
    assert (answer.label, called) == ("b", ["a text", "a text"])
    assert cascade.predict(["x", "y"], contexts=[[0, 1], [1, 0]]).tolist() == ["b", "b"]
    assert cascade.report().inputs == 2
    with pytest.raises(ValueError, match="x must be a sequence of finite numbers"):
        cascade("a text")
    with pytest.raises(ValueError, match="contexts must have 2 rows, one per sample, got 3"):
        cascade.predict(["x", "y"], contexts=[[0, 1], [1, 0], [0, 0]])
    assert cascade.rounds == 3


@pytest.mark.parametrize("batch_size", [1, 7, 256])
def test_batches_decide_before_they_see(batch_size):
    cascade, twin = make(), make()
    answers = cascade.answers(CONTEXTS[:50], batch_size=batch_size)
    for start in range(0, 50, batch_size):
        rows = range(start, min(start + batch_size, 50))
        decisions = [twin.decide(CONTEXTS[row]) for row in rows]
        for row, decision in zip(rows, decisions):
            assert answers[row].arm == decision.arm
            twin.feedback(decision.id, LABELS[row, : decision.arm + 1])
    assert snapshot(cascade) == snapshot(twin)
    assert cascade.predict(CONTEXTS[:0]).size == 0


def test_a_bad_context_in_a_batch_is_found_before_the_first_decision():
    cascade = make()
    cascade(CONTEXTS[0])
    before = snapshot(cascade)
    X = CONTEXTS[:300].copy()
    X[299, 1] = np.nan
    with pytest.raises(ValueError, match="X must be finite"):
        cascade.predict(X, batch_size=10)
    assert snapshot(cascade) == before


def test_asynchronous_stages():
    async def slow(x):
        await asyncio.sleep(0)
        return "a"

    cascade = make("Fixed", [slow, slow, slow], arm=2)
    assert asyncio.run(cascade.acall([0.1, 0.2])).outputs == ("a", "a", "a")
    for wrong in (lambda: cascade([0.1, 0.2]), lambda: cascade.predict([[0.1, 0.2]])):
        with pytest.raises(ValueError, match="asynchronous"):
            wrong()
    assert (cascade.rounds, cascade.pending) == (1, [])


def test_a_stage_that_raises_cancels_the_decision():
    def broken(x):
        raise RuntimeError("out of order")

    cascade = make("Fixed", [STAGES[0], broken, STAGES[2]], arm=2)
    with pytest.raises(RuntimeError, match="out of order"):
        cascade(CONTEXTS[0])
    with pytest.raises(RuntimeError, match="out of order"):
        cascade.predict(CONTEXTS[:3])
    assert (cascade.rounds, cascade.pending) == (0, [])
    assert cascade.report().wasted == 1 + 3


def test_a_warm_start_teaches_every_row():
    cascade, policy = make(), bare("USS-PD-lambdaI", {})
    assert cascade.warm_start(CONTEXTS[:30], LABELS[:30]) == 30
    for phi, labels in zip(BOUND(CONTEXTS[:30]), LABELS):
        policy.update(phi, 2, labels, None)
    assert np.allclose(cascade.policy.theta, policy.theta, rtol=1e-9, atol=1e-12)
    assert cascade.rounds == 0
    assert cascade.report().comparisons[0, 2] == 30
    before = snapshot(cascade)
    for X, outputs in ((CONTEXTS[:3], LABELS[:2]), (CONTEXTS[:2], LABELS[:2, :2]), ([[0.1]], LABELS[:1])):
        with pytest.raises(ValueError):
            cascade.warm_start(X, outputs)
    assert snapshot(cascade) == before


# -- features


def test_the_default_features_are_for_numbers_from_minus_one_to_one():
    cascade, twin = make(features=None), make(features=QuadraticFeatures(np.sqrt(2)))
    for x in CONTEXTS[:60]:
        assert cascade(x) == twin(x)
    with pytest.raises(ValueError, match=r"norm at most the bound 1\.41"):
        cascade([1.5, 0.0])


def test_maps_of_ones_own_and_one_map_per_pair():
    cascade = make(features=lambda X: np.hstack([np.ones((len(X), 1)), X]) / 2)
    assert cascade.policy is None
    cascade(CONTEXTS[0])
    assert cascade.policy.dimension == 3
    maps = PairFeatures({(0, 1): BOUND, (0, 2): BOUND, (1, 2): BOUND})
    cascade, twin = make(features=maps), make()
    for x in CONTEXTS[:60]:
        assert cascade(x).arm == twin(x).arm
    assert (cascade.policy.dimension, cascade.policy.d) == (18, 6)
    assert cascade.explain(60) == twin.explain(60)


def test_a_map_that_changes_its_mind_is_refused():
    sizes = iter([2, 2, 3])
    cascade = make(features=lambda X: np.ones((len(X), next(sizes))) / 2)
    cascade(CONTEXTS[0])
    cascade(CONTEXTS[1])
    before = snapshot(cascade)
    with pytest.raises(ValueError, match="features must give 2 numbers"):
        cascade(CONTEXTS[2])
    assert snapshot(cascade) == before


# -- misuse


@pytest.mark.parametrize(
    "x",
    [
        [],
        [0.1, float("nan")],
        [0.1, float("inf")],
        [[0.1, 0.2]],
        0.1,
        None,
        "ab",
        [0.1, "b"],
        [0.1, None],
        [0.1, 1j],
        [9.0, 9.0],
    ],
)
@pytest.mark.parametrize("begun", [False, True])
def test_a_context_that_is_none_changes_nothing(x, begun):
    cascade = make("USS-PD", forced=3)
    for row in range(6 * begun):
        cascade(CONTEXTS[row])
    before = snapshot(cascade)
    for call in (cascade, cascade.decide, lambda x: asyncio.run(cascade.acall(x))):
        with pytest.raises(ValueError):
            call(x)
    assert snapshot(cascade) == before
    assert cascade.pending == []
    assert cascade(CONTEXTS[7]).id == 6 * begun + 1
    before = snapshot(cascade)
    for other_length in ([0.1], [0.1, 0.2, 0.3]):  # than that of the first context
        with pytest.raises(ValueError, match="x must have 2 numbers per context"):
            cascade(other_length)
    assert snapshot(cascade) == before


@settings(max_examples=60, deadline=None)
@given(
    id=st.one_of(st.integers(-3, 6), st.none(), st.floats()),
    outputs=st.one_of(
        st.none(), st.lists(st.one_of(st.none(), st.floats(), st.text(max_size=2)), max_size=4)
    ),
)
def test_feedback_is_accepted_or_refused_and_refused_changes_nothing(id, outputs):
    cascade = make("Fixed", arm=1)
    for row in range(3):
        cascade.decide(CONTEXTS[row])
    cascade.feedback(1, ["a", "b"])
    before = snapshot(cascade)
    try:
        outcome = cascade.feedback(id, outputs)
    except (ValueError, UnknownDecision):
        outcome = "refused"
    assert (outcome == "accepted") == (snapshot(cascade) != before)


def test_duplicates_conflicts_and_cancellations():
    cascade = make("Fixed", arm=1)
    first, second = (cascade.decide(x).id for x in CONTEXTS[:2])
    assert cascade.feedback(first, [1, 2]) == "accepted"
    assert cascade.feedback(first, (1, 2)) == "duplicate"
    with pytest.raises(FeedbackConflict):
        cascade.feedback(first, [1, 1])
    cascade.cancel(second)
    with pytest.raises(UnknownDecision):
        cascade.feedback(second, [1, 2])


class OneAtATime:
    delay_safe = False

    def __init__(self):
        self.seen = 0

    def select(self, phi, rng):
        return 1

    def update_pairs(self, phi, arm, differ, rng):
        self.seen += 1


def test_a_policy_that_is_not_delay_safe_waits():
    cascade = make(OneAtATime())
    id = cascade.decide(CONTEXTS[0]).id
    with pytest.raises(PendingDecision):
        cascade.decide(CONTEXTS[1])
    cascade.feedback(id, ["a", "b"])
    assert len(cascade.predict(CONTEXTS[:3])) == 3
    assert cascade.policy.seen == 4


test_wrong_arguments_are_named = refusals(
    lambda change: make(**change),
    ({"policy": "Supervised"}, "policy must be one that needs no labels"),
    ({"policy": Supervised([0.01, 0.05, 0.3], 6)}, "policy must be a name or a policy object"),
    ({"policy": "USS-P"}, "did you mean USS-PD"),
    ({"policy": "USS-PD", "dimension": 6}, "dimension is not an option"),
    ({"policy": "USS-PD", "delta": 2}, "delta must be"),
    ({"policy": "USS-PD", "alpha": 2}, "alpha is not an option"),
    ({"policy": UssPd([0.01, 0.05], 6)}, "policy must be made for the costs"),
    ({"features": 3}, "features must be a map"),
    ({"features": QuadraticFeatures}, "features must be a map"),
    ({"keep": 5}, "keep must be an integer >= 100"),
    ({"keep": "all"}, "keep must be"),
    ({"stages": STAGES[:2]}, "stage_costs must be 2"),
    ({"seed": -2}, "seed must be"),
)


def test_features_must_fit_a_policy_object():
    policy = UssPd([0.01, 0.05, 0.3], 5)
    cascade = make(policy)
    assert cascade.policy is policy
    with pytest.raises(ValueError, match="features must give 5 numbers, as the policy's dimension, got 6"):
        cascade(CONTEXTS[0])
    assert make(FixedArm([0.01, 0.05, 0.3], 1))(CONTEXTS[0]).arm == 1


def test_eight_threads_lose_nothing():
    cascade = make("USS-PD-lambdaI", [lambda x: 0, lambda x: 0, lambda x: 1])

    def work(thread):
        for step in range(24):
            x = CONTEXTS[(24 * thread + step) % 400]
            if step % 3 == 0:
                cascade(x)
            elif step % 3 == 1:
                decision = cascade.decide(x)
                assert cascade.feedback(decision.id, [0] * (decision.arm + 1)) == "accepted"
            else:
                cascade.cancel(cascade.decide(x).id)

    in_threads(8, work)
    assert (cascade.rounds, cascade.pending) == (128, [])
    assert cascade.policy.t == 128
    assert cascade.policy.n[cascade.policy.pair[0, 1]] == cascade.report().comparisons[0, 1]
