"""Musical Chairs and SIC-MMAB: their estimates, schedules and ends."""

import math

import numpy as np
import pytest
from tests.multiplayer.arena import Arena, Fixed, seated

from weakfeedback import simulate
from weakfeedback.multiplayer import MultiplayerProblem, MusicalChairs, SicMmab
from weakfeedback.multiplayer.opening import PLAYING
from weakfeedback.multiplayer.theory import indexing_collisions, indexing_rounds

REWARDS = [0.0, 1.0, 0.0, 1.0, 0.0]
RNG = np.random.default_rng(0)


class TestMusicalChairs:
    @pytest.mark.parametrize(
        ("collisions", "players"),
        # K = 5, T_0 = 100: round(ln((100 - C) / 100) / ln(.8) + 1), cut to 1..5
        [(0, 1), (9, 1), (12, 2), (20, 2), (36, 3), (48, 4), (49, 4), (60, 5), (99, 5), (100, 5)],
    )
    def test_the_number_of_players_is_estimated_from_collisions(self, collisions, players):
        player = MusicalChairs(5, 100)
        for slot in range(100):
            player.observe(slot % 5, 0.5, slot < collisions, RNG)
        assert players == player.N

    def test_arms_are_ranked_by_their_free_plays(self):
        player = MusicalChairs(4, 6)
        # arm 0: mean .5; arm 1: only a collision, mean 0; arm 2: mean .5 (tie, after arm 0); arm 3: mean 1
        for arm, reward, collided in [
            (0, 0, False),
            (0, 1, False),
            (1, 0, True),
            (2, 0.5, False),
            (3, 1, False),
            (0, 0.5, False),
        ]:
            player.observe(arm, reward, collided, RNG)
        assert player.ranking.tolist() == [3, 0, 2, 1]

    def test_chairs_are_taken_at_the_first_free_play(self):
        player = MusicalChairs(4, 2)
        rng = Fixed(0.6)
        assert player.choose(rng) == 2  # int(4 * .6)
        player.observe(2, 1.0, False, rng)
        player.observe(2, 0.0, True, rng)
        # C = 1 of 2: ln(.5) / ln(.75) + 1 = 3.4: N* = 3; ranking 2, 0, 1, 3
        assert player.N == 3
        assert player.choose(rng) == 0  # ranking[int(3 * .6)]
        player.observe(0, 0.0, True, rng)
        assert not player.settled
        player.observe(0, 1.0, False, rng)
        assert (player.settled, player.arm) == (True, 0)
        calls = rng.calls
        assert player.choose(rng) == 0
        player.observe(0, 0.0, True, rng)
        assert (player.settled, player.arm, rng.calls) == (True, 0, calls)

    @pytest.mark.parametrize("n", [1, 2, 4, 5])
    def test_players_end_on_the_best_arms(self, n):
        problem = MultiplayerProblem([0.9, 0.7, 0.5, 0.3, 0.1], n)
        results = simulate(problem, {"mc": MusicalChairs(5, 2000)}, 4000, replications=50, marks=1)
        # gaps of .2 and 2000 rounds: a wrong ranking or count is rarer than 1 in 100; 40 of 50 then almost surely
        assert results.values("mc", "optimal")[:, -1].sum() >= 40
        if n == 1:
            assert results.values("mc", "collisions").sum() == 0

    def test_bad_arguments_are_named(self):
        with pytest.raises(ValueError, match="learning_rounds must be an integer >= 1, got 0"):
            MusicalChairs(5, 0)
        with pytest.raises(ValueError, match="arms must be an integer >= 2, got 1"):
            MusicalChairs(1, 10)


