"""A live cascade that buys labels, and one that is for two labels only."""

import asyncio
import re

import numpy as np
import pytest

from weakfeedback import Cascade
from weakfeedback.cascade import QUss, UssTs
from weakfeedback.live import Costed, FeedbackConflict, PendingDecision, StateError, UnknownDecision, majority

RNG = np.random.default_rng(4)
TRUTH = RNG.integers(0, 3, size=600)
TABLE = np.where(RNG.random((600, 3)) < [0.5, 0.3, 0.25], RNG.integers(0, 3, size=(600, 3)), TRUTH[:, None])
NAMES = ("ash", "oak", "fir")
ARGUMENTS = {"stage_costs": [1, 4, 10], "error_cost": 50, "policy": "Q-USS", "cap": 1.0, "seed": 9}
PRICE = 2.5


def stage(k):
    return lambda row: NAMES[TABLE[row, k]]


STAGES = [stage(0), stage(1), stage(2)]


def human(row):
    return NAMES[TRUTH[row]]


def buyer(**changes):
    return Cascade(STAGES, **{**ARGUMENTS, "label": human, "label_price": PRICE, **changes})


def raw(rows):
    """The policy itself, round by round: the arms, and the rows whose labels it bought."""
    policy = QUss(np.cumsum([1, 4, 10]) / 50, PRICE / 50, cap=1.0)
    rng = np.random.Generator(np.random.PCG64(9))
    arms, bought = [], []
    for row in rows:
        arm = policy.select(rng)
        outputs = TABLE[row, : arm + 1]
        if policy.wants_label(arm, outputs, rng):
            policy.learn_label(arm, outputs, TRUTH[row])
            bought.append(row)
        policy.update(arm, outputs, rng)
        arms.append(arm)
    return policy, arms, bought


def same(one, other):
    for name, value in vars(one).items():
        if name not in ("differ", "right"):  # rooms, which only the raw policy uses
            assert np.array_equal(value, getattr(other, name)), name


def by_hand(cascade, row):
    decision = cascade.decide()
    outputs = [s(row) for s in STAGES[: decision.arm + 1]]
    if cascade.wants_label(decision.id, outputs):
        assert cascade.feedback(decision.id, outputs, label=human(row)) == "accepted"
    else:
        assert cascade.feedback(decision.id, outputs) == "accepted"
    return decision.arm


def wanting(cascade):
    """Go on by hand until a label is wanted: the decision and its outputs."""
    for row in range(600):
        decision = cascade.decide()
        outputs = [s(row) for s in STAGES[: decision.arm + 1]]
        if cascade.wants_label(decision.id, outputs):
            return decision, outputs, row
        cascade.feedback(decision.id, outputs)
    raise AssertionError


def snapshot(cascade):
    return cascade.state()


@pytest.mark.parametrize("way", ["call", "predict", "by hand", "awaited"])
def test_a_live_cascade_plays_and_buys_as_the_policy_does(way):
    policy, arms, bought = raw(range(600))
    asked = []

    def label(row):
        asked.append(row)
        return human(row)

    cascade = buyer(label=label)
    if way == "call":
        answers = [cascade(row) for row in range(600)]
    elif way == "predict":
        answers = cascade.answers(list(range(600)))
    elif way == "awaited":
        answers = [asyncio.run(cascade.acall(row)) for row in range(600)]
    else:
        assert [by_hand(cascade, row) for row in range(600)] == arms
        answers, asked = [], bought
    assert 0 < len(bought) < 300
    if answers:
        assert [answer.arm for answer in answers] == arms
        assert [row for row, answer in enumerate(answers) if answer.truth is not None] == bought
        assert all(answers[row].truth == human(row) for row in bought)
    assert asked == bought
    same(policy, cascade.policy)
    report = cascade.report()
    assert (report.labels, report.label_spent) == (len(bought), PRICE * len(bought))
    assert f"labels bought: {len(bought)}, for {PRICE * len(bought):.4g}" in str(report)
    assert "does not rest on weak dominance" in str(report)
    assert report.spent == sum(sum([1, 4, 10][: arm + 1]) for arm in arms)


