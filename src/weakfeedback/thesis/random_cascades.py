"""Random cascades, on which statements about all cascades are checked, and random rows of a cascade."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import numpy as np

from weakfeedback.cascade import CascadeProblem


def random_problem(rng: np.random.Generator, most_arms: int = 4) -> CascadeProblem:
    """Return a cascade with a random law of binary outputs whose errors tend to fall, and random costs.

    >>> random_problem(np.random.default_rng(1)).arms <= 4
    True
    """
    arms = int(rng.integers(2, most_arms + 1))
    outcomes, weights = binary_rows(arms)
    law = rng.dirichlet(weights)
    return CascadeProblem(outcomes, law, np.cumsum(rng.uniform(0.0, rng.choice([0.1, 0.3, 0.6]), arms)))


@functools.cache
def binary_rows(arms: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all rows (y, y1, ..., yK) of binary outputs, and weights that halve with every error.

    >>> binary_rows(1)[0].tolist(), binary_rows(1)[1].tolist()
    ([[0, 0], [0, 1], [1, 0], [1, 1]], [0.6, 0.3, 0.3, 0.6])
    """
    outcomes = np.array(list(itertools.product((0, 1), repeat=arms + 1)))
    wrong = (outcomes[:, 1:] != outcomes[:, :1]).sum(axis=1)
    return outcomes, 0.6 * 0.5**wrong


def random_dominant(rng: np.random.Generator, most_arms: int = 4) -> CascadeProblem:
    """Return a random cascade with strong dominance: from some arm on all are right, all before it are wrong.

    >>> random_dominant(np.random.default_rng(1)).strong_dominance
    True
    """
    arms = int(rng.integers(2, most_arms + 1))
    pairs = itertools.product((0, 1), range(arms + 1))
    outcomes = [[y] + [y if arm >= first else 1 - y for arm in range(arms)] for y, first in pairs]
    law = rng.dirichlet(np.ones(len(outcomes)))
    return CascadeProblem(outcomes, law, np.cumsum(rng.uniform(0.0, 0.3, arms)))


def random_problems(
    count: int, seed: int, wanted: Callable[[CascadeProblem], bool] | None = None
) -> list[CascadeProblem]:
    """Return the first ``count`` random cascades of a seed that satisfy ``wanted``."""
    rng = np.random.default_rng(seed)
    found: list[CascadeProblem] = []
    while len(found) < count:
        problem = random_problem(rng, most_arms=5)
        if wanted is None or wanted(problem):
            found.append(problem)
    return found
