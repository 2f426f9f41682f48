"""Match: its slow twin, its dialogs decoded for all small teams, mutants; and Selfish."""

import itertools
import math

import numpy as np
import pytest
from tests.multiplayer.arena import Arena
from tests.reference.players import SlowTable, stream
from tests.reference.players_match import slow_match, slow_selfish
from tests.rig.mutants import caught
from tests.rig.refusals import refusals

from weakfeedback import simulate
from weakfeedback.multiplayer import Match, MultiplayerProblem, Selfish
from weakfeedback.multiplayer.opening import PLAYING
from weakfeedback.multiplayer.policies import match, selfish
from weakfeedback.multiplayer.policies.match import bits_of, word_of

# the 5 x 5 instance of BEACON's repository
P55 = [
    [0.5, 0.49, 0.39, 0.29, 0.5],
    [0.5, 0.49, 0.39, 0.29, 0.19],
    [0.29, 0.19, 0.5, 0.499, 0.39],
    [0.29, 0.49, 0.5, 0.5, 0.39],
    [0.49, 0.49, 0.49, 0.49, 0.5],
]


def follow(kind, arms, players, seed, slots, law="bernoulli", **options):
    """Players and twins at one table: the same choices, the same counts, words that arrive as they were sent."""
    world = np.random.default_rng([seed, arms])
    means, book = world.random((players, arms)), []
    table = SlowTable(slow_match(arms, book=book, **options), [stream(seed, 0, 1, n) for n in range(players)])
    rngs = [stream(seed, 0, 1, n) for n in range(players)]
    team = [kind(arms, **options) for _ in range(players)]
    for t in range(slots):
        chosen = [player.choose(rng) for player, rng in zip(team, rngs)]
        assert chosen == table.coming, f"slot {t}"
        hits = [arm >= 0 and chosen.count(arm) > 1 for arm in chosen]
        drawn = world.random(means.shape)
        rewards = (drawn < means).astype(float) if law == "bernoulli" else drawn
        earned = [
            0.0 if arm < 0 or hit else rewards[n, arm] for n, (arm, hit) in enumerate(zip(chosen, hits))
        ]
        table.coming = [one.send(seen) for one, seen in zip(table.players, zip(earned, hits))]
        for player, rng, arm, reward, hit in zip(team, rngs, chosen, earned, hits):
            player.observe(arm, reward, hit, rng)
    for player, notes, diary in zip(team, book, table.diaries):
        assert player.fault == 0
        assert (player.N, player.rank) == (players, diary.rank)
        assert (player.pulls.tolist(), player.sums.tolist()) == (notes.n, notes.s)
    ranked = sorted(range(players), key=lambda n: team[n].rank)
    heard = book[ranked[0]].heard
    for n in ranked[1:]:
        mine = [(word, count) for rank, count, word in heard if rank == team[n].rank]
        assert [word for word, _ in mine] == [word for word, _ in book[n].sent][: len(mine)]
        for (word, count), (_, mean) in zip(mine, book[n].sent):
            read = (word + 0.5) / 2 ** bits_of(count)
            assert abs(read - mean) <= 1 / (8 * math.sqrt(count)) + 1e-12
    return len(heard)


def battery(kind):
    talked = 0
    for arms, players in ((2, 1), (2, 2), (3, 2), (4, 3), (5, 5), (6, 4)):
        law = "bernoulli" if arms % 2 else "uniform"
        talked += follow(kind, arms, players, players, 1500, law, n0=4, growth=2, draws=4)
    talked += follow(kind, 4, 4, 9, 2500, n0=3, growth=3, draws=2)
    talked += follow(kind, 7, 3, 3, 1200)
    assert talked > 50


def test_fast_and_slow_do_the_same():
    battery(Match)


@pytest.mark.slow
def test_fast_and_slow_do_the_same_at_length():
    for seed in range(8):
        follow(Match, 4 + seed % 4, 2 + seed % 3, 100 + seed, 12_000)


