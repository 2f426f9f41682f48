"""Answers that are numbers in live cascades: squared errors, what is learned, saved and said."""

import math
import re

import numpy as np
import pytest
from tests.live import inside

from weakfeedback import Cascade, ContextualCascade
from weakfeedback import contextual as contextual_policy
from weakfeedback.cascade import UssMean
from weakfeedback.cascade.movement import PROMISE, calibration, chain

RNG = np.random.default_rng(0)
# each stage knows more of the truth
TABLE = np.cumsum(RNG.normal(size=(600, 4)) * [1.0, 0.4, 0.2, 0.1], axis=1)
STAGES = [lambda row, k=k: float(TABLE[row, k]) for k in range(3)]
TERMS = {"stage_costs": [0.0, 0.2, 0.3], "error_cost": 20.0, "loss": "squared", "scale": 3.0, "seed": 3}


def made(**changes):
    return Cascade(STAGES, **{**TERMS, **changes})


@pytest.mark.parametrize("compiled", [False, True])
def test_it_plays_uss_mean_on_the_movements(compiled):
    cascade, rng = made(compiled=compiled), np.random.Generator(np.random.PCG64(3))
    policy = UssMean(np.cumsum(TERMS["stage_costs"]) / 20.0, scale=3.0)
    for row in range(300):
        arm = policy.select(rng)
        policy.update(arm, TABLE[row, : arm + 1], rng)
        assert cascade(row).arm == arm
    assert np.array_equal(cascade.policy.n, policy.n)
    assert cascade.policy.total == pytest.approx(policy.total)
    assert inside.rng(cascade).bit_generator.state == rng.bit_generator.state  # no coins
    assert cascade.settled() == policy.best_guess()


def test_a_metric_is_learned_as_it_is():
    cascade = made(loss=None, scale=None, metric=lambda a, b: min(abs(a - b) / 9, 1.0))
    rng = np.random.default_rng(3)
    policy = UssMean(np.cumsum(TERMS["stage_costs"]) / 20.0)
    for row in range(200):
        arm = policy.select(rng)
        policy.update_pairs(arm, np.minimum(abs(TABLE[row, :3, None] - TABLE[row, :3]) / 9, 1.0), rng)
        assert cascade(row).arm == arm
    report = cascade.report()
    assert report.disagreement[0, 1] == pytest.approx(policy.total[0, 1] / policy.n[0, 1])
    assert "answers are apart, on average" in str(report)
    assert cascade.certificate().intervals[0, 1][0] < report.disagreement[0, 1]  # a metric bounds errors


@pytest.mark.parametrize("compiled", [False, True])
def test_stopping_in_the_middle_makes_no_difference(tmp_path, compiled):
    through, stopped = made(), made(compiled=compiled)
    through.warm_start(TABLE[:20, :3])
    stopped.warm_start(TABLE[:20, :3])
    for start in range(0, 150, 50):
        stopped.save(tmp_path / "state")
        stopped = Cascade.load(tmp_path / "state", STAGES, compiled=compiled)
        rows = range(start, start + 50)
        assert [through(row) for row in rows] == [stopped(row) for row in rows]
    assert through.state() == stopped.state()
    assert str(through.report()) == str(stopped.report())


def test_a_journal_learns_the_movements_again(tmp_path):
    with Cascade.open(tmp_path / "journal", STAGES, **TERMS) as cascade:
        cascade.warm_start(TABLE[:20, :3])
        answers = [cascade(row) for row in range(100)]
        state = cascade.state()
    with Cascade.open(tmp_path / "journal", STAGES, **TERMS) as again:
        assert again.state()["numbers"] == state["numbers"]
        assert again.state()["core"]["generator"] == state["core"]["generator"]
    with pytest.raises(ValueError, match=r"scale must be 3\.0, as in"):
        Cascade.open(tmp_path / "journal", STAGES, **{**TERMS, "scale": 4.0})
    by_pairs = made()
    by_pairs.warm_start(TABLE[:20, :3])
    for answer in answers:
        decision = by_pairs.decide()
        moved = [
            min(((a - b) / 3.0) ** 2, 1.0)
            for i, a in enumerate(answer.outputs)
            for b in answer.outputs[i + 1 :]
        ]
        assert decision.arm == answer.arm
        assert by_pairs.feedback_pairs(decision.id, [], far=moved) == "accepted"
    assert by_pairs.state()["numbers"] == state["numbers"]


