"""Errors put into the policies, the loop, the world and the problem on purpose: twins and small cases notice each."""

import numpy as np
import pytest
from tests.adaptive.following import follow, random_problem, random_table
from tests.reference.adaptive import SlowNext, SlowUssA
from tests.rig.mutants import made_again, mutate, survives

from weakfeedback.adaptive import AdaptiveProblem, judges, memory, play, rules, world
from weakfeedback.adaptive.policies import agreement, fixed_arm, thresholds, uss_a, uss_next

CASES = [
    (2, 2, {}),
    (3, 3, {"judge": "score", "scale": 0.8, "settle": 30, "memory": 50}),
    (4, 3, {"ridge": 0.3}),
]


def battery_a(cls):
    """All judges, two to four stages, rounds beyond the memory; what takes little time comes first."""
    calibrated = [calibrated_pair(cls, labels) for labels in (2, 4)]
    for seed, (stages, labels, options) in enumerate(CASES):
        problem = random_problem(seed + 40, stages, labels, with_chances=seed == 0)
        follow(cls(problem.costs, **options), SlowUssA(problem.costs, **options), problem, seed, 90)
    problem = random_problem(50, 3, 4, with_chances=True)
    follow(cls(problem.costs, "score"), SlowUssA(problem.costs, "score"), problem, 3, 50)
    for fast, twin, problem in calibrated:
        follow(fast, twin, problem, 4, 70)


def calibrated_pair(cls, labels):
    """A policy and its twin, both calibrated, and a problem for them."""
    problem, options = random_problem(60 + labels, 3, labels), {"judge": "calibrated"}
    truth, outputs, scores, _ = random_table(70, 3, labels, rows=30)
    outputs[:3] = (truth[:3, None] + 1) % labels  # all stages agree and are wrong
    fast, twin = cls(problem.costs, **options), SlowUssA(problem.costs, **options)
    fast.calibrate(outputs, scores, truth)
    twin.calibrate(outputs, scores, truth)
    assert fast.weights == pytest.approx(twin.weights, abs=1e-4)
    assert fast.eta == twin.eta
    fast.weights = twin.weights
    return fast, twin, problem


def battery_next(cls):
    """Two and four stages."""
    for stages in (2, 4):
        problem = random_problem(80 + stages, stages)
        follow(cls(problem.costs, memory=50), SlowNext(problem.costs, memory=50), problem, 1, 90)


CHAINS = {"UssA": (memory, judges, uss_a), "UssNext": (memory, uss_next)}
BATTERIES = {"UssA": battery_a, "UssNext": battery_next}


@pytest.mark.parametrize("name", CHAINS)
def test_policies_made_again_unchanged_pass(name):
    module = CHAINS[name][-1]
    BATTERIES[name](made_again(CHAINS[name], name, module, f"class {name}(", f"class {name}("))


