"""The bounds of chapter 3 with their corrections, and the coverage of its confidence ellipsoid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.contextual.arguments import pairs
from weakfeedback.contextual.assumptions import fit_logistic
from weakfeedback.contextual.glm import confidence
from weakfeedback.contextual.problem import RealizableProblem
from weakfeedback.contextual.rows import TIE, ContextRows
from weakfeedback.validate import fraction, integer, number

LIPSCHITZ = 0.25  # k_mu of the logistic function


@dataclass(frozen=True)
class Unavoidable:
    """What contexts without weak dominance cost in every round, whatever the policy.

    Attributes
    ----------
    loss : float
        E[Delta_a(X)(X)], with a(x) the first arm that no later arm is worth its price against. A policy that is
        sub-linear where weak dominance holds has regret T times this, up to o(T).
    at_most : float
        E[max over i < a(X) of C_a - C_i + p_ia(X)]: a bound that needs no labels. It is not 0 where weak dominance
        holds.
    undecided : float
        The share of contexts at which no arm passes both tests. Weak dominance certainly fails there and any arm may
        be played, so they count in neither number.
    """

    loss: float
    at_most: float
    undecided: float


def unavoidable(problem: ContextRows) -> Unavoidable:
    """Return what contexts without weak dominance cost per round.

    >>> from weakfeedback.contextual import ContextualProblem
    >>> contexts = [[-1.0, 0.5], [-0.5, 1.0], [0.5, 0.5], [1.0, -1.0]]
    >>> problem = ContextualProblem(contexts, [0, 1, 1, 1], [[1.0], [1.0, 1.0]], [0.1, 0.3], "thresholded")
    >>> unavoidable(problem)
    Unavoidable(loss=0.3, at_most=0.6, undecided=0.0)
    """
    rows = np.arange(len(problem.gaps))
    extra = problem.costs[None, :] - problem.costs[:, None]  # C_j - C_i
    margin = extra - problem.disagreement
    later = np.triu(np.ones_like(extra, dtype=bool), 1)
    settled = (np.where(later, margin, np.inf) > TIE).all(axis=2).argmax(axis=1)  # the last arm always passes
    before = np.arange(problem.arms) < settled[:, None]
    worth = np.where(before, margin[rows, :, settled], -np.inf).max(axis=1) <= TIE
    most = np.where(before, (extra + problem.disagreement)[rows, :, settled], 0.0).max(axis=1)
    loss = problem.gaps[rows, settled]
    return Unavoidable(
        float(np.where(worth, loss, 0.0).mean()),
        float(np.where(worth, most, 0.0).mean()),
        float(1.0 - worth.mean()),
    )


def alpha(
    t: Any, dimension: int, arms: int, delta: float = 0.05, sigma: float = 0.1, kappa: float = 0.25
) -> float:
    """Return the radius of the confidence ellipsoid of USS-PD (thesis, lemma theta_est_glm).

        alpha = (2 sigma / kappa) sqrt( d'/2 log(1 + 2 t / d') + log(K^2 / (2 delta)) )

    With probability at least 1 - 2 delta / K^2, |theta_hat - theta|_V <= alpha for all t after the forced phase, if
    kappa is a lower bound on the slope of mu near theta and the noise is sigma-sub-Gaussian.

    >>> round(alpha(1000, dimension=10, arms=5), 4)
    4.5282
    """
    _settings(dimension, arms, delta, sigma, kappa)
    return float(confidence(number("t", t, at_least=0.0), dimension, arms, delta, sigma, kappa))


def beta(
    n: Any,
    dimension: int,
    arms: int,
    ridge: float = 1.0,
    norm_bound: float = 1.0,
    delta: float = 0.05,
    sigma: float = 0.1,
    kappa: float = 0.25,
) -> float:
    """Return the radius of the ellipsoid of USS-PD-lambdaI after n observations (thesis, lemma theta_est_glm2).

        beta = (2 sigma / kappa) sqrt( d'/2 log(1 + n / (d' lambda)) + log(K^2 / (2 delta)) ) + 2 sqrt(lambda) S

    It holds once the smallest eigenvalue of V without the ridge is at least 2 lambda.

    >>> round(beta(1000, dimension=10, arms=5), 4)
    6.2781
    """
    _settings(dimension, arms, delta, sigma, kappa)
    strength = number("ridge", ridge, above=0.0)
    effective = number("n", n, at_least=0.0) / (2.0 * strength)
    pull = 2.0 * math.sqrt(strength) * number("norm_bound", norm_bound, at_least=0.0)
    return float(confidence(effective, dimension, arms, delta, sigma, kappa) + pull)


def forced_rounds(
    lambda_sigma: float,
    dimension: int,
    arms: int,
    delta: float = 0.05,
    constant: float = 1.0,
    ridge: float = 1.0,
) -> float:
    """Return m = C lambda_Sigma^-2 (d' + log(K^2 / (2 delta))) + 2 ridge / lambda_Sigma (thesis, before its theorem).

    C is an unknown universal constant; 1 is a placeholder. ``ridge=1`` gives the m of USS-PD, which is meant to raise
    the eigenvalues of V to 1; ``ridge=2 * lambda`` gives the m' of USS-PD-lambdaI (printed there with d for d').

    >>> round(forced_rounds(0.01, dimension=10, arms=5))
    155415
    """
    least = number("lambda_sigma", lambda_sigma, above=0.0)
    _settings(dimension, arms, delta, 1.0, 1.0)
    factor = number("constant", constant, above=0.0)
    return factor * (dimension + _tail(arms, delta)) / least**2 + 2.0 * ridge / least


def largest_regret(problem: ContextRows) -> float:
    """Return R_max, the largest regret of a round."""
    return float(problem.gaps.max())


def margins(problem: ContextRows) -> np.ndarray:
    """Return xi_h of every arm h: the smallest C_h - C_i* - p_i*h(x) over the contexts with i*(x) < h.

    Infinite for an arm that comes after no optimal arm. The bounds need all of them above 0: weak dominance.
    """
    found = np.full(problem.arms, math.inf)
    rows = np.arange(len(problem.optimal_arms))
    best = problem.optimal_arms
    for h in range(1, problem.arms):
        apart = problem.disagreement[rows, best, h]
        margin = (problem.costs[h] - problem.costs[best] - apart)[best < h]
        found[h] = margin.min(initial=math.inf)
    return found


def regret_bound(
    problem: ContextRows,
    horizon: int,
    lambda_sigma: float,
    delta: float = 0.05,
    sigma: float = 0.1,
    kappa: float = 0.25,
    constants: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> float:
    """Bound the regret of USS-PD with probability 1 - 2 delta (thesis, theorem cum_reg_glm).

        R_max [ m + sum over h >= 2 of ( ((C_1 sqrt(d') + C_2 sqrt(L)) / lambda_Sigma)^2
                 + 32 / lambda_Sigma (k_mu sigma / (xi_h kappa))^2 (d'/2 log(1 + 2 T / d') + L) ) ],
        L = log(K^2 / (2 delta)),   k_mu = 1/4.

    The proof has a gap: it lets lambda_min(V_ij) grow as if the contexts that pair (i, h) has seen were drawn from the
    distribution of all contexts, but the pair sees only contexts at which arm h or a later one was chosen. No
    counterexample is known. An argument by elliptical potentials would give a bound of another form.

    Corrected: the thesis prints 16. Its proof has 8 / lambda_Sigma (k_mu alpha_T / xi_h)^2, and alpha_T^2 brings a
    factor 4 sigma^2 / kappa^2. ``constants`` are C, C_1 and C_2, universal and unknown, so the value is an order of
    magnitude and not a number to compare regrets with. kappa and sigma must satisfy the assumptions, which the
    defaults of the policies do not.
    """
    radius = alpha(integer("horizon", horizon, 1), problem.pair_dimension, problem.arms, delta, sigma, kappa)
    forced = forced_rounds(lambda_sigma, problem.pair_dimension, problem.arms, delta, constants[0])
    return _bound(problem, radius, forced, lambda_sigma, delta, constants)


def ridge_regret_bound(
    problem: ContextRows,
    horizon: int,
    lambda_sigma: float,
    ridge: float = 1.0,
    norm_bound: float = 1.0,
    delta: float = 0.05,
    sigma: float = 0.1,
    kappa: float = 0.25,
    constants: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> float:
    """Bound the regret of USS-PD-lambdaI with probability 1 - 2 delta (thesis, theorem cum_reg_glm2).

    The bound of ``regret_bound`` with m' for m and 8 / lambda_Sigma (k_mu beta_T / xi_h)^2 in the sum.

    Corrected: the bound as printed has the factor 2 sigma / kappa on the root, where it belongs (32 = 8 * 4), but also
    on the term 2 sqrt(lambda) S, where it does not. (The beta_T written in its proof lacks the factor altogether.) The
    printed factor lambda before the square does not follow either: the proof bounds |phi| by
    1 / sqrt(lambda_min(V)), without lambda.
    """
    rounds = integer("horizon", horizon, 1)
    width = problem.pair_dimension
    radius = beta(rounds, width, problem.arms, ridge, norm_bound, delta, sigma, kappa)
    forced = forced_rounds(lambda_sigma, width, problem.arms, delta, constants[0], ridge=2.0 * ridge)
    return _bound(problem, radius, forced, lambda_sigma, delta, constants)


def decomposed_bound(problem: ContextRows, horizon: int, bound: float) -> float:
    """Bound the regret where only some contexts have weak dominance: (1 - rho) bound + rho R_max T.

    rho is the share of contexts without weak dominance and ``bound`` what would hold if all had it (thesis, section
    "Regret decomposition"). The thesis's proof treats rho as a probability in every single round; for contexts served
    from a data set this holds on average.

    >>> from weakfeedback.contextual import ContextualProblem
    >>> problem = ContextualProblem([[-1.0], [1.0]], [0, 1], [[1.0], [-1.0]], [0.0, 0.5], "thresholded")
    >>> problem.weak_dominance_fraction, decomposed_bound(problem, 100, bound=20.0)
    (0.0, 150.0)
    """
    rho = 1.0 - problem.weak_dominance_fraction
    rounds = integer("horizon", horizon, 1)
    return (1.0 - rho) * number("bound", bound, at_least=0.0) + rho * largest_regret(problem) * rounds


def observations_needed(
    level: float,
    lambda_min: float,
    dimension: int,
    arms: int,
    delta: float = 0.05,
    constants: tuple[float, float] = (1.0, 1.0),
) -> float:
    """Return how many observations bring all eigenvalues of V_ij to ``level`` (thesis, lemma min_eigen_lb).

        ((C_1 sqrt(d') + C_2 sqrt(log(K^2 / (2 delta)))) / lambda_min)^2 + 2 level / lambda_min

    Corrected: with probability 1 - 2 delta / K^2 *if* there are that many, not "iff". The constants are unknown.

    >>> observations_needed(level=1.0, lambda_min=0.1, dimension=4, arms=2, constants=(1.0, 0.0))
    420.0
    """
    least = number("lambda_min", lambda_min, above=0.0)
    _settings(dimension, arms, delta, 1.0, 1.0)
    root = constants[0] * math.sqrt(dimension) + constants[1] * math.sqrt(max(_tail(arms, delta), 0.0))
    return (root / least) ** 2 + 2.0 * number("level", level, above=0.0) / least


@dataclass(frozen=True)
class Coverage:
    """How often the confidence ellipsoid held the true parameter.

    ``share`` is over replications and pairs at the given round; ``simultaneous`` counts a replication only if all
    pairs are inside. ``largest`` is the largest |theta_hat - theta|_V / alpha that occurred.
    """

    share: float
    simultaneous: float
    promised: float
    largest: float


def ellipsoid_coverage(
    problem: RealizableProblem,
    rounds: int,
    replications: int = 200,
    delta: float = 0.05,
    sigma: float = 0.1,
    kappa: float = 0.25,
    ridge: float = 1e-6,
    seed: int = 0,
) -> Coverage:
    """Measure how often |theta_hat_ij - theta_ij|_V <= alpha after ``rounds`` rounds in which all arms were seen.

    Contexts are drawn with replacement, disagreements from the true model, and the estimate is exact. The lemma
    promises 1 - 2 delta / K^2 for each pair, at all rounds together, for a true kappa and sigma.
    """
    n = integer("rounds", rounds, 1)
    rng = np.random.default_rng(integer("seed", seed, 0))
    first, second = pairs(problem.arms)
    width = problem.pair_dimension
    radius = alpha(n, width, problem.arms, delta, sigma, kappa)
    ratios = np.zeros((integer("replications", replications, 1), len(first)))
    for r in range(len(ratios)):
        rows = rng.integers(0, len(problem.contexts), size=n)
        for m, (i, j) in enumerate(zip(first, second)):
            phi = problem.pair_features(m)[rows]
            differ = (rng.random(n) < problem.disagreement[rows, i, j]).astype(float)
            error = fit_logistic(phi, differ, ridge) - problem.pair_parameters[m]
            ratios[r, m] = float(np.linalg.norm(phi @ error)) / radius
    inside = ratios <= 1.0
    promised = 1.0 - 2.0 * delta / problem.arms**2
    return Coverage(float(inside.mean()), float(inside.all(axis=1).mean()), promised, float(ratios.max()))


def _bound(
    problem: ContextRows,
    radius: float,
    forced: float,
    lambda_sigma: float,
    delta: float,
    constants: tuple[float, float, float],
) -> float:
    xis = margins(problem)[1:]
    if not problem.weak_dominance.all() or (xis <= TIE).any():
        raise ValueError(f"problem must satisfy weak dominance in every context, got {problem!r}")
    pulls = 0.0
    for xi in xis:
        if math.isfinite(xi):  # otherwise the arm comes after no optimal arm
            level = (2.0 * LIPSCHITZ * radius / float(xi)) ** 2
            pulls += observations_needed(
                level, lambda_sigma, problem.pair_dimension, problem.arms, delta, constants[1:]
            )
    return largest_regret(problem) * (forced + pulls)


def _tail(arms: int, delta: float) -> float:
    return math.log(arms * arms / (2.0 * delta))


def _settings(dimension: Any, arms: Any, delta: Any, sigma: Any, kappa: Any) -> None:
    integer("dimension", dimension, 1)
    integer("arms", arms, 1)
    fraction("delta", delta)
    number("sigma", sigma, above=0.0)
    number("kappa", kappa, above=0.0)
