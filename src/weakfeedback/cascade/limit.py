"""The least regret that any consistent policy can have on a cascade with two labels: c(P) log T.

Formulas count arms from 1. mu_j is the law of the outputs that arm j shows, (Y^1, ..., Y^j), and i = i*(P) under weak
dominance. A law nu of all outputs *confuses* arm a > i with i if it looks the same to somebody who plays i only,
nu_i = mu_i, and makes a optimal: p_la(nu) > C_a - C_l for all l < a, p_aj(nu) < C_j - C_a for all j > a. A policy that
has regret o(T^b) for every b > 0 on every cascade with weak dominance must refute all these laws, so it plays arm j
at least eta_j log T times, in the long run, with

    c(P) = min { sum_{j>i} eta_j Delta_j : eta >= 0, sum_{j>i} eta_j KL(mu_j || nu_j) >= 1 for all such nu }

and liminf R_T / log T >= c(P). The proof is in ``docs/open-problems.md``.

For given eta the worst nu that confuses a is the minimum of a convex function under linear constraints (barrier method
below). Each minimum is a cut of the set of feasible eta; the linear programme over all cuts bounds c(P) from below, eta
scaled until it is feasible bounds it from above.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from weakfeedback.cascade.problem import CascadeProblem

MOST_ARMS = 5  # a law has 2^K probabilities
PRECISION = 1e-6  # of the constant, relative
STRICT = 1e-9  # a margin that is smaller confuses nothing
LEAST_SHARE = 1e-7  # of the cost, for every arm: with eta_j = 0 the minimum over nu would not be unique
INNER_GAP = 1e-8  # of a minimum over nu, which is about 1
MOST_CUTS = 300
MOST_STEPS = 60  # of Newton's method, for one value of the barrier


@dataclass(frozen=True)
class Limit:
    """The limit of regret of a cascade.

    Attributes
    ----------
    constant : float
        c(P): in the long run no consistent policy has less regret than c(P) log T. 0 if nothing can be confused with
        the optimal arm; regret need not grow then.
    allocation : K numbers
        eta: how often each arm is played per log T where the bound is attained; 0 up to the optimal arm, because only
        deeper arms show something new.
    confusable : tuple of int
        The arms, from 0, that some law which looks the same up to the optimal arm makes optimal.
    """

    constant: float
    allocation: tuple[float, ...]
    confusable: tuple[int, ...]


def limit(problem: CascadeProblem) -> Limit:
    """Return the least regret per log T of consistent policies, for two labels and at most 5 arms.

    The gaps Delta_j depend on the truth, which no policy sees: two cascades with the same outputs can have different
    limits, and on some of them no policy attains both.

    Raises ValueError without weak dominance, with more than two labels, and with more than 5 arms.

    Examples
    --------
    >>> problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], costs=[0.05, 0.285, 0.45])
    >>> found = limit(problem)
    >>> round(found.constant, 2), [round(eta, 1) for eta in found.allocation], found.confusable
    (9.17, [0.0, 0.0, 64.6], (1, 2))
    """
    _check(problem)
    best, arms = problem.optimal_arm, problem.arms
    law = _Outputs(problem)
    confusable, starts = [], []
    for arm in range(best + 1, arms):
        start = law.confusing(arm)
        if start is not None:
            confusable.append(arm)
            starts.append(start)
    allocation = np.zeros(arms)
    if confusable:
        allocation[best + 1 :] = _cheapest(law, problem.gaps[best + 1 :], confusable, starts)
    constant = float(allocation @ problem.gaps)
    return Limit(constant, tuple(allocation.tolist()), tuple(confusable))


def reason_against(problem: CascadeProblem) -> str:
    """Return why ``limit`` refuses a problem, or ""."""
    if not problem.weak_dominance:
        return "must satisfy weak dominance"
    if problem.arms > MOST_ARMS:
        return f"must have at most {MOST_ARMS} arms"
    if np.unique(problem._rows[problem._probabilities > 0.0, 1:]).size > 2:
        return "must have outputs of at most two labels"
    return ""


def _check(problem: CascadeProblem) -> None:
    reason = reason_against(problem)
    if reason:
        raise ValueError(f"problem {reason}, got {problem!r}")


def _cheapest(law: _Outputs, gaps: np.ndarray, confusable: list[int], starts: list[np.ndarray]) -> np.ndarray:
    """Return the cheapest eta that refutes every confusing law."""
    from scipy.optimize import linprog

    eta = np.ones(gaps.size)
    cuts: list[np.ndarray] = []
    best, least = eta, np.inf
    for _ in range(MOST_CUTS):
        lifted = np.maximum(eta, LEAST_SHARE * float(gaps @ eta) / gaps)
        scale = lifted.max()
        worst = np.inf
        for arm, start in zip(confusable, starts):
            divergences = law.divergences(law.worst(arm, lifted / scale, start))
            cuts.append(divergences)
            worst = min(worst, float(lifted @ divergences) * (1.0 - INNER_GAP))
        cost = float(gaps @ lifted) / worst  # lifted / worst is feasible
        if cost < least:
            best, least = lifted / worst, cost
        # in units in which every cut has a largest coefficient of 1
        table = np.array(cuts)
        size = table.max(axis=1)
        found = linprog(gaps, A_ub=-table / size[:, None], b_ub=-1.0 / size, method="highs")
        eta = found.x
        if least <= float(gaps @ eta) * (1.0 + PRECISION):
            break
    return np.where(best * gaps <= 2.0 * LEAST_SHARE * least, 0.0, best)


class _Outputs:
    """Laws of the outputs that agree with the true one, mu, up to the optimal arm: vectors of 2^K probabilities."""

    def __init__(self, problem: CascadeProblem) -> None:
        self.arms, self.best = problem.arms, problem.optimal_arm
        self.costs = problem.costs
        outputs = problem._rows[:, 1:]
        bits = (outputs == outputs.max()).astype(int)
        true: dict[tuple[int, ...], float] = {}
        for row, chance in zip(map(tuple, bits.tolist()), problem._probabilities.tolist()):
            true[row] = true.get(row, 0.0) + chance
        seen = {row[: self.best + 1] for row, chance in true.items() if chance > 0.0}
        self.atoms = [
            row for row in itertools.product((0, 1), repeat=self.arms) if row[: self.best + 1] in seen
        ]
        self.mu = np.array([true.get(row, 0.0) for row in self.atoms])
        self.known = self._prefixes(self.best)  # rows of this matrix: sums that are known
        # of every later arm j: which atoms make up each prefix that has positive probability, and that probability
        self.shown = []
        for arm in range(self.best + 1, self.arms):
            prefixes = self._prefixes(arm)
            chances = prefixes @ self.mu
            self.shown.append((prefixes[chances > 0.0], chances[chances > 0.0]))

    def _prefixes(self, arm: int) -> np.ndarray:
        found = sorted({row[: arm + 1] for row in self.atoms})
        return np.array([[float(row[: arm + 1] == prefix) for row in self.atoms] for prefix in found])

    def _differ(self, i: int, j: int) -> np.ndarray:
        return np.array([float(row[i] != row[j]) for row in self.atoms])

    def margins(self, arm: int) -> tuple[np.ndarray, np.ndarray]:
        """Return A and b: ``arm`` is the only optimal one if A nu + b > 0."""
        earlier = [(self._differ(i, arm), self.costs[i] - self.costs[arm]) for i in range(arm)]
        later = [(-self._differ(arm, j), self.costs[j] - self.costs[arm]) for j in range(arm + 1, self.arms)]
        return np.array([row for row, _ in earlier + later]), np.array([b for _, b in earlier + later])

    def confusing(self, arm: int) -> np.ndarray | None:
        """Return a law inside the set that confuses ``arm`` with the optimal one, or None if there is none."""
        from scipy.optimize import linprog

        slope, offset = self.margins(arm)
        found = linprog(  # the largest margin; the last variable
            [*np.zeros(self.mu.size), -1.0],
            A_ub=np.column_stack((-slope, np.ones(len(slope)))),
            b_ub=offset,
            A_eq=np.column_stack((self.known, np.zeros(len(self.known)))),
            b_eq=self.known @ self.mu,
            bounds=[*[(0.0, None)] * self.mu.size, (None, 1.0)],
            method="highs",
        )
        margin = -found.fun
        if margin <= STRICT:
            return None
        # a mixture with a law that has no zeros: what arms show after the optimal one is a fair coin
        even = self.known.T @ ((self.known @ self.mu) / self.known.sum(axis=1))
        share = min(0.5, 0.5 * margin)
        start: np.ndarray = (1.0 - share) * found.x[:-1] + share * even
        return start

    def divergences(self, nu: np.ndarray) -> np.ndarray:
        """Return KL(mu_j || nu_j) of every arm j after the optimal one."""
        return np.array([chances @ np.log(chances / (sums @ nu)) for sums, chances in self.shown])

    def worst(self, arm: int, eta: np.ndarray, start: np.ndarray) -> np.ndarray:
        """Return the law that confuses ``arm`` and is the hardest to refute: least sum of eta_j KL(mu_j || nu_j)."""
        slope, offset = self.margins(arm)
        sums = np.concatenate([sums for sums, _ in self.shown])
        weight = np.concatenate([share * chances for share, (_, chances) in zip(eta, self.shown)])
        nu = start
        count = nu.size + offset.size
        sharp = 1.0
        while True:
            nu = self._centred(nu, sharp * weight, sums, slope, offset)
            value = float(eta @ self.divergences(nu))
            # the gap to the minimum is at most count / sharp
            if count / sharp <= INNER_GAP * max(value, INNER_GAP):
                return nu
            sharp *= 30.0

    def _centred(
        self, nu: np.ndarray, weight: np.ndarray, sums: np.ndarray, slope: np.ndarray, offset: np.ndarray
    ) -> np.ndarray:
        """Minimise - weight' log(sums nu) - sum log nu - sum log(slope nu + offset), the known sums kept (Newton)."""
        n, m = nu.size, len(self.known)
        system = np.zeros((n + m, n + m))
        for _ in range(MOST_STEPS):
            shown, slack = sums @ nu, slope @ nu + offset
            gradient = -(sums.T @ (weight / shown)) - 1.0 / nu - slope.T @ (1.0 / slack)
            # variables step / nu: the matrix then has a diagonal of at least 1
            first, second, third = sums * nu, slope * nu, self.known * nu
            system[:n, :n] = (first.T * (weight / shown**2)) @ first + (second.T / slack**2) @ second
            system[np.arange(n), np.arange(n)] += 1.0
            system[n:, :n], system[:n, n:] = third, third.T
            step = np.linalg.solve(system, np.concatenate((-gradient * nu, np.zeros(m))))[:n]
            decrement = float(-(gradient * nu) @ step)
            move = nu * step
            ahead = np.concatenate((-step, -(slope @ move) / slack)).max()  # the share of the nearest wall
            length = 1.0 if ahead <= 0.0 else min(1.0, 0.95 / ahead)
            value = self._barrier(nu, weight, sums, slope, offset)
            while (
                self._barrier(nu + length * move, weight, sums, slope, offset)
                > value - 0.1 * length * decrement
            ):
                length *= 0.5
                if length < 1e-10:
                    return nu  # as far as rounding errors allow
            nu = nu + length * move
            if decrement < 1e-6:
                break
        return nu

    @staticmethod
    def _barrier(
        nu: np.ndarray, weight: np.ndarray, sums: np.ndarray, slope: np.ndarray, offset: np.ndarray
    ) -> float:
        slack = slope @ nu + offset
        if (nu <= 0.0).any() or (slack <= 0.0).any():
            return np.inf
        return float(-(weight @ np.log(sums @ nu)) - np.log(nu).sum() - np.log(slack).sum())
