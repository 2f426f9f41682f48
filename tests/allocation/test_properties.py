"""What must hold for every policy of chapter 4 on random instances and feedback."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.allocation.battery import VARIANTS, Instance, make

from weakfeedback import allocation

EVERY = [(name, k) for name in VARIANTS for k in range(len(VARIANTS[name]))]
SEARCHING = [(name, k) for name, k in EVERY if name[0] == "C"]  # losses
SAME = ("CsbSk", "CsbSt", "CsbSu", "NumSk")


def policy_and_instance(name, k, seed):
    options = VARIANTS[name][k]
    same = name in SAME or options.get("same", False)
    instance = Instance(seed, same, "reward" if name[0] == "N" else "loss", "bernoulli")
    return make(getattr(allocation, name), name, options, instance), instance


@pytest.mark.parametrize(("name", "k"), EVERY)
@given(st.integers(0, 10**6), st.floats(0.0, 1.0))
@settings(max_examples=15, deadline=None)
def test_the_budget_is_never_exceeded(name, k, seed, share):
    policy, instance = policy_and_instance(name, k, seed)
    rng = np.random.default_rng(seed)
    for _ in range(40):
        allocation_ = policy.select(rng)
        assert (allocation_ >= 0.0).all()
        assert allocation_.sum() <= instance.budget * (1.0 + 2e-9)
        # feedback that need not come from any thresholds
        policy.update(allocation_, (rng.random(instance.means.size) < share).astype(float), rng)


@pytest.mark.parametrize(("name", "k"), SEARCHING)
@given(st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_an_estimate_is_never_below_an_amount_that_lost(name, k, seed):
    policy, instance = policy_and_instance(name, k, seed)
    if "decimals" in VARIANTS[name][k]:
        return  # rounding moves the final estimate on purpose
    rng = np.random.default_rng(seed)
    lost_at = np.zeros(instance.means.size)
    for _ in range(60):
        given_ = policy.select(rng)
        lost = (rng.random(instance.means.size) < instance.means) & (given_ < instance.thresholds)
        policy.update(given_, lost.astype(float), rng)
        if name == "CsbDt":  # as in its program, who has to give in a round is not listened to in it
            lost &= ~policy.moved
        lost_at = np.where(lost, np.maximum(lost_at, given_), lost_at)
        if getattr(policy, "found", False):
            break
        assert (policy.theta_hat >= lost_at - 1e-12).all()


class ByArm:
    """A generator whose draws depend on the arm, the round and the counts, not on the order of the arms.

    ``arm[k]`` is who the k-th arm really is; policies draw a mean for each arm in index order, and nothing else.
    """

    def __init__(self, arm):
        self.arm, self.calls = arm, 0

    def beta(self, a, b):
        t, k = divmod(self.calls, len(self.arm))
        self.calls += 1
        return np.random.default_rng([t, self.arm[k]]).beta(a, b)


@pytest.mark.parametrize("name", ["CsbSk", "CsbSt", "CsbSu", "CsbDu", "NumSk", "KnownThresholds"])
@given(st.integers(0, 10**6))
@settings(max_examples=10, deadline=None)
def test_permuting_the_arms_permutes_the_allocation(name, seed):
    # CSB-MK and its kin try unknown arms in index order, so this is not true of them
    rng = np.random.default_rng(seed)
    K = int(rng.integers(2, 9))
    turn = rng.permutation(K)
    budget = float(rng.uniform(1.0, 0.4 * K + 1.0))
    theta = rng.uniform(0.05, 0.9, K) if name in ("CsbDu", "KnownThresholds") else np.full(K, 0.45)
    outcomes = (rng.random((60, K)) < rng.uniform(0.2, 0.9, K)).astype(float)
    options = dict(VARIANTS[name][0])
    makers = [theta, theta[turn]]
    policies = [
        getattr(allocation, name)(
            K, budget, **({"thresholds": given_.tolist()} if name == "KnownThresholds" else options)
        )
        for given_ in makers
    ]
    rngs = [ByArm(np.arange(K)), ByArm(turn)]
    for row in outcomes:
        plain, turned = (policy.select(stub) for policy, stub in zip(policies, rngs, strict=True))
        np.testing.assert_allclose(turned, plain[turn], rtol=0.0, atol=1e-12)
        seen = np.where((plain >= theta) == (name == "NumSk"), row, 0.0)
        policies[0].update(plain, seen, rngs[0])
        policies[1].update(turned, seen[turn], rngs[1])
