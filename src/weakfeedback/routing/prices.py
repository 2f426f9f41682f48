"""Validation of the prices of models that can be called alone, and of what their disagreements yield."""

from typing import Any

import numpy as np

from weakfeedback.validate import brief, vector

LEAST_YIELD = 1e-9  # a pair in which the dearer model is not better at all


def model_prices(value: Any) -> np.ndarray:
    """Validate the prices c_1 <= ... <= c_K of calling each model alone; the last is > 0.

    >>> model_prices([0.1, 0.4]).tolist()
    [0.1, 0.4]
    """
    prices = vector("prices", value, at_least=0.0)
    if (np.diff(prices) < 0.0).any():
        raise ValueError(
            f"prices must be sorted, from the cheapest model to the most expensive, got {brief(value)}"
        )
    if prices[-1] <= 0.0:
        raise ValueError(
            f"prices must end with a number > 0, the price of the last model, got {brief(value)}"
        )
    return prices


def yield_table(value: Any, models: int) -> np.ndarray:
    """Validate yields, K x K numbers up to 1; those of pairs i < j are used, and none below 1e-9; None: all 1.

    >>> yield_table([[1, 0.4], [1, 1]], 2).tolist()
    [[1.0, 0.4], [1.0, 1.0]]
    """
    if value is None:
        return np.ones((models, models))
    try:
        found = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.zeros(0)
    if found.shape != (models, models) or not (found <= 1.0).all():
        raise ValueError(f"yields must be a table of {models} x {models} numbers up to 1, got {brief(value)}")
    return np.maximum(found, LEAST_YIELD)
