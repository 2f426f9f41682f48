"""Live players with Claims, the default: who owns what, slots that were missed, saved states; and without sensing."""

import numpy as np
import pytest

from weakfeedback import Player
from weakfeedback.live import WrongSlot
from weakfeedback.multiplayer import Claims
from weakfeedback.multiplayer.policies.claims import SEEK

MEANS = np.array([0.9, 0.3, 0.7, 0.1, 0.5])


def meet(players, rng):
    """One slot; the players are told what they heard."""
    arms = [player.choose() for player in players]
    rewards = (rng.random(MEANS.size) < MEANS).astype(float)
    for player, arm in zip(players, arms):
        hit = arm >= 0 and arms.count(arm) > 1
        player.observe(0.0 if hit or arm < 0 else rewards[arm], hit)
    return arms


def test_it_is_the_default_and_finds_the_departed_players_arm():
    players, rng = [Player(5, seed=n) for n in range(3)], np.random.default_rng(0)
    assert isinstance(players[0].policy, Claims)
    assert players[0].policy.recheck == 300
    for _ in range(2500):
        meet(players, rng)
        owned = [player.arm for player in players if player.holds]
        assert len(set(owned)) == len(owned)
    assert sorted(player.arm for player in players) == [0, 2, 4]
    assert all(player.quiet_slots > 0 and not player.settled for player in players)
    assert "owning arm" in players[0].description
    rest = [player for player in players if player.arm != 0]  # the owner of the best arm leaves
    for _ in range(3000):
        meet(rest, rng)
    assert sorted(player.arm for player in rest) == [0, 2]


def test_options_are_those_of_the_policy():
    assert Player(3, recheck=None).policy.recheck == 0.0
    assert Player(3, policy="Claims", recheck=50).policy.recheck == 50.0
    with pytest.raises(
        ValueError, match="epsilon is not an option of Claims, which takes: recheck, patience"
    ):
        Player(3, epsilon=0.1)


def owner(**options):
    player, rng = Player(4, seed=1, **options), np.random.default_rng(1)
    while not player.holds:
        player.choose()
        player.observe(float(rng.random()), False)
    return player


@pytest.mark.parametrize("compiled", [False, True])
def test_missed_slots_make_it_seek(compiled):
    player = owner(compiled=compiled)
    arm, slot = player.choose(), player.slot
    player.miss(12)
    assert (player.holds, player.policy.state, player.pending) == (False, SEEK, [])
    assert player.slot == slot  # its own count of slots, in which it took part
    assert player.policy.t == slot + 12
    with pytest.raises(WrongSlot):
        player.observe(1.0, False)
    assert player.choose() in range(4)
    assert arm in range(4)


def test_a_saved_player_comes_back_seeking_unless_nothing_was_missed(tmp_path):
    player, path = owner(), tmp_path / "p.json"
    player.save(path)
    assert not Player.load(path).holds
    same = Player.load(path, missed=0)
    assert same.holds
    for _ in range(300):
        assert same.choose() == player.choose()
        for one in (same, player):
            one.observe(0.5, False)
    assert Player.from_state(player.state()).holds == player.holds
    assert not Player.from_state(player.state(), missed=3).holds
    with pytest.raises(ValueError, match="missed must be an integer >= 0, got -1"):
        Player.load(path, missed=-1)


def test_every_state_is_saved(tmp_path):
    """Among random collisions, saved and loaded in every state: it goes on as the one that never stopped."""
    player, rng, seen = Player(3, seed=2, recheck=20), np.random.default_rng(2), set()
    for slot in range(1500):
        if slot % 5 == 0:
            player = Player.from_state(player.state())
        if slot == 0:
            twin = Player.from_state(player.state())
        arm = player.choose()
        assert twin.choose() == arm
        hit = arm >= 0 and bool(rng.random() < 0.4)
        reward = 0.0 if hit or arm < 0 else float(rng.random())
        player.observe(reward, hit)
        twin.observe(reward, hit)
        seen.add(player.phase)
    assert seen == {"seeking", "claiming", "owning", "moving", "reclaiming"}


@pytest.mark.parametrize("missed", [None, 0])
def test_a_journal_remembers_what_was_missed(tmp_path, missed):
    path = tmp_path / "p.db"
    with Player.open(path, 4, seed=1) as player:
        for _ in range(40):
            player.choose()
            player.observe(0.5, False)
        assert player.holds
        player.miss(2)
        for _ in range(40):
            player.choose()
            player.observe(0.5, False)
        state = player.state()
    with Player.open(path, missed=missed) as again:
        assert again.holds == (missed == 0)
        if missed == 0:
            assert again.state() == state
        again.choose()


def test_a_policy_of_a_fixed_team_cannot_miss_a_slot(tmp_path):
    player = Player(4, "DLC-LIX", seed=0)
    with pytest.raises(
        ValueError, match="DLC-LIX cannot miss a slot: its players must go through the same slots"
    ):
        player.miss()
    player.save(tmp_path / "p.json")
    assert Player.load(tmp_path / "p.json").state() == player.state()


def test_only_who_senses_nothing_may_leave_the_flag_out():
    player = Player(3, "Selfish", seed=0)
    for _ in range(50):
        player.choose()
        player.observe(1.0)
    assert not player.holds
    claiming = Player(3, seed=0)
    claiming.choose()
    with pytest.raises(ValueError, match="collided must be True or False, got None"):
        claiming.observe(1.0)
