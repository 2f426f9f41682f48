"""Gestures beside decide and feedback: comparisons made elsewhere, cancelled costs, new prices, and what is settled."""

import json
import re

import numpy as np
import pytest

from weakfeedback import (
    Allocator,
    Cascade,
    ContextualCascade,
    FeedbackConflict,
    Player,
    Router,
    UnknownDecision,
)
from weakfeedback.contextual import QuadraticFeatures
from weakfeedback.live import Costed, majority

COSTS = {"stage_costs": [1.0, 4.0, 9.0], "error_cost": 30.0}
RNG = np.random.default_rng(11)
ROWS = RNG.integers(0, 2, size=(200, 3)).tolist()


def text(thing):
    """Everything but the digests of the answers, which tell how they were given."""
    state = thing.state()
    state["core"]["ledger"]["answered"] = [id for id, _ in state["core"]["ledger"]["answered"]]
    return json.dumps(state, sort_keys=True)


def pairs(outputs):
    return [(i, j) for j in range(len(outputs)) for i in range(j) if outputs[i] != outputs[j]]


def distance(a, b):
    return abs(a - b)


# -- comparisons made elsewhere


@pytest.mark.parametrize("policy", ["USS-TS", "USS-UCB", "USS-WD"])
def test_pairs_teach_what_outputs_teach(policy):
    by_outputs, by_pairs = (Cascade(3, **COSTS, policy=policy, seed=1) for _ in range(2))
    for row in ROWS:
        decision = by_outputs.decide()
        assert by_pairs.decide() == decision
        outputs = row[: decision.arm + 1]
        assert by_outputs.feedback(decision.id, outputs) == "accepted"
        assert by_pairs.feedback_pairs(decision.id, pairs(outputs)) == "accepted"
        assert by_pairs.feedback_pairs(decision.id, pairs(outputs)) == "duplicate"
    assert text(by_outputs) == text(by_pairs)
    assert str(by_outputs.report()) == str(by_pairs.report())


def test_pairs_with_costs_teach_what_costed_outputs_teach():
    by_outputs, by_pairs = (Cascade(3, **COSTS, seed=1) for _ in range(2))
    for n, row in enumerate(ROWS):
        decision = by_outputs.decide()
        by_pairs.decide()
        outputs, costs = row[: decision.arm + 1], [0.1 * n, 0.5, 7.0][: decision.arm + 1]
        by_outputs.feedback(decision.id, [Costed(output, cost) for output, cost in zip(outputs, costs)])
        by_pairs.feedback_pairs(decision.id, pairs(outputs), costs=costs)
    assert text(by_outputs) == text(by_pairs)
    assert by_pairs.report().saved_alone == by_outputs.report().saved_alone


def test_distances_teach_what_a_metric_teaches():
    by_outputs, by_pairs = (Cascade(3, **COSTS, metric=distance, seed=1) for _ in range(2))
    numbers = RNG.random((200, 3))
    for row in numbers.tolist():
        decision = by_outputs.decide()
        assert by_pairs.decide() == decision
        outputs = row[: decision.arm + 1]
        far = [distance(a, b) for i, a in enumerate(outputs) for b in outputs[i + 1 :]]
        by_outputs.feedback(decision.id, outputs)
        by_pairs.feedback_pairs(decision.id, [], far=far)
    assert text(by_outputs) == text(by_pairs)  # the same coins
    assert by_pairs.report().disagreement[0, 1] > 0


def test_pairs_with_a_label_teach_what_a_label_teaches():
    by_outputs, by_pairs = (Cascade(3, **COSTS, label_price=2.0, seed=1) for _ in range(2))
    bought = 0
    for n, row in enumerate(ROWS):
        decision = by_outputs.decide()
        by_pairs.decide()
        outputs, truth = row[: decision.arm + 1], n % 2
        if by_outputs.wants_label(decision.id, outputs):
            label, right = truth, [output == truth for output in outputs]
            if n % 3 == 0:
                label, right = Costed(truth, 0.5), Costed(right, 0.5)
            by_outputs.feedback(decision.id, outputs, label)
            by_pairs.feedback_pairs(decision.id, pairs(outputs), label=right)
            bought += 1
        else:
            by_outputs.feedback(decision.id, outputs)
            with pytest.raises(ValueError, match="only when wants_label says so"):
                by_pairs.feedback_pairs(decision.id, pairs(outputs), label=[True] * len(outputs))
            by_pairs.feedback_pairs(decision.id, pairs(outputs))
    assert bought > 5
    assert by_pairs.report().labels == bought
    assert text(by_outputs) == text(by_pairs)


