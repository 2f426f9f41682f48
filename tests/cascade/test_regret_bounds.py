"""Simulated regret against the theory: below the true bounds, above the false one, linear without weak dominance."""

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb, theory

HORIZON = 5000


def random_problems(count, strong=False):
    """Random laws with weak dominance, a clear xi and 2 to 5 arms (strong: each arm right where earlier ones are)."""
    rng = np.random.default_rng(20)
    found = []
    while len(found) < count:
        arms = int(rng.integers(2, 6))
        rows = rng.integers(0, 2, size=(12, arms + 1))
        if strong:
            right_from = rng.integers(0, arms + 1, size=12)
            for row, first in zip(rows, right_from):
                row[1:] = np.where(np.arange(arms) >= first, row[0], 1 - row[0])
        costs = np.cumsum(rng.uniform(0.05, 0.4, size=arms))
        problem = CascadeProblem(rows, rng.dirichlet(np.ones(12)), costs)
        if problem.weak_dominance and problem.optimal_arm < arms - 1 and problem.xi > 0.05:
            found.append(problem)
    return found


@pytest.mark.parametrize("k", range(20))
def test_regret_stays_below_the_problem_dependent_bounds(k):
    """The bounds hold in expectation and are loose: a false alarm needs the mean of 20 runs to exceed a bound that
    the expectation is well below (no instance came nearer than two thirds of it), so its rate is practically zero."""
    problem = random_problems(20)[k]
    results = simulate(
        problem, {"a": UssUcb(problem.costs, alpha=1.0)}, horizon=HORIZON, replications=20, seed=k
    )
    assert results.final().loc["a", "mean"] <= theory.ucb_regret(problem, HORIZON, alpha=1.0, repaired=True)
    pulls = np.array([results.final(f"pulls_{arm}").loc["a", "mean"] for arm in range(problem.arms)])
    assert (pulls <= theory.ucb_pulls(problem, HORIZON, alpha=1.0, repaired=True) + 1e-9).all()


@pytest.mark.parametrize("k", range(5))
def test_regret_under_strong_dominance(k):
    problem = random_problems(5, strong=True)[k]
    results = simulate(
        problem, {"a": UssUcb(problem.costs, alpha=1.0)}, horizon=HORIZON, replications=10, seed=k
    )
    bound = theory.ucb_regret_strong_dominance(problem, HORIZON, alpha=1.0)
    assert results.final().loc["a", "mean"] <= bound


def test_the_false_uniform_bound_is_violated_on_its_counterexample():
    """K = 2, the second arm wrong half of the time, xi = .001: USS-UCB plays it in every one of 100 000 rounds."""
    problem = theory.uniform_counterexample(xi=0.001)
    assert problem.weak_dominance
    results = simulate(problem, {"a": UssUcb(problem.costs, alpha=1.0)}, horizon=100_000, replications=4)
    regret = results.final().loc["a", "mean"]
    assert regret == pytest.approx(100_000 * problem.gaps[1])
    assert regret > 3.5 * theory.ucb_regret_uniform(problem, 100_000, alpha=1.0)


def test_without_weak_dominance_regret_is_linear():
    """The negative control: on this instance the settled arm is not the optimal one, so the second half of the
    rounds costs as much as the first (within 5 %; 20 runs of USS-TS differ by less than 1 %)."""
    problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], costs=[0.1, 0.2, 0.41])
    assert not problem.weak_dominance
    results = simulate(problem, {"a": UssTs(problem.costs)}, horizon=20_000, replications=20, marks=[10_000])
    half, whole = results.values("a").mean(axis=0)
    assert whole / half == pytest.approx(2.0, rel=0.05)
    wrong = problem.upper_set[0]
    assert whole == pytest.approx(20_000 * problem.gaps[wrong], rel=0.05)


@pytest.mark.parametrize("name", ["first", "middle", "last"])
def test_with_weak_dominance_the_optimal_arm_wins(name):
    costs = {"first": [0.05, 0.285, 0.45], "middle": [0.05, 0.1, 0.53], "last": [0.05, 0.25, 0.29]}[name]
    problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], costs=costs)
    results = simulate(problem, {"a": UssTs(problem.costs)}, horizon=10_000, replications=20)
    shares = [results.final(f"pulls_{arm}").loc["a", "mean"] / 10_000 for arm in range(3)]
    assert int(np.argmax(shares)) == problem.optimal_arm
    assert shares[problem.optimal_arm] > 0.9
