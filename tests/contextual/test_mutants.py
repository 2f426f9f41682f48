"""Errors put into the policies, the worlds and the loops of chapter 3 on purpose: the twins must notice each."""

import inspect
import itertools
from typing import Any

import numpy as np
import pytest
from tests.contextual.following import (
    EVERY_TIME,
    SHARP,
    SLACK,
    Tied,
    compare_bounds,
    compare_on_stream,
    random_problem,
    random_realizable,
    stream,
    teach,
)
from tests.reference import contextual as slow
from tests.reference import contextual_worlds as worlds
from tests.rig.mutants import caught_in_a_loop, made_again, mutate, survives

from weakfeedback.contextual import (
    FixedArm,
    RandomArm,
    Supervised,
    UssPd,
    UssPdRidge,
    disagreement,
    glm,
    history,
    play,
    world,
)
from weakfeedback.contextual.policies import baselines, supervised, uss_pd, uss_pd_ridge
from weakfeedback.kernels import linalg

TWINS = {"UssPd": slow.SlowUssPd, "UssPdRidge": slow.SlowUssPdRidge, "Supervised": slow.SlowSupervised}
FORCED: list[dict[str, Any]] = [
    {"forced": 8},
    {"forced_limit": 14, "sigma": 0.05, "ridge": 0.3, "delta": 0.2},
    {"forced": 15, "ridge": 0.1},
]
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "UssPd": FORCED,
    "UssPdRidge": [{}, {"bonus": "beta", "ridge": 0.4, "norm_bound": 0.3}, {"ridge": 0.05, "kappa": 0.5}],
    "Supervised": FORCED,
}


def per_pair_stream(one, twin):
    """Blocks of their own for the three pairs of three arms."""
    rng = np.random.default_rng(8)
    for phi, arm, outputs, truth in stream(9, 2, 3, 21):
        blocks = np.concatenate([phi, phi[::-1], phi * rng.uniform(0.3, 1.0)])
        if not twin.forced_phase():
            compare_bounds(one, twin, blocks, SHARP)
        teach(one, blocks, arm, outputs, truth)
        teach(twin, blocks, arm, outputs, truth)


def on_the_axes(one, twin, length):
    """The end of the forced phase where the least eigenvalue is plain to see, and ties at a context of zeros."""
    for t in range(36):
        phi = length * np.eye(2)[t % 2]
        assert one.select(phi, None) == twin.select(phi, None), t
        outputs = np.array([0, t % 3 == 0], dtype=int)
        teach(one, phi, 1, outputs, 0)
        teach(twin, phi, 1, outputs, 0)
    assert one.select(np.zeros(2), None) == twin.select(np.zeros(2), None)


def battery(name, fast):
    """Every option on short common streams, fitted every time and not, and hand-made cases."""
    tie = 0.0 if name == "Supervised" else 0.5
    for number, options in enumerate(OPTIONS[name]):
        tied = Tied(fast, TWINS[name], **options)
        one, twin = tied.make([0.1, 0.4, 0.9], 3, tolerance=EVERY_TIME)
        compare_on_stream(one, twin, number, 2, 21, SHARP)
        one, twin = tied.make([0.0, 0.5], 2)
        compare_on_stream(one, twin, number + 10, 1, 70, 2 * SLACK)
        for length, cost in itertools.product((0.4, 0.71, 1.001), (5.0, tie)):
            one, twin = tied.make([0.0, cost], 2)
            on_the_axes(one, twin, length)
        if name != "Supervised":
            tied = Tied(fast, TWINS[name], per_pair=True, **options)
            per_pair_stream(*tied.make([0.1, 0.4, 0.9], 9, tolerance=EVERY_TIME))


@pytest.mark.parametrize("fast", [UssPd, UssPdRidge, Supervised])
def test_the_battery_finds_nothing_wrong_with_the_real_ones(fast):
    battery(fast.__name__, fast)


CHAINS = {
    "UssPd": (linalg, history, glm, disagreement, uss_pd),
    "UssPdRidge": (linalg, history, glm, disagreement, uss_pd_ridge),
    "Supervised": (linalg, history, glm, supervised),
}