MUTANTS = [
    ("UssA", memory, "2.0 * same / k - 1.0", "2.0 * same / (k + 1) - 1.0"),
    ("UssA", memory, "now * now - 0.33", "now * now"),
    ("UssA", memory, "before if outputs[k] == outputs[k - 1] else -before", "before"),
    ("UssA", memory, "(below + upto) / n - 1.0", "2.0 * below / n - 1.0"),
    ("UssA", memory, "FEWEST = 8", "FEWEST = 9"),
    ("UssA", memory, "GROWTH = 1.25", "GROWTH = 1.5"),
    ("UssA", memory, "self.t + FIRST_FIT,", "self.t + 1,"),
    ("UssA", memory, "FIRST_FIT = 16", "FIRST_FIT = 17"),
    ("UssA", memory, "if self.t < self.next_fit:", "if self.t <= self.next_fit:"),
    ("UssA", memory, "r = self.t % self.memory", "r = min(self.t, self.memory - 1)"),
    (
        "UssA",
        memory,
        "            if k < arm:\n                self.n",
        "            if k <= arm:\n                self.n",
    ),
    ("UssA", memory, "if self.ranked[k] != self.filled[k]:", "if False:"),
    ("UssA", memory, "-ridge * (theta[i] - mean[i])", "-ridge * theta[i]"),
    ("UssA", memory, "(y - p) / c * v[k]", "(y - p) * v[k]"),
    ("UssA", memory, "-w / c, v)", "-w, v)"),
    ("UssA", uss_a, "gain -= draw", "gain += draw"),
    ("UssA", uss_a, "if k < self.K - 2:\n            gain", "if k < self.K - 1:\n            gain"),
    ("UssA", uss_a, "> self.c[k + 1])", "> self.c[k])"),
    ("UssA", uss_a, "SURE = -2.0", "SURE = -1.0"),
    ("UssA", uss_a, "(self.settle + self.n[k]))", "(self.settle + self.t))"),
    ("UssA", uss_a, "self.belief[:, 1] = 1.0", "self.belief[:, 1] = 0.0"),
    ("UssA", uss_a, "        mean[1] = 1.0", "        mean[1] = 0.0"),
    ("UssA", uss_a, "if self.is_first(r, j):", "if True:"),
    ("UssA", uss_a, "x[3] = 0.0 if same else u", "x[3] = u if same else 0.0"),
    ("UssA", uss_a, "2.0 * share / k - 1.0", "2.0 * share / (k + 1) - 1.0"),
    ("UssA", uss_a, "return self.chances[r, j]\n", "return 1.0 - self.score[r, last]\n"),
    ("UssA", uss_a, "/ (self.classes() - 1)", "/ self.classes()"),
    ("UssA", uss_a, "* self.eta / (last - agree)", "* self.eta / last"),
    ("UssA", uss_a, "if self.classes() == 2:", "if False:"),
    ("UssA", uss_a, "half = 0.5 * math.log", "half = math.log"),
    ("UssA", uss_a, "hope(g, 0.5 * math.sqrt", "hope(g, math.sqrt"),
    ("UssA", uss_a, "return onward - self.c[k + 1] if g > 0.0", "return onward if g > 0.0"),
    ("UssA", uss_a, "if g > 0.0 else worth", "if onward > worth else worth"),
    ("UssA", uss_a, "            g -= p\n", ""),
    ("UssA", uss_a, "max(self.distinct, 2)", "max(self.distinct, 3)"),
    (
        "UssA",
        uss_a,
        "            if k > 0:\n                for r",
        "            if k > 1:\n                for r",
    ),
    ("UssA", uss_a, "self.arms[r, 0] >= k:", "self.arms[r, 0] > k:"),
    ("UssA", judges, "RIDGE = 0.3", "RIDGE = 0.1"),
    ("UssA", judges, "(1.0 + np.count_nonzero(saved))", "np.count_nonzero(saved)"),
    ("UssA", judges, "~right & (agree < 1.0)", "~right"),
    ("UssNext", uss_next, "!= self.answers[r, k] else", "!= self.answers[r, 0] else"),
    ("UssNext", uss_next, "if self.arms[r, 0] > k:", "if self.arms[r, 0] >= k + 2:"),
    ("UssNext", uss_next, "> self.c[k + 1])", ">= self.c[k])"),
    ("UssNext", uss_next, "self.scale, v, rng", "2.0 * self.scale, v, rng"),
    ("UssNext", uss_next, "for k in range(arm):", "for k in range(min(arm, 1)):"),
]


@pytest.mark.parametrize(("name", "module", "old", "new"), MUTANTS, ids=[f"{m[0]}: {m[3]}" for m in MUTANTS])
def test_mutants_of_learners_are_caught(name, module, old, new):
    mutant = made_again(CHAINS[name], name, module, old, new)
    assert not survives(lambda: BATTERIES[name](mutant))


def battery_small(**changed):
    """Rules without learning, the loop and the world, thresholds and the best rule, by hand."""
    parts = {
        "agreement": agreement,
        "thresholds": thresholds,
        "fixed_arm": fixed_arm,
        "play": play,
        "world": world,
        "rules": rules,
    }
    parts.update(changed)
    one = parts["agreement"].Agreement([0.1] * 4)
    said = [1, 2, 1, 3]
    assert [one.go_on(k, said[: k + 1], None, None) for k in range(3)] == [True, True, False]
    one = parts["thresholds"].Thresholds([0.1] * 4, [0.5, -np.inf, np.inf])
    assert [one.go_on(0, None, [s], None) for s in (0.4, 0.5, 0.6, np.nan)] == [True, False, False, True]
    assert [one.go_on(1, None, [0, s], None) for s in (-9.0, np.nan)] == [False, False]
    assert one.go_on(2, None, [0, 0, 1e9], None) is True
    for arm in range(3):
        one = parts["fixed_arm"].FixedArm([0.1] * 3, arm)
        assert [one.go_on(k, None, None, None) for k in range(2)] == [arm > 0, arm > 1]
    plays_as_told(parts["play"].play, parts["world"].RecordedWorld)
    thresholds_are_best(parts["rules"])


class Witness:
    """Stops at random and notes everything it is shown."""

    def __init__(self):
        self.seen = []

    def go_on(self, k, outputs, scores, rng):
        self.seen.append((k, outputs.tolist(), scores.tolist()))
        return rng.random() < 0.6

    def update(self, arm, outputs, scores, chances, rng):
        self.seen.append((arm, outputs.tolist(), scores.tolist(), chances.tolist()))


