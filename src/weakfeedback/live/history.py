"""A bounded history for policies that keep all their observations."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

import numpy as np

from weakfeedback.contextual.disagreement import PairwiseDisagreement
from weakfeedback.linalg import logistic


class Bounded(PairwiseDisagreement):
    """Keeps the last observations one by one, and the older ones as a quadratic.

    The log-likelihood of the older observations of regression m is replaced by its expansion to second order at
    the anchor of the day, where its gradient and Hessian are exact. Of the sum of such expansions only

        gradient(theta) = b_m - H_m theta,   Hessian H_m

    is needed. Until the first observation is let go, decisions are those of the policy without a bound. Counts, V and
    the width of the bounds are those of all observations for ever. Nothing is let go in the forced phase.
    """

    def start_letting_go(self, keep: int) -> None:
        """Make the fields."""
        self.keep = keep  # so many observations are kept at most
        self.gone = 0  # observations let go; ``t`` counts those that are kept
        self.old_H = np.zeros((self.M, self.d, self.d))
        self.old_b = np.zeros((self.M, self.d))

    def update_pairs(self, phi: Any, arm: int, differ: Any, rng: Any) -> None:
        """Learn, and let the oldest quarter go when there are too many observations."""
        super().update_pairs(phi, arm, differ, rng)
        if self.ready and self.t >= self.keep:
            self.let_go(self.t - self.keep + max(1, self.keep // 4))

    def bonus(self, m: int) -> float:
        """The factor of the confidence width: that of all observations, not of those kept."""
        everything = copy.copy(self)
        everything.t += self.gone
        return super(Bounded, everything).bonus(m)

    def evaluate(self, m: int, theta: Any, gradient: Any, H: Any, x: Any, curved: bool) -> None:
        """Write gradient and Hessian of regression m at theta, those of the quadratic included."""
        super().evaluate(m, theta, gradient, H, x, curved)
        gradient += self.old_b[m] - self.old_H[m] @ theta
        if curved:
            H += self.old_H[m]

    def let_go(self, count: int) -> None:
        """Add the oldest observations to the quadratics and forget them."""
        for m in range(self.M):
            begin, a = int(self.begins[self.slot[m]]), self.anchor[m]
            seen = self.arms[:count] >= self.stop[m]
            x = self.past[:count][seen, begin : begin + self.d]
            p = np.array([logistic(z) for z in x @ a])
            weighted = x * (p * (1.0 - p))[:, None]
            self.old_H[m] += weighted.T @ x
            self.old_b[m] += (self.label[:count][seen, m] - p) @ x + weighted.T @ (x @ a)
        rest = self.t - count
        for rows in (self.past, self.label, self.arms):
            rows[:rest] = rows[count : self.t].copy()
            rows[rest:] = 0  # labels are written into rows of zeros
        self.t = rest
        self.gone += count


@lru_cache(maxsize=16)
def _bounded_class(kind: type) -> type:
    # The same name: to whoever holds it, and in saved states, it is that policy.
    return type(kind.__name__, (Bounded, kind), {"__qualname__": kind.__qualname__, "__doc__": kind.__doc__})


def bounded(policy: Any, keep: int) -> Any:
    """Return the fresh ``policy`` with at most ``keep`` observations in memory, if it is one that keeps them."""
    if not isinstance(policy, PairwiseDisagreement):
        return policy
    kind: Any = type(policy)
    limited: Any = object.__new__(_bounded_class(kind))
    vars(limited).update(vars(policy))
    limited.start_letting_go(keep)
    return limited