def test_a_saved_cascade_goes_on_as_if_nothing_had_happened(tmp_path):
    whole, stopped = buyer(), buyer()
    for row in range(200):
        assert whole(row) == stopped(row)
        if row % 20 == 0:
            stopped.save(tmp_path / "state")
            stopped = Cascade.load(tmp_path / "state", STAGES, label=human)
    assert snapshot(whole) == snapshot(stopped)
    # in the middle of a round, too: whether a label is wanted is part of the state
    decision, outputs, row = wanting(stopped)
    stopped.save(tmp_path / "state")
    again = Cascade.load(tmp_path / "state", STAGES, label=human)
    assert again.wants_label(decision.id, outputs)
    assert again.feedback(decision.id, outputs, label=human(row)) == "accepted"
    assert again.report().labels == stopped.report().labels + 1
    again.save(tmp_path / "state")
    after = Cascade.load(tmp_path / "state", STAGES, label=human)
    assert after.feedback(decision.id, outputs, label=human(row)) == "duplicate"
    with pytest.raises(FeedbackConflict):
        after.feedback(decision.id, outputs, label="elm")
    with pytest.raises(ValueError, match="label must be given if and only if it was"):
        Cascade.load(tmp_path / "state", STAGES)


def test_damaged_labels_are_refused(tmp_path):
    cascade = buyer()
    for change in ({"labels": -1}, {"spent": -0.5}, {"price": None}, {"labels": 1.5}, {"more": 1}):
        body = cascade.state()
        body["purse"] = {**body["purse"], **change}
        from weakfeedback.live import storage

        storage.write(tmp_path / "state", "Cascade", body)
        with pytest.raises(StateError):
            Cascade.load(tmp_path / "state", STAGES, label=human)


def test_repeated_and_contradicting_labels():
    cascade = buyer()
    decision, outputs, row = wanting(cascade)
    assert cascade.feedback(decision.id, outputs, label=human(row)) == "accepted"
    before = snapshot(cascade)
    assert cascade.feedback(decision.id, outputs, label=human(row)) == "duplicate"
    for other in ({"label": "elm"}, {}, {"label": None}):
        with pytest.raises(FeedbackConflict):
            cascade.feedback(decision.id, outputs, **other)
    with pytest.raises(UnknownDecision):
        cascade.wants_label(decision.id, outputs)
    assert snapshot(cascade) == before
    # a call is answered once and for all, with its label
    while True:
        answer = cascade(row)
        if answer.truth is not None:
            break
    assert cascade.feedback(answer.id, answer.outputs, label=answer.truth) == "duplicate"
    with pytest.raises(FeedbackConflict):
        cascade.feedback(answer.id, answer.outputs)


def test_labels_that_are_not_wanted_are_refused():
    cascade = buyer()
    decision, outputs, _ = wanting(cascade)
    equal = [outputs[0]] * len(outputs)
    assert not cascade.wants_label(decision.id, equal)
    before = snapshot(cascade)
    with pytest.raises(ValueError, match="label must be given only when wants_label says so, got 'oak'"):
        cascade.feedback(decision.id, equal, label="oak")
    with pytest.raises(ValueError, match="which equals nothing"):
        cascade.feedback(decision.id, outputs, label=float("nan"))
    with pytest.raises(ValueError, match="outputs must be"):
        cascade.wants_label(decision.id, [*outputs, "oak"])
    with pytest.raises(PendingDecision):
        cascade.decide()
    assert snapshot(cascade) == before
    assert cascade.feedback(decision.id, outputs) == "accepted"  # wanted, but nobody knew
    assert cascade.report().labels == 0
    plain = Cascade(STAGES, [1, 4, 10], error_cost=50)
    decision = plain.decide()
    assert not plain.wants_label(decision.id, outputs[:1] * (decision.arm + 1))
    with pytest.raises(ValueError, match="label goes with a policy that buys labels"):
        plain.feedback(decision.id, outputs[:1] * (decision.arm + 1), label="oak")


