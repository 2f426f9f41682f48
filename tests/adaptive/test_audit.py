"""The audit of a rule: paired differences against every fixed stage."""

import numpy as np
import pytest
from tests.adaptive.following import random_table
from tests.rig.refusals import refusals

from weakfeedback import Cascade, Costed, Scored
from weakfeedback.adaptive import AdaptiveProblem, FixedArm, Thresholds, UssA, audit_rule, audit_stops
from weakfeedback.adaptive.rules import threshold_stops


def test_costs_and_differences_are_those_of_a_slow_sum():
    luck = np.random.default_rng(0)
    wrong, stops, costs = luck.random((50, 3)) < 0.3, luck.integers(0, 3, 50), [1.0, 2.0, 5.0]
    found = audit_stops(stops, wrong, costs, error_cost=20.0)
    own = [20.0 * wrong[i, s] + sum(costs[: s + 1]) for i, s in enumerate(stops)]
    assert found.cost == pytest.approx(np.mean(own))
    for k in range(3):
        fixed = [20.0 * wrong[i, k] + sum(costs[: k + 1]) for i in range(50)]
        assert found.fixed_costs[k] == pytest.approx(np.mean(fixed))
        low, high = found.against[k]
        assert low < np.mean(own) - np.mean(fixed) < high
        assert found.bounds[k][0] < low
        assert high < found.bounds[k][1]
    assert found.stops == tuple(np.bincount(stops, minlength=3))


@pytest.mark.parametrize("n", [40, 200])
def test_the_intervals_hold_as_often_as_they_say(n):
    # 1500 audits at 95 %: if they held just as often, fewer than 93 % hold with probability 4e-4 (binomial).
    truth, outputs, scores, _ = random_table(3, 3, 3, 4000)
    costs, limits = np.array([0.01, 0.03, 0.09]), np.array([0.55, 0.7])
    problem = AdaptiveProblem(truth, outputs, scores, costs)
    stops, wrong = threshold_stops(problem._scores, limits), problem._wrong == 1
    excess = problem.threshold_cost(limits) - problem.fixed_costs
    luck, held, sure = np.random.default_rng(1), 0, 0
    for _ in range(1500):
        rows = luck.integers(0, 4000, n)
        found = audit_stops(stops[rows], wrong[rows], costs)
        held += all(low <= one <= high for one, (low, high) in zip(excess, found.against))
        sure += all(low <= one <= high for one, (low, high) in zip(excess, found.bounds))
    assert held >= 0.93 * 1500
    assert sure == 1500  # the inequality of Bernstein is far on the safe side here


def test_replaying_a_log_learns_on_the_way_and_sees_no_truth():
    truth, outputs, scores, _ = random_table(5, 3, 3, 300)
    costs = np.array([0.01, 0.03, 0.09])
    problem = AdaptiveProblem(truth, outputs, scores, costs)
    policy = UssA(costs)
    found = audit_rule(policy, problem)
    assert policy.t == 300
    other = AdaptiveProblem(np.roll(truth, 7), outputs, scores, costs)
    assert audit_rule(UssA(costs), other).stops == found.stops
    stays = UssA(costs)
    audit_rule(stays, problem, learn=False)
    assert stays.t == 0
    fixed = audit_rule(FixedArm(costs, 1), problem)
    assert fixed.cost == pytest.approx(problem.fixed_costs[1])
    assert fixed.fixed_costs == pytest.approx(problem.fixed_costs.tolist())
    low, high = fixed.against[1]
    assert low < 0.0 < high  # never certain, though all differences are 0
    limits = [0.6, 0.8]
    assert audit_rule(Thresholds(costs, limits), problem).cost == pytest.approx(
        problem.threshold_cost(limits)
    )


def test_a_rule_that_is_cheaper_and_one_that_is_dearer():
    wrong = np.array([[True, False]] * 60 + [[False, False]] * 140)
    cheap = audit_stops(wrong[:, 0].astype(int), wrong, [0.01, 0.1])
    assert cheap.verdict == "cheaper than every fixed stage"
    dear = audit_stops(1 - wrong[:, 0].astype(int), wrong, [0.01, 0.1])
    assert dear.verdict == "dearer than a fixed stage"
    assert audit_stops([0, 1], [[True, False], [False, False]], [0.01, 0.1]).verdict == "undecided"
    assert "stage 1:" in str(dear)


test_wrong_arguments_are_refused = refusals(
    lambda arguments: audit_stops(*arguments),
    (([0], [[True, False]], [1, 2]), "wrong must be bools of shape"),
    (([0, 2], [[True, False]] * 2, [1, 2]), "stops must be 2 integers from 0 to 1"),
    (([0, 1], [[True, False]] * 2, [1, 2], 1.0), "alpha must be"),
    (([0, 1], [[True, False]] * 2, [1, -2]), "costs must be"),
)


# -- of a live cascade


def test_a_live_audit_changes_nothing_and_is_that_of_its_rule():
    truth, outputs, scores, _ = random_table(6, 3, 3, 200)
    stages = [lambda row, k=k: Scored(int(outputs[row, k]), float(scores[row, k])) for k in range(3)]
    live = Cascade(stages, [1, 3, 9], error_cost=100, policy="USS-A", seed=4)
    for row in range(100):
        live(row)
    before = live.state()
    found = live.audit(range(100, 200), truth[100:])
    assert live.state() == before
    assert found.spent == 1300.0
    assert live.audit(range(100, 200), lambda row: truth[row]) == found
    rows = [[stage(row) for stage in stages] for row in range(100, 200)]
    again = live.audit_outputs(rows, truth[100:])
    assert (again.against, again.spent) == (found.against, 0.0)
    thresholds = Cascade(stages, [1, 3, 9], 100, policy="Thresholds", thresholds=[0.6, 0.8])
    problem = AdaptiveProblem(truth, outputs, scores, [0.01, 0.03, 0.09])
    assert thresholds.audit(range(200), truth).cost == pytest.approx(100 * problem.threshold_cost([0.6, 0.8]))
    with pytest.raises(ValueError, match="arm must be left out"):
        live.audit(range(10), truth[:10], arm=1)
    with pytest.raises(ValueError, match="at least two samples"):
        live.audit([1], truth[:1])


def test_costs_that_calls_tell_are_counted():
    stages = [lambda x: Costed(0, 0.5), lambda x: Costed(1, 2.0)]
    live = Cascade(stages, [1, 3], error_cost=100, policy=FixedArm([0.01, 0.03], 1))
    found = live.audit(range(10), [1] * 10)
    assert (found.cost, found.fixed_costs) == (2.5, (100.5, 2.5))
    assert found.bounds is None
