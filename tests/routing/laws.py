"""Random problems of routing: models that mostly agree, some with three labels, some with equal prices."""

import numpy as np


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
