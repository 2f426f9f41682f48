"""The policies of chapter 3: decisions computed by hand, conformance, compiled rounds, wrong options."""

import math

import numpy as np
import pytest

from weakfeedback import simulate
from weakfeedback.checks import check_policy
from weakfeedback.contextual import (
    ContextualProblem,
    FixedArm,
    PairFeatures,
    RandomArm,
    RealizableProblem,
    Supervised,
    UssPd,
    UssPdRidge,
)

CONTEXTS = np.random.default_rng(0).uniform(-1, 1, (40, 2))
TRUTH = (CONTEXTS[:, 0] > 0).astype(int)
ARMS = [[0.5], [1.0, 0.5], [2.0, 1.0]]
COSTS = [0.1, 0.35, 0.7]


def linear(x):
    return np.column_stack([np.ones(len(x)), x]) / 2


PROBLEMS = {
    "random": ContextualProblem(CONTEXTS, TRUTH, ARMS, COSTS, features=linear),
    "thresholded": ContextualProblem(CONTEXTS, TRUTH, ARMS, COSTS, "thresholded", features=linear),
    "quadratic": ContextualProblem(CONTEXTS, TRUTH, ARMS, COSTS),
    "per pair": ContextualProblem(
        CONTEXTS, TRUTH, ARMS, COSTS, features=PairFeatures({(0, 1): linear, (0, 2): linear, (1, 2): linear})
    ),
    "realizable": RealizableProblem(CONTEXTS, [[-3, 1, 0], [-2, 1, 1], [-3, 0, 1]], COSTS, linear),
}
POLICIES = {
    "USS-PD": lambda p: UssPd(p.costs, p.dimension, forced=20, per_pair=p.per_pair),
    "USS-PD adaptive": lambda p: UssPd(p.costs, p.dimension, forced_limit=60, per_pair=p.per_pair),
    "alpha": lambda p: UssPdRidge(p.costs, p.dimension, per_pair=p.per_pair),
    "beta": lambda p: UssPdRidge(p.costs, p.dimension, ridge=0.3, bonus="beta", per_pair=p.per_pair),
    "supervised": lambda p: Supervised(p.costs, p.dimension, forced=20),
    "fixed": lambda p: FixedArm(p.costs, 1),
    "random": lambda p: RandomArm(p.costs),
}
CASES = [
    (policy, problem)
    for policy in POLICIES
    for problem in PROBLEMS
    if not (policy == "supervised" and problem == "realizable")
]


# the other policies pass the same checks with all public ones, with these arguments or others
SHORT = [("USS-PD adaptive", "random"), ("beta", "random")]


@pytest.mark.parametrize(
    ("policy", "problem"),
    [pytest.param(*case, marks=[pytest.mark.slow] * (case not in SHORT)) for case in CASES],
)
def test_conformance(policy, problem):
    # interpreted rounds of the quadratic map are slow: fewer of them
    rounds = 60 if problem == "quadratic" else 80
    report = check_policy(POLICIES[policy], PROBLEMS[problem], rounds=rounds)
    assert {"compiled as interpreted", "hidden is unreachable"} <= set(report.passed)


@pytest.mark.parametrize(
    ("problem", "chosen"),
    [
        ("random", list(POLICIES)),
        ("realizable", ["random"]),  # what is new is the world
        pytest.param("realizable", list(POLICIES), marks=pytest.mark.slow),
    ],
    ids=["random", "realizable", "realizable, all"],
)
def test_compiled_equals_interpreted(problem, chosen):
    made = {name: POLICIES[name](PROBLEMS[problem]) for name in chosen if (name, problem) in CASES}
    runs = [
        simulate(PROBLEMS[problem], made, horizon=250, replications=2, marks=20, compiled=compiled)
        for compiled in (True, False)
    ]
    assert set(runs[0].compiled.values()) == {True}
    assert runs[0].frame.equals(runs[1].frame)


def test_one_map_for_all_pairs_is_one_map_for_each():
    shared, apart = PROBLEMS["random"], PROBLEMS["per pair"]
    one = simulate(shared, {"a": UssPd(COSTS, 3, forced=30)}, horizon=500, replications=2)
    other = simulate(apart, {"a": UssPd(COSTS, 9, forced=30, per_pair=True)}, horizon=500, replications=2)
    assert one.frame.equals(other.frame)


