"""Live cascades that decide after every answer."""

import asyncio
import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.adaptive.following import random_table
from tests.live import inside
from tests.rig.refusals import refusals
from tests.rig.threads import in_threads

from weakfeedback import Cascade, Costed, FeedbackConflict, PendingDecision, Scored, UnknownDecision
from weakfeedback.adaptive import AdaptiveProblem, Agreement, FixedArm, Thresholds, UssA, UssNext
from weakfeedback.live.core import PENDING_LIMIT

COSTS = {"stage_costs": [1.0, 3.0, 9.0], "error_cost": 100.0}


def table_stages(outputs, scores, chances=None):
    """Stages that look a row up; a sample is its number."""
    K = outputs.shape[1]

    def stage(k):
        def say(row):
            believed = None if chances is None or k < K - 1 else dict(enumerate(chances[row]))
            return Scored(int(outputs[row, k]), float(scores[row, k]), believed)

        return say

    return [stage(k) for k in range(K)]


def made(rows=120, seed=3, with_chances=False, **options):
    truth, outputs, scores, chances = random_table(seed, 3, 3, rows)
    parts = table_stages(outputs, scores, chances if with_chances else None)
    cascade = Cascade(parts, **COSTS, **{"policy": "USS-A", "seed": 5, **options})
    return cascade, parts, truth


def by_hand(cascade, stages, x):
    step = cascade.begin()
    while step.answer is None:
        step = cascade.tell(step.id, stages[step.stage](x), stage=step.stage)
    return step.answer


# -- the same decisions as the simulation, draw by draw


SIMULATED = {
    "USS-A": (lambda costs: UssA(costs), False),
    "chances": (lambda costs: UssA(costs, judge="score", labels=3), True),
    "memory": (lambda costs: UssA(costs, judge="score", labels=3, memory=40), False),
    "USS-next": (lambda costs: UssNext(costs), False),
    "Agreement": (lambda costs: Agreement(costs), False),
    "Thresholds": (lambda costs: Thresholds(costs, [0.6, 0.8]), False),
    "Fixed": (lambda costs: FixedArm(costs, 1), False),
}


@pytest.mark.parametrize(
    ("name", "way"),
    [
        *((name, "call") for name in SIMULATED),
        *((name, way) for name in ("chances", "USS-next") for way in ("hand", "batches of one")),
    ],
)
def test_a_live_cascade_decides_as_the_simulation(name, way):
    make, with_chances = SIMULATED[name]
    truth, outputs, scores, chances = random_table(4, 3, 3, 150)
    costs = np.array([0.01, 0.03, 0.09])
    problem = AdaptiveProblem(truth, outputs, scores, costs, chances if with_chances else None)
    policy, world = make(costs), problem.world()
    drawn, rng = np.random.default_rng(7), np.random.default_rng(9)
    stages = table_stages(world.outputs, world.scores, chances if with_chances else None)
    live = Cascade(stages, costs, policy=make(costs), seed=np.random.default_rng(9))
    seen, sure, believed = np.zeros(3, dtype=np.int64), np.zeros(3), np.zeros(3)
    for _ in range(200):
        row, arm = world.draw(drawn), 0
        world.show(row, 0, seen, sure)
        while arm < 2 and policy.go_on(arm, seen[: arm + 1], sure[: arm + 1], rng):
            arm += 1
            world.show(row, arm, seen, sure)
        size = world.believe(row, arm, believed)
        policy.update(arm, seen[: arm + 1], sure[: arm + 1], believed[:size], rng)
        if way == "call":
            answer = live(row)
        elif way == "hand":
            answer = by_hand(live, stages, row)
        else:
            (answer,) = live.answers([row], batch_size=1)
        assert (answer.arm, answer.label) == (arm, seen[arm])
        assert answer.cost == pytest.approx(costs[: arm + 1].sum())
        assert answer.scores == tuple(sure[: arm + 1])
    assert live.rounds == 200
    assert inside.rng(live).bit_generator.state == rng.bit_generator.state