def test_pairs_teach_a_cascade_with_contexts():
    by_outputs, by_pairs = (
        ContextualCascade(3, **COSTS, forced=10, features=QuadraticFeatures(2.0), seed=1) for _ in range(2)
    )
    for n, row in enumerate(ROWS[:40]):
        x = [np.sin(n), np.cos(n)]
        decision = by_outputs.decide(x)
        assert by_pairs.decide(x) == decision
        by_outputs.feedback(decision.id, row[: decision.arm + 1])
        by_pairs.feedback_pairs(decision.id, pairs(row[: decision.arm + 1]))
    assert text(by_outputs) == text(by_pairs)


def test_a_digest_tells_a_repeated_answer_from_a_contradiction():
    cascade = Cascade(2, [1, 2], policy="Fixed", arm=1, seed=0)
    id = cascade.decide().id
    assert cascade.feedback_pairs(id, [(0, 1)], digest="one") == "accepted"
    assert cascade.feedback_pairs(id, [], digest="one") == "duplicate"  # the digest is what counts
    with pytest.raises(FeedbackConflict):
        cascade.feedback_pairs(id, [(0, 1)], digest="other")
    with pytest.raises(FeedbackConflict):
        cascade.feedback_pairs(id, [(0, 1)])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"differ": [(1, 0)]}, "differ must be pairs"),
        ({"differ": [(0, 2)]}, "differ must be pairs"),
        ({"differ": [(0, 1, 1)]}, "differ must be pairs"),
        ({"differ": "01"}, "differ must be a sequence"),
        ({"differ": [], "far": [0.1]}, "far must be left out"),
        ({"differ": [], "costs": [1]}, "costs must be 2"),
        ({"differ": [], "costs": [1, -1]}, "costs"),
        ({"differ": [], "label": [True, True]}, "label goes with a policy that buys labels"),
        ({"differ": [], "label": [1, 1]}, "label must be 2 bools"),
        ({"differ": [], "digest": 3}, "digest must be a string"),
    ],
)
def test_wrong_pairs_are_named_and_change_nothing(given, message):
    cascade = Cascade(3, **COSTS, policy="Fixed", arm=1, seed=0)
    id = cascade.decide().id
    before = cascade.state()
    with pytest.raises(ValueError, match=message):
        cascade.feedback_pairs(id, **given)
    assert cascade.state() == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"differ": [(0, 1)], "far": [0.5]}, "differ empty"),
        ({"differ": []}, "far must be given"),
        ({"differ": [], "far": [0.5, 0.5]}, "far must be 1"),
        ({"differ": [], "far": [1.5]}, "from 0 to 1"),
    ],
)
def test_wrong_distances_are_named_and_change_nothing(given, message):
    cascade = Cascade(3, **COSTS, metric=distance, policy="Fixed", arm=1, seed=0)
    id = cascade.decide().id
    before = cascade.state()
    with pytest.raises(ValueError, match=message):
        cascade.feedback_pairs(id, **given)
    assert cascade.state() == before


def test_three_labels_are_too_many_for_the_joint_policy():
    cascade = Cascade(3, [0, 0, 0], 1, policy="USS-WD", seed=0)
    while (decision := cascade.decide()).arm < 2:
        cascade.cancel(decision.id)
    with pytest.raises(ValueError, match="at most two values"):
        cascade.feedback_pairs(decision.id, [(0, 1), (0, 2), (1, 2)])


# -- stages elsewhere, and what was spent on decisions that were taken back


