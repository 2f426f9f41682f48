"""What pairs of models have in common: each disagrees at a rate of its own, drawn from one law that all tell about.

The rates are Beta(m mu, m (1 - mu)) with (mu, m) on a grid; the comparisons of all pairs weigh its points.
"""

import math
from typing import Any

import numpy as np

from weakfeedback.contract.models import pairs_of
from weakfeedback.routing.tails import log_beta

POINTS = 24  # of a mean disagreement, from -5 to 4 on the logistic scale
# how alike pairs or groups are: comparisons that the mean of all is worth in each
SIZES = (2.0, 8.0, 32.0, 128.0)


def grid() -> tuple[np.ndarray, np.ndarray]:
    """Return (m mu, m) of every point of the grid, and its prior, in proportion to mu (1 - mu).

    >>> points, prior = grid()
    >>> points.shape, round(float(prior.sum()), 12)
    ((96, 2), 1.0)
    """
    mu = np.repeat(1.0 / (1.0 + np.exp(-np.linspace(-5.0, 4.0, POINTS))), len(SIZES))
    m = np.tile(SIZES, POINTS)
    prior = mu * (1.0 - mu)
    return np.column_stack((m * mu, m)), prior / prior.sum()


def pooled(D: Any, N: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return counts of all pairs i < j that stand for what all comparisons together tell of each.

    The rate of a pair has the law sum_r w_r Beta(s_r + D, n_r - s_r + N - D), (s, n) the points of the grid and w their
    weights by all pairs. The Beta(1 + D', 1 + N' - D') with its mean and variance gives the counts D', N'.

    Two pairs that differed in 10 of 100, and one in 1 of 1:

    >>> D, N = pooled([[0, 10, 10], [0, 0, 1], [0, 0, 0]], [[0, 100, 100], [0, 0, 1], [0, 0, 0]])
    >>> D.round(1).tolist()
    [[0.0, 11.7, 11.7], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    >>> N.round(1).tolist()
    [[0.0, 115.6, 115.6], [0.0, 0.0, 1.4], [0.0, 0.0, 0.0]]
    """
    points, prior = (table.tolist() for table in grid())
    K = len(D)
    logs = [math.log(weight) for weight in prior]
    for i, j in pairs_of(K):
        for r, (s, n) in enumerate(points):
            logs[r] += log_beta(s + D[i][j], n - s + N[i][j] - D[i][j]) - log_beta(s, n - s)
    top = max(logs)
    weights = [math.exp(one - top) for one in logs]
    differed, compared = np.zeros((K, K)), np.zeros((K, K))
    for i, j in pairs_of(K):
        mean = square = 0.0
        for weight, (s, n) in zip(weights, points):
            share = weight * (s + D[i][j]) / (n + N[i][j])
            mean += share
            square += share * (s + D[i][j] + 1.0) / (n + N[i][j] + 1.0)
        mean, square = mean / math.fsum(weights), square / math.fsum(weights)
        size = mean * (1.0 - mean) / (square - mean * mean) - 1.0
        differed[i, j] = max(mean * size - 1.0, 0.0)
        compared[i, j] = differed[i, j] + max((1.0 - mean) * size - 1.0, 0.0)
    return differed, compared
