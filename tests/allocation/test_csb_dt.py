"""CSB-DT: budgets are kept and searches end, whatever the instance; the published program's regrets are met."""

import numpy as np
import pytest
from tests.allocation.battery import VARIANTS, agree, instances, make
from tests.reference.csb_dt import SlowCsbDt
from tests.rig.mutants import caught

from weakfeedback import simulate
from weakfeedback.allocation import AllocationProblem, CsbDt
from weakfeedback.allocation.instances import load
from weakfeedback.allocation.policies import csb_dt

GAMMA, WAIT = 0.02, 40


def instance(seed):
    """One of 80: budgets below 1, above K, fractional and whole ones; one arm, thresholds of 0 and of Q."""
    rng = np.random.default_rng([seed, 4])
    K = 1 if seed % 10 == 0 else int(rng.integers(2, 9))
    budget = (
        rng.uniform(0.1, 0.99),
        K + rng.uniform(0.0, 2.0),
        float(rng.integers(1, K + 1)),
        rng.uniform(1.0, max(1.5, 0.6 * K)),
    )[seed % 4]
    thresholds = rng.uniform(0.0, 1.0, size=K) ** (1 + seed % 3) * min(1.0, budget)
    if seed % 7 == 0:
        thresholds[rng.integers(K)] = (0.0, budget)[seed % 2]
    return rng.uniform(0.3, 1.0, size=K), thresholds, budget


@pytest.mark.parametrize("late", [0, 7], ids=["at once", "seven rounds late"])
def test_the_search_keeps_the_budget_and_ends(late):
    """Quiet rounds mislead with probability .7^40 at each amount: no false alarm in a million tests."""
    for seed in range(80):
        means, thresholds, budget = instance(seed)
        policy = CsbDt(means.size, budget, 0.3, 0.1, GAMMA, wait=WAIT)
        rng, open_rounds = np.random.default_rng(seed), []
        for _ in range(40_000):
            allocation = policy.select(rng)
            assert (allocation >= 0.0).all()
            assert allocation.sum() <= budget * (1.0 + 1e-9), seed
            loss = (rng.random(means.size) < means) * (allocation < thresholds * (1.0 - 1e-9))
            open_rounds.append((allocation, loss.astype(float)))
            if len(open_rounds) > late:
                policy.update(*open_rounds.pop(0), rng)
            if policy.found:
                break
        assert policy.found, seed
        assert (policy.theta_hat >= thresholds * (1.0 - 1e-9)).all(), seed
        assert (policy.theta_hat <= thresholds + GAMMA + 1e-9).all(), seed
        held = policy.h.sum() + policy.free
        assert held == pytest.approx(budget, rel=1e-9), seed


def shuffled_purses(kind):
    """Both policies in step, while the budget is dealt out anew before each feedback."""
    for seed in range(12):
        options = VARIANTS["CsbDt"][seed % len(VARIANTS["CsbDt"])]
        (one_instance,) = instances("CsbDt", options, [seed])
        one, twin = (make(k, "CsbDt", options, one_instance) for k in (kind, SlowCsbDt))
        rng, K = np.random.default_rng(seed), one_instance.means.size
        for _ in range(60):
            if one.found:
                break
            parts = rng.dirichlet(np.ones(K + 1)) * (rng.random(K + 1) < 0.7) * one.Q
            for i in range(K):
                one.h[i] = twin.purse[i + 1] = 0.0 if one.theta_g[i] else parts[i]
            one.free = twin.purse[0] = float(parts[-1]) if rng.random() < 0.5 else 0.0
            allocation = one.select(None)
            assert allocation.tolist() == twin.select(None)
            loss = (rng.random(K) < 0.3).astype(float)
            one.update(allocation, loss, rng)
            twin.update(allocation.tolist(), loss.tolist(), rng)
            agree(one, twin)


def test_the_budget_moves_as_in_the_twin():
    shuffled_purses(CsbDt)


test_mutants_of_the_moves_are_caught = caught(
    lambda mutant: shuffled_purses(mutant.CsbDt),
    csb_dt,
    ("if lost and short > 0.0", "if short > 0.0"),
    ("if lost and short > 0.0", "if lost"),
    ("                    short -= given\n", ""),
    ("            short -= given\n            for", "            for"),
    ("given = min(short, self.free)", "given = self.free"),
    ("given = min(short, self.h[k])", "given = self.h[k]"),
    ("            self.free -= given\n", ""),
    ("self.h[k] -= given", "self.h[k] = 0.0"),
    ("for k in range(self.K - 1, i, -1):", "for k in range(self.K - 1, i + 1, -1):"),
)


@pytest.mark.parametrize(
    ("name", "options", "measured"),
    [
        ("III", {"gamma": 0.001, "search_max": 1.0, "wait": 44, "decimals": 2}, 403.0),
        ("IV", {"gamma": 0.001, "search_max": 1.0, "wait": 44, "decimals": 2}, 827.0),
        ("III", {"gamma": 0.01, "wait": 44}, 749.0),
        ("IV", {"gamma": 0.01, "wait": 44}, 1004.0),
    ],
    ids=["III, 2019", "IV, 2019", "III, printed", "IV, printed"],
)
def test_regrets_are_those_of_the_published_program_mended(name, options, measured):
    """Measured with another program, 200 runs; five standard errors of both, a false alarm in a million."""
    problem = load(name)
    policy = CsbDt(problem.arms, problem.budget, 0.1, 1e-4, every=20, **options)
    final = simulate(problem, {"DT": policy}, 10_000, 200, seed=1, marks=1).values("DT")[:, -1]
    error = final.std() / np.sqrt(200)
    assert abs(final.mean() - measured) < 5 * np.sqrt(2) * error


def test_a_fractional_budget_is_not_overspent_at_the_start():
    policy = CsbDt(4, 2.5, 0.1, 0.1, 0.1)
    assert policy.h.tolist() == [0.625, 0.625, 0.625, 0.625]  # 2.5 / 4 for two, 2.5 / 4 for the others
    assert policy.free == 0.0
    policy = CsbDt(5, 3.0, 0.1, 0.1, 0.1, search_max=1.0)
    assert policy.h.tolist() == [0.5, 0.5, 0.5, 0.5, 0.5]
    assert policy.free == 0.5
    problem = AllocationProblem([0.5], [0.3], 0.4)
    assert CsbDt(1, problem.budget, 0.1, 0.1, 0.1).h.tolist() == [0.2]
