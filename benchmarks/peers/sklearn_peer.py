"""scikit-learn: what a user without this library would write, a logistic regression per pair, refitted every round."""

import warnings

import numpy as np
from serve import serve
from sklearn.linear_model import LogisticRegression

warnings.simplefilter("ignore")


def prepare(pairs, features, rounds, at, **_):
    """Refits of all pairs with ``at`` observations; a run is so many rounds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(at, features)) / features**0.5
    labels = rng.random((at, pairs)) < 0.3

    def run():
        for _ in range(rounds):
            for pair in range(pairs):
                LogisticRegression(C=1e3, fit_intercept=False, max_iter=200).fit(X, labels[:, pair])

    return run, rounds


serve(prepare)
