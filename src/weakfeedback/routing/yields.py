"""What disagreements yield: the share of them in which the dearer model is really better, from a few labels.

The rule without labels assumes the worst, that all disagreements are errors of the cheaper model. With the yield
y_ij = (gamma_i - gamma_j) / p_ij in place of 1 it knows how many are. Labels are needed for disagreements only: where
two models agree they are right or wrong together.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.cascade.audit import bonett_price
from weakfeedback.validate import brief, fraction, integer

ONE_DEVIATION = 0.3173  # the level of an interval of one standard error to each side


@dataclass(frozen=True)
class Yields:
    """Yields of all pairs of models i < j. ``print`` it for a summary.

    Attributes
    ----------
    labels, better, worse : K x K integers
        How many disagreements of i and j were labelled, and in how many j was right and i wrong, and the other way.
    estimate, low, high : K x K arrays
        (better - worse) / labels, NaN without labels, and the interval of Bonett and Price with confidence 1 - alpha.
    cautious : K x K array
        One standard error above the estimate, at most 1, and 1 without labels: what a policy takes as ``yields``.
    """

    labels: np.ndarray
    better: np.ndarray
    worse: np.ndarray
    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray
    cautious: np.ndarray
    alpha: float

    @classmethod
    def of(cls, labels: Any, better: Any, worse: Any, alpha: float = 0.05) -> Yields:
        """Return the yields that follow from these counts.

        >>> found = Yields.of([[0, 100], [0, 0]], [[0, 45], [0, 0]], [[0, 15], [0, 0]])
        >>> print(found)
        models 0 and 1: 100 labelled disagreements, the dearer right in 45, the cheaper in 15: yield 0.30 (0.15 to 0.43)
        """
        level = fraction("alpha", alpha)
        n, plus, minus = (np.array(given, dtype=np.int64) for given in (labels, better, worse))
        size = len(n)
        estimate = np.full((size, size), math.nan)
        low = np.full((size, size), -1.0)
        high = np.ones((size, size))
        cautious = np.ones((size, size))
        for i, j in itertools.combinations(range(size), 2):
            if n[i, j]:
                counts = int(plus[i, j]), int(minus[i, j]), int(n[i, j])
                estimate[i, j] = (plus[i, j] - minus[i, j]) / n[i, j]
                low[i, j], high[i, j] = bonett_price(*counts, level)
                cautious[i, j] = min(bonett_price(*counts, ONE_DEVIATION)[1], 1.0)
        return cls(n, plus, minus, estimate, low, high, cautious, level)

    def __str__(self) -> str:
        lines = []
        for i, j in itertools.combinations(range(len(self.labels)), 2):
            if not self.labels[i, j]:
                lines.append(f"models {i} and {j}: no disagreement was labelled, a yield of 1 is assumed")
                continue
            lines.append(
                f"models {i} and {j}: {self.labels[i, j]} labelled disagreements, the dearer right in "
                f"{self.better[i, j]}, the cheaper in {self.worse[i, j]}: yield {self.estimate[i, j]:.2f} "
                f"({self.low[i, j]:.2f} to {self.high[i, j]:.2f})"
            )
        return "\n".join(lines)


def yields(outputs: Any, truth: Any, labels: int = 100, alpha: float = 0.05) -> Yields:
    """Estimate the yields of all pairs from the first ``labels`` disagreements of each.

    ``outputs`` has shape (n, K), the label of model k for row r at [r, k]; ``truth`` has n labels, of which only those
    of rows in which models differ are used. The rows must be like future ones. A row may serve several pairs.

    >>> found = yields([["a", "b"]] * 6 + [["a", "a"]] * 4, ["b"] * 4 + ["a", "c"] + ["a"] * 4)
    >>> found.labels[0, 1], found.better[0, 1], found.worse[0, 1], found.estimate[0, 1]
    (np.int64(6), np.int64(4), np.int64(1), np.float64(0.5))
    """
    most = integer("labels", labels, 1)
    table, target = np.asarray(outputs), np.asarray(truth)
    if table.ndim != 2 or target.shape != table.shape[:1]:
        raise ValueError(
            f"outputs and truth must have shapes (n, K) and (n,), got {brief(table.shape)} and {brief(target.shape)}"
        )
    K = table.shape[1]
    n, plus, minus = (np.zeros((K, K), dtype=np.int64) for _ in range(3))
    for i, j in itertools.combinations(range(K), 2):
        rows = np.flatnonzero(table[:, i] != table[:, j])[:most]
        n[i, j] = rows.size
        plus[i, j] = np.count_nonzero(table[rows, j] == target[rows])
        minus[i, j] = np.count_nonzero(table[rows, i] == target[rows])
    return Yields.of(n, plus, minus, alpha)