def test_a_policy_made_again_unchanged_passes():
    again = made_again(CHAINS["UssPd"], "UssPd", uss_pd, "confidence(self.t +", "confidence(self.t +")
    assert again is not UssPd
    battery("UssPd", again)


MUTANTS = [
    ("UssPd", uss_pd, "self.t >= self.forced or", "self.t > self.forced or"),
    ("UssPd", uss_pd, "self.covers(1.0)", "self.covers(0.0)"),
    ("UssPd", uss_pd, "self.adaptive and self.covers(1.0)", "self.covers(1.0)"),
    ("UssPd", uss_pd, "self.adaptive and self.covers(1.0)", "False"),
    ("UssPd", uss_pd, "confidence(self.t +", "confidence(self.t + 1 +"),
    ("UssPd", uss_pd, "self.gone, self.d,", "self.gone, self.dimension,"),
    ("UssPd", disagreement, "<= p:", "< p:"),
    ("UssPd", disagreement, "return self.K - 1  # line 2", "return 0  # line 2"),
    ("UssPd", disagreement, "self.stop[m] <= arm and differ", "self.stop[m] < arm and differ"),
    ("UssPd", disagreement, "for j in range(i + 1, self.K):", "for j in range(i + 1, min(i + 2, self.K)):"),
    ("UssPd", disagreement, "for i in range(self.K - 1):", "for i in range(1, self.K - 1):"),
    ("UssPd", disagreement, "* widths[s])", "* widths[s] * widths[s])"),
    ("UssPd", disagreement, "copy_block(phi, self.begins[s], x)", "copy_block(phi, 0, x)"),
    ("UssPd", disagreement, "self.label[s, m] = 1", "self.label[s, m] = 1 - self.label[s, m - 1]"),
    ("UssPd", glm, "if self.reach[k] <= arm:", "if self.reach[k] < arm:"),
    ("UssPd", glm, "z[r] = label[rows[r], m] - p", "z[r] = label[rows[r], 0] - p"),
    (
        "UssPd",
        history,
        "if arms[s] >= stop:\n                rows",
        "if arms[s] > stop:\n                rows",
    ),
    ("UssPd", history, "rows[n] = s", "rows[n] = s - 1"),
    ("UssPd", glm, "w[r] = p * (1.0 - p)", "w[r] = p"),
    ("UssPd", glm, "level + self.ridge", "level"),
    ("UssPd", glm, "= -self.ridge * theta[i]", "= 0.0"),
    ("UssPd", glm, "2.0 * t / d)", "t / d)"),
    ("UssPd", glm, "math.log(K * K / (2.0 * delta))", "math.log(K * K / delta)"),
    ("UssPd", glm, "0.5 * d * math.log", "d * math.log"),
    ("UssPd", glm, "2.0 * sigma / kappa", "sigma / kappa"),
    ("UssPdRidge", uss_pd_ridge, "return True", "return self.t > 1"),
    ("UssPdRidge", uss_pd_ridge, 'bonus == "beta"', 'bonus == "alpha"'),
    ("UssPdRidge", uss_pd_ridge, "(2.0 * self.ridge)", "self.ridge"),
    ("UssPdRidge", uss_pd_ridge, "effective = self.n[m]", "effective = self.t"),
    ("UssPdRidge", uss_pd_ridge, "alpha + 2.0 * math.sqrt", "alpha + math.sqrt"),
    ("UssPdRidge", uss_pd_ridge, "math.sqrt(self.ridge)", "self.ridge"),
    ("UssPdRidge", uss_pd_ridge, "* self.norm_bound", "+ self.norm_bound"),
    ("UssPdRidge", uss_pd_ridge, "return confidence(self.t +", "return confidence(self.n[m] +"),
    ("UssPdRidge", glm, "self.V[:, k, k] = ridge", "self.V[:, k, k] = 1e-3"),
    ("UssPdRidge", glm, "= -self.ridge * theta[i]", "= -1e-3 * theta[i]"),
    ("UssPdRidge", glm, "H[i, i] = self.ridge", "H[i, i] = 50.0"),
    ("UssPdRidge", linalg, "-w / (1.0 + w * inner(x, v))", "-w / (2.0 + w * inner(x, v))"),
    ("Supervised", supervised, "<= high[i] - low[j]", "< high[i] - low[j]"),
    ("Supervised", supervised, "high[i] - low[j]", "high[i] - high[j]"),
    ("Supervised", supervised, "high[i] - low[j]", "low[i] - high[j]"),
    ("Supervised", supervised, "outputs[i] != truth", "outputs[i] == truth"),
    ("Supervised", supervised, "for i in range(arm + 1):", "for i in range(arm):"),
    ("Supervised", supervised, "self.t >= self.forced or", "self.t > self.forced or"),
    ("Supervised", supervised, "self.covers(1.0)", "self.covers(2.0)"),
    ("Supervised", supervised, "self.slot[i]", "self.slot[self.K - 1]"),
    ("Supervised", supervised, "confidence(self.t +", "confidence(self.t + 1 +"),
    ("Supervised", supervised, "for i in range(self.K - 1):", "for i in range(1, self.K - 1):"),
    ("Supervised", supervised, "return self.K - 1\n        low", "return 0\n        low"),
]


