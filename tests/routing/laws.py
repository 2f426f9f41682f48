"""Random problems of routing: models that mostly agree, some with three labels, some with equal prices."""

import numpy as np
from scipy.stats import norm

from weakfeedback.routing import RoutingProblem


def random_law(seed):
    """Rows, probabilities and prices of 2 to 5 models."""
    rng = np.random.default_rng(seed)
    models, rows = int(rng.integers(2, 6)), int(rng.integers(3, 14))
    outcomes = rng.integers(0, 2 + seed % 2, size=(rows, models + 1))
    outcomes = np.where(rng.random(outcomes.shape) < rng.uniform(0.1, 0.9), outcomes, outcomes[:, :1])
    prices = np.sort(10 ** rng.uniform(-3, 0, size=models)) * rng.uniform(0.05, 0.8)
    if seed % 5 == 4:
        prices[0] = prices[1] if seed % 2 else 0.0
    return outcomes, rng.dirichlet(np.ones(rows)), prices


def copula_world(rng):
    """2 to 5 models whose errors come from a Gaussian copula; prices 1:2 to 1:200, the last .01 to .6 of an error."""
    models = int(rng.integers(2, 6))
    ratio = 10 ** rng.uniform(0.301, 2.301)
    last = 10 ** rng.uniform(-2, -0.222)
    steps = np.sort(np.concatenate(([0.0, 1.0], rng.random(models - 2))))
    errors = np.sort(10 ** rng.uniform(-2.3, -0.301, size=models))[::-1]
    if rng.random() < 0.15:
        errors = rng.permutation(errors)
    shared = rng.choice([0.2, 0.5, 0.8, 0.95])
    normal = np.sqrt(shared) * rng.normal(size=(20_000, 1)) + np.sqrt(1 - shared) * rng.normal(
        size=(20_000, models)
    )
    same = rng.random(normal.shape) < rng.choice([1.0, 0.5])  # whether a wrong answer is the usual wrong one
    outputs = np.where(normal < norm.ppf(errors), np.where(same, 1, 2 + np.arange(models)), 0)
    rows, counts = np.unique(outputs, axis=0, return_counts=True)
    rows = np.column_stack((np.zeros(len(rows), dtype=np.int64), rows))
    return RoutingProblem(rows, counts / counts.sum(), last / ratio * ratio**steps)