def test_compiled_decides_the_same():
    cascade, stages, _ = made(with_chances=True, judge="score", labels=3)
    twin = Cascade(stages, **COSTS, policy="USS-A", seed=5, judge="score", labels=3, compiled=True)
    assert twin.compiled
    assert not cascade.compiled
    rows = np.random.default_rng(0).integers(0, 120, 80).tolist()
    assert [cascade(row) for row in rows[:40]] == [twin(row) for row in rows[:40]]
    truth = [0, 1, 2] * 10
    for one in (cascade, twin):
        one.calibrate(range(30), truth)
        one.recost([2.0, 2.0, 12.0], 50.0)
    assert [cascade(row) for row in rows[40:]] == [twin(row) for row in rows[40:]]
    assert cascade.state() == twin.state()


# -- invariants


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    names=st.permutations(["a", "b", 7, None, (1, 2)]),
    power=st.floats(0.2, 5.0),
)
def test_names_of_labels_and_monotone_maps_of_scores_change_nothing(seed, names, power):
    _, outputs, scores, _ = random_table(seed, 3, 5, 60)
    plain, renamed = table_stages(outputs, scores), table_stages(outputs, scores)

    def other(stage):
        def say(row):
            found = stage(row)
            return Scored(names[found.label], 3.0 + found.score**power)

        return say

    one = Cascade(plain, **COSTS, policy="USS-A", seed=seed)
    two = Cascade([other(stage) for stage in renamed], **COSTS, policy="USS-A", seed=seed)
    for row in range(60):
        a, b = one(row), two(row)
        assert a.arm == b.arm
        assert names[a.label] == b.label


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_stages_that_were_not_called_change_no_decision(seed):
    _, outputs, scores, _ = random_table(seed, 3, 3, 60)
    one, stages = Cascade(table_stages(outputs, scores), **COSTS, policy="USS-A", seed=1), []
    arms = [one(row).arm for row in range(60)]
    luck = np.random.default_rng(seed)
    for row, arm in enumerate(arms):
        outputs[row, arm + 1 :] = luck.integers(0, 50, 2 - arm)
        scores[row, arm + 1 :] = luck.random(2 - arm)
    stages = table_stages(outputs, scores)
    two = Cascade(stages, **COSTS, policy="USS-A", seed=1)
    assert [two(row).arm for row in range(60)] == arms


def test_stages_are_called_only_when_asked():
    called = []
    stages = [lambda x, k=k: called.append((x, k)) or Scored(x % 2, 0.5) for k in range(3)]
    cascade = Cascade(stages, **COSTS, policy="USS-A", seed=0)
    for x in range(40):
        called.clear()
        answer = cascade(x)
        assert called == [(x, k) for k in range(answer.arm + 1)]


# -- batches


def test_a_batch_goes_stage_by_stage_and_learns_in_order():
    cascade, stages, _ = made()
    order = []
    spied = [lambda row, k=k: order.append((k, row)) or stages[k](row) for k in range(3)]
    live = Cascade(spied, **COSTS, policy="USS-A", seed=5)
    answers = live.answers(range(50))
    assert [k for k, _ in order] == sorted(k for k, _ in order)
    assert [row for k, row in order if k == 0] == list(range(50))
    for k in (1, 2):
        assert [row for stage, row in order if stage == k] == [r for r, a in enumerate(answers) if a.arm >= k]
    # the same by hand: all rounds are begun, then told stage by stage, and learned in order
    policy, rng = cascade.policy, inside.rng(cascade)
    rounds = [[stages[0](row)] for row in range(50)]
    going = range(50)
    for k in range(2):
        more = [p for p in going if policy.go_on(k, *shown(rounds[p]), rng)]
        for p in more:
            rounds[p].append(stages[k + 1](p))
        going = more
    assert [len(seen) - 1 for seen in rounds] == [answer.arm for answer in answers]
    for seen in rounds:
        policy.update(len(seen) - 1, *shown(seen), np.zeros(0), rng)
    assert np.array_equal(policy.rise, live.policy.rise)