def test_stages_that_run_elsewhere_cannot_be_called():
    cascade = Cascade(3, **COSTS, seed=0)
    contextual = ContextualCascade(3, **COSTS, seed=0)
    for call in (
        lambda: cascade(1),
        lambda: cascade.predict([1, 2]),
        lambda: cascade.acall(1).send(None),
        lambda: cascade.audit([1], [1], arm=1),
        lambda: contextual([0.1]),
        lambda: contextual.predict([[0.1]]),
        lambda: contextual.acall([0.1]).send(None),
    ):
        with pytest.raises(ValueError, match="the stages run elsewhere"):
            call()
    assert cascade.pending == contextual.pending == []
    assert (cascade.report().wasted, contextual.report().wasted) == (0, 0)


@pytest.mark.parametrize("stages", [0, -1, 10**6, True, 2.0])
def test_their_number_must_be_one(stages):
    with pytest.raises(ValueError, match="stages must be"):
        Cascade(stages, [1])


def test_what_was_spent_on_a_cancelled_decision_is_wasted():
    cascade = Cascade(3, **COSTS, seed=0)
    ids = [cascade.decide().id for _ in range(3)]
    cascade.cancel(ids[0], 2.5)
    cascade.cancel(ids[1], cost=0.25)
    cascade.cancel(ids[2])
    assert (cascade.report().wasted, cascade.report().spent, cascade.rounds) == (2.75, 0, 0)
    for cost in (-1, float("nan"), "1"):
        id = cascade.decide().id
        with pytest.raises(ValueError, match="cost"):
            cascade.cancel(id, cost)
        cascade.cancel(id)
    with pytest.raises(UnknownDecision):
        cascade.cancel(ids[0], 1.0)
    assert cascade.report().wasted == 2.75
    assert Cascade.from_state(cascade.state()).report().wasted == 2.75


def test_a_state_without_remembered_answers_is_small():
    cascade = Cascade(3, **COSTS, remember=0, seed=0)
    for row in ROWS * 5:
        decision = cascade.decide()
        assert cascade.feedback(decision.id, row[: decision.arm + 1]) == "accepted"
        assert cascade.feedback(decision.id, [9]) == "duplicate"  # unchecked
    assert cascade.rounds == 1000
    assert len(json.dumps(cascade.state())) < 3000
    again = Cascade.from_state(cascade.state())
    assert again.state() == cascade.state()
    assert [again.decide() for _ in range(9)] == [cascade.decide() for _ in range(9)]


@pytest.mark.parametrize("remember", [-1, 1.5, "10", True])
def test_a_wrong_number_of_answers_to_remember_is_named(remember):
    for make in (
        lambda: Cascade(2, [1, 2], 9, remember=remember),
        lambda: Allocator(2, 1.0, remember=remember),
    ):
        with pytest.raises(ValueError, match="remember must be an integer >= 0"):
            make()


# -- new prices

RECOSTABLE = ["USS-TS", "USS-UCB", "USS-TS-drift", "USS-WD"]
NEW = [2.0, 2.5, 15.0], 25.0


def with_new_prices(state, costs, error_cost):
    """A state with the same statistics under other prices."""
    changed = json.loads(json.dumps(state))
    changed["stage_costs"], changed["error_cost"] = costs, error_cost
    changed["core"]["fields"]["C"]["data"] = (np.cumsum(costs) / error_cost).tolist()
    return changed


@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
@pytest.mark.parametrize("policy", RECOSTABLE)
def test_new_prices_leave_what_was_learned(policy, compiled):
    cascade = Cascade(3, **COSTS, policy=policy, seed=1, compiled=compiled)
    for row in ROWS:
        decision = cascade.decide()
        cascade.feedback(decision.id, row[: decision.arm + 1])
    before = cascade.state()
    cascade.recost(*NEW)
    assert cascade.state() == with_new_prices(before, *NEW)  # nothing else has changed
    other = Cascade.from_state(with_new_prices(before, *NEW))
    for row in ROWS[:50]:
        decision = cascade.decide()
        assert decision == other.decide()
        assert cascade.feedback(decision.id, row[: decision.arm + 1]) == other.feedback(
            decision.id, row[: decision.arm + 1]
        )
    assert cascade.state() == other.state()
    assert str(cascade.report()) == str(other.report())


