"""The limit of regret by another route: linear programmes with tangents, and a search over directions of eta.

Written from the statement of the theorem. Arms count from 1.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize_scalar


class SlowLimit:
    """mu: probabilities of the outputs, by tuples of 0 and 1; i: the optimal arm; gaps: Delta_j by arm j > i."""

    def __init__(
        self, mu: dict[tuple[int, ...], float], C: list[float], i: int, gaps: dict[int, float]
    ) -> None:
        self.K, self.C, self.i, self.gaps = len(C), dict(enumerate(C, 1)), i, gaps
        self.patterns = list(itertools.product((0, 1), repeat=self.K))
        self.mu = {s: mu.get(s, 0.0) for s in self.patterns}
        self.later = list(range(i + 1, self.K + 1))

    def prefix_law(self, nu: Any, j: int) -> dict[tuple[int, ...], float]:
        law: dict[tuple[int, ...], float] = {}
        for s, chance in zip(self.patterns, nu):
            law[s[:j]] = law.get(s[:j], 0.0) + chance
        return law

    def conditions(self, a: int) -> tuple[np.ndarray, np.ndarray]:
        """A nu >= b: p_la >= C_a - C_l for l < a, p_aj <= C_j - C_a for j > a."""
        rows, ends = [], []
        for other in range(1, self.K + 1):
            if other != a:
                differ = np.array([1.0 if s[a - 1] != s[other - 1] else 0.0 for s in self.patterns])
                sign = 1.0 if other < a else -1.0
                rows.append(sign * differ)
                ends.append(sign * abs(self.C[a] - self.C[other]))
        return np.array(rows), np.array(ends)

    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """What is known: the law of the outputs up to arm i."""
        known = self.prefix_law(self.mu.values(), self.i)
        rows = [[1.0 if s[: self.i] == prefix else 0.0 for s in self.patterns] for prefix in known]
        return np.array(rows), np.array(list(known.values()))

    def inside(self, a: int) -> np.ndarray | None:
        """A point of the open set of arm a as deep inside as possible, or None."""
        A, b = self.conditions(a)
        E, e = self.sums()
        wide = np.hstack([-A, np.ones((len(A), 1))])
        bounds = [(0, 1)] * len(self.patterns) + [(None, 1)]
        c = np.append(np.zeros(len(self.patterns)), -1.0)
        found = linprog(c, wide, -b, np.hstack([E, np.zeros((len(E), 1))]), e, bounds)
        return found.x[:-1] if found.x[-1] > 1e-9 else None

    def smallest(self, eta: dict[int, float], a: int) -> float:
        """min over the closure of Lambda_a of sum_j eta_j KL(mu_j || nu_j); infinite if it is empty.

        Every -log is replaced by the highest of its tangents, at first on a grid and then where the linear programme
        has its minimum, until the two values meet.
        """
        if self.inside(a) is None:
            return math.inf
        A, b = self.conditions(a)
        E, e = self.sums()
        n, terms = len(self.patterns), []  # weight, which patterns
        constant = 0.0
        for j in self.later:
            for prefix, p in self.prefix_law(self.mu.values(), j).items():
                if p > 0 and eta[j] > 0:
                    terms.append(
                        (eta[j] * p, np.array([1.0 if s[:j] == prefix else 0.0 for s in self.patterns]))
                    )
                    constant += eta[j] * p * math.log(p)
        c = np.array([0.0] * n + [weight for weight, _ in terms])
        rows, ends = [np.append(-row, np.zeros(len(terms))) for row in A], list(-b)

        def touch(k: int, x: float) -> None:  # t_k >= -log x - (nu_k - x) / x
            at = np.zeros(n + len(terms))
            at[:n], at[n + k] = -terms[k][1], -x
            rows.append(at)
            ends.append(x * (math.log(x) - 1.0))

        for k in range(len(terms)):
            for x in np.geomspace(1e-8, 1.0, 40):
                touch(k, float(x))
        equal = np.hstack([E, np.zeros((len(E), len(terms)))])
        bounds = [(0, 1)] * n + [(0, None)] * len(terms)
        for _ in range(60):
            found = linprog(c, np.array(rows), np.array(ends), equal, e, bounds)
            shown = [max(float(which @ found.x[:n]), 1e-8) for _, which in terms]
            reached = constant - sum(weight * math.log(x) for (weight, _), x in zip(terms, shown))
            below = constant + found.fun
            if reached - below < 3e-5 * reached:
                break
            for k, x in enumerate(shown):
                touch(k, x)
        return float(below)

    def worst(self, eta: dict[int, float]) -> float:
        return min(self.smallest(eta, a) for a in self.later)

    def price(self, eta: dict[int, float]) -> float:
        """What eta costs once it is scaled to be feasible; infinite if it refutes nothing."""
        least, cost = self.worst(eta), sum(eta[j] * self.gaps[j] for j in self.later)
        return cost / least if least > 1e-9 else math.inf

    def constant(self) -> float:
        """c(P) for one or two arms after the optimal one."""
        if all(self.inside(a) is None for a in self.later):
            return 0.0
        if len(self.later) == 1:
            return self.price({self.later[0]: 1.0})
        j, k = self.later
        found = minimize_scalar(
            lambda u: self.price({j: u, k: 1.0 - u}),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"xatol": 1e-5},
        )
        return float(min(found.fun, self.price({j: 0.0, k: 1.0})))
