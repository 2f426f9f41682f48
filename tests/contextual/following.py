"""Drive a policy of chapter 3 and its slow twin through equal histories and compare what they decide.

The fast estimate is an amortised one, so decisions may differ where a bound is as near to a cost difference as the
estimate is allowed to be off. The twin says which arms are possible then; it always learns from the arm that
was really played, so that histories stay equal.
"""

from typing import Any

import numpy as np
from tests.reference import contextual as slow
from tests.reference import contextual_worlds as worlds

from weakfeedback import simulate
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

SLACK = 4e-3  # of a bound: the estimate is within 2e-3 at its centre, and its slope may grow up to the bound
SHARP = 1e-4  # of a bound when every observation leads to a fit
EVERY_TIME = 1e-6  # the tolerance that fits anew with each of the first 21 observations


class Tied:
    """A fast policy and its twin made with the same options."""

    def __init__(self, fast, twin, **options):
        self.fast, self.twin, self.options = fast, twin, options

    def make(self, costs, dimension, fast=None, **more):
        """Both for these costs; ``fast`` takes the place of the policy under test."""
        one = (fast or self.fast)(costs, dimension, **self.options, **more)
        own = {name: value for name, value in (self.options | more).items() if name != "tolerance"}
        per_pair = own.get("per_pair", False)
        blocks = len(costs) * (len(costs) - 1) // 2 if per_pair else 1
        return one, self.twin(list(costs), dimension // blocks, **own)


LEARNERS = {
    "USS-PD": Tied(UssPd, slow.SlowUssPd, forced=25),
    "USS-PD adaptive": Tied(UssPd, slow.SlowUssPd, forced_limit=60, sigma=0.05),
    "USS-PD ridge": Tied(UssPd, slow.SlowUssPd, forced=4, ridge=0.3, delta=0.2, kappa=0.4),
    "lambda alpha": Tied(UssPdRidge, slow.SlowUssPdRidge),
    "lambda beta": Tied(UssPdRidge, slow.SlowUssPdRidge, bonus="beta", ridge=0.4, norm_bound=0.3, sigma=0.05),
    "supervised": Tied(Supervised, slow.SlowSupervised, forced=25),
    "supervised adaptive": Tied(Supervised, slow.SlowSupervised, forced_limit=60, sigma=0.03, kappa=0.2),
}
BASELINES = {
    "fixed": (lambda costs: FixedArm(costs, 1), lambda costs: slow.SlowFixedArm(costs, 1)),
    "random": (RandomArm, slow.SlowRandomArm),
}


def linear(contexts):
    """1 and the context, scaled to norm about 1: few features, so that the slow side keeps up."""
    x = np.asarray(contexts, dtype=float)
    return np.column_stack([np.ones(len(x)), x]) / np.sqrt(1 + x.shape[1])


class Turned:
    """The linear map, turned by a matrix."""

    def __init__(self, matrix):
        self.matrix = matrix

    def __call__(self, contexts):
        return linear(contexts) @ self.matrix


def random_problem(seed, features=linear):
    """A ContextualProblem with nested parameters on 40 to 120 contexts, and its slow twin."""
    rng = np.random.default_rng(seed)
    d, arms, n = int(rng.integers(2, 4)), int(rng.integers(2, 6)), int(rng.integers(40, 121))
    contexts = rng.uniform(-1, 1, size=(n, d))
    truth = (contexts @ rng.normal(size=d) + 0.5 * rng.normal(size=n) > 0).astype(int)
    parameters = [rng.normal(scale=1.5, size=int(rng.integers(1, d + 1))) for _ in range(arms)]
    intercepts = rng.normal(scale=1.5, size=arms)
    costs = np.cumsum(rng.uniform(0, 1.6 / arms, size=arms))
    arguments = (contexts, truth, parameters, costs, "thresholded" if seed % 2 else "random", intercepts)
    return ContextualProblem(*arguments, features=features), worlds.SlowContextualProblem(*arguments)


def random_realizable(seed, regret="signed", per_pair=False):
    """A RealizableProblem and its slow twin; with one map per pair, the twin reads the block of its pair."""
    rng = np.random.default_rng(seed)
    d, arms, n = 2, int(rng.integers(2, 5)), int(rng.integers(40, 121))
    contexts = rng.uniform(-1, 1, size=(n, d))
    pairs = [(i, j) for i in range(arms) for j in range(i + 1, arms)]
    theta = {pair: rng.normal(scale=2.0, size=d + 1) - np.array([2.0, 0.0, 0.0]) for pair in pairs}
    costs = np.cumsum(rng.uniform(0.1, 0.5, size=arms))
    features: Any = linear
    if per_pair:
        features = PairFeatures({pair: Turned(rng.normal(scale=0.6, size=(3, 3))) for pair in pairs})
    problem = RealizableProblem(contexts, theta, costs, features=features, regret=regret)
    wide = {}
    for k, pair in enumerate(pairs):
        wide[pair] = np.zeros(problem.dimension)
        wide[pair][k * 3 * per_pair : k * 3 * per_pair + 3] = theta[pair]
    return problem, worlds.SlowRealizableProblem(problem.features.tolist(), wide, costs.tolist(), regret)


class Given:
    """A policy that plays given arms, shows its twin what happens and asks it which arms were possible."""

    def __init__(self, arms, twin, slack):
        self.arms, self.twin, self.slack = arms, twin, slack
        self.sees_truth = twin.sees_truth
        self.round = 0
        self.clear = []  # whether the slow decision of a round left no doubt

    def select(self, phi, rng):
        arm, possible = self.arms[self.round], self.twin.decisions(phi, self.slack)
        assert arm in possible, f"round {self.round + 1}: arm {arm}, possible are {possible}"
        self.clear.append(len(possible) == 1)
        self.round += 1
        return arm

    def update(self, *what, **truth):
        self.twin.update(*what, **truth)

    def update_pairs(self, *what):
        self.twin.update_pairs(*what)


def compiled_runs(problem, policies, horizon, replications, seed):
    """Arms and cumulative regret of compiled runs, by label and replication."""
    marks = np.arange(1, horizon + 1)
    results = simulate(problem, policies, horizon=horizon, replications=replications, seed=seed, marks=marks)
    assert all(reason is True for reason in results.compiled.values()), results.compiled
    found = {}
    for key, rows in results.frame.groupby(["policy", "replication"]):
        pulls = rows[[f"pulls_{k}" for k in range(problem.arms)]].to_numpy()
        arms = np.diff(pulls, axis=0, prepend=0).argmax(axis=1).tolist()
        found[key] = arms, rows["regret"].to_numpy()
    return found


def stream(seed, d, arms, rounds):
    """Contexts, arms and outputs of a common stream: any arm at any time, arms that often agree, and a truth."""
    rng = np.random.default_rng(seed)
    for t in range(rounds):
        x = rng.uniform(-1, 1, size=d)
        phi = np.append(1.0, x) / np.sqrt(1 + d)
        truth = int(rng.random() < 0.5)
        outputs = np.where(rng.random(arms) < 0.25 + 0.2 * (x[0] > 0), 1 - truth, truth)
        arm = arms - 1 if t < 3 else int(rng.integers(0, arms))
        yield phi, arm, outputs[: arm + 1], truth


def teach(policy, phi, arm, outputs, truth):
    if getattr(policy, "sees_truth", False):
        policy.update(phi, arm, outputs, None, truth=truth)
    else:
        policy.update(phi, arm, outputs, None)


def stops_at(policy, phi, i, j, difference):
    """Whether arm i is accepted when C_j - C_i is `difference`, and no other comparison can decide."""
    policy.C = np.full(policy.K, 2.0)  # arms before i are too dear, arms after it are never worth it
    policy.C[i], policy.C[j] = 0.0, difference
    return policy.select(phi, None) == i


def compare_bounds(one, twin, phi, error):
    """Every bound of the fast policy, found by shifting the costs, is the exact one up to `error`."""
    for i in range(one.K):
        for j in range(i + 1, one.K):
            exact = twin.bound(phi, i + 1, j + 1)
            assert stops_at(one, phi, i, j, exact + error), (i, j, exact)
            assert not stops_at(one, phi, i, j, exact - error), (i, j, exact)


def compare_on_stream(one, twin, seed, d, rounds, error):
    """Equal histories of arbitrary arms: the length of the forced phase, and every bound at a new context."""
    rng = np.random.default_rng(seed + 1000)
    costs = one.C.copy()
    for phi, arm, outputs, truth in stream(seed, d, one.K, rounds):
        probe = np.append(1.0, rng.uniform(-1, 1, size=d)) / np.sqrt(1 + d)
        one.C = costs.copy()
        assert one.select(probe, None) in twin.decisions(probe, error)
        if not twin.forced_phase():
            compare_bounds(one, twin, probe, error)
        teach(one, phi, arm, outputs, truth)
        teach(twin, phi, arm, outputs, truth)
