"""USS-PD-TS against its slow twin: the same draws from the same generator, the same decisions.

With a tiny tolerance every observation leads to a fit, and decisions agree sharply. With the usual one the estimate
is an amortised one: the twin then says which arms, after how many draws, are possible.
"""

import math

import numpy as np
import pytest
from scipy.special import expit
from tests.contextual.following import compiled_runs, linear, random_problem, random_realizable, stream
from tests.reference import contextual_worlds as worlds
from tests.reference.contextual_ts import Ahead, SlowUssPdTs

from weakfeedback.contextual.policies.uss_pd_ts import UssPdTs

# How far mu(phi.theta) may be off, and by which part the width. When every observation leads to a fit, theta is
# exact, but H is that of Newton's last step but one. With the usual tolerance widths were off by at most 8 %.
SHARP = (1e-5, 1e-3)
LOOSE = (4e-3, 0.1)
EVERY_TIME = 1e-6  # the tolerance that fits anew with each observation


class Counted:
    """Normal draws of a generator, counted; anything else it could be asked for is missing."""

    def __init__(self, rng):
        self.rng, self.count = rng, 0

    def standard_normal(self):
        self.count += 1
        return self.rng.standard_normal()


class Both:
    """The fast policy decides, interpreted; its twin looks at the same draws and agrees, then both learn."""

    sees_truth = False

    def __init__(self, fast, twin, twin_rng, slack, stretch):
        self.fast, self.twin, self.ahead = fast, twin, Ahead(twin_rng)
        self.slack, self.stretch = slack, stretch
        self.clear, self.draws = [], []

    def select(self, phi, rng):
        counted = Counted(rng)
        arm = self.fast.select(phi, counted)
        possible = self.twin.outcomes(phi, self.ahead, self.slack, self.stretch)
        assert (arm, counted.count) in possible, f"round {len(self.clear) + 1}"
        self.ahead.use(counted.count)
        self.clear.append(len(possible) == 1)
        self.draws.append(counted.count)
        return arm

    def update(self, *what):
        self.fast.update(*what[:-1], None)
        self.twin.update(*what)

    def update_pairs(self, *what):
        self.fast.update_pairs(*what[:-1], None)
        self.twin.update_pairs(*what)


def both(problem, seed, tolerance, **options):
    """A fast policy and its twin for a problem; the twin has a generator of its own in the same state."""
    fast = UssPdTs(problem.costs, problem.dimension, tolerance=tolerance, **options)
    pairs = problem.arms * (problem.arms - 1) // 2
    width = problem.dimension // pairs if options.get("per_pair") else problem.dimension
    twin = SlowUssPdTs(problem.costs.tolist(), width, **options)
    doubt = SHARP if tolerance == EVERY_TIME else LOOSE
    return Both(fast, twin, worlds.stream(seed, 0, 1), *doubt)


OPTIONS = [{}, {"ridge": 1.0, "scale": 0.5}, {"ridge": 0.02, "scale": 2.0}]


@pytest.mark.parametrize(("tolerance", "rounds"), [(EVERY_TIME, 60), (0.5, 120)])
@pytest.mark.parametrize(  # seeds where several arms are worth something
    "seed", [2, 5, 7, 8, 9, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (11, 14, 15, 31))]
)
def test_fast_and_slow_draw_and_decide_alike(seed, tolerance, rounds):
    problem, reference = random_problem(seed, features=linear)
    pair = both(problem, seed, tolerance, **OPTIONS[seed % 3])
    played, _ = worlds.slow_run(pair, reference, problem.features.tolist(), seed, 0, rounds)
    assert np.mean(pair.clear) > (0.99 if tolerance == EVERY_TIME else 0.75)
    assert len(set(pair.draws)) > 1 or problem.arms == 2
    assert len(set(played)) > 1, "a dull problem"