MUTANTS = [
    ("(bits_for(samples) + 1) // 2 + 2", "bits_for(samples) // 2 + 2"),
    ("min(steps - 1, int(total / samples * steps))", "min(steps - 1, int(total / samples * steps + 0.5))"),
    ("return (self.c + self.rank) % self.K", "return (self.c - self.rank) % self.K"),
    ("not collided and self.stage != TELL", "not collided"),
    ("(self.word + 0.5) / (1 << b)", "self.word / (1 << b)"),
    ("(self.word + 0.5) / (1 << self.length)", "self.word / (1 << self.length)"),
    ("* (2 + self.length)", "* (1 + self.length)"),
    ("(self.arm + (self.word >> behind)) % self.K", "(self.word >> behind) % self.K"),
    ("if not meeting or r != self.other:", "if r != self.other:"),
    ("self.growth * self.told[self.other, arm]", "self.growth + self.told[self.other, arm]"),
    (">= self.growth * self", "> self.growth * self"),
    ("if fewest < 0 or least < fewest:", "if fewest < 0 or least > fewest:"),
    ("if fewest < 0 or least < fewest:", "if True:"),
    ("(self.growth - 1) * fewest", "self.growth * fewest"),
    ("+ self.left - 1)", "+ self.left)"),
    ("self.told[self.other, arm] = self.samples[self.other, arm]", "pass"),
    ("            self.told[0, k] = self.pulls[k]\n", ""),
    ("rng.beta(1.0 + good, 1.0 + n - good)", "rng.beta(1.0 + good, 2.0 + n - good)"),
]


test_mutants_are_caught = caught(
    lambda mutant: battery(mutant.Match),
    match,
    *MUTANTS,
)


# All dialogs of small teams


def team_on(seats, arms, counts):
    """Players that have just ended a frame: rank r on ``seats[r]`` with ``counts[r]`` samples there."""
    team = [Match(arms) for _ in seats]
    for rank, player in enumerate(team):
        player.phase, player.N, player.rank, player.arm = PLAYING, len(seats), rank, seats[rank]
        player.enter_stage(match.PLAY, 10**6 if rank == 0 else 0)
        player.pulls[:] = 5
        player.pulls[seats[rank]] = counts[rank]
        player.sums[:] = player.pulls * (0.05 + 0.9 * rank / len(seats))
    leader = team[0]
    leader.place[: len(seats)] = seats
    for rank, (seat, count) in enumerate(zip(seats, counts)):
        leader.told[rank, :], leader.samples[rank, :] = 1, 5
        leader.samples[rank, seat] = count
    return team


def played_until(team, over):
    """Play; the arms of each slot, and who collided."""
    arena = Arena(team, lambda slot: [0.0] * team[0].K)
    while not over():
        arena.slot()
        assert len(arena.arms) < 1000
    return arena


def check_dialog(seats, plan, arms, counts):
    team = team_on(seats, arms, counts)
    leader = team[0]
    # reports of all followers, whose samples have grown enough
    leader.draws, leader.other = 1, 1
    leader.make_plan = lambda rng: leader.plan.__setitem__(slice(len(plan)), plan)
    leader.find_reporter(None)
    calls = played_until(team, lambda: leader.stage == match.PLAY)
    for rank, player in enumerate(team):
        assert player.fault == 0
        assert player.arm == plan[rank]
        assert (player.stage, player.waiting, player.next) == (match.PLAY, 0, -1)
        if rank > 0:
            told = int(leader.told[rank, seats[rank]])
            assert leader.samples[rank, seats[rank]] == player.pulls[seats[rank]]
            if len(seats) > 1 and counts[rank] >= 4:
                total = (0.05 + 0.9 * rank / len(seats)) * counts[rank]
                assert told >= counts[rank]
                read = leader.means[rank, seats[rank]] * 2 ** bits_of(told) - 0.5
                assert read == word_of(total, told) or told > counts[rank]
    for hits in calls.hits:  # only the leader and one follower ever meet
        assert sum(hits) in (0, 2)
        assert hits[0] == any(hits)
    for rank in range(len(seats)):  # nobody leaves its seat before all know theirs
        elsewhere = [arms_of[rank] for arms_of in calls.arms if arms_of[rank] not in (-1, seats[rank])]
        assert rank == 0 or not elsewhere


SMALL = [(arms, players) for arms in range(2, 6) for players in range(2, min(arms, 4) + 1)]


@pytest.mark.parametrize(
    ("arms", "players"),
    [pytest.param(*size, marks=pytest.mark.slow) if math.perm(*size) > 30 else size for size in SMALL],
)
def test_all_dialogs_of_small_teams_are_decoded(arms, players):
    """Every pair of seats and plan, with numbers of samples around the powers of 2 and 4."""
    numbers = itertools.cycle([3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 63, 64, 65, 255, 256, 257])
    for seats, plan in itertools.product(itertools.permutations(range(arms), players), repeat=2):
        check_dialog(seats, plan, arms, [next(numbers) for _ in seats])


