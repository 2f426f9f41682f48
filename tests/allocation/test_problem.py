"""Allocation problems: optimal sets, residuals, gaps and predicates, against hand and brute force."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rig.refusals import refusals

from weakfeedback.allocation import AllocationProblem
from weakfeedback.allocation.instances import describe, load, names
from weakfeedback.allocation.play import play

EXAMPLE = ([0.9, 0.6, 0.4], [0.6, 0.55, 0.45], 1.0)


def feasible(problem):
    """Every set of arms that some allocation serves, with its value and the budget it leaves."""
    for flags in itertools.product((False, True), repeat=problem.arms):
        served = np.array(flags, dtype=bool) | (problem.thresholds <= 0.0)
        left = problem.budget - problem.thresholds[served].sum()
        if left >= -1e-9 * problem.budget:
            yield served, problem.means[served].sum(), left


def test_the_example_of_the_thesis():
    # {1} is worth .9, {2, 3} .6 + .4 = 1 and weighs .55 + .45 = 1; {1, 2} and {1, 3} do not fit
    problem = AllocationProblem(*EXAMPLE)
    assert problem.optimal_allocation.tolist() == [0.0, 0.55, 0.45]
    assert problem.optimal_value == pytest.approx(1.0)
    assert (problem.residual, problem.gamma) == (0.0, 0.0)
    assert problem.largest_gap == pytest.approx(1.0)
    assert problem.smallest_gap == pytest.approx(0.1)  # {1} instead
    # losses: arm 1 not served and not optimal: {2}: .4; arm 2 not served: {1}: .1; arm 3 not served: {1}: .1
    assert problem.arm_gaps.tolist() == pytest.approx([0.4, 0.1, 0.1])
    # rewards: arm 1 served: {1}: .1; arm 2 served: {2}: .4; arm 3 served: {3}: .6
    rewards = AllocationProblem(*EXAMPLE, setting="reward")
    assert rewards.arm_gaps.tolist() == pytest.approx([0.1, 0.4, 0.6])
    assert problem.most_served == 2


def test_the_residual_is_the_largest_of_the_optimal_sets():
    # {1} and {2} are both optimal; the second leaves .7
    problem = AllocationProblem([0.5, 0.5], [0.8, 0.3], 1.0)
    assert problem.optimal_set.tolist() == [False, True]
    assert problem.residual == pytest.approx(0.7)
    assert problem.gamma == pytest.approx(0.35)


@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(["loss", "reward"]))
@settings(max_examples=120, deadline=None)
def test_quantities_by_brute_force(seed, K, setting):
    rng = np.random.default_rng(seed)
    budget = round(rng.uniform(0.5, 2.0), 1)
    thresholds = np.minimum(rng.uniform(0.0, 1.0, K).round(1), budget)
    problem = AllocationProblem(rng.uniform(0.0, 1.0, K).round(1), thresholds, budget, setting)
    sets = list(feasible(problem))
    best = max(value for _, value, _ in sets)
    assert problem.optimal_value == pytest.approx(best, abs=1e-12)
    left = max(left for _, value, left in sets if value >= best - 1e-9)
    assert problem.residual == pytest.approx(max(left, 0.0), abs=1e-9)
    gaps = [(served, best - value) for served, value, _ in sets]
    assert problem.largest_gap == pytest.approx(max(gap for _, gap in gaps), abs=1e-12)
    positive = [(served, gap) for served, gap in gaps if gap > 1e-9]
    smallest = min((gap for _, gap in positive), default=math.inf)
    assert problem.smallest_gap == pytest.approx(smallest, abs=1e-12)
    for i in range(K):
        # the outcome of arm i is incurred: a loss when it is not served, a reward when it is
        own = [gap for served, gap in positive if served[i] == (setting == "reward")]
        assert problem.arm_gaps[i] == pytest.approx(min(own, default=math.inf), abs=1e-12)
    assert problem.most_served == max(served.sum() for served, _, _ in sets)


def test_distinct_thresholds():
    problem = AllocationProblem([0.5] * 4, [0.3, 0.301, 0.309, 0.31], 2.0)
    assert problem.distinct(0.01) == 2  # 30, then 31 three times; .3 / .01 is 30 in spite of doubles
    assert problem.distinct(0.001) == 4
    with pytest.raises(ValueError, match="gamma must be a finite number > 0, got 0"):
        problem.distinct(0)


def test_equivalence_accepts_what_is_really_equivalent_only():
    problem = AllocationProblem([0.5, 0.4, 0.3], [0.4, 0.4, 0.4], 1.0)  # two can be served
    useless = [0.38, 0.38, 0.38]  # two again, but none of them really
    assert problem.equivalent(useless)
    assert not problem.really_equivalent(useless)
    for good in ([0.4, 0.4, 0.4], [0.5, 0.5, 0.5], [0.45, 0.55, 0.99]):
        assert problem.equivalent(good)
        assert problem.really_equivalent(good)
    assert not problem.equivalent([0.3, 0.3, 0.3])  # three
    # too low where it does not matter: arm 3 is not in the optimal set anyway
    assert problem.really_equivalent([0.4, 0.4, 0.35])
    # not even the value is kept, yet what is played is optimal
    assert not problem.equivalent([0.4, 0.4, 0.1])
    assert problem.really_equivalent([0.4, 0.4, 0.1])


def test_hopeless_does_not_mean_that_only_theta_is_equivalent():
    # the thesis says so of gamma = 0; the arm outside the optimum may be over-estimated
    problem = AllocationProblem(*EXAMPLE)
    assert problem.gamma == 0.0
    assert problem.really_equivalent([0.9, 0.55, 0.45])


def test_the_tolerance_of_thresholds():
    # in doubles 1.2 / 3 < .4
    assert 1.2 / 3 < 0.4
    problem = AllocationProblem([0.5] * 4, [0.4] * 4, 1.2)
    assert problem.optimal_set.sum() == 3
    assert problem.really_equivalent([1.2 / 3] * 4)


# I, II: floor(15 / .5) = 30 arms fill the budget. NUM1: floor(20 / .7) = 28, r = 20 - 19.6 = .4.
# III: all but the arms of means .98 and .2: .65 + .55 + .3 + .46 + .37 + .07 + .25 + .3 = 2.95, r = .05.
# NUM2: .7 + .7 + .6 = 2. NUM3: all but .98 and .2 weigh .6 + .55 + .3 + .46 + .34 + .07 + .3 + .25 = 2.87, but
# with .2 for .11 it is 3.
@pytest.mark.parametrize(
    ("name", "arms", "served", "gamma"),
    [
        ("I", 50, 30, 0.0),
        ("II", 50, 30, 0.0),
        ("III", 10, 8, 0.005),
        ("NUM1", 50, 28, 0.008),
        ("NUM2", 5, 3, 0.0),
        ("NUM3", 10, 8, 0.0),
    ],
)
def test_instances(name, arms, served, gamma):
    problem = load(name)
    assert (problem.arms, problem.optimal_set.sum()) == (arms, served)
    assert problem.gamma == pytest.approx(gamma, abs=1e-12)


def test_instance_iv():
    # four of threshold .55 and two of .3 weigh 2.8: .98 + .9 + .8 + .6 + .7 + .42 = 4.4, r = .2
    problem = load("iv")
    assert problem.optimal_value == pytest.approx(4.4)
    assert problem.gamma == pytest.approx(0.02)
    assert problem.distinct(0.01) == 2


def test_stated_gammas_that_are_too_large():
    too_large = [name for name in names() if (describe(name).stated_gamma or 0.0) > load(name).gamma + 1e-12]
    assert too_large == ["III", "NUM2", "NUM3"]


def test_instances_can_be_varied():
    assert load("II", budget=20.0).optimal_set.sum() == 40
    assert load("NUM1", threshold=0.5, rewards="uniform").law == "uniform"
    with pytest.raises(ValueError, match="threshold must be left out for III"):
        load("III", threshold=0.5)
    with pytest.raises(ValueError, match="instance 'V' is not known; did you mean"):
        load("V")


test_bad_arguments_are_told = refusals(
    lambda arguments: AllocationProblem(*arguments),
    (([], [], 1.0), "means must be a sequence of finite numbers"),
    (([1.2], [0.5], 1.0), "means must lie in"),
    (([0.5], [-0.5], 1.0), "thresholds must be 1 finite numbers >= 0"),
    (([0.5], [0.5, 0.5], 1.0), "thresholds must be 1 finite numbers"),
    (([0.5], [1.5], 1.0), "thresholds must be at most the budget 1, got"),
    (([0.5], [0.5], 0.0), "budget must be a finite number > 0, got 0.0"),
    (([0.5], [0.5], math.inf), "budget must be a finite number > 0, got inf"),
    (([0.5], [0.5], 1.0, "gain"), "setting must be 'loss' or 'reward', got 'gain'"),
    (([0.5], [0.5], 1.0, "loss", "normal"), "rewards must be 'bernoulli' or 'uniform', got 'normal'"),
)


def test_a_problem_cannot_be_changed():
    problem = AllocationProblem(*EXAMPLE)
    with pytest.raises(AttributeError, match="cannot be set"):
        problem.budget = 2.0
    for same in (problem, copy.deepcopy(problem), pickle.loads(pickle.dumps(problem))):
        with pytest.raises(ValueError, match="read-only"):
            same.means[0] = 0.1
        assert same.digest() == problem.digest()
    assert problem.digest() != AllocationProblem(*EXAMPLE, setting="reward").digest()
    assert problem.digest() != AllocationProblem(*EXAMPLE, rewards="uniform").digest()


def test_uniform_outcomes_are_clipped():
    # mu = .98: uniform on [.88, 1.08], clipped at 1 with probability .4: mean .6 x .94 + .4 = .964
    world = AllocationProblem([0.98, 0.5, 0.02], [0.5] * 3, 1.0, rewards="uniform").world()
    rng, outcomes = np.random.default_rng(0), np.empty(3)
    draws = []
    for _ in range(20_000):
        world.draw(outcomes, rng)
        draws.append(outcomes.copy())
    draws = np.array(draws)
    assert draws.min() == 0.0
    assert draws.max() == 1.0
    # the standard deviation of a mean is below .06 / sqrt(20000) = .0004; four of them fail once in 15 000 seeds
    assert draws.mean(axis=0) == pytest.approx([0.964, 0.5, 0.036], abs=0.0017)
    assert np.ptp(draws[:, 1]) <= 0.2


class Fixed:
    """Gives what it is told and notes what it is shown."""

    def __init__(self, *allocations):
        self.allocations = [np.array(allocation, dtype=float) for allocation in allocations]
        self.seen = []

    def select(self, rng):
        return self.allocations[len(self.seen)]

    def update(self, allocation, observed, rng):
        self.seen.append(observed.copy())


def run(problem, policy, rounds):
    counts = np.zeros(problem.arms + 4, dtype=np.int64)
    table = np.zeros((1, counts.size), dtype=np.int64)
    rngs = np.random.default_rng(0), np.random.default_rng(1)
    refused = play(policy, problem.world(), *rngs, np.array([rounds]), counts, table)
    return refused, counts


@pytest.mark.parametrize(
    "wrong",
    [
        [0.5, 0.5 + 2e-9],
        [-1e-12, 0.5],
        [math.nan, 0.5],
        [math.inf, 0.0],
        [0.5, 0.2, 0.1],
        [0.5],
    ],
)
def test_an_impossible_allocation_is_refused_and_nothing_applied(wrong):
    problem = AllocationProblem([1.0, 1.0], [0.4, 0.6], 1.0)
    policy = Fixed([0.4, 0.6], wrong)
    refused, counts = run(problem, policy, 2)
    assert refused == 2
    assert len(policy.seen) == 1
    assert counts.tolist() == [1, 1, 0, 0, 1, 1]


def test_what_is_shown_and_counted():
    # means 1: outcomes are always 1. Losses show where the threshold is not reached, rewards where it is.
    shares = [[0.4, 0.6], [0.39, 0.6], [0.4 - 1e-12, 0.6], [0.0, 0.0]]
    for setting, shown in (
        ("loss", [[0, 0], [1, 0], [0, 0], [1, 1]]),
        ("reward", [[1, 1], [0, 1], [1, 1], [0, 0]]),
    ):
        problem = AllocationProblem([1.0, 1.0], [0.4, 0.6], 1.0, setting)
        policy = Fixed(*shares)
        refused, counts = run(problem, policy, 4)
        assert refused == 0
        assert [seen.tolist() for seen in policy.seen] == shown
        assert counts.tolist() == [4, 4, 0, 0, 2, 3]
        measures = problem.measures(counts)
        # four rounds at 2, arm 1 served twice, arm 2 three times
        assert measures["regret"] == pytest.approx(8 - 5)
        assert math.isnan(measures["found_at"])
        assert measures["really_equivalent"] == 0


def test_measures_want_counts():
    with pytest.raises(ValueError, match=r"counts must be integers of shape \(..., 7\)"):
        AllocationProblem(*EXAMPLE).measures(np.zeros(7))
