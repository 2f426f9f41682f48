"""Optimal rules with labels: the best thresholds, and the best of all stopping rules."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

GRID = 9  # points per stage of the grid of initial thresholds, if that makes at most ``POINTS``
POINTS = 7000


@dataclass(frozen=True)
class BestRule:
    """The best stopping rule of a table.

    Attributes
    ----------
    cost : float
        The mean cost of a round with it, errors included.
    stops : n integers
        The stage at which every row stops.
    states : int
        How many states (answers and scores so far) there are; with about as many as rows the rule knows the truth.
    """

    cost: float
    stops: np.ndarray
    states: int


def states_of(outputs: np.ndarray, scores: np.ndarray) -> list[np.ndarray]:
    """Number the state of each row after every stage: rows with the same answers and scores so far share one."""
    n, K = outputs.shape
    before = np.zeros(n, dtype=np.int64)
    found = []
    for k in range(K):
        level = np.unique(scores[:, k], return_inverse=True, equal_nan=True)[1].reshape(n)
        before = np.unique(np.column_stack([before, outputs[:, k], level]), axis=0, return_inverse=True)[
            1
        ].reshape(n)
        found.append(before)
    return found


def induce(states: list[np.ndarray], loss: np.ndarray, costs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, by backward induction, the stops that minimise the mean of ``loss[r, stop] + costs[:stop + 1].sum()``.

    The decision may depend only on the state; ties stop. Also return the value of every row's state at its stop.
    """
    n, K = loss.shape
    # per row: the value of its state at the current stage, further costs included
    value = loss[:, K - 1].astype(float)
    stops = np.full(n, K - 1)
    for k in range(K - 2, -1, -1):
        size = np.bincount(states[k])
        stopping = np.bincount(states[k], loss[:, k]) / size
        going = np.bincount(states[k], value + costs[k + 1]) / size
        stop = (stopping <= going)[states[k]]
        stops = np.where(stop, k, stops)
        value = np.where(stop, loss[:, k], value + costs[k + 1])
    return stops, value + costs[0]


def best_rule(outputs: np.ndarray, scores: np.ndarray, wrong: np.ndarray, costs: np.ndarray) -> BestRule:
    """Return the best rule of a table; it needs the truth."""
    states = states_of(outputs, scores)
    stops, paid = induce(states, wrong, costs)
    return BestRule(float(paid.mean()), stops, sum(int(state.max()) + 1 for state in states))


def threshold_stops(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the stage at which each row stops: the first whose score reaches its threshold."""
    n, K = scores.shape
    stops = np.full(n, K - 1)
    for k in range(K - 2, -1, -1):
        known = np.where(np.isnan(scores[:, k]), -np.inf, scores[:, k])
        stops[(known >= thresholds[k]) & (np.isfinite(known) | np.isneginf(thresholds[k]))] = k
    return stops


def best_thresholds(wrong: np.ndarray, scores: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Return thresholds that no change of a single one improves."""
    K = wrong.shape[1]
    paid = wrong + np.cumsum(costs)
    cost = _cost_of(paid, scores)
    starts = [np.where(np.arange(K - 1) < arm, np.inf, -np.inf) for arm in range(K)]
    if K > 2 and GRID ** (K - 1) <= POINTS:
        levels = [_levels(scores[:, k]) for k in range(K - 1)]
        grid = [np.array(point) for point in itertools.product(*levels)]
        starts.append(min(grid, key=cost))
    found = [_descend(start, paid, scores, cost) for start in starts]
    return min(found, key=cost)


def _levels(values: np.ndarray) -> np.ndarray:
    known = values[~np.isnan(values)]
    if not known.size:
        return np.array([-np.inf, np.inf])
    inner = np.quantile(known, np.linspace(0.0, 1.0, GRID)[1:-1], method="nearest")
    return np.unique(np.concatenate([[-np.inf], inner, [np.inf]]))


def _cost_of(paid: np.ndarray, scores: np.ndarray) -> Callable[[np.ndarray], float]:
    rows = np.arange(len(paid))
    return lambda thresholds: float(paid[rows, threshold_stops(scores, thresholds)].mean())


def _descend(
    start: np.ndarray, paid: np.ndarray, scores: np.ndarray, cost: Callable[[np.ndarray], float]
) -> np.ndarray:
    best, least = start.copy(), cost(start)
    improved = True
    while improved:
        improved = False
        for k in range(best.size):
            trial = best.copy()
            trial[k] = _improved(k, best, paid, scores)
            value = cost(trial)
            if value < least - 1e-15:
                best, least, improved = trial, value, True
    return best


def _improved(k: int, thresholds: np.ndarray, paid: np.ndarray, scores: np.ndarray) -> float:
    """Return the best threshold of one stage when the others are given."""
    earlier, later = thresholds.copy(), thresholds.copy()
    earlier[k:], later[: k + 1] = np.inf, np.inf
    # only the stages before k can stop them
    reached = threshold_stops(scores[:, : k + 2], earlier[: k + 1]) > k
    rows = np.flatnonzero(reached)
    if not rows.size:
        return float(thresholds[k])
    onward = paid[rows, threshold_stops(scores[rows], later)]
    level = np.where(np.isnan(scores[rows, k]), -np.inf, scores[rows, k])
    order = np.argsort(level, kind="stable")
    # total if the first m in order go on and the others stop
    gain = (onward - paid[rows, k])[order]
    total = np.concatenate([[0.0], np.cumsum(gain)])
    level = level[order]
    cuts = np.concatenate([[True], level[1:] > level[:-1], [True]])  # equal scores are decided together
    m = int(np.flatnonzero(cuts)[np.argmin(total[cuts])])
    if m == 0:
        return -np.inf
    return np.inf if m == level.size else float(level[m])
