"""Orthogonalisation, the alarm sweep and player indexing, against the lemmas of the thesis."""

import itertools

import numpy as np
import pytest
from tests.multiplayer.arena import Arena, Fixed, seated, sitting_on

from weakfeedback.multiplayer import Dlc, DlcLix
from weakfeedback.multiplayer.opening import PLAYING, bits_for, indexing_arm, seating_length
from weakfeedback.multiplayer.theory import indexing_collisions, indexing_rounds

ZEROS = [0.0] * 12


@pytest.mark.parametrize(("arms", "delta", "rounds"), [(10, 0.05, 210), (9, 0.05, 185), (2, 0.5, 11)])
def test_the_length_of_orthogonalisation(arms, delta, rounds):
    # K = 2, delta = .5: log(.25) / log(.875) = 10.38; K = 9: log(.05/9) / log(35/36) = 184.3
    assert seating_length(arms, delta) == rounds
    assert Dlc(arms, 0.1, delta).seating_rounds == rounds


def test_seating_draws_until_the_first_free_play():
    players = [Dlc(4, 0.1, 0.1, seating_rounds=5) for _ in range(2)]

    class Numbers(Fixed):
        def __init__(self, *numbers):
            self.numbers = list(numbers)

        def random(self):
            return self.numbers.pop(0)

    # slots 1 and 2: both on arm 0, then on arm 3; slot 3: arms 1 and 2, free
    rngs = [Numbers(0.1, 0.9, 0.3), Numbers(0.2, 0.8, 0.6)]
    arena = Arena(players, ZEROS, rngs).play(5)
    assert arena.arms == [[0, 0], [3, 3], [1, 2], [1, 2], [1, 2]]
    assert not rngs[0].numbers
    assert not any(player.failed for player in players)


def test_a_seated_player_ignores_collisions_until_the_phase_ends():
    players = [Dlc(3, 0.1, 0.1, seating_rounds=4) for _ in range(2)]

    class Late(Fixed):
        def random(self):
            self.calls += 1
            return 0.0 if self.calls < 4 else 0.9  # arm 0 three times, then arm 2

    # player 1 enters a slot later: player 0 has its seat on arm 0 by then
    first, late = players
    rngs = [sitting_on(0, 3), Late(0.0)]
    first.observe(first.choose(rngs[0]), 0.0, False, rngs[0])
    for _ in range(3):
        arms = [first.choose(rngs[0]), late.choose(rngs[1])]
        assert arms == [0, 0]
        for player, rng in zip(players, rngs):
            player.observe(0, 0.0, True, rng)
    assert first.seated
    assert not first.failed
    assert rngs[0].calls == 1
    assert not late.seated


def test_the_pattern_of_indexing_by_hand():
    # K = 4, i = 2: arm 2 for 4 slots, arms 3 and 4, then K - i - 1 = 1 slot on arm 2 (0-based below)
    assert [indexing_arm(1, slot, 4) for slot in range(1, 8)] == [1, 1, 1, 1, 2, 3, 1]
    # i = K: 2K slots would be one too many; the phase is cut at 2K - 1
    assert [indexing_arm(3, slot, 4) for slot in range(1, 8)] == [3] * 7
    assert [indexing_arm(0, slot, 4) for slot in range(1, 8)] == [0, 0, 1, 2, 3, 0, 0]


@pytest.mark.parametrize("arms", [2, 3, 4, 5, 6])
def test_indexing_tells_everybody_of_everybody(arms):
    """All sets of seats: N(N-1) collisions in 2K-1 slots, players i < j meeting in slot i + j only."""
    for n in range(1, arms + 1):
        for seats in itertools.combinations(range(arms), n):
            arena = seated(lambda: Dlc(arms, 0.1, 0.1, seating_rounds=1), seats[::-1], arms, ZEROS)
            arena.play(1 + indexing_rounds(arms))
            assert arena.collisions(1, 1) == 0
            assert arena.collisions(2) == n * (n - 1) == indexing_collisions(n)
            for slot, hits in enumerate(arena.hits[1:], start=1):
                met = {seats[::-1][k] + 1 for k in range(n) if hits[k]}
                pairs = {(i + 1, j + 1) for i, j in itertools.combinations(seats, 2) if i + j + 2 == slot}
                assert met == {arm for pair in pairs for arm in pair}
            for player, seat in zip(arena.players, seats[::-1]):
                assert player.phase == PLAYING
                assert n == player.N
                assert player.rank == seats.index(seat)
                assert player.seats[:n].tolist() == list(seats)


