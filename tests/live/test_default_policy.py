"""What a cascade plays if no policy is named: USS-WD, USS-TS once three answers differ, USS-mean for numbers."""

import numpy as np
import pytest
from tests.live import inside

from weakfeedback import Cascade
from weakfeedback.cascade import UssTs
from weakfeedback.cascade.policies.uss_wd import UssWdTs

COSTS = {"stage_costs": [1.0, 2.0, 3.0], "error_cost": 10.0}


def play(cascade, rounds, labels, rng):
    """Answer with so many labels; return the stages at which rounds stopped and the answers."""
    played = []
    for _ in range(rounds):
        decision = cascade.decide()
        outputs = [int(label) for label in rng.integers(0, labels, decision.arm + 1)]
        cascade.feedback(decision.id, outputs)
        played.append((decision.arm, outputs))
    return played


@pytest.mark.parametrize("compiled", [False, True])
def test_two_labels_are_played_by_uss_wd(compiled):
    default, named = (
        Cascade(3, **COSTS, seed=4, compiled=compiled, **policy) for policy in ({}, {"policy": "USS-WD"})
    )
    assert play(default, 200, 2, np.random.default_rng(1)) == play(named, 200, 2, np.random.default_rng(1))
    assert "USS-WD" in repr(default)
    assert default.report().policy == "USS-WD"


@pytest.mark.parametrize("compiled", [False, True])
def test_a_third_label_goes_over_to_uss_ts_with_all_that_was_seen(compiled, tmp_path):
    cascade = Cascade(3, **COSTS, seed=4, compiled=compiled)
    rng = np.random.default_rng(2)
    played = play(cascade, 60, 2, rng)
    cascade.save(tmp_path / "before")
    cascade = Cascade.load(tmp_path / "before", 3, compiled=compiled)
    while cascade.report().policy == "USS-WD":
        played += play(cascade, 1, 3, rng)
    assert len(set(played[-1][1])) == 3
    cascade.save(tmp_path / "after")
    cascade = Cascade.load(tmp_path / "after", 3, compiled=compiled)
    assert "USS-TS" in str(cascade.report())
    twin = UssTs(np.cumsum(COSTS["stage_costs"]) / COSTS["error_cost"])
    for arm, outputs in played:
        twin.update(arm, np.array(outputs), None)
    assert np.array_equal(cascade.policy.S, twin.S)
    assert np.array_equal(cascade.policy.F, twin.F)
    draws = np.random.Generator(np.random.PCG64())
    draws.bit_generator.state = inside.rng(cascade).bit_generator.state
    for arm, outputs in play(cascade, 100, 3, rng):
        assert arm == twin.select(draws)
        twin.update(arm, np.array(outputs), None)


def test_a_journal_goes_over_in_the_same_round(tmp_path):
    rng = np.random.default_rng(3)
    with Cascade.open(tmp_path / "journal", 3, **COSTS, seed=4) as cascade:
        play(cascade, 30, 2, rng)
        play(cascade, 60, 3, rng)
        learned, draws = cascade.policy, inside.rng(cascade).bit_generator.state
    assert learned.many
    with Cascade.open(tmp_path / "journal", 3, **COSTS, seed=4) as again:
        assert "USS-TS" in repr(again)
        assert np.array_equal(again.policy.S, learned.S)
        assert inside.rng(again).bit_generator.state == draws


def test_what_is_saved_keeps_its_policy(tmp_path):
    Cascade(3, **COSTS, policy="USS-TS", seed=1).save(tmp_path / "state")
    assert type(Cascade.load(tmp_path / "state", 3).policy) is UssTs
    with Cascade.open(tmp_path / "journal", 3, **COSTS, policy="USS-TS", seed=1):
        pass
    with Cascade.open(tmp_path / "journal", 3, **COSTS, seed=1) as again:
        assert type(again.policy) is UssTs


@pytest.mark.parametrize(
    ("stages", "more", "name"),
    [
        (8, {}, "USS-WD"),
        (9, {}, "USS-TS"),
        (2, {"label_price": 1}, "Q-USS"),
        (2, {"metric": max}, "USS-mean"),
    ],
)
def test_the_default_depends_on_stages_labels_and_numbers(stages, more, name):
    assert Cascade(stages, [1] * stages, 30, **more).report().policy == name


def test_patterns_tell_how_often_pairs_differed():
    """Against USS-TS, which counts the pairs."""
    rng = np.random.default_rng(5)
    for K in range(3, 7):
        policy, twin = (cls(np.arange(K) / 10) for cls in (UssWdTs, UssTs))
        for arm in rng.integers(0, K, 100):
            outputs = rng.integers(0, 2, arm + 1)
            policy.update(arm, outputs, None)
            twin.update(arm, outputs, None)
        assert not policy.many
        policy.go_over()
        assert np.array_equal(policy.S, twin.S)
        assert np.array_equal(policy.F, twin.F)