@pytest.mark.parametrize("players", [1, 2, 4])
def test_equal_rows_end_on_the_best_arms(players):
    """Two runs of each; an end on other arms within 8000 slots has a probability below 1e-6."""
    means = [0.9, 0.1, 0.8, 0.3, 0.7, 0.6]
    problem = MultiplayerProblem(np.tile(means, (players, 1)), players)
    frame = simulate(problem, {"m": Match(6)}, 10_000, 2, seed=2, marks=[8000]).frame
    regret = frame["regret"].to_numpy().reshape(2, -1)
    assert np.all(regret[:, 1] - regret[:, 0] < 0.02 * 2000 * players)


def test_regret_on_own_means():
    """P55, mean of 6 runs; the standard error is about 60, so a false alarm at 2000 has a probability below 1e-7."""
    problem = MultiplayerProblem(P55, 5)
    results = simulate(problem, {"Match": Match(5)}, 100_000, 6, seed=5, marks=1)
    assert results.values("Match")[:, -1].mean() < 2000
    assert results.values("Match", "share").min() > 0.98


@pytest.mark.parametrize("lost", [False, True])
def test_a_lost_slot_shows_as_a_fault(lost):
    rngs, world = [stream(1, 0, 1, n) for n in range(5)], np.random.default_rng(0)
    arena = Arena([Match(5) for _ in range(5)], lambda slot: world.random(5), rngs)
    while arena.players[2].pulls.sum() < 10:
        arena.slot()
    arena.players[2].c -= lost  # its clock stands still for a slot
    arena.play(3000)
    assert (sum(player.fault for player in arena.players) > 0) == lost


# Selfish


def selfish_pair(kind, index, seed):
    """A player, its twin and collisions from outside: the flag must not matter."""
    rng, chaos = stream(seed, 0, 1, 0), np.random.default_rng(seed)
    player, twin = kind(4, index=index), slow_selfish(4, stream(seed, 0, 1, 0), index)
    coming = next(twin)
    for _ in range(600):
        arm = player.choose(rng)
        assert arm == coming
        hit = bool(chaos.random() < 0.3)
        reward = 0.0 if hit else float(chaos.random())
        player.observe(arm, reward, bool(chaos.random() < 0.5), rng)
        coming = twin.send((reward, hit))


@pytest.mark.parametrize("index", ["thompson", "kl-ucb"])
def test_selfish_as_its_twin_and_collided_is_never_read(index):
    for seed in range(5):
        selfish_pair(Selfish, index, seed)


test_mutants_of_selfish_are_caught = caught(
    lambda mutant: [
        selfish_pair(mutant.Selfish, index, seed) for index in ("thompson", "kl-ucb") for seed in range(3)
    ],
    selfish,
    ("if value > highest:", "if value < highest or k == 0:"),
    ("1.0 + n - self.sums[k]", "2.0 + n - self.sums[k]"),
    ("rng.normal() / (self.t + 1)", "rng.normal()"),
    ("math.log(self.t + 1))", "math.log(self.t + 2))"),
    ("return 10.0 + noise", "return noise"),
    ("self.sums[arm] += reward", "self.sums[arm] += 0.0 if collided else reward"),
    ("self.pulls[arm] += 1", "self.pulls[arm] += 0 if collided else 1"),
)


def test_selfish_without_sensing_earns_almost_all():
    """K = 6, N = 4; measured .985 to .995, so .96 in each of 6 runs is a loose bound."""
    problem = MultiplayerProblem([0.9, 0.8, 0.7, 0.4, 0.3, 0.2], 4, sensing=False)
    frame = simulate(problem, {"s": Selfish(6)}, 20_000, 6, seed=4, marks=1).frame
    assert frame["share"].min() > 0.96


test_bad_options_are_named = refusals(
    lambda make: make(),
    (lambda: Match(501), "arms must be at most 500, got 501"),
    (lambda: Match(3, n0=0), "n0 must be an integer >= 1, got 0"),
    (lambda: Match(3, growth=1), "growth must be an integer >= 2, got 1"),
    (lambda: Match(3, draws=0), "draws must be an integer >= 1, got 0"),
    (lambda: Selfish(3, index="ucb"), "index must be 'thompson' or 'kl-ucb', got 'ucb'"),
)
