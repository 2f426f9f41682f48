"""DPE1: slots by hand, what all players agree on, what the leader explores, mutants, live and radio use."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apps.devices import MEANS, simulated
from tests.multiplayer.arena import Arena, seated, sitting_on
from tests.rig.mutants import caught

from weakfeedback import Player, simulate
from weakfeedback.apps.radio import play_radio
from weakfeedback.checks import CHECKS, check_policy
from weakfeedback.multiplayer import Dpe1, MultiplayerProblem, instances
from weakfeedback.multiplayer.kl_lucb import kl_upper
from weakfeedback.multiplayer.policies import dpe1

# -- by hand


class Listed:
    """A generator that gives these numbers, and no others."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


def two_players_by_hand(kind):
    """Four arms, seats 1 and 3. The opening: 1 slot, a sweep of 4, indexing of 7.

    The leader (player 0) sits on arm 1; in indexing it meets arm 3 once and has arm 2 for itself once.
    """
    rngs = [Listed(0.3, 0.9, 0.1, 0.49), sitting_on(3, 4)]
    arena = Arena([kind(4), kind(4)], [0.1, 0.9, 0.5, 0.8], rngs)
    arena.play(12)
    leader, follower = arena.players
    assert arena.column(0, 1, 12) == [1] * 9 + [2, 3, 1]
    assert (leader.rank, follower.rank, leader.N) == (0, 1, 2)
    assert leader.pulls.tolist() == [0, 10, 1, 0]
    # the set is {0, 1}; slots 1 and 2 rotate. Arm 0 (mean .1) loses to arm 2 (.5); arm 3 was never free: not compared
    arena.play(2)
    # slot 3: it stays on its last arm 0 and is met. 4, 5: on arm 0. 6 to 9: on arm 2, where the other comes in slot 9
    arena.play(7)
    assert arena.column(0, 13, 21) == [1, 0, 0, 0, 0, 2, 2, 2, 2]
    assert arena.column(1, 13, 21) == [0, 1, 0, 1, 0, 3, 0, 1, 2]
    assert [sum(hits) for hits in arena.hits[12:21]] == [0, 0, 2, 0, 2, 0, 0, 0, 2]
    for player in arena.players:
        assert player.cycle[:2].tolist() == [1, 2]
    # f(9) = 2.20 + 4 log 2.20 = 5.35 and 2 d(.1, .5) = .74: arm 0 is to be explored, as arm 3 is, never seen
    assert (leader.worst, leader.wanted[: leader.wanted_size].tolist()) == (2, [0, 3])
    # slot 11 is its own on arm 2, u = .9: arm 3. Slot 13: it has found arm 3, and tells
    arena.play(3)
    assert arena.column(0, 22, 24) == [1, 3, 1]
    assert arena.column(1, 22, 24) == [2, 1, 2]
    assert leader.talking
    arena.play(7)
    # 13 is met on arm 1 = cycle[12 mod 2]; 14, 15 on arm 2; 16 to 19 on arm 3
    assert arena.column(0, 25, 31) == [1, 2, 2, 3, 3, 3, 3]
    assert arena.column(1, 25, 31) == [1, 2, 1, 1, 2, 3, 0]
    for player in arena.players:
        assert player.cycle[:2].tolist() == [1, 3]
    # slot 20: arm 1; slot 21: arm 3 is the worst, u = .1 plays it; slot 23: u = .49 plays it
    arena.play(4)
    assert arena.column(0, 32, 35) == [1, 3, 1, 3]
    assert not rngs[0].numbers
    assert leader.pulls.sum() == sum(not hits[0] for hits in arena.hits)
    assert leader.sums == pytest.approx(leader.pulls * np.array([0.1, 0.9, 0.5, 0.8]))
    assert not leader.settled
    assert leader.arm == 3


def wanted_by_definition(kind):
    """The index b_k, solved for, reaches the least mean of the set."""
    rng = np.random.default_rng(0)
    agreed = {True: 0, False: 0}
    for _ in range(300):
        leader = kind(5)
        leader.N, leader.c = 2, int(rng.integers(1, 5000))
        leader.member[:] = [True, False, False, True, False]
        leader.pulls[:] = rng.integers(0, 60, size=5)
        leader.means[:] = rng.uniform(0, 1, size=5) * (leader.pulls > 0)
        leader.means[[0, 3]] = rng.uniform(0.4, 1.0, size=2)
        leader.worst = 0 if leader.means[0] <= leader.means[3] else 3
        least = leader.means[leader.worst]
        leader.find_wanted()
        f = math.log(leader.c) + 4 * math.log(max(1.0, math.log(leader.c)))
        for k in (1, 2, 4):
            b = math.inf if leader.pulls[k] == 0 else kl_upper(leader.means[k], leader.pulls[k], f)
            if abs(b - least) > 1e-9:
                found = k in leader.wanted[: leader.wanted_size]
                assert found == (b >= least)
                agreed[found] += leader.pulls[k] > 0
    assert min(agreed.values()) > 100


