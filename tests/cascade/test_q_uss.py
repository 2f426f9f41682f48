"""Q-USS against cases worked out by hand; what it may spend; mutants that must be caught."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.rig.draws import Script
from tests.rig.mutants import mutate, survives
from tests.rig.refusals import refusals

from weakfeedback.cascade import QUss
from weakfeedback.cascade.policies import q_uss

FLAT, LATER = (1.0, 1.0), (6.0, 1.0)  # the priors of p and theta


def samples(cls):
    """Two samples a round; stop where C_j - C_i > p m (2 theta - 1) for all j > i."""
    rng = Script(0.5, 0.75, 0.74)  # .5 (2 .75 - 1) = .25, a tie with the cost; then .24
    policy = cls([0.0, 0.25], price=1.0, cap=1.0)
    assert policy.select(rng) == 1  # they differ and a label can be afforded: the later one
    assert policy.buying
    assert rng.asked == [FLAT, LATER, LATER]  # p is drawn once
    rng = Script(0.5, 0.74, 0.75)
    assert policy.select(rng) == 1
    rng = Script(0.5, 0.74, 0.0)
    assert policy.select(rng) == 0
    assert not policy.buying
    rng = Script(0.5, 0.75, 0.75)
    assert (policy.select(rng), policy.buying) == (1, False)
    # whatever a label might tell, nothing is bought where the cost exceeds all disagreements
    rng = Script(0.24, 1.0, 0.0)
    assert (policy.select(rng), policy.buying) == (0, False)
    # three arms: all disagreements; all pairs of arm 0, though the first has failed, then arm 1
    rng = Script(1.0, 0.1, 0.5, 1.0, 0.1, 0.1, 1.0, 0.1, 1.0)
    policy = cls([0.0, 0.25, 0.5], price=1.0)
    # 1 and 2 differ, no label can be afforded: by the means 1/2 (2 6/7 - 1) = 5/14 is gained at each step
    assert policy.select(rng) == 2
    assert rng.asked == [FLAT] * 3 + [LATER] * 6
    assert not policy.buying
    assert cls([0.5], price=1.0).select(Script()) == 0


def learns(cls):
    policy = cls([0.0, 0.1, 0.2], price=1.0)
    policy.learn_label(2, [0, 1, 2], 2)  # the last is right
    policy.learn_label(2, [0, 1, 2], 0)  # the first is right: nobody of the others
    policy.learn_label(1, [0, 1], 1)
    policy.learn_label(2, [0, 0, 1], 1)
    assert policy.labels == 4
    assert policy.A.tolist() == [[0, 1, 2], [0, 0, 2], [0, 0, 0]]
    assert policy.B.tolist() == [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert policy.E.tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert not policy.N.any()
    for outputs in [(0, 1, 2), (0, 0), (1,)]:
        policy.update(len(outputs) - 1, outputs, None)
    assert policy.D.tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0]]
    assert policy.N.tolist() == [[0, 2, 1], [0, 0, 1], [0, 0, 0]]
    assert policy.t == 4
    # D + 1 and N - D + 1 of all; A + 6 and B + 1, then A + B + 1 and E only where E > 0
    free = [(2, 2), (2, 1), (2, 1)]
    first = [(7, 2), (3, 1), (8, 2)]
    second = [(8, 1), (3, 1)]
    rng = Script(*[1.0] * 13)
    assert policy.select(rng) == 2
    assert rng.asked == free + 2 * (first + second)


def by_the_means(cls):
    """A = 3, B = 0, E = 1, D = N = 4: p = 5/6, theta = 9/10, m = 4/5, so 5/6 4/5 4/5 = 8/15 is gained."""
    for cost, expected in [(0.534, 0), (0.533, 1)]:
        policy = cls([0.0, cost], price=1.0, cap=0.0)
        for truth in (1, 1, 1, 2):
            policy.learn_label(1, [0, 1], truth)
            policy.update(1, [0, 1], None)
        never, always = [0.0, 1.0], [1.0, 1.0]
        assert policy.select(Script(1.0, *never, *always)) == expected
        assert not policy.buying
    # D = 1 of N = 3, A = 1, B = 7, E = 0: p = 2/5, theta = 7/15: less than nothing
    policy = cls([0.0, 0.0], price=1.0, cap=0.0)
    for truth in (1, 0, 0, 0, 0, 0, 0, 0):
        policy.learn_label(1, [0, 1], truth)
    for outputs in ((0, 1), (0, 0), (0, 0)):
        policy.update(1, outputs, None)
    assert policy.best_guess() == 0
    # D = 1 of N = 2, A = 1: p = 1/2, theta = 7/8: 3/8, a tie with the cost
    policy = cls([0.0, 0.375], price=1.0, cap=0.0)
    policy.learn_label(1, [0, 1], 1)
    for outputs in ((0, 1), (0, 0)):
        policy.update(1, outputs, None)
    assert policy.best_guess() == 1
    # nothing known: 1/2 (2 6/7 - 1) = 5/14
    assert [cls([0.0, cost], price=1.0).best_guess() for cost in (0.357, 0.358)] == [1, 0]


def asks(cls):
    policy = cls([0.0, 0.1, 0.2], price=1.0)
    differ = np.zeros((3, 3), dtype=bool)
    differ[1, 2] = True
    for buying in (False, True):
        policy.buying = buying
        assert policy.wants_label(2, [0, 0, 1], None) is buying
        assert policy.wants_label_pairs(2, differ, None) is buying
        assert not policy.wants_label(2, [4, 4, 4], None)
        assert not policy.wants_label(1, [0, 0, 1], None)
        assert not policy.wants_label_pairs(1, differ, None)


def affords(cls):
    """(labels + 1) price <= cap price^(1/3) t^(2/3): with price 8 and cap 1, 4 (labels + 1) <= t^(2/3)."""
    for labels, last, first in [(0, 7, 8), (1, 22, 23), (2, 41, 42), (3, 63, 64), (8, 215, 216)]:
        for t, allowed in ((last, False), (first, True)):
            policy = cls([0.0, 0.1], price=8.0, cap=1.0)
            policy.labels, policy.t = labels, t
            assert policy.affordable() is allowed
    policy = cls([0.0, 0.1], price=1.0, cap=0.5)  # 2 <= t^(2/3)
    for t, allowed in ((2, False), (3, True)):
        policy.t = t
        assert policy.affordable() is allowed
    assert cls([0.0, 0.1], price=0.0, cap=0.0).affordable()
    assert not cls([0.0, 0.1], price=0.01, cap=0.0).affordable()


BATTERY = (samples, learns, by_the_means, asks, affords)


@pytest.mark.parametrize("part", BATTERY)
def test_the_policy(part):
    part(QUss)


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("<= p * m * (2.0 * theta - 1.0)", "< p * m * (2.0 * theta - 1.0)", 1),
        ("<= p[i, j] * m * (2.0 * theta - 1.0)", "< p[i, j] * m * (2.0 * theta - 1.0)", 1),
        (
            "        second = self.sample(p, rng)",
            "        p[0, -1] = 0.0\n        second = self.sample(p, rng)",
            1,
        ),
        ("TRUST = 5.0", "TRUST = 4.0", 1),
        ("return max(first, second)", "return min(first, second)", 1),
        ("second = self.sample(p, rng)", "second = first", 1),
        ("best = False  # all", "break  # all", 1),
        ("theta = rng.beta(1.0 + TRUST + A, 1.0 + B)", "theta = rng.beta(1.0 + A, 1.0 + TRUST + B)", 1),
        ("if self.E[i, j] > 0.0:", "if self.E[i, j] > 1.0:", 1),
        ("rng.beta(1.0 + A + B, self.E[i, j])", "rng.beta(1.0 + A, self.E[i, j])", 1),
        ("count = self.labels + 1.0", "count = self.labels + 0.0", 1),
        ("spent * spent * count <=", "spent * spent * count <", 1),
        ("spent * spent * count", "spent * count * count", 1),
        ("self.cap * self.cap * self.cap * (t * t)", "self.cap * self.cap * (t * t)", 1),
        ("m = (1.0 + labelled) / (1.0 + labelled + self.E[i, j])", "m = 1.0", 1),
        ("(2.0 + TRUST + labelled)", "(2.0 + TRUST + labelled + self.E[i, j])", 1),
        ("p = (1.0 + self.D[i, j]) / (2.0 + self.N[i, j])", "p = self.D[i, j] / (1.0 + self.N[i, j])", 1),
        (
            "outputs[k] != outputs[0]:\n                return self.buying",
            "outputs[k] != outputs[0]:\n                return True",
            1,
        ),
        ("        self.labels += 1\n", "        self.labels += arm\n", 1),
        ("if right[i] == right[j]:", "if not right[i] and right[j]:", 1),
        ("elif right[j]:", "elif right[i]:", 1),
        ("        self.t += 1\n", "", 1),
        ("self.buying = first != second and self.affordable()", "self.buying = first != second", 1),
    ],
)
def test_mutants_are_caught(old, new, count):
    mutant = mutate(q_uss, old, new, count).QUss
    assert not all(survives(lambda part=part: part(mutant)) for part in BATTERY)


@given(
    st.floats(0.0, 50.0),
    st.floats(0.0, 3.0),
    st.lists(st.lists(st.integers(0, 2), min_size=4, max_size=4), max_size=60),
    st.integers(0, 1000),
)
@example(1e-255, 0.0, [[0, 0, 1, 0]], 0)
def test_it_never_spends_more_than_its_cap(price, cap, rows, seed):
    policy, rng = QUss([0.0, 0.1, 0.2], price, cap), np.random.default_rng(seed)
    for t, (truth, *outputs) in enumerate(rows, start=1):
        arm = policy.select(rng)
        assert policy.t == t
        if policy.wants_label(arm, outputs[: arm + 1], rng):
            assert len(set(outputs[: arm + 1])) > 1
            policy.learn_label(arm, outputs[: arm + 1], truth)
            allowed = cap * price ** (1 / 3) * t ** (2 / 3)
            # a price so small that its square is 0 counts as nothing
            assert policy.labels * price <= allowed * (1 + 1e-9) + 1e-150
        policy.update(arm, outputs[: arm + 1], rng)
    labelled = policy.A + policy.B + policy.E
    assert (labelled <= np.minimum(policy.labels, policy.D)).all()
    assert (policy.D <= policy.N).all()


test_wrong_arguments_are_refused = refusals(
    lambda options: QUss([0.1, 0.2], **options),
    ({"price": -1}, "price must be a finite number >= 0, got -1"),
    ({"price": 1, "cap": -0.5}, "cap must be a finite number >= 0, got -0.5"),
    ({"price": None}, "price must be"),
    ({"price": float("inf")}, "price must be"),
)
