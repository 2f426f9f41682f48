"""Problems of censored allocation: means, thresholds and a budget (thesis, sections 4.2 and 4.6)."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.allocation.world import SPREAD, AllocationWorld, GradualWorld
from weakfeedback.kernels.knapsack import CAPACITY_SLACK, pack_lightest, runner_up
from weakfeedback.settings.problem import FrozenProblem, counts_table, fingerprint, weighted
from weakfeedback.validate import brief, number, one_of, vector

if TYPE_CHECKING:
    from weakfeedback.engine.loop import Loop


class AllocationProblem(FrozenProblem):
    """K arms, each with a mean and a threshold, and a budget to be divided among them in every round.

    Setting
    -------
    In every round outcomes X_1, ..., X_K are drawn, X_i with mean mu_i, and the learner gives a_i >= 0 to arm i, in
    all at most Q. An arm is served if a_i >= theta_i. Losses: arms that are not served cost X_i. Rewards (network
    utility maximisation): arms that are served earn X_i.

    What is hidden
    --------------
    Means and thresholds, and the outcomes that are censored: losses of served arms, rewards of all others.

    What is seen
    ------------
    Losses: X_i where a_i < theta_i, otherwise 0. Rewards: X_i where a_i >= theta_i, otherwise 0. A 0 is seen as 0,
    censored or not.

    Regret
    ------
    The optimal allocation serves the set of arms that solves the 0-1 knapsack with values mu, weights theta and
    capacity Q. The regret of a round is the difference of the sum of mu_i over that set and over the arms that
    were really served, in both settings.

    Arguments
    ---------
    means : K numbers from 0 to 1
    thresholds : K numbers from 0 to the budget
    budget : number > 0
    setting : "loss" or "reward"
    curves : K rows of C + 1 numbers from 0 to 1, in place of means and thresholds
        The mean loss of each arm at the levels 0, ..., C of Q/C each, which never rises (rewards: never falls). Then
        what is incurred is what is seen, in every round at every arm, and regret is the difference of mean losses to
        the best split into levels. ``means``, ``thresholds`` and what follows from them are not defined.
    rewards : "bernoulli" or "uniform"
        The law of the outcomes. Uniform ones lie in [mu_i - .1, mu_i + .1] and are clipped to [0, 1], which moves the
        mean of an arm near 0 or 1 (mu = .98 becomes .964). Regret is computed with the stated mu.

    Attributes
    ----------
    arms, means, thresholds, budget, outcome, law
        K, mu, theta, Q, "loss" or "reward", "bernoulli" or "uniform". ``setting`` is "allocation".
    optimal_set : K bools
        The arms to serve; if several sets are optimal, the one that leaves most of the budget.
    optimal_allocation : K numbers
        theta_i on the optimal set, otherwise 0.
    optimal_value : float
        The sum of mu_i over the optimal set.
    residual, gamma : float
        The budget r that the optimal allocation leaves, the largest among optimal sets; and r / K.
    same_threshold : bool
        Whether all thresholds are equal.
    largest_gap, smallest_gap : float
        The largest regret of a round and the smallest that is not 0 (infinite if every allocation is optimal).
    arm_gaps : K numbers
        The smallest regret > 0 of a round in which arm i incurs its outcome: not served (losses), served (rewards).
    most_served : int
        K', the largest number of arms that one allocation can serve.

    All comparisons of amounts with thresholds or the budget have a relative tolerance of 1e-9: in doubles 1.2 / 3
    is less than .4.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, chapter 4.
    A. Verma, M. K. Hanawal, A. Rajkumar, R. Sankaran, Censored semi-bandits, NeurIPS 2019.
    A. Verma, M. K. Hanawal, Stochastic network utility maximization with unknown utilities, INFOCOM 2020.

    Examples
    --------
    The arm with the largest mean is not served:

    >>> problem = AllocationProblem([0.9, 0.6, 0.4], [0.6, 0.55, 0.45], budget=1.0)
    >>> problem.optimal_allocation.tolist(), problem.optimal_value, problem.residual
    ([0.0, 0.55, 0.45], 1.0, 0.0)
    """

    setting = "allocation"

    arms: int
    means: np.ndarray
    thresholds: np.ndarray
    budget: float
    outcome: str
    law: str
    curves: np.ndarray | None = None
    optimal_set: np.ndarray
    optimal_allocation: np.ndarray
    optimal_value: float
    residual: float
    gamma: float

    def __init__(
        self,
        means: Any = None,
        thresholds: Any = None,
        budget: Any = None,
        setting: str = "loss",
        rewards: str = "bernoulli",
        *,
        curves: Any = None,
    ) -> None:
        if curves is not None:
            if means is not None or thresholds is not None:
                raise ValueError("means and thresholds must be left out where curves are given")
            self._init_curves(curves, number("budget", budget, above=0.0), setting, rewards)
            return
        mu = vector("means", means, at_least=0.0)
        if (mu > 1.0).any():
            raise ValueError(f"means must lie in [0, 1], got {brief(means)}")
        Q = number("budget", budget, above=0.0)
        theta = vector("thresholds", thresholds, at_least=0.0, size=mu.size)
        if (theta > Q * (1.0 + CAPACITY_SLACK)).any():
            raise ValueError(f"thresholds must be at most the budget {Q:g}, got {brief(thresholds)}")
        best = pack_lightest(mu, theta, Q)
        left = Q - math.fsum(theta[best])
        residual = left if left > CAPACITY_SLACK * Q else 0.0
        self.__dict__.update(
            arms=mu.size,
            means=mu,
            thresholds=theta,
            budget=Q,
            outcome=_one_of("setting", setting, ("loss", "reward")),
            law=_one_of("rewards", rewards, ("bernoulli", "uniform")),
            optimal_set=best,
            optimal_allocation=np.where(best, theta, 0.0),
            optimal_value=math.fsum(mu[best]),
            residual=residual,
            gamma=residual / mu.size,
        )
        self._freeze()

    def _init_curves(self, curves: Any, Q: float, setting: str, rewards: str) -> None:
        outcome = _one_of("setting", setting, ("loss", "reward"))
        if _one_of("rewards", rewards, ("bernoulli", "uniform")) != "bernoulli":
            raise ValueError(f"rewards must be 'bernoulli' where curves are given, got {brief(rewards)}")
        rows = [vector(f"curves[{i}]", row, at_least=0.0) for i, row in enumerate(curves)]
        if not rows or rows[0].size < 2 or len({row.size for row in rows}) > 1:
            raise ValueError(
                "curves must be a row for each arm, of its means at the levels 0, ..., C, C >= 1"
            )
        table = np.array(rows)
        rise = np.diff(table, axis=1) * (1.0 if outcome == "loss" else -1.0)
        if (table > 1.0).any() or (rise > 0.0).any():
            words = "never rise" if outcome == "loss" else "never fall"
            raise ValueError(f"curves must lie in [0, 1] and {words} with what an arm gets")
        levels, value = best_levels(table if outcome == "reward" else -table)
        chosen = levels > 0
        self.__dict__.update(
            arms=len(rows),
            curves=table,
            budget=Q,
            outcome=outcome,
            law="bernoulli",
            optimal_set=chosen,
            optimal_allocation=levels * (Q / (table.shape[1] - 1)),
            optimal_value=abs(value),
        )
        self._freeze()

    def distinct(self, gamma: float) -> int:
        """Return how many thresholds are different: the number of values ceil(theta_i / gamma).

        >>> AllocationProblem([0.9, 0.6, 0.4], [0.3, 0.55, 0.301], budget=1.0).distinct(0.01)
        3
        """
        step = number("gamma", gamma, above=0.0)
        return len({math.ceil(theta / step * (1.0 - CAPACITY_SLACK)) for theta in self.thresholds})

    def equivalent(self, estimate: Any) -> bool:
        """Return whether the estimated thresholds have the same optimal value (definition Allocation Equivalent).

        The thesis prints the losses of the definition with 1[a >= theta], which makes everything equivalent; 1[a <
        theta] is meant. Even so, estimates that are too low and useless can pass: see ``really_equivalent``.
        """
        guess = vector("estimate", estimate, at_least=0.0, size=self.arms)
        value = math.fsum(self.means[pack_lightest(self.means, guess, self.budget)])
        return abs(value - self.optimal_value) <= CAPACITY_SLACK * max(1.0, self.optimal_value)

    def really_equivalent(self, estimate: Any) -> bool:
        """Return whether the optimal allocation of the estimated thresholds is optimal for the true ones.

        >>> problem = AllocationProblem([0.5, 0.4, 0.3], [0.4, 0.4, 0.4], budget=1.0)
        >>> low = [0.38, 0.38, 0.38]
        >>> problem.equivalent(low), problem.really_equivalent(low), problem.really_equivalent([0.5, 0.5, 0.5])
        (True, False, True)
        """
        guess = vector("estimate", estimate, at_least=0.0, size=self.arms)
        return bool(self.world().settled(guess))

    @property
    def same_threshold(self) -> bool:
        theta = self.thresholds
        return bool(theta.max() - theta.min() <= CAPACITY_SLACK * theta.max())

    @property
    def largest_gap(self) -> float:
        return self.optimal_value - math.fsum(self.means[self.thresholds <= 0.0])

    @functools.cached_property
    def smallest_gap(self) -> float:
        return self._smallest_gap(self.means, self.budget, 0.0)

    @functools.cached_property
    def arm_gaps(self) -> np.ndarray:
        gaps = np.empty(self.arms)
        for i in range(self.arms):
            others = self.means.copy()
            others[i] = 0.0  # arm i is left out ...
            if self.outcome == "loss":
                always_served = self.thresholds[i] <= 0.0
                gaps[i] = math.inf if always_served else self._smallest_gap(others, self.budget, 0.0)
            else:  # ... or taken in advance
                left = max(self.budget - self.thresholds[i], 0.0)
                gaps[i] = self._smallest_gap(others, left, float(self.means[i]))
        gaps.setflags(write=False)
        return gaps

    @property
    def most_served(self) -> int:
        total = np.cumsum(np.sort(self.thresholds))
        return int(np.count_nonzero(total <= self.budget * (1.0 + CAPACITY_SLACK)))

    def _smallest_gap(self, values: np.ndarray, room: float, taken: float) -> float:
        from weakfeedback.allocation.compiled import compiled

        # Arms of threshold 0 are always served.
        free = math.fsum(values[self.thresholds <= 0.0])
        rest = np.where(self.thresholds > 0.0, values, 0.0)
        ceiling = self.optimal_value - CAPACITY_SLACK * max(1.0, self.optimal_value) - taken - free
        if ceiling <= 0.0:
            return math.inf
        second = compiled(runner_up)(rest, self.thresholds, room, ceiling)
        return float(self.optimal_value - taken - free - second)

    def __repr__(self) -> str:
        if self.curves is not None:
            levels = self.curves.shape[1] - 1
            return (
                f"AllocationProblem(arms={self.arms}, budget={self.budget:g}, setting={self.outcome!r}, "
                f"curves at {levels} levels)"
            )
        return (
            f"AllocationProblem(arms={self.arms}, budget={self.budget:g}, setting={self.outcome!r}, "
            f"rewards={self.law!r}, served={int(self.optimal_set.sum())}, gamma={self.gamma:.6g})"
        )

    def world(self) -> Any:
        """Return the hidden side of the simulation: what draws the outcomes."""
        if self.curves is not None:
            return GradualWorld(self.curves.copy(), self.budget)
        # copies: for the compiler a read-only array has another type, and it would compile the knapsack twice
        return AllocationWorld(
            self.means.copy(),
            self.thresholds.copy(),
            self.budget,
            self.outcome == "reward",
            self.law == "uniform",
            self.optimal_value,
        )

    def loop(self) -> Loop:
        """Return the round loop of this setting."""
        from weakfeedback.allocation.play import GRADUAL, LOOP

        return LOOP if self.curves is None else GRADUAL

    def measures(self, counts: Any) -> dict[str, np.ndarray]:
        """Turn the counts of the loop, shape (..., K + 4), into measures of shape (...).

        ``found_at`` is the number of rounds it took to find the thresholds, NaN where they were not found yet;
        ``really_equivalent`` is 1 where the present estimate is, otherwise 0. With curves there is only the regret.
        """
        if self.curves is not None:
            return {"regret": self._regret_by_level(counts_table("counts", counts, self.curves.size + 1))}
        table = counts_table("counts", counts, self.arms + 4)
        rounds, searching, found, equivalent = (table[..., k] for k in range(4))
        missed = rounds[..., None] * self.optimal_set - table[..., 4:]
        return {
            "regret": weighted(missed, self.means),
            "found_at": np.where(found > 0, searching, math.nan),
            "really_equivalent": equivalent.copy(),
        }

    def _regret_by_level(self, table: np.ndarray) -> np.ndarray:
        assert self.curves is not None
        sign = 1.0 if self.outcome == "loss" else -1.0
        return weighted(table, [-sign * self.optimal_value, *(sign * self.curves.ravel())])

    def digest(self) -> str:
        """Return a hexadecimal fingerprint of everything that determines a simulation of this problem."""
        if self.curves is not None:
            return fingerprint(f"curves {self.outcome} {self.budget.hex()} {self.curves.shape}", self.curves)
        head = f"{type(self).__name__} {self.arms} {self.outcome} {self.law} {self.budget.hex()} {SPREAD}"
        return fingerprint(head, self.means, self.thresholds)


def best_levels(gains: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the levels, C in all, with the largest sum of gains; of equally good ones those that take least.

    >>> best_levels(np.array([[0.0, 0.5, 0.6], [0.0, 0.2, 0.9]]))
    (array([0, 2]), 0.9)
    """
    arms, width = gains.shape
    best = np.zeros(width)
    taken = np.empty((arms, width), dtype=np.int64)
    for i in range(arms):
        # row k: arm i takes k levels
        offers = np.full((width, width), -math.inf)
        for k in range(width):
            offers[k, k:] = best[: width - k] + gains[i, k]
        taken[i] = np.argmax(offers, axis=0)
        best = np.max(offers, axis=0)
    room = int(np.argmax(best >= best[-1] - 1e-12))
    levels, value = np.empty(arms, dtype=np.int64), float(best[room])
    for i in range(arms - 1, -1, -1):
        levels[i] = taken[i, room]
        room -= levels[i]
    return levels, value


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    return one_of(name, value.lower() if isinstance(value, str) else value, allowed)
