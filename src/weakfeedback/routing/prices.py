"""Validation of the prices of models that can be called alone."""

from typing import Any

import numpy as np

from weakfeedback.validate import brief, vector


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