@pytest.mark.parametrize("per_pair", [False, True], ids=["one map", "map per pair"])
@pytest.mark.parametrize("seed", range(3))
def test_fast_and_slow_decide_alike_from_disagreements(seed, per_pair):
    problem, reference = random_realizable(seed, per_pair=per_pair)
    pair = both(problem, seed, EVERY_TIME, per_pair=per_pair)
    worlds.slow_run(pair, reference, reference.phi, seed, 0, 60)
    assert np.mean(pair.clear) > 0.99


def test_a_compiled_run_is_the_one_that_the_twin_followed():
    seed, horizon = 14, 120
    problem, reference = random_problem(seed)
    pair = both(problem, seed, 0.5)
    played, regret = worlds.slow_run(pair, reference, problem.features.tolist(), seed, 0, horizon)
    policy = UssPdTs(problem.costs, problem.dimension)
    arms, found = compiled_runs(problem, {"TS": policy}, horizon, 1, seed)["TS", 0]
    assert arms == played
    assert found == pytest.approx(regret, abs=1e-6)


def widths(policy, phi):
    """sqrt(phi' H^-1 phi) as the fast policy has it, per pair."""
    return [math.sqrt(phi @ Q @ phi) for Q in policy.Q]


@pytest.mark.parametrize(("tolerance", "doubt", "rounds"), [(EVERY_TIME, SHARP, 60), (0.5, LOOSE, 200)])
@pytest.mark.parametrize("seed", range(2))
def test_the_posterior_on_equal_histories(seed, tolerance, doubt, rounds):
    """Arbitrary arms, whatever the policy would select: the normal law of every pair at the contexts met."""
    centre, width = doubt
    fast = UssPdTs([0.0, 0.3, 0.6], 3, tolerance=tolerance)
    twin = SlowUssPdTs([0.0, 0.3, 0.6], 3)
    for phi, arm, outputs, _ in stream(seed, 2, 3, rounds):
        models = twin.models.values()
        exact = [model.width(phi) for model in models]
        assert widths(fast, phi) == pytest.approx(exact, rel=width)
        logits = [model.centre(phi) for model in models]
        assert expit(fast.theta @ phi) == pytest.approx(expit(logits), abs=centre)
        fast.update(phi, arm, outputs, None)
        twin.update(phi, arm, outputs, None)
    assert fast.t == twin.t == rounds
    assert fast.n.tolist() == [model.n for model in twin.models.values()]


def test_feedback_may_come_late():
    fast, twin = UssPdTs([0.0, 0.3, 0.6], 3, tolerance=EVERY_TIME), SlowUssPdTs([0.0, 0.3, 0.6], 3)
    pair = Both(fast, twin, np.random.default_rng(3), *SHARP)
    rng, waiting = np.random.default_rng(3), []
    for phi, arm, outputs, _ in stream(5, 2, 3, 80):
        pair.select(phi, rng)
        waiting.append((phi, arm, outputs, None))
        if len(waiting) > 4:
            pair.update(*waiting.pop(-3))


def test_a_tie_is_not_accepted():
    # at phi = 0 the sample is mu(0) = 1/2, whatever was seen and drawn
    for cost, arm in ((0.5, 1), (np.nextafter(0.5, 1), 0)):
        fast, twin = UssPdTs([0.0, cost], 2), SlowUssPdTs([0.0, cost], 2)
        for policy in (fast, twin):
            policy.update(np.ones(2), 1, np.array([0, 1]), None)
            assert policy.select(np.zeros(2), np.random.default_rng(0)) == arm


def test_far_logits_are_cut():
    # z is beyond 800 before the first feedback: exp would not do
    for sign, arm in ((-1.0, 0), (1.0, 1)):
        for policy in (UssPdTs([0.0, 0.5], 1, ridge=1e-12), SlowUssPdTs([0.0, 0.5], 1, ridge=1e-12)):

            class Fixed:
                def standard_normal(self, value=sign):
                    return value

            assert policy.select(np.ones(1), Fixed()) == arm
