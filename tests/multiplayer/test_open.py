"""Open problems: players that come and go, lose slots, have their own means, or sense nothing."""

import hashlib
import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from tests.reference.players import SlowWorld, stream
from tests.rig.mutants import caught_in_a_loop
from tests.rig.refusals import refusals

from weakfeedback import simulate
from weakfeedback.checks import check_policy
from weakfeedback.engine.replication import Interpreted, Task, cast, run, streams
from weakfeedback.kernels.matching import best_matching
from weakfeedback.multiplayer import (
    Claims,
    Dlc,
    DlcLix,
    Dpe1,
    MultiplayerProblem,
    MusicalChairs,
    SicMmab,
    open_play,
    world,
)
from weakfeedback.multiplayer.setting import SETTING

OLD = ("regret", "collisions", "settled_players", "settled_at", "optimal", "shortfall")
# SHA-256 of all measures of the runs below, made before problems could be open
STORED = {
    "DLC": "2d2fb066b58f38c93005c5589650474d2bf224afb834abb11b179f1854e02833",
    "DLC-LIX": "2ace8ebbc7b110c1da363ef3952e7ac7c56973a9d480030c39bc7afdf4a061c5",
    "Musical-Chairs": "27e0a88a0f15015df8b5668e016a6303638c6803fc31a4928aa22bef51efa56e",
    "SIC-MMAB": "ee17d854f39eeab36ccbcfd37f47d65b6856b25c064f3bceab8475017beb4cc5",
    "DPE1": "ba7f4d4d3ec5b92cfa6b1c15a36281645414335c469896fbfb4581b1dc4e4681",
}
MAKERS = {
    "DLC": lambda K: Dlc(K, 0.3, 0.1),
    "DLC-LIX": lambda K: DlcLix(K, 0.3, 0.1),
    "Musical-Chairs": lambda K: MusicalChairs(K, 300),
    "SIC-MMAB": lambda K: SicMmab(K, 3000),
    "DPE1": Dpe1,
}
CASES = (
    (6, 4, "bernoulli", True),
    (5, 1, "uniform", True),
    (4, 4, "beta", False),
    (9, 3, "bernoulli", False),
)


@pytest.mark.parametrize("name", MAKERS)
def test_static_results_are_as_before_to_the_bit(name):
    digest = hashlib.sha256()
    for arms, players, law, shuffled in CASES:
        problem = MultiplayerProblem(np.linspace(0.95, 0.05, arms), players, shuffle=shuffled, rewards=law)
        frame = simulate(problem, {"p": MAKERS[name](arms)}, 4000, replications=3, marks=40, seed=7).frame
        for measure in OLD:
            digest.update(frame[measure].to_numpy(dtype="<f8").tobytes())
    assert digest.hexdigest() == STORED[name]


@pytest.mark.parametrize("name", ["DLC-LIX", "Musical-Chairs", "DPE1"])
def test_the_open_loop_plays_what_the_static_one_plays(name):
    """A problem that is open only on paper: the last player leaves when the run is over."""
    means, marks = [0.9, 0.4, 0.7, 0.2, 0.6], np.arange(100, 2001, 100)
    static = MultiplayerProblem(means, 3)
    open_one = MultiplayerProblem(means, 3, presence=[(0, None), (0, None), (0, 2000)])
    tables = [run(Task(p, "p", MAKERS[name](5), 0, 2, marks, 3, False)) for p in (static, open_one)]
    mine, theirs = (p.measures(table) for p, table in zip((open_one, static), tables[::-1]))
    for measure in (*OLD, "share", "present"):
        assert np.allclose(mine[measure], theirs[measure], rtol=0, atol=1e-8), measure


def test_a_stay_to_the_end_needs_no_none():
    """As in files: ``presence = [[0], [50, 150]]``."""
    form = SETTING.form_of({})
    problem = form.make([0.9, 0.5, 0.2], 2, presence=[[0], [50, 150]], lost=0.1)
    assert {"presence", "lost", "sensing"} <= set(form.keys)
    assert problem.presence == ((0, None), (50, 150))