def test_orthogonalisation_succeeds_within_its_length():
    """At most a share delta of the runs leaves somebody without a seat."""
    arms, delta, failures = 5, 0.3, 0
    for seed in range(200):
        players = [Dlc(arms, 0.1, delta) for _ in range(arms)]
        Arena(players, ZEROS, seed=seed).play(players[0].seating_rounds)
        seats = [player.arm for player in players]
        failed = any(player.failed for player in players)
        assert failed == (len(set(seats)) < arms)
        failures += failed
    # Bin(200, .3) exceeds 85 with probability 1e-4
    assert failures <= 85


def force_failure(make, arms, seed):
    """Players whose orthogonalisation, one slot long, fails for at least one of them."""
    for k in itertools.count(1000 * seed):
        players = [make() for _ in range(arms - 1)]
        arena = Arena(players, np.linspace(0.9, 0.3, arms), seed=k).play(1)
        if any(arena.hits[0]):
            return arena
    raise AssertionError


@pytest.mark.parametrize("make", [Dlc, DlcLix], ids=["dlc", "dlc-lix"])
def test_a_failed_player_knows_it_and_such_a_run_does_not_recover(make):
    for seed in range(10):
        arena = force_failure(lambda: make(5, 0.6, 0.1, seating_rounds=1), 5, seed)
        assert [player.failed for player in arena.players] == arena.hits[0]
        arena.play(4000)
        assert [player.failed for player in arena.players] == arena.hits[0]  # it stays visible
        seats = [player.arm for player in arena.players if player.settled]
        assert sorted(seats) != [0, 1, 2, 3]


@pytest.mark.parametrize("make", [Dlc, DlcLix], ids=["dlc", "dlc-lix"])
def test_the_alarm_mends_a_failure(make):
    for seed in range(10):
        arena = force_failure(lambda: make(5, 0.6, 0.1, seating_rounds=1, alarm=True), 5, seed)
        assert [player.failed for player in arena.players] == arena.hits[0]
        arena.until_settled()
        assert sorted(player.arm for player in arena.players) == [0, 1, 2, 3]
        assert not any(player.failed for player in arena.players)
        assert {player.restarts for player in arena.players} != {0}
        assert len({player.restarts for player in arena.players}) == 1  # all repeat together


def test_the_sweep_by_hand():
    # K = 3: two players on arm 0 in the only slot of seating; a third sits on arm 2
    players = [Dlc(3, 0.1, 0.1, seating_rounds=1, alarm=True) for _ in range(3)]
    rngs = [sitting_on(0, 3), sitting_on(0, 3), sitting_on(2, 3)]
    arena = Arena(players, ZEROS, rngs).play(1)
    assert [player.failed for player in players] == [True, True, False]
    arena.play(3)
    assert arena.arms[1:4] == [[0, 0, 2], [1, 1, 2], [2, 2, 2]]
    assert [player.restarts for player in players] == [1, 1, 1]
    rngs[1].number = 0.5  # arm 1
    arena.play(1 + 3)
    assert arena.arms[4:] == [[0, 1, 2]] * 4  # the third kept its seat; nobody is hit
    assert rngs[2].calls == 1
    assert [player.restarts for player in players] == [1, 1, 1]
    arena.play(indexing_rounds(3))
    assert [player.N for player in players] == [3, 3, 3]


def test_a_sweep_without_failure_costs_k_slots_and_no_collision():
    plain, sweeping = (
        seated(lambda a=alarm: Dlc(4, 0.5, 0.1, seating_rounds=1, alarm=a), (2, 0), 4, [0.9, 0.1, 0.5, 0.2])
        for alarm in (False, True)
    )
    plain.until_settled()
    sweeping.until_settled()
    assert len(sweeping.arms) == len(plain.arms) + 4
    assert sweeping.collisions() == plain.collisions()
    assert [player.restarts for player in sweeping.players] == [0, 0]


@pytest.mark.parametrize(
    ("values", "bits"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (9, 4), (16, 4), (17, 5)]
)
def test_bits(values, bits):
    assert bits_for(values) == bits