def test_a_label_that_fails_cancels_the_decision_and_teaches_nothing():
    class Asleep(RuntimeError):
        pass

    def label(row):
        raise Asleep

    cascade, awake = buyer(label=label), buyer()
    failed = 0
    for row in range(200):
        before = {k: v for k, v in snapshot(cascade)["core"]["fields"].items() if k != "buying"}
        rounds, spent = cascade.rounds, cascade.report().spent
        try:
            cascade(row)
            awake(row)
        except Asleep:
            failed += 1
            assert {k: v for k, v in snapshot(cascade)["core"]["fields"].items() if k != "buying"} == before
            assert (cascade.rounds, cascade.report().spent, cascade.pending) == (rounds, spent, [])
            break
    assert failed == 1
    assert cascade.report().wasted > 0
    assert cascade.report().labels == 0


def test_what_a_label_costs_and_who_is_asked():
    seen = []

    def with_outputs(row, outputs):
        seen.append((row, outputs))
        return Costed(human(row), 7.0)

    cascade = buyer(label=with_outputs)
    for row in range(100):
        cascade(row)
    assert seen
    assert all(outputs == tuple(s(row) for s in STAGES[: len(outputs)]) for row, outputs in seen)
    assert all(len(set(outputs)) > 1 for _, outputs in seen)
    assert cascade.report().label_spent == 7.0 * len(seen)
    with_default = buyer(label=lambda row, patience=3: human(row) if patience == 3 else None)
    lone = buyer()
    assert [lone(row) for row in range(100)] == [with_default(row) for row in range(100)]
    named = buyer(label=lambda row, outputs=None: human(row) if outputs else None)
    lone = buyer()
    assert [lone(row) for row in range(100)] == [named(row) for row in range(100)]


def test_asynchronous_labels():
    async def label(row):
        await asyncio.sleep(0)
        return human(row)

    called = []

    def noted(row):
        called.append(row)
        return STAGES[0](row)

    cascade, plain = buyer(label=label), buyer()
    assert [asyncio.run(cascade.acall(row)) for row in range(60)] == [plain(row) for row in range(60)]
    cascade = Cascade([noted, *STAGES[1:]], **ARGUMENTS, label=label, label_price=PRICE)
    with pytest.raises(ValueError, match=r"label is asynchronous: use `await cascade.acall"):
        cascade(0)
    assert called == []
    # a plain function that returns something to be awaited is found out when it does
    late = buyer(label=lambda row: label(row))
    with pytest.raises(ValueError, match="label is asynchronous"):
        late.predict(range(600))
    assert late.pending == []


def test_labels_are_compared_as_answers_are():
    cascade = buyer(label=lambda row: human(row).upper(), compare=lambda a, b: a.lower() == b.lower())
    plain = buyer()
    for row in range(200):
        assert cascade(row).arm == plain(row).arm
    assert np.array_equal(cascade.policy.A, plain.policy.A)
    assert cascade.policy.A.sum() > 0
    # with a combination it is the combined answers that are right or wrong
    cascade = buyer(combine=majority)
    decision, outputs, _ = wanting(cascade)
    while len(outputs) < 3:
        cascade.feedback(decision.id, outputs)
        decision, outputs, _ = wanting(cascade)
    cascade.feedback(decision.id, ["ash", "oak", "ash"], label="ash")  # the majorities are ash, oak, ash
    assert cascade.policy.B[0, 1] == 1
    assert cascade.policy.A[1, 2] == 1
    assert cascade.policy.labels == 1


