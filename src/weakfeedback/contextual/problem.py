"""Problems of contextual unsupervised sequential selection (thesis, chapter 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from weakfeedback.contextual.arguments import pairs
from weakfeedback.contextual.rows import TIE, ContextRows
from weakfeedback.contextual.world import ContextualWorld, RealizableWorld
from weakfeedback.validate import brief, one_of, plain, vector

if TYPE_CHECKING:
    from weakfeedback.engine.loop import Loop


class ContextualProblem(ContextRows):
    """A cascade of K classifiers whose errors depend on a context and are never revealed.

    Setting
    -------
    Every round has a context x, a row of a data set: rows are served in turn, in an order shuffled per replication. Arm
    i is a logistic classifier. The learner sees x, stops the cascade at an arm i and pays the known cost C_i of arms 1
    to i together, and 1 more if the label of arm i is wrong.

    What is hidden
    --------------
    The true label, in every round and for ever, the labels of the arms after the chosen one, and the parameters.

    What is seen
    ------------
    The features Phi(x) of the context before deciding, and the labels of the arms up to the chosen one.

    Regret
    ------
    ``gaps[row, i]`` = gamma_i(x) + C_i minus its least value over the arms, for every stop at arm i in the context
    of that row. It is computed from the parameters, not from the labels drawn. gamma_i(x) is the probability, given
    x, that arm i is wrong. The simulation adds gaps up in integer units of about 4e-12, so that sums are exact.

    Arguments
    ---------
    contexts : numbers, shape (n, d)
    truth : n labels, 0 or 1
    parameters : K vectors theta_i
        Of length d each; a shorter one reads the first features only (nested feature subsets).
    costs : K non-decreasing numbers >= 0
        Cumulative costs: ``costs[i]`` is the total price of stopping at arm i.
    labels : "random" or "thresholded"
        "random": arm i says 1 with probability mu(x.theta_i + b_i), independently of the other arms given x, as
        chapter 3 has it. "thresholded": it says 1 if x.theta_i + b_i > 0, as a classifier does.
    intercepts : K numbers b_i, or None for zeros
    features : a map of contexts, shape (n, d), to features, shape (n, d')
        None: ``QuadraticFeatures`` with the largest norm of the contexts as bound. A ``QuadraticFeatures`` that was
        not fitted is fitted to the contexts (a copy of it).

    Attributes
    ----------
    arms, costs, contexts, features, dimension, feature_map
        K, C_i, the contexts, Phi of every row, d', and the map. ``per_pair``: whether it is one map per pair.
    errors, disagreement, gaps : arrays of shape (n, K), (n, K, K) and (n, K)
        gamma_i(x), p_ij(x) and the regret of every row.
    optimal_arms, xis, weak_dominance : n each
        i*(x), the largest index among the minimisers (within 1e-12); xi(x); whether xi(x) > 1e-12.
    weak_dominance_fraction : float
        The share of contexts with weak dominance, by its definition, with i*(x) of each context.
    weak_dominance_fraction_fixed : float
        The same with the best fixed arm ``best_fixed_arm`` instead of i*(x). The fractions printed in the thesis
        for its synthetic data are of this kind.
    strong_dominance_fraction : float
        The share of contexts where, almost surely, an arm that is right makes all later arms right.
    xi : float
        The least xi(x).

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, sections 3.2 and 3.5.

    Examples
    --------
    Two arms; the second knows the second feature too. The labels are thresholded.

    >>> contexts = [[-1.0, 0.5], [-0.5, 1.0], [0.5, 0.5], [1.0, -1.0]]
    >>> problem = ContextualProblem(contexts, [0, 1, 1, 1], [[1.0], [1.0, 1.0]], [0.1, 0.3], "thresholded")
    >>> problem
    ContextualProblem(arms=2, contexts=4, dimension=4, weak_dominance_fraction=0.75)
    >>> problem.errors_at(1).tolist(), problem.optimal_arm_at(1), problem.optimal_arm_at(0)
    ([1.0, 0.0], 1, 0)
    """

    errors: np.ndarray
    labels: str
    _chance: np.ndarray
    _truth: np.ndarray
    _losses: np.ndarray

    def __init__(
        self,
        contexts: Any,
        truth: Any,
        parameters: Any,
        costs: Any,
        labels: str = "random",
        intercepts: Any = None,
        features: Any = None,
    ):
        one_of("labels", labels, ("random", "thresholded"))
        self._open(contexts, costs, features)
        target = _binary("truth", truth, len(self.contexts))
        scores = self.contexts @ self._parameters(parameters).T + self._intercepts(intercepts)
        if labels == "random":
            from scipy.special import expit

            chance = expit(scores)
        else:
            chance = (scores > 0.0).astype(float)
        errors = np.where(target[:, None] == 1, 1.0 - chance, chance)
        one, other = chance[:, :, None], chance[:, None, :]
        disagreement = one * (1.0 - other) + other * (1.0 - one)
        disagreement[:, np.arange(self.arms), np.arange(self.arms)] = (
            0.0  # an arm does not differ from itself
        )
        total = errors + self.costs
        near = total <= total.min(axis=1, keepdims=True) + TIE
        best = self.arms - 1 - np.argmax(near[:, ::-1], axis=1)
        gaps = np.maximum(total - total[np.arange(len(best)), best][:, None], 0.0)
        self._close(gaps, best, disagreement, coherent=True)
        # an arm right and a later one wrong: impossible in how many contexts?
        reversal = (1.0 - errors)[:, :, None] * errors[:, None, :]
        first, second = pairs(self.arms)
        strong = (reversal[:, first, second] <= TIE).all(axis=1)
        self.__dict__.update(
            errors=errors,
            labels=labels,
            strong_dominance_fraction=float(strong.mean()),
            _chance=chance,
            _truth=target,
            _losses=np.rint(errors / self._unit).astype(np.int64),
        )
        self._freeze()

    def _parameters(self, parameters: Any) -> np.ndarray:
        d = self.contexts.shape[1]
        try:
            rows = list(parameters)
        except TypeError:
            raise ValueError(f"parameters must be {self.arms} vectors, got {brief(parameters)}") from None
        if len(rows) != self.arms:
            raise ValueError(f"parameters must be {self.arms} vectors, one per cost, got {len(rows)}")
        padded = np.zeros((self.arms, d))
        for arm, row in enumerate(rows):
            theta = vector(f"parameters[{arm}]", row)
            if theta.size > d:
                raise ValueError(f"parameters[{arm}] must be at most {d} numbers, got {theta.size}")
            padded[arm, : theta.size] = theta
        return padded

    def _intercepts(self, intercepts: Any) -> np.ndarray:
        return np.zeros(self.arms) if intercepts is None else vector("intercepts", intercepts, size=self.arms)

    def errors_at(self, row: Any) -> np.ndarray:
        """Return gamma_i(x) of every arm for the context of a row."""
        return np.array(self.errors[self._row(row)])

    def world(self) -> ContextualWorld:
        """Return the hidden part of the simulation."""
        drawn = self.labels == "random"
        return ContextualWorld(self.features, self._chance, self._truth, self._regrets, self._losses, drawn)

    def measures(self, counts: Any) -> dict[str, np.ndarray]:
        """Turn counts, shape (..., K + 2), into regret, cost, total_cost and the pulls of each arm.

        total_cost is the sum of gamma_{I_t}(x_t) + C_{I_t}.
        """
        table, found = self._sums(counts, extra=2)
        found["total_cost"] = found["cost"] + table[..., self.arms + 1] * self._unit
        found.update((f"pulls_{arm}", table[..., arm].copy()) for arm in range(self.arms))
        return found

    def digest(self) -> str:
        """Return a hexadecimal fingerprint of everything that determines a simulation of this problem."""
        drawn = np.array([self.labels == "random"])
        return self._fingerprint(self._chance, self._truth, self._losses, drawn)


class RealizableProblem(ContextRows):
    """A contextual cascade given by its disagreements alone: p_ij(x) = mu(Phi_ij(x).theta_ij) exactly.

    Setting, what is hidden, what is seen
    -------------------------------------
    As in ``ContextualProblem``, but there are no labels: the disagreements of the pairs are drawn, independently of
    each other, and a policy learns by ``update_pairs``. Error rates do not exist.

    Regret
    ------
    The pseudo-regret C_I - C_i* + p_{i*,I}(x) of stopping at arm I, an upper bound on the regret of any cascade with
    these disagreements (``regret="absolute"``: |C_I - C_i*| + p_{i*,I}(x), as the thesis's figure has it). i*(x) is
    the smallest arm i with C_j - C_i > p_ij(x) for all j > i, or the last.

    Arguments
    ---------
    contexts : numbers, shape (n, d)
    pair_parameters : mapping {(i, j): theta_ij}, or an array
        The array has shape (K(K-1)/2, d'), in the order (0, 1), (0, 2), ..., (1, 2), ..., or (K, K, d').
    costs : K non-decreasing numbers >= 0, cumulative
    features : as in ``ContextualProblem``
    regret : "signed" or "absolute"

    Attributes
    ----------
    As in ``ContextualProblem``, without errors. Weak dominance of a context means here that C_j - C_i* > p_i*j(x) for
    j > i* and C_i* - C_j <= p_ji*(x) for j < i*: then i* is optimal for some error rates. The first half holds by the
    choice of i*. ``strong_dominance_fraction`` is NaN: it is about errors.

    References
    ----------
    A. Verma, Sequential Decision Problems with Weak Feedback, IIT Bombay 2021, section "Realizable Setting".

    Examples
    --------
    >>> problem = RealizableProblem([[-1.0], [1.0]], {(0, 1): [-2.0, 2.0, 0.0]}, costs=[0.1, 0.3],
    ...                             features=lambda x: np.column_stack([x**0, x, x**2]))
    >>> problem.disagreement_at(1)[0, 1].item(), [problem.optimal_arm_at(0), problem.optimal_arm_at(1)]
    (0.5, [0, 1])
    >>> problem.gaps.round(3).tolist()
    [[0.0, 0.218], [0.3, 0.0]]
    """

    pair_parameters: np.ndarray
    regret: str

    def __init__(
        self, contexts: Any, pair_parameters: Any, costs: Any, features: Any = None, regret: str = "signed"
    ):
        one_of("regret", regret, ("signed", "absolute"))
        self._open(contexts, costs, features)
        from scipy.special import expit

        first, second = pairs(self.arms)
        theta = _pair_vectors(pair_parameters, self.arms, self.pair_dimension)
        n = len(self.contexts)
        disagreement = np.zeros((n, self.arms, self.arms))
        for m, (i, j) in enumerate(zip(first, second)):
            disagreement[:, i, j] = disagreement[:, j, i] = expit(self.pair_features(m) @ theta[m])
        best = np.full(n, self.arms - 1)
        for i in range(self.arms - 2, -1, -1):
            best[self._margins(np.full(n, i), disagreement) > TIE] = i
        extra = self.costs[None, :] - self.costs[best][:, None]
        apart = disagreement[np.arange(n), best]
        below = np.arange(self.arms)[None, :] < best[:, None]
        coherent = (~below | (-extra <= apart + TIE)).all(axis=1)
        gaps = (np.abs(extra) if regret == "absolute" else extra) + apart
        self._close(gaps, best, disagreement, coherent)
        self.__dict__.update(pair_parameters=theta, regret=regret, strong_dominance_fraction=math.nan)
        self._freeze()

    def errors_at(self, row: Any) -> np.ndarray:
        """Refuse: disagreements do not determine errors."""
        raise ValueError(f"a RealizableProblem has no error rates, so there are none at row {row!r}")

    def world(self) -> RealizableWorld:
        """Return the hidden part of the simulation."""
        return RealizableWorld(self.features, self.disagreement, self._regrets)

    def loop(self) -> Loop:
        """Return the round loop of this setting."""
        from weakfeedback.contextual.play import PAIR_LOOP

        return PAIR_LOOP

    def measures(self, counts: Any) -> dict[str, np.ndarray]:
        """Turn counts, shape (..., K + 1), into pseudo-regret, cost and the pulls of each arm."""
        table, found = self._sums(counts, extra=1)
        found.update((f"pulls_{arm}", table[..., arm].copy()) for arm in range(self.arms))
        return found

    def digest(self) -> str:
        """Return a hexadecimal fingerprint of everything that determines a simulation of this problem."""
        return self._fingerprint(self.disagreement)


def _binary(name: str, value: Any, size: int) -> np.ndarray:
    try:
        array = np.asarray(plain(value))
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be {size} labels, each 0 or 1, got {brief(value)}") from None
    if array.shape != (size,) or array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise ValueError(
            f"{name} must be {size} labels, each 0 or 1, got {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.int64)


def _pair_vectors(value: Any, arms: int, width: int) -> np.ndarray:
    """The parameters of the pairs in order, shape (K(K-1)/2, width)."""
    wanted = list(zip(*pairs(arms)))
    if isinstance(value, Mapping):
        if set(value) != set(wanted):
            raise ValueError(
                f"pair_parameters must have one vector for each of {wanted}, got {brief(list(value))}"
            )
        rows = [value[pair] for pair in wanted]
    else:
        try:
            table = np.array(plain(value), dtype=float)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(f"pair_parameters must be numbers, got {type(value).__name__}") from None
        if table.ndim == 3 and table.shape[:2] == (arms, arms):
            table = np.array([table[pair] for pair in wanted])
        if table.ndim != 2 or len(table) != len(wanted):
            raise ValueError(f"pair_parameters must have shape ({len(wanted)}, {width}), got {table.shape}")
        rows = list(table)
    return np.array([vector(f"pair_parameters of {p}", row, size=width) for p, row in zip(wanted, rows)])
