"""Problems of cascades that answer with numbers: squared errors, and movements in place of disagreements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weakfeedback.cascade.movement import movement, prediction_table
from weakfeedback.cascade.problem import TIE, RowsProblem, pull_measures
from weakfeedback.cascade.world import TableWorld
from weakfeedback.validate import cumulative_costs, number, vector


class NumericProblem(RowsProblem):
    """A cascade of K stages of rising cost that answer with numbers and whose errors are never revealed.

    Setting
    -------
    Every round is a row of a data set; rows are served in turn, in an order shuffled per replication. The learner stops
    at a stage i, pays C_i, and min(((Y - Y^i) / scale)^2, 1) for the error of its answer.

    What is hidden
    --------------
    The truth Y, in every round and for ever, and the answers of the stages after the chosen one.

    What is seen
    ------------
    The answers of the stages up to the chosen one, as numbers.

    Regret
    ------
    As for `CascadeProblem`, with the mean loss for the error rate.

    Arguments
    ---------
    truth : n numbers
    predictions : numbers, shape (n, K)
    costs : K non-decreasing numbers >= 0
        Cumulative, in units of an error of size ``scale``.
    scale : number > 0
        The size of an error that costs 1; larger errors cost no more.

    Attributes
    ----------
    arms, costs, errors, total_costs, optimal_arm, gaps, xi, weak_dominance
        As of `CascadeProblem`; ``disagreement[i, j]`` is the mean movement s_ij.
    settled_arm : int
        The first stage i with C_j - C_i > s_ij for all j > i, which policies settle on; the best if all stages are
        calibrated given the earlier ones.
    scale : float

    Examples
    --------
    >>> problem = NumericProblem([0.0, 2.0], [[1.0, 0.0], [1.0, 2.0]], costs=[0.0, 0.1], scale=2.0)
    >>> problem.errors.tolist(), problem.disagreement[0, 1].item(), problem.optimal_arm
    ([0.25, 0.0], 0.25, 1)
    """

    setting = "cascade"

    costs: np.ndarray
    scale: float
    settled_arm: int

    def __init__(self, truth: Any, predictions: Any, costs: Any, scale: float = 1.0) -> None:
        answers = prediction_table(predictions, least=1)
        rows = np.column_stack((vector("truth", truth, size=len(answers)), answers))
        weights, size = cumulative_costs(costs), number("scale", scale, above=0.0)
        arms = answers.shape[1]
        if weights.size != arms:
            raise ValueError(f"costs must be {arms} numbers, one per stage, got {weights.size}")
        moved = movement(rows[:, :, None], rows[:, None, :], size)
        means = np.array(
            [[math.fsum(moved[:, i, j]) / len(rows) for j in range(arms + 1)] for i in range(arms + 1)]
        )
        margin = self._set_prices(weights, means[0, 1:], means[1:, 1:])
        self.__dict__.update(
            settled_arm=next(i for i in range(arms) if (margin[i, i + 1 :] > TIE).all()),
            scale=size,
            _rows=np.ascontiguousarray(rows),
            _probabilities=np.full(len(rows), 1.0 / len(rows)),
            _cycled=True,
        )
        self._freeze()

    def world(self) -> TableWorld:
        """Return the hidden part of the simulation, which serves the rows."""
        return TableWorld(self._rows)

    def measures(self, pulls: Any) -> dict[str, np.ndarray]:
        """Turn pull counts, shape (..., K), into regret, cost and the counts of each arm, shape (...) each."""
        return pull_measures(self, pulls)

    def digest(self) -> str:
        """Return a hexadecimal fingerprint of everything that determines a simulation of this problem."""
        return self._fingerprint(np.append(self.costs, self.scale))
