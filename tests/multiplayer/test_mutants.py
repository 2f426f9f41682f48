"""Hand-made mutants of the players of chapter 5: the slow twins must catch every one of them."""

import numpy as np
import pytest
from tests.multiplayer.following import alone, follow, means_of, told_by_the_twin
from tests.reference import players as slow
from tests.rig.mutants import caught_in_a_loop, mutate, survives

from weakfeedback.multiplayer import (
    MultiplayerProblem,
    kl_lucb,
    opening,
    play,
    world,
)
from weakfeedback.multiplayer.policies import dlc, dlc_lix, musical_chairs, sic_mmab

QUICK = {"epsilon": 0.9, "delta": 0.5, "tolerance": "eps"}
SHORT = {**QUICK, "seating_rounds": 2}
OPTIONS = {
    "Dlc": [
        QUICK,
        {**QUICK, "served": "keep"},
        {**QUICK, "fair": True},
        {**SHORT, "alarm": True},
        SHORT,
        {**SHORT, "fair": True},
        {"epsilon": 1.6, "delta": 0.5},
    ],
    "DlcLix": [
        QUICK,
        {**QUICK, "transfer": "eps/2"},
        {**SHORT, "alarm": True},
        SHORT,
        {"epsilon": 1.6, "delta": 0.5},
        {"epsilon": 0.4, "delta": 0.5, "tolerance": "eps"},
    ],
    "MusicalChairs": [{"learning_rounds": 60}, {"learning_rounds": 3}],
    "SicMmab": [
        {"horizon": 20, "constant": 0.05},
        {"horizon": 2, "constant": 0.3},
        {"horizon": 2, "constant": 0.3, "first_phase": 2},
    ],
}
TABLES = [
    (5, 3, 0, "bernoulli"),
    (6, 4, 1, "uniform"),
    (3, 2, 2, "bernoulli"),
    (4, 4, 3, "beta"),
    (7, 2, 4, "beta"),
]
TABLES += [(6, 5, 5, "bernoulli"), (2, 1, 6, "bernoulli"), (5, 1, 7, "uniform")]


def battery(kind, name):
    """Players at tables of all sizes, and one among ghosts."""
    for arms, players, seed, law in TABLES:
        for options in OPTIONS[name]:
            follow(kind, name, {"arms": arms, **options}, means_of(arms), players, seed, 350, rewards=law)
    # words of exactly K, and leaders whose arm is none of the best
    for seed in range(12 if name == "Dlc" else 0):
        for k in range(8):
            alone(kind, name, {"arms": 3 + k % 4, **SHORT}, 8 * seed + k, 150, 0.5)
        follow(kind, name, {"arms": 7, **OPTIONS["Dlc"][1]}, means_of(7), 3, seed, 250)
    for seed in range(12):
        for options in OPTIONS[name]:
            alone(kind, name, {"arms": 2 + seed % 6, **options}, seed, 250, (0.05, 0.2, 0.5, 0.8)[seed % 4])


@pytest.mark.parametrize("kind", [dlc.Dlc, dlc_lix.DlcLix, musical_chairs.MusicalChairs, sic_mmab.SicMmab])
def test_the_battery_finds_nothing_wrong_with_the_real_ones(kind):
    battery(kind, kind.__name__)