def alpha(t, d, K, delta=0.05, sigma=0.1, kappa=0.25):
    return 2 * sigma / kappa * math.sqrt(d / 2 * math.log(1 + 2 * t / d) + math.log(K * K / (2 * delta)))


def mu(z):
    return 1 / (1 + math.exp(-z))


def taught(policy, labels):
    """Teach a policy of two arms these disagreements in one context."""
    for label in labels:
        policy.update(np.array([1.0]), 1, np.array([0, label]), None)
    return policy


def threshold(make, labels, low=0.0, high=1.0):
    """The extra cost of the second arm from which the first is played, by bisection."""
    for _ in range(30):
        middle = (low + high) / 2
        if taught(make(middle), labels).select(np.array([1.0]), None) == 0:
            high = middle
        else:
            low = middle
    return high


def test_the_bound_of_uss_pd_by_hand():
    # one feature 1, 3 disagreements in 12: theta = logit(1/4), V = 12, and t = 12
    bound = mu(math.log(1 / 3) + alpha(12, 1, 2) / math.sqrt(12))
    found = threshold(
        lambda extra: UssPd([0.0, extra], 1, forced=5, ridge=1e-9, tolerance=0.01), [1, 0, 0, 0] * 3
    )
    assert found == pytest.approx(bound, abs=1e-6)


def ridge_estimate(ones, n, ridge):
    """theta of one constant feature: ones - n mu(theta) = ridge theta, by bisection."""
    low, high = -50.0, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        if ones - n * mu(middle) - ridge * middle > 0:
            low = middle
        else:
            high = middle
    return low


def test_the_bounds_of_the_ridge_by_hand():
    theta = ridge_estimate(3, 12, 2.0)
    width = 1 / math.sqrt(12 + 2.0)
    found = threshold(lambda extra: UssPdRidge([0.0, extra], 1, ridge=2.0), [1, 0, 0, 0] * 3)
    assert found == pytest.approx(mu(theta + alpha(12, 1, 2) * width), abs=1e-4)
    # beta takes n / (d lambda) for 2 t / d, and adds 2 sqrt(lambda) S
    beta = 0.8 * math.sqrt(0.5 * math.log(1 + 12 / 2.0) + math.log(4 / 0.1)) + 2 * math.sqrt(2.0) * 0.3
    found = threshold(
        lambda extra: UssPdRidge([0.0, extra], 1, ridge=2.0, bonus="beta", norm_bound=0.3), [1, 0, 0, 0] * 3
    )
    assert found == pytest.approx(mu(theta + beta * width), abs=1e-4)


def test_the_rule_of_the_supervised_comparator_by_hand():
    # arm 0 wrong in 6 of 12 rounds, arm 1 in 3 of 12
    bonus = alpha(12, 1, 2) / math.sqrt(12)
    difference = mu(0.0 + bonus) - mu(math.log(1 / 3) - bonus)
    for extra, arm in ((difference + 1e-3, 0), (difference - 1e-3, 1)):
        policy = Supervised([0.0, extra], 1, forced=5, ridge=1e-9, tolerance=0.05)
        for outputs in [[0, 0], [0, 1], [1, 1], [1, 1]] * 3:
            policy.update(np.array([1.0]), 1, np.array(outputs), None, truth=1)
        assert policy.select(np.array([1.0]), None) == arm


def test_later_arms_are_compared_too():
    # arms 0 and 1 never differ, arm 2 differs from both in every round: arm 0 must not be played for arm 1's sake
    policy = UssPd([0.0, 0.5, 0.8], 1, forced=5)
    for _ in range(200):
        policy.update(np.array([1.0]), 2, np.array([0, 0, 1]), None)
    assert policy.select(np.array([1.0]), None) == 2
    policy = UssPd([0.0, 0.5, 1.1], 1, forced=5)
    for _ in range(200):
        policy.update(np.array([1.0]), 2, np.array([0, 0, 1]), None)
    assert policy.select(np.array([1.0]), None) == 0


def test_pairs_are_learned_only_as_far_as_they_were_seen():
    policy = UssPd([0.0, 0.5, 0.8], 1, forced=3)
    for arm in (2, 2, 1, 0):
        policy.update(np.array([1.0]), arm, np.zeros(arm + 1, dtype=int), None)
    assert policy.n.tolist() == [3, 2, 2]  # pairs (0, 1), (0, 2), (1, 2)
    assert policy.t == 4


