"""Cascades of many stages take short cuts; they must decide and learn as the policy itself does, to the bit."""

import numpy as np
import pytest

from weakfeedback import Cascade
from weakfeedback.cascade import UssTs
from weakfeedback.live.labels import differences


@pytest.mark.parametrize("arms", [8, 20])
def test_a_long_cascade_plays_as_its_policy_does(arms):
    prices, rng = np.full(arms, 0.01), np.random.default_rng(3)
    cascade = Cascade([lambda x: x] * arms, stage_costs=prices, seed=5)
    policy, own = UssTs(np.cumsum(prices)), np.random.Generator(np.random.PCG64(np.random.SeedSequence(5)))
    for _ in range(300):
        outputs = (rng.random(arms) < np.linspace(0.5, 0.1, arms)).astype(int)
        decision = cascade.decide()
        assert decision.arm == policy.select(own)
        cascade.feedback(decision.id, outputs[: decision.arm + 1].tolist())
        policy.update(decision.arm, outputs[: decision.arm + 1], own)
    assert np.array_equal(cascade._policy.S, policy.S)
    assert np.array_equal(cascade._policy.F, policy.F)
    assert policy.S[:-1].max() > 3.0


@pytest.mark.parametrize("answers", [[1, True, 0, 2, 1, 1, 3, 0], ["a", "b", "a", "c", "b", "a", "a", "d"]])
def test_plain_labels_differ_as_one_by_one(answers):
    loop = differences(answers, lambda a, b: a == b)
    assert np.array_equal(differences(answers, None), loop)
    assert loop.any()
