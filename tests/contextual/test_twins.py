"""The policies, worlds and problems of chapter 3 against their slow twins, decision by decision."""

import numpy as np
import pytest
from scipy.special import expit
from tests.contextual.following import (
    BASELINES,
    EVERY_TIME,
    LEARNERS,
    SHARP,
    SLACK,
    Given,
    Tied,
    compare_bounds,
    compare_on_stream,
    compiled_runs,
    linear,
    random_problem,
    random_realizable,
    stream,
    teach,
)
from tests.reference import contextual as slow
from tests.reference import contextual_worlds as worlds

from weakfeedback.contextual import ContextualProblem, QuadraticFeatures, UssPd

HORIZON = 150


@pytest.mark.parametrize("seed", range(5))
def test_compiled_policies_decide_as_their_twins(seed):
    problem, reference = random_problem(seed, features=linear if seed else None)
    made = {label: tied.make(problem.costs, problem.dimension) for label, tied in LEARNERS.items()}
    found = compiled_runs(problem, {label: fast for label, (fast, _) in made.items()}, HORIZON, 1, seed)
    clear = []
    for label, (_, twin) in made.items():
        arms, regret = found[label, 0]
        follower = Given(arms, twin, SLACK)
        _, expected = worlds.slow_run(follower, reference, problem.features.tolist(), seed, 0, HORIZON)
        assert regret == pytest.approx(expected, abs=1e-6), label
        clear += follower.clear
    assert np.mean(clear) > 0.9


@pytest.mark.parametrize("per_pair", [False, True], ids=["one map", "map per pair"])
@pytest.mark.parametrize("seed", range(3))
def test_compiled_policies_decide_as_their_twins_from_disagreements(seed, per_pair):
    problem, reference = random_realizable(seed, ["signed", "absolute"][seed % 2], per_pair)
    chosen = [label for label in LEARNERS if "USS-PD" in label]
    made = {k: LEARNERS[k].make(problem.costs, problem.dimension, per_pair=per_pair) for k in chosen}
    found = compiled_runs(problem, {label: fast for label, (fast, _) in made.items()}, HORIZON, 1, seed)
    for label, (_, twin) in made.items():
        arms, regret = found[label, 0]
        follower = Given(arms, twin, SLACK)
        _, expected = worlds.slow_run(follower, reference, reference.phi, seed, 0, HORIZON)
        assert regret == pytest.approx(expected, abs=1e-6), label
        assert np.mean(follower.clear) > 0.8


@pytest.mark.parametrize("realizable", [False, True])
def test_baselines_and_worlds_draw_as_their_twins(realizable):
    for seed in range(4):
        problem, reference = random_realizable(seed) if realizable else random_problem(seed)
        # a fixed arm never looks at a context, and so not at the kind of world
        chosen = ["random"] if realizable else BASELINES
        policies = {label: BASELINES[label][0](problem.costs) for label in chosen}
        found = compiled_runs(problem, policies, 250, 2, seed)
        for (label, replication), (arms, regret) in found.items():
            twin = BASELINES[label][1](problem.costs.tolist())
            played, expected = worlds.slow_run(
                twin, reference, problem.features.tolist(), seed, replication, 250
            )
            assert arms == played, label
            assert regret == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("label", LEARNERS)
@pytest.mark.parametrize("arms", [2, 4])
def test_bounds_on_equal_histories_are_exact_when_every_observation_is_fitted(label, arms):
    costs = np.linspace(0.1, 1.0, arms)
    tied = LEARNERS[label]
    short = Tied(tied.fast, tied.twin, **tied.options | ({"forced": 6} if "forced" in tied.options else {}))
    one, twin = short.make(costs, 3, tolerance=EVERY_TIME)
    compare_on_stream(one, twin, 3 * arms, 2, 21, SHARP)


@pytest.mark.parametrize("label", ["USS-PD adaptive", "lambda alpha", "supervised adaptive"])
def test_estimates_stay_near_the_exact_ones_at_contexts_met(label):
    # what is stated is what is common, not a proven bound: a few contexts are further off
    stated = {0.5: 2e-3, 0.2: 5e-4}  # the error by the tolerance
    found = {tolerance: [] for tolerance in stated}
    for seed in range(3):
        policies = {one: LEARNERS[label].make([0.0, 0.4], 3, tolerance=one)[0] for one in stated}
        _, twin = LEARNERS[label].make([0.0, 0.4], 3)
        for phi, arm, outputs, truth in stream(seed, 2, 2, 300):
            for policy in (*policies.values(), twin):
                teach(policy, phi, arm, outputs, truth)
            if not twin.forced_phase():
                exact = [expit(phi @ model.estimate()) for model in twin.models.values()]
                for tolerance, policy in policies.items():
                    found[tolerance].append(np.max(np.abs(expit(policy.theta @ phi) - exact)))
    for tolerance, error in stated.items():
        assert np.quantile(found[tolerance], 0.9) <= error
        assert np.max(found[tolerance]) <= 5 * error


