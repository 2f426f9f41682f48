"""USS-PD-TS: decisions computed by hand, its draws, conformance, live use, mutants."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
from tests.contextual.test_policies import PROBLEMS, ridge_estimate
from tests.rig.mutants import caught
from tests.rig.refusals import refusals

from weakfeedback import ContextualCascade, simulate
from weakfeedback.checks import check_policy
from weakfeedback.contextual import UssPd, UssPdTs, instances
from weakfeedback.contextual.policies import uss_pd_ts

ONE = np.array([1.0])


def mu(z):
    return 1 / (1 + math.exp(-z))


class Told:
    """A generator whose normal numbers are given, for ever or one after the other."""

    def __init__(self, *numbers):
        self.numbers, self.asked = itertools.cycle(numbers), 0

    def standard_normal(self):
        self.asked += 1
        return next(self.numbers)


def make(kind, problem, **options):
    return kind(problem.costs, problem.dimension, per_pair=problem.per_pair, **options)


# -- by hand


def threshold(make_policy, g, phi=ONE, halvings=50):
    """The extra cost of the second arm from which the first is played when g is drawn, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(halvings):
        middle = (low + high) / 2
        low, high = (low, middle) if make_policy(middle).select(phi, Told(g)) == 0 else (middle, high)
    return high


def fresh(kind, ridge, scale, extra):
    return kind([0.0, extra], 1, ridge, scale)


def taught(kind, ridge, scale, extra):
    """Three disagreements in twelve rounds."""
    policy = kind([0.0, extra], 1, ridge, scale, tolerance=1e-6)
    for label in [1, 0, 0, 0] * 3:
        policy.update(ONE, 1, np.array([0, label]), None)
    return policy


def bounds_by_hand(kind):
    # nothing known: normal with variance |phi|^2 / ridge
    for g, ridge, scale in [(0.7, 0.1, 1.0), (-1.2, 0.1, 0.5), (0.4, 2.0, 1.0)]:
        found = threshold(partial(fresh, kind, ridge, scale), g, np.array([0.5]))
        assert found == pytest.approx(mu(scale * g * 0.5 / math.sqrt(ridge)), abs=1e-9)
    # one feature 1, 3 disagreements in 12: H = ridge + 12 p (1 - p) at the estimate
    for g, ridge, scale in [(0.0, 0.1, 1.0), (1.3, 0.1, 1.0), (-0.8, 0.5, 1.5), (2.0, 0.5, 0.0)]:
        theta = ridge_estimate(3, 12, ridge)
        H = ridge + 12 * mu(theta) * (1 - mu(theta))
        found = threshold(partial(taught, kind, ridge, scale), g, halvings=24)
        assert found == pytest.approx(mu(theta + scale * g / math.sqrt(H)), abs=1e-4)


def draws_by_hand(kind):
    """Nothing known, ridge 1, phi = 1: a draw g passes a pair when C_j - C_i > mu(g)."""
    costs = [0.0, 0.2, 0.5, 0.9]  # C_j - C_i: .2 .5 .9, .3 .7, .4
    low, high = -9.0, 9.0  # mu(low) < .2, mu(high) > .9
    for numbers, arm, asked in [
        ([low, low, low], 0, 3),
        ([high, low, low], 1, 3),  # the first pair speaks against arm 0, and its other pairs are not drawn
        ([low, high, low, low], 1, 4),
        ([low, low, high, low, high, low], 2, 6),
        ([low, high, high, high], 3, 4),
        ([low, 0.0, low, low], 1, 4),  # C_2 - C_0 = mu(0): a tie goes on
        ([high, -0.4, low], 2, 3),  # C_2 - C_1 = .3 < mu(-.4) < .5 = C_2 - C_0
    ]:
        told = Told(*numbers)
        assert kind(costs, 1, ridge=1.0).select(ONE, told) == arm, numbers
        assert told.asked == asked, numbers
    assert kind([0.3], 2).select(np.zeros(2), Told()) == 0


def exact(rows, labels, ridge):
    """The maximiser and the Hessian, by Newton's method with halved steps."""
    theta = np.zeros(rows.shape[1])
    for _ in range(60):
        p = 1 / (1 + np.exp(-rows @ theta))
        H = (rows.T * (p * (1 - p))) @ rows + ridge * np.eye(theta.size)
        step = np.linalg.solve(H, rows.T @ (labels - p) - ridge * theta)
        theta = theta + step / max(1.0, np.abs(rows @ step).max())
    return theta, H