def test_the_report_checks_the_chain_and_says_what_it_rests_on():
    cascade = made(policy="Fixed", arm=2)
    for row in range(100):
        cascade(row)
    report, table = cascade.report(), chain(TABLE[:100, :3], scale=3.0)
    for pair, (mean, low, high) in report.numbers.chain.movements.items():
        assert (mean, low, high) == pytest.approx(table.movements[pair])
    assert report.numbers.chain.gaps[0, 1, 2] == pytest.approx(table.gaps[0, 1, 2])
    assert report.disagreement[0, 2] == pytest.approx(table.movements[0, 2][0])
    assert report.certificate is None
    assert str(report).endswith(f"The chains add up. {PROMISE}")
    assert f"{report.disagreement[0, 1]:.3g}" in str(report)
    raw = made()
    raw.warm_start(TABLE[:100, [0, 1, 0]])  # the last stage forgets what the second has found
    assert raw.report().numbers.chain.broken == ((0, 1, 2),)
    assert "some stage is not calibrated, so the saving cannot be trusted" in str(raw.report())
    assert math.isnan(made().report().disagreement[0, 1])
    assert str(made().report()).endswith(PROMISE)


def test_an_explanation_speaks_of_movements():
    cascade = made(policy="Fixed", arm=2)
    for row in range(50):
        answer = cascade(row)
    words = cascade.explain(answer.id)
    assert re.search(
        r"stages 0 and [12] were 0\.0\d+ apart on average in 49 comparisons \(0\.0\d+ to 0\.0\d+\)", words
    )
    assert "worth it if it improves the answers by more than 0.0" in words


