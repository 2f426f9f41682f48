"""Adaptive cascades: the answers of all stages for each row of a table, and the price of every stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weakfeedback.adaptive.arguments import real_numbers, stage_costs, threshold_vector
from weakfeedback.adaptive.rules import BestRule, best_rule, best_thresholds, threshold_stops
from weakfeedback.adaptive.world import NotingWorld, OrderedWorld, RecordedWorld
from weakfeedback.settings.labels import label_array, label_table
from weakfeedback.settings.problem import FrozenProblem, counts_table, fingerprint, weighted
from weakfeedback.validate import brief, one_of

ORDERS = ("drawn", "shuffled", "given")
TIE = 1e-12  # absolute tolerance of ties


class AdaptiveProblem(FrozenProblem):
    """A cascade that may be stopped after every answer, whose errors are never revealed.

    Setting
    -------
    In every round a row of a table is drawn. The stages are run one after the other. After each the learner sees its
    answer and its score (how confident it is) and stops, or pays for the next one. The answer of a round is that of the
    last stage run. A round costs the prices of the stages run, and 1 more if the answer is wrong.

    What is hidden
    --------------
    The truth, in every round and for ever, and the answers of the stages that were not run.

    What is seen
    ------------
    The answers and scores of the stages run; where the last stage was run, the probabilities it gives to all answers of
    the round, if the problem has ``chances``.

    Regret
    ------
    The measure ``regret`` is the *cost against the best fixed arm*: what was paid, errors included, minus
    t * min(fixed_costs). It is computed from the rows drawn, and may be negative: a rule that looks at the answers can
    be better than every fixed arm.

    Arguments
    ---------
    truth : n labels
        Integers, booleans or strings.
    outputs : labels, shape (n, K)
        The answer of stage k to row r.
    scores : numbers, shape (n, K), or None
        How confident it was; larger is more confident. NaN: it gave no score.
    costs : K numbers >= 0
        The price of each stage, *not* cumulative, in units of the price of an error.
    chances : numbers in [0, 1], shape (n, L), or a mapping from labels to n numbers; or None
        The probability that the last stage gives to each label. Without a mapping the L labels are those of ``truth``
        and ``outputs``, sorted.
    groups : n labels, or None
        The group of each row, known before any stage is run. Policies that take groups are told it.
    order : "drawn", "shuffled" or "given"
        Rows are drawn independently; or each is served once, in an order drawn for every replication; or in theirs.

    Attributes
    ----------
    arms, labels, costs, cumulative
        K, L, the prices, and the total cost of stopping at each stage.
    groups, order : tuple and str
        The groups that occur, sorted; and how rows are served.
    errors, fixed_costs, best_fixed
        The error rate of each stage, the cost per round of always stopping there, and the best stage (the last of those
        within 1e-12).

    Examples
    --------
    The second stage is better where the first has a low score:

    >>> problem = AdaptiveProblem([0, 1, 1, 1], [[0, 0], [1, 1], [1, 1], [0, 1]],
    ...                           [[0.9, 1], [0.9, 1], [0.9, 1], [0.6, 1]], costs=[0.05, 0.2])
    >>> problem
    AdaptiveProblem(arms=2, rows=4, best_fixed=1)
    >>> problem.fixed_costs.tolist(), problem.oracle_thresholds().tolist()
    ([0.3, 0.25], [0.9])
    >>> round(problem.best_rule().cost, 6)
    0.1
    """

    setting = "adaptive"

    arms: int
    labels: int
    costs: np.ndarray
    cumulative: np.ndarray
    errors: np.ndarray
    fixed_costs: np.ndarray
    best_fixed: int
    groups: tuple[Any, ...]
    order: str
    _outputs: np.ndarray
    _scores: np.ndarray
    _wrong: np.ndarray
    _chances: np.ndarray
    _groups: np.ndarray

    def __init__(
        self,
        truth: Any,
        outputs: Any,
        scores: Any,
        costs: Any,
        chances: Any = None,
        groups: Any = None,
        order: str = "drawn",
    ):
        known, target, answers = _encode(truth, outputs)
        n, arms = answers.shape
        prices = stage_costs(costs)
        if prices.size != arms:
            raise ValueError(f"costs must be {arms} numbers, one per stage, got {prices.size}")
        cumulative = np.cumsum(prices)
        if not np.isfinite(cumulative).all():
            raise ValueError(f"costs must have a finite sum, got {brief(costs)}")
        wrong = (answers != target[:, None]).astype(np.int64)
        errors = np.array([np.count_nonzero(wrong[:, k]) / n for k in range(arms)])
        fixed = errors + cumulative
        kinds, places = _groups(groups, n)
        self.__dict__.update(
            arms=arms,
            labels=max(len(known), 2),
            costs=prices,
            cumulative=cumulative,
            errors=errors,
            fixed_costs=fixed,
            best_fixed=int(np.flatnonzero(fixed <= fixed.min() + TIE)[-1]),
            _outputs=answers,
            _scores=_scores(scores, answers.shape),
            _wrong=wrong,
            _chances=_chances(chances, known, answers),
            groups=kinds,
            _groups=places,
            order=one_of("order", order, ORDERS),
        )
        self._freeze()

    @property
    def last_scores(self) -> np.ndarray:
        """The scores of the last stage; NaN where it gives none."""
        return self._scores[:, -1]

    def oracle_thresholds(self) -> np.ndarray:
        """The best threshold per stage in hindsight, with labels: go on from stage k iff its score is below [k].

        Exact for two stages. With more, one threshold at a time is improved until none can be, from the best point of a
        grid and from every fixed arm: never worse than these. A score that is missing is below every threshold but
        minus infinity.
        """
        return best_thresholds(self._wrong, self._scores, self.costs)

    def threshold_cost(self, thresholds: Any) -> float:
        """Return the mean cost of a round with these thresholds, over the rows."""
        limits = threshold_vector(thresholds, self.arms - 1)
        stops = threshold_stops(self._scores, limits)
        return float((self._wrong[np.arange(len(stops)), stops] + self.cumulative[stops]).mean())

    def best_rule(self) -> BestRule:
        """The best of all stopping rules for the law of this table, by backward induction over all that can be seen.

        It needs the truth. Where scores take many values, almost every row is its own state, and the rule knows the
        truth of each row; round the scores first.
        """
        return best_rule(self._outputs, self._scores, self._wrong, self.costs)

    def __repr__(self) -> str:
        return f"AdaptiveProblem(arms={self.arms}, rows={len(self._wrong)}, best_fixed={self.best_fixed})"

    def world(self) -> RecordedWorld:
        """Return the hidden part of the simulation."""
        if self.order == "drawn":
            return RecordedWorld(*self._hidden())
        return OrderedWorld(*self._hidden(), self.order == "shuffled")

    def _hidden(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return self._outputs, self._scores, self._wrong, self._chances, self._groups

    def measures(self, counts: Any) -> dict[str, np.ndarray]:
        """Turn counts, shape (..., K + 2), into regret, cost, total_cost, stops at each stage, spent and differs.

        cost and spent are what the stages cost; total_cost adds the errors made; regret is total_cost - t *
        min(fixed_costs); differs are the answers unlike the last stage's.
        """
        if np.shape(counts)[-1:] == (self.arms + 1,):  # without the answers that differ
            counts = np.insert(np.asarray(counts), self.arms + 1, 0, axis=-1)
        table = counts_table("counts", counts, self.arms + 2)
        calls = np.flip(np.cumsum(np.flip(table[..., : self.arms], -1), axis=-1), -1)
        return self._measured(
            table[..., : self.arms], calls, table[..., self.arms], table[..., self.arms + 1]
        )

    def measures_of_calls(self, counts: Any, reference: int) -> dict[str, np.ndarray]:
        """Do the same for a policy that names the stages, with counts of shape (..., 3 K + 1), and its reference."""
        K = self.arms
        table = counts_table("counts", counts, 3 * K + 1)
        stops, calls, unlike = (table[..., k * K : k * K + K] for k in range(3))
        return self._measured(stops, calls, table[..., 3 * K], unlike[..., reference], chosen=True)

    def _measured(
        self,
        stops: np.ndarray,
        calls: np.ndarray,
        errors: np.ndarray,
        differs: np.ndarray,
        chosen: bool = False,
    ) -> dict[str, np.ndarray]:
        cost = weighted(calls, self.costs) if chosen else weighted(stops, self.cumulative)
        best = weighted(stops, np.full(self.arms, self.fixed_costs.min()))
        total = cost + errors
        found = {"regret": total - best, "cost": cost, "total_cost": total}
        found |= {f"stops_{arm}": stops[..., arm].copy() for arm in range(self.arms)}
        found |= {"spent": cost.copy(), "differs": differs.copy(), "errors": errors.copy()}
        return found | {f"calls_{arm}": calls[..., arm].copy() for arm in range(self.arms)}

    def digest(self) -> str:
        """Return a hexadecimal fingerprint of everything that determines a simulation of this problem."""
        head = f"{type(self).__name__} {self._outputs.shape} {self._chances.shape}"
        arrays = [self._outputs, self._scores, self._wrong, self._chances, self.costs]
        if len(self.groups) > 1:
            head = f"{head} {len(self.groups)} groups"
            arrays.append(self._groups)
        if self.order != "drawn":
            head = f"{head} {self.order}"
        return fingerprint(head, *arrays)


class NotedProblem(AdaptiveProblem):
    """A problem whose world notes for every row who was called and who answered; rows are given or shuffled."""

    def world(self) -> NotingWorld:
        """Return the hidden part of the simulation."""
        return NotingWorld(*self._hidden(), self.order == "shuffled")


def _encode(truth: Any, outputs: Any) -> tuple[list[Any], np.ndarray, np.ndarray]:
    """Return the labels that occur, sorted, and truth and outputs as indices into them."""
    both = np.column_stack(label_table(truth, outputs, "outputs"))
    known, codes = np.unique(both, return_inverse=True)
    codes = codes.reshape(both.shape).astype(np.int64)
    return known.tolist(), np.ascontiguousarray(codes[:, 0]), np.ascontiguousarray(codes[:, 1:])


def _groups(values: Any, n: int) -> tuple[tuple[Any, ...], np.ndarray]:
    """Return the groups that occur, sorted, and the number of each row's."""
    if values is None:
        return (), np.zeros(n, dtype=np.int64)
    found = label_array("groups", values)
    if found.shape != (n,):
        raise ValueError(f"groups must be {n} labels, one per row, got shape {found.shape}")
    kinds, places = np.unique(found, return_inverse=True)
    return tuple(kinds.tolist()), places.reshape(n).astype(np.int64)


