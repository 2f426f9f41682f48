"""DLC-LIX slot by slot: signals, transfers, words, and what the leader knows afterwards."""

import math

import numpy as np
import pytest
from tests.multiplayer.arena import Arena, seated
from tests.rig.refusals import refusals

from weakfeedback import simulate
from weakfeedback.multiplayer import DlcLix, MultiplayerProblem
from weakfeedback.multiplayer.opening import bits_for
from weakfeedback.multiplayer.policies.dlc_lix import fineness
from weakfeedback.multiplayer.theory import indexing_collisions, indexing_rounds

REWARDS = [0.1, 0.9, 0.5, 0.95, 0.3, 0.7, 0.2]


def run(n, seed, rewards=REWARDS, **options):
    players = [DlcLix(7, 0.5, 0.1, **options) for _ in range(n)]
    return Arena(players, rewards, seed=seed).until_settled()


def beta(pairs, arms, delta):
    x = math.log(505.5 * arms * max(1, pairs) ** 1.1 / delta)
    return x + math.log(x)


def test_two_players_by_hand():
    """K = 4, rewards 1, 0, 0, 1, seats 1 (leader) and 2: arm 0 is found, 2 moves by 2 (word 10), the leader takes 3."""
    arms, delta, epsilon = 4, 0.1, 1.6
    arena = seated(lambda: DlcLix(arms, epsilon, delta, seating_rounds=1), (1, 2), arms, [1.0, 0.0, 0.0, 1.0])
    arena.until_settled()
    opening = 1 + indexing_rounds(arms)
    # free arms 0, 1, 3 with one play each; J = {0}; arm 3 has the same mean, hence U = 1: u = 3 for ever, l = 0.
    # U_3 - L_0 = 1 - exp(-beta / n) after n - 1 pairs.
    pairs = 1
    while 1.0 - math.exp(-beta(pairs, arms, delta) / (1 + pairs)) > epsilon / 2:
        pairs += 1
    leader = [0, 1, 3] + [3, 0] * pairs
    plays = len(leader)  # T_c: the other player has played arm 2 in each of these slots
    signal = plays + 1
    g = 0
    while 1.0 / (plays * 2**g) > epsilon / 4:
        g += 1
    bits = math.ceil(math.log2(plays * 2**g + 1))
    leader += [2] + [2] * bits  # the signal; then it listens on arm 2
    follower = [2] * signal + [-1] * bits  # its sum is 0: all bits are 0
    leader += [2, 0]  # mean 1 of arm 0 beats mean 0 of arm 2: (0 - 2) mod 4 = 2 = binary 10
    follower += [2, 2]
    # free arms now: 1, 2, 3, the last with mean 1; J = {3}. Arm 1 has 1 play, arm 2 has ``plays``: u = 1 until its
    # bound is below that of arm 2.
    alone = {1: 1, 2: plays}
    good, done = 1 + pairs, pairs
    final = []
    while True:
        level = beta(done, arms, delta)
        u = max(alone, key=lambda arm: (1.0 - math.exp(-level / alone[arm]), -arm))
        if final and (1.0 - math.exp(-level / alone[u])) - math.exp(-level / good) <= epsilon / 2:
            break
        final += [u, 3]
        alone[u] += 1
        good += 1
        done += 1
    leader += final
    follower += [0] * len(final)
    assert arena.column(0, opening + 1) == leader
    assert arena.column(1, opening + 1) == follower
    assert [player.arm for player in arena.players] == [3, 0]
    assert arena.settled_at == [opening + len(leader), opening + signal + bits + 2]
    assert pairs > 2


@pytest.mark.parametrize("transfer", ["exact", "eps/2"])
@pytest.mark.parametrize("n", range(1, 8))
def test_everybody_ends_alone_on_one_of_the_best(n, transfer):
    for seed in range(4):
        arena = run(n, seed, transfer=transfer)
        ends = sorted(player.arm for player in arena.players)
        if transfer == "exact":
            assert ends == sorted(np.argsort(REWARDS)[-n:].tolist())
        # rounded to epsilon / 2 = .25, means can mislead; the seats are still apart
        assert len(set(ends)) == n
        arena.play(50)
        assert arena.collisions(len(arena.arms) - 49) == 0


@pytest.mark.parametrize("n", [2, 4, 6])
def test_players_earn_while_the_leader_learns_and_collide_only_to_talk(n):
    for seed in range(4):
        arena = run(n, seed)
        seating = arena.players[0].seating_rounds
        opening = seating + indexing_rounds(7)
        assert arena.collisions(seating + 1, opening) == indexing_collisions(n)
        talking = set()
        for k, player in enumerate(arena.players):
            if player.rank:
                # signal, transfer and word end with the slot in which it settles
                signal = opening + player.plays + 1
                first = fineness(player.plays, 0.5, n)
                length = bits_for((player.plays << first) + 1)
                assert arena.settled_at[k] == signal + length + bits_for(7)
                assert set(arena.column(k, opening + 1, signal)) == {player.seats[player.rank]}
                talking |= set(range(signal, arena.settled_at[k] + 1))
        for slot in range(opening + 1, len(arena.arms) + 1):
            if arena.collisions(slot, slot):
                assert slot in talking
                assert arena.collisions(slot, slot) == 2
        assert all(n == player.N for player in arena.players)


