"""USS-TS-drift against cases worked out by hand, in a world that changes; mutants that must be caught."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rig.draws import Script
from tests.rig.mutants import caught
from tests.rig.refusals import refusals

from weakfeedback.cascade import CascadeProblem, UssTs, UssTsDrift
from weakfeedback.cascade.policies import uss_ts_drift


def decides(cls):
    costs = [0.0, 0.25, 0.5]
    for draws, expected, asked in [
        ([0.019], 2, 1),
        ([0.02, 0.1, 0.1], 0, 3),
        ([0.9, 0.25, 0.1, 0.1], 1, 4),  # a tie with p01; all of arm 0's pairs are drawn
        ([0.9, 0.1, 0.5, 0.1], 1, 4),
        ([0.9, 0.1, 0.6, 0.25], 2, 4),
    ]:
        rng = Script(*draws)
        assert cls(costs).select(rng) == expected
        assert rng.asked == (["u"] + [(1.0, 1.0)] * 3)[:asked]
    assert cls(costs, probe=1).select(Script(0.999)) == 2
    assert cls([0.1], probe=0).select(Script(0.5)) == 0


def forgets(cls):
    policy = cls([0.0, 0.1, 0.2], memory=4)
    for outputs in [(0, 1), (0, 1, 1), (0, 0), (0, 1)]:
        policy.update(len(outputs) - 1, outputs, None)
    assert (policy.D[0, 1], policy.N[0, 1]) == (3, 4)
    policy.update(1, [0, 0], None)  # 3 of 4 become 2.25 of 3, and one more that agrees
    assert (policy.D[0, 1], policy.N[0, 1]) == (2.25, 4)
    policy.update(1, [0, 1], None)
    assert (policy.D[0, 1], policy.N[0, 1]) == (2.6875, 4)
    # not compared since
    assert (policy.D[0, 2], policy.N[0, 2], policy.D[1, 2], policy.N[1, 2]) == (1, 1, 0, 1)
    rng = Script(0.5, 0.9, 0.9, 0.9)
    assert policy.select(rng) == 2
    assert rng.asked == ["u", (3.6875, 2.3125), (2.0, 1.0), (1.0, 2.0)]
    policy.update(2, [0, 1, 1], None)
    assert (policy.N[0, 1], policy.D[0, 2], policy.N[0, 2]) == (4, 2, 2)  # each pair has a memory of its own
    shortest = cls([0.0, 0.1], memory=1)
    for outputs in [(0, 1), (0, 0), (0, 1)]:
        shortest.update(1, outputs, None)
        assert (shortest.D[0, 1], shortest.N[0, 1]) == (float(outputs[1]), 1)


BATTERY = (decides, forgets)


@pytest.mark.parametrize("part", BATTERY)
def test_the_policy(part):
    part(UssTsDrift)


test_mutants_are_caught = caught(
    lambda mutant: [part(mutant.UssTsDrift) for part in BATTERY],
    uss_ts_drift,
    ("rng.random() < self.probe", "rng.random() <= self.probe"),
    (
        "rng.random() < self.probe:\n            return self.K - 1",
        "rng.random() < self.probe:\n            return 0",
    ),
    ("<= p:", "< p:"),
    ("best = False  #", "return False  #"),
    ("1.0 + self.N[i, j] - self.D[i, j]", "1.0 + self.N[i, j]"),
    ("kept = self.memory - 1.0", "kept = self.memory"),
    ("self.D[i, j] = self.D[i, j] * kept / self.N[i, j]\n", "pass\n"),
    ("                    self.N[i, j] = kept\n", ""),
    ("if differ[i, j]:", "if not differ[i, j]:"),
    ("if self.N[i, j] > kept:", "if self.N[0, 1] > kept:"),
)


@given(st.floats(1.0, 50.0), st.lists(st.booleans(), max_size=200))
def test_no_more_is_remembered_than_the_memory_holds(memory, seen):
    policy = UssTsDrift([0.0, 0.1], memory=memory)
    weights = []
    for differs in seen:
        policy.update(1, [0, int(differs)], None)
        room = memory - 1.0
        if sum(w for w, _ in weights) > room:
            total = sum(w for w, _ in weights)
            weights = [(w * room / total, d) for w, d in weights]
        weights.append((1.0, differs))
    assert policy.N[0, 1] <= max(memory, 1.0) + 1e-9
    assert policy.N[0, 1] == pytest.approx(sum(w for w, _ in weights))
    assert policy.D[0, 1] == pytest.approx(sum(w for w, d in weights if d))


test_wrong_arguments_are_refused = refusals(
    lambda options: UssTsDrift([0.1, 0.2], **options),
    ({"probe": -0.1}, "probe must be a finite number >= 0, got -0.1"),
    ({"probe": 1.1}, "probe must be a number from 0 to 1, got 1.1"),
    ({"memory": 0.5}, "memory must be a finite number >= 1, got 0.5"),
    ({"memory": "long"}, "memory must be"),
)


def after_a_change(policy, problems, rounds, seed):
    """The regret in each of some stretches of rounds, every one with a law of its own."""
    world, rng = np.random.default_rng([seed, 0]), np.random.default_rng([seed, 1])
    found = []
    for problem in problems:
        rows = problem._rows[world.choice(len(problem._rows), p=problem._probabilities, size=rounds)]
        pulls = np.zeros(problem.arms, dtype=int)
        for row in rows:
            arm = policy.select(rng)
            policy.update(arm, row[1 : arm + 2], rng)
            pulls[arm] += 1
        found.append(float(problem.measures(pulls)["regret"]))
    return found


def test_it_follows_a_change_that_uss_ts_sleeps_through():
    """Three stages that differ a lot, then hardly: USS-TS must outweigh its past, USS-TS-drift forgets it.

    By hand: with p02 = .42 in 2000 rounds and .02 afterwards, the mean of USS-TS falls below the extra cost .3 after
    about 2000 .12 / .28 = 860 rounds at a gap of about .28, a regret of some 240; the other needs about 40 rounds.
    """
    costs = [0.0, 0.15, 0.3]
    before = CascadeProblem.bsc([0.45, 0.25, 0.06], costs)
    after = CascadeProblem.bsc([0.02, 0.015, 0.01], costs, slip=0.01)
    assert (before.optimal_arm, after.optimal_arm) == (2, 0)
    assert (before.weak_dominance, after.weak_dominance) == (True, True)
    stayed = [after_a_change(UssTs(costs), (before, after), 2000, seed)[1] for seed in range(5)]
    moved = [after_a_change(UssTsDrift(costs), (before, after), 2000, seed)[1] for seed in range(5)]
    # the seeds are fixed; every run of one side against every run of the other
    assert min(stayed) > 2.0 * max(moved)