def test_what_is_open_only_in_words_is_static():
    means = [0.9, 0.4, 0.7]
    plain = MultiplayerProblem(means, 2)
    for same in (
        MultiplayerProblem(means, 2, presence=[(0, None), (0, None)]),
        MultiplayerProblem([means, means], 2),
        MultiplayerProblem(means, 2, lost=0.0, sensing=True),
    ):
        assert same.digest() == plain.digest()
        assert not same.is_open
    others = [
        MultiplayerProblem(means, 2, presence=[(0, None), (1, None)]),
        MultiplayerProblem(means, 2, presence=[(0, None), (0, 9)]),
        MultiplayerProblem(means, 2, lost=0.1),
        MultiplayerProblem(means, 2, sensing=False),
        MultiplayerProblem([means, means[::-1]], 2),
        MultiplayerProblem(means, 3, presence=[(0, None)] * 3, lost=0.1),
    ]
    assert len({p.digest() for p in (plain, *others)}) == len(others) + 1
    assert all(p.is_open for p in others)


test_bad_arguments_are_named = refusals(
    lambda arguments: MultiplayerProblem(**{"means": [0.9, 0.5, 0.1], "players": 2, **arguments}),
    ({"presence": [(0, None)]}, r"presence must be 2 pairs \(first slot, slot after the last or None\)"),
    ({"presence": 5}, "presence must be 2 pairs"),
    ({"presence": [(0, None), 7]}, r"presence\[1\] must be a pair of slots, got 7"),
    ({"presence": [(-1, None), (0, 1)]}, r"first slot of presence\[0\] must be an integer from 0"),
    ({"presence": [(5, 5), (0, 1)]}, r"slot after the last of presence\[0\] must be an integer from 6"),
    ({"lost": 1.0}, "lost must be a number from 0 to below 1, got 1.0"),
    ({"lost": -0.1}, "lost must be a finite number >= 0, got -0.1"),
    ({"sensing": 1}, "sensing must be True or False, got 1"),
    ({"means": [[0.5, 0.4, 0.3]] * 3}, "means must have a row for each of 2 players, got 3 rows"),
    ({"means": [[0.5, 0.4], [0.3]]}, "means must be at least two numbers"),
    ({"means": [[0.5, 0.4], [0.3, 1.3]]}, "means must be at least two numbers"),
)


def test_measures_by_hand():
    # K = 2, N = 2; player 1 is there in the slots 3 to 7
    problem = MultiplayerProblem([0.5, 0.9], 2, presence=[(0, None), (3, 8)])
    # after 10 rounds: player 0 used arm 1 six times and arm 0 twice, player 1 used arm 0 four times
    counts = [10, 2, 1, 9, 2, 6, 4, 0, 2, 0]
    measures = problem.measures(counts)
    best = 5 * 0.9 + 5 * 1.4
    earned = 2 * 0.5 + 6 * 0.9 + 4 * 0.5
    assert measures["regret"] == pytest.approx(best - earned)
    assert measures["share"] == pytest.approx(earned / best)
    assert (measures["present"], measures["collisions"]) == (1, 2)
    rates = (6.4 / 10, 2.0 / 5)
    assert measures["fairness"] == pytest.approx(sum(rates) ** 2 / (2 * sum(r * r for r in rates)))
    assert (measures["settled_at"], measures["optimal"]) == (9, 1)
    assert measures["shortfall"] == pytest.approx(0.0)
    at_five = problem.measures([5, 0, 0, 0, 0, 5, 2, 0, 0, 0])
    assert (at_five["present"], at_five["settled_at"], at_five["optimal"]) == (2, 5, 0)
    assert at_five["shortfall"] == pytest.approx(1.4)
    nobody = MultiplayerProblem([0.5, 0.9], 1, presence=[(5, None)]).measures([3, 0, 0, 0, 0, 0, 0])
    assert (nobody["share"], nobody["regret"], nobody["present"], nobody["fairness"]) == (1.0, 0.0, 0, 1.0)


