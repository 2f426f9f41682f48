"""Bought labels: what they add to the measures of a cascade, and how many labels a problem has."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakfeedback.cascade.problem import CascadeProblem


def measures_with_labels(problem: CascadeProblem, counts: Any, price: float) -> dict[str, np.ndarray]:
    """Turn pull counts and the number of labels bought, shape (..., K + 1), into measures, shape (...) each.

    What the labels cost is part of the cost and of the regret.

    >>> problem = CascadeProblem([[1, 1, 1], [1, 0, 1]], [0.5, 0.5], costs=[0.25, 0.5])
    >>> measures = measures_with_labels(problem, [3, 5, 2], price=0.5)
    >>> measures["regret"].item(), measures["cost"].item(), measures["labels"].item()
    (1.75, 4.25, 2)
    """
    table = np.asarray(counts)
    if table.ndim < 1 or table.shape[-1] != problem.arms + 1:
        raise ValueError(f"counts must be integers of shape (..., {problem.arms + 1}), got {table.shape}")
    measures = problem.measures(table[..., :-1])
    labels = table[..., -1].copy()
    for name in ("regret", "cost"):
        measures[name] = measures[name] + labels * price
    return {**measures, "labels": labels}


def most_outputs(problem: CascadeProblem) -> int:
    """Return the largest number of different outputs that the arms can give in one round.

    >>> most_outputs(CascadeProblem([[1, 1, 1, 1], [1, 0, 1, 2]], [1.0, 0.0], costs=[0.1, 0.2, 0.3]))
    1
    """
    possible = np.sort(problem._rows[problem._probabilities > 0.0, 1:], axis=1)
    return int((np.diff(possible, axis=1) != 0).sum(axis=1).max()) + 1