def test_a_decision_is_explained_with_the_prices_of_its_time():
    plain = Cascade(3, **COSTS, seed=1)
    context = ContextualCascade(3, **COSTS, policy="USS-PD-TS", seed=1, keep=100)
    for n, row in enumerate(ROWS[:40]):
        for cascade, decision in ((plain, plain.decide()), (context, context.decide([np.sin(n), np.cos(n)]))):
            cascade.feedback(decision.id, row[: decision.arm + 1])
    for cascade in (plain, context):
        before = cascade.explain(40)
        assert re.search(r"costs (4|9|13) more", before)
        cascade.recost(*NEW)
        assert cascade.explain(40) == before


@pytest.mark.parametrize("policy", ["USS-PD", "USS-PD-TS"])
def test_new_prices_for_cascades_with_contexts(policy):
    options = {"forced": 10} if policy == "USS-PD" else {}
    cascade = ContextualCascade(3, **COSTS, policy=policy, seed=1, keep=100, **options)
    cascade.recost(*NEW)  # before the first context
    other = ContextualCascade(3, *NEW, policy=policy, seed=1, keep=100, **options)
    assert cascade.state() == other.state()
    for n, row in enumerate(ROWS[:40]):
        x = [0.7 * np.sin(n), 0.7 * np.cos(n)]
        decision = cascade.decide(x)
        assert decision == other.decide(x)
        for each in (cascade, other):
            each.feedback(decision.id, row[: decision.arm + 1])
    before = cascade.state()
    cascade.recost([1, 1, 1], 8.0)
    assert cascade.state() == with_new_prices(before, [1.0, 1.0, 1.0], 8.0)
    again = ContextualCascade.from_state(cascade.state())
    assert [again.decide([0.1 * n, 0.3]) for n in range(9)] == [
        cascade.decide([0.1 * n, 0.3]) for n in range(9)
    ]


@pytest.mark.parametrize(
    ("policy", "options"),
    [("Hanawal", {}), ("Q-USS", {"label_price": 1})],
)
def test_prices_of_other_policies_stay(policy, options):
    cascade = Cascade(3, **COSTS, policy=policy, seed=1, **options)
    before = cascade.state()
    with pytest.raises(ValueError, match=f"recost is not for {policy}"):
        cascade.recost(*NEW)
    assert cascade.state() == before


@pytest.mark.parametrize(
    "given", [([1, 2], 3), ([1, -2, 3], 3), ([1, 2, 3], 0), ("abc", 3), ([1, 2, 1e308], 1e-9)]
)
def test_wrong_prices_change_nothing(given):
    cascade = Cascade(3, **COSTS, seed=1)
    before = cascade.state()
    with pytest.raises(ValueError, match="cost"):
        cascade.recost(*given)
    assert cascade.state() == before


# -- what is settled, saved and audited


def test_the_settled_stage_is_the_first_that_pays_by_the_means():
    cascade = Cascade(2, [1, 4], error_cost=10, seed=0)  # going on pays if they differ in 40 % of the rounds
    assert cascade.settled() == 1  # 1 / 2 by the prior
    cascade.warm_start([[0, 0]] * 3)
    assert cascade.settled() == 0  # 1 / 5
    cascade.warm_start([[0, 1]] * 3)
    assert cascade.settled() == 1  # 4 / 8
    before = cascade.state()
    cascade.settled()
    assert cascade.state() == before
    assert Cascade(1, [1], 1, seed=0).settled() == 0


def test_what_is_saved_against_the_last_stage_alone_has_a_sign():
    cascade = Cascade(3, [1, 4, 9], error_cost=30, policy="Fixed", arm=0, seed=0)
    for _ in range(3):
        cascade.feedback(cascade.decide().id, [1])
    assert (cascade.report().spent, cascade.report().saved_alone, cascade.report().saved) == (3, 24, 39)
    assert "saved 24 (88.9 %) against it" in str(cascade.report())
    cascade = Cascade(3, [1, 4, 9], error_cost=30, policy="Fixed", arm=2, seed=0)
    for _ in range(2):
        cascade.feedback(cascade.decide().id, [1, 1, 1])
    assert (cascade.report().spent, cascade.report().saved_alone) == (28, -10)
    assert "lost 10 (55.6 %) against it" in str(cascade.report())
    # where the last stage was called its real cost counts, else the stated one
    cascade.feedback(cascade.decide().id, [1, Costed(1, 0.5), Costed(1, 20)])
    assert (cascade.report().spent, cascade.report().saved_alone) == (49.5, -11.5)


