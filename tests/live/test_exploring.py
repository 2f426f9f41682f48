"""Live players compute their confidence bounds by a short cut; it gives the bits of the policy's own loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weakfeedback import Player
from weakfeedback.catalog import make_policy, policy_class
from weakfeedback.live import exploring
from weakfeedback.live.ledger import fingerprint
from weakfeedback.multiplayer import DlcLix, kl_lucb

means = st.one_of(st.sampled_from([0.0, 1.0, 5e-324, 1e-300, 1e-16, 1.0 - 2**-53]), st.floats(0.0, 1.0))


@given(means, st.integers(1, 10**6), st.floats(1e-9, 200.0))
@settings(max_examples=300, deadline=None)
def test_bounds_have_the_bits_of_the_loop(mean, pulls, level):
    given = np.float64(mean), np.int64(pulls), level
    assert exploring.kl_upper(*given) == kl_lucb.kl_upper(*given)
    assert exploring.kl_lower(*given) == kl_lucb.kl_lower(*given)


@pytest.mark.parametrize("mean", [0.25, 0.5, 0.9])
def test_a_bound_that_is_met_exactly_belongs_to_the_interval(mean):
    for q in (0.5 * (mean + 1.0), 0.5 * mean):
        given = mean, 7, 7 * kl_lucb.divergence(mean, q)
        assert exploring.kl_upper(*given) == kl_lucb.kl_upper(*given)
        assert exploring.kl_lower(*given) == kl_lucb.kl_lower(*given)


@pytest.mark.parametrize("name", ["DLC-LIX", "DLC"])
def test_a_live_player_is_her_policy(name):
    player = Player(6, name, epsilon=0.02, seed=4, alarm=False)
    policy = make_policy("multiplayer", name, 6, epsilon=0.02, delta=0.05)
    rng = np.random.Generator(np.random.PCG64(4))
    rewards = (np.random.default_rng(0).random((4000, 6)) < np.linspace(0.9, 0.8, 6)).astype(float)
    assert exploring._find_pair.__code__ is kl_lucb.AdaptiveExplore.find_pair.__code__
    assert type(player.policy).find_pair is exploring._find_pair
    for slot, row in enumerate(rewards):
        arm = player.choose()
        assert arm == policy.choose(rng)
        reward = 0.0 if arm < 0 else float(row[arm])
        player.observe(reward, False)
        policy.observe(arm, reward, False, rng)
        if slot % 400 == 399:
            assert vars(player.policy).keys() == vars(policy).keys()
            for field, value in vars(policy).items():
                assert np.array_equal(getattr(player.policy, field), value), field
    assert policy.pairs > 100


def test_a_player_of_ones_own_stays_what_she_is():
    policy = DlcLix(3, epsilon=0.1, delta=0.1)
    assert Player(3, policy, seed=0).policy is policy
    assert type(policy) is DlcLix


@pytest.mark.parametrize(
    ("name", "options"),
    [("DPE1", {}), ("Musical-Chairs", {"learning_rounds": 50}), ("SIC-MMAB", {"horizon": 1000})],
)
def test_players_without_such_bounds_stay_what_they_are(name, options):
    assert type(Player(3, name, seed=0, **options).policy) is policy_class("multiplayer", name)


def test_the_file_names_the_policy_itself(tmp_path):
    player = Player(3, epsilon=0.1, seed=0)
    assert isinstance(player.policy, DlcLix)
    assert player._core()["class"] == "DlcLix"
    player.observe(0.5 * float(player.choose() >= 0), False)
    assert player._core()["ledger"]["answered"] == [[1, fingerprint([0.5, False])]]  # as in older files
    player.save(tmp_path / "saved")
    loaded = Player.load(tmp_path / "saved")
    assert loaded._core() == player._core()
    assert type(loaded.policy) is type(player.policy)