def regressions_by_direct_solution(kind):
    """Arms of all lengths: theta and H of every pair, for shared features and for blocks."""
    for per_pair in (False, True):
        rng = np.random.default_rng(2)
        policy = kind([0.0, 0.2, 0.4], 6, ridge=0.1, scale=1.0, tolerance=1e-6, per_pair=per_pair)
        seen = {pair: ([], []) for pair in [(0, 1), (0, 2), (1, 2)]}
        for t in range(60):
            phi, arm = rng.uniform(-1, 1, 6), t % 3
            outputs = (rng.random(3) < 0.5 + 0.4 * phi[0]).astype(int)
            policy.update(phi, arm, outputs[: arm + 1], None)
            for m, (i, j) in enumerate(seen):
                if j <= arm:
                    seen[i, j][0].append(phi[2 * m : 2 * m + 2] if per_pair else phi)
                    seen[i, j][1].append(outputs[i] != outputs[j])
        assert policy.n.tolist() == [40, 20, 20]
        probe = rng.uniform(-1, 1, 6)
        for m, (rows, labels) in enumerate(seen.values()):
            theta, H = exact(np.array(rows), np.array(labels), 0.1)
            assert policy.theta[m] == pytest.approx(theta, abs=1e-4)
            assert policy.Q[m] == pytest.approx(np.linalg.inv(H), abs=2e-3)
            if per_pair and m == 1:  # the draw of pair (0, 2) alone decides, of its own block
                x = probe[2:4]
                edge = mu(x @ theta + 0.6 * math.sqrt(x @ np.linalg.solve(H, x)))
                for extra, arm in ((edge + 1e-3, 0), (edge - 1e-3, 2)):
                    policy.C = np.array([0.0, 2.0, extra])
                    assert policy.select(probe, Told(-50.0, 0.6, -50.0)) == arm


def battery(kind):
    bounds_by_hand(kind)
    draws_by_hand(kind)
    regressions_by_direct_solution(kind)


def test_decisions_draws_and_estimates_by_hand():
    battery(UssPdTs)


MUTANTS = [
    ("self.scale * width * rng", "width * rng"),
    ("+ self.scale * width", "- self.scale * width"),
    ("math.sqrt(max(inner(x, v), 0.0))", "max(inner(x, v), 0.0)"),
    ("width * rng.standard_normal()", "width * abs(rng.standard_normal())"),
    ("<= logistic(z)", "< logistic(z)"),
    ("range(i + 1, self.K)", "range(i + 1, min(i + 2, self.K))"),
    ("for i in range(self.K - 1):", "for i in range(1, self.K - 1):"),
    ("= 1.0 / self.ridge", "= 1.0"),
    ("self.stop[m] <= self.arms[s]", "self.stop[m] < self.arms[s]"),
    ("copy_block(phi, self.begins[self.slot[m]], x)", "copy_block(phi, 0, x)"),
    ("self.growth = 1.0 + 12.5 * self.tau", "self.growth = 20.0"),
    ("self.C[j] - self.C[i]", "self.C[j] - self.C[0]"),
    ("                return False\n", "                out = True\n"),
]


test_mutants_are_caught = caught(
    lambda mutant: battery(mutant.UssPdTs),
    uss_pd_ts,
    *MUTANTS,
)


# -- with the others


def test_conformance_with_a_map_per_pair():
    # one map for all pairs, and compiled rounds, in tests/checks/test_policies.py: the types are the same
    report = check_policy(lambda p: make(UssPdTs, p), PROBLEMS["per pair"], rounds=60, compiled=False)
    assert "hidden is unreachable" in report.passed


@pytest.mark.parametrize("problem", ["random", pytest.param("realizable", marks=pytest.mark.slow)])
def test_compiled_equals_interpreted(problem):
    made = {"TS": make(UssPdTs, PROBLEMS[problem])}
    runs = [
        simulate(PROBLEMS[problem], made, horizon=250, replications=2, marks=20, compiled=compiled)
        for compiled in (True, False)
    ]
    assert runs[0].compiled == {"TS": True}
    assert runs[0].frame.equals(runs[1].frame)


