"""The live cascade: decisions, feedback, misuse, threads."""

import re
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.live import inside
from tests.rig.processes import PATIENCE, printed
from tests.rig.threads import in_threads

from weakfeedback.cascade import HanawalHeuristic, UssTs, UssUcb
from weakfeedback.live import (
    Cascade,
    Costed,
    FeedbackConflict,
    PendingDecision,
    UnknownDecision,
)


def parity(x):
    return "odd" if x % 2 else "even"


def sign(x):
    return "odd"


def fixed(arm, stages=None, costs=(1, 4, 25), **arguments):
    """A cascade of known decisions."""
    stages = stages or [sign, parity, parity][: len(costs)]
    return Cascade(stages, list(costs), error_cost=100, policy="Fixed", arm=arm, seed=0, **arguments)


class OneAtATime:
    """A policy that has to see each answer before the next decision."""

    delay_safe = False

    def __init__(self):
        self.seen = 0

    def select(self, rng):
        return self.seen % 2

    def update_pairs(self, arm, differ, rng):
        self.seen += 1


def snapshot(cascade):
    """Everything that a rejected call must leave alone."""
    return cascade.state(), inside.kept(cascade)


# -- rounds


def test_an_answer_comes_from_the_stage_chosen_and_later_stages_are_not_called():
    called = []
    stages = [lambda x, k=k: called.append(k) or f"label {k}" for k in range(3)]
    answer = fixed(1, stages)("sample")
    assert called == [0, 1]
    assert (answer.label, answer.arm, answer.cost, answer.outputs) == (
        "label 1",
        1,
        5.0,
        ("label 0", "label 1"),
    )


def test_the_costs_of_the_policy_are_cumulative_and_in_units_of_an_error():
    cascade = Cascade([sign, parity, parity], [1, 4, 25], error_cost=100, policy="uss-ucb", alpha=0.75)
    assert isinstance(cascade.policy, UssUcb)
    assert cascade.policy.C.tolist() == [0.01, 0.05, 0.30]
    assert cascade.policy.alpha == 0.75


@pytest.mark.parametrize(
    ("name", "make"),
    [("USS-TS", UssTs), ("USS-UCB", UssUcb), ("Hanawal", HanawalHeuristic)],
)
def test_decides_and_learns_as_the_bare_policy(name, make):
    """Two loops over the same outputs: the live object, and the policy by hand with a generator of its own."""
    table = np.random.default_rng(3).integers(0, 2, size=(400, 3))
    stages = [lambda row, k=k: int(table[row, k]) for k in range(3)]
    cascade = Cascade(stages, [1, 4, 25], error_cost=40, policy=name, seed=11)
    policy, rng = make(np.cumsum([1, 4, 25]) / 40), np.random.Generator(np.random.PCG64(11))
    for row in range(400):
        arm = policy.select(rng)
        assert cascade(row).arm == arm
        policy.update(arm, table[row, : arm + 1], rng)
    assert cascade.rounds == 400


def test_learns_to_stop_where_it_pays():
    # Stages 1 and 2 agree always, stage 0 differs half of the time: stop at stage 1 (4 against 50, 25 against 0).
    cascade = Cascade([sign, parity, parity], [1, 4, 25], error_cost=100, seed=0)
    arms = [cascade(x).arm for x in range(500)]
    assert arms[-200:].count(1) > 190


@pytest.mark.parametrize(
    "labels", [("a", "b"), (0, 1), (None, "x"), ((1, 2), (2, 1)), (0.5, 0.25), (True, False)]
)
def test_any_labels(labels):
    one, other = labels
    cascade = fixed(2)
    cascade.feedback(cascade.decide().id, [one, other, one])
    expected = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=float)
    assert np.array_equal(cascade.report().disagreement, expected)


def test_a_comparison_of_ones_own():
    cascade = fixed(2, compare=lambda a, b: round(a) == round(b))
    cascade.feedback(cascade.decide().id, [1.2, 0.9, 1.6])
    report = cascade.report()
    assert (report.disagreement[0, 1], report.disagreement[0, 2], report.disagreement[1, 2]) == (0, 1, 1)


def test_fresh_entropy_without_a_seed():
    first, second = (Cascade([sign] * 9, [1] * 9, policy="Random") for _ in range(2))
    # 30 uniform draws of 9 arms agree with probability 9 ** -30.
    assert [first.decide().arm for _ in range(30)] != [second.decide().arm for _ in range(30)]


# -- by hand