def test_feedback_may_come_late():
    # the decision of a feedback is the one given with it; t counts feedbacks
    for label in ("USS-PD", "lambda beta", "supervised"):
        one, twin = LEARNERS[label].make([0.0, 0.3, 0.6], 3)
        waiting = []
        for phi, arm, outputs, truth in stream(5, 2, 3, 60):
            one.select(phi, None)
            waiting.append((phi, arm, outputs, truth))
            if len(waiting) > 4:
                teach(one, *waiting[-3])
                teach(twin, *waiting.pop(-3))
        one.select(phi, None)
        assert not twin.forced_phase()
        compare_bounds(one, twin, phi, SLACK)


def test_a_tie_is_not_accepted():
    # at phi = 0 the bound is mu(0) = 1/2, for the difference of two errors it is 0, whatever was seen
    for label, tied in LEARNERS.items():
        tie = 0.0 if "supervised" in label else 0.5
        for cost, arm in ((tie, 1), (np.nextafter(tie, 1), 0)):
            one, twin = tied.make([0.0, cost], 3)
            for what in stream(2, 2, 2, 80):
                teach(one, *what)
                teach(twin, *what)
            assert not twin.forced_phase()
            assert one.select(np.zeros(3), None) == twin.select(np.zeros(3), None) == arm, label


@pytest.mark.parametrize("seed", range(8))
def test_problems_agree_with_the_written_out_law(seed):
    problem, reference = random_problem(seed)
    for row in range(len(problem.contexts)):
        assert problem.errors_at(row) == pytest.approx(reference.errors_at(row), abs=1e-12)
        assert problem.disagreement_at(row) == pytest.approx(
            np.array(reference.disagreement_at(row)), abs=1e-12
        )
        assert problem.optimal_arm_at(row) == reference.optimal_arm_at(row)
        regrets = [reference.regret_at(row, arm) for arm in range(problem.arms)]
        assert problem.gaps[row] == pytest.approx(regrets, abs=1e-12)
    for name in (
        "weak_dominance_fraction",
        "weak_dominance_fraction_fixed",
        "strong_dominance_fraction",
    ):
        assert getattr(problem, name) == pytest.approx(getattr(reference, name)()), name
    assert problem.best_fixed_arm == reference.best_fixed_arm()


@pytest.mark.parametrize("regret", ["signed", "absolute"])
@pytest.mark.parametrize("seed", range(4))
def test_realizable_problems_agree_with_direct_formulas(seed, regret):
    problem, reference = random_realizable(seed, regret, per_pair=seed % 2 == 1)
    for row in range(len(problem.contexts)):
        p = [[reference.p(row, i, j) for j in range(problem.arms)] for i in range(problem.arms)]
        assert problem.disagreement_at(row) == pytest.approx(np.array(p), abs=1e-12)
        assert problem.optimal_arm_at(row) == reference.optimal_arm_at(row)
        regrets = [reference.regret_at(row, arm) for arm in range(problem.arms)]
        assert problem.gaps[row] == pytest.approx(regrets, abs=1e-12)


def test_decimal_ties_are_ties():
    arguments = ([[0.0]], [1], [[1.0], [1.0]], [0.3, 0.1 + 0.2])
    assert ContextualProblem(*arguments).optimal_arm_at(0) == 1
    assert worlds.SlowContextualProblem(*arguments).optimal_arm_at(0) == 1


@pytest.mark.parametrize("seed", range(5))
def test_the_quadratic_map_agrees_with_the_kernel_and_with_least_squares(seed):
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(30, 3))
    if seed > 1:
        contexts[:, 0] = rng.integers(0, 2, size=30)  # its square depends on it
    if seed > 2:
        contexts[:, 2] = contexts[:, 1] * 2 - 1  # so do many columns
    bound = float(np.linalg.norm(contexts, axis=1).max())
    phi = QuadraticFeatures(bound)(contexts)
    assert phi @ phi.T == pytest.approx(((1 + contexts @ contexts.T) / (1 + bound**2)) ** 2)
    problem = ContextualProblem(contexts, np.zeros(30, dtype=int), np.zeros((2, 3)), [0.0, 1.0])
    expected = slow.slow_features(contexts.tolist())
    assert problem.features.shape == expected.shape
    assert problem.features == pytest.approx(expected, abs=1e-12)


def test_the_forced_phase_ends_at_eigenvalue_one():
    # contexts on the axes: V is diagonal, its least eigenvalue is the smaller sum of squares
    for length in (0.3, 0.71, 0.999, 1.001, 1.3):
        one, twin = LEARNERS["USS-PD adaptive"].make([0.0, 5.0], 2)
        assert isinstance(one, UssPd)
        for t in range(40):
            phi = length * np.eye(2)[t % 2]
            assert one.select(phi, None) == twin.select(phi, None), (length, t)
            teach(one, phi, 1, np.array([0, t % 3 == 0], dtype=int), 0)
            teach(twin, phi, 1, np.array([0, t % 3 == 0], dtype=int), 0)
