"""What contexts without weak dominance cost: loops over rows, the theorem's identities, and a policy that pays it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weakfeedback.contextual import ContextualProblem, instances, theory


def slow(problem):
    """Row by row, arms from 1."""
    loss, most, undecided = 0.0, 0.0, 0
    for x in range(len(problem.gaps)):
        C = dict(enumerate(problem.costs.tolist(), 1))
        p = {(i, j): problem.disagreement[x, i - 1, j - 1] for i in C for j in C}
        a = min(i for i in C if all(C[j] - C[i] - p[i, j] > 1e-12 for j in C if j > i))
        if any(C[a] - C[k] - p[k, a] > 1e-12 for k in C if k < a):
            undecided += 1
            continue
        loss += problem.gaps[x, a - 1]
        most += max([C[a] - C[k] + p[k, a] for k in C if k < a], default=0.0)
    n = len(problem.gaps)
    return loss / n, most / n, undecided / n


def random_problem(seed):
    rng = np.random.default_rng(seed)
    arms = int(rng.integers(2, 5))
    return ContextualProblem(
        rng.uniform(-1, 1, (30, 2)),
        rng.integers(0, 2, 30),
        rng.normal(size=(arms, 2)) * 3,
        np.cumsum(rng.uniform(0.01, 0.3, arms)),
        labels=("random", "thresholded")[seed % 2],
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_loops_agree_and_the_bound_is_one(seed):
    problem = random_problem(seed)
    found = theory.unavoidable(problem)
    assert (found.loss, found.at_most, found.undecided) == pytest.approx(slow(problem), abs=1e-12)
    assert 0.0 <= found.loss <= found.at_most + 1e-12
    if problem.weak_dominance.all():
        assert found.loss == 0.0


def test_it_is_what_a_policy_pays_that_knows_the_disagreements():
    """The walk with the true disagreements settles on a(x) in every context."""
    problem = instances.load("synthetic-1")
    found = theory.unavoidable(problem)
    assert found.loss == pytest.approx(slow(problem)[0])
    assert 0.0 < found.undecided < 0.01
    lossy = ~problem.weak_dominance
    assert found.loss <= problem.gaps.max(axis=1)[lossy].sum() / len(problem.gaps)