def shown(seen):
    labels = [one.label for one in seen]
    numbers = {label: n for n, label in enumerate(dict.fromkeys(labels))}
    return np.array([numbers[label] for label in labels]), np.array([one.score for one in seen])


def test_predict_and_a_batch_that_fails_teaches_nothing():
    cascade, stages, _ = made()
    cascade.answers(range(20))
    before = cascade.policy.t

    def fails(row):
        if row == 7:
            raise OSError("the model is away")
        return stages[0](row)

    failing = Cascade([fails, *stages[1:]], **COSTS, policy="USS-A", seed=5)
    with pytest.raises(OSError, match="away"):
        failing.answers(range(10))
    assert (failing.rounds, failing.pending, failing.policy.t) == (0, [], 0)
    assert failing.report().wasted == 7.0
    assert cascade.predict([3, 4]).shape == (2,)
    assert cascade.policy.t == before + 2


# -- by hand


def test_begin_and_tell_step_by_step():
    cascade = Cascade(3, **COSTS, policy=FixedArm([0.01, 0.03, 0.09], 1))
    step = cascade.begin()
    assert (step.id, step.stage, step.answer) == (1, 0, None)
    step = cascade.tell(1, Scored("a", 0.5))
    assert (step.stage, step.answer, cascade.pending) == (1, None, [1])
    step = cascade.tell(1, Costed(Scored("b", 0.7), 2.5))
    assert step.stage is None
    assert step.answer.label == "b"
    assert (step.answer.arm, step.answer.cost, step.answer.outputs) == (1, 3.5, ("a", "b"))
    assert step.answer.scores == (0.5, 0.7)
    assert (cascade.rounds, cascade.pending) == (1, [])


def test_an_output_told_again_gives_the_same_step():
    cascade = Cascade(3, **COSTS, policy=FixedArm([0.01, 0.03, 0.09], 1))
    id = cascade.begin().id
    first = cascade.tell(id, "a", stage=0)
    assert cascade.tell(id, "a", stage=0) == first
    with pytest.raises(FeedbackConflict, match="stage 0 of decision 1 was told already"):
        cascade.tell(id, "b", stage=0)
    with pytest.raises(ValueError, match=r"stage must be the one that was to be run \(1\), got 2"):
        cascade.tell(id, "b", stage=2)
    last = cascade.tell(id, "b", stage=1)
    assert cascade.tell(id, "b", stage=1) == last
    assert cascade.tell(id, "b") == last
    assert cascade.tell(id, "b", stage=1).answer.outputs == ("a", "b")
    with pytest.raises(FeedbackConflict):
        cascade.tell(id, "c")
    with pytest.raises(UnknownDecision):
        cascade.tell(id + 1, "a")
    assert cascade.rounds == 1


@pytest.mark.parametrize("others", ["b", "bc"])
def test_an_output_that_another_thread_tells_meanwhile_too(others):
    begun = []

    def tell():
        for stage, output in enumerate(others, start=1):
            begun.append(cascade.tell(id, output, stage=stage))

    def compare(one, other):
        if not begun:
            begun.append(threading.Thread(target=tell))
            begun[0].start()
            begun[0].join()
        return one == other

    cascade = Cascade(3, **COSTS, policy=FixedArm([0.01, 0.03, 0.09], len(others)), compare=compare)
    id = cascade.begin().id
    cascade.tell(id, "a", stage=0)
    assert cascade.tell(id, "b", stage=1) == begun[1]
    assert (begun[-1].answer.label, cascade.rounds, cascade.pending) == (others[-1], 1, [])


