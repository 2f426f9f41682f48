"""DPE1 against its slow twin, slot by slot."""

import numpy as np
import pytest
from tests.multiplayer import following
from tests.multiplayer.following import means_of
from tests.reference import players as slow
from tests.reference.players_dpe1 import Opinion, slow_dpe1

from weakfeedback import simulate
from weakfeedback.multiplayer import Dpe1, MultiplayerProblem

LAWS = ("bernoulli", "uniform", "beta")


def agree(player, diary, opinion):
    """What both know: besides what all players of chapter 5 know, the common set and the arms to explore."""
    following.agree(player, diary, opened=True)
    if diary.N == 0 or diary.settled:
        return
    assert player.c == diary.c - 1  # slots that have ended; the diary has the coming one
    assert player.arm == diary.arm
    assert np.flatnonzero(player.member).tolist() == opinion.cycle()
    assert player.cycle[: diary.N].tolist() == opinion.cycle()
    if diary.rank == 0:
        assert (player.worst, player.wanted[: player.wanted_size].tolist()) == (opinion.worst, opinion.wanted)


class Table:
    """Players and their twins at one table."""

    def __init__(self, arms, players, seed):
        self.opinions: list[Opinion] = []
        self.slow = slow.SlowTable(
            slow_dpe1(arms, self.opinions), [slow.stream(seed, 0, 1, n) for n in range(players)]
        )
        self.fast = [Dpe1(arms) for _ in range(players)]
        self.rngs = [slow.stream(seed, 0, 1, n) for n in range(players)]

    def slot(self, rewards, often=True):
        arms = [player.choose(rng) for player, rng in zip(self.fast, self.rngs, strict=True)]
        assert arms == self.slow.coming, f"slot {len(self.slow.choices) + 1}"
        self.slow.slot(rewards)
        for player, rng, arm, hit in zip(self.fast, self.rngs, arms, self.slow.hits[-1], strict=True):
            player.observe(arm, 0.0 if hit else rewards[arm], hit, rng)
        if often:
            for player, diary, opinion in zip(self.fast, self.slow.diaries, self.opinions, strict=True):
                agree(player, diary, opinion)


def played(means, players, seed, slots, law="bernoulli"):
    """A table after so many slots in which the fast and the slow players did the same."""
    world = slow.SlowWorld(means, slow.stream(seed, 0, 0), rewards=law)
    table = Table(len(means), players, seed)
    for t in range(slots):
        table.slot(world.draw(), often=t < 200 or t % 16 == 0)
    return table


@pytest.mark.parametrize(
    "arms", [2, 3, 4, 5, 8, *(pytest.param(arms, marks=pytest.mark.slow) for arms in (6, 7))]
)
def test_fast_and_slow_choose_the_same_arms(arms):
    changes = 0
    for players in range(1, arms + 1):
        for seed in (2, 3):
            table = played(means_of(arms), players, seed, 700, LAWS[(players + seed) % 3])
            changes += sum(opinion.changes for opinion in table.opinions)
    assert changes


@pytest.mark.parametrize(("arms", "players", "seed"), [(4, 3, 475), (7, 2, 1420)])
def test_the_leader_looks_with_the_clock_of_the_slot_that_ended(arms, players, seed):
    """Seeds at which a clock ahead by one at the end of a communication leads to other choices soon."""
    played(means_of(arms), players, seed, 60, "uniform")


def test_sets_change_again_and_again():
    """Means that are close: many changes, told one after the other, heard by everybody."""
    found = 0
    for seed in range(3):
        table = played([0.5, 0.52, 0.5, 0.48, 0.5, 0.5], 3, seed, 3000)
        found += table.opinions[0].changes
    assert found > 30


def test_all_rewards_may_be_equal():
    """Means of exactly 0 or 1, and ties everywhere."""
    for seed, mean in enumerate((0.0, 0.25, 1.0)):
        table = Table(5, 3, seed)
        for _ in range(600):
            table.slot([mean] * 5)


@pytest.mark.parametrize("chance", [0.02, 0.1, 0.25])
def test_fast_and_slow_do_the_same_among_ghosts(chance):
    """Collisions and rewards at random, whatever is played: wrong numbers of players, words that say nothing."""
    ranks, changes = set(), 0
    for seed in range(18):
        arms = 2 + seed % 6
        table, ghosts = Table(arms, 1, seed), np.random.default_rng(seed)
        (twin,), (player,), (rng,) = table.slow.players, table.fast, table.rngs
        coming = table.slow.coming[0]
        for t in range(300):
            arm = player.choose(rng)
            assert arm == coming, f"slot {t + 1}"
            hit = bool(ghosts.random() < chance)
            reward = 0.0 if hit else float(ghosts.random())
            player.observe(arm, reward, hit, rng)
            coming = twin.send((reward, hit))
            agree(player, table.slow.diaries[0], table.opinions[0])
        ranks.add(table.slow.diaries[0].rank)
        changes += table.opinions[0].changes
    assert {0, 1} <= ranks
    assert changes


def test_compiled_runs_are_those_of_the_twins():
    arms, rounds = 6, 2000
    means = 0.9 * 0.57 ** np.arange(arms)  # so unlike that the regret of a slot says which arms were used
    for players in (1, 3, 5, 6):
        problem = MultiplayerProblem(means, players, rewards="beta")
        marks = np.arange(1, rounds + 1)
        frame = simulate(problem, {"DPE1": Dpe1(arms)}, rounds, 1, seed=players, marks=marks).frame
        world = slow.SlowWorld(means, slow.stream(players, 0, 0), rewards="beta")
        _, rows = slow.slow_run(slow_dpe1(arms), world, players, players, 0, rounds)
        for measure in ("collisions", "settled_players", "settled_at"):
            assert frame[measure].tolist() == [getattr(row, measure) for row in rows], measure
        assert np.allclose(frame["regret"], [row.regret for row in rows], rtol=0, atol=1e-8)