NAMES = {dlc: "Dlc", dlc_lix: "DlcLix", musical_chairs: "MusicalChairs", sic_mmab: "SicMmab"}
MUTANTS = [
    (dlc, "self.period = (self.N - 1) * self.B", "self.period = self.N * self.B"),
    (dlc, "slot < self.period or ", ""),
    (dlc, "(slot % self.period) // self.B + 1", "self.N - 1 - (slot % self.period) // self.B"),
    (dlc, "self.epsilon / self.N if self.shared", "self.epsilon if self.shared"),
    (dlc, "self.assigned[(i + 1) % self.N] = best[i]", "self.assigned[i] = best[i]"),
    (dlc, "(self.c - 1) // self.B * self.B + self.B", "self.c // self.B * self.B + self.B"),
    (dlc, "return IDLE if self.arm == seat else self.arm", "return self.arm"),
    (dlc, "return IDLE if self.arm == seat else self.arm", "return IDLE"),
    (dlc, "return self.keep or self.c ==", "return self.c =="),
    (dlc, "return self.keep or self.c ==", "return True or self.c =="),
    (dlc, "self.word = 2 * self.word + (1 if collided else 0)", "self.word = 2 * self.word + (0 if collided else 1)"),
    (dlc, "self.word >= self.K", "self.word > self.K"),
    (dlc, "rank = (i + 1) % self.N", "rank = i"),
    (dlc, "                while self.taken[best[free]]:\n                    free += 1\n", ""),
    (dlc, "(self.rank + self.c) % self.cycle_size", "(self.rank + self.c + 1) % self.cycle_size"),
    (dlc, "self.polled(self.c), self.polled(self.c + 1)", "self.polled(self.c - 1), self.polled(self.c)"),
    (dlc, "self.explore_choice(self.polled(self.c))", "self.explore_choice(IDLE)"),
    (dlc, "self.word_bits = K if self.fair else bits_for(K)", "self.word_bits = K if self.fair else bits_for(K + 1)"),
    (dlc_lix, "self.plays = self.c - 2", "self.plays = self.c - 1"),
    (dlc_lix, "bits_for(limit + 1)", "bits_for(limit)"),
    (dlc_lix, "2.0 * players > epsilon", "1.0 * players > epsilon"),
    (dlc_lix, "self.means[self.best] > self.means[seat]", "self.means[self.best] < self.means[seat]"),
    (dlc_lix, "(new - seat) % self.K", "new"),
    (dlc_lix, "            self.open_arms[seat] = True\n", ""),
    (dlc_lix, "            self.open_arms[self.best] = False\n", ""),
    (dlc_lix, "if one else self.best", "if one else IDLE"),
    (dlc_lix, "        self.sums[seat] = total\n", "        self.sums[seat] += total / 2\n"),
    (dlc_lix, "max(1, bits_for(2.0 / self.epsilon))", "max(1, bits_for(1.0 / self.epsilon))"),
    (dlc_lix, "top - 1)", "top - 2)"),
    (dlc_lix, "self.epsilon / self.N if self.shared", "self.epsilon if self.shared"),
    (dlc_lix, "self.settle((self.arm + self.word) % self.K)", "self.settle(self.word % self.K)"),
    (dlc_lix, "for rank in range(1, self.N):", "for rank in range(self.N):"),
    (dlc_lix, "if self.served < self.N:", "if self.served < self.N - 1:"),
    (musical_chairs, "players + 0.5", "players"),
    (musical_chairs, "1.0 - 1.0 / self.K) + 1.0", "1.0 - 1.0 / self.K)"),
    (musical_chairs, "self.slot < self.T0:", "self.slot <= self.T0:"),
    (musical_chairs, "self.settled = not collided", "self.settled = True"),
    (musical_chairs, "self.N * rng.random()", "self.K * rng.random()"),
    (musical_chairs, "self.collisions += 1 if", "self.collisions += 2 if"),
    (musical_chairs, "self.sums[k] / self.pulls[k]", "self.sums[k]"),
    (sic_mmab, "self.place = (self.rank + 1)", "self.place = (self.rank + 1) // 2"),
    (sic_mmab, "self.length = self.arms_left << self.p", "self.length = self.arms_left << (self.p - 1)"),
    (sic_mmab, "self.receiver() == self.rank:", "self.sender != self.rank:"),
    (sic_mmab, "self.listener + 1 if self.listener >= self.sender else self.listener", "self.listener"),
    (sic_mmab, ">> self.bit) & 1", ">> (self.p - self.bit)) & 1"),
    (sic_mmab, "margin = 2.0 *", "margin = 1.0 *"),
    (sic_mmab, "self.plays += self.players_left << self.p", "self.plays += 1 << self.p"),
    (sic_mmab, "mine = self.players_left - 1 - self.rank", "mine = self.rank"),
    (sic_mmab, "better < self.players_left", "better <= self.players_left"),
    (sic_mmab, "        self.p += 1\n", ""),
    (sic_mmab, "self.p = 1 if first_phase is None else ", "self.p = 1 if True else "),
    (sic_mmab, "            self.own[k] = 0.0\n", "            pass\n"),
    (sic_mmab, "K * math.e * log_horizon", "K * 2.0 * log_horizon"),
]  # fmt: skip
SHARED = [
    (opening, "Opening", "                self.seated = not collided", "                self.seated = True"),
    (opening, "Opening", "            if not self.seated:\n", "            if True:\n"),
    (opening, "Opening", "self.failed = not self.seated", "self.failed = False"),
    (opening, "Opening", "if self.hit or not self.seated:", "if not self.seated:"),
    (opening, "Opening", "self.arm if self.seated else self.slot", "self.arm if self.seated else 0"),
    (opening, "Opening", "self.slot - (self.arm + 1) - 1", "self.slot - (self.arm + 1)"),
    (opening, "Opening", "self.slot == 2 * self.K - 1", "self.slot == 2 * self.K - 2"),
    (opening, "Opening", "if 2 * i < slot <= arms + i:", "if 2 * i < slot < arms + i:"),
    (opening, "Opening", "        self.taken[self.arm] = True\n", ""),
    (opening, "Opening", "                    self.rank = self.N\n", "                    self.rank = 0\n"),
    (kl_lucb, "AdaptiveExplore", "max(1, self.pairs)", "max(1, 2 * self.pairs)"),
    (kl_lucb, "AdaptiveExplore", "ALPHA = 1.1", "ALPHA = 2.1"),
    (kl_lucb, "AdaptiveExplore", "K1 = 505.5", "K1 = 40.5"),
    (kl_lucb, "AdaptiveExplore", "return x + math.log(x)", "return x"),
    (kl_lucb, "AdaptiveExplore", " and not self.fresh:", ":"),
    (kl_lucb, "AdaptiveExplore", "if bound > upper:", "if bound >= upper:"),
    (kl_lucb, "AdaptiveExplore", "if bound < lower:", "if bound <= lower:"),
    (kl_lucb, "AdaptiveExplore", "self.means[k] > self.means[best]", "self.means[k] >= self.means[best]"),
    (kl_lucb, "AdaptiveExplore", " and k != polled", ""),
    (kl_lucb, "AdaptiveExplore", "if arm != IDLE and not collided:", "if arm != IDLE:"),
    (kl_lucb, "AdaptiveExplore", "or self.second == polled_next", ""),
    (kl_lucb, "AdaptiveExplore", "self.first == polled_now or ", ""),
    (kl_lucb, "AdaptiveExplore", "            self.pairs += 1\n", "            self.pairs = 1\n"),
    (kl_lucb, "AdaptiveExplore", "    low = 0.0\n", "    low = mean / 2.0\n"),
    (kl_lucb, "AdaptiveExplore", "HALVINGS = 40", "HALVINGS = 8"),
]  # fmt: skip