def test_a_round_told_again_has_the_prices_of_its_time():
    cascade = Cascade(3, **COSTS, policy="Agreement")
    id = cascade.begin().id
    cascade.tell(id, "a", stage=0)
    cascade.tell(id, "b", stage=1)
    last, why = cascade.tell(id, "a", stage=2), cascade.explain(id)
    cascade.recost([10, 20, 30], 7)
    assert cascade.tell(id, "a", stage=2) == last
    assert last.answer.cost == sum(COSTS["stage_costs"])
    assert cascade.explain(id) == why


def test_an_explanation_keeps_the_prices_of_its_time():
    cascade, _, _ = made(rows=60)
    answers = [cascade(row) for row in range(60)]
    before = [cascade.explain(answer.id) for answer in answers]
    assert any("more than its price" in words for words in before)
    cascade.recost([10, 20, 30], 7000.0)
    assert [cascade.explain(answer.id) for answer in answers] == before


def test_rounds_may_be_told_in_any_order_and_cancelled():
    cascade, stages, _ = made()
    ids = [cascade.begin().id for _ in range(3)]
    cascade.cancel(ids[1], cost=2.0)
    with pytest.raises(UnknownDecision, match="was cancelled"):
        cascade.tell(ids[1], stages[0](1))
    for id in reversed([ids[0], ids[2]]):
        step = cascade.tell(id, stages[0](4))
        while step.answer is None:
            step = cascade.tell(id, stages[step.stage](4))
    assert (cascade.rounds, cascade.pending, cascade.report().wasted) == (2, [], 2.0)


def test_there_is_a_limit_to_open_rounds():
    cascade = Cascade(2, [1, 2], 10, policy="USS-A")
    for _ in range(PENDING_LIMIT):
        cascade.begin()
    with pytest.raises(PendingDecision, match="10000 decisions wait"):
        cascade.begin()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda c: c.decide(), r"use begin\(\) and tell\(\)"),
        (lambda c: c.feedback(1, [0]), r"use tell\(id, output\)"),
        (lambda c: c.feedback_pairs(1, []), r"use tell\(id, output\)"),
        (lambda c: c.certificate(), "use audit"),
        (lambda c: c(3), r"the stages run elsewhere: use begin\(\) and tell\(\)"),
        (lambda c: c.answers([3]), r"the stages run elsewhere: use begin\(\) and tell\(\)"),
        (lambda c: c.calibrate([3], [1]), "the stages run elsewhere"),
        (lambda c: c.calibrate_outputs([[1, 1]], None, [1]), r"outputs\[0\] must be 3 labels"),
        (lambda c: c.calibrate_outputs([[1, 1, 1]], None, [1, 2]), "truth must be 1 labels"),
        (lambda c: c.calibrate_outputs([[1, 1, 1]], [[0.5, 0.5]], [1]), r"scores\[0\] must be 3 numbers"),
        (lambda c: c.calibrate_outputs([[1, 1, 1]], [[0.5, 0.5, 7]], [1]), "must be from 0 to 1"),
        (lambda c: c.tell(c.begin().id, math.nan), "which equals nothing"),
    ],
)
def test_what_is_refused_in_one_line(call, words):
    cascade = Cascade(3, **COSTS, policy="USS-A")
    with pytest.raises(ValueError, match=words) as error:
        call(cascade)
    assert "\n" not in str(error.value)
    assert cascade.rounds == 0


