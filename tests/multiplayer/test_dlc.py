"""DLC slot by slot: a case by hand, phase lengths, assignment, waiting, rotation."""

import math

import numpy as np
import pytest
from tests.multiplayer.arena import Arena, seated
from tests.rig.refusals import refusals

from weakfeedback import simulate
from weakfeedback.multiplayer import Dlc, MultiplayerProblem
from weakfeedback.multiplayer.opening import bits_for
from weakfeedback.multiplayer.theory import (
    communication_collisions,
    communication_rounds,
    indexing_collisions,
    indexing_rounds,
)


def beta(pairs, arms, delta):
    x = math.log(505.5 * arms * max(1, pairs) ** 1.1 / delta)
    return x + math.log(x)


def test_two_players_by_hand():
    """K = 4, rewards 1, 0, 1, 0, seats 2 (leader) and 3: every slot is known in advance."""
    arms, delta, epsilon = 4, 0.1, 1.8
    arena = seated(lambda: Dlc(arms, epsilon, delta, seating_rounds=1), (2, 3), arms, [1.0, 0.0, 1.0, 0.0])
    arena.until_settled()
    start = 1 + indexing_rounds(arms)  # slots of the opening
    # bits = 2, B = 3, T_P = 3: rank 1 polls in slots c = 3, 6, ... The initial plays are arms 0, 1, then 2 while
    # arm 3 is polled, then 3. J = {0, 2} for ever. Less played arms have wider bounds, ties go to the
    # smaller: pairs (1, 0), (3, 2), (1, 0), ... After p pairs the widest bounds belong to arms with
    # n = 1 + floor(p / 2) plays: U = 1 - exp(-beta / n), L = exp(-beta / n).
    pairs = 1
    while 1.0 - 2.0 * math.exp(-beta(pairs, arms, delta) / (1 + pairs // 2)) > epsilon / 2:
        pairs += 1
    leader = [0, 1, 2, 3]
    for p in range(pairs):
        first, second = ((1, 0), (3, 2))[p % 2]
        c = len(leader) + 1
        if (first == 3 and c % 3 == 0) or (second == 3 and (c + 1) % 3 == 0):
            first, second = second, first
        leader += [first, second]
    explored = len(leader)
    signal = explored // 3 * 3 + 3
    # best arms 0 and 2: rank 1 gets the best, arm 0 (word 00), the leader arm 2
    leader += [2] * (signal - 1 - explored) + [3] + [2, 2]
    assert arena.column(0, start + 1) == leader
    follower = [3 if c % 3 == 0 else -1 for c in range(1, signal + 1)] + [3, 3]
    assert arena.column(1, start + 1) == follower
    assert arena.settled_at == [start + signal + 2, start + signal + 2]  # N = 2: no waiting
    assert [player.arm for player in arena.players] == [2, 0]
    assert arena.collisions(start + 1) == 2  # the signal alone: the word has no 1
    assert pairs >= 3  # or the case is too small to show anything


def run(arms, n, rewards, seed, epsilon=0.5, **options):
    players = [Dlc(arms, epsilon, 0.1, **options) for _ in range(n)]
    return Arena(players, rewards, seed=seed).until_settled()


REWARDS = [0.1, 0.9, 0.5, 0.95, 0.3, 0.7, 0.2]


def check_phases(arena, n, served):
    """What the lemmas say of the length of the phases and of the collisions in them."""
    seating = arena.players[0].seating_rounds
    opening = seating + indexing_rounds(7)
    leader = next(player for player in arena.players if player.rank == 0)
    explored = int(leader.pulls.sum()) + sum(
        arm == -1
        for arm in arena.column(arena.players.index(leader), opening + 1, opening + int(leader.pulls.sum()))
    )
    assert arena.collisions(seating + 1, opening) == indexing_collisions(n)
    # no collision while the leader learns
    assert arena.collisions(opening + 1, opening + explored) == 0
    talking = arena.collisions(opening + explored + 1)
    assert 2 * (n - 1) <= talking <= communication_collisions(7, n)
    # the last word ends within T_CP; who waits starts T_P after its signal
    last_word = max(player.signal for player in arena.players if player.rank) + bits_for(7)
    assert last_word - explored <= communication_rounds(7, n)
    period = (n - 1) * (bits_for(7) + 1)
    for k, player in enumerate(arena.players):
        if player.rank:
            wait = period - 1 if served == "wait" else bits_for(7)
            assert arena.settled_at[k] - opening == player.signal + wait


@pytest.mark.parametrize("served", ["wait", "keep"])
@pytest.mark.parametrize("n", range(1, 8))
def test_phases_keep_to_the_lemmas_and_everybody_ends_alone_on_one_of_the_best(n, served):
    for seed in range(4):
        arena = run(7, n, REWARDS, seed, epsilon=1.0, served=served)  # rewards are certain: nobody errs
        if 1 < n < 7:  # nobody talks to himself, nor where every arm is taken
            check_phases(arena, n, served)
        best = sorted(np.argsort(REWARDS)[-n:].tolist())
        assert sorted(player.arm for player in arena.players) == best
        arena.play(50)
        assert arena.collisions(len(arena.arms) - 49) == 0


def test_words_are_sent_most_significant_bit_first():
    arena = run(7, 3, REWARDS, 1)
    opening = arena.players[0].seating_rounds + indexing_rounds(7)
    for k, player in enumerate(arena.players):
        if player.rank:
            first = opening + player.signal + 1
            heard = [hits[k] for hits in arena.hits[first - 1 : first + 2]]
            assert heard == [bool(player.arm & 4), bool(player.arm & 2), bool(player.arm & 1)]
    by_rank = sorted(arena.players, key=lambda player: player.rank)
    # rank 1 the best, rank 2 the next, the leader the N-th
    assert [player.arm for player in by_rank] == [5, 3, 1]


def test_keep_lets_good_seats_stay_and_fills_the_rest_in_order():
    # best three: 3 (.95), 1 (.9), 5 (.7); seats 0 (leader), 1, 6. Rank 1 keeps arm 1, rank 2 gets arm 3, leader 5.
    arena = seated(lambda: Dlc(7, 0.5, 0.1, served="keep", seating_rounds=1), (0, 1, 6), 7, REWARDS)
    arena.until_settled()
    assert [player.arm for player in arena.players] == [5, 1, 3]


@pytest.mark.parametrize("n", [1, 4])
def test_polls_are_periodic_and_everything_else_is_silence(n):
    arena = run(7, n, REWARDS, 2)
    opening = arena.players[0].seating_rounds + indexing_rounds(7)
    step = bits_for(7) + 1
    period = (n - 1) * step
    for k, player in enumerate(arena.players):
        if player.rank:
            polls = [
                c for c, arm in enumerate(arena.column(k, opening + 1), 1) if arm >= 0 and c <= player.signal
            ]
            expected = range(period + (player.rank - 1) * step, player.signal + 1, period)
            assert polls == list(expected)


def test_all_players_settle_right_after_indexing_when_every_arm_is_taken():
    arena = run(7, 7, REWARDS, 0)
    assert set(arena.settled_at) == {arena.players[0].seating_rounds + 2 * 7 - 1}


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7])
def test_fair_rotation_has_no_collisions_and_equal_rewards(n):
    arena = run(7, n, REWARDS, 3, fair=True)
    done = len(arena.arms)
    arena.play(10 * n)
    assert arena.collisions(done + 1) == 0
    best = sorted(REWARDS)[-n:]
    # rewards are constant here, so in each n slots every player earns exactly the sum of the n best
    for k in range(n):
        for lap in range(10):
            earned = [row[k] for row in arena.earned[done + lap * n : done + (lap + 1) * n]]
            assert sorted(earned) == best
    if n > 1:
        assert all(one != other for one, other in zip(arena.arms[-1], arena.arms[-2]))