def test_the_default_tolerance_stays_near_the_exact_widths():
    rng, policy = np.random.default_rng(3), UssPdTs([0.0, 0.3], 4)
    weights, rows, labels = 6 * rng.normal(size=4), [], []
    for t in range(400):
        phi = np.append(1.0, rng.uniform(-1, 1, 3)) / 2
        rows.append(phi)
        labels.append(rng.random() < mu(phi @ weights - 1))
        policy.update(phi, 1, np.array([0, labels[-1]], dtype=int), None)
        if t % 20 == 19:
            theta, H = exact(np.array(rows), np.array(labels), 0.001)
            probe = np.append(1.0, rng.uniform(-1, 1, 3)) / 2
            width = math.sqrt(probe @ policy.Q[0] @ probe)
            assert width == pytest.approx(math.sqrt(probe @ np.linalg.solve(H, probe)), rel=0.1)
            assert abs(mu(probe @ policy.theta[0]) - mu(probe @ theta)) < 3e-3


test_wrong_options = refusals(
    lambda options: UssPdTs(**{"costs": [0.1, 0.2], "dimension": 2} | options),
    ({"scale": -0.1}, "scale must be"),
    ({"scale": math.inf}, "scale must be"),
    ({"ridge": 0.0}, "ridge must be a finite number >= 1e-12"),
    ({"tolerance": 0.0}, "tolerance must be a finite number > 0"),
    ({"dimension": 0}, "dimension must be an integer >= 1"),
    ({"costs": [0.2, 0.1]}, "costs must be cumulative"),
    ({"per_pair": "yes"}, "per_pair must be True or False"),
)


# -- how good it is

PUBLISHED = {
    "synthetic-1": 346,
    "synthetic-2": 275,
    "synthetic-3": 249,
    "synthetic-4": 236,
    "realizable-4-1": 360,
    "realizable-4-4": 257,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_regret_is_as_in_an_independent_experiment(name):
    """20 replications have a standard error of about 4 %; the seed is fixed."""
    problem = instances.load(name)
    policies = {
        "TS": make(UssPdTs, problem, ridge=0.1, scale=1.0),  # what was measured there
        "default": make(UssPdTs, problem),
        "PD": make(UssPd, problem),
    }
    results = simulate(problem, policies, horizon=5000, replications=20, marks=1)
    means = results.final()["mean"]
    assert means["TS"] == pytest.approx(PUBLISHED[name], rel=0.12)
    assert means["PD"] > 1.3 * means["TS"]
    assert means["default"] < 1.05 * means["TS"]


# -- live

STAGES = [lambda x: 0, lambda x: int(x[0] > 0)]


def live(**options):
    return ContextualCascade(STAGES, [1, 20], error_cost=100, policy="USS-PD-TS", seed=5, **options)


def test_live_it_learns_where_to_stop_and_goes_on_after_loading(tmp_path):
    contexts = np.random.default_rng(0).uniform(-1, 1, size=(700, 1))
    cascade = live()
    for x in contexts[:400]:
        cascade(x)
    cascade.save(tmp_path / "state.json")
    again = ContextualCascade.load(tmp_path / "state.json", STAGES)
    arms = [cascade(x).arm for x in contexts[400:]]
    assert [again(x).arm for x in contexts[400:]] == arms
    found, x = np.array(arms), contexts[400:, 0]
    assert found[x > 0.2].mean() > 0.95
    assert found[x < -0.2].mean() < 0.2
    text = again.explain(again.rounds - 1)
    assert "USS-PD-TS compares the extra cost with a random draw" in text
    assert "Nothing is estimated yet" not in text
    assert str(again.report())


def test_live_its_history_is_bounded(tmp_path):
    contexts = np.random.default_rng(1).uniform(-1, 1, size=(600, 1))
    bounded, whole = live(keep=100), live(keep=None)
    for x in contexts:
        bounded(x)
        whole(x)
    assert bounded.policy.t < 100
    assert bounded.policy.t + bounded.policy.gone == whole.policy.t == 600
    # the quadratic stands for what was let go: both know about the same
    probe = np.ones(bounded.policy.dimension) / 2
    widths = [math.sqrt(probe @ one.policy.Q[0] @ probe) for one in (bounded, whole)]
    assert widths[0] == pytest.approx(widths[1], rel=0.5)
    bounded.save(tmp_path / "state.json")
    again = ContextualCascade.load(tmp_path / "state.json", STAGES)
    assert [again(x).arm for x in contexts[:50]] == [bounded(x).arm for x in contexts[:50]]