def test_own_means_are_matched():
    problem = MultiplayerProblem([[0.9, 0.8, 0.0], [0.9, 0.1, 0.2]], 2)
    assert problem.optimal_value == pytest.approx(1.7)
    crowded = MultiplayerProblem([[0.9, 0.1], [0.8, 0.7], [0.2, 0.6]], 3, presence=[(0, None)] * 3)
    assert crowded.optimal_value == pytest.approx(1.6)


def test_matchings_are_those_of_scipy():
    rng = np.random.default_rng(0)
    for rows, columns in itertools.product(range(1, 7), range(1, 9)):
        for tied in (False, True):
            weights = rng.integers(0, 3, (rows, columns)) / 2.0 if tied else rng.random((rows, columns))
            matched = best_matching(weights)
            mine = [weights[i, j] for i, j in enumerate(matched) if j >= 0]
            assert len(mine) == min(rows, columns)
            assert len({j for j in matched if j >= 0}) == len(mine)
            assert sum(mine) == pytest.approx(weights[linear_sum_assignment(weights, maximize=True)].sum())


# The loop and the world against a plain retelling


class Noting:
    """Plays arms from its generator, idles sometimes, and notes all that it is told."""

    def __init__(self, arms):
        self.K, self.arm, self.settled = arms, -1, False
        self.told = np.zeros((3, 400))
        self.heard = 0

    def choose(self, rng):
        return int((self.K + 1) * rng.random()) - 1

    def observe(self, arm, reward, collided, rng):
        self.told[:, self.heard % 400] = arm, reward, collided
        self.heard += 1
        self.arm = arm
        self.settled = arm == 0


def retold(problem, seed, rounds):
    """Return the counts after each round, and what each player was told."""
    N, K = problem.players, problem.arms
    rng, rngs = stream(seed, 0, 0), [stream(seed, 0, 1, n) for n in range(N)]
    rows = np.atleast_2d(problem.means)
    first = SlowWorld(rows[0], rng, problem.shuffle, problem.rewards)
    used, seats, told, out = np.zeros((N, K), dtype=int), [0] * N, [[] for _ in range(N)], []
    collisions = since = 0
    for t in range(rounds):
        rewards = [[first.reward(row[true]) for true in first.order] for row in rows]
        loses = [problem.lost > 0 and rng.random() < problem.lost for _ in range(N)]
        pairs = problem.presence or [(0, None)] * N
        there = [n for n, (a, b) in enumerate(pairs) if a <= t and (b is None or t < b)]
        arms = {n: int((K + 1) * rngs[n].random()) - 1 for n in there if not loses[n]}
        for n, arm in arms.items():
            hit = arm >= 0 and list(arms.values()).count(arm) > 1
            collisions += hit
            reward = 0.0
            if arm >= 0 and not hit:
                used[n, first.order[arm]] += 1
                reward = rewards[n if len(rows) > 1 else 0][arm]
            told[n].append((arm, reward, float(hit and problem.sensing)))
            seats[n] = 1 + first.order[0] if arm == 0 else 0
        seated = [seats[n] if n in there else 0 for n in range(N)]
        settled = sum(seat > 0 for seat in seated)
        since = 0 if settled < len(there) else since or t + 1
        out.append([t + 1, collisions, settled, since, *used.ravel().tolist(), *seated])
    return out, told


PROBLEMS = [
    MultiplayerProblem([0.9, 0.4, 0.6], 4, presence=[(0, None), (5, 60), (30, None), (0, 90)], lost=0.1),
    MultiplayerProblem([[0.9, 0.4, 0.6], [0.1, 0.5, 0.8]], 2, rewards="beta"),
    MultiplayerProblem([0.9, 0.4, 0.6], 3, sensing=False, rewards="uniform", shuffle=False),
    MultiplayerProblem([[0.5, 0.4], [0.3, 0.8], [0.1, 0.0]], 3, presence=[(0, None), (3, 9), (50, None)]),
]