def test_the_forced_phase():
    fixed = UssPd([0.0, 0.9], 1, forced=7)
    for t in range(7):
        assert fixed.select(np.array([1.0]), None) == 1
        assert fixed.ready == (t >= 7)
        fixed.update(np.array([1.0]), 1, np.array([0, 0]), None)
    assert fixed.ready
    # V = n / 4: above 1 from the fifth observation on; at most forced_limit
    adaptive, limited = UssPd([0.0, 0.9], 1), UssPd([0.0, 0.9], 1, forced_limit=3)
    for t in range(1, 7):
        for policy in (adaptive, limited):
            policy.update(np.array([0.5]), 1, np.array([0, 0]), None)
        assert adaptive.ready == (t >= 5)
        assert limited.ready == (t >= 3)
    ridge = UssPdRidge([0.0, 2.0], 1)
    assert ridge.select(np.array([1.0]), None) == 1
    ridge.update(np.array([1.0]), 1, np.array([0, 0]), None)
    assert ridge.select(np.array([1.0]), None) == 0


def test_one_arm_is_played():
    for policy in (UssPd([0.3], 2), UssPdRidge([0.3], 2), Supervised([0.3], 2)):
        assert policy.select(np.zeros(2), None) == 0


@pytest.mark.parametrize("make", [UssPd, UssPdRidge, Supervised])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"dimension": 0}, "dimension must be an integer >= 1"),
        ({"costs": [0.2, 0.1]}, "costs must be cumulative"),
        ({"delta": 1.0}, "delta must be a number between 0 and 1"),
        ({"delta": 0.0}, "delta must be a finite number > 0"),
        ({"sigma": -1.0}, "sigma must be a finite number > 0"),
        ({"kappa": math.nan}, "kappa must be a finite number > 0"),
        ({"tolerance": 0.0}, "tolerance must be a finite number > 0"),
        ({"ridge": 0.0}, "ridge must be a finite number >= 1e-12"),
    ],
)
def test_wrong_options(make, options, words):
    with pytest.raises(ValueError, match=words):
        make(**{"costs": [0.1, 0.2], "dimension": 2} | options)


def test_wrong_options_of_one_policy():
    with pytest.raises(ValueError, match="forced must be an integer >= 1, got 0"):
        UssPd([0.1, 0.2], 2, forced=0)
    with pytest.raises(ValueError, match="forced_limit must be an integer >= 1"):
        Supervised([0.1, 0.2], 2, forced_limit=0)
    with pytest.raises(ValueError, match="bonus must be 'alpha' or 'beta', got 'gamma'"):
        UssPdRidge([0.1, 0.2], 2, bonus="gamma")
    with pytest.raises(ValueError, match="norm_bound must be"):
        UssPdRidge([0.1, 0.2], 2, norm_bound=-1.0)
    with pytest.raises(ValueError, match="multiple of the number of pairs, 3"):
        UssPd([0.1, 0.2, 0.3], 4, per_pair=True)
    with pytest.raises(ValueError, match="arm must be an integer from 0 to 1"):
        FixedArm([0.1, 0.2], 2)


@pytest.mark.slow
def test_it_learns_where_it_can_and_not_where_it_cannot():
    """Sub-linear regret under weak dominance; a context without it keeps costing."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (500, 1))
    good = RealizableProblem(
        x, [[-4.0, 2.0]], [0.1, 0.8], lambda x: np.column_stack([np.ones(len(x)), x]) / 1.5
    )
    assert good.weak_dominance_fraction == 1.0
    results = simulate(good, {"USS-PD": UssPd(good.costs, 2)}, horizon=4000, replications=5, marks=[2000])
    halves = results.values("USS-PD").mean(axis=0)
    assert halves[1] - halves[0] < 0.05 * halves[0]
    # arm 0 is right with probability .6, arm 1 with .4, they differ in .52 > .3: the dear, worse arm is played
    bad = ContextualProblem([[1.0]], [1], [[math.log(1.5)], [-math.log(1.5)]], [0.1, 0.4])
    assert bad.weak_dominance_fraction == 0.0
    results = simulate(bad, {"USS-PD": UssPd(bad.costs, 1)}, horizon=4000, replications=5, marks=[2000])
    halves = results.values("USS-PD").mean(axis=0)
    assert halves[1] == pytest.approx(4000 * 0.5, rel=0.01)
