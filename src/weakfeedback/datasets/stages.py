"""Cascades with scores built from a data set: each stage's predictions and confidence on rows it was not trained on.

Every stage predicts each tenth of the rows after training on the other nine. Logistic stages are trained to machine
precision, the nearest neighbours of the digits have integer distances, and scores are rounded to six digits:
so the tables are the same on every processor.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.datasets.cascades import BREAST_CANCER, HEART, PIMA
from weakfeedback.datasets.dataset import Dataset
from weakfeedback.datasets.logistic import fit_logistic
from weakfeedback.datasets.medical import load_breast_cancer, load_heart, load_pima

FOLDS = 10
DIGITS = 6  # decimals of a score
WIDTH = 200.0  # squared distance between digits over which the belief in a neighbour falls by the factor e
# train rows, their target, rows -> chances
Stage = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


class Recorded(NamedTuple):
    """The arguments of ``AdaptiveProblem``: n true labels, (n, K) answers and scores, (n, L) final chances."""

    truth: np.ndarray
    outputs: np.ndarray
    scores: np.ndarray
    chances: np.ndarray


@functools.cache
def record(dataset: Dataset, subsets: tuple[tuple[str, ...], ...], neighbours: bool = False) -> Recorded:
    """Run logistic stages on growing subsets of the features.

    With ``neighbours`` the last one looks for the nearest row of each label, and those before it are linear
    discriminants, which are found in one step for any number of labels. Labels are 0, ..., L-1. Cached for the life
    of the process.
    """
    outputs, scores = [], []
    chances = np.zeros((0, 0))
    for k, columns in enumerate(subsets):
        stage = _logistic if not neighbours else _discriminant if k < len(subsets) - 1 else _nearest
        chances = _out_of_fold(dataset.select(columns), dataset.target, stage)
        outputs.append(chances.argmax(axis=1))
        scores.append(chances.max(axis=1))
    found = (
        dataset.target,
        np.column_stack(outputs),
        np.column_stack(scores).round(DIGITS),
        chances.round(DIGITS),
    )
    for array in found:
        array.setflags(write=False)
    return Recorded(*found)


def breast_cancer_stages(_data: Any = None) -> Recorded:
    """Texture and smoothness; all ten means; all thirty features."""
    return record(load_breast_cancer(), (BREAST_CANCER.subsets[0], *BREAST_CANCER.subsets[2:]))


def wine_stages(_data: Any = None) -> Recorded:
    """Proanthocyanins; with alcohol, hue and colour; all thirteen features."""
    dataset = load_wine()
    few = ("proanthocyanins", "alcohol", "hue", "color_intensity")
    return record(dataset, (few[:1], few, dataset.columns))


def digits_stages(_data: Any = None) -> Recorded:
    """Sixteen blocks of four pixels; all pixels; the nearest of the other digits."""
    dataset = load_digits()
    blocks = tuple(name for name in dataset.columns if name.startswith("block"))
    pixels = tuple(name for name in dataset.columns if name.startswith("pixel"))
    return record(dataset, (blocks, pixels, pixels), neighbours=True)


def pima_stages(data: Any = None) -> Recorded:
    """Profile; with the glucose test; with the insulin test. ``data`` is the folder of the data set."""
    return record(load_pima(data), PIMA.subsets)


def heart_stages(data: Any = None) -> Recorded:
    """Six features at rest; with three of exercise; with three more. ``data`` is the folder of the data set."""
    return record(load_heart(data), HEART.subsets)


def load_wine() -> Dataset:
    """Return the wines that come with scikit-learn: 178 rows, 13 features, 3 labels."""
    from sklearn.datasets import load_wine

    raw = load_wine()
    return Dataset("wine", tuple(raw.feature_names), raw.data, raw.target, "scikit-learn")


def load_digits() -> Dataset:
    """Return the digits of scikit-learn: 1797 rows, 64 pixels and the sums of their 16 blocks, 10 labels."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    blocks = raw.data.reshape(-1, 4, 2, 4, 2).sum(axis=(2, 4)).reshape(-1, 16)
    columns = (*(f"pixel {k}" for k in range(64)), *(f"block {k}" for k in range(16)))
    return Dataset("digits", columns, np.column_stack([raw.data, blocks]), raw.target, "scikit-learn")


def _out_of_fold(x: np.ndarray, target: np.ndarray, stage: Stage) -> np.ndarray:
    fold = np.arange(len(target)) % FOLDS
    found = np.zeros((len(target), int(target.max()) + 1))
    for k in range(FOLDS):
        found[fold == k] = stage(x[fold != k], target[fold != k], x[fold == k])
    return found


def _logistic(train: np.ndarray, target: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Fit logistic regressions; with more than two labels one against the rest, scaled to a sum of 1."""
    shift, scale = train.mean(axis=0), train.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    train, rows = (train - shift) / scale, (rows - shift) / scale
    labels = int(target.max()) + 1
    if labels == 2:
        yes = _chance(fit_logistic(train, target).decide(rows))
        return np.column_stack([1.0 - yes, yes])
    each = [_chance(fit_logistic(train, (target == c).astype(np.int64)).decide(rows)) for c in range(labels)]
    table = np.column_stack(each)
    found: np.ndarray = table / table.sum(axis=1, keepdims=True)
    return found


def _discriminant(train: np.ndarray, target: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Fit normal distributions with a common covariance; a hundredth of the mean variance is added to each variance."""
    labels = range(int(target.max()) + 1)
    means = np.array([train[target == c].mean(axis=0) for c in labels])
    apart = train - means[target]
    covariance = apart.T @ apart / len(train)
    covariance += 0.01 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, means.T)
    shares = np.array([(target == c).mean() for c in labels])
    level = rows @ weights - 0.5 * (means.T * weights).sum(axis=0) + np.log(shares)
    belief = np.exp(level - level.max(axis=1, keepdims=True))
    found: np.ndarray = belief / belief.sum(axis=1, keepdims=True)  # typed for older NumPy
    return found


def _nearest(train: np.ndarray, target: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return beliefs that fall exponentially with the squared distance to the nearest row of each label (integers)."""
    whole, other = rows.astype(np.int64), train.astype(np.int64)
    apart = (whole**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2 * whole @ other.T
    least = np.column_stack([apart[:, target == c].min(axis=1) for c in range(int(target.max()) + 1)])
    belief = np.exp(-(least - least.min(axis=1, keepdims=True)) / WIDTH)
    found: np.ndarray = belief / belief.sum(axis=1, keepdims=True)
    return found


def _chance(decision: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * decision)
