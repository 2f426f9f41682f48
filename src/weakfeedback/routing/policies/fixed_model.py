"""A policy that learns nothing: it always calls the same model, alone."""

from typing import ClassVar

import numpy as np

from weakfeedback.routing.prices import model_prices
from weakfeedback.validate import integer


class FixedModel:
    """Always calls the same model, alone.

    Draws: none.

    Parameters
    ----------
    prices : K non-decreasing numbers >= 0, the last > 0
        ``prices[k]`` is what a call of model ``k`` alone costs, in units of an error.
    model : integer from 0 to K-1
        The model to call.

    Examples
    --------
    >>> FixedModel([0.05, 0.40], model=1).select(None).tolist()
    [False, True]
    """

    in_short = "always calls the same model, alone"
    sample_options: ClassVar = {"model": 0}
    delay_safe = True
    recostable = True

    def __init__(self, prices, model):
        self.c = model_prices(prices)
        self.K = self.c.size
        self.model = integer("model", model, 0, self.K - 1)

    def select(self, rng):
        """Return which models to call: the last of them answers."""
        call = np.zeros(self.K, dtype=np.bool_)
        call[self.model] = True
        return call

    def settled(self):
        """Return the model that is trusted."""
        return self.model

    def start(self, call, rng):
        """Count nothing."""

    def update(self, call, outputs, rng):
        """Learn nothing."""

    def update_pairs(self, call, differ, rng):
        """Learn nothing."""

    def warm_pairs(self, differ):
        """Learn nothing."""

    def cancel(self, call):
        """Do nothing: there are no open comparisons."""

    def reprice(self, prices):
        """Continue with new prices."""
        for k in range(self.K):
            self.c[k] = prices[k]