def test_calibration_takes_labels():
    cascade = made()
    found = cascade.calibration(range(200), TABLE[:200, 3])
    assert found == calibration(TABLE[:200, 3], TABLE[:200, :3], scale=3.0)
    assert cascade.rounds == 0
    for wrong, words in [
        (lambda: Cascade(STAGES, [0, 1, 1], 9).calibration([1], [1]), "give loss='squared'"),
        (lambda: cascade.calibration(range(3), [1.0, 2.0]), "truth must be"),
        (lambda: cascade.calibration(range(3), [1.0, 2.0, "x"]), "answers must be finite numbers"),
        (lambda: made(combine=None).audit([1], [1.0], arm=0), "use calibration"),
        (cascade.certificate, "certificate is not offered for loss='squared'"),
    ]:
        with pytest.raises(ValueError, match=re.escape(words)):
            wrong()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "absolute"}, "loss must be 'squared' or None, got 'absolute'"),
        ({"scale": None}, "loss='squared' needs scale="),
        ({"scale": 0}, "scale must be"),
        ({"loss": None}, "scale is not an option of USS-WD-TS"),
        ({"metric": max}, "metric must be left out with loss='squared'"),
        ({"compare": max}, "compare must be left out with loss='squared'"),
        ({"policy": "USS-WD"}, "loss must not be given with USS-WD, which is for labels"),
        ({"policy": "Q-USS", "label_price": 1}, "loss must not be given with Q-USS, which is for labels"),
        ({"policy": "USS-A"}, "loss must be left out for a policy that decides after every answer"),
    ],
)
def test_wrong_arguments_are_refused(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        made(**changes)


@pytest.mark.parametrize("answer", ["a", None, math.nan, math.inf, 10**400, 1j])
def test_answers_must_be_numbers(answer):
    cascade = made()
    decision = cascade.decide()
    assert decision.arm == 2
    before = cascade.state()
    with pytest.raises(ValueError, match="answers must be finite numbers for loss='squared'"):
        cascade.feedback(decision.id, [0.0, answer, 1.0])
    assert cascade.state() == before
    assert cascade.feedback(decision.id, [0, np.float32(0.5), True]) == "accepted"


def test_other_policies_of_contexts_learn_movements_by_coins(tmp_path):
    cascade = ContextualCascade(STAGES, **TERMS, policy="USS-PD", compiled=True)
    for row in range(120):
        cascade(row, context=[TABLE[row, 0] / 5])
    cascade.save(tmp_path / "state")
    again = ContextualCascade.load(tmp_path / "state", STAGES)
    assert again.report().to_dict() == cascade.report().to_dict()
    report = cascade.report()
    assert report.comparisons[0, 2] > 20
    assert 0.0 < report.disagreement[0, 2] < 0.1
    assert PROMISE in str(report)
    assert report.numbers.chain is None
    drawn = again(200, context=[0.1]), cascade(200, context=[0.1])
    assert drawn[0] == drawn[1]
    assert inside.rng(again).bit_generator.state == inside.rng(cascade).bit_generator.state


DISTANCE = {"loss": None, "scale": None, "metric": lambda a, b: min(abs(a - b) / 9, 1.0)}


def contextual(**changes):
    return ContextualCascade(STAGES, **{**TERMS, "features": lambda X: X, **changes})


def looked_at(row):
    return np.array([1.0, TABLE[row, 0]])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("changes", [{}, DISTANCE])
def test_contexts_learn_distances_as_they_are(changes, compiled):
    cascade, rng = contextual(**changes, compiled=compiled), np.random.default_rng(3)
    policy = contextual_policy.UssMean(np.cumsum(TERMS["stage_costs"]) / 20.0, 2, scale=3.0)
    apart = changes.get("metric", lambda a, b: min(((a - b) / 3.0) ** 2, 1.0))
    cascade.warm_start([looked_at(row) for row in range(20)], TABLE[:20, :3])
    for row in range(200):
        moved = np.array([[apart(a, b) for b in TABLE[row, :3]] for a in TABLE[row, :3]])
        if row < 20:
            policy.update_pairs(looked_at(row), 2, moved, None)
            continue
        arm = policy.select(looked_at(row), rng)
        policy.update_pairs(looked_at(row), arm, moved, None)
        assert cascade(row, context=looked_at(row)).arm == arm
    assert inside.rng(cascade).bit_generator.state == rng.bit_generator.state  # no coins
    assert cascade.policy.theta == pytest.approx(policy.theta)
    report = cascade.report()
    assert ("answers are apart" if changes else "answers move, squared") in str(report)
    assert (PROMISE in str(report)) == (not changes)
    last = cascade.explain(179)
    assert re.search(
        r"are estimated to be 0\.\d+ apart on average, at most 0\.\d+: (far enough|too little)", last
    )
    means = report.disagreement
    C = policy.C
    first = next(i for i in range(3) if all(C[j] - C[i] > means[i, j] for j in range(i + 1, 3)))
    assert cascade.settled() == first


@pytest.mark.parametrize("changes", [{}, DISTANCE])
def test_contexts_with_numbers_are_saved_and_opened_again(tmp_path, changes):
    given = {"features": lambda X: X, **({"metric": changes["metric"]} if changes else {})}
    through = contextual(**changes)
    with ContextualCascade.open(tmp_path / "j", STAGES, **{**TERMS, **given, **changes}) as journalled:
        for row in range(60):
            assert through(row, context=looked_at(row)) == journalled(row, context=looked_at(row))
    through.save(tmp_path / "state")
    loaded = ContextualCascade.load(tmp_path / "state", STAGES, **given)
    assert loaded.state() == through.state()
    with ContextualCascade.open(tmp_path / "j", STAGES, **{**TERMS, **given, **changes}) as journalled:
        for row in range(60, 100):
            found = through(row, context=looked_at(row))
            assert found == loaded(row, context=looked_at(row)) == journalled(row, context=looked_at(row))
    other = {"features": given["features"], **({} if changes else {"metric": abs})}
    with pytest.raises(ValueError, match="metric must be given if and only if it was"):
        ContextualCascade.load(tmp_path / "state", STAGES, **other)


def test_contexts_tell_how_calibrated_the_stages_are():
    assert contextual().calibration(range(200), TABLE[:200, 3]) == made().calibration(
        range(200), TABLE[:200, 3]
    )
    with pytest.raises(ValueError, match="squared"):
        contextual(**DISTANCE).calibration(range(200), TABLE[:200, 3])


def test_what_contexts_refuse_of_a_metric():
    with pytest.raises(ValueError, match="metric must be a callable"):
        contextual(loss=None, scale=None, metric=3)
    with pytest.raises(ValueError, match="metric must not be given together with compare"):
        contextual(**{**DISTANCE, "compare": lambda a, b: a == b})
    with pytest.raises(ValueError, match="metric must be left out with loss='squared'"):
        contextual(metric=DISTANCE["metric"])


def test_the_report_of_contexts_bounds_what_is_lost_without_weak_dominance():
    """By hand: where the second stage is settled on it may cost 19 + 100 p more than the first."""
    cascade = ContextualCascade([lambda x: 0, lambda x: int(x[0] > 0)], [1, 19], error_cost=100, seed=0)
    assert cascade.report().lost_at_most is None
    contexts = np.random.default_rng(0).uniform(-1, 1, size=(400, 1))
    for x in contexts:
        cascade(x)
    found = cascade.report().lost_at_most
    policy = cascade.policy
    p = 1 / (1 + np.exp(-policy.past[: policy.t] @ policy.theta[0]))
    assert found == pytest.approx(float(np.where(p >= 0.19, 19 + 100 * p, 0.0).mean()))
    assert 40 < found < 70
    assert "Where weak dominance fails, at most" in str(cascade.report())