def pair_by_hand(kind):
    """Arms without a sample are not compared; ties go to the smaller arm, and change nothing."""
    leader = kind(5)
    leader.member[:] = [True, True, True, False, False]
    for pulls, means, pair, outdone in [
        ([0, 3, 3, 3, 3], [0.0, 0.5, 0.5, 0.5, 0.5], (1, 3), False),
        ([1, 3, 3, 3, 3], [0.0, 0.5, 0.5, 0.4, 0.6], (0, 4), True),
        ([0, 0, 0, 3, 3], [0.0, 0.0, 0.0, 0.4, 0.6], (-1, 4), False),
        ([2, 2, 2, 0, 0], [0.0, 0.0, 0.0, 0.0, 0.0], (0, -1), False),
    ]:
        leader.pulls[:], leader.means[:] = pulls, means
        leader.find_pair()
        assert (leader.out, leader.into) == pair
        assert bool(leader.is_outdone()) == outdone


def alone_by_hand(kind):
    """One player changes its arm at once, and draws in every slot with something to explore."""
    player, rng = kind(3), Listed(0.0)
    rewards = [0.0, 0.5, 1.0]
    for _ in range(9):  # 1 slot, a sweep of 3, indexing of 5: arm 0, and arms 1 and 2 once each
        arm = player.choose(rng)
        player.observe(arm, rewards[arm], False, rng)
    assert player.pulls.tolist() == [7, 1, 1]
    assert player.choose(rng) == 0
    player.observe(0, 0.0, False, rng)
    assert player.cycle[0] == 2
    # f(1) = 0: nothing reaches the mean 1
    assert player.wanted_size == 0
    assert player.choose(rng) == 2
    player.observe(2, 1.0, False, rng)
    # d(m, 1) is infinite for m < 1: nothing will ever be explored
    assert player.wanted_size == 0


def agreements(kind, arms, players, seed, slots=400):
    """All hold the same set of N arms outside communications, and meet only as the protocol says."""
    rng = np.random.default_rng(seed)
    means = rng.uniform(0, 1, size=arms)
    rows = rng.random((slots + 3000, arms)) < means
    arena = Arena([kind(arms) for _ in range(players)], lambda slot: rows[slot], seed=seed)
    while arena.players[0].N == 0:
        arena.slot()
    assert {player.N for player in arena.players} == {players}
    leader = next(player for player in arena.players if player.rank == 0)
    others = [player for player in arena.players if player.rank]
    talks, begun = 0, len(arena.arms)
    for _ in range(slots):
        talking = leader.talking
        arena.slot()
        if not talking:
            assert not any(arena.hits[-1])
            assert not any(player.talking for player in others)
            assert len({tuple(player.cycle) for player in arena.players}) == 1
            members = leader.cycle[:players]
            assert list(members) == sorted(set(members.tolist()))
            played = arena.arms[-1]
            assert all(played[n] in members for n in range(players) if arena.players[n].rank)
        elif not leader.talking or leader.begun == leader.c:  # a communication is over
            talks += 1
    rest = 6 * (players - 1)  # who is under way is not counted
    assert 0 <= arena.collisions(begun + 1) - talks * rest <= rest
    assert all(0 <= arm < arms for row in arena.arms for arm in row)
    assert leader.pulls.sum() == sum(not hits[arena.players.index(leader)] for hits in arena.hits)
    return talks


def battery(kind):
    two_players_by_hand(kind)
    wanted_by_definition(kind)
    pair_by_hand(kind)
    alone_by_hand(kind)
    assert sum(agreements(kind, arms, players, 7, 250) for arms, players in [(4, 3), (6, 2), (5, 4)]) > 3
    arena = Arena([kind(3) for _ in range(3)], [0.3, 0.6, 0.9], seed=1).until_settled(3000)
    assert sorted(player.arm for player in arena.players) == [0, 1, 2]
    assert arena.play(50).collisions(len(arena.arms) - 49) == 0


def test_slots_indices_and_agreements_by_hand():
    battery(Dpe1)


