"""A live allocator of gradual effects: its default policy, its report, and the warning of one that takes thresholds."""

import numpy as np
import pytest

from weakfeedback import Allocator
from weakfeedback.allocation import CsbIso, CsbTs

CURVES = np.array([0.9, 0.6, 0.4])[:, None] * np.exp(-np.outer([3.0, 1.0, 6.0], np.linspace(0.0, 1.0, 101)))


def run(allocator, rounds, seed=1, curves=CURVES, reward=False):
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        decision = allocator.decide()
        levels = (decision.allocation * 100 + 1e-9).astype(int)
        hit = rng.random(3) < curves[np.arange(3), levels]
        allocator.feedback(decision.id, (~hit if reward else hit).astype(float))
    return allocator


def test_the_response_chooses_the_policy():
    assert isinstance(Allocator(3, 1.0).policy, CsbTs)
    assert isinstance(Allocator(3, 1.0, response="threshold").policy, CsbTs)
    assert isinstance(Allocator(3, 1.0, response="gradual", levels=20).policy, CsbIso)
    assert isinstance(Allocator(3, 1.0, "csb-iso", response="gradual").policy, CsbIso)
    assert isinstance(Allocator(3, 1.0, CsbIso(3, 1.0), response="gradual").policy, CsbIso)
    for policy in ("CSB-TS", CsbTs(3, 1.0)):
        with pytest.raises(ValueError, match="response must be 'threshold' with this policy, got 'gradual'"):
            Allocator(3, 1.0, policy, response="gradual")
    with pytest.raises(ValueError, match="response must be 'gradual' with this policy, got 'threshold'"):
        Allocator(3, 1.0, "CSB-ISO", response="threshold")
    with pytest.raises(ValueError, match="response must be 'threshold' or 'gradual', got 'slow'"):
        Allocator(3, 1.0, response="slow")


@pytest.mark.parametrize("setting", ["loss", "reward"])
def test_the_report_has_the_curves(setting):
    allocator = Allocator(["a", "b", "c"], 1.0, setting=setting, response="gradual", seed=0, compiled=True)
    report = run(allocator, 3000, reward=setting == "reward").report()
    assert "gradual effects as estimated so far" in str(report)
    curve = report.curve("a")
    assert list(curve) == ["amount", "mean", "low", "high"]
    assert curve["amount"].tolist() == pytest.approx(np.linspace(0.0, 1.0, 101))
    truth = CURVES[0] if setting == "loss" else 1.0 - CURVES[0]
    given = allocator.policy.n1[0] + allocator.policy.n0[0] > 200
    assert given.any()
    assert (abs(curve["mean"] - truth)[given] < 0.12).all()
    for arm in "abc":  # also where it was only ever a loss, or none
        band = report.curve(arm).dropna()
        assert ((band["low"] <= band["mean"]) & (band["mean"] <= band["high"])).all()
    assert len(report.to_dict()["responses"]) == 3
    with pytest.raises(ValueError, match="arm must be one of"):
        report.curve(0)
    with pytest.raises(ValueError, match="CSB-TS learns thresholds, no curves: use response='gradual'"):
        Allocator(3, 1.0).report().curve(0)


def test_it_is_saved_and_opened_again(tmp_path):
    path, saved = tmp_path / "gradual.db", tmp_path / "gradual.json"
    with Allocator.open(path, 3, 1.0, response="gradual", levels=20, seed=0) as allocator:
        run(allocator, 30)
        allocator.save(saved)
        expected = allocator.decide().allocation
    with Allocator.open(path, 3, 1.0, response="gradual", levels=20) as again:
        assert again.pending == [31]
        assert again.decision(31).allocation.tolist() == expected.tolist()
    assert Allocator.load(saved).decide().allocation.tolist() == expected.tolist()
    with pytest.raises(ValueError, match="response must be 'gradual', as in"):
        Allocator.open(path, 3, 1.0, response="threshold")


def test_a_policy_of_thresholds_says_that_the_response_looks_gradual():
    """8 seeds each, fixed: thresholds never alarm (an alarm takes two events of less than 1e-6), curves always do."""
    for seed in range(8):
        gradual = run(Allocator(3, 1.0, seed=seed, compiled=True), 2000, seed)
        assert gradual.report().looks_gradual
        assert "use response='gradual'" in str(gradual.report())
        assert gradual.report().to_dict()["looks_gradual"] is True
        level = np.linspace(0.0, 1.0, 101)
        steps = np.where(level[None] < np.array([[0.4], [0.3], [0.7]]), np.array([[0.9], [0.05], [0.4]]), 0.0)
        fine = run(Allocator(3, 1.0, seed=seed, compiled=True), 2000, seed, steps)
        assert not fine.report().looks_gradual
        assert "looks_gradual" not in fine.report().to_dict()


OTHERS = {
    "CSB-DU": {"gamma": 0.02, "every": 20},
    "CSB-SU": {},
    "CSB-TS-same": {},
    "CSB-MK": {"epsilon": 0.1, "gamma": 0.01, "delta": 0.01},
    "CSB-DT": {"epsilon": 0.1, "gamma": 0.01, "delta": 0.01},
    "CSB-SK": {"epsilon": 0.1, "delta": 0.01},
}


@pytest.mark.parametrize("policy", OTHERS)
def test_every_policy_of_thresholds_says_it_by_the_last_rounds(policy):
    """2 seeds each, fixed: an alarm takes six standard errors, and is the report's, not the policy's."""
    level = np.linspace(0.0, 1.0, 101)
    floors = np.where(level[None] < np.array([[0.3], [0.2], [0.4]]), 0.9, np.array([[0.2], [0.1], [0.3]]))
    steps = np.where(level[None] < np.array([[0.4], [0.3], [0.7]]), np.array([[0.9], [0.05], [0.4]]), 0.0)
    for seed in range(2):
        gradual, fine = (Allocator(3, 1.0, policy=policy, seed=seed, **OTHERS[policy]) for _ in range(2))
        found = []
        for _ in range(4):
            found.append(run(gradual, 125, seed, floors).report().looks_gradual)
            assert not run(fine, 125, seed, steps).report().looks_gradual
        assert any(found)
        assert "use response='gradual'" in str(gradual.report()) or not found[-1]


def test_thresholds_of_rewards_do_not_look_gradual():
    level = np.linspace(0.0, 1.0, 101)
    idle = np.where(level[None] < np.array([[0.4], [0.3], [0.5]]), 1.0, np.array([[0.1], [0.5], [0.8]]))
    rewards = Allocator(3, 1.0, policy="CSB-TS-same", setting="reward", seed=0)
    for _ in range(4):
        assert not run(rewards, 100, 0, idle, reward=True).report().looks_gradual
