"""A bounded history for policies that keep all their observations."""

from __future__ import annotations

import copy
import math
from functools import lru_cache
from typing import Any

import numpy as np

from weakfeedback.contextual.disagreement import PairRegressions
from weakfeedback.contextual.glm import BISECTIONS
from weakfeedback.live.quick import hastened


class Bounded(PairRegressions):
    """Keeps the last observations one by one, and the older ones as a quadratic.

    The log-likelihood of the older observations of regression m is replaced by its expansion to second order at
    the anchor of the day, where its gradient and Hessian are exact. Of the sum of such expansions only

        gradient(theta) = b_m - H_m theta,   Hessian H_m

    is needed. Counts, V and the width of the bounds are those of all observations for ever. Nothing is let go in the
    forced phase.

    Sums over the observations are matrix products here, because plain loops would hold up a live decision for seconds.
    Until the first observation is let go, estimates are those of the policy without a bound but for their last digits.
    """

    def start_letting_go(self, keep: int) -> None:
        """Make the fields."""
        self.keep = keep  # so many observations are kept at most
        self.gone = 0  # observations let go; ``t`` counts those that are kept
        self.old_H = np.zeros((self.M, self.d, self.d))
        self.old_b = np.zeros((self.M, self.d))
        self.old_weight = np.zeros(self.M)  # as ``weight``, of the observations let go

    def update_pairs(self, phi: Any, arm: int, differ: Any, rng: Any) -> None:
        """Learn, and let the oldest quarter go when there are too many observations."""
        super().update_pairs(phi, arm, differ, rng)
        if self.ready and self.t >= self.keep:
            self.let_go(self.t - self.keep + max(1, self.keep // 4))

    def bonus(self, m: int) -> float:
        """The factor of the confidence width: that of all observations, not of those kept."""
        everything: Any = copy.copy(self)
        everything.t += self.gone
        chosen: Any = super(Bounded, everything)
        return chosen.bonus(m)

    def evaluate(self, m: int, theta: Any, gradient: Any, H: Any, curved: bool) -> None:
        """Write gradient, weight and Hessian of regression m at theta, those of the quadratic included."""
        rows, labels = self.observed(m, self.t)
        p = probabilities(rows @ theta)
        w = p * (1.0 - p)
        gradient[:] = (labels - p) @ rows - self.ridge * theta + self.old_b[m] - self.old_H[m] @ theta
        self.weight[m] = self.old_weight[m] + 4.0 * w.sum()
        if curved:
            H[:] = (rows.T * w) @ rows + self.ridge * np.eye(self.d) + self.old_H[m]

    def stride(self, m: int, anchor: Any, step: Any, rise: float) -> float:
        """How many times a step to go, as without a bound; the slope is that of the quadratic as well."""
        rows, labels = self.observed(m, self.t)
        z, change = rows @ anchor, rows @ step
        if np.abs(change).max(initial=0.0) <= 1.0:
            return 1.0
        rises = (self.old_b[m] - self.old_H[m] @ anchor - self.ridge * anchor) @ step + labels @ change
        steeper = step @ (self.old_H[m] @ step) + self.ridge * step @ step
        low, high, size = 0.0, math.inf, 1.0
        for _ in range(BISECTIONS):
            slope = rises - size * steeper - change @ probabilities(z + size * change)
            if abs(slope) <= 0.1 * rise:
                break
            if slope > 0.0:
                low = size
            else:
                high = size
            size = 2.0 * size if high == math.inf else 0.5 * (low + high)
        return size

    def observed(self, m: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The features and labels of regression m among the first ``count`` observations kept."""
        begin = int(self.begins[self.slot[m]])
        seen = self.arms[:count] >= self.stop[m]
        return self.past[:count][seen, begin : begin + self.d], self.label[:count][seen, m]

    def let_go(self, count: int) -> None:
        """Add the oldest observations to the quadratics and forget them."""
        for m in range(self.M):
            rows, labels = self.observed(m, count)
            logits = rows @ self.anchor[m]
            p = probabilities(logits)
            w = p * (1.0 - p)
            weighted = rows.T * w
            self.old_weight[m] += 4.0 * w.sum()
            self.old_H[m] += weighted @ rows
            self.old_b[m] += (labels - p) @ rows + weighted @ logits
        rest = self.t - count
        for rows in (self.past, self.label, self.arms):
            rows[:rest] = rows[count : self.t].copy()
            rows[rest:] = 0  # labels are written into rows of zeros
        self.t = rest
        self.gone += count


def probabilities(logits: np.ndarray) -> np.ndarray:
    """The logistic function of many numbers, cut as ``linalg.logistic`` cuts them."""
    return 1.0 / (1.0 + np.exp(-np.clip(logits, -500.0, 500.0)))


@lru_cache(maxsize=16)
def _bounded_class(kind: type) -> type:
    # The same name: to whoever holds it, and in saved states, it is that policy.
    names = {"__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    quick = {name: method for name, method in hastened(kind).items() if name not in vars(Bounded)}
    return type(kind.__name__, (Bounded, kind), {**names, **quick})


@lru_cache(maxsize=16)
def _quick_class(kind: type) -> type:
    names = {"__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), {**names, **hastened(kind)})


def prepared(policy: Any, keep: int | None) -> Any:
    """Return the fresh ``policy`` made for the interpreter, with at most ``keep`` observations in memory.

    Only if it is one that keeps observations; others are returned as they are. ``keep=None`` sets no bound.
    """
    if not isinstance(policy, PairRegressions):
        return policy
    kind: Any = type(policy)
    made: Any = object.__new__(_quick_class(kind) if keep is None else _bounded_class(kind))
    vars(made).update(vars(policy))
    if keep is not None:
        made.start_letting_go(keep)
    return made
