"""Problems of unsupervised sequential selection: a law of truth and outputs, and costs (thesis, ch. 2)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from weakfeedback.cascade.world import LawWorld, TableWorld
from weakfeedback.settings.labels import label_table, whole_numbers
from weakfeedback.settings.problem import FrozenProblem, counts_table, fingerprint, weighted
from weakfeedback.validate import brief, cumulative_costs, number, vector

# Absolute tolerance of ties: decimal ties such as .1 + .2 and .3 must be ties, and must not count as dominance.
TIE = 1e-12
# The recipe ``bsc`` lists 2 ** (K + 1) rows.
BSC_ARMS = 16


class OtherNumberOfCosts(ValueError):
    """There are more or fewer costs than arms."""

    def __init__(self, arms: int, given: int) -> None:
        self.arms, self.given = arms, given
        super().__init__(f"costs must be {arms} numbers, one per arm, got {given}")


class RowsProblem(FrozenProblem):
    """A problem whose rounds are rows (y, y1, ..., yK), drawn from a law or served in turn from a data set."""

    arms: int
    errors: np.ndarray
    disagreement: np.ndarray
    total_costs: np.ndarray
    optimal_arm: int
    gaps: np.ndarray
    xi: float
    weak_dominance: bool
    _rows: np.ndarray
    _probabilities: np.ndarray
    _cycled: bool

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(arms={self.arms}, optimal_arm={self.optimal_arm}, "
            f"weak_dominance={self.weak_dominance}, xi={self.xi:.6g})"
        )

    def _set_prices(self, costs: np.ndarray, errors: np.ndarray, disagreement: np.ndarray) -> np.ndarray:
        """Set what follows from costs, errors and disagreements; return the margins C_j - C_i - p_ij."""
        total = errors + costs
        best = int(np.flatnonzero(total <= total.min() + TIE)[-1])
        margin: np.ndarray = costs[None, :] - costs[:, None] - disagreement
        xi = min(margin[best, best + 1 :].tolist(), default=math.inf)
        self.__dict__.update(
            arms=costs.size,
            costs=costs,
            errors=errors,
            disagreement=disagreement,
            total_costs=total,
            optimal_arm=best,
            gaps=np.maximum(total - total[best], 0.0),
            xi=xi,
            weak_dominance=xi > TIE,
        )
        return margin

    def _fingerprint(self, costs: np.ndarray) -> str:
        head = f"{type(self).__name__} {self._rows.shape} {self._cycled}"
        return fingerprint(head, self._rows, self._probabilities, costs)


class CascadeProblem(RowsProblem):
    """A cascade of K tests of rising cost whose errors are never revealed.

    Setting
    -------
    In every round a vector (Y, Y^1, ..., Y^K) is drawn from a fixed law. The learner stops the cascade at an
    arm i and pays the known cost C_i of arms 1 to i together, and 1 more if Y^i differs from Y.

    What is hidden
    --------------
    The truth Y, in every round and for ever, the outputs of the arms after the chosen one, and the law.

    What is seen
    ------------
    The outputs Y^1, ..., Y^i of the arms up to the chosen one. So disagreements of two arms can be counted,
    errors cannot. The optimal arm can be learned from disagreements if weak dominance holds.

    Regret
    ------
    ``gaps[i]`` = total_costs[i] - total_costs[optimal_arm] for every stop at arm i, with
    total_costs = errors + costs. It is computed from the law (or from the empirical law of a data set), not
    from the outcomes drawn. The optimal arm is the last of the minimisers; totals within 1e-12 are ties.

    Arguments
    ---------
    outcomes : integers, shape (n, K + 1)
        The possible rows (y, y1, ..., yK), truth first. Any number of labels.
    probabilities : n numbers >= 0 that sum to 1
        The probability of each row.
    costs : K non-decreasing numbers >= 0
        Cumulative costs: ``costs[i]`` is the total price of stopping at arm i.
    tradeoff : number > 0, or one per arm
        The factor lambda_i that turns cost into units of error. ``problem.costs`` is ``tradeoff * costs``,
        which is what policies take. (They refuse falling costs, which unequal factors can give.)

    Attributes
    ----------
    arms, costs, errors, total_costs, optimal_arm, gaps
        K, lambda_i C_i, gamma_i, gamma_i + lambda_i C_i, i* and Delta_i. Arms count from 0.
    disagreement : K x K array
        p_ij, the probability that arms i and j give different outputs.
    kappas, xis : K numbers
        kappa_j and xi_j of the thesis (definitions before proposition MeanPulls), 0 at the optimal arm. Never
        negative, except xi_j for j > i* where weak dominance fails.
    rho, xi : float
        Minima over j > i* of (C_j - C_i*) / p and of C_j - C_i* - p, with p the disagreement of i* and j;
        infinite when the optimal arm is the last.
    strong_dominance, weak_dominance : bool
        Whether an arm that is right makes all later arms right, almost surely; whether xi > 1e-12.
    lower_set, upper_set : tuple of arms
        B^l = {i : C_i - C_j <= p_ij for all j < i} and B^h = {i : C_j - C_i > p_ij for all j > i}. A tie, to
        within 1e-12, counts as equality.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, sections 2.2 and 2.3.
    M. K. Hanawal, C. Szepesvári, V. Saligrama, Unsupervised sequential sensor acquisition, AISTATS 2017.

    Examples
    --------
    An expensive test that corrects half of the errors of a cheap one, and adds none:

    >>> problem = CascadeProblem([[1, 1, 1], [1, 0, 1], [1, 0, 0]], [0.6, 0.2, 0.2], costs=[0.1, 0.4])
    >>> problem
    CascadeProblem(arms=2, optimal_arm=0, weak_dominance=True, xi=0.1)
    >>> problem.errors.round(3).tolist(), problem.gaps.round(3).tolist()
    ([0.4, 0.2], [0.0, 0.1])
    """

    setting = "cascade"

    costs: np.ndarray
    kappas: np.ndarray
    xis: np.ndarray
    rho: float
    strong_dominance: bool
    lower_set: tuple[int, ...]
    upper_set: tuple[int, ...]

    def __init__(self, outcomes: Any, probabilities: Any, costs: Any, tradeoff: Any = 1.0):
        rows = whole_numbers("outcomes", outcomes, "integer labels")
        if rows.ndim != 2 or rows.shape[0] < 1 or rows.shape[1] < 2:
            raise ValueError(f"outcomes must have shape (n, K + 1) with n >= 1 and K >= 1, got {rows.shape}")
        law = vector("probabilities", probabilities, at_least=0.0, size=rows.shape[0])
        total = math.fsum(law)
        if abs(total - 1.0) > 1e-9:
            raise ValueError(f"probabilities must sum to 1 (to within 1e-9), their sum is {total!r}")
        self._settle(rows, law / total, False, costs, tradeoff)

    @classmethod
    def from_predictions(
        cls, truth: Any, predictions: Any, costs: Any, tradeoff: Any = 1.0
    ) -> CascadeProblem:
        """Make the problem of a data set: its rows are served in turn, in an order shuffled per replication.

        ``truth`` has n labels, ``predictions`` has shape (n, K), arm i's prediction of row r at [r, i].
        Labels are integers, booleans or strings. Errors and disagreements are those of the data set, each
        row 1/n.

        >>> predictions = [["ill", "ill"], ["ill", "well"]]
        >>> CascadeProblem.from_predictions(["ill", "well"], predictions, costs=[0.1, 0.3]).errors.tolist()
        [0.5, 0.0]
        """
        problem = cls.__new__(cls)
        rows = np.column_stack(label_table(truth, predictions, "predictions"))
        if rows.dtype.kind == "U":
            rows = np.unique(rows, return_inverse=True)[1].reshape(rows.shape).astype(np.int64)
        law = np.full(len(rows), 1.0 / len(rows))
        problem._settle(rows, law, True, costs, tradeoff)
        return problem

    @classmethod
    def bsc(cls, errors: Any, costs: Any, slip: Any = 0.05, tradeoff: Any = 1.0) -> CascadeProblem:
        """Make a binary symmetric channel problem with exactly the given error rates.

        Y is 1 with probability .7. Arm 1 errs with probability ``errors[0]``. Where it is right, every later
        arm errs independently with probability ``slip``; where it errs, arm i errs with probability
        (errors[i] - slip (1 - errors[0])) / errors[0]. The generator described in the thesis (section 2.6)
        does not give the error rates of its table; this one does, and has its optimal arms and its column of
        weak dominance for every slip up to .10. At most 16 arms, because all 2^(K+1) rows are listed.

        >>> problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], costs=[0.05, 0.1, 0.53])
        >>> problem.optimal_arm, problem.weak_dominance, problem.strong_dominance
        (1, True, False)
        """
        rates = vector("errors", errors, at_least=0.0)
        if rates.size > BSC_ARMS:
            raise ValueError(f"errors must be at most {BSC_ARMS} numbers, got {rates.size}")
        if (rates > 1.0).any():
            raise ValueError(f"errors must lie in [0, 1], got {brief(errors)}")
        slip = number("slip", slip, at_least=0.0)
        if slip > 1.0:
            raise ValueError(f"slip must lie in [0, 1], got {brief(slip)}")
        after_error = [_error_after_error(rates, slip, arm) for arm in range(1, rates.size)]
        after_success = [slip] * (rates.size - 1)
        rows, law = [], []
        for flags in itertools.product((0, 1), repeat=rates.size + 1):
            truth, first, *later = flags
            chance = (0.3, 0.7)[truth] * (rates[0] if first else 1.0 - rates[0])
            for wrong, rate in zip(later, after_error if first else after_success):
                chance *= rate if wrong else 1.0 - rate
            rows.append([truth] + [truth ^ wrong for wrong in (first, *later)])
            law.append(chance)
        return cls(rows, law, costs, tradeoff)

    def _settle(self, rows: np.ndarray, law: np.ndarray, cycled: bool, costs: Any, tradeoff: Any) -> None:
        """Compute every attribute and freeze the problem."""
        arms = rows.shape[1] - 1
        prices = _weighted_costs(costs, tradeoff, arms)
        errors, disagreement = _probabilities_of_difference(rows, law, cycled)
        margin = self._set_prices(prices, errors, disagreement)  # every use below reads i < j only
        best = self.optimal_arm
        kappas, xis = _kappas_and_xis(best, errors, disagreement, margin)
        ratios = (_ratio(prices[j] - prices[best], disagreement[best, j]) for j in range(best + 1, arms))
        right = (rows[:, 1:] == rows[:, :1])[law > 0.0]
        self.__dict__.update(
            kappas=kappas,
            xis=xis,
            rho=min(ratios, default=math.inf),
            strong_dominance=bool((right[:, :-1] <= right[:, 1:]).all()),
            lower_set=tuple(i for i in range(arms) if (margin[:i, i] <= TIE).all()),
            upper_set=tuple(i for i in range(arms) if (margin[i, i + 1 :] > TIE).all()),
            _rows=np.ascontiguousarray(rows, dtype=np.int64),
            _probabilities=law,
            _cycled=cycled,
        )
        self._freeze()

    def world(self) -> LawWorld | TableWorld:
        """Return the hidden part of the simulation, which draws the rows."""
        return TableWorld(self._rows) if self._cycled else LawWorld(self._rows, self._probabilities)

    def describe(self) -> str:
        """Return what there is to say about the problem in lines, the limit of its regret among them."""
        from weakfeedback.cascade.setting import describe_problem

        words = describe_problem(self)
        width = max(len(name) for name, _ in words)
        return "\n".join(f"{name:{width}}  {value}" for name, value in words)

    def measures(self, pulls: Any) -> dict[str, np.ndarray]:
        """Turn pull counts, shape (..., K), into regret, cost and the counts of each arm, shape (...) each.

        >>> problem = CascadeProblem([[1, 1, 1], [1, 0, 1]], [0.5, 0.5], costs=[0.25, 0.5])
        >>> problem.measures([3, 5])["regret"].item(), problem.measures([3, 5])["cost"].item()
        (0.75, 3.25)
        """
        return pull_measures(self, pulls)

    def digest(self) -> str:
        """Return a hexadecimal fingerprint of everything that determines a simulation of this problem."""
        return self._fingerprint(self.costs)


def pull_measures(problem: Any, pulls: Any) -> dict[str, np.ndarray]:
    """Turn pull counts, shape (..., K), into regret, cost and the counts of each arm, shape (...) each."""
    counts = counts_table("pulls", pulls, problem.arms)
    shares = {f"pulls_{arm}": counts[..., arm].copy() for arm in range(problem.arms)}
    return {"regret": weighted(counts, problem.gaps), "cost": weighted(counts, problem.costs), **shares}


def measures_with_labels(problem: CascadeProblem, counts: Any, price: float) -> dict[str, np.ndarray]:
    """Turn pull counts and the number of labels bought, shape (..., K + 1), into measures, shape (...) each.

    What the labels cost is part of the cost and of the regret.

    >>> problem = CascadeProblem([[1, 1, 1], [1, 0, 1]], [0.5, 0.5], costs=[0.25, 0.5])
    >>> measures = measures_with_labels(problem, [3, 5, 2], price=0.5)
    >>> measures["regret"].item(), measures["cost"].item(), measures["labels"].item()
    (1.75, 4.25, 2)
    """
    table = counts_table("counts", counts, problem.arms + 1)
    measures, labels = problem.measures(table[..., :-1]), table[..., -1].copy()
    for name in ("regret", "cost"):
        measures[name] = measures[name] + labels * price
    return {**measures, "labels": labels}


def _weighted_costs(costs: Any, tradeoff: Any, arms: int) -> np.ndarray:
    raw = cumulative_costs(costs)
    if raw.size != arms:
        raise OtherNumberOfCosts(arms, raw.size)
    if isinstance(tradeoff, str) or not np.iterable(tradeoff):
        factors = np.full(arms, number("tradeoff", tradeoff, above=0.0))
    else:
        factors = vector("tradeoff", tradeoff, size=arms)
        if (factors <= 0.0).any():
            raise ValueError(f"tradeoff must be > 0 for every arm, got {brief(tradeoff)}")
    with np.errstate(over="ignore"):
        found: np.ndarray = factors * raw
    if not np.isfinite(found).all():
        raise ValueError(f"tradeoff * costs must be finite, got {found.tolist()!r}")
    return found


def _probabilities_of_difference(
    rows: np.ndarray, law: np.ndarray, cycled: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the error rates and the disagreement matrix, each entry rounded once."""

    def probability(event: np.ndarray) -> float:
        return np.count_nonzero(event) / len(event) if cycled else min(math.fsum(law[event].tolist()), 1.0)

    arms = rows.shape[1] - 1
    errors = np.array([probability(rows[:, i + 1] != rows[:, 0]) for i in range(arms)])
    disagreement = np.zeros((arms, arms))
    for i, j in itertools.combinations(range(arms), 2):
        disagreement[i, j] = disagreement[j, i] = probability(rows[:, i + 1] != rows[:, j + 1])
    return errors, disagreement


