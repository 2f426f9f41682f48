"""The policies, the loop and the problems of chapter 4 against their slow twins, round by round."""

import math

import numpy as np
import pytest
from tests.allocation.battery import SEEDS, TWINS, VARIANTS, agree, battery, instances, make
from tests.reference.allocation import brute_knapsack
from tests.reference.allocation_problem import SlowProblem, slow_rounds
from tests.reference.cascade import stream

from weakfeedback import allocation as fast
from weakfeedback import simulate
from weakfeedback.allocation import knapsack, play
from weakfeedback.kernels.knapsack import pack

HORIZON = 150
MARKS = np.arange(1, HORIZON + 1)


# eight seeds are all numbers of arms, settings and laws; each mutant is caught with them
@pytest.mark.parametrize(
    "seeds", [SEEDS, pytest.param(range(8, 16), marks=pytest.mark.slow)], ids=["first", "more"]
)
@pytest.mark.parametrize("name", VARIANTS)
def test_fast_and_slow_agree_in_every_field(name, seeds):
    battery(getattr(fast, name), name, seeds)


class Story:
    """What a twin did in one replication, and what the loop should count and measure of it after each round."""

    def __init__(self, twin, instance, replication):
        self.exact = SlowProblem(instance.means.tolist(), instance.thresholds.tolist(), instance.budget)
        states = [self.state(twin)]
        rounds = slow_rounds(
            instance.world(),
            [twin],
            instance.seed,
            replication,
            HORIZON,
            watch=lambda t, rounds, rngs: states.append(self.state(twin)),
        )
        self.served = np.cumsum([one.served for one in rounds], axis=0)
        found, equivalent = np.array(states).T
        self.searching = np.cumsum(~found)[:-1]  # the state at the beginning of a round decides
        self.found, self.equivalent = found[1:], equivalent[1:]

    def state(self, twin):
        equivalent = self.exact.really_equivalent(twin.theta_hat)
        return bool(getattr(twin, "found", equivalent)), equivalent

    def counts(self):
        return np.column_stack([MARKS, self.searching, self.found, self.equivalent, self.served])

    def measures(self):
        """Rows of regret, found_at and really_equivalent."""
        regret = [float(self.exact.regret(served.tolist(), int(t))) for t, served in zip(MARKS, self.served)]
        return np.column_stack([regret, np.where(self.found, self.searching, math.nan), self.equivalent])


def played(policy, problem, seed, play=play.play, world=None):
    """The counts after every round of the loop, interpreted; the policy learns."""
    counts = np.zeros(problem.arms + 4, dtype=np.int64)
    table = np.zeros((HORIZON, counts.size), dtype=np.int64)
    rngs = stream(seed, 0, 0), stream(seed, 0, 1)
    assert play(policy, world or problem.world(), *rngs, MARKS, counts, table) == 0
    return table


def as_simulated(name, instance, labels):
    """The measures of the compiled loop for variants of a policy, in replications 0 and 1."""
    problem = instance.problem()
    policies = {
        label: make(getattr(fast, name), name, options, instance) for label, options in labels.items()
    }
    results = simulate(problem, policies, HORIZON, replications=2, seed=instance.seed, marks=MARKS)
    assert all(how is True for how in results.compiled.values()), results.compiled
    return results.frame.set_index(["policy", "replication"])[["regret", "found_at", "really_equivalent"]]


@pytest.mark.parametrize(
    "seed", [2, 4, 5, 7, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 3))]
)
@pytest.mark.parametrize("name", VARIANTS)
def test_simulations_and_the_loop_agree_with_the_twin(name, seed):
    for same in (False, True) if name == "KnownThresholds" else (False,):
        labels = {
            str(k): options for k, options in enumerate(VARIANTS[name]) if options.get("same", False) == same
        }
        (instance,) = instances(name, next(iter(labels.values())), [seed])
        frame = as_simulated(name, instance, labels)
        for label, options in labels.items():
            policy = make(getattr(fast, name), name, options, instance)
            table = played(policy, instance.problem(), seed)
            for replication in range(2 if label == next(iter(labels)) else 1):
                twin = make(TWINS[name], name, options, instance)
                story = Story(twin, instance, replication)
                measured = frame.loc[(label, replication)].to_numpy(dtype=float)
                np.testing.assert_allclose(measured, story.measures(), rtol=0, atol=1e-9)
                if replication == 0:
                    assert table.tolist() == story.counts().tolist(), label
                    agree(policy, twin)


def random_decimals(seed):
    """Means with many ties of sums, thresholds and a budget with two decimals, an estimate not far off."""
    rng = np.random.default_rng(seed)
    K, digits = int(rng.integers(1, 11)), 1 + seed % 3
    means = rng.uniform(0, 1, size=K).round(digits)
    budget = round(rng.uniform(0.5, 3), 2)
    thresholds = np.minimum(rng.uniform(0, 1, size=K).round(2), budget)
    estimate = np.maximum(0, thresholds + rng.choice([0.0, 0.0, 0.01, 0.02, -0.01, 0.1], size=K)).round(2)
    return means, thresholds, budget, estimate


@pytest.mark.parametrize("start", range(0, 300, 50))
def test_the_problem_agrees_with_enumeration(start):
    verdicts = set()
    for seed in range(start, start + 50):
        means, thresholds, budget, estimate = random_decimals(seed)
        problem = fast.AllocationProblem(means, thresholds, budget)
        expected = SlowProblem(means.tolist(), thresholds.tolist(), budget)
        assert problem.optimal_value == pytest.approx(float(expected.optimal_value), abs=1e-12)
        assert problem.residual == pytest.approx(float(expected.residual), abs=1e-12)
        assert problem.gamma == pytest.approx(float(expected.gamma), abs=1e-12)
        assert math.fsum(problem.optimal_allocation) == pytest.approx(
            float(sum(expected.optimal_allocation)), abs=1e-12
        )
        for gamma in (0.01, 0.02, 0.05, 0.1):
            assert problem.distinct(gamma) == expected.distinct(gamma)
        verdict = expected.equivalent(estimate.tolist()), expected.really_equivalent(estimate.tolist())
        assert (problem.equivalent(estimate), problem.really_equivalent(estimate)) == verdict
        verdicts.add(verdict)
    assert len(verdicts) >= 3


@pytest.mark.parametrize("solve", [pack, knapsack])
def test_the_knapsack_agrees_with_enumeration(solve):
    for seed in range(200):
        means, thresholds, budget, _ = random_decimals(seed)
        if seed % 2:
            means = np.random.default_rng(seed).uniform(-0.2, 1.0, size=means.size)
        items = dict(enumerate(means.tolist())), dict(enumerate(thresholds.tolist()))
        best = brute_knapsack(*items, budget * (1 + 1e-9))
        chosen = np.flatnonzero(solve(means, thresholds, budget)).tolist()
        assert math.fsum(means[chosen]) == pytest.approx(math.fsum(means[list(best)]), abs=1e-12)
        assert math.fsum(thresholds[chosen]) <= budget * (1 + 1e-9)
        assert (means[chosen] > 0).all()
        if seed % 2:  # no ties
            assert chosen == list(best)
