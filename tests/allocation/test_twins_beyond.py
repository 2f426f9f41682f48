"""CSB-TS and CSB-TS-same against their slow twins: every question to the generator, every decision, every count.

The twins weigh levels exactly, the policies in doubles: about 20000 draws, each within 1e-13 of a border with
probability 1e-11 or so, would have to meet one for an honest difference. The seeds are fixed; there is none.
"""

import numpy as np
import pytest
from tests.allocation.battery import Arrays, late
from tests.reference.allocation_problem import SlowWorld, slow_rounds
from tests.reference.csb_ts import SlowCsbTs, SlowCsbTsSame

from weakfeedback.allocation.policies.csb_ts import CsbTs
from weakfeedback.allocation.policies.csb_ts_same import CsbTsSame

BOTH = pytest.mark.parametrize("setting", ["loss", "reward"])
ON_TIME = lambda t: 0  # noqa: E731


class Heard:
    """A generator that notes what it is asked."""

    def __init__(self, rng, asked):
        self.rng, self.asked = rng, asked

    def random(self):
        self.asked.append("u")
        return self.rng.random()

    def beta(self, a, b):
        self.asked.append((float(a), float(b)))
        return self.rng.beta(a, b)


class Listening:
    """A policy whose generator notes what it is asked."""

    def __init__(self, policy):
        self.policy, self.asked = policy, []

    def select(self, rng):
        return self.policy.select(Heard(rng, self.asked))

    def update(self, allocation, observed, rng):
        self.policy.update(allocation, observed, Heard(rng, self.asked))


def agree(one, twin):
    assert (one.P.tolist(), one.S.tolist()) == (list(twin.P), list(twin.S))


def lockstep(one, twin, world, seed, horizon, late=ON_TIME):
    """Both side by side in the same world."""
    fast, slow = Listening(Arrays(one)), Listening(twin)

    def watch(t, rounds, rngs):
        assert fast.asked == slow.asked, f"round {t}"
        assert rounds[0].allocation == rounds[1].allocation, f"round {t}"
        agree(one, twin)
        fast.asked.clear()
        slow.asked.clear()

    slow_rounds(world, [fast, slow], seed, 0, horizon, late, watch)


def hostile(one, twin, seed, horizon, amounts):
    """Both are told of allocations that no run would give, and decide after each."""
    fast, slow = Listening(Arrays(one)), Listening(twin)
    rng, rngs = np.random.default_rng(seed), [np.random.default_rng(5), np.random.default_rng(5)]
    for t in range(horizon):
        positive = 0.02 if t < horizon / 2 else 0.3  # at first much is possible, at last little
        observed = np.where(rng.random(one.K) < positive, rng.choice([1.0, 0.4, 1e-3, 0.999], one.K), 0.0)
        allocation = amounts(rng)
        for policy, its in zip((fast, slow), rngs):
            policy.update(allocation.tolist(), observed.tolist(), its)
        assert fast.select(rngs[0]).tolist() == slow.select(rngs[1]), f"round {t}"
        assert fast.asked == slow.asked, f"round {t}"
        agree(one, twin)


def world(rng, K, setting, rewards, same=False):
    """Any budget; thresholds on and off the grid, of 0, and one that cannot be met."""
    budget = round(rng.uniform(0.4, 0.3 * K + 0.6), 2)
    thresholds = rng.uniform(0.02, 0.7, size=K).round(int(rng.integers(1, 4)))
    if same:
        thresholds = np.full(K, budget / rng.integers(1, K + 2) * rng.choice([1.0, 0.9]))
    elif K > 3:
        thresholds[rng.integers(K)] = rng.choice([0.0, budget + 0.1])
    means = rng.uniform(0.05, 0.95, size=K).round(2)
    means[rng.integers(K)] = rng.choice([0.02, 0.5, 0.98, 1.0])
    return SlowWorld(means.tolist(), thresholds.tolist(), budget, setting, rewards)


@BOTH
@pytest.mark.parametrize("step", [0.1, 0.05, 0.01])
def test_csb_ts_agrees_with_its_twin(step, setting):
    route = set()
    for K in range(1, 7):
        # each law with every other number of arms
        rewards = ("bernoulli", "uniform")[(K + round(100 * step)) % 2]
        there = world(np.random.default_rng([K, round(1000 * step)]), K, setting, rewards)
        one, twin = (kind(K, there.budget, step, setting) for kind in (CsbTs, SlowCsbTs))
        assert (one.K, one.Q, one.step, one.C, one.reward) == (
            K,
            there.budget,
            step,
            twin.C,
            setting == "reward",
        )
        lockstep(one, twin, there, K, 120, late if K % 3 == 0 else ON_TIME)
        route |= twin.route
    assert route >= ({"pad", "pad, in part", "probe"} | ({"cover"} if setting == "loss" else set()))


