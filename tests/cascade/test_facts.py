"""What the policies and the audit rest on, checked on every law of a small family, and where it ends."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from weakfeedback.cascade import CascadeProblem

EIGHTH = Fraction(1, 8)


def compositions(total, parts):
    """All ways to split a total among so many parts."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def laws(total=4):
    """Every law of three arms that are right (0) or wrong (1), in steps of 1 / total; with two labels that is all."""
    patterns = list(itertools.product((0, 1), repeat=3))
    for weights in compositions(total, len(patterns)):
        yield [(p, Fraction(w, total)) for p, w in zip(patterns, weights) if w]


def chance(law, event):
    return sum((w for p, w in law if event(p)), Fraction(0))


def test_two_facts_about_the_upper_set_on_every_law():
    """a = min B^h beats every later arm, weak dominance or not; and weak dominance holds iff a is the optimal arm."""
    held, failed = 0, 0
    for law in laws():
        errors = [chance(law, lambda p, i=i: p[i] == 1) for i in range(3)]
        p = {
            (i, j): chance(law, lambda q, i=i, j=j: q[i] != q[j])
            for i, j in itertools.combinations(range(3), 2)
        }
        for extra in itertools.product((1, 2, 3, 5), repeat=2):
            costs = [0, extra[0] * EIGHTH, sum(extra) * EIGHTH]
            total = [e + c for e, c in zip(errors, costs)]
            best = max(i for i in range(3) if total[i] == min(total))
            higher = [i for i in range(3) if all(costs[j] - costs[i] > p[i, j] for j in range(i + 1, 3))]
            a = min(higher)
            assert all(total[a] < total[j] for j in range(a + 1, 3))
            dominance = all(costs[j] - costs[best] > p[best, j] for j in range(best + 1, 3))
            assert dominance == (a == best)
            held, failed = held + dominance, failed + (not dominance)
    assert min(held, failed) > 500  # both sides were met


def test_problems_say_the_same():
    rng = np.random.default_rng(0)
    for _ in range(200):
        outcomes = rng.integers(0, 3, size=(6, 4))
        problem = CascadeProblem(outcomes, rng.dirichlet(np.ones(6)), np.cumsum(rng.uniform(0, 0.4, size=3)))
        a = min(problem.upper_set)
        assert (problem.total_costs[a] < problem.total_costs[a + 1 :]).all()
        assert problem.weak_dominance == (a == problem.optimal_arm)


def label_laws(seed, labels):
    """Laws of a truth and two answers over so many labels: all point laws, then random ones."""
    rows = list(itertools.product(range(labels), repeat=3))
    for row in rows:
        yield {row: 1.0}
    rng = np.random.default_rng(seed)
    for _ in range(200):
        yield dict(zip(rows, rng.dirichlet(np.full(len(rows), 0.3))))


@pytest.mark.parametrize("labels", [2, 3, 4])
def test_a_label_tells_only_where_answers_differ(labels):
    """gamma_i - gamma_j = p m (2 theta - 1), all three taken over the rounds in which the answers differ."""
    for law in label_laws(labels, labels):
        saved = sum(w * ((i != y) - (j != y)) for (y, i, j), w in law.items())
        same = sum(w * ((i != y) - (j != y)) for (y, i, j), w in law.items() if i == j)
        assert same == 0
        p = sum(w for (_, i, j), w in law.items() if i != j)
        one_right = sum(w for (y, i, j), w in law.items() if i != j and y in (i, j))
        second = sum(w for (y, i, j), w in law.items() if i != j and y == j)
        m = one_right / p if p else 0.0
        theta = second / one_right if one_right else 0.5
        assert saved == pytest.approx(p * m * (2 * theta - 1), abs=1e-12)
        assert saved <= p + 1e-12  # disagreement bounds what the later arm saves, with any number of labels
        if labels == 2 and p:
            assert m == pytest.approx(1.0)


def strong_without_weak(labels):
    """The first point law and extra cost with strong dominance and without weak dominance, by search."""
    for row in itertools.product(range(labels), repeat=3):
        for extra in (0.25, 0.5, 0.75):
            problem = CascadeProblem([row], [1.0], costs=[0.0, extra])
            if problem.strong_dominance and not problem.weak_dominance:
                return row, extra, problem
    return None


def test_strong_dominance_implies_weak_dominance_with_two_labels_only():
    """With three labels two arms may be wrong in different ways: they differ, and the dearer one saves nothing."""
    assert strong_without_weak(2) is None
    (y, first, second), extra, problem = strong_without_weak(3)
    assert len({y, first, second}) == 3
    assert problem.errors.tolist() == [1.0, 1.0]
    assert problem.disagreement[0, 1] == 1.0 > extra
    assert problem.optimal_arm == 0
    # with two labels on every law of the family, too
    for law in laws():
        # an arm that is right makes later ones right
        if all(q[i] >= q[j] for q, _ in law for i, j in ((0, 1), (1, 2))):
            for i, j in itertools.combinations(range(3), 2):
                assert chance(law, lambda q, i=i, j=j: q[i] != q[j]) == sum(
                    (w * (q[i] - q[j]) for q, w in law), Fraction(0)
                )


def test_a_tolerance_breaks_the_bound_and_a_metric_keeps_it():
    """Y = 0, answers 1.2 tol and 0.6 tol: by a tolerance they agree, but one is wrong and the other right."""
    tol = 0.1
    far = lambda a, b: abs(a - b) > tol  # noqa: E731
    y, first, second = 0.0, 1.2 * tol, 0.6 * tol
    assert far(first, y) - far(second, y) == 1 > far(first, second)
    rng = np.random.default_rng(0)
    for y, first, second in rng.uniform(0, 1, size=(1000, 3)):
        saved = abs(first - y) - abs(second - y)
        assert saved <= abs(first - second) + 1e-15
