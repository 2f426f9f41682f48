"""The policies of chapter 4 at work: conformance, and regret on the thesis's instances."""

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.allocation import (
    AllocationProblem,
    CsbDt,
    CsbDu,
    CsbMk,
    CsbSk,
    CsbSt,
    CsbSu,
    CsbTs,
    KnownThresholds,
    NumMk,
    NumSk,
)
from weakfeedback.allocation.instances import load
from weakfeedback.checks import check_policy

# ---- conformance, in both settings and with both laws

MEANS, THRESHOLDS, SAME = [0.8, 0.6, 0.5, 0.9], [0.5, 0.3, 0.3, 0.7], [0.4] * 4
FACTORIES = {
    "CSB-SK": lambda p: CsbSk(p.arms, p.budget, 0.3, 0.1),
    "CSB-ST": lambda p: CsbSt(p.arms, p.budget, 0.3, 0.1),
    "CSB-SU": lambda p: CsbSu(p.arms, p.budget),
    "CSB-MK": lambda p: CsbMk(p.arms, p.budget, 0.3, 0.1, 0.02, distinct=3, every=3),
    "CSB-DK": lambda p: CsbMk(p.arms, p.budget, 0.3, 0.1, 0.05, wait=3, decimals=2),
    "CSB-DT": lambda p: CsbDt(p.arms, p.budget, 0.3, 0.1, 0.05, wait=12),
    "CSB-DU": lambda p: CsbDu(p.arms, p.budget, 0.05, every=4),
    "NUM-SK": lambda p: NumSk(p.arms, p.budget, 0.3, 0.1),
    "NUM-MK": lambda p: NumMk(p.arms, p.budget, 0.3, 0.1, 0.05, distinct=3),
    "Known": lambda p: KnownThresholds(p.arms, p.budget, p.thresholds, p.outcome),
}


@pytest.mark.slow  # all public policies pass these checks on one problem in every run of the tests
@pytest.mark.parametrize("name", FACTORIES)
@pytest.mark.parametrize(("setting", "rewards"), [("loss", "bernoulli"), ("reward", "uniform")])
def test_conformance(name, setting, rewards):
    thresholds = SAME if name.endswith(("SK", "ST", "SU")) else THRESHOLDS
    problem = AllocationProblem(MEANS, thresholds, 1.2, setting, rewards)
    check_policy(FACTORIES[name], problem)


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTORIES)
def test_conformance_of_the_other_laws(name):
    setting = "reward" if name.startswith("NUM") else "loss"
    problem = AllocationProblem(
        MEANS, THRESHOLDS, 1.2, setting, "uniform" if setting == "loss" else "bernoulli"
    )
    check_policy(FACTORIES[name], problem, rounds=150)


def test_a_policy_for_another_problem_is_refused():
    problem = load("IV")
    for wrong, message in (
        (CsbSu(9, 3.0), "CsbSu was made for 9 arms, the problem has 10"),
        (CsbSu(10, 2.0), "CsbSu was made for a budget of 2, not 3"),
        (
            CsbTs(10, 3.0, setting="reward"),
            "CsbTs was made for setting='reward', the problem has setting='loss'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            simulate(problem, {"wrong": wrong}, horizon=10, replications=1)


# ---- behaviour on the thesis's instances, with fixed seeds

LOSS = {"epsilon": 0.1, "delta": 1e-4}


@pytest.mark.slow
def test_csb_mk_finds_all_thresholds_of_instance_iv():
    problem = load("IV")
    policies = {
        "CSB-MK": CsbMk(10, 3.0, **LOSS, gamma=0.01, distinct=2),
        "CSB-DK": CsbMk(10, 3.0, **LOSS, gamma=0.01),
    }
    results = simulate(problem, policies, horizon=8000, replications=10, marks=[2000, 4000, 8000])
    for policy in policies:
        # a wrong threshold has a probability of 1e-4 per run at most
        assert (results.values(policy, "really_equivalent")[:, -1] == 1).all()
        curve = results.values(policy).mean(axis=0)
        assert curve[2] - curve[1] < 0.01 * curve[0]  # the search costs, hardly anything afterwards
    found = {policy: results.values(policy, "found_at")[:, -1].mean() for policy in policies}
    assert found["CSB-MK"] < found["CSB-DK"]
    # each threshold to within gamma: run one policy by hand
    policy, rng, loss = CsbMk(10, 3.0, **LOSS, gamma=0.01, distinct=2), np.random.default_rng(5), np.empty(10)
    world = problem.world()
    for _ in range(2500):
        world.draw(loss, rng)
        allocation = policy.select(rng)
        policy.update(allocation, np.where(allocation < problem.thresholds, loss, 0.0), rng)
    assert policy.found
    assert (policy.theta_hat >= problem.thresholds).all()
    assert (policy.theta_hat <= problem.thresholds + 0.01 + 1e-9).all()


@pytest.mark.parametrize(
    ("instance", "make"),
    [
        ("I", lambda p: CsbSk(p.arms, p.budget, **LOSS)),
        ("II", lambda p: CsbSu(p.arms, p.budget)),
        ("II", lambda p: CsbSt(p.arms, p.budget, **LOSS)),
        ("III", lambda p: CsbDu(p.arms, p.budget, gamma=0.005)),
        ("IV", lambda p: CsbDt(p.arms, p.budget, **LOSS, gamma=0.01)),
        ("NUM1", lambda p: NumSk(p.arms, p.budget, 0.1, 0.1)),
        ("III", lambda p: KnownThresholds(p.arms, p.budget, p.thresholds)),
    ],
)
def test_regret_is_sublinear(instance, make):
    problem = load(instance)
    results = simulate(problem, {"it": make(problem)}, horizon=8000, replications=8, marks=[2000, 4000, 8000])
    first, second, third = results.values("it").mean(axis=0)
    # linear regret would add as much again from 4000 to 8000, and the square root of it 41 %; logarithmic regret adds
    # 8 % in the end, but the smallest gap of III is .02 and not settled by then
    assert third - second < 0.5 * second
    assert first > 0.0


def test_num_mk_solves_instance_2_only_with_rounding():
    # its optimal set fills the budget exactly: thresholds must be found exactly
    problem = load("NUM2", rewards="uniform")
    policies = {
        "plain": NumMk(5, 2.0, 0.1, 0.1, 1e-3, distinct=3, wait=1),
        "rounded": NumMk(5, 2.0, 0.1, 0.1, 1e-4, distinct=3, wait=1, decimals=3),
    }
    results = simulate(problem, policies, horizon=2000, replications=5, marks=1)
    assert (results.values("rounded", "really_equivalent") == 1).all()
    assert (results.values("plain", "really_equivalent") == 0).all()
    assert results.final()["mean"]["rounded"] < 0.2 * results.final()["mean"]["plain"]


def test_compiled_as_interpreted_to_the_bit():
    problem = load("IV")
    policies = {name: FACTORIES[name](problem) for name in ("CSB-MK", "CSB-DU", "CSB-DT")}
    fast = simulate(problem, policies, horizon=400, replications=2, marks=7)
    slow = simulate(problem, policies, horizon=400, replications=2, marks=7, compiled=False)
    assert all(how is True for how in fast.compiled.values())
    for policy in policies:
        for measure in ("regret", "found_at", "really_equivalent"):
            np.testing.assert_array_equal(fast.values(policy, measure), slow.values(policy, measure))