def _kappas_and_xis(
    best: int, errors: np.ndarray, disagreement: np.ndarray, margin: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    # Expanded, xi_j is p - (C_i* - C_j) before the optimal arm and C_j - C_i* - p after it. The definition
    # via Delta and kappa would add and subtract the error rates, with rounding errors.
    # Two arms that differ in being right differ in output, so kappa_j >= 0 for any number of labels.
    kappas = np.zeros(len(errors))
    xis = np.zeros(len(errors))
    for j in range(len(errors)):
        if j < best:
            kappas[j] = max(disagreement[j, best] - (errors[j] - errors[best]), 0.0)
            xis[j] = max(-margin[j, best], 0.0)
        elif j > best:
            kappas[j] = max(disagreement[best, j] - (errors[best] - errors[j]), 0.0)
            xis[j] = margin[best, j]
    return kappas, xis


def _ratio(cost: float, probability: float) -> float:
    return float(cost) / float(probability) if probability > 0.0 else math.inf


def _error_after_error(rates: np.ndarray, slip: float, arm: int) -> float:
    """The probability that ``arm`` errs where arm 0 errs, in the recipe ``bsc``."""
    needed = rates[arm] - slip * (1.0 - rates[0])
    if rates[0] == 0.0 and abs(needed) <= TIE:
        return 0.0
    rate = float(needed) / float(rates[0]) if rates[0] > 0.0 else math.copysign(math.inf, needed)
    if not -TIE <= rate <= 1.0 + TIE:
        raise ValueError(
            f"errors[{arm}] must be from slip * (1 - errors[0]) to that plus errors[0], "
            f"got errors[{arm}]={rates[arm]:g}, errors[0]={rates[0]:g}, slip={slip:g}"
        )
    return min(max(rate, 0.0), 1.0)


def law_of(problem: RowsProblem) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows (y, y1, ..., yK) of a problem and their probabilities.

    >>> law_of(CascadeProblem([[1, 1], [1, 0]], [0.75, 0.25], costs=[0.1]))[1].tolist()
    [0.75, 0.25]
    """
    return problem._rows, problem._probabilities  # hidden from policies, not from checks of the theory


def sampled_rows(problem: RowsProblem, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """Return rows (y, y1, ..., yK) of ``rounds`` rounds: drawn from the law, or a data set shuffled and cycled."""
    rows, law = law_of(problem)
    if problem._cycled:
        return rows[np.resize(rng.permutation(len(rows)), rounds)]
    chosen = np.searchsorted(np.cumsum(law), rng.random(rounds), side="right")
    return rows[np.minimum(chosen, len(rows) - 1)]


def most_outputs(problem: RowsProblem) -> int:
    """Return the largest number of different outputs that the arms can give in one round.

    >>> most_outputs(CascadeProblem([[1, 1, 1, 1], [1, 0, 1, 2]], [1.0, 0.0], costs=[0.1, 0.2, 0.3]))
    1
    """
    possible = np.sort(problem._rows[problem._probabilities > 0.0, 1:], axis=1)
    return int((np.diff(possible, axis=1) != 0).sum(axis=1).max()) + 1