def plays_as_told(loop, kind):
    """The loop shows what was run and nothing else, and counts stops and errors."""
    truth, outputs, scores, chances = random_table(1, 3, 3, 30)
    problem = AdaptiveProblem(truth, outputs, scores, [0.1, 0.2, 0.3], chances)
    hidden = kind(problem._outputs, problem._scores, problem._wrong, problem._chances, problem._groups)
    witness, counts, table = Witness(), np.zeros(5, dtype=np.int64), np.zeros((2, 5), dtype=np.int64)
    rngs = np.random.default_rng(1), np.random.default_rng(2)
    assert loop(witness, hidden, *rngs, np.array([20, 50]), counts, table) == 0
    rows = np.random.default_rng(1)
    mine = np.random.default_rng(2)
    seen = []
    stops = [0] * 3
    wrong = 0
    unlike = 0
    for t in range(50):
        r, arm = int(30 * rows.random()), 0
        while True:
            shown = outputs[r, : arm + 1].tolist(), scores[r, : arm + 1].tolist()
            if arm == 2:
                break
            seen.append((arm, *shown))
            if not mine.random() < 0.6:
                break
            arm += 1
        seen.append((arm, *shown, [chances[r, y] for y in outputs[r]] if arm == 2 else []))
        stops[arm] += 1
        wrong += outputs[r, arm] != truth[r]
        unlike += outputs[r, arm] != outputs[r, 2]
        if t in (19, 49):
            assert table[t // 20 - (t > 20)].tolist() == [*stops, wrong, unlike]
    assert witness.seen == seen
    found = problem.measures(table)
    paid = np.array([0.1, 0.3, 0.6]) @ np.array(stops) + wrong
    assert found["total_cost"][1] == pytest.approx(paid)
    assert found["regret"][1] == pytest.approx(paid - 50 * problem.fixed_costs.min())
    assert [found[f"stops_{k}"][1] for k in range(3)] == stops


def thresholds_are_best(found):
    """Two stages against all thresholds; three against a rule of every kind."""
    for seed in range(6):
        truth, outputs, scores, _ = random_table(seed, 2, 3, 25)
        wrong, costs = (outputs != truth[:, None]).astype(np.int64), np.array([0.05, 0.2])
        best = found.best_thresholds(wrong, scores, costs)
        paid = wrong + np.cumsum(costs)
        trials = [-np.inf, *np.unique(scores[:, 0]), np.inf]
        costs_of = [np.where(scores[:, 0] < x, paid[:, 1], paid[:, 0]).mean() for x in trials]
        mine = paid[np.arange(25), found.threshold_stops(scores, best)].mean()
        assert mine == pytest.approx(min(costs_of))
        assert found.best_rule(outputs, scores, wrong, costs).cost <= mine + 1e-12
    truth, outputs, scores, _ = random_table(7, 2, 2, 400)
    scores, costs = np.round(2.0 * scores), np.array([0.05, 0.2])
    wrong = (outputs != truth[:, None]).astype(np.int64)
    paid, value = wrong + np.cumsum(costs), found.best_rule(outputs, scores, wrong, costs)
    groups = [(outputs[:, 0] == y) & (scores[:, 0] == x) for y in (0, 1) for x in (0, 1, 2)]
    assert value.cost == pytest.approx(sum(paid[group].sum(axis=0).min() for group in groups) / 400)
    assert value.cost == pytest.approx(paid[np.arange(400), value.stops].mean())
    assert value.states >= len(groups)
    wrong, scores = np.array([[1, 0], [1, 0], [0, 0]]), np.array([[0.1, 1.0], [0.2, 1.0], [0.9, 1.0]])
    assert found.best_thresholds(wrong, scores, np.array([0.1, 0.1])).tolist() == [0.9]


def test_small_parts_pass_their_battery():
    battery_small()


@pytest.mark.parametrize(
    ("part", "module", "old", "new"),
    [
        ("agreement", agreement, "outputs[j] == outputs[k]", "outputs[j] == outputs[0]"),
        ("agreement", agreement, "for j in range(k):", "for j in range(k - 1, k):"),
        ("thresholds", thresholds, "scores[k] < self.thresholds[k]", "scores[k] <= self.thresholds[k]"),
        ("thresholds", thresholds, "self.thresholds[k] > -math.inf", "True"),
        ("fixed_arm", fixed_arm, "k < self.arm", "k <= self.arm"),
        ("play", play, "world.show(row, arm, outputs, scores)\n        believed", "believed"),
        ("play", play, "scores[: arm + 1], chances[:believed]", "scores[: arm + 1], chances"),
        ("play", play, "counts[K] += world.errs(row, arm)", "counts[K] += world.errs(row, K - 1)"),
        (
            "play",
            play,
            "world.differs(row, arm, K - 1)\n        if",
            "world.differs(row, 0, K - 1)\n        if",
        ),
        ("world", world, "self.scores[row, stage]\n\n", "self.scores[row, 0]\n\n"),
        ("world", world, "int(self.outputs.shape[0] * rng", "int((self.outputs.shape[0] - 1) * rng"),
        ("world", world, "if arm < self.outputs.shape[1] - 1 or", "if"),
        ("rules", rules, "return np.inf if m == level.size", "return np.inf if m >= level.size - 1"),
        (
            "rules",
            rules,
            "going = np.bincount(states[k], value + costs[k + 1])",
            "going = np.bincount(states[k], value)",
        ),
    ],
)
def test_mutants_of_small_parts_are_caught(part, module, old, new):
    mutant = mutate(module, old, new)
    assert not survives(lambda: battery_small(**{part: mutant}))
