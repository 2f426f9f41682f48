"""Waiting times, rounds, bounds and the lower bound of chapter 4, by hand and by simulation."""

import math

import numpy as np
import pytest
from tests.rig.refusals import refusals

from weakfeedback import simulate
from weakfeedback.allocation import AllocationProblem, CsbDu, CsbMk, CsbSk, CsbSt, CsbSu, NumMk, NumSk, theory
from weakfeedback.allocation.instances import load
from weakfeedback.allocation.waiting import rounds_to_wait, wait_multiple, wait_program, wait_same


def test_the_waiting_times_of_the_thesis():
    # 38, 62, 69 are printed: with gamma = 1e-4 for NUM2 and NUM3, rounded down
    assert math.floor(wait_same(50, 0.1, 0.1)) == 38
    assert math.floor(wait_multiple(5, 0.1, 0.1, 2.0, 1e-4)) == 62
    assert math.floor(wait_multiple(10, 0.1, 0.1, 3.0, 1e-4)) == 69
    # with the stated gamma = 1e-3 and rounded up
    assert NumSk(50, 20.0, 0.1, 0.1).W == 39
    assert NumMk(5, 2.0, 0.1, 0.1, 1e-3).W == 60
    assert NumMk(10, 3.0, 0.1, 0.1, 1e-3).W == 67


def test_waiting_by_hand():
    # epsilon = .5: log(1 / (1 - .5)) = log 2, so W = log2(log2(K) / delta); K = 16, delta = 1/2: log2(8) = 3
    assert wait_same(16, 0.5, 0.5) == pytest.approx(3.0)
    # K log2(ceil(1 + Q / gamma)) / delta = 2 x log2(16) / (1/2) = 16, log2 of it 4
    assert wait_multiple(2, 0.5, 0.5, 1.5, 0.1) == pytest.approx(4.0)  # 1.5 / .1 is 15 in spite of doubles
    assert wait_same(1, 0.5, 0.5) == 0.0
    assert CsbSk(1, 1.0, 0.1, 0.1).found
    assert rounds_to_wait(None, 2.1) == 3
    assert rounds_to_wait(7, 2.1) == 7
    # 2019: divided by max(1, floor Q)
    assert CsbSt(16, 3.5, 0.5, 2.0**-10).W == 4  # 12 / 3
    assert CsbSt(16, 0.5, 0.5, 2.0**-10).W == 12
    # log2(K / delta) / Q = log2(2^14) / 3.5
    assert wait_program(16, 3.5, 0.5, 2.0**-10) == 4


test_bad_arguments_are_told = refusals(
    lambda make: make(),
    (lambda: CsbSk(0, 1.0, 0.1, 0.1), "arms must be an integer >= 1, got 0"),
    (lambda: CsbSk(5, 1.0, 0.0, 0.1), "epsilon must be a finite number > 0, got 0.0"),
    (lambda: CsbSk(5, 1.0, 1.0, 0.1), "epsilon must be a number between 0 and 1, got 1.0"),
    (lambda: CsbSk(5, 1.0, 0.1, 1.5), "delta must be a number between 0 and 1, got 1.5"),
    (lambda: CsbSk(5, -1.0, 0.1, 0.1), "budget must be a finite number > 0, got -1.0"),
    (lambda: CsbSk(5, 1.0, 0.1, 0.1, wait=0), "wait must be an integer >= 1, got 0"),
    (lambda: CsbMk(5, 1.0, 0.1, 0.1, 0.0), "gamma must be a finite number > 0, got 0.0"),
    (
        lambda: CsbMk(5, 1.0, 0.1, 0.1, 0.1, distinct=6),
        "distinct must be an integer from 1 to 5, got 6",
    ),
    (
        lambda: CsbMk(5, 1.0, 0.1, 0.1, 0.1, search_max=2.0),
        "search_max must be at most the budget 1, got 2.0",
    ),
    (lambda: CsbMk(5, 1.0, 0.1, 0.1, 0.1, every=0), "every must be an integer >= 1, got 0"),
    (lambda: CsbDu(5, 1.0, -0.1), "gamma must be a finite number > 0, got -0.1"),
)


def test_delta_for():
    # T = e^4: (log T)^(1 - 1/2) = 2
    assert theory.delta_for(round(math.e**4), 0.5) == pytest.approx(math.exp(-2.0), rel=1e-2)
    assert theory.delta_for(10_000, 1.0) == pytest.approx(math.exp(-1.0))
    # W is then of order (log T)^(1 - alpha): it grows slower than log T
    slow = [wait_same(50, 0.1, theory.delta_for(T, 0.5)) / math.log(T) for T in (10**3, 10**6, 10**12)]
    assert slow == sorted(slow, reverse=True)


def test_the_table_of_rounds_by_hand():
    # W = 3 (see above) and log2(16) = 4 candidates
    assert theory.rounds_csb_sk(16, 0.5, 0.5) == pytest.approx(12.0)
    assert theory.rounds_csb_dk(2, 1.5, 0.5, 0.5, 0.1) == pytest.approx(2 * 4 * 4)
    assert theory.rounds_csb_mk(2, 1.5, 0.5, 0.5, 0.1, distinct=1) == pytest.approx(4 * (4 + 2 * 1))
    # M = 1 of 3 arms; L = 2: the two smallest means .2 and .5: 1 - .8 x .5 = .6; L = 3: 1 - .8 x .5 x .1 = .96
    problem = AllocationProblem([0.5, 0.9, 0.2], [0.6] * 3, 1.0)
    assert theory.rounds_csb_su(problem) == pytest.approx(1 / 0.6 + 1 / 0.96)
    # floor(.6 / .25) = 2 for each arm
    assert theory.rounds_csb_du(problem, 0.25) == pytest.approx(2 / 0.5 + 2 / 0.9 + 2 / 0.2)
    # .3 / .1 is 3 in spite of doubles; a mean of 0 does not count
    assert theory.rounds_csb_du(AllocationProblem([0.5, 0.0], [0.3, 0.3], 1.0), 0.1) == pytest.approx(6.0)


