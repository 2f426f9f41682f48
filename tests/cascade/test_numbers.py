"""Answers that are numbers: USS-mean against its twin, mutants, the identity of movements, chains, calibration."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference.cascade_beyond import SlowUssMean
from tests.rig.mutants import caught

from weakfeedback import simulate
from weakfeedback.cascade import FixedArm, NumericProblem, UssMean, UssTs, UssWd, instances
from weakfeedback.cascade.movement import PROMISE, calibration, chain
from weakfeedback.cascade.policies import uss_mean
from weakfeedback.checks import check_policy
from weakfeedback.datasets import numeric_cascade, stack
from weakfeedback.settings.catalog import SETTINGS


def answers_of(seed, arms, n=60):
    """Random stages: each a random mixture of the truth, noise and the stage before."""
    rng = np.random.default_rng([seed, arms])
    truth = rng.normal(size=n)
    columns = [rng.normal() * truth + rng.normal() * rng.normal(size=n)]
    for _ in range(arms - 1):
        columns.append(rng.uniform(0, 1) * columns[-1] + rng.normal() * truth + 0.3 * rng.normal(size=n))
    return truth, np.column_stack(columns), np.cumsum(rng.uniform(0, 0.4, arms))


# The policy


def agrees_with_twin(cls):
    for seed, arms in itertools.product(range(3), (1, 2, 3, 5)):
        _, answers, costs = answers_of(seed, arms)
        scale = (1.0, 2.5, 0.7)[seed]
        one, twin = cls(costs, scale), SlowUssMean(costs, scale)
        rngs = np.random.default_rng(seed), np.random.default_rng(seed)
        for t in range(200):
            arm = one.select(rngs[0])
            assert arm == twin.select(rngs[1])
            shown = answers[t % len(answers), : arm + 1]
            if seed == 1:
                moved = np.minimum(((shown[:, None] - shown) / scale) ** 2, 1.0)
                one.update_pairs(arm, moved, rngs[0])
            else:
                one.update(arm, shown, rngs[0])
            twin.update(arm, shown.tolist(), rngs[1])
        assert rngs[0].random() == rngs[1].random()  # they asked for as many numbers
        for (i, j), seen in twin.seen.items():
            assert one.n[i - 1, j - 1] == len(seen)
            assert one.total[i - 1, j - 1] == pytest.approx(math.fsum(seen), abs=1e-9)


def decides(cls):
    class Script:
        def __init__(self, *draws):
            self.draws = list(draws)

        def standard_normal(self):
            return self.draws.pop(0)

    policy = cls([0.0, 0.2, 0.5], scale=2.0)
    policy.update(2, np.array([1.0, 2.0, 2.0]), None)  # movements 1/4, 1/4, 0
    assert policy.select(Script(-9.0, -9.0, -9.0)) == 2  # seen once: never below its cost
    policy.update(2, np.array([1.0, 1.0, 2.0]), None)  # 0, 1/4, 1/4
    # pair (0, 1): mean 1/8, variance 1/64, floor 1/4: standard error sqrt(1/8) = .35355; (0, 2): mean 1/4
    assert policy.select(Script(0.21, 0.70)) == 0  # .125 + .0742 < .2, .25 + .2475 < .5
    assert policy.select(Script(0.22, 0.70, 0.49)) == 1  # .2028 >= .2; (1, 2): .125 + .1732 < .3
    assert policy.select(Script(0.0, 0.71, 0.5)) == 2  # .501 >= .5; .125 + .1768 >= .3
    far = cls([0.0, 0.2])
    far.update(1, np.array([0.0, 9.0]), None)
    assert far.total[0, 1] == 1.0  # an error beyond the scale costs no more


BATTERY = (agrees_with_twin, decides)


@pytest.mark.parametrize("part", BATTERY)
def test_the_policy(part):
    part(UssMean)


test_mutants_are_caught = caught(
    lambda mutant: [part(mutant.UssMean) for part in BATTERY],
    uss_mean,
    ("self.n[i, j] < 2.0", "self.n[i, j] < 1.0"),
    ("1.0 / (n * n)", "1.0 / n"),
    ("mean * mean, ", "mean, "),
    ("variance / n)", "variance)"),
    ("min(moved * moved, 1.0)", "moved * moved"),
    ("min(moved * moved, 1.0)", "min(abs(moved), 1.0)"),
    (" / self.scale", ""),
    ("self.squares[i, j] += moved * moved", "self.squares[i, j] += moved"),
    ("range(i + 1, self.K)", "range(i + 1, min(i + 2, self.K))"),
    ("<= self.movement", "< -self.movement"),
)


def test_it_conforms():
    problem, _ = SETTINGS["cascade"].sample("USS-mean")
    assert isinstance(problem, NumericProblem)
    for world in (problem, instances.load("bsc-1")):
        check_policy(lambda p: UssMean(p.costs), world)


def test_labels_are_answers_too():
    """With two labels a movement is a disagreement, so it settles where USS-TS does."""
    problem = instances.load("bsc-2")
    found = simulate(
        problem, {"mean": UssMean(problem.costs)}, 3000, replications=2, seed=0, marks=1, compiled=False
    )
    assert found.values("mean", f"pulls_{problem.optimal_arm}").mean() > 2500


def test_simulated_numbers_are_the_same_compiled_and_interpreted():
    problem = instances.load("friedman1-1")
    policy = {"mean": UssMean(problem.costs, problem.scale)}
    fast, slow = (
        simulate(problem, policy, horizon=400, replications=2, seed=0, marks=[100, 400], compiled=how).frame
        for how in (True, False)
    )
    assert fast["regret"].tolist() == slow["regret"].tolist()


# Problems


def test_a_problem_by_hand():
    problem = NumericProblem([0.0, 2.0], [[1.0, 0.0, 0.5], [1.0, 2.0, 9.0]], costs=[0.0, 0.1, 0.3], scale=2.0)
    assert problem.errors.tolist() == [0.25, 0.0, (0.0625 + 1.0) / 2]
    assert problem.disagreement[0].tolist() == [0.0, 0.25, (0.0625 + 1.0) / 2]
    assert (problem.optimal_arm, problem.settled_arm, problem.weak_dominance) == (1, 2, False)
    assert problem.gaps == pytest.approx([0.15, 0.0, 0.73125])
    assert problem.measures([1, 2, 3])["regret"] == pytest.approx(0.15 + 3 * 0.73125)
    words = dict(SETTINGS["cascade"].describe_problem(problem))
    assert words["Stage that movements point to"] == "2, not the optimal one"
    assert problem.digest() != NumericProblem([0, 2], problem._rows[:, 1:], [0, 0.1, 0.3], 3.0).digest()


def test_what_is_refused():
    problem = instances.load("diabetes-1")
    for policy in (UssTs(problem.costs), UssWd(problem.costs)):
        with pytest.raises(
            ValueError, match="is for answers that are labels, the problem has numbers: use USS-mean"
        ):
            simulate(problem, {"x": policy}, horizon=5, replications=1)
    with pytest.raises(ValueError, match="scale must be 4, as in the problem, got 1"):
        simulate(problem, {"x": UssMean(problem.costs)}, horizon=5, replications=1)
    simulate(problem, {"x": FixedArm(problem.costs, 0)}, horizon=5, replications=1, compiled=False)
    with pytest.raises(ValueError, match="predictions must be finite numbers"):
        NumericProblem([0.0], [[math.nan]], [0.1])
    with pytest.raises(ValueError, match="costs must be 2 numbers, one per stage, got 1"):
        NumericProblem([0.0], [[1.0, 2.0]], [0.1])
    with pytest.raises(ValueError, match="scale must be"):
        UssMean([0.1, 0.2], scale=0)
    with pytest.raises(ValueError, match="alpha must be a number below 1"):
        chain([[0.0, 1.0], [1.0, 0.0]], alpha=1)
    with pytest.raises(ValueError, match="name must be one of diabetes"):
        numeric_cascade("boston")


# What a movement says


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_an_improvement_is_the_movement_and_twice_the_bias(seed, arms):
    """gamma_i - gamma_j = s_ij + 2 b_ij, to 1e-12, for any stages (no error is beyond the scale)."""
    truth, answers, _ = answers_of(seed, arms)
    size = 10.0 * max(np.ptp(answers), np.ptp(truth), 1.0)
    problem, found = NumericProblem(truth, answers, np.zeros(arms), size), calibration(truth, answers, size)
    for (i, j), (bias, _, _) in found.bias.items():
        assert abs(problem.errors[i] - problem.errors[j] - problem.disagreement[i, j] - 2 * bias) < 1e-12


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_movements_point_to_the_best_stack(seed, arms):
    """Stacked on their own rows, stages are calibrated exactly: the settled stage is the best, chains add up."""
    truth, answers, costs = answers_of(seed, arms)
    stacked = stack(truth, answers)
    size = 10.0 * max(np.ptp(stacked), np.ptp(truth), 1.0)
    problem, found = NumericProblem(truth, stacked, costs / 100, size), calibration(truth, stacked, size)
    assert all(abs(bias) < 1e-12 for bias, _, _ in found.bias.values())
    assert problem.weak_dominance or problem.xi > -1e-12
    assert problem.total_costs[problem.settled_arm] <= problem.total_costs.min() + 1e-10
    assert chain(stacked, size).broken == ()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_the_price_of_stages_that_are_not_calibrated(seed, arms):
    """2 (K - 1) beta for the settled stage, 4 beta for the one closest to the last."""
    truth, answers, costs = answers_of(seed, arms)
    size = 10.0 * max(np.ptp(answers), np.ptp(truth), 1.0)
    problem, found = NumericProblem(truth, answers, costs / 100, size), calibration(truth, answers, size)
    beta = max(abs(bias) for bias, _, _ in found.bias.values())
    assert problem.gaps[problem.settled_arm] <= 2 * (arms - 1) * beta + 1e-12
    last = max(abs(found.bias[i, arms - 1][0]) for i in range(arms - 1))
    judged = int(np.argmin(problem.costs + problem.disagreement[:, -1]))
    assert problem.gaps[judged] <= 4 * last + 1e-12
    assert found.excess >= 4 * last


def test_what_it_saw_must_hold_the_earlier_answers():
    """Y = A + B, Y^1 = A, Y^2 = E[Y | B] = B: calibrated alone, not given the first."""
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=2)))
    truth = signs.sum(axis=1)
    problem, found = NumericProblem(truth, signs, [0, 0], 10.0), calibration(truth, signs, 10.0)
    assert problem.errors == pytest.approx([0.01, 0.01])
    assert problem.disagreement[0, 1] == pytest.approx(0.02)
    assert found.bias[0, 1][0] == pytest.approx(-0.01)


def test_the_chain_names_stages_that_are_not_calibrated():
    raw, stacked = (chain(numeric_cascade("friedman1", how).predictions, 4.0) for how in (False, True))
    assert raw.broken == ((0, 1, 2),)
    assert stacked.broken == ()
    assert str(stacked) == f"The chains add up. {PROMISE}"
    words = raw.sentence(["tree", "ridge", "forest"])
    assert words.startswith(
        "From tree to forest the answers move by 0.0352, by way of ridge by 0.0368 + 0.00805: some"
    )
    assert words.endswith(PROMISE)
    s01, s02, s12 = (raw.movements[pair] for pair in ((0, 1), (0, 2), (1, 2)))
    assert raw.gaps[0, 1, 2][0] == pytest.approx(s02[0] - s01[0] - s12[0])
    assert s01[1] < s01[0] < s01[2]


def test_the_chain_rarely_cries_wolf():
    """Calibrated stages (sums of independent steps), 300 times 200 rows at 5 %: 15 alarms expected, at most 31."""
    rng = np.random.default_rng(1)
    alarms = sum(bool(chain(np.cumsum(rng.normal(size=(200, 3)), axis=1), 40.0).broken) for _ in range(300))
    assert alarms <= 31


def test_intervals_of_calibration_hold_the_truth():
    """A last stage that over-reacts: b = -.3 in the mean; 200 times 100 labels at 5 %, at most 24 misses."""
    rng, missed = np.random.default_rng(2), 0
    for _ in range(200):
        first, step = rng.normal(size=(2, 100))
        truth, answers = first + 0.7 * step, np.column_stack((first, first + step))
        found = calibration(truth, answers)
        missed += not found.bias[0, 1][1] <= -0.3 <= found.bias[0, 1][2]
        assert found.beta >= abs(found.bias[0, 1][0])
    assert missed <= 24
    assert str(found).startswith("The last stage, judged by 100 labels: |b| is at most 0.")


# Instances


def test_movements_are_enough_on_stacked_stages():
    """At most 1.01 of the best fixed stage on the mean, 1.05 at worst, over 4 sets and 5 prices; every stage right."""
    shares, ratios = np.array([1, 6, 31]) / 31, []
    for name in ("diabetes", "friedman1", "friedman2", "friedman3"):
        for price in (0.02, 0.05, 0.1, 0.2, 0.4):
            problem = NumericProblem(*numeric_cascade(name), price * shares / 16, 4.0)
            assert problem.settled_arm == problem.optimal_arm
            policy = {"mean": UssMean(problem.costs, 4.0)}
            found = simulate(problem, policy, horizon=5000, replications=4, seed=2, marks=1)
            best = problem.total_costs.min()
            ratios.append((found.values("mean")[:, -1].mean() / 5000 + best) / best)
    assert np.mean(ratios) <= 1.01
    assert max(ratios) <= 1.05


def test_a_stack_fitted_on_one_half_is_right_on_the_other():
    shares, right = np.array([1, 6, 31]) / 31, []
    for name in ("diabetes", "friedman1", "friedman2", "friedman3"):
        truth, answers = numeric_cascade(name, stacked=False)
        for split in range(3):
            half = np.random.default_rng(split).permutation(len(truth)) < len(truth) // 2
            made = answers.copy()
            for k in (1, 2):
                design = np.column_stack((np.ones(len(truth)), answers[:, : k + 1]))
                made[:, k] = design @ np.linalg.lstsq(design[half], truth[half], rcond=None)[0]
            for price in (0.02, 0.05, 0.1, 0.2, 0.4):
                problem = NumericProblem(truth[~half], made[~half], price * shares / 16, 4.0)
                right.append(problem.settled_arm == problem.optimal_arm)
    assert np.mean(right) >= 0.9


def test_stages_as_they_are_lose():
    """A negative control: the forest of diabetes is worse than the ridge, and movements trust it."""
    problem = NumericProblem(
        *numeric_cascade("diabetes", stacked=False), np.array([1, 6, 31]) / 31 * 0.1 / 16, 4.0
    )
    assert (problem.optimal_arm, problem.settled_arm) == (1, 2)
    assert problem.total_costs[2] / problem.total_costs[1] > 1.2