def test_late_feedback_in_any_order_is_learned_for_its_own_decision():
    rng = np.random.default_rng(1)
    cascade = Cascade([sign] * 3, [1, 1, 1], error_cost=3, policy="Random", seed=4)
    decisions = [cascade.decide() for _ in range(60)]
    assert cascade.pending == [decision.id for decision in decisions]
    tries, differed = np.zeros((3, 3), dtype=int), np.zeros((3, 3), dtype=int)
    for k in rng.permutation(60):
        outputs = rng.integers(0, 2, size=decisions[k].arm + 1)
        assert cascade.feedback(decisions[k].id, outputs) == "accepted"
        for i in range(outputs.size):
            for j in range(outputs.size):
                tries[i, j] += i != j
                differed[i, j] += outputs[i] != outputs[j]
    report = cascade.report()
    assert (cascade.rounds, cascade.pending) == (60, [])
    assert np.array_equal(report.comparisons, tries)
    off = ~np.eye(3, dtype=bool)
    assert np.array_equal(report.disagreement[off], differed[off] / tries[off])
    assert report.arm_shares.tolist() == [[d.arm for d in decisions].count(arm) / 60 for arm in range(3)]


def test_ids_increase_and_are_shared_with_calls():
    cascade = fixed(0)
    ids = [cascade.decide().id, cascade(1).id, cascade.decide().id]
    assert ids == sorted(set(ids))
    assert cascade.pending == [ids[0], ids[2]]


def test_duplicates_conflicts_and_unknown_decisions():
    cascade = fixed(1)
    id = cascade.decide().id
    assert cascade.feedback(id, ["a", "b"]) == "accepted"
    before = snapshot(cascade)
    assert cascade.feedback(id, ("a", "b")) == "duplicate"
    for other in (["a", "a"], ["a"], ["b", "a"]):
        with pytest.raises(FeedbackConflict):
            cascade.feedback(id, other)
    with pytest.raises(UnknownDecision):
        cascade.feedback(id + 1, ["a", "b"])
    assert snapshot(cascade) == before
    answer = cascade(3)
    assert cascade.feedback(answer.id, answer.outputs) == "duplicate"


def test_a_cancelled_decision_is_gone():
    cascade = fixed(1)
    id = cascade.decide().id
    cascade.cancel(id)
    assert cascade.pending == []
    with pytest.raises(UnknownDecision):
        cascade.feedback(id, ["a", "b"])
    with pytest.raises(UnknownDecision):
        cascade.cancel(id)
    assert cascade.rounds == 0


@pytest.mark.parametrize(
    "outputs",
    [
        ["a"],
        ["a", "b", "c"],
        [],
        "ab",
        {"a": 1, "b": 2},
        {"a", "b"},
        None,
        3,
        ["a", float("nan")],
        [np.float64("nan"), 1],
        [np.array([1, 2]), np.array([1, 2])],
        np.zeros((2, 2)),
    ],
)
def test_feedback_that_is_no_feedback_changes_nothing(outputs):
    cascade = fixed(1)
    id = cascade.decide().id
    before = snapshot(cascade)
    with pytest.raises(ValueError, match="output"):
        cascade.feedback(id, outputs)
    assert snapshot(cascade) == before
    assert cascade.feedback(id, ["a", "b"]) == "accepted"


@settings(max_examples=100, deadline=None)
@given(
    id=st.one_of(st.integers(-3, 8), st.none(), st.text(max_size=2), st.floats(), st.booleans()),
    outputs=st.one_of(
        st.none(), st.lists(st.one_of(st.none(), st.floats(), st.text(max_size=2)), max_size=4)
    ),
)
def test_feedback_is_accepted_or_refused_and_refused_changes_nothing(id, outputs):
    cascade = fixed(1)
    for _ in range(3):
        cascade.decide()
    cascade.feedback(1, ["a", "b"])
    before = snapshot(cascade)
    try:
        outcome = cascade.feedback(id, outputs)
    except (ValueError, UnknownDecision, FeedbackConflict):
        outcome = "refused"
    assert (outcome == "accepted") == (snapshot(cascade) != before)


def test_a_policy_that_is_not_delay_safe_waits_for_its_feedback():
    cascade = Cascade([parity, parity], [1, 1], policy=OneAtATime())
    decision = cascade.decide()
    for misuse in (cascade.decide, lambda: cascade(1), lambda: cascade.predict([1, 2])):
        with pytest.raises(PendingDecision, match=f"decision {decision.id} is open"):
            misuse()
    with pytest.raises(PendingDecision):
        cascade.warm_start([["a", "b"]])
    assert cascade.pending == [decision.id]
    cascade.feedback(decision.id, ["even"])
    assert cascade.predict([1, 2, 3]).tolist() == ["odd", "even", "odd"]
    assert cascade.rounds == 4


def test_a_policy_object_is_used_as_it_is():
    policy = UssUcb([0.1, 0.3])
    cascade = Cascade([parity, sign], [1, 2], error_cost=10, policy=policy)
    cascade(2)
    assert cascade.policy is policy
    assert (policy.D[0, 1], policy.N[0, 1], policy.t) == (1, 1, 2)


def test_one_stage_is_a_cascade_too():
    cascade = Cascade([parity], [2], 1, seed=0)
    assert (cascade(3).label, cascade.report().saved) == ("odd", 0)
    assert "one stage" in str(cascade.report())