def test_fair_rotation_keeps_the_regret_constant():
    problem = MultiplayerProblem(REWARDS, 3)
    results = simulate(
        problem, {"fair": Dlc(7, 0.5, 0.1, fair=True)}, 20_000, replications=20, marks=[10_000]
    )
    regret, ended = results.values("fair"), results.values("fair", "optimal")
    assert ended[:, 0].sum() >= 15
    assert np.array_equal(regret[ended[:, 0] == 1, 0], regret[ended[:, 0] == 1, 1])
    with pytest.raises(ValueError, match="served must be 'wait' with fair=True"):
        Dlc(7, 0.5, 0.1, fair=True, served="keep")


def test_ends_are_optimal_with_the_promised_probability():
    """epsilon = .15 is below the gap of .2: every epsilon-optimal end is optimal; delta = .1."""
    problem = MultiplayerProblem([0.9, 0.8, 0.7, 0.5, 0.3], 3)
    prototypes = {"wait": Dlc(5, 0.15, 0.1), "keep": Dlc(5, 0.15, 0.1, served="keep")}
    results = simulate(problem, prototypes, 30_000, replications=100, marks=1)
    for name in prototypes:
        # at least 1 - 2 delta = .8 of the runs; Bin(100, .8) is below 65 with probability 2e-4
        assert results.values(name, "optimal")[:, -1].sum() >= 65
        # epsilon-optimal: all settled, at most epsilon short
        settled = results.values(name, "settled_players")[:, -1] == 3
        assert (settled & (results.values(name, "shortfall")[:, -1] <= 0.15)).sum() >= 65


test_bad_arguments_are_named = refusals(
    lambda arguments: Dlc(**{"arms": 4, "epsilon": 0.1, "delta": 0.1, **arguments}),
    ({"arms": 1}, "arms must be an integer >= 2, got 1"),
    ({"epsilon": -0.1}, "epsilon must be a finite number >= 0, got -0.1"),
    ({"delta": 0.0}, "delta must be"),
    ({"delta": 0.6}, r"delta must be a number in \(0, 0.5\], got 0.6"),
    ({"tolerance": "eps/2"}, "tolerance must be 'eps/N' or 'eps', got 'eps/2'"),
    ({"served": "now"}, "served must be 'wait' or 'keep', got 'now'"),
    ({"seating_rounds": 0}, "seating_rounds must be an integer >= 1, got 0"),
    ({"alarm": 1}, "alarm must be True or False, got 1"),
    ({"fair": None}, "fair must be True or False, got None"),
)