def _scores(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return scores as floats; NaN everywhere if there are none."""
    if values is None:
        return np.full(shape, np.nan)
    found = real_numbers("scores", values)
    if found.shape != shape or np.isinf(found).any():
        raise ValueError(f"scores must be finite numbers (or NaN) of shape {shape}, got {brief(values)}")
    return np.ascontiguousarray(found)


def _chances(values: Any, known: list[Any], answers: np.ndarray) -> np.ndarray:
    """Return the last stage's probability of every stage's answer, shape (n, K); no columns if it gives none."""
    if values is None:
        return np.zeros((len(answers), 0))
    if isinstance(values, Mapping):
        missing = [label for label in known if label not in values]
        if missing:
            raise ValueError(f"chances must have all labels that occur, {brief(missing[0])} is missing")
        values = np.column_stack([real_numbers("chances", values[label]) for label in known])
    table = real_numbers("chances", values)
    shape = (len(answers), len(known))
    if table.shape != shape or not ((table >= 0.0) & (table <= 1.0)).all():
        raise ValueError(
            f"chances must be numbers from 0 to 1 of shape {shape}, a column per label that occurs, "
            f"got shape {table.shape} with values {brief(values)}"
        )
    return np.ascontiguousarray(np.take_along_axis(table, answers, axis=1))
