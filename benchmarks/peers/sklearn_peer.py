"""scikit-learn: what a user without this library would write, a logistic regression per pair, refitted every round."""

import warnings

import numpy as np
from sklearn.linear_model import LogisticRegression

from serve import serve

warnings.simplefilter("ignore")


def observed(features, rounds):
    """Features and disagreements like those of our case: quadratic features of contexts, three logistic arms."""
    raw = {10: 3, 45: 8, 105: 13}[features]
    rng = np.random.default_rng(features)
    x = rng.uniform(-1.0, 1.0, size=(3000, raw))
    direction = rng.normal(size=raw)
    first, second = np.triu_indices(raw, 1)
    root = np.sqrt(2.0)
    parts = [np.ones((3000, 1)), root * x, x**2, root * x[:, first] * x[:, second]]
    phi = np.hstack(parts)[:rounds] / (1.0 + raw)
    logits = np.outer(x @ direction, [0.3, 1.0, 4.0])[:rounds]
    outputs = rng.random(logits.shape) < 1.0 / (1.0 + np.exp(-logits))
    labels = [outputs[:, i] != outputs[:, j] for i in range(3) for j in range(i + 1, 3)]
    return phi, labels


def prepare(features, rounds, at, **_):
    """Refits of all pairs with ``at`` observations; a run is so many rounds."""
    phi, labels = observed(features, at)
    assert phi.shape == (at, features)

    def run():
        for _ in range(rounds):
            for label in labels:
                # the same ridge as ours
                LogisticRegression(C=1e3, fit_intercept=False, max_iter=200).fit(phi, label)

    return run, rounds


serve(prepare)
