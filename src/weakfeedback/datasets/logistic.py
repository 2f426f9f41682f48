"""Logistic regression solved to machine precision, so that a named instance is the same on every processor.

A general solver stops at a tolerance, and where it stops depends on the order in which the processor's instructions
add: rows near the decision boundary are then predicted differently on different machines. Newton's method
converges to rounding error instead: decision values are exact to about 1e-14.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

Intercept = Literal["penalised", "free", "none"]
STEPS = 100  # the data sets here take at most 12


class Logistic(NamedTuple):
    """A classifier: label 1 where ``x.weights + intercept`` is positive."""

    weights: np.ndarray
    intercept: float

    def decide(self, features: np.ndarray) -> np.ndarray:
        """Return the decision value of every row."""
        found: np.ndarray = features @ self.weights + self.intercept
        return found


def fit_logistic(
    features: np.ndarray, target: np.ndarray, strength: float = 1.0, intercept: Intercept = "free"
) -> Logistic:
    """Return the minimiser of |w|^2 / 2 + strength * (sum of log losses), w without or with the intercept.

    ``strength`` is scikit-learn's C. The intercept is "penalised" like a weight (as liblinear does), "free" (as the
    other solvers of scikit-learn do) or there is "none".

    >>> model = fit_logistic(np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1]))
    >>> round(float(model.weights[0]), 6), round(model.intercept, 6)
    (0.958286, -1.437429)
    """
    x = features if intercept == "none" else np.column_stack([features, np.ones(len(features))])
    penalty = np.ones(x.shape[1])
    if intercept == "free":
        penalty[-1] = 0.0
    w = np.zeros(x.shape[1])
    for _ in range(STEPS):
        chance = 0.5 + 0.5 * np.tanh(0.5 * (x @ w))
        slope = penalty * w + strength * (x.T @ (chance - target))
        curvature = np.diag(penalty) + strength * (x.T * (chance * (1.0 - chance))) @ x
        step = np.linalg.solve(curvature, slope)
        w = w - step
        # each step squares the error, so only rounding error is left
        if np.abs(x @ step).max() <= 1e-8:
            return Logistic(w, 0.0) if intercept == "none" else Logistic(w[:-1], float(w[-1]))
    raise ArithmeticError(f"logistic regression has not converged in {STEPS} steps")
