"""Promise against its slow twin, decision by decision, and errors put into it on purpose."""

import numpy as np
import pytest
from tests.reference.promise import SlowPromise
from tests.rig.mutants import made_again, survives

from weakfeedback.adaptive import AdaptiveProblem, Promise, memory
from weakfeedback.adaptive.policies import promise


def table(seed, stages=3, labels=4, rows=400, groups=0, scored=True, costs=None):
    """A problem whose cheap stages differ from the last one where their score is low, more so for some labels."""
    rng = np.random.default_rng(seed)
    last = rng.integers(0, labels, size=rows)
    hard = rng.random(rows)
    outputs, scores = np.tile(last[:, None], stages), np.zeros((rows, stages))
    for k in range(stages - 1):
        differs = rng.random(rows) < np.clip(1.4 * hard - 0.75 + 0.2 * (last == 0) - 0.1 * k, 0.02, 1.0)
        outputs[:, k] = np.where(differs, (last + 1) % labels, last)
        scores[:, k] = np.round(1.0 - hard + 0.1 * rng.standard_normal(rows), 3)
    if scored == "some":
        scores[rng.random(scores.shape) < 0.2] = np.nan
    kinds = rng.integers(0, groups, size=rows) if groups else None
    if groups:
        differs = rng.random(rows) < 0.15 * kinds
        outputs[:, 0] = np.where(differs, (last + 1) % labels, outputs[:, 0])
    costs = costs or ([1.0, 4.0, 20.0, 40.0][:stages] if stages > 2 else [1.0, 20.0])
    return AdaptiveProblem(last, outputs, scores if scored else None, costs, groups=kinds)


def follow(fast, twin, problem, seed, rounds, delay=0, lose=0.0, priced=False):
    """Play both on the same rows with equal draws: the same stages, coins, tokens and bounds."""
    world, rows, chaos = problem.world(), np.random.default_rng(seed), np.random.default_rng(seed + 9)
    mine, theirs = np.random.default_rng(seed + 1), np.random.default_rng(seed + 1)
    waiting, K = [], problem.arms
    for t in range(rounds):
        row = world.draw(rows)
        group = int(world.group(row))
        seen, sure, arm, first, chance, lost = np.full(K, -1), np.full(K, np.nan), -1, -1, 1.0, False
        if priced:  # not all models grow dearer alike
            own = np.array(problem.costs) * chaos.choice([0.3, 0.8, 2.0]) * chaos.choice([1.0, 1.5, 30.0], K)
            fast.price(own)
            twin.price(own)
        while True:
            for one, rng in ((fast, mine), (twin, theirs)):
                one.turn_to(group, first, chance)
                stage = one.next_stage(arm, seen, sure, rng)
                if one is fast:
                    wanted = stage
            assert stage == wanted, (t, arm)
            assert fast.first == twin.first
            assert fast.chance == pytest.approx(twin.chance, abs=1e-9), t
            first, chance = int(twin.first), float(fast.chance)
            twin.chance = chance
            if stage < 0:
                break
            if stage == fast.R and 0.0 < chance < 1.0 and chaos.random() < lose:
                lost = True
                break
            seen[stage], sure[stage], arm = world.outputs[row, stage], world.scores[row, stage], stage
        if priced:
            fast.return_to(np.array(problem.costs))
            twin.return_to(problem.costs)
        scale = own[fast.R] / problem.costs[fast.R] if priced else 1.0
        waiting.append((group, first, chance, arm, seen, sure, lost, scale))
        if len(waiting) > delay:
            group, first, chance, arm, seen, sure, lost, scale = waiting.pop(0)
            for one, rng in ((fast, mine), (twin, theirs)):
                one.turn_to(group, first, chance)
                one.scale_by(scale)
                one.lost() if lost else one.update(arm, seen, sure, np.zeros(0), rng)
            fast.scale_by(1.0)
            twin.scale_by(1.0)
        if t % 25 == 24:
            same_state(fast, twin)
    assert mine.bit_generator.state == theirs.bit_generator.state
    same_state(fast, twin)