test_wrong_arguments_are_refused = refusals(
    lambda options: Cascade(3, **COSTS, **{"policy": "USS-A", **options}),
    ({"combine": max}, "combine must be left out"),
    ({"metric": max}, "metric must be left out"),
    ({"label": max}, "label goes with a policy that buys labels"),
    ({"label_price": 2.0}, "label_price goes with a policy that buys labels"),
    ({"judge": "me"}, "judge must be one of last, score, calibrated"),
    ({"policy": "Agreement", "judge": "last"}, "judge is not an option of Agreement"),
    ({"policy": "Thresholds"}, "Thresholds needs the option thresholds"),
    ({"policy": "USS-TS", "judge": "last"}, "judge is not an option of USS-TS"),
    ({"policy": UssA([0.1, 0.2])}, "policy must be made for the costs stage_costs / error_cost"),
    ({"policy": UssA([0.1, 0.2, 0.3])}, "policy must be made for the costs stage_costs / error_cost"),
)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.begin(),
        lambda c: c.tell(1, 2),
        lambda c: c.calibrate([1], [1]),
        lambda c: c.calibrate_outputs([[1, 1, 1]], None, [1]),
    ],
)
def test_a_plain_cascade_says_what_its_policy_is_not(call):
    with pytest.raises(ValueError, match=r"is for a policy that .*, not for USS-WD"):
        call(Cascade(3, **COSTS))


def test_prices_at_which_nothing_can_pay_are_told():
    with pytest.warns(UserWarning, match="no stage after the first can ever pay"):
        Cascade(2, [1, 30], error_cost=20, policy="USS-A")
    Cascade(2, [1, 30], error_cost=20, policy="Agreement")


def test_the_class_is_found_by_the_policy():
    assert Cascade(3, **COSTS, policy="uss-next").core.opening == "begin"
    assert isinstance(Cascade(3, **COSTS, policy="USS-A"), Cascade)
    assert type(Cascade(3, **COSTS, policy="Fixed", arm=1)) is Cascade
    assert type(Cascade(3, **COSTS)) is Cascade


# -- stages


def test_classifiers_give_scores_by_themselves():
    from sklearn.datasets import load_wine
    from sklearn.naive_bayes import GaussianNB
    from sklearn.svm import SVC

    X, y = load_wine(return_X_y=True)
    first, second = GaussianNB().fit(X[:, :2], y), GaussianNB().fit(X, y)

    class Narrow:
        classes_ = first.classes_

        def predict(self, rows):
            return first.predict(rows[:, :2])

        def predict_proba(self, rows):
            return first.predict_proba(rows[:, :2])

    cascade = Cascade([Narrow(), second], [1, 5], error_cost=100, policy="USS-A", seed=0)
    answer = cascade(X[0])
    assert answer.scores[0] == first.predict_proba(X[:1, :2]).max()
    assert cascade.policy.judging == 0  # what its probabilities are worth is not known
    assert cascade.policy.labels == 3
    by_score = Cascade([Narrow(), second], [1, 5], error_cost=100, policy="USS-A", judge="score", seed=0)
    again = Cascade.from_state(by_score.state(), [Narrow(), second])
    assert again.policy.judging == by_score.policy.judging == 1
    answers = cascade.answers(X[:40])
    last = [a for a in answers if a.arm == 1]
    assert last
    sure = second.predict_proba(X[:40]).max(axis=1)
    assert all(a.scores[1] == pytest.approx(sure[i]) for i, a in enumerate(answers) if a.arm == 1)
    assert cascade.policy.chances.max() > 0.0  # of the other answers too
    plain = Cascade([Narrow(), SVC().fit(X, y)], [1, 5], error_cost=100, policy="USS-A", seed=0)
    assert plain.policy.judging == 0  # there is nothing to judge by but the last answer
    assert all(a.scores[1:] in ((), (None,)) for a in plain.answers(X[:40]))


def test_the_score_is_that_of_the_label_predicted():
    class Cautious:
        """Says 1 only when it is very sure."""

        classes_ = np.array([0, 1])

        def predict(self, rows):
            return (np.asarray(rows)[:, 0] > 0.9).astype(int)

        def predict_proba(self, rows):
            p = np.asarray(rows)[:, 0]
            return np.column_stack([1.0 - p, p])

    cascade = Cascade([Cautious(), Cautious()], [1, 1], error_cost=2, policy=FixedArm([0.5, 0.5], 0))
    assert cascade([0.7]).label == 0
    assert cascade([0.7]).scores == (pytest.approx(0.3),)


