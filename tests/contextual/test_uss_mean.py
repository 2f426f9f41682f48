"""USS-mean with contexts against a slow twin that solves every regression anew; mutants; the cascade's own."""

import itertools
import math

import numpy as np
import pytest
from tests.rig.mutants import caught

from weakfeedback import cascade
from weakfeedback.checks import check_policy
from weakfeedback.contextual import UssMean
from weakfeedback.contextual.policies import uss_mean
from weakfeedback.settings.catalog import SETTINGS


class Twin:
    """All observations of every pair in lists; least squares from scratch."""

    def __init__(self, costs, dimension, scale, ridge, per_pair):
        self.C, self.scale, self.ridge = costs, scale, ridge
        self.seen = {pair: ([], []) for pair in itertools.combinations(range(len(costs)), 2)}
        width = dimension // len(self.seen) if per_pair else dimension
        starts = [k * width if per_pair else 0 for k in range(len(self.seen))]
        self.part = {pair: slice(start, start + width) for pair, start in zip(self.seen, starts)}

    def drawn(self, pair, phi, z):
        X, y = (np.array(one) for one in self.seen[pair])
        if len(y) < 2:
            return math.inf
        x = np.append(1.0, phi[self.part[pair]])
        prior = np.diag([1e-6, *[self.ridge] * (x.size - 1)])
        inverse = np.linalg.inv(prior + X.T @ X)
        theta = inverse @ X.T @ y
        left = ((y - X @ theta) ** 2).sum() + theta @ prior @ theta
        variance = max(left / len(y), len(y) ** -2.0)
        return x @ theta + z * math.sqrt(variance * (x @ inverse @ x))

    def select(self, phi, rng):
        for i in range(len(self.C) - 1):
            later = range(i + 1, len(self.C))
            drawn = [self.drawn((i, j), phi, rng.standard_normal()) for j in later]
            if all(self.C[j] - self.C[i] > one for j, one in zip(later, drawn)):
                return i
        return len(self.C) - 1

    def update(self, phi, arm, outputs):
        for (i, j), (X, y) in self.seen.items():
            if j <= arm:
                X.append(np.append(1.0, phi[self.part[i, j]]))
                y.append(min(((outputs[i] - outputs[j]) / self.scale) ** 2, 1.0))


def agrees_with_twin(cls):
    for seed, (arms, per_pair) in enumerate(itertools.product((2, 3, 4), (False, True))):
        rng = np.random.default_rng(seed)
        dimension = 3 * (arms * (arms - 1) // 2 if per_pair else 1)
        costs, scale = np.cumsum(rng.uniform(0, 0.15, arms)), (1.0, 2.5, 0.7)[seed % 3]
        one = cls(costs, dimension, scale, ridge=0.3, per_pair=per_pair)
        twin = Twin(costs, dimension, scale, 0.3, per_pair)
        rngs = np.random.default_rng(seed), np.random.default_rng(seed)
        played = set()
        for t in range(120):
            phi = rng.uniform(-1, 1, dimension)
            arm = one.select(phi, rngs[0])
            assert arm == twin.select(phi, rngs[1])
            answers = np.cumsum(rng.normal(size=arms) * 0.6 * scale * (phi[1] > 0))[: arm + 1]
            if t % 2:
                one.update(phi, arm, answers, rngs[0])
            else:
                moved = np.minimum(((answers[:, None] - answers) / scale) ** 2, 1.0)
                one.update_pairs(phi, arm, moved, rngs[0])
            twin.update(phi, arm, answers)
            played.add(arm)
        assert rngs[0].random() == rngs[1].random()  # they asked for as many numbers
        assert len(played) > 1


def is_the_policy_of_a_cascade_where_contexts_say_nothing(cls):
    costs, rng = [0.0, 0.1, 0.22, 0.3], np.random.default_rng(1)
    one, plain = cls(costs, 1), cascade.UssMean(costs)
    rngs = np.random.default_rng(2), np.random.default_rng(2)
    for _ in range(400):
        arm = one.select(np.zeros(1), rngs[0])
        assert arm == plain.select(rngs[1])
        answers = np.cumsum(rng.normal(size=4) * [1.0, 0.4, 0.3, 0.2])[: arm + 1]
        one.update(np.zeros(1), arm, answers, rngs[0])
        plain.update(arm, answers, rngs[1])
    assert one.n.tolist() == plain.n[np.triu_indices(4, 1)].tolist()


BATTERY = (agrees_with_twin, is_the_policy_of_a_cascade_where_contexts_say_nothing)


@pytest.mark.parametrize("part", BATTERY)
def test_the_policy(part):
    part(UssMean)


test_mutants_are_caught = caught(
    lambda mutant: [part(mutant.UssMean) for part in BATTERY],
    uss_mean,
    ("self.n[m] < 2.0", "self.n[m] < 1.0"),
    ("1.0 / (n * n)", "1.0 / n"),
    ("self.left[m] / n", "self.left[m]"),
    ("off * off / wide", "off * off"),
    ("off / wide * v[k]", "off * v[k]"),
    ("min(apart * apart, 1.0)", "apart * apart"),
    (" / self.scale", ""),
    ("<= self.movement", "< -self.movement"),
    ("m += self.K - 1 - i", "m += self.K - i"),
    ("            m += 1\n", ""),
    ("if self.stop[m] <= arm:", "if self.stop[m] < arm:"),
    ("x[0] = 1.0", "x[0] = 0.0"),
    ("1.0 / FLAT", "1.0"),
    ("if self.reach[s] <= arm:", "if self.reach[s] < arm:"),
    ("shrink(self.W[s], 1.0, self", "shrink(self.W[s], 2.0, self"),
)


def test_it_conforms():
    problem, _ = SETTINGS["contextual"].sample("USS-mean")
    check_policy(lambda p: UssMean(p.costs, p.dimension), problem)


def test_wrong_arguments_are_refused():
    for words, arguments in (
        ("scale must be", {"scale": 0.0}),
        ("ridge must be", {"ridge": 0.0}),
        ("dimension must be a multiple of the number of pairs", {"per_pair": True}),
    ):
        with pytest.raises(ValueError, match=words):
            UssMean([0.1, 0.2, 0.3], 4, **arguments)
    policy = UssMean([0.1, 0.2], 2)
    before = policy.W.copy()
    for phi, outputs, words in (
        ([1.0, math.nan], [1.0, 2.0], "finite"),
        ([1.0], [1.0, 2.0], "dimension"),
        ([1.0, 1.0], [1.0], "those of arms 0 to arm"),
    ):
        with pytest.raises(ValueError, match=words):
            policy.update(np.array(phi), 1, np.array(outputs), None)
    assert np.array_equal(policy.W, before)
    assert not policy.n.any()
