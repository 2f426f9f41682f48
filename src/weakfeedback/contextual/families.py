"""The data of the named problems of chapter 3: synthetic contexts, trained arms, parameters of pairs."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.contextual.arguments import pairs
from weakfeedback.contextual.features import QuadraticFeatures
from weakfeedback.contextual.problem import ContextualProblem, RealizableProblem
from weakfeedback.datasets import Dataset
from weakfeedback.datasets.logistic import Logistic, fit_logistic

SYNTHETIC_SEED = 0
# scikit-learn's C of the five synthetic classifiers. The thesis says only that the regularisation varies. With these
# the fourth arm is the best fixed one, and the shares of weak dominance for it are those of the thesis's table.
STRENGTHS = (1e-3, 3e-3, 1e-2, 3e-2, 1e3)


class Arms(NamedTuple):
    """Contexts, their labels, and the trained parameters of every arm."""

    contexts: np.ndarray
    truth: np.ndarray
    parameters: tuple[np.ndarray, ...]
    intercepts: np.ndarray


@functools.cache
def synthetic_contexts() -> np.ndarray:
    """Return the 5000 contexts of the synthetic data, uniform in (-1, 1)^3."""
    table = np.random.default_rng(SYNTHETIC_SEED).uniform(-1.0, 1.0, size=(5000, 3))
    table.setflags(write=False)
    return table


@functools.cache
def synthetic_arms() -> Arms:
    """Train five logistic classifiers without bias on the synthetic data, label 1 if x1 + x1 x2 + x3^2 >= 0."""
    x = synthetic_contexts()
    truth = (x[:, 0] + x[:, 0] * x[:, 1] + x[:, 2] ** 2 >= 0.0).astype(np.int64)
    models = [fit_logistic(x, truth, strength, intercept="none") for strength in STRENGTHS]
    return _arms(x, truth, models)


def synthetic(costs: Any, arms: Any = None, labels: str = "random") -> ContextualProblem:
    """Return the synthetic problem with these cumulative costs.

    ``arms`` chooses some of the five classifiers, in rising order, one per cost; None takes the first ones.

    >>> synthetic([0.01, 0.02, 0.032, 0.05, 0.6]).best_fixed_arm
    3
    """
    trained = synthetic_arms()
    chosen = tuple(range(len(costs))) if arms is None else tuple(arms)
    if len(chosen) != len(costs) or not set(chosen) <= set(range(5)) or sorted(set(chosen)) != list(chosen):
        raise ValueError(f"arms must be rising indices from 0 to 4, one for each of the costs, got {arms!r}")
    return ContextualProblem(
        trained.contexts,
        trained.truth,
        [trained.parameters[arm] for arm in chosen],
        costs,
        labels,
        features=QuadraticFeatures(math.sqrt(3.0)),
    )


def realizable(costs: Any, base: float, regret: str = "signed") -> RealizableProblem:
    """Return a problem with known disagreements on the synthetic contexts, where arm 0 is optimal everywhere.

        logit p_ij(x) = logit(base (j - i)) + q_ij(x),   |q_ij(x)| <= .35 over the contexts

    with q_ij a quadratic form without constant, whose direction is drawn once, from the seed (i, j). The thesis fixes
    parameters that it does not print. With these, weak dominance holds in every context, and xi is at least the
    increment of its cost formula minus mu(logit(base) + .35), so it grows with the case number (the caption of the
    thesis's figure says that it falls).

    >>> round(realizable([0.1, 0.19, 0.28, 0.37], base=0.05).xi, 3)
    0.021
    """
    contexts = synthetic_contexts()
    features = QuadraticFeatures(math.sqrt(3.0)).fit(contexts)
    phi = features(contexts)
    scale = 1.0 + features.bound**2  # the constant feature is 1 / scale
    parameters = {}
    for i, j in zip(*pairs(len(costs))):
        theta = np.random.default_rng((i, j)).standard_normal((phi.shape[1],))
        theta[0] = 0.0
        theta *= 0.35 / np.abs(phi @ theta).max()
        chance = base * (j - i)
        theta[0] = scale * math.log(chance / (1.0 - chance))
        parameters[i, j] = theta
    return RealizableProblem(contexts, parameters, costs, features, regret)


def varying(costs: Any = (0.1, 0.3, 0.6), regret: str = "signed") -> RealizableProblem:
    """Return a problem with known disagreements where the best of three arms changes with the context.

    Contexts are those of the synthetic data with |x1|, |x2| >= .25. logit p_01 = -1.4 + 2.4 x1, logit p_02 = 3 x1 and
    logit p_12 = -.85 + 2.4 x2. With the costs .1, .3, .6 arm 0 is optimal for x1 < 0, arm 1 for x1 > 0 > x2 and arm 2
    for x1, x2 > 0; weak dominance holds everywhere.

    >>> np.bincount(varying().optimal_arms).tolist(), round(varying().xi, 3)
    ([1322, 760, 684], 0.082)
    """
    table = synthetic_contexts()
    contexts = table[(np.abs(table[:, 0]) >= 0.25) & (np.abs(table[:, 1]) >= 0.25)]
    features = QuadraticFeatures(math.sqrt(3.0)).fit(contexts)
    scale = 1.0 + features.bound**2
    slope = scale / math.sqrt(2.0)

    def linear(constant: float, first: float, second: float) -> np.ndarray:
        theta = np.zeros(10)
        theta[:3] = constant * scale, first * slope, second * slope
        return theta

    parameters = {
        (0, 1): linear(-1.4, 2.4, 0.0),
        (0, 2): linear(0.0, 3.0, 0.0),
        (1, 2): linear(-0.85, 0.0, 2.4),
    }
    return RealizableProblem(contexts, parameters, costs, features, regret)


@functools.cache
def trained(dataset: Dataset, columns: tuple[str, ...], sizes: tuple[int, ...]) -> Arms:
    """Train one logistic classifier on each of the first ``sizes`` columns, scaled to [0, 1], on all rows.

    Min-max scaling and a penalised intercept (as in liblinear) with C = 1 come closest to the shares of weak dominance
    that the thesis prints.
    """
    from sklearn.preprocessing import MinMaxScaler

    contexts = MinMaxScaler(clip=True).fit_transform(dataset.select(columns))
    models = [fit_logistic(contexts[:, :size], dataset.target, 1.0, intercept="penalised") for size in sizes]
    return _arms(contexts, dataset.target, models)


def _arms(contexts: np.ndarray, truth: np.ndarray, models: list[Logistic]) -> Arms:
    intercepts = np.array([model.intercept for model in models])
    return Arms(contexts, truth, tuple(model.weights for model in models), intercepts)


def classifiers(
    dataset: Dataset, columns: tuple[str, ...], sizes: tuple[int, ...], costs: Any, labels: str
) -> ContextualProblem:
    """Return the problem of classifiers on nested feature subsets of a data set."""
    arms = trained(dataset, columns, sizes)
    return ContextualProblem(arms.contexts, arms.truth, arms.parameters, costs, labels, arms.intercepts)