def same_state(fast, twin):
    """Money, tokens, estimates, bounds."""
    assert fast.spent == pytest.approx(twin.spent)
    assert fast.allowed == pytest.approx(twin.allowed)
    for name in ("answer", "differ", "spend"):
        assert getattr(fast, f"would_{name}") == pytest.approx(twin.would[name], abs=1e-7)
    for key, bucket in twin.buckets.items():
        b = 0 if not twin.each else 63 if key == "other" else twin.order.index(key)
        close = {"rel": 1e-7, "abs": 1e-7}
        assert fast.tokens[b] == pytest.approx(bucket.tokens, **close)
        assert fast.estimate[b] == pytest.approx(bucket.Lhat, **close)
        assert fast.V[b] == pytest.approx(bucket.V, **close)
        assert fast.blind[b] == bucket.blind
        assert fast.open[b] == len(bucket.under_way)
        assert fast.at_most(b) == pytest.approx(twin.U(bucket), **close)


CASES = {
    "agree": ({"seed": 0}, {}, {}),
    "two stages": ({"seed": 1, "stages": 2}, {"agree": 0.9}, {}),
    "four stages, reference in the middle": ({"seed": 2, "stages": 4}, {"agree": 0.9, "reference": 2}, {}),
    "no scores, groups": ({"seed": 3, "groups": 5, "scored": False}, {"agree": 0.9}, {}),
    "before the call": ({"seed": 4, "groups": 4}, {"agree": 0.9, "before": True}, {}),
    "each group": ({"seed": 5, "stages": 2, "groups": 3}, {"agree": 0.9, "groups": "each"}, {}),
    "sure": ({"seed": 6, "stages": 2}, {"agree": 0.9, "sure": True}, {"delay": 5}),
    "dear models": ({"seed": 18, "costs": [15.0, 18.0, 20.0]}, {"agree": 0.8}, {}),
    "error cost": ({"seed": 7}, {"error_cost": 100.0}, {}),
    "both": ({"seed": 8}, {"agree": 0.9, "error_cost": 150.0}, {}),
    "budget": ({"seed": 9}, {"budget": 9.0}, {}),
    "small budget": ({"seed": 10, "stages": 2}, {"budget": 1.5}, {}),
    "scores missing": ({"seed": 11, "scored": "some"}, {"agree": 0.9, "memory": 80}, {}),
    "many labels": ({"seed": 12, "labels": 30}, {"agree": 0.9}, {}),
    "late and lost": ({"seed": 13, "stages": 2}, {"agree": 0.9}, {"delay": 7, "lose": 0.3}),
    "background": ({"seed": 14, "stages": 2}, {"agree": 0.8, "background": True}, {"delay": 3}),
    "shadow": ({"seed": 15}, {"agree": 0.9, "shadow": True}, {}),
    "few expected": ({"seed": 16}, {"agree": 0.9, "expected": 300}, {}),
    "own prices": ({"seed": 19, "groups": 3}, {"agree": 0.9, "before": True}, {"priced": True}),
    "own prices, one model": ({"seed": 20, "stages": 2}, {"agree": 0.9, "before": True}, {"priced": True}),
    "own prices, error cost": (
        {"seed": 21, "groups": 3},
        {"agree": 0.8, "error_cost": 90.0, "before": True},
        {"priced": True, "delay": 4},
    ),
    "own prices, budget": ({"seed": 22}, {"budget": 12.0, "before": True}, {"priced": True}),
    "small bucket": ({"seed": 17, "stages": 2}, {"agree": 0.9, "bucket": 3.0}, {}),
}


@pytest.mark.filterwarnings("ignore:never called")
@pytest.mark.parametrize("name", CASES)
def test_promise_decides_as_the_twin(name):
    made, options, how = CASES[name]
    problem = table(**made)
    fast, twin = Promise(problem.costs, **options), SlowPromise(problem.costs, **options)
    follow(fast, twin, problem, 3, 300, **how)
    if name not in ("few expected", "sure", "dear models"):
        assert (fast.model >= 0).any()