@pytest.mark.parametrize("combine", [None, majority], ids=["last", "majority"])
def test_an_audit_of_outputs_is_the_audit_of_the_samples(combine):
    stages = [lambda x: x % 2, lambda x: x % 3 % 2, lambda x: x % 5 % 2]
    cascade = Cascade(stages, **COSTS, policy="Fixed", arm=1, combine=combine, seed=0)
    cascade.warm_start([[stage(x) for stage in stages] for x in range(50)])
    cascade(3)
    before, items = cascade.state(), range(100, 400)
    expected = cascade.audit(items, lambda x: x % 2)
    for size in (2, 3):
        outputs = [[stage(x) for stage in stages[:size]] for x in items]
        found = cascade.audit_outputs(outputs, lambda row: items[row] % 2)
        assert (found.interval, found.against, found.verdict, found.labels, found.items, found.arm) == (
            expected.interval,
            expected.against,
            expected.verdict,
            expected.labels,
            expected.items,
            expected.arm,
        )
        assert (found.spent, expected.spent) == (0, 300 * 5)  # the calls were made by somebody else
        assert cascade.audit_outputs(outputs, [x % 2 for x in items]) == found
    assert cascade.state() == before
    for wrong in ([[1]], [[1, 2, 3, 4]], ["ab"]):
        with pytest.raises(ValueError, match=r"outputs\[0\] must be"):
            cascade.audit_outputs(wrong, [1])


# -- reports as data


def reports():
    cascade = Cascade(3, **COSTS, seed=0)
    contextual = ContextualCascade(3, **COSTS, seed=0, forced=5)
    allocator, player = Allocator(4, 1.0, seed=0), Player(4, "DLC-LIX", epsilon=0.3, seed=0)
    yield from (cascade, contextual, allocator, player)
    for n in range(20):
        for decision, thing in ((cascade.decide(), cascade), (contextual.decide([0.01 * n]), contextual)):
            thing.feedback(decision.id, ROWS[n][: decision.arm + 1])
        allocator.feedback(allocator.decide().id, [0, 1, None, 0.5])
        player.observe(0.0 if player.choose() < 0 else 0.5, False)
    yield from (cascade, contextual, allocator, player)
    yield Cascade(1, [1], 1, seed=0)
    yield Cascade(3, **COSTS, label_price=1.0, seed=0)


def test_reports_are_json_data():
    for thing in reports():
        report = thing.report()
        data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
        assert data == report.to_dict()
        assert data.get("rounds", data.get("slots", data.get("slot"))) == thing.rounds


@pytest.mark.parametrize("policy", ["USS-TS", "USS-A", "Pay-to-compare"])
def test_no_call_is_paid_for_an_audit_that_is_refused(policy):
    called = []

    def stage(x):
        called.append(x)
        return x % 2

    kind = Router if policy == "Pay-to-compare" else Cascade
    live = kind([stage, stage, stage], [1, 2, 3], 100, policy, seed=0)
    items, truth = list(range(10)), [1] * 10
    arm = {} if policy == "USS-A" else {"model" if kind is Router else "arm": 2}
    for given in ((truth[:3],), (None,), ("yes",), (truth, 0.0), (truth, 1.0), (truth, "x")):
        with pytest.raises(ValueError, match=r"truth must be|alpha must be"):
            live.audit(items, *given, **arm)
    if policy == "USS-A":
        with pytest.raises(ValueError, match="arm must be left out"):
            live.audit(items, truth, arm=1)
        for wrong in (truth[:3], None):
            with pytest.raises(ValueError, match="truth must be"):
                live.calibrate(items, wrong)
    assert not called
    live.audit(items, truth, **arm)
    assert len(called) == 30