@pytest.mark.parametrize(("name", "module", "old", "new"), MUTANTS, ids=[f"{m[0]}: {m[3]}" for m in MUTANTS])
def test_mutants_of_policies_are_caught(name, module, old, new):
    mutant = made_again(CHAINS[name], name, module, old, new)
    assert not survives(lambda: battery(name, mutant))


def baseline_battery(module):
    """Fixed arms of any number, and draws of random arms."""
    costs = [0.1, 0.2, 0.3, 0.4]
    for arm in range(4):
        one, other = module.FixedArm(costs, arm), np.random.default_rng(3)
        assert [one.select(None, other) for _ in range(5)] == [arm] * 5
        assert other.random() == np.random.default_rng(3).random()
    one, twin = module.RandomArm(costs), slow.SlowRandomArm(costs)
    mine, theirs = np.random.default_rng(4), np.random.default_rng(4)
    for _ in range(60):
        assert one.select(None, mine) == twin.select(None, theirs)
        one.update(None, 3, np.array([1, 0, 1, 1]), mine)
        assert mine.bit_generator.state == theirs.bit_generator.state


def test_baselines_pass_their_battery():
    baseline_battery(baselines)
    assert (baselines.FixedArm, baselines.RandomArm) == (FixedArm, RandomArm)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return self.arm", "return 0"),
        ("return self.arm", "return self.K - 1"),
        ("return self.arm", "return self.K - 1 - self.arm"),
        ("return self.arm", "return min(self.arm + int(rng.random()), self.arm)"),
        ('self.arm = integer("arm", arm, 0, self.K - 1)', "self.arm = min(arm, 2)"),
        ("int(self.K * rng.random())", "int((self.K - 1) * rng.random())"),
        ("int(self.K * rng.random())", "int(self.K * (1.0 - rng.random()))"),
        ("int(self.K * rng.random())", "round((self.K - 1) * rng.random())"),
        ("int(self.K * rng.random())", "int(rng.integers(self.K))"),
        ("int(self.K * rng.random())", "int(self.K * max(rng.random(), rng.random()))"),
    ],
)
def test_mutants_of_baselines_are_caught(old, new):
    mutant = mutate(baselines, old, new, inspect.getsource(baselines).count(old))
    assert not survives(lambda: baseline_battery(mutant))


class Witness:
    """Plays at random and notes everything it is shown."""

    def __init__(self, arms, sees_truth):
        self.K, self.sees_truth, self.seen = arms, sees_truth, []

    def select(self, phi, rng):
        self.seen.append(phi.tolist())
        return int(self.K * rng.random())

    def update(self, phi, arm, outputs, rng, truth=None):
        self.seen.append((phi.tolist(), arm, outputs.tolist(), truth))

    def update_pairs(self, phi, arm, differ, rng):
        shown = [bool(differ[i, j]) for i in range(arm + 1) for j in range(i + 1, arm + 1)]
        self.seen.append((phi.tolist(), arm, shown))


