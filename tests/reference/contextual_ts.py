"""The slow twin of USS-PD-TS: Thompson sampling from the Gaussian approximation of every pair's posterior.

As in the twins of chapter 3, arms are 1..K inside and 0-based at the boundary, models stand in a dictionary keyed
by pairs, and every decision solves the likelihood equations of the whole history anew. Nothing of `weakfeedback`
is imported here.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit
from tests.reference.contextual import SlowModel, SlowPairs

CUT = 500.0  # logits beyond are taken as this


class SlowPosterior(SlowModel):
    """The normal law around the penalised estimate whose precision is the Hessian there."""

    def __init__(self, d: int, ridge: float):
        super().__init__(d, ridge)
        self.H = ridge * np.eye(d)
        self.curved = 0  # observations that H accounts for

    def precision(self) -> np.ndarray:
        """H = ridge I + the sum of mu'(phi.theta) phi phi'."""
        if self.curved < self.n:
            p = expit(self.X @ self.estimate())
            self.H = self.ridge * np.eye(self.d) + (self.X.T * (p * (1.0 - p))) @ self.X
            self.curved = self.n
        return self.H

    def centre(self, phi: np.ndarray) -> float:
        """phi.theta."""
        return float(phi @ self.estimate())

    def width(self, phi: np.ndarray) -> float:
        """The standard deviation of phi.theta."""
        return math.sqrt(max(float(phi @ np.linalg.solve(self.precision(), phi)), 0.0))


class Ahead:
    """The normal draws to come of a generator: they can be looked at, and are used up only when told."""

    def __init__(self, rng: Any):
        self.rng = rng
        self.seen: list[float] = []

    def __getitem__(self, k: int) -> float:
        while len(self.seen) <= k:
            self.seen.append(float(self.rng.standard_normal()))
        return self.seen[k]

    def use(self, count: int) -> None:
        """Forget the next ``count`` draws."""
        if count:
            _ = self[count - 1]
            del self.seen[:count]


class SlowUssPdTs(SlowPairs):
    """USS-PD-TS: no forced phase, no confidence radius, one normal draw for every pair that is looked at."""

    def __init__(
        self,
        costs: Sequence[float],
        d: int,
        ridge: float = 0.001,
        scale: float = 0.5,
        per_pair: bool = False,
    ):
        super().__init__(costs, d, ridge, per_pair)
        self.scale = scale
        self.models = {pair: SlowPosterior(d, ridge) for pair in self.models}

    def forced_phase(self) -> bool:
        return False

    def sampled(self, phi: np.ndarray, i: int, j: int, g: float) -> float:
        """mu(z_ij) for a normal draw g."""
        model, x = self.models[i, j], self.block(phi, i, j)
        z = model.centre(x) + self.scale * model.width(x) * g
        return float(expit(min(max(z, -CUT), CUT)))

    def select(self, phi: Any, rng: Any) -> int:
        x = np.array(phi, dtype=float)
        for i in self.arms():
            if all(self.beats(x, i, j, rng) for j in self.above(i)):
                return i - 1
        raise AssertionError("the last arm has no arm above it and is always accepted")

    def beats(self, phi: np.ndarray, i: int, j: int, rng: Any) -> bool:
        return self.C[j] - self.C[i] > self.sampled(phi, i, j, float(rng.standard_normal()))

    def outcomes(self, phi: Any, draws: Any, slack: float, stretch: float = 0.0) -> set[tuple[int, int]]:
        """Every (arm, number of draws) that is possible when mu(z) is known up to `slack` only, and the width of
        a pair up to the part `stretch` of it."""
        x = np.array(phi, dtype=float)
        found = set()
        starts = {0}  # draws used up before arm i is tried
        for i in self.arms():
            following = set()
            for used in starts:
                for j in self.above(i):
                    g = draws[used]
                    used += 1
                    samples = [self.sampled(x, i, j, g * (1.0 + part)) for part in (-stretch, stretch)]
                    if self.C[j] - self.C[i] <= max(samples) + slack:
                        following.add(used)
                    if self.C[j] - self.C[i] <= min(samples) - slack:
                        break
                else:
                    found.add((i - 1, used))
            starts = following
        return found