def battery(cls):
    """What takes little time comes first."""
    for name in (
        "late and lost",
        "each group",
        "scores missing",
        "background",
        "small budget",
        "both",
        "before the call",
        "own prices",
    ):
        made, options, how = CASES[name]
        problem = table(**made)
        follow(cls(problem.costs, **options), SlowPromise(problem.costs, **options), problem, 3, 260, **how)
    for name in (
        "sure",
        "dear models",
        "no scores, groups",
        "budget",
        "shadow",
        "few expected",
        "small bucket",
        "many labels",
        "own prices, one model",
        "own prices, error cost",
    ):
        made, options, how = CASES[name]
        problem = table(**made)
        follow(cls(problem.costs, **options), SlowPromise(problem.costs, **options), problem, 5, 420, **how)


MUTANTS = [
    ("(1.0 - pi) / pi\n\n", "1.0 / pi\n\n"),
    ("1.0 / left if self.background else 1.0 / (1.0 + left)", "1.0 / (2.0 + left)"),
    ("self.tokens[b] -= w * D", "self.tokens[b] -= D"),
    ("self.V[b] += w * D * D / pi", "self.V[b] += w * D * D"),
    ("self.A[b, j] += self.toll(j, pi) * D", "self.A[b, j] += self.toll(j, pi)"),
    ("return self.tokens[b] - self.held[b]", "return self.tokens[b]"),
    (" - self.held_a[b, j] - self.toll(j, pi)", " - self.toll(j, pi)"),
    ("self.settle(self.bucket_of(self.group), 1.0)", "self.settle(self.bucket_of(self.group), 0.0)"),
    ("min(self.tokens[b] + self.eps, self.size_of_bucket())", "self.tokens[b] + self.eps"),
    ("self.spent + self.c[m] + self.c[self.R] <= self.allowed", "self.spent <= self.allowed"),
    ("self.spent + self.c[j] + self.c[self.R] > self.allowed", "self.spent > 2.0 * self.allowed"),
    ("Z = 2.0", "Z = 1.0"),
    ("CENTRE = -2.0", "CENTRE = -1.0"),
    ("RIDGE_MORE = 1.2", "RIDGE_MORE = 0.3"),
    ("EXPLORE = 0.1", "EXPLORE = 0.2"),
    ("FIRST = 50  #", "FIRST = 51  #"),
    ("u * u - 0.33\n                n = 3", "u * u\n                n = 3"),
    ("z += theta[3]", "z += 0.0"),
    ("target / d\n", "1.0\n"),
    ("max(0.25, 5.0 * self.eps)", "1.0"),
    ("self.share[b] = (found - below)", "self.share[b] = 1.0  #"),
    ("spare = self.earned[b] - self.at_most(b)", "spare = self.earned[b] - self.estimate[b]"),
    ("math.sqrt(r / self.mean_risk[b])", "(r / self.mean_risk[b])"),
    ("slot == LABELS and self.label_count < LABELS", "slot == LABELS and self.label_count < 3"),
    ("min(self.slot_of_group(group), BUCKETS - 1) if self.each else 0", "0"),
    ("+ 10 + math.ceil(0.05 * self.t)", "+ math.ceil(0.05 * self.t)"),
    ("self.blind[b] += 1\n            return False", "return False"),
    ("(1.0 - self.chance) * D, 0.0)", "D, 0.0)"),
    ("return requests / np.maximum(called, 1.0)", "return np.ones(BUCKETS)"),
    ("self.asked_scale[(self.t - 1) % self.memory] = self.scale", "pass"),
    ("self.is_inside(b, r / self.scale, rng)", "self.is_inside(b, r, rng)"),
    (" and r <= self.highest_risk(BEFORE, m)", ""),
    ("if not self.is_usable(m):  #", "if False:  #"),
    ("money += weight[j - 1] * scale[j - 1]", "money += weight[j - 1]"),
]


def changed(old, new):
    return made_again((memory, promise), "Promise", promise, old, new)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:never called")
def test_promise_made_again_unchanged_passes():
    battery(changed("class Promise:", "class Promise:"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(*mutant, marks=[] if k % 8 == 0 else pytest.mark.slow, id=mutant[1])
        for k, mutant in enumerate(MUTANTS)
    ],
)
def test_mutants_of_promise_are_caught(old, new):
    mutant = changed(old, new)
    assert not survives(lambda: battery(mutant))
