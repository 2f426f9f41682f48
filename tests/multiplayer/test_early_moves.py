"""Early moves of DLC-LIX: slots by hand, what leader and players agree on, safe ends, less regret, mutants."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.multiplayer.arena import Arena, seated
from tests.rig.mutants import caught

from weakfeedback import Player, simulate
from weakfeedback.checks import CHECKS, check_policy
from weakfeedback.multiplayer import DlcLix, MultiplayerProblem, instances
from weakfeedback.multiplayer.policies import dlc_lix
from weakfeedback.multiplayer.policies.dlc_lix import EXPLORE, SIGNAL, SIT, TELL

# -- by hand


def a_visit_by_hand(kind):
    """Three arms, seats 0 (leader) and 2. The leader explores arms 0 and 1, rewards .25 and 1; his arm gives .5.

    1 slot of orthogonalisation and 5 of indexing; c = 1, 2, ... counts from then on.
    """
    arena = seated(lambda: kind(3, 0.0, 0.1, seating_rounds=1, early_moves=True), (0, 2), 3, [0.25, 1.0, 0.5])
    leader, follower = arena.players
    arena.play(6 + 30)
    # arms 0 and 1 once, then pairs of u = 0 and l = 1: slot 30 ends a pair, and 10 K is reached
    assert arena.column(0, 7, 36) == [0, 1] * 15
    assert leader.exploring
    assert arena.column(1, 7, 36) == [2] * 30
    arena.play(9)
    # 31: the signal. 32 to 36: 30 plays, a sum of 15 in five bits, 01111. 37 to 39: not final (0), move by 2 (10):
    # for a 0 the leader plays arm 1, which it offers
    assert arena.column(0, 37, 45) == [2, 2, 2, 2, 2, 2, 1, 2, 1]
    assert arena.column(1, 37, 45) == [2, -1, 2, 2, 2, 2, 2, 2, 2]
    assert leader.pulls.tolist() == [15, 15, 30]
    assert leader.sums.tolist() == [3.75, 15.0, 15.0]
    assert (follower.arm, follower.settled, follower.stage, follower.gain) == (1, False, SIT, 0.0)
    assert (leader.check, leader.served, leader.hold) == (90, 1, False)
    arena.play(2)
    # from slot 40 on he plays arm 1, and the leader the pair of arm 0 and the arm he left
    assert arena.column(1, 46, 47) == [1, 1]
    assert arena.column(0, 46, 47) == [0, 2]
    # 90 is reached within a pair or after it: the next visit tells of his plays since slot 40
    while leader.stage == EXPLORE:
        arena.slot()
    assert leader.c == 92
    assert not leader.sure
    arena.slot()  # slot 92: the signal, 52 plays from slot 40 to 91
    assert (leader.plays, follower.plays, follower.word) == (52, 52, 52)
    arena.play(6 + 3)
    assert leader.pulls[1] == 15 + 52
    assert follower.arm == 1
    arena.until_settled(2000)
    # both ends are right and stay so
    assert [player.arm for player in arena.players] == [2, 1]
    last = len(arena.arms)
    assert arena.play(50).collisions(last + 1) == 0


def confidence_by_hand(kind):
    """A final word needs both arms separated from the free ones."""
    leader = kind(4, 0.0, 0.1, early_moves=True)
    leader.pulls[:], leader.enough, leader.pairs, leader.first = [400, 400, 400, 5], 0.0, 400, 1
    leader.means[:] = [0.9, 0.1, 0.95, 0.95]
    for sure, new, seat, final, hold in [
        (False, 0, 2, False, False),  # nothing is known of the free arms
        (True, 2, 2, True, False),  # its own arm, 400 plays of mean .95 against .1
        (True, 3, 3, False, True),  # its own arm, 5 plays
        (True, 0, 3, True, False),  # the best free arm, which is separated
    ]:
        leader.sure, leader.hold = sure, False
        assert bool(leader.is_final(new, seat)) == final
        assert bool(leader.hold) == hold
        assert not leader.sure  # for one player only
    # with the tolerance .6 five plays will do: U_1 - L_3 is below it
    leader.sure, leader.enough = True, 0.6
    assert leader.is_final(3, 3)


def an_attempt_that_fails_by_hand(kind):
    """Moved to arm 1 of mean 1 after slot 30, it has too few plays of it when arm 2 is separated from arm 0.

    For a mean of 1, L = exp(-beta / n), for a mean of 0, U = 1 - exp(-beta / n).
    """
    rewards = [0.0, 1.0, 63 / 64]
    arena = seated(lambda: kind(3, 0.0, 0.1, seating_rounds=1, early_moves=True), (0, 2), 3, rewards).play(6)
    leader, follower = arena.players
    signals = []
    while not leader.settled and len(arena.arms) < 500:
        if leader.stage == SIGNAL:
            signals.append((leader.c, bool(leader.sure)))
        arena.slot()
        if leader.stage == TELL and leader.position == 0 and len(signals) == 2:
            x = math.log(505.5 * 3 / 0.1) + 1.1 * math.log(leader.pairs)
            beta = x + math.log(x)
            assert math.exp(-beta / leader.pulls[1]) < 1 - math.exp(-beta / leader.pulls[0])
            assert (leader.word, leader.hold) == (0, True)  # not final, and no move
    assert [sure for _, sure in signals] == [False, True, True]
    assert signals[0][0] == 31
    assert signals[1][0] < 60
    assert 90 < signals[2][0] <= 92  # not before the next of the slots, though arms 0 and 2 stay separated
    assert follower.settled
    assert [player.arm for player in arena.players] == [2, 1]


def agreements(kind, arms, players, seed, law="bernoulli", **options):
    """Leader and players know the same of each other whenever no word is under way; ends are different arms."""
    problem = MultiplayerProblem(np.linspace(0.9, 0.1, arms), players, rewards=law)
    world, rng = problem.world(), np.random.default_rng(seed)
    world.begin(rng)
    rewards = np.empty(arms)

    def draw(slot):
        world.draw(rewards, rng)
        return rewards.copy()

    options = {
        "epsilon": 0.2,
        "delta": 0.2,
        "tolerance": "eps",
        "alarm": True,
        "seating_rounds": 5,
        **options,
    }
    arena = Arena([kind(arms, early_moves=True, **options) for _ in range(players)], draw, seed=seed)
    while arena.players[0].N == 0:
        arena.slot()
    begun = len(arena.arms)
    by_rank = sorted(arena.players, key=lambda player: player.rank)
    places = [arena.players.index(player) for player in by_rank]
    leader, seats, words, moves = by_rank[0], None, 0, 0
    while not all(player.settled for player in arena.players):
        assert len(arena.arms) < 20_000
        exploring = leader.stage == EXPLORE
        arena.slot()
        words += any(arena.hits[-1]) and exploring
        if leader.stage == EXPLORE:
            now = [player.arm for player in by_rank[1:]]
            assert leader.seats[1:players].tolist() == now
            assert len(set(now)) == players - 1
            assert [k for k in range(arms) if not leader.open_arms[k]] == sorted(now)
            for rank in range(1, players):
                follower = by_rank[rank]
                assert bool(follower.settled) == (rank < leader.served)
                if not follower.settled:
                    assert follower.stage == SIT
                    assert leader.before[rank] == follower.before[rank]
                    # all were visited when it was time
                    assert leader.check == 10 * arms or leader.before[rank] >= 10 * arms
            moves += seats is not None and seats != now
            seats = now
    assert words == 0  # nobody meets the leader while it explores
    ends = [player.arm for player in by_rank]
    assert len(set(ends)) == players
    # every sample of the leader is a free play of its own or of a player between words
    assert sum(leader.pulls) <= sum(not hit for hits in arena.hits[begun:] for hit in hits)
    last = len(arena.arms)
    assert arena.play(30).collisions(last + 1) == 0
    assert [arena.arms[-1][place] for place in places] == ends
    return moves, [world.order[arm] for arm in ends]


def battery(kind):
    a_visit_by_hand(kind)
    confidence_by_hand(kind)
    an_attempt_that_fails_by_hand(kind)
    good = 0
    for seed, (arms, players) in enumerate([(4, 3), (5, 2), (6, 4), (7, 6), (5, 4), (3, 2)]):
        _, ends = agreements(kind, arms, players, seed)
        good += set(ends) == set(range(players))
    assert good >= 5
    agreements(kind, 6, 4, 1, transfer="eps/2", law="uniform")


def test_slots_confidence_and_agreements_by_hand():
    battery(DlcLix)


MUTANTS = [
    ("self.check = 10 * K", "self.check = 5 * K"),
    ("self.check *= 3", "self.check *= 2"),
    ("self.c > self.check and not self.fresh", "self.c >= self.check and not self.fresh"),
    ("not self.exploring and not self.hold", "not self.exploring"),
    ("self.bits + 1 if self.early else self.bits", "self.bits + 2 if self.early else self.bits"),
    ("            self.gain = 0.0\n", ""),
    ("            self.before[self.rank] = self.c - 1\n", ""),
    ("        self.before[self.visited] = self.c - 1\n", ""),
    ("        total += self.sums[seat]", "        total += 0.0"),
    ("self.pulls[seat] += self.plays", "self.pulls[seat] = self.plays"),
    ("        self.sure = False  # the free arms change", "        pass  # the free arms change"),
    ("final = new != seat or", "final = new == seat or"),
    ("self.hold = not final", "self.hold = final"),
    ("if self.visited < self.visits_to:", "if self.visited < self.visits_to - 1:"),
    ("self.visit(self.served, self.N - 1)", "self.visit(self.served, self.N)"),
    ("self.word >> self.bits == 1:\n            self.served", "True:\n            self.served"),
]


test_mutants_are_caught = caught(
    lambda mutant: battery(mutant.DlcLix),
    dlc_lix,
    *MUTANTS,
)


# -- all sizes, and safety


@pytest.mark.parametrize("arms", range(2, 8))
def test_every_number_of_players_ends_on_different_arms(arms):
    for players in range(1, arms + 1):
        law = ("bernoulli", "uniform", "beta")[(arms + players) % 3]
        if players == arms:
            options = {"early_moves": True, "alarm": True}
            crowd = [DlcLix(arms, 0.2, 0.2, **options) for _ in range(players)]
            arena = Arena(crowd, [0.5] * arms, seed=arms).until_settled(5000)
            assert sorted(player.arm for player in arena.players) == list(range(arms))
        else:
            agreements(DlcLix, arms, players, arms * 10 + players, law)


@settings(max_examples=20, deadline=None)
@given(st.integers(3, 7), st.sampled_from(["bernoulli", "uniform", "beta"]), st.data())
def test_no_players_are_left_colliding(arms, law, data):
    players = data.draw(st.integers(1, arms - 1))
    transfer = data.draw(st.sampled_from(["exact", "eps/2"]))
    agreements(DlcLix, arms, players, data.draw(st.integers(0, 10**6)), law, transfer=transfer)


def test_players_are_moved_before_they_settle():
    moved = [agreements(DlcLix, 7, 4, seed)[0] for seed in range(6)]
    assert sum(moves > 0 for moves in moved) >= 3


@pytest.mark.parametrize("chance", [0.05, 0.2, 0.6])
def test_ghosts_never_make_a_player_leave_the_arms(chance):
    for seed in range(15):
        rng, ghosts = np.random.default_rng(seed), np.random.default_rng(seed + 100)
        options = {"transfer": "eps/2"} if seed % 2 else {}
        player = DlcLix(3 + seed % 4, 0.5, 0.4, seating_rounds=3, early_moves=True, **options)
        for _ in range(800):
            arm = player.choose(rng)
            assert -1 <= arm < player.K
            hit = arm >= 0 and bool(ghosts.random() < chance)
            player.observe(arm, 0.0 if hit or arm < 0 else float(ghosts.random()), hit, rng)


@pytest.mark.parametrize("law", ["bernoulli", "beta"])
def test_ends_are_optimal_as_often_as_without(law):
    problem = MultiplayerProblem([0.9, 0.8, 0.7, 0.5, 0.3], 3, rewards=law)
    policies = {"early": DlcLix(5, 0.15, 0.1, early_moves=True)}
    results = simulate(problem, policies, 60_000, replications=100, marks=1)
    # what is promised without early moves: probability at least .8; below 65 of 100 has then probability 2e-4
    assert results.values("early", "optimal")[:, -1].sum() >= 65
    assert (results.values("early", "settled_players")[:, -1] == 3).all()


# -- less regret

CLOSE = [0.9, 0.89, 0.88, 0.87, 0.86, 0.85, 0.2, 0.15, 0.1]  # six good arms that can hardly be told apart


def both(problem, horizon, replications, **options):
    policies = {
        "late": DlcLix(problem.arms, 0.05, 0.05, **options),
        "early": DlcLix(problem.arms, 0.05, 0.05, early_moves=True, **options),
    }
    results = simulate(problem, policies, horizon, replications, marks=1)
    return results.final()["mean"], results


def test_where_top_arms_are_close_regret_is_a_small_part():
    means, results = both(MultiplayerProblem(CLOSE, 6), 20_000, 8)
    assert means["late"] > 10 * means["early"]
    assert (results.values("early", "optimal")[:, -1] == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "factor"),
    [
        (MultiplayerProblem(CLOSE, 6), 100),
        (MultiplayerProblem([0.9, 0.899, 0.898, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05], 3), 100),
        (instances.load("e2"), 2.5),
    ],
    ids=["close", "closer", "e2"],
)
def test_regret_at_full_length(problem, factor):
    means, results = both(problem, 300_000, 20)
    assert means["late"] > factor * means["early"]
    assert (results.values("early", "settled_players")[:, -1] == problem.players).all()
    assert results.values("early", "optimal")[:, -1].sum() >= 18


# -- with the others


def test_conformance_and_bad_arguments():
    problem = MultiplayerProblem([0.9, 0.1, 0.8, 0.2, 0.3], 3)
    report = check_policy(
        lambda p: DlcLix(p.arms, 0.6, 0.2, seating_rounds=20, early_moves=True), problem, rounds=150
    )
    assert len(report.passed) == len(CHECKS)
    with pytest.raises(ValueError, match="early_moves must be True or False, got 1"):
        DlcLix(4, 0.1, 0.1, early_moves=1)


@pytest.mark.parametrize("players", range(1, 6))
def test_compiled_equals_interpreted(players):
    problem = MultiplayerProblem([0.9, 0.7, 0.5, 0.3, 0.1], players, rewards="uniform")
    policies = {"early": DlcLix(5, 0.1, 0.1, early_moves=True)}
    runs = [
        simulate(problem, policies, 1500, 2, seed=players, marks=30, compiled=compiled)
        for compiled in (True, False)
    ]
    assert runs[0].compiled == {"early": True}
    assert runs[0].frame.equals(runs[1].frame)


def test_live_players_may_move_early():
    rewards = [0.2, 0.9, 0.4, 0.8]
    players = [Player(4, "DLC-LIX", epsilon=0.3, seed=n, early_moves=True) for n in range(2)]
    while not all(player.settled for player in players):
        arms = [player.choose() for player in players]
        for player, arm in zip(players, arms, strict=True):
            hit = arm >= 0 and arms[0] == arms[1]
            player.observe(0.0 if hit or arm < 0 else rewards[arm], collided=hit)
        assert players[0].slot < 5000
    assert sorted(player.arm for player in players) == [1, 3]
