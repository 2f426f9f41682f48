"""Problems of routing without labels: a law of truth and outputs, and the price of each model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.cascade.problem import CascadeProblem, OtherNumberOfCosts, RowsProblem
from weakfeedback.routing.prices import model_prices
from weakfeedback.routing.world import LawWorld, TableWorld
from weakfeedback.settings.problem import counts_table, fingerprint, weighted
from weakfeedback.validate import brief

if TYPE_CHECKING:
    from weakfeedback.engine.loop import Loop


class RoutingProblem(RowsProblem):
    """K models of rising price, each of which can be called alone, whose errors are never revealed.

    Setting
    -------
    In every round a vector (Y, Y^1, ..., Y^K) is drawn from a fixed law. The learner calls a set of models and pays
    the price of each. The last model of the set answers, and 1 more is paid if it differs from Y.

    What is hidden
    --------------
    The truth Y, in every round and for ever, the outputs of the models that are not called, and the law.

    What is seen
    ------------
    The outputs of the models called. One model alone shows nothing useful; two or more show whether they agree.

    Regret
    ------
    What is paid, errors by their probabilities, above the best single model called alone: ``gaps[k]`` for every answer
    of model k, and the price of every call that did not answer. It is computed from the law (or from the empirical
    law of a data set). The optimal model is the last of the minimisers of total_costs = errors + prices; totals within
    1e-12 are ties.

    Arguments
    ---------
    outcomes : integers, shape (n, K + 1)
        The possible rows (y, y1, ..., yK), truth first. Any number of labels.
    probabilities : n numbers >= 0 that sum to 1
        The probability of each row.
    prices : K non-decreasing numbers >= 0, the last > 0
        ``prices[k]`` is what a call of model k alone costs, in units of an error. Not cumulative.
    groups : n labels, or labels of shape (n, features), optional
        What is known of each row before any model is called, such as its task. Regret then counts the errors that the
        answers made, as their probability depends on the groups.

    Attributes
    ----------
    arms, prices, errors, total_costs, optimal_arm, gaps
        K, c_k, gamma_k, gamma_k + c_k, i* and total_costs - total_costs[i*]. Models count from 0.
    disagreement : K x K array
        p_ij, the probability that models i and j give different outputs.
    xi : float
        The minimum over j > i* of c_j - c_i* - p, with p the disagreement of i* and j; infinite when the optimal model
        is the last.
    weak_dominance : bool
        Whether xi > 1e-12: then the optimal model can be learned from disagreements.
    features : int
        In how many ways the rows are grouped; 0 without groups.
    margin : float
        The least |p - d| that decides: xi, and for every i < i* the largest p_ij - (c_j - c_i) over j > i.

    Examples
    --------
    An expensive model that corrects half of the errors of a cheap one, and adds none:

    >>> problem = RoutingProblem([[1, 1, 1], [1, 0, 1], [1, 0, 0]], [0.6, 0.2, 0.2], prices=[0.1, 0.4])
    >>> problem
    RoutingProblem(arms=2, optimal_arm=0, weak_dominance=True, xi=0.1)
    >>> problem.errors.round(3).tolist(), problem.gaps.round(3).tolist()
    ([0.4, 0.2], [0.0, 0.1])
    """

    setting = "routing"

    prices: np.ndarray
    margin: float
    features: int
    _groups: np.ndarray

    def __init__(self, outcomes: Any, probabilities: Any, prices: Any, groups: Any = None):
        found = model_prices(prices)
        self._settle(_priced(CascadeProblem, outcomes, probabilities, found), found, groups)

    @classmethod
    def from_predictions(
        cls, truth: Any, predictions: Any, prices: Any, groups: Any = None
    ) -> RoutingProblem:
        """Make the problem of a data set: its rows are served in turn, in an order shuffled per replication.

        ``truth`` has n labels, ``predictions`` has shape (n, K), model k's prediction of row r at [r, k].
        Labels are integers, booleans or strings. Errors and disagreements are those of the data set, each row 1/n.

        >>> predictions = [["ill", "ill"], ["ill", "well"]]
        >>> RoutingProblem.from_predictions(["ill", "well"], predictions, prices=[0.1, 0.3]).errors.tolist()
        [0.5, 0.0]
        """
        problem = cls.__new__(cls)
        found = model_prices(prices)
        problem._settle(_priced(CascadeProblem.from_predictions, truth, predictions, found), found, groups)
        return problem

    def _settle(self, law: CascadeProblem, prices: np.ndarray, groups: Any) -> None:
        """Take over what a cascade with these costs has in common with routing, and freeze the problem."""
        shared = {name: getattr(law, name) for name in RowsProblem.__annotations__}
        margin = _margin(law.optimal_arm, law.disagreement, prices)
        self.__dict__.update(shared, prices=prices, margin=margin)
        self.__dict__["_groups"] = _numbered(groups, len(shared["_rows"]))
        self.__dict__["features"] = self._groups.shape[1]
        self._freeze()

    def world(self) -> LawWorld | TableWorld:
        """Return the hidden part of the simulation, which draws the rows."""
        if self._cycled:
            return TableWorld(self._rows, self._groups)
        return LawWorld(self._rows, self._probabilities, self._groups)

    def loop(self) -> Loop:
        """Return the round loop of this setting."""
        from weakfeedback.routing.play import GROUPED, LOOP

        return GROUPED if self.features else LOOP

    def measures(self, counts: Any) -> dict[str, np.ndarray]:
        """Turn counts of calls and answers, shape (..., 2 K), into regret, cost and the counts, shape (...) each.

        Eight rounds in which the cheap model answers three times and the expensive one five times; once both are
        called:

        >>> problem = RoutingProblem([[1, 1, 1], [1, 0, 1]], [0.5, 0.5], prices=[0.25, 0.5])
        >>> found = problem.measures([4, 5, 3, 5])
        >>> found["regret"].item(), found["cost"].item()
        (1.0, 3.5)
        """
        given = counts_table("counts", counts, 2 * self.arms + (self.features > 0))
        calls, answers = given[..., : self.arms], given[..., self.arms : 2 * self.arms]
        regret = np.zeros(given.shape[:-1])
        cost = weighted(calls, self.prices)
        # in index order, so that the result does not depend on how the counts are batched
        for k in range(self.arms):
            regret += answers[..., k] * self.gaps[k] + (calls[..., k] - answers[..., k]) * self.prices[k]
        shares = {f"calls_{k}": calls[..., k].copy() for k in range(self.arms)}
        shares |= {f"answers_{k}": answers[..., k].copy() for k in range(self.arms)}
        if not self.features:
            return {"regret": regret, "cost": cost, **shares}
        errors = given[..., -1].astype(np.float64)
        best = answers.sum(axis=-1) * self.total_costs[self.optimal_arm]
        return {"regret": cost + errors - best, "cost": cost, "errors": errors, **shares}

    def digest(self) -> str:
        """Return a hexadecimal fingerprint of everything that determines a simulation of this problem."""
        known = self._fingerprint(self.prices)
        return fingerprint(known, self._groups) if self.features else known


def _numbered(groups: Any, rows: int) -> np.ndarray:
    """Return the groups of every row as numbers from 0, one column per feature, in the order of their labels."""
    if groups is None:
        return np.zeros((rows, 0), dtype=np.int64)
    try:
        found = np.asarray(groups)
    except ValueError:
        found = np.zeros(0)
    if found.ndim == 1:
        found = found[:, None]
    if found.ndim != 2 or len(found) != rows or found.shape[1] < 1 or found.dtype.kind not in "biuUT":
        raise ValueError(
            f"groups must be {rows} labels, or rows of labels, that are integers or strings, got {brief(groups)}"
        )
    columns = [np.unique(column, return_inverse=True)[1] for column in found.T]
    return np.ascontiguousarray(np.column_stack(columns), dtype=np.int64)


def _priced(make: Any, *arguments: Any) -> CascadeProblem:
    """Return a cascade whose costs are the prices of models; messages refer to prices and models."""
    try:
        found: CascadeProblem = make(*arguments)
    except OtherNumberOfCosts as error:
        raise ValueError(f"prices must be {error.arms} numbers, one per model, got {error.given}") from None
    return found


def _margin(best: int, disagreement: np.ndarray, prices: np.ndarray) -> float:
    """Return the smallest |p - d| that decides which model is best."""
    excess = disagreement - (prices[None, :] - prices[:, None])
    later = [-float(excess[best, j]) for j in range(best + 1, prices.size)]
    earlier = [float(excess[i, i + 1 :].max()) for i in range(best)]
    return min(later + earlier, default=math.inf)