def plays_as_retold(loop, hidden):
    marks = np.array([*range(1, 100), 120])
    for seed, problem in enumerate(PROBLEMS):
        expected, told = retold(problem, seed, 120)
        players = [Noting(problem.arms) for _ in range(problem.players)]
        place = problem.world()
        if hidden is not world:
            fields = vars(place)
            place = object.__new__(hidden.OpenWorld)
            vars(place).update(fields)
        counts = np.zeros(len(expected[0]), dtype=np.int64)
        table = np.zeros((marks.size, counts.size), dtype=np.int64)
        rngs = [stream(seed, 0, 1, n) for n in range(problem.players)]
        assert loop.play_open(players, place, stream(seed, 0, 0), rngs, marks, counts, table) == 0
        assert table.tolist() == [expected[mark - 1] for mark in marks]
        for player, lines in zip(players, told):
            assert player.told[:, : player.heard].T.tolist() == [list(line) for line in lines]


def test_the_open_loop_plays_as_retold():
    plays_as_retold(open_play, world)


test_mutants_of_the_open_loop_are_caught = caught_in_a_loop(
    plays_as_retold,
    open_play,
    world,
    (open_play, "== AWAKE:\n                arm = p", "!= ABSENT:\n                arm = p"),
    (open_play, "crowd[arm] > 1", "crowd[arm] > 2"),
    (open_play, "n if rewards.shape[0] > 1 else 0", "0"),
    (open_play, "bool(collided and world.sensing)", "bool(collided)"),
    (open_play, "                    used[n, k] = 0\n", ""),
    (open_play, "FIXED + n * K + world.order[k]", "FIXED + n * K + k"),
    (open_play, "if awake[n] != ABSENT:\n                present", "if True:\n                present"),
    (open_play, "            counts[SETTLED_AT] = 0\n", "            pass\n"),
    (open_play, "elif counts[SETTLED_AT] == 0:", "else:"),
    (open_play, "awake[n] != ABSENT and players", "players"),
    (world, "slot >= self.beyond[n]", "slot > self.beyond[n]"),
    (world, "slot < self.first[n]", "slot <= self.first[n]"),
    (world, "rng.random() < self.lost", "rng.random() > self.lost"),
    (world, "self.means[row, self.order[k]]", "self.means[0, self.order[k]]"),
)  # fmt: skip


@pytest.mark.parametrize("problem", PROBLEMS[:2], ids=["presence", "own"])
def test_compiled_equals_interpreted(problem):
    frames = [
        simulate(problem, {"c": Claims(3)}, 400, replications=2, marks=40, compiled=compiled).frame
        for compiled in (True, False)
    ]
    assert frames[0].equals(frames[1])


def test_others_keep_their_generators():
    """Who comes, goes or sleeps draws nothing from the generators of the others."""
    problem = MultiplayerProblem([0.9, 0.5, 0.1], 2, presence=[(0, None), (3, 5)], lost=0.2)
    players = cast(problem, Noting(3))
    world_rng, rngs = streams(problem, players[0], 4, 0)
    counts = np.zeros(4 + 2 * 3 + 2, dtype=np.int64)
    Interpreted(problem).play(
        players, problem.world(), world_rng, rngs, np.array([50]), counts, np.zeros((1, counts.size), dtype=np.int64)
    )  # fmt: skip
    for n, player in enumerate(players):
        fresh = stream(4, 0, 1, n)
        assert [int(4 * fresh.random()) - 1 for _ in range(player.heard)] == player.told[
            0, : player.heard
        ].tolist()
        assert fresh.random() == rngs[n].random()


def test_the_checks_run_where_all_are_there():
    for problem in (PROBLEMS[1], PROBLEMS[2]):
        check_policy(lambda p: Claims(p.arms), problem, rounds=120)
    with pytest.raises(ValueError, match="problem must have no presence and no lost slots for the checks"):
        check_policy(lambda p: Claims(p.arms), PROBLEMS[0], rounds=20, compiled=False)
