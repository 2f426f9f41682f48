"""Real numbers: the rivals of the promise, the best rule in hindsight, and what the tables say."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from weakfeedback.datasets.answers import CHAINS, Answers
from weakfeedback.engine.results import Results
from weakfeedback.routing import PayToCompare
from weakfeedback.routing.answering import RoutedAnswers
from weakfeedback.thesis.beyond import last_stage, recorded
from weakfeedback.thesis.beyond.recorded import RECORDED, TABLES, best_limit, identity, named
from weakfeedback.thesis.beyond.rivals import OfflineRule


def calibrated(scores, differ, **options):
    """A rule of two models after its sample: the cheap one costs a tenth of the reference."""
    rule = OfflineRule([1, 10], sample=len(scores), **options)
    for score, one in zip(scores, differ):
        assert rule.next_stage(-1, [], [], None) == 0
        assert rule.next_stage(0, [one], [score], None) == 1
        assert rule.next_stage(1, [one, 0], [score, 1.0], None) == -1
        rule.update(1, np.array([one, 0]), np.array([score, 1.0]), None, None)
    return rule


def test_an_empirical_rule_takes_the_lowest_threshold_that_its_sample_allows():
    scores, differ = np.linspace(1.0, 0.0, 310), np.zeros(310, dtype=int)
    differ[[150, 200, 250]] = 1
    rule = calibrated(scores, differ, agree=0.99)
    assert (scores >= rule.limit).sum() == 310  # 3 of 310 are allowed
    differ[[260, 270]] = 1
    rule = calibrated(scores, differ, agree=0.99)
    assert differ[scores >= rule.limit].sum() == 3
    assert rule.next_stage(-1, [], [], None) == 0
    assert rule.next_stage(0, [0], [rule.limit], None) == -1
    assert rule.next_stage(0, [0], [rule.limit - 1e-9], None) == 1
    assert rule.next_stage(0, [0], [np.nan], None) == 1


@pytest.mark.parametrize("agree", [0.95, 0.98])
def test_a_tested_rule_makes_exact_binomial_tests(agree):
    rule = OfflineRule([1, 5, 10], agree, sample=400, delta=0.05)
    for differing in range(40):
        expected = binom.cdf(differing, 400, 1.0 - agree) <= 0.025
        assert rule.is_allowed(float(differing)) == expected
    few = calibrated(np.linspace(1.0, 0.0, 100), np.zeros(100, dtype=int), agree=0.98, delta=0.05)
    assert few.model == -1  # without a difference in 100: .98^100 is above 5 %
    assert few.next_stage(-1, [], [], None) == 1


def test_a_tested_rule_stops_at_the_first_failure():
    scores, differ = np.linspace(1.0, 0.0, 1000), np.zeros(1000, dtype=int)
    differ[400:460] = 1
    rule = calibrated(scores, differ, agree=0.95, delta=0.05)
    assert differ[scores >= rule.limit].sum() <= 38  # binom.ppf(.05, 1000, .05) is 39


def test_the_router_decides_as_in_its_own_setting():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 400)
    answers = np.column_stack([np.where(rng.random(400) < q, 1 - truth, truth) for q in (0.2, 0.1, 0.05)])
    own, other = PayToCompare([0.01, 0.04, 0.12]), RoutedAnswers([0.01, 0.04, 0.12])
    several = 0
    for row in answers:
        call = own.select(None)
        own.start(call, None)
        own.update(call, row[call], None)
        seen, stage, called = np.full(3, -1), -1, []
        while (stage := other.next_stage(stage, seen, seen, None)) >= 0:
            seen[stage] = row[stage]
            called.append(stage)
        other.update(called[-1], seen, seen, None, None)
        assert called == np.flatnonzero(call).tolist()
        several += len(called) > 1
    assert several > 20
    assert (own.N == other.N).all()


def answers_of(outputs, scores=None, groups=None, prices=(1.0, 10.0)):
    outputs = np.array(outputs)
    return Answers(outputs[:, -1], outputs, scores, groups, ("a", "b"), prices)


def test_the_best_rule_in_hindsight():
    outputs = [[0, 0]] * 6 + [[1, 0]] + [[0, 0]] * 2 + [[1, 0]]
    scores = np.column_stack([np.arange(10.0, 0.0, -1.0), np.ones(10)])
    money, differ, accuracy = best_limit(answers_of(outputs, scores), 0.9)
    assert (money, differ) == pytest.approx((0.1 + 0.1, 0.1))  # all but the last row stop
    assert accuracy == pytest.approx(-0.1)
    tied = scores.copy()
    tied[5:, 0] = 0.0  # five rows together, two of which differ
    assert best_limit(answers_of(outputs, tied), 0.9)[:2] == pytest.approx((0.6, 0.0))
    groups = np.array(["x"] * 6 + ["y"] * 4)
    money, differ, _ = best_limit(answers_of(outputs, groups=groups), 0.9)
    assert (money, differ) == pytest.approx((1.0 - 0.8 * 0.9, 0.1))  # x whole, and a half of y
    assert best_limit(answers_of([[1, 0]] * 4), 0.9)[0] == pytest.approx(1.0 - 0.1 * 0.9)
    dear = answers_of([[1, 0]] * 4, np.ones((4, 2)))
    assert best_limit(dear, 0.9) == (1.0, 0.0, 0.0)


def made_up(name, length, numbers):
    """Results of two runs: money and share that differs of every policy, as the policies of a set."""
    rows = []
    for label in RECORDED[identity(name, length)].policies:
        money, differ = numbers.get(label, (1.0, (0.0, 0.0)))
        for run, share in enumerate(differ):
            values = {"spent": money * 0.1 * length, "differs": share * length, "errors": 0.3 * length}
            rows.append({"policy": label, "replication": run, "round": length, "regret": 0.0, **values})
    frame = pd.DataFrame(rows)
    frame["policy"] = pd.Categorical(frame["policy"], categories=list(dict.fromkeys(frame["policy"])))
    return Results(frame, {}, {"horizon": length})


NUMBERS = {
    "Promise, .95": (0.7, (0.03, 0.06)),
    "C3PO-like, .95": (0.5, (0.07, 0.06)),
    "BARGAIN-like, .95": (0.6, (0.01, 0.02)),
    "Thresholds, .9": (0.9, (0.03, 0.01)),
}


@pytest.fixture
def run():
    return {identity("rafdb", 10_000): made_up("rafdb", 10_000, NUMBERS)}


def rows_of(table, run):
    (found,) = [one for one in TABLES if one.id == table]
    rows = found.rows(run)
    assert all(len(row) == len(found.columns) for row in rows)
    return {row[0]: row[1:] for row in rows}


def test_every_way_has_money_differences_accuracy_and_broken_promises(run):
    rows = rows_of("beyond-table-recorded-10000", run)
    right = recorded.known("rafdb")[0][-1][3]
    points = f"{100 * (0.7 - right):.1f}".replace("-", "−")
    assert rows["rafdb, Promise, .95"] == [0.7, "4.5", points, "6.0", "1 of 2", ""]
    assert rows["rafdb, Thresholds, .9"] == [0.9, "2.0", points, "3.0", "0 of 2", "1 of 2"]
    assert rows["rafdb, FrugalML, as published, with 7,670 labels"][0] == 0.43
    assert f"rafdb, {named(recorded.ORACLE, 0.95)}" in rows
    assert rows_of("beyond-table-recorded-1000", run) == {}


def test_the_tally_and_the_losses(run):
    rows = rows_of("beyond-table-recorded", run)
    assert rows["10,000, .95: Promise"][:3] == [0.7, "", "4.5"]
    assert rows["10,000, .95: Promise"][-1] == "1 of 2"
    assert rows["10,000, .98: Thresholds, .9"][-1] == "1 of 2"
    losses = rows_of("beyond-table-recorded-losses", run)
    assert losses["10,000, .95: BARGAIN-like"] == [1, "1: rafdb 0.60/0.70", "none"]
    assert losses["10,000, .95: C3PO-like"] == [1, "none", "1: rafdb 0.50/0.70"]
    assert losses["10,000, .95: Thresholds, .9"] == [1, "none", "none"]


def test_each_model_alone(run):
    rows = rows_of("beyond-table-recorded-alone", run)
    assert rows["rafdb, microsoft"][:2] == [1.0, "0.0"]
    assert rows["rafdb, github-cnn"] == [0.0001, *rows["rafdb, github-cnn"][1:2], "60.4"]


def test_all_sets_at_both_lengths_with_all_rivals():
    assert set(RECORDED) == {identity(name, length) for name in CHAINS for length in (10_000, 1_000)}
    for experiment in RECORDED.values():
        assert {
            *("Promise, .95", "Promise, .98", "C3PO-like, .95", "C3PO-like, .98", "BARGAIN-like, .95"),
            *("BARGAIN-like, .98", recorded.ROUTER, "USS-A, last", "USS-TS", "Agreement"),
            *("Thresholds, .9", "Thresholds, .7"),
        } <= set(experiment.policies)
    assert sum("USS-A, score" in experiment.policies for experiment in RECORDED.values()) == 12


def test_a_last_stage_that_is_not_the_best():
    for name in last_stage.DEAREST:
        problem = last_stage.problem_of(name, 0.1)
        assert problem.costs.sum() == pytest.approx(0.1)
        assert problem.errors[-2] == problem.errors.min() < problem.errors[-1]
    (experiment,) = [one for one in last_stage.LAST.values() if one.id == "beyond-last-yelp-2"]
    fixed, _ = last_stage.known("yelp", 0.1)
    frame = pd.DataFrame(
        {"policy": label, "replication": 0, "round": 100, "regret": 0.0, "total_cost": 200 * fixed}
        for label in experiment.policies
    ).astype({"policy": pd.CategoricalDtype(list(experiment.policies))})
    results = Results(frame, {}, {"horizon": 100})
    (row,) = last_stage.last_rows({experiment.id: results})
    assert row == ["yelp, baidu last, 0.1", "4.3", "48.4", 2.0, 2.0, 2.0]


def test_where_weak_dominance_fails_is_computed():
    *rows, total = last_stage.dominance_rows({})
    assert [row[0] for row in rows] == list(CHAINS)
    for k, count in enumerate(total[1:], start=1):
        assert count == sum(row[k] == "fails" for row in rows)
    # two models: it holds if the dearer one is best, or if its price exceeds all disagreement
    (cheap, _, differ, right), (_, _, _, best) = recorded.known("routellm-gsm8k")[0]
    price = 0.3 * (1.0 - recorded.known("routellm-gsm8k")[0][0][1])
    assert last_stage.fails("routellm-gsm8k", 0.3) == (best - right < price < differ), cheap