MUTANTS = [
    ("self.means[self.into] > self.means[self.out]", "self.means[self.into] >= self.means[self.out]"),
    ("self.c - (self.N - self.rank)", "self.c - self.N"),
    ("if u >= 0.5:", "if u < 0.5:"),
    ("(2.0 * u - 1.0)", "(u - 0.5)"),
    ("self.means[k] < self.means[self.out]", "self.means[k] > self.means[self.out]"),
    ("self.means[self.into] > self.means[self.out]", "self.means[self.into] >= self.means[self.out] - 0.3"),
    ("            if self.pulls[k] == 0:\n                continue\n", ""),
    ("4.0 * math.log(max(1.0, log_t))", "math.log(max(1.0, log_t))"),
    ("if not self.member[k] and self.is_wanted", "if self.is_wanted"),
    ("2 * self.N + self.K - 1", "2 * self.N + self.K - 2"),
    ("return (t + self.rank) % self.K  # c.", "return (t - self.rank) % self.K  # c."),
    ("self.settled = self.N == self.K", "self.settled = False"),
    ("self.cycle[self.begun % self.N]", "self.cycle[(self.begun + 1) % self.N]"),
    ("if arm >= 0 and not collided:", "if arm >= 0:"),
    ("self.out if p < 2 * self.N else self.into", "self.into if p < 2 * self.N else self.out"),
    ("        while self.N == 1 and self.is_outdone():", "        while False and self.is_outdone():"),
    ("self.rank == 0 and self.c % self.N == 0", "self.rank == 0"),
]


test_mutants_are_caught = caught(
    lambda mutant: battery(mutant.Dpe1),
    dpe1,
    *MUTANTS,
)


# -- all sizes


@pytest.mark.parametrize("arms", range(2, 8))
def test_every_number_of_players_agrees(arms):
    for players in range(1, arms):
        agreements(Dpe1, arms, players, arms * 10 + players)


@settings(max_examples=25, deadline=None)
@given(st.integers(3, 8), st.data())
def test_any_players_agree(arms, data):
    players = data.draw(st.integers(1, arms - 1))
    agreements(Dpe1, arms, players, data.draw(st.integers(0, 10**6)), slots=200)


@pytest.mark.parametrize("arms", range(2, 7))
def test_as_many_players_as_arms_stay_where_they_sit(arms):
    arena = Arena([Dpe1(arms) for _ in range(arms)], [0.5] * arms, seed=arms).until_settled(10_000)
    assert len(set(arena.settled_at)) == 1
    assert sorted(player.arm for player in arena.players) == list(range(arms))
    before = len(arena.arms)
    assert arena.play(30).collisions(before + 1) == 0


@pytest.mark.parametrize("players", range(1, 6))
def test_with_certain_rewards_the_set_is_soon_the_best(players):
    rewards = [0.3, 0.9, 0.1, 0.7, 0.5, 0.2]
    arena = Arena([Dpe1(6) for _ in range(players)], rewards, seed=players).play(3000)
    best = sorted(np.argsort(rewards)[::-1][:players].tolist())
    for player in arena.players:
        assert player.cycle[:players].tolist() == best
        assert not player.settled
    # everybody hops through all of them
    for n in range(players):
        assert set(best) <= set(arena.column(n, 2800))


def test_a_leader_explores_in_one_slot_of_n_at_most_and_half_of_them():
    problem = MultiplayerProblem([0.6, 0.55, 0.5, 0.45, 0.4], 3)
    rows = np.random.default_rng(1).random((4000, 5)) < problem.means
    arena = Arena([Dpe1(5) for _ in range(3)], lambda slot: rows[slot], seed=3)
    explored = chances = 0
    for _ in range(3500):
        leader = next((p for p in arena.players if p.N and p.rank == 0), None)
        quiet = leader is not None and not leader.talking
        turn = quiet and leader.cycle[(leader.c + 1) % 3] == leader.worst and leader.wanted_size > 0
        arena.slot()
        if quiet:
            outside = arena.arms[-1][arena.players.index(leader)] not in leader.cycle[:3]
            assert turn or not outside or leader.talking
            chances += turn
            explored += (
                turn and arena.arms[-1][arena.players.index(leader)] in leader.wanted[: leader.wanted_size]
            )
    assert chances > 300
    # a fair coin, 300 times at least: four standard deviations are .12
    assert abs(explored / chances - 0.5) < 0.12


