"""Cascades whose stages answer with numbers: a small tree, a ridge regression and a forest, and how to stack them.

Every stage predicts each fifth of the rows after training on the other four. The target is divided by its standard
deviation. The data come with scikit-learn (diabetes) or are drawn from a fixed seed (Friedman's three functions).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.validate import brief, integer, vector

SETS = ("diabetes", "friedman1", "friedman2", "friedman3")
FOLDS = 5
ROWS = 1000  # of the functions of Friedman
NOISE = {"friedman1": 1.0, "friedman2": 125.0, "friedman3": 0.1}
# what the tree sees
FIRST = {"diabetes": (0, 3), "friedman1": (0, 4), "friedman2": (0, 2), "friedman3": (0, 2)}
DIGITS = 6


class Numbers(NamedTuple):
    """n true values, and (n, K) values that the stages predict."""

    truth: np.ndarray
    predictions: np.ndarray


@functools.cache
def numeric_cascade(name: str, stacked: bool = True, seed: int = 0) -> Numbers:
    """Return truth and predictions of 3 stages, a tree on two features, a ridge regression and a forest.

    With ``stacked`` each later stage is a linear stack of itself and those before it, fitted on other rows than it
    predicts. Rows of the functions of Friedman are drawn from ``seed``. Cached for the life of the process.

    >>> truth, predictions = numeric_cascade("diabetes")
    >>> predictions.shape
    (442, 3)
    """
    if name not in SETS:
        raise ValueError(f"name must be one of {', '.join(SETS)}, got {brief(name)}")
    x, y = numeric_data(name, seed)
    truth = y / y.std()
    columns = np.column_stack(
        [
            _out_of_fold(stage, x[:, list(FIRST[name])] if k == 0 else x, truth)
            for k, stage in enumerate(_stages())
        ]
    )
    predictions = (stack(truth, columns, FOLDS) if stacked else columns).round(DIGITS)
    predictions.setflags(write=False)
    truth.setflags(write=False)
    return Numbers(truth, predictions)


def stack(truth: Any, predictions: Any, folds: int = 1) -> np.ndarray:
    """Return the predictions, each later stage replaced by the least-squares linear stack of itself and the earlier.

    A stack is calibrated given the earlier stages, so the movement of the answer is what it improves. With one fold it
    is fitted on the rows that it predicts (there the identity is exact), with more on the other folds.

    >>> stack([1.0, 2.0, 3.0, 4.0], [[1.0, 0.0], [1.0, 2.0], [1.0, 4.0], [1.0, 6.0]]).round(6)[:, 1].tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    columns = np.asarray(predictions, dtype=float)
    if columns.ndim != 2 or not np.isfinite(columns).all():
        raise ValueError(f"predictions must be finite numbers of shape (n, K), got {brief(predictions)}")
    target = vector("truth", truth, size=len(columns))
    parts = integer("folds", folds, 1, len(target))
    found = columns.copy()
    for part in range(parts):
        shown = np.arange(len(target)) % parts == part
        known = ~shown if parts > 1 else shown
        for k in range(1, columns.shape[1]):
            design = np.column_stack((np.ones(len(target)), columns[:, : k + 1]))
            weights = np.linalg.lstsq(design[known], target[known], rcond=None)[0]
            found[shown, k] = design[shown] @ weights
    return found


def numeric_data(name: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return the features and the target of the rows of `numeric_cascade`, in its order."""
    from sklearn import datasets

    if name == "diabetes":
        x, y = datasets.load_diabetes(return_X_y=True)
    else:
        make = getattr(datasets, f"make_{name}")
        x, y = make(n_samples=ROWS, noise=NOISE[name], random_state=seed)
    order = np.random.default_rng(0).permutation(len(y))
    return x[order], y[order]


def _stages() -> list[Any]:
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeRegressor

    return [
        DecisionTreeRegressor(max_depth=3, random_state=0),
        make_pipeline(StandardScaler(), Ridge(alpha=1.0)),
        RandomForestRegressor(n_estimators=30, min_samples_leaf=3, random_state=0),
    ]


def _out_of_fold(stage: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    from sklearn.model_selection import KFold, cross_val_predict

    found: np.ndarray = cross_val_predict(stage, x, y, cv=KFold(FOLDS))
    return found
