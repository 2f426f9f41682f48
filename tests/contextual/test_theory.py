"""The bounds of chapter 3 against values computed by hand, and the coverage of the ellipsoid."""

import math

import numpy as np
import pytest
from tests.rig.refusals import refusals

from weakfeedback.contextual import ContextualProblem, QuadraticFeatures, RealizableProblem, theory

LOG3 = math.log(3.0)


@pytest.fixture
def problem():
    """Three arms, one context: p_01 = 1/4, p_02 = 1/2, p_12 = 1/4; costs 0, .5, .9; arm 0 is optimal."""
    theta = {(0, 1): [-LOG3], (0, 2): [0.0], (1, 2): [-LOG3]}
    return RealizableProblem([[1.0]], theta, [0.0, 0.5, 0.9], lambda x: np.ones((len(x), 1)))


def test_radii():
    # d = 4, K = 3, delta = .1, t = 6: 2 log(4) + log(45) = 2.7725887 + 3.8066625
    assert theory.alpha(6, 4, 3, delta=0.1, sigma=0.5, kappa=0.2) == pytest.approx(5 * math.sqrt(6.5792512))
    # n = 12, lambda = .75: 12 / (4 * .75) = 4; 2 log(5) + log(45) = 3.2188758 + 3.8066625; 2 sqrt(.75) 2 = 3.4641016
    found = theory.beta(12, 4, 3, ridge=0.75, norm_bound=2.0, delta=0.1, sigma=0.5, kappa=0.2)
    assert found == pytest.approx(5 * math.sqrt(7.0255383) + 3.4641016)


def test_rounds_of_the_forced_phase():
    # log(9 / .2) = 3.8066625; 2 (4 + 3.8066625) / .25 + 2 / .5
    assert theory.forced_rounds(0.5, 4, 3, delta=0.1, constant=2.0) == pytest.approx(62.4533 + 4.0, abs=1e-4)
    assert theory.observations_needed(3.0, 0.5, 4, 3, delta=0.1, constants=(1.0, 0.0)) == pytest.approx(
        16.0 + 12.0
    )


def test_margins_and_largest_regret(problem):
    assert theory.margins(problem) == pytest.approx([math.inf, 0.25, 0.4])
    assert theory.largest_regret(problem) == pytest.approx(1.4)  # .9 + p_02


def test_regret_bound(problem):
    # d = 1, K = 3, T = 10, delta = .1, sigma = 1, kappa = .25: L = 3.8066625, log(21) / 2 = 1.5222612
    inside = 1.5222612 + 3.8066625
    tail = 3.8066625
    m = (1 + tail) / 0.25 + 2 / 0.5
    start = ((1 + math.sqrt(tail)) / 0.5) ** 2
    per_arm = [start + 32 / 0.5 * (0.25 * 1.0 / (xi * 0.25)) ** 2 * inside for xi in (0.25, 0.4)]
    expected = 1.4 * (m + sum(per_arm))
    assert theory.regret_bound(problem, 10, 0.5, delta=0.1, sigma=1.0, kappa=0.25) == pytest.approx(expected)


def test_ridge_regret_bound(problem):
    beta = theory.beta(10, 1, 3, ridge=2.0, norm_bound=0.5, delta=0.1, sigma=1.0, kappa=0.25)
    tail = 3.8066625
    m = (1 + tail) / 0.25 + 4 * 2.0 / 0.5
    start = ((1 + math.sqrt(tail)) / 0.5) ** 2
    per_arm = [start + 8 / 0.5 * (0.25 * beta / xi) ** 2 for xi in (0.25, 0.4)]
    found = theory.ridge_regret_bound(
        problem, 10, 0.5, ridge=2.0, norm_bound=0.5, delta=0.1, sigma=1.0, kappa=0.25
    )
    assert found == pytest.approx(1.4 * (m + sum(per_arm)))


def test_the_bound_is_logarithmic_and_falls_with_xi(problem):
    bounds = [theory.regret_bound(problem, horizon, 0.5) for horizon in (10**3, 10**6, 10**9)]
    steps = np.diff(bounds)
    assert steps[1] == pytest.approx(steps[0], rel=0.01)
    easier = RealizableProblem(
        [[1.0]], problem.pair_parameters, [0.0, 0.6, 1.1], lambda x: np.ones((len(x), 1)), regret="absolute"
    )
    scale = theory.largest_regret(problem) / theory.largest_regret(easier)
    assert scale * theory.regret_bound(easier, 1000, 0.5) < theory.regret_bound(problem, 1000, 0.5)


def test_bounds_need_weak_dominance():
    hopeless = ContextualProblem([[1.0]], [1], [[1.0], [-1.0]], [0.0, 0.1])
    with pytest.raises(ValueError, match="must satisfy weak dominance"):
        theory.regret_bound(hopeless, 100, 0.5)


def test_decomposition():
    # scores 1 and -1: labels (1, 1) at x = 1 with truth 1; (0, 1) at x = -1 with truth 0: there arm 0 is right, p = 1
    p = ContextualProblem([[1.0], [-1.0]], [1, 0], [[1.0], [0.0]], [0.0, 0.5], "thresholded", [0.0, 1.0])
    assert p.weak_dominance.tolist() == [True, False]
    assert theory.largest_regret(p) == pytest.approx(1.5)
    assert theory.decomposed_bound(p, 100, bound=30.0) == pytest.approx(0.5 * 30 + 0.5 * 1.5 * 100)


def test_coverage_with_true_constants_and_with_the_defaults():
    """With kappa and sigma as assumed the ellipsoid holds; with those of the experiments it need not."""
    x = np.random.default_rng(0).uniform(-1, 1, (400, 1))
    p = RealizableProblem(x, [[-3.0, 2.0, 1.0]], [0.1, 0.5], QuadraticFeatures(1.0))
    kappa = p.disagreement[:, 0, 1]
    slope = float((kappa * (1 - kappa)).min()) / 2
    sure = theory.ellipsoid_coverage(p, 300, 100, sigma=0.5, kappa=slope)
    assert sure.promised == pytest.approx(1 - 2 * 0.05 / 4)
    assert sure.share >= sure.promised  # the bound is far from tight: no miss is seen in 100
    bold = theory.ellipsoid_coverage(p, 300, 100, sigma=0.02, kappa=0.25)
    assert bold.share < 0.5
    assert bold.largest > 1.0


test_wrong_arguments = refusals(
    lambda call: call(),
    (lambda: theory.alpha(-1, 4, 3), "t must be"),
    (lambda: theory.alpha(1, 0, 3), "dimension must be"),
    (lambda: theory.beta(1, 2, 3, ridge=0.0), "ridge must be"),
    (lambda: theory.forced_rounds(0.0, 2, 3), "lambda_sigma must be"),
)