def test_a_plain_cascade_ignores_scores():
    stages = [lambda x: Scored(x % 2, 0.1 * x), lambda x: Costed(Scored(x % 2, 0.7), 2.0)]
    cascade = Cascade(stages, [1, 4], error_cost=30, policy="Fixed", arm=1)
    answer = cascade(3)
    assert (answer.label, answer.outputs, answer.cost, answer.scores) == (1, (1, 1), 3.0, ())
    assert cascade.report().disagreement[0, 1] == 0.0
    assert cascade.warm_start([[Scored(1, 0.3), Scored(1, 0.4)]]) == 1


def test_compare_numbers_answers_by_first_match():
    stages = [lambda x: Scored("Yes", 0.5), lambda x: Scored("yes", 0.5), lambda x: Scored("no", 0.5)]
    same = lambda a, b: a.lower() == b.lower()  # noqa: E731
    cascade = Cascade(stages, **COSTS, policy="USS-A", compare=same, scale=5.0, seed=2)
    while cascade.report().reached[2] == 0:
        answer = cascade(0)
    kept = cascade.policy.answers[cascade.policy.t - 1]
    assert answer.arm == 2
    assert kept.tolist() == [0, 0, 1]


def test_a_last_stage_that_the_judge_cannot_judge_changes_nothing():
    cascade = Cascade(2, [0, 0], 1.0, policy="USS-A", judge="score", scale=0.0)
    id = cascade.begin().id
    assert cascade.tell(id, "a").stage == 1
    for wrong, words in (("b", "needs the score"), (Scored("b", 7.0), "must be a probability")):
        with pytest.raises(ValueError, match=words):
            cascade.tell(id, wrong)
    with pytest.raises(ValueError, match="chances must be probabilities"):
        cascade.tell(id, Scored("b", 0.7, {"a": 1.5, "b": 0.7}))
    assert cascade.tell(id, Scored("b", 0.7, {"b": 0.7})).answer.label == "b"
    assert cascade.policy.chances[0].tolist() == [0.0, 0.7]


async def test_coroutines_and_threads():
    _, outputs, scores, _ = random_table(1, 3, 3, 60)
    stages = table_stages(outputs, scores)

    def awaited(stage):
        async def call(row):
            await asyncio.sleep(0)
            return stage(row)

        return call

    cascade = Cascade([stages[0], awaited(stages[1]), awaited(stages[2])], **COSTS, policy="USS-A", seed=1)
    with pytest.raises(ValueError, match="acall"):
        cascade(1)

    answers = await asyncio.gather(*[cascade.acall(row) for row in range(40)])
    assert [a.label for a in answers] == [outputs[row, a.arm] for row, a in enumerate(answers)]
    assert cascade.rounds == 40
    shared = Cascade(stages, **COSTS, policy="USS-A", seed=1)
    in_threads(4, lambda _: [shared(row) for row in range(30)])
    assert (shared.rounds, shared.pending, shared.policy.t) == (120, [], 120)
    assert int(shared.report().stopped.sum()) == 120


# -- labels, prices, words


def test_calibration_is_that_of_the_policy():
    cascade, stages, truth = made(rows=80)
    for row in range(30):
        cascade(row)
    policy = UssA(np.array([0.01, 0.03, 0.09]))
    rows = [[stage(row) for stage in stages] for row in range(40)]
    labels = np.array([[one.label for one in row] for row in rows])
    scores = np.array([[one.score for one in row] for row in rows])
    assert cascade.calibrate(range(40), truth[:40]) == 40
    policy.calibrate(labels, scores, truth[:40])
    assert np.allclose(cascade.policy.weights, policy.weights)
    assert cascade.policy.eta == policy.eta
    assert cascade.report().judge == "calibrated"
    assert "calibration error" in str(cascade.report())
    again, _, _ = made(rows=80)
    again.calibrate_outputs(labels, scores, truth[:40])
    assert np.array_equal(again.policy.weights, cascade.policy.weights)
    with pytest.raises(ValueError, match="calibrate is for a policy that judges"):
        Cascade(3, **COSTS, policy="Agreement").calibrate_outputs(labels, scores, truth[:40])
    waits = Cascade(stages, **COSTS, policy="USS-A", judge="calibrated", seed=0)
    with pytest.raises(ValueError, match="needs calibrate"):
        waits(3)
    assert waits.pending == []
    waits.calibrate(range(40), truth[:40])
    assert waits(3).id == 2