def test_a_policy_that_chooses_a_stage_that_does_not_exist_is_caught():
    class Wrong(OneAtATime):
        def select(self, rng):
            return 7

    cascade = Cascade([parity, parity], [1, 1], policy=Wrong())
    with pytest.raises(ValueError, match=r"must be an arm from 0 to 1, got 7 from Wrong.select\(\)"):
        cascade(1)
    with pytest.raises(ValueError):
        cascade.predict([1, 2])
    assert cascade.pending == []


# -- threads and memory


def test_eight_threads_lose_nothing():
    cascade = Cascade([sign, parity, parity], [1, 4, 25], error_cost=100, policy="Random", seed=0)
    counts = np.zeros((8, 3), dtype=int)

    def work(thread):
        for step in range(150):
            if step % 3 == 0:
                counts[thread, cascade(step).arm] += 1
            elif step % 3 == 1:
                decision = cascade.decide()
                outputs = ["x"] * (decision.arm + 1)
                assert cascade.feedback(decision.id, outputs) == "accepted"
                assert cascade.feedback(decision.id, outputs) == "duplicate"
                counts[thread, decision.arm] += 1
            else:
                cascade.cancel(cascade.decide().id)
            if step % 10 == 0:
                cascade.report()

    in_threads(8, work)
    assert (cascade.rounds, cascade.pending) == (800, [])
    report = cascade.report()
    total = counts.sum(axis=0)
    assert (report.arm_shares * 800).round().astype(int).tolist() == total.tolist()
    # A pair is compared in every round that went to its later stage.
    assert report.comparisons[0, 1] == total[1] + total[2]
    assert report.comparisons[1, 2] == total[2]
    assert report.spent == total @ [1, 5, 30]


def test_no_lock_is_held_while_a_stage_runs():
    inside, go_on = threading.Event(), threading.Event()

    def slow(x):
        inside.set()
        assert go_on.wait(PATIENCE)
        return x

    cascade = fixed(0, [slow, parity, parity])
    thread = threading.Thread(target=cascade, args=(1,))
    thread.start()
    assert inside.wait(PATIENCE)
    other = cascade.decide()  # would wait for ever if the call held the lock
    assert cascade.feedback(other.id, ["a"]) == "accepted"
    go_on.set()
    thread.join()
    assert cascade.rounds == 2


def test_the_same_feedback_from_two_threads_is_learned_once():
    both_compare = threading.Barrier(2)
    outcomes = []

    def compare(a, b):
        both_compare.wait(PATIENCE)  # neither has learned when the other looks
        return a == b

    cascade = fixed(1, compare=compare)
    id = cascade.decide().id
    in_threads(2, lambda _: outcomes.append(cascade.feedback(id, ["a", "b"])))
    assert sorted(outcomes) == ["accepted", "duplicate"]
    assert (cascade.rounds, cascade.report().comparisons[0, 1]) == (1, 1)


def test_memory_does_not_grow_with_the_rounds():
    from weakfeedback.live import cascade as module

    cascade = fixed(0)
    for x in range(module.EXPLAINED + 500):
        cascade(x)
    assert len(inside.kept(cascade)) == module.EXPLAINED
    assert "stop at stage 0" in cascade.explain(501)
    with pytest.raises(UnknownDecision, match="last 1000"):
        cascade.explain(500)


def test_the_import_is_light():
    heavy = ["sklearn", "numba", "pandas", "matplotlib"]
    code = (
        f"import sys; from weakfeedback.live import Cascade; print([m for m in {heavy} if m in sys.modules])"
    )
    assert re.sub(r"\s", "", printed("-c", code)) == "[]"


def test_costs_that_vary_are_told_as_they_were():
    stages = [lambda x: Costed("a", 0.5), lambda x: "a", lambda x: Costed("b", 40)]
    cascade = fixed(1, stages)
    answer = cascade(0)
    # 0.5 as told, 4 as stated; the call not made is counted at its stated 25.
    assert (answer.cost, answer.outputs, answer.label) == (4.5, ("a", "a"), "a")
    cascade.feedback(cascade.decide().id, [Costed("a", 2), Costed("b", 3)])
    report = cascade.report()
    assert (report.spent, report.saved) == (9.5, 50)
    assert report.disagreement[0, 1] == 0.5
    for wrong in (-1, float("nan"), "1", None):
        with pytest.raises(ValueError, match="cost must be"):
            Costed("a", wrong)


class Mute:
    def __repr__(self):
        raise RuntimeError("of mine")


def test_labels_that_cannot_be_written_down_are_refused_in_one_line():
    cascade = fixed(1)
    decision = cascade.decide()
    with pytest.raises(ValueError, match="Mute is no label: its repr fails with RuntimeError"):
        cascade.feedback(decision.id, [Mute(), Mute()])
    with pytest.raises(ValueError, match="outputs must be"):
        cascade.feedback(decision.id, Mute())
    assert cascade.pending == [decision.id]