def short(value):
    """The part of a test's name."""
    return value.strip()[:50] if isinstance(value, str) else value.__name__.rsplit(".", 1)[-1]


@pytest.mark.parametrize(("module", "old", "new"), MUTANTS, ids=short)
def test_mutants_of_players_are_caught(module, old, new):
    name = NAMES[module]
    mutant = getattr(mutate(module, old, new), name)
    assert not survives(lambda: battery(mutant, name))


def with_base(kind, base):
    """A player whose inherited steps are those of a mutant of its base class."""
    steps = {name: step for name, step in vars(base).items() if callable(step) and not name.startswith("__")}
    return type(kind.__name__, (kind,), steps)


@pytest.mark.parametrize(("module", "base", "old", "new"), SHARED, ids=short)
def test_mutants_of_what_players_share_are_caught(module, base, old, new):
    mutant = getattr(mutate(module, old, new), base)
    caught = [
        kind.__name__
        for kind in (dlc.Dlc, dlc_lix.DlcLix)
        if not survives(lambda kind=kind: battery(with_base(kind, mutant), kind.__name__))
    ]
    # polls exist in DLC only, and so does a choice of l: DLC-LIX looks for one best arm at a time
    assert caught == (["Dlc"] if "polled" in old or "bound < lower" in old else ["Dlc", "DlcLix"])