class TestSicMmab:
    def arena(self, seats, rewards=REWARDS, horizon=1000):
        arms = len(rewards)

        def make():
            player = SicMmab(arms, horizon)
            player.seating_rounds = 1
            return player

        return seated(make, seats, arms, rewards)

    def test_orthogonalisation_lasts_k_e_log_t(self):
        assert SicMmab(9, 300_000).seating_rounds == math.ceil(9 * math.e * math.log(300_000))

    def test_the_first_phase_by_hand(self):
        # K = 5, seats 1 and 4: ranks 0 and 1. Phase 1: 5 * 2 slots of hopping, rank j starting after arm j.
        arena = self.arena((4, 1)).play(1 + indexing_rounds(5) + 10)
        start = 2 + indexing_rounds(5)
        assert arena.collisions(2, start - 1) == indexing_collisions(2)
        assert arena.column(1, start) == [1, 2, 3, 4, 0] * 2
        assert arena.column(0, start) == [2, 3, 4, 0, 1] * 2
        assert arena.collisions(start) == 0
        # then rank 0 tells rank 1 (on arm 1) five sums in 2 bits each, least significant first: 0, 2, 0, 2, 0
        # are 00 01 00 01 00; then rank 1 tells rank 0 (on arm 0) the same
        arena.play(2 * 1 * 5 * 2)
        talk = start + 10
        ones = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0]
        assert arena.column(1, talk, talk + 9) == [1 if one else 0 for one in ones]
        assert arena.column(0, talk, talk + 9) == [1] * 10
        assert arena.column(0, talk + 10) == [0 if one else 1 for one in ones]
        assert arena.column(1, talk + 10) == [0] * 10
        assert arena.collisions(talk) == 2 * 2 * 2
        for player in arena.players:
            assert player.sums.tolist() == [0, 4, 0, 4, 0]
            assert player.plays == 4
            assert player.p == 2  # the width sqrt(2 ln(1000) / 4) is larger than any difference

    def test_arms_are_accepted_when_they_are_separated(self):
        arena = self.arena((4, 1)).until_settled()
        # after phases 1..p both have played every arm 2 (2 + ... + 2^p) = 4 (2^p - 1) times: separated by 1 when
        # 2 sqrt(2 ln(1000) / s) <= 1, s >= 55.3: p = 4 (s = 60)
        assert arena.players[0].plays == 60
        # ranks 0 and 1 of M_p = 2: rank 1 takes the first accepted arm, rank 0 the second
        assert [player.arm for player in arena.players] == [1, 3]
        slots = sum(5 * 2**p + 2 * 5 * (p + 1) for p in (1, 2, 3, 4))
        assert set(arena.settled_at) == {1 + indexing_rounds(5) + slots}

    def test_rejected_arms_are_left_and_accepted_ones_taken_in_steps(self):
        rewards = [0.0, 0.55, 0.5, 1.0, 0.0]
        arena = self.arena((0, 1), rewards).until_settled()
        assert sorted(player.arm for player in arena.players) == [1, 3]
        # arm 3 is accepted long before arm 1 is told from arm 2
        assert arena.settled_at[0] != arena.settled_at[1]
        late = max(arena.players, key=lambda player: player.plays)
        assert late.arms_left <= 2

    @pytest.mark.parametrize("n", range(1, 6))
    def test_all_numbers_of_players(self, n):
        rewards = [0.1, 0.9, 0.3, 0.75, 0.5]
        for seed in range(3):
            arena = Arena([SicMmab(5, 200) for _ in range(n)], rewards, seed=seed).until_settled()
            assert sorted(player.arm for player in arena.players) == sorted(np.argsort(rewards)[-n:].tolist())
            assert all(player.phase == PLAYING for player in arena.players)

    @pytest.mark.parametrize("law", ["bernoulli", "beta"])
    def test_players_end_on_the_best_arms(self, law):
        problem = MultiplayerProblem([0.9, 0.7, 0.5, 0.3, 0.1], 3, rewards=law)
        results = simulate(problem, {"sic": SicMmab(5, 30_000)}, 30_000, replications=50, marks=1)
        # the confidence is made for 1 / T: a wrong end in 50 runs would be very rare
        assert results.values("sic", "optimal")[:, -1].sum() >= 49

    def test_bad_arguments_are_named(self):
        with pytest.raises(ValueError, match="horizon must be an integer >= 2, got 1"):
            SicMmab(5, 1)
        with pytest.raises(ValueError, match="constant must be a finite number > 0, got 0"):
            SicMmab(5, 10, 0)
        with pytest.raises(ValueError, match="first_phase must be an integer from 1 to 30, got 0"):
            SicMmab(5, 10, first_phase=0)

    def test_the_first_phase_of_the_authors_program_is_a_stronger_rival(self):
        """K = 10, N = 6, T = 100 000: 12648 to 10786 as measured beside two other programs; a gap of many errors."""
        problem = MultiplayerProblem([0.9 - 0.09 * k for k in range(10)], 6)
        policies = {"ours": SicMmab(10, 100_000), "theirs": SicMmab(10, 100_000, first_phase=4)}
        assert policies["theirs"].p == math.ceil(math.log2(6)) + 1
        final = simulate(problem, policies, 100_000, replications=20, marks=1).final()["mean"]
        assert final["theirs"] < 0.95 * final["ours"]