@BOTH
def test_csb_ts_of_the_first_edition_agrees_with_its_twin(setting):
    """What was saved before losses were padded goes on without."""
    route = set()
    for K in (2, 4, 6):
        there = world(np.random.default_rng([K, 1]), K, setting, "bernoulli")
        one = CsbTs(K, there.budget, 0.02, setting)
        twin = SlowCsbTs(K, there.budget, 0.02, setting, edition=1)
        one.edition = 1
        lockstep(one, twin, there, K, 120)
        route |= twin.route
    assert ("pad" in route) == (setting == "reward")


@BOTH
def test_csb_ts_agrees_with_its_twin_in_a_long_run(setting):
    there = SlowWorld([0.9, 0.5, 0.6, 0.3], [0.33, 0.2, 0.45, 0.07], 0.8, setting, "bernoulli")
    one, twin = (kind(4, 0.8, 0.02, setting) for kind in (CsbTs, SlowCsbTs))
    lockstep(one, twin, there, 3, 600)


@BOTH
def test_csb_ts_agrees_with_its_twin_where_many_arms_have_few_levels(setting):
    rng = np.random.default_rng(8)
    thresholds = rng.choice([0.2, 0.4], size=11)
    there = SlowWorld(rng.uniform(0.2, 0.9, size=11).tolist(), thresholds.tolist(), 1.0, setting, "bernoulli")
    one, twin = (kind(11, 1.0, 0.2, setting) for kind in (CsbTs, SlowCsbTs))
    lockstep(one, twin, there, 8, 80)


@pytest.mark.parametrize("levels", [999, 1000, 2999, 3200])
def test_csb_ts_agrees_with_its_twin_where_the_quantile_matters(levels):
    """The largest threshold left is the likeliest, so a quantile of .999 is below it only beyond 1000 levels.

    With 1000 and 3000 thresholds (one more than levels) as likely as each other, it is a tie.
    """
    route = set()
    for K in (1, 2):
        there = SlowWorld([0.05, 0.1][:K], [0.3, 0.4][:K], levels / 1000, "reward", "bernoulli")
        one, twin = (kind(K, there.budget, 0.001, "reward") for kind in (CsbTs, SlowCsbTs))
        assert levels == one.C
        lockstep(one, twin, there, levels, 12)
        route |= twin.route
    assert "pad" in route


@BOTH
@pytest.mark.parametrize("step", [0.1, 0.05, 0.01, 0.001])
def test_csb_ts_agrees_with_its_twin_on_hostile_feedback(step, setting):
    """Amounts on the grid and beside it, halfway between levels, and more than the whole budget."""
    for seed in range(4):
        K, budget = seed + 2, 0.55 + 0.3 * seed
        one, twin = (kind(K, budget, step, setting) for kind in (CsbTs, SlowCsbTs))

        def amounts(rng, K=K, C=twin.C, seed=seed):
            levels = rng.integers(0, C + 1, size=K) if seed % 2 else rng.integers(C // 2, C + 3, size=K)
            beside = rng.choice([0.0, 0.0, 0.49, -0.49, 0.5, -0.5, 1e-9], size=K)
            return np.maximum(0.0, levels + beside) * step

        hostile(one, twin, seed, 40 if step == 0.001 else 100, amounts)


@BOTH
@pytest.mark.parametrize("rewards", ["bernoulli", "uniform"])
def test_csb_ts_same_agrees_with_its_twin(rewards, setting):
    for K in range(1, 9):
        there = world(np.random.default_rng(K), K, setting, rewards, same=True)
        one, twin = (kind(K, there.budget, setting) for kind in (CsbTsSame, SlowCsbTsSame))
        assert (one.K, one.Q, one.reward) == (K, there.budget, setting == "reward")
        lockstep(one, twin, there, K, 120, late if K % 2 else ON_TIME)


@BOTH
def test_csb_ts_same_agrees_with_its_twin_on_hostile_feedback(setting):
    for K in range(1, 7):
        one, twin = (kind(K, 1.3, setting) for kind in (CsbTsSame, SlowCsbTsSame))
        low = 0 if K % 2 else max(1, K - 2)

        def amounts(rng, K=K, low=low):
            allocation = np.zeros(K)
            L = int(rng.integers(low, K + 1))
            allocation[rng.permutation(K)[:L]] = 1.3 / max(1, L)
            return allocation

        hostile(one, twin, K, 120, amounts)