def test_a_policy_object_brings_its_price():
    costs = np.cumsum([1, 4, 10]) / 50
    options = {"stage_costs": [1, 4, 10], "error_cost": 50, "label": human, "seed": 9}
    cascade, named = Cascade(STAGES, policy=QUss(costs, PRICE / 50, 1.0), **options), buyer()
    assert [cascade(row) for row in range(100)] == [named(row) for row in range(100)]
    assert cascade.report().label_spent == pytest.approx(named.report().label_spent)
    by_option = Cascade(STAGES, policy="Q-USS", price=PRICE / 50, cap=1.0, **options)
    named = buyer()
    assert [by_option(row) for row in range(100)] == [named(row) for row in range(100)]


def test_who_gives_a_label_buys():
    for given, name in (
        ({}, "USS-WD"),
        ({"label": str, "label_price": 1}, "Q-USS"),
        ({"label_price": 1, "cap": 0.5}, "Q-USS"),
    ):
        assert f", {name}, " in repr(Cascade([str, str], [1, 2], error_cost=10, **given))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_price": None}, "label_price must be given, because Q-USS buys labels"),
        ({"label_price": -1}, "label_price must be a finite number >= 0, got -1"),
        ({"price": 1.0}, "label_price must be price * error_cost = 50, or left out, got 2.5"),
        ({"label": "me"}, "label must be a callable that takes a sample, got 'me'"),
        ({"policy": "USS-TS", "cap": None}, "label and label_price go with a policy that buys labels"),
        ({"policy": UssTs([0.02, 0.1, 0.3])}, "label and label_price go with a policy that buys labels"),
    ],
)
def test_wrong_arguments_are_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        buyer(**changes)


def test_nobody_to_ask():
    cascade = buyer(label=None)
    for call in (lambda: cascade(0), lambda: cascade.predict([0]), lambda: asyncio.run(cascade.acall(0))):
        with pytest.raises(
            ValueError, match="label must be given to call the cascade, because Q-USS buys labels"
        ):
            call()
    assert cascade.pending == []
    by_hand(cascade, 0)

    class Deaf(QUss):
        learn_label_pairs = None

    with pytest.raises(ValueError, match=r"policy must have a method learn_label_pairs\(\) to buy labels"):
        buyer(policy=Deaf([0.02, 0.1, 0.3], PRICE / 50), cap=None)


# -- two labels only


def joint(**changes):
    return Cascade(
        STAGES, **{"stage_costs": [1, 1, 1], "error_cost": 50, "policy": "USS-WD", "seed": 0, **changes}
    )


def test_three_labels_are_too_many_for_the_joint_policy():
    cascade = joint()
    decision = cascade.decide()
    while decision.arm < 2:
        cascade.feedback(decision.id, ["ash", "oak"][: decision.arm + 1])
        decision = cascade.decide()
    before = snapshot(cascade)
    message = "outputs must take at most two values in a round for USS-WD, got ['ash', 'oak', 'fir']"
    with pytest.raises(ValueError, match=re.escape(message)):
        cascade.feedback(decision.id, ["ash", "oak", "fir"])
    with pytest.raises(ValueError, match="at most two values"):
        cascade.warm_start([["ash", "oak", "oak"], ["ash", "oak", "fir"]])
    assert snapshot(cascade) == before
    assert cascade.feedback(decision.id, ["ash", "elm", "ash"]) == "accepted"
    rows = [row for row in range(600) if len(set(TABLE[row])) < 3]
    cascade = joint()
    labels = cascade.predict(rows, batch_size=50)
    assert len(labels) == len(rows)
    assert cascade.rounds == len(rows)
    # in a batch: all or nothing
    bad = next(row for row in range(600) if len(set(TABLE[row])) == 3)
    cascade = joint(stage_costs=[0, 0, 0])
    with pytest.raises(ValueError, match="at most two values"):
        cascade.predict([*rows[:20], bad], batch_size=50)
    assert (cascade.rounds, cascade.pending, cascade.policy.n.sum()) == (0, [], 0)