def test_recost_fits_again_to_the_new_prices():
    cascade, stages, _ = made(rows=200)
    for row in range(150):
        cascade(row)
    before = cascade.policy.rise.copy()
    cascade.recost([0.0, 0.0, 0.0], 100.0)
    assert cascade.policy.c.tolist() == [0.0, 0.0, 0.0]
    went = [cascade(row).arm for row in range(150, 200)]
    assert not np.array_equal(before, cascade.policy.rise)
    assert np.mean(went) > 1.0
    assert cascade.report().stage_costs.tolist() == [0.0, 0.0, 0.0]
    fixed = Cascade(stages, **COSTS, policy="Agreement")
    fixed.recost([1, 1, 1], 7)
    assert fixed(3).cost <= 3.0


def test_the_report_counts_what_happened():
    cascade, _, _ = made(rows=150)
    answers = [cascade(row) for row in range(150)]
    report = cascade.report()
    arms = np.array([a.arm for a in answers])
    assert report.stopped.tolist() == [int((arms == k).sum()) for k in range(3)]
    assert report.reached.tolist() == [int((arms >= k).sum()) for k in range(3)]
    changed = [sum(a.arm > k and a.outputs[k] != a.outputs[k + 1] for a in answers) for k in range(2)]
    assert report.changed.tolist() == changed
    judged = [sum(a.arm == 2 and a.outputs[k] != a.outputs[k + 1] for a in answers) for k in range(2)]
    assert report.judged_changes.tolist() == judged
    # the judge "last" believes the last answer and no other
    agreed = [
        sum(a.arm == 2 and a.outputs[k] != a.outputs[k + 1] == a.outputs[2] for a in answers)
        for k in range(2)
    ]
    assert report.agreed.tolist() == agreed
    assert report.spent == pytest.approx(sum(a.cost for a in answers))
    assert report.saved_alone == pytest.approx(150 * 9.0 - report.spent)
    text = str(report)
    assert text.splitlines()[-1] == (
        "The rule it learns can cost up to twice the error rate of the last stage more than the best one; "
        "calibrate(...) with some 30 labels lowers that."
    )
    assert "No scores" not in text
    data = report.to_dict()
    assert data["judge"] == "last"
    assert data["stopped"] == report.stopped.tolist()
    assert cascade.settled() == int(np.argmax(np.bincount(arms, minlength=3)))


def test_missing_scores_are_named():
    cascade = Cascade([lambda x: x % 2, lambda x: x % 3], [1, 2], 50, policy="USS-A", seed=0)
    for x in range(20):
        cascade(x)
    assert cascade.report().unscored == (0,)
    assert "No scores from stage 0" in str(cascade.report())
    other = Cascade([lambda x: x % 2, lambda x: x % 3], [1, 2], 50, policy="Agreement", seed=0)
    other(1)
    assert other.report().judge is None
    assert other.settled() == 1
    assert str(other.report()).splitlines()[-1].startswith("Nothing is known without labels")


def test_explanations_say_why_each_stage_was_asked():
    cascade, stages, _ = made()
    for row in range(30):
        answer = cascade(row)
        words = cascade.explain(answer.id)
        assert words.startswith(f"Decision {answer.id}: answered by stage {answer.arm} of 0 to 2 (USS-A).")
        for k in range(1, answer.arm + 1):
            assert f"Stage {k} was asked because going on was worth" in words
        if answer.arm < 2:
            assert f"Stage {answer.arm + 1} was not asked because" in words
        else:
            assert words.endswith("There is no further stage.")
    step = cascade.begin()
    assert "begun" in cascade.explain(step.id)
    with pytest.raises(UnknownDecision, match="cannot be explained"):
        cascade.explain(99)
    plain = Cascade(stages, **COSTS, policy="Agreement", seed=0)
    assert "Stage 1 was asked because the rule said so" in plain.explain(plain(3).id)