def test_the_lower_bound_by_hand():
    # one of two arms is served; losses: (.5 - .25) / d(.25, .5), d = .25 log(.5) + .75 log(1.5)
    problem = AllocationProblem([0.25, 0.5], [0.6, 0.6], 1.0)
    slope = 0.25 / (0.25 * math.log(0.5) + 0.75 * math.log(1.5))
    assert theory.lower_bound_slope(problem) == pytest.approx(slope)
    # rewards: the arm that is not served, (.5 - .25) / d(.25, .5) again
    assert theory.lower_bound_slope(
        AllocationProblem([0.25, 0.5], [0.6, 0.6], 1.0, "reward")
    ) == pytest.approx(slope)
    assert theory.lower_bound_slope(AllocationProblem([0.25, 0.5], [0.5, 0.5], 1.0)) == 0.0
    with pytest.raises(ValueError, match="problem must have the same threshold for all arms"):
        theory.lower_bound_slope(load("III"))


def test_the_lower_bound_is_no_bar():
    # at T = 10 000 it is far above what is measured, as the report must not hide
    assert theory.lower_bound_slope(load("I")) * math.log(10_000) == pytest.approx(1352, abs=1)
    results = simulate(load("I"), {"CSB-SU": CsbSu(50, 15.0)}, horizon=10_000, replications=10, marks=1)
    assert results.final()["high"].item() < 900


def test_rounds_measured_stay_below_the_table():
    epsilon, delta = 0.1, 1e-3
    problem = load("II", budget=10.0)
    policies = {"CSB-SK": CsbSk(50, 10.0, epsilon, delta), "CSB-SU": CsbSu(50, 10.0)}
    results = simulate(problem, policies, horizon=1500, replications=60, marks=1)
    found = results.values("CSB-SK", "found_at")[:, -1]
    # rounded up: never more than W rounds at each of ceil(log2 50) = 6 candidates
    assert found.max() <= policies["CSB-SK"].W * 6
    # a wrong threshold has a probability of at most .001 per run: 60 runs have one in 6 % of all seeds
    assert results.values("CSB-SK", "really_equivalent")[:, -1].min() == 1
    # the bound for CSB-SU is on the mean: 30 rounds and a bit; one standard error is below 1
    mean = results.values("CSB-SU", "found_at")[:, -1].mean()
    assert mean <= theory.rounds_csb_su(problem) + 1.0
    assert mean >= 30  # one arm less after each loss, from 50 to 20


def test_rounds_of_different_thresholds_stay_below_the_table():
    epsilon, delta, gamma = 0.1, 1e-3, 0.02
    problem = load("IV")
    common = (10, 3.0, epsilon, delta, gamma)
    policies = {
        "CSB-MK": CsbMk(*common, distinct=2),
        "CSB-DK": CsbMk(*common),
        "CSB-DU": CsbDu(10, 3.0, gamma),
    }
    results = simulate(problem, policies, horizon=8000, replications=20, marks=1)
    assert results.values("CSB-DK", "found_at").max() <= theory.rounds_csb_dk(*common)
    assert results.values("CSB-MK", "found_at").max() <= theory.rounds_csb_mk(*common, distinct=2)
    assert results.values("CSB-DU", "found_at").mean() <= theory.rounds_csb_du(problem, gamma)
    for policy, bound in (
        ("CSB-DK", theory.regret_csb_mk_search(problem, epsilon, delta, gamma)),
        ("CSB-MK", theory.regret_csb_mk_search(problem, epsilon, delta, gamma, distinct=2)),
        ("CSB-DU", theory.regret_csb_du_search(problem, gamma)),
    ):
        assert results.values(policy).mean() <= bound + theory.regret_combinatorial_order(problem, 8000)


def test_regret_bounds_hold_on_instance_ii():
    problem = load("II")
    policies = {"CSB-SK": CsbSk(50, 15.0, 0.1, 1e-4), "CSB-SU": CsbSu(50, 15.0)}
    results = simulate(problem, policies, horizon=10_000, replications=10, marks=1)
    mean = results.final()["mean"]
    assert mean["CSB-SK"] <= theory.regret_csb_sk(problem, 10_000, 0.1, 1e-4)
    assert mean["CSB-SU"] <= theory.regret_csb_su(problem, 10_000)


def test_the_combinatorial_order_by_hand():
    # the example of the thesis: K' = 2, gaps .4, .1, .1
    problem = AllocationProblem([0.9, 0.6, 0.4], [0.6, 0.55, 0.45], 1.0)
    expected = math.log(2) ** 2 * math.log(100) * (1 / 0.4 + 1 / 0.1 + 1 / 0.1)
    assert theory.regret_combinatorial_order(problem, 100) == pytest.approx(expected)
    assert np.isfinite(theory.regret_combinatorial_order(load("NUM3"), 100))