def test_counts_of_binary_rewards_arrive_exactly():
    rng = np.random.default_rng(4)
    rows = rng.random((200_000, 7)) < np.array(REWARDS)
    checked = 0
    for seed in range(3):
        arena = Arena(
            [DlcLix(7, 0.3, 0.1) for _ in range(4)], lambda slot: rows[slot].astype(float), seed=seed
        )
        seating = arena.players[0].seating_rounds
        arena.until_settled()
        leader = next(player for player in arena.players if player.rank == 0)
        for k, player in enumerate(arena.players):
            if player.rank:
                seat = player.seats[player.rank]
                opening = seating + indexing_rounds(7)
                true = sum(row[k] for row in arena.earned[opening : opening + player.plays])
                assert player.gain == true
                if leader.pulls[seat] == player.plays:  # not explored after the transfer
                    assert leader.sums[seat] == true
                    checked += 1
    assert checked >= 3


@pytest.mark.parametrize(("transfer", "error"), [("exact", 0.5 / (2 * 3)), ("eps/2", 0.25)])
def test_quantised_means_arrive_from_below_within_their_error(transfer, error):
    rewards = [0.123, 0.8765, 0.4567, 0.9543, 0.3141, 0.7071, 0.2718]
    checked = 0
    for seed in range(6):
        arena = run(3, seed, rewards, transfer=transfer)
        leader = next(player for player in arena.players if player.rank == 0)
        for player in arena.players:
            seat = player.seats[player.rank]
            if player.rank and leader.pulls[seat] == player.plays:  # not explored after the transfer
                assert 0.0 <= rewards[seat] - leader.means[seat] <= error + 1e-9
                checked += 1
    assert checked >= 3


def test_fineness_by_hand():
    # N = 4, eps = .08: the mean must be right to .01. 100 plays: units of 1 do; 99 plays: halves; 25 plays: quarters
    assert [fineness(plays, 0.08, 4) for plays in (101, 99, 49, 25)] == [0, 1, 2, 2]
    assert fineness(3, 0.0, 4) == 0
    assert fineness(0, 0.1, 4) == 0
    assert fineness(1, 1e-300, 2) == 40


def test_a_tie_keeps_the_arm():
    # the player's arm is as good as the best free one
    arena = seated(lambda: DlcLix(3, 1.8, 0.1, seating_rounds=1), (1, 2), 3, [1.0, 0.0, 1.0])
    arena.until_settled()
    assert [player.arm for player in arena.players] == [0, 2]


def test_epsilon_zero_ends_when_the_means_differ():
    problem = MultiplayerProblem([0.9, 0.6, 0.2], 2)
    results = simulate(problem, {"lix": DlcLix(3, 0.0, 0.1)}, 30_000, replications=50, marks=1)
    assert (results.values("lix", "settled_players")[:, -1] == 2).all()
    # optimal with probability at least 1 - 2 delta; Bin(50, .8) is below 29 with probability 2e-4
    assert results.values("lix", "optimal")[:, -1].sum() >= 29
    with pytest.raises(ValueError, match="epsilon must be > 0 with transfer='eps/2', got 0"):
        DlcLix(3, 0.0, 0.1, transfer="eps/2")


@pytest.mark.parametrize("law", ["bernoulli", "uniform", "beta"])
def test_ends_are_optimal_with_the_promised_probability(law):
    problem = MultiplayerProblem([0.9, 0.8, 0.7, 0.5, 0.3], 3, rewards=law)
    results = simulate(problem, {"lix": DlcLix(5, 0.15, 0.1)}, 60_000, replications=100, marks=1)
    # epsilon is below every gap: epsilon-optimal is optimal, with probability at least .8; below 65 of 100: 2e-4
    assert results.values("lix", "optimal")[:, -1].sum() >= 65


def test_all_players_settle_right_after_indexing_when_every_arm_is_taken():
    arena = run(7, 0)
    assert set(arena.settled_at) == {arena.players[0].seating_rounds + 2 * 7 - 1}


test_bad_arguments_are_named = refusals(
    lambda arguments: DlcLix(**{"arms": 4, "epsilon": 0.1, "delta": 0.1, **arguments}),
    ({"transfer": "half"}, "transfer must be 'exact' or 'eps/2', got 'half'"),
    ({"tolerance": None}, "tolerance must be 'eps/N' or 'eps', got None"),
    ({"arms": 2.5}, "arms must be an integer >= 2, got 2.5"),
    ({"alarm": "yes"}, "alarm must be True or False, got 'yes'"),
    ({"delta": 2}, r"delta must be a number in \(0, 0.5\], got 2"),
)