def runs_as_the_twin(play_module, world_module):
    """The loop and the world, interpreted, against the twin's table, count by count."""
    for seed, (law, name) in enumerate((r, n) for r in (0, 1, 2) for n in ("Dlc", "MusicalChairs")):
        arms, players, rounds = 5, 2 + seed % 3, 300
        problem = MultiplayerProblem(means_of(arms), players, shuffle=seed < 4)
        hidden = world_module.MultiplayerWorld(problem.means, law, seed < 4)
        inputs = {"arms": arms, **(OPTIONS[name][0] if seed % 4 else OPTIONS[name][-1])}
        kind = dlc.Dlc if name == "Dlc" else musical_chairs.MusicalChairs
        people = [kind(**inputs) for _ in range(players)]
        rngs = [slow.stream(seed, 0, 1, n) for n in range(players)]
        marks = np.concatenate([np.arange(1, rounds - 40), [rounds - 20, rounds]])
        counts = np.zeros(4 + 2 * arms, dtype=np.int64)
        table = np.zeros((marks.size, counts.size), dtype=np.int64)
        assert play_module.play(people, hidden, slow.stream(seed, 0, 0), rngs, marks, counts, table) == 0
        options = {"rewards": ("bernoulli", "uniform", "beta")[law], "shuffle": seed < 4}
        _, rows = told_by_the_twin(name, inputs, means_of(arms), players, seed, rounds, **options)
        for mark, mine in zip(marks, table.tolist(), strict=True):
            row = rows[mark - 1]
            settled_at = row.settled_at if row.settled_players == players else 0
            expected = [mark, row.collisions, row.settled_players, settled_at, *row.used, *row.seats]
            assert mine == expected


def test_the_loop_and_the_world_run_as_the_twin():
    runs_as_the_twin(play, world)


test_mutants_of_the_loop_and_the_world_are_caught = caught_in_a_loop(
    runs_as_the_twin,
    play,
    world,
    (world, "rng.random() < mean", "rng.random() > mean"),
    (world, "range(self.order.size - 1, 0, -1)", "range(self.order.size - 1, 1, -1)"),
    (world, "j = int((k + 1) * rng.random())", "j = int(k * rng.random())"),
    (world, "self.means[self.order[k]]", "self.means[k]"),
    (world, "half * (2.0 * rng.random() - 1.0)", "half * (rng.random() - 0.5)"),
    (world, "CONCENTRATION = 4.0", "CONCENTRATION = 2.0"),
    (play, "crowd[arm] > 1", "crowd[arm] > 2"),
    (play, "more = marks[m] - counts[ROUNDS]", "more = marks[-1] - counts[ROUNDS]"),
    (play, "used[k] += more if", "used[k] += 1 if"),
    (play, "counts[FIXED + world.order[k]] += used[k]", "counts[FIXED + k] += used[k]"),
    (play, "                used[k] = 0\n", ""),
    (play, "collisions += crowd[k] if", "collisions += 1 if"),
    (play, "resting = settled == N and moving == 0", "resting = moving == 0"),
    (play, "resting = settled == N and moving == 0", "resting = settled == N"),
    (play, "counts[SETTLED] == N and counts[SETTLED_AT] == 0", "counts[SETTLED] == N"),
    (play, "world.order[players[n].arm]", "players[n].arm"),
)