# -- states


@pytest.mark.parametrize("policy", ["USS-A", "USS-next", "Agreement", "FixedArm object", "UssA object"])
def test_a_cascade_saved_in_mid_round_goes_on(policy, tmp_path):
    costs = np.array([0.01, 0.03, 0.09])
    fresh = {"FixedArm object": lambda: FixedArm(costs, 2), "UssA object": lambda: UssA(costs)}.get(
        policy, lambda: policy
    )
    cascade, stages, _ = made(policy=fresh())
    for row in range(40):
        cascade(row)
    while True:
        open_step = cascade.tell(cascade.begin().id, stages[0](41))
        if open_step.answer is None:
            break
    cascade.save(tmp_path / "state.json")
    given = {"policy": fresh()} if policy == "UssA object" else {}
    twin = Cascade.load(tmp_path / "state.json", stages, **given)
    assert twin.core.opening == "begin"
    assert twin.state() == cascade.state()
    for one in (cascade, twin):
        step = one.tell(open_step.id, stages[1](41))
        while step.answer is None:
            step = one.tell(open_step.id, stages[step.stage](41))
    assert [cascade(row) for row in range(42, 80)] == [twin(row) for row in range(42, 80)]
    assert twin.state() == cascade.state()
    again = Cascade.from_state(twin.state(), **given)
    assert repr(again) == repr(twin)


def test_labels_told_before_a_restart_are_known_by_their_digests():
    cascade = Cascade(3, **COSTS, policy=FixedArm([0.01, 0.03, 0.09], 2))
    id = cascade.begin().id
    cascade.tell(id, "cat")
    cascade.tell(id, "dog")
    twin = Cascade.from_state(cascade.state())
    assert "cat" not in str(twin.state())
    answer = twin.tell(id, Scored("cat", 0.5, {"dog": 0.2, "cat": 0.5})).answer
    assert answer.outputs == (None, None, "cat")
    assert twin.report().changed.tolist() == [1, 1]
    lower = lambda a, b: a.lower() == b.lower()  # noqa: E731
    other = Cascade(3, **COSTS, policy="USS-A", compare=lower, scale=9.0, seed=1)
    id = next(i for i in iter(lambda: other.begin().id, None) if other.tell(i, "cat").answer is None)
    other = Cascade.from_state(other.state(), compare=lower)
    with pytest.raises(ValueError, match="compare needs the labels of the stages before"):
        other.tell(id, "Cat")


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body["core"]["ledger"]["pending"][0][1].update(stopped=True, told=[]),
        lambda body: body["core"]["ledger"]["pending"][0][1]["told"][0].update({"class": 3}),
        lambda body: body["core"]["ledger"]["pending"][0][1]["told"][0].update(score="x"),
        lambda body: body["core"]["ledger"]["pending"][0][1]["told"][0].update(cost=-1.0),
        lambda body: body["core"]["ledger"]["pending"][0][1]["told"].extend([{}]),
        lambda body: body["core"]["ledger"]["pending"].__setitem__(0, [1, 2]),
        lambda body: body.pop("setting"),
    ],
)
def test_a_damaged_state_is_refused(damage):
    from weakfeedback.live import StateError

    cascade = Cascade(3, **COSTS, policy=FixedArm([0.01, 0.03, 0.09], 2))
    cascade.tell(cascade.begin().id, Costed(Scored("cat", 0.5), 1.0))
    body = cascade.state()
    Cascade.from_state(body)
    damage(body)
    with pytest.raises(StateError):
        Cascade.from_state(body)