def runs_as_the_twin(loops, hidden):
    """The three loops and both worlds, interpreted, against the slow ones: all that is shown, and the regret."""
    for seed, kind in (
        (0, "play"),
        (1, "play"),
        (0, "play_with_truth"),
        (1, "play_with_truth"),
        (2, "play_pairs"),
    ):
        if kind == "play_pairs":
            problem, reference = random_realizable(seed)
            side = hidden.RealizableWorld(problem.features, problem.disagreement, problem._regrets)
        else:
            problem, reference = random_problem(seed)
            shown = (problem.features, problem._chance, problem._truth)
            side = hidden.ContextualWorld(
                *shown, problem._regrets, problem._losses, problem.labels == "random"
            )
        width = problem.arms + (1 if kind == "play_pairs" else 2)
        counts, table = np.zeros(width, dtype=np.int64), np.zeros((250, width), dtype=np.int64)
        witness, twin = (Witness(problem.arms, kind == "play_with_truth") for _ in range(2))
        rngs = worlds.stream(seed, 0, 0), worlds.stream(seed, 0, 1)
        assert getattr(loops, kind)(witness, side, *rngs, np.arange(1, 251), counts, table) == 0
        played, regret = worlds.slow_run(twin, reference, problem.features.tolist(), seed, 0, 250)
        assert witness.seen == twin.seen
        found = problem.measures(table)
        assert found["regret"] == pytest.approx(regret, abs=1e-6)
        for arm in range(problem.arms):
            assert found[f"pulls_{arm}"][-1] == played.count(arm)
        rows, draws = worlds.SlowRows(len(problem.contexts)), worlds.stream(seed, 0, 0)
        rows.start(draws)
        per_round = problem.arms * (problem.arms - 1) // 2
        if kind != "play_pairs":
            per_round = problem.arms if problem.labels == "random" else 0
            paid = [reference.totals_at(rows.row(t))[arm] for t, arm in enumerate(played, start=1)]
            assert found["total_cost"] == pytest.approx(np.cumsum(paid), abs=1e-6)
        draws.random(250 * per_round)
        assert rngs[0].random() == draws.random()


def test_the_loops_and_the_worlds_run_as_the_twin():
    runs_as_the_twin(play, world)


test_mutants_of_the_loops_and_the_worlds_are_caught = caught_in_a_loop(
    runs_as_the_twin,
    play,
    world,
    (world, "range(self.order.size - 1, 0, -1)", "range(self.order.size - 1, 1, -1)", 1),
    (world, "j = int((k + 1) * rng.random())", "j = int(k * rng.random())", 1),
    (world, "            self.served = 0", "            self.served = 1", 1),
    (world, "rng.random() < self.chance[row, i] else", "rng.random() > self.chance[row, i] else", 1),
    (world, "outputs[i] = 1 if self.chance[row, i] > 0.5", "outputs[i] = 1 if rng.random() < 0.5", 1),
    (world, "            if self.drawn:", "            if True:", 1),
    (world, "for j in range(i + 1, differ", "for j in range(i, differ", 1),
    (world, "rng.random() < self.chance[row, i, j]", "rng.random() < self.chance[row, i, i]", 1),
    (world, "return self.losses[row, arm]", "return self.losses[row, 0]", 1),
    (world, "return self.truths[row]", "return 1 - self.truths[row]", 1),
    (play, "seen[: arm + 1]", "seen[:arm]", 2),
    (play, "if k <= arm else HIDDEN", "if k < arm else HIDDEN", 2),
    (play, "seen[i, j] = differ[i, j] and j <= arm", "seen[i, j] = differ[i, j] and j < arm", 1),
    (play, "range(played + 1, marks[-1] + 1)", "range(played + 1, marks[-1])", 3),
    (play, "counts[K] += world.regret(row, arm)", "counts[K] += world.regret(row, 0)", 3),
    (play, "truth=world.truth(row)", "truth=world.truth(0)", 1),
)