@pytest.mark.parametrize("chance", [0.05, 0.3, 0.8])
def test_ghosts_never_break_the_set(chance):
    """Collisions at random, as after an opening that failed: words make no sense, and the set keeps its N arms."""
    for seed in range(15):
        rng, ghosts = np.random.default_rng(seed), np.random.default_rng(seed + 100)
        player = Dpe1(3 + seed % 4)
        for _ in range(600):
            arm = player.choose(rng)
            assert 0 <= arm < player.K
            hit = bool(ghosts.random() < chance * (player.restarts < 3 or player.N > 0))
            player.observe(arm, 0.0 if hit else 0.5, hit, rng)
            if player.N:
                assert player.member.sum() == player.N


def test_a_follower_believes_only_what_makes_sense():
    arena = seated(lambda: Dpe1(4), (1, 3), 4, [0.1, 0.9, 0.5, 0.8]).play(12)
    follower = arena.players[1]
    for heard, after in [
        ((0, 2), [1, 2]),
        ((0, 1), [0, 1]),
        ((3, 2), [0, 1]),
        ((-1, 2), [0, 1]),
        ((0, -1), [0, 1]),
    ]:
        follower.member[:] = [True, True, False, False]
        follower.list_members()
        follower.out, follower.into = heard
        follower.end_of_talk()
        assert follower.cycle[:2].tolist() == after


# -- with the others


def test_conformance_and_names():
    # three players with the catalogue, in tests/checks/test_policies.py
    for players in (1, 5):
        problem = MultiplayerProblem([0.9, 0.1, 0.8, 0.2, 0.3], players, rewards="beta")
        assert len(check_policy(lambda p: Dpe1(p.arms), problem, rounds=80).passed) == len(CHECKS)
    for bad in (1, 2.5, None):
        with pytest.raises(ValueError, match="arms must be an integer >= 2"):
            Dpe1(bad)


@pytest.mark.parametrize("players", range(1, 6))
def test_compiled_equals_interpreted(players):
    problem = MultiplayerProblem([0.9, 0.7, 0.5, 0.3, 0.1], players)
    runs = [
        simulate(problem, {"DPE1": Dpe1(5)}, 1500, 2, seed=players, marks=30, compiled=compiled)
        for compiled in (True, False)
    ]
    assert runs[0].compiled == {"DPE1": True}
    assert runs[0].frame.equals(runs[1].frame)


def test_regret_grows_like_a_logarithm():
    problem = MultiplayerProblem([0.9, 0.7, 0.5, 0.3, 0.1], 2)
    results = simulate(problem, {"DPE1": Dpe1(5)}, 200_000, 10, marks=[2_000, 20_000])
    first, second, third = results.values("DPE1").mean(axis=0)
    # ten times as many rounds cost about as much each time; playing the wrong arm for ever would cost ten times as much
    assert third - second < 2 * (second - first) + 50
    assert (results.values("DPE1", "settled_players") == 0).all()


@pytest.mark.slow
def test_regret_is_as_in_an_independent_experiment():
    """1135 at T = 300 000; the standard error of 40 replications is about 5 %, the seed is fixed."""
    results = simulate(instances.load("e2"), {"DPE1": Dpe1(9)}, 300_000, 40, marks=1)
    assert results.final()["mean"]["DPE1"] == pytest.approx(1135, rel=0.15)


def test_live_players_stop_and_go_on(tmp_path):
    rewards = [0.2, 0.9, 0.4, 0.8]
    players = [Player(4, "DPE1", seed=n) for n in range(2)]
    phases = set()
    for slot in range(400):
        arms = [player.choose() for player in players]
        for player, arm in zip(players, arms, strict=True):
            player.observe(rewards[arm] * (arms[0] != arms[1]), collided=arms[0] == arms[1])
            phases.add(player.phase)
        if slot % 7 == 0:
            players[slot % 2].save(tmp_path / "player.json")
            players[slot % 2] = Player.load(tmp_path / "player.json")
    assert {
        "orthogonalisation",
        "alarm sweep",
        "indexing",
        "exploring",
        "rotating",
        "telling",
        "listening",
    } <= phases
    assert all(player.policy.cycle[:2].tolist() == [1, 3] for player in players)
    assert not any(player.settled for player in players)
    assert "2 players counted" in players[0].description


@pytest.mark.parametrize("players", [1, 3])
def test_radios_choose_what_the_simulation_chooses(players):
    problem = MultiplayerProblem(MEANS[5], players)
    report = play_radio(problem, "dpe1", seed=3, max_slots=700)
    choices, measures, played = simulated(problem, Dpe1(5), 3, report.slots)
    np.testing.assert_array_equal(report.choices, choices)
    assert report.measures == measures
    assert (report.ended, report.slots) == ("max-slots", 700)
    assert {player.N for player in played} == {players}
