"""Regret bounds of chapter 2 as functions of a problem and a horizon, with their corrections, and a lower bound.

The bounds are those of the thesis, from Verma et al. (AISTATS 2019, USS-UCB) and Verma et al. (ACML 2020, USS-TS).
Formulas count arms from 1, as the thesis does.
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from weakfeedback.cascade.limit import Limit, limit
from weakfeedback.cascade.problem import TIE, CascadeProblem
from weakfeedback.validate import brief, integer, number

__all__ = [
    "Limit",
    "empty_set_counterexample",
    "forced_comparison_regret",
    "limit",
    "strong_dominance_counterexample",
    "ts_regret_leading",
    "ts_regret_uniform",
    "ucb_pulls",
    "ucb_regret",
    "ucb_regret_strong_dominance",
    "ucb_regret_uniform",
    "uniform_counterexample",
]

Exploration = Callable[[int], float]
Repair = bool | Literal["tight"]


def ucb_pulls(
    problem: CascadeProblem,
    horizon: int,
    alpha: float,
    f: Exploration | None = None,
    repaired: Repair = False,
) -> np.ndarray:
    """Bound the mean number of pulls of every arm by USS-UCB (thesis, section 2.4, proposition MeanPulls).

    Under weak dominance, with C = sum over t of f(t)^(-2 alpha) finite and L = alpha log f(T),

        E N_j(T) <= C / (2 xi_j^2)                                        for j < i*,
        E N_j(T) <= 1 + (L + sqrt(pi L / 2) + 1/2) / xi_j^2               for j > i*.

    The entry of the optimal arm is the horizon. With f left out, f(t) = t as in the policy and C = zeta(2 alpha),
    which needs alpha > 0.5. With f given, C is the sum over t = 1, ..., T: the proof uses no more, but the
    bound stays finite as T grows only if the series converges.

    The line for j > i* does not hold as stated if j is the last of three or more arms. USS-UCB also plays the last arm
    when no arm passes its tests, and that says nothing about the last arm's own disagreement with i* (the proof assumes
    that an arm that is played is preferred to i*). On ``empty_set_counterexample`` it plays the last arm in all of 10
    000 rounds, where the bound is 53. All other entries hold.

    With ``repaired=True`` the entry of the last arm is 1 (for round 1) plus the entries of all other j != i* plus its
    own. The argument of the thesis proves this: if i* fails its tests, it does so against some j, and playing the last
    arm also compares i* with that j. In such rounds all pairs are compared, so ``repaired="tight"`` has, with xi the
    smallest xi_j over j > i*,

        E N_K(T) <= 2 + L / xi^2 + sum over j < i* of C / (2 xi_j^2)
                      + sum over j > i* of (sqrt(pi L / 2) + 1/2) / xi_j^2.

    So the corollary of the thesis stays true: the regret is O(log T sum over j > i* of Delta_j / xi^2), with the
    smallest xi.

    Arguments
    ---------
    problem : a problem with weak dominance
    horizon : the number of rounds T
    alpha : the policy's parameter
    f : a non-decreasing function of the round with f(1) >= 1; its logarithm drives exploration
    repaired : whether to correct the entry of the last arm, True or "tight"

    >>> ucb_pulls(uniform_counterexample(xi=0.1), horizon=1000, alpha=1.0).round(1).tolist()
    [1000.0, 1071.2]
    """
    _need_weak_dominance(problem)
    if not isinstance(repaired, bool) and repaired != "tight":
        raise ValueError(f"repaired must be True, False or 'tight', got {brief(repaired)}")
    series, log_f = _exploration(horizon, alpha, f)
    width = alpha * log_f
    tail = math.sqrt(math.pi * width / 2.0) + 0.5
    best, last = problem.optimal_arm, problem.arms - 1
    pulls = np.full(problem.arms, float(horizon))
    for j in range(problem.arms):
        square = float(problem.xis[j]) ** 2
        if j < best:
            # a tie, to the tolerance of the problem, may be played for ever
            pulls[j] = series / (2.0 * square) if problem.xis[j] > TIE else math.inf
        elif j > best:
            pulls[j] = 1.0 + (width + tail) / square
    if repaired == "tight" and best < last:
        later = problem.xis[best + 1 :]
        pulls[last] = 2.0 + width / later.min() ** 2 + math.fsum([*pulls[:best], *(tail / later**2)])
    elif repaired and best < last:
        pulls[last] = 1.0 + math.fsum(pulls[j] for j in range(problem.arms) if j != best)
    return pulls


def ucb_regret(
    problem: CascadeProblem,
    horizon: int,
    alpha: float,
    f: Exploration | None = None,
    repaired: Repair = False,
) -> float:
    """Bound the expected regret of USS-UCB on one problem (thesis, section 2.4, first theorem).

    The sum over j != i* of Delta_j times the bound of ``ucb_pulls``, under the same conditions. An arm that
    ties with the optimal one adds nothing.

    For the reason given in ``ucb_pulls`` it does not hold as stated if there are three or more arms and i* is not
    the last: on ``empty_set_counterexample()`` the bound at T = 10 000, alpha = 1, is 1378 and the regret 5100. With
    ``repaired=True`` or "tight" it is sound, and so is the corollary that regret is logarithmic in T. For two arms
    the proof holds, with 1 more pull of arm 2 for round 1.

    >>> round(ucb_regret(empty_set_counterexample(), 10_000, alpha=1.0))
    1378
    """
    pulls = ucb_pulls(problem, horizon, alpha, f, repaired)
    return math.fsum(
        problem.gaps[j] * pulls[j]
        for j in range(problem.arms)
        if j != problem.optimal_arm and problem.gaps[j] > TIE
    )


def ucb_regret_strong_dominance(
    problem: CascadeProblem, horizon: int, alpha: float, f: Exploration | None = None
) -> float:
    """Bound the expected regret of USS-UCB uniformly under strong dominance: 4 sqrt(alpha K T log f(T)).

    Thesis, section 2.4, theorem on problem independent bounds, second part. The proof needs alpha > 0.5 when f(t) = t,
    binary labels (so that all kappa_j are 0), and T large enough; it drops constants that grow with C_K - C_1, so it
    also needs costs that are small compared with the bound.

    It does not hold for four or more arms, and no bound of order sqrt(T) does: on
    ``strong_dominance_counterexample()`` the bound at T = 10 000, alpha = 1, is 2428 and the regret 8479, and with a
    step that shrinks like 1 / sqrt(T) the regret is linear in T. For three arms the order sqrt(T) holds: if arm 3 is
    played and i* fails its tests, Delta_3 is at most four confidence widths. The logarithmic bound of
    ``ucb_regret(..., repaired=True)`` holds for any number of arms.

    >>> round(ucb_regret_strong_dominance(strong_dominance_counterexample(), 10_000, alpha=1.0))
    2428
    """
    if not problem.strong_dominance or (problem.kappas > TIE).any():
        raise ValueError(f"problem must satisfy strong dominance with binary labels, got {problem!r}")
    _, log_f = _exploration(horizon, alpha, f)
    return 4.0 * math.sqrt(alpha * problem.arms * horizon * log_f)


def ucb_regret_uniform(
    problem: CascadeProblem, horizon: int, alpha: float, f: Exploration | None = None
) -> float:
    """Return the uniform bound claimed for USS-UCB under weak dominance: 3 (3 alpha K log f(T))^(1/3) T^(2/3).

    Thesis, section 2.4, theorem on problem independent bounds, first part. It does not hold uniformly: the proof
    balances T xi' against a term in 1 / xi'^2 with a free xi', but needs xi' < xi, and xi can be arbitrarily small. On
    ``uniform_counterexample()`` with alpha = 1, USS-UCB plays arm 2 in every one of 100 000 rounds: regret 100 100
    against a bound of 26 520. Another policy, forced comparison, attains the rate T^(2/3) up to a factor sqrt(log T):
    ``forced_comparison_regret``.

    >>> round(ucb_regret_uniform(uniform_counterexample(), 100_000, alpha=1.0))
    26520
    """
    _need_weak_dominance(problem)
    _, log_f = _exploration(horizon, alpha, f)
    return float(3.0 * (3.0 * alpha * problem.arms * log_f) ** (1.0 / 3.0) * horizon ** (2.0 / 3.0))


def ts_regret_leading(problem: CascadeProblem, horizon: int, epsilon: float) -> float:
    """Return the leading term of the bound on the regret of USS-TS on one problem.

    Thesis, section 2.5, theorem on the problem dependent bound: under weak dominance and transitivity of the
    samples, for any epsilon > 0, the regret is at most

        sum over j > i* of (1 + epsilon) ln T Delta_j / d(p_j, p_j + xi_j)  +  O((K - i*) / epsilon^2),

    with p_j the disagreement of i* and j, and d the Kullback-Leibler divergence of Bernoulli laws. Only the first
    part is returned: the O hides unstated functions of the p_j and xi_j, also of the arms before i*.
    p_j + xi_j is C_j - C_i*; where that is 1 or more, no sample can exceed it, d is infinite and the arm adds
    nothing.

    Transitivity holds trivially for two arms. With three or more it does not hold for USS-TS, which draws the samples
    of different pairs independently: with the costs (.05, .1, .53) of the thesis, 27 % of the draws from the prior are
    not transitive. So the theorem then says nothing about USS-TS, and without its condition the bound fails
    (``empty_set_counterexample(0.1)``).

    >>> round(ts_regret_leading(uniform_counterexample(xi=0.1), horizon=1000, epsilon=0.1), 1)
    409.5
    """
    _need_weak_dominance(problem)
    rounds = integer("horizon", horizon, low=1)
    scale = (1.0 + number("epsilon", epsilon, above=0.0)) * math.log(rounds)
    best = problem.optimal_arm
    terms = []
    for j in range(best + 1, problem.arms):
        p = float(problem.disagreement[best, j])
        terms.append(scale * problem.gaps[j] / _divergence(p, p + float(problem.xis[j])))
    return math.fsum(terms)


def ts_regret_uniform(arms: int, horizon: int, strong: bool) -> float:
    """Return the order of the uniform bounds on the regret of USS-TS, without their constants.

    Thesis, section 2.5, theorem on problem independent bounds: sqrt(K T ln T) under strong dominance,
    (K ln T)^(1/3) T^(2/3) under weak dominance, both if the samples are transitive.

    For three or more arms transitivity does not hold for USS-TS (see ``ts_regret_leading``). The second bound does not
    hold for two arms either, for the reason given in ``ucb_regret_uniform``: on ``uniform_counterexample`` the regret
    of USS-TS is also linear in T until T is about 1 / xi^2, which no constant can cover.

    >>> round(ts_regret_uniform(3, 10_000, strong=True)), round(ts_regret_uniform(3, 10_000, strong=False))
    (526, 1403)
    """
    k = integer("arms", arms, low=1)
    rounds = integer("horizon", horizon, low=1)
    if strong:
        return math.sqrt(k * rounds * math.log(rounds))
    return float((k * math.log(rounds)) ** (1.0 / 3.0) * rounds ** (2.0 / 3.0))


def forced_comparison_regret(problem: CascadeProblem, horizon: int) -> float:
    """Bound the expected regret of ``variants.ForcedComparison`` on any problem with rho >= 1. Not in the thesis.

        Delta_max (T^(2/3) + 2 + K^2 (1 + log T)) + 3 T^(2/3) sqrt(log T),    Delta_max the largest gap.

    Proof. At most T^(2/3) + 2 rounds are forced. In another round t all pairs were compared at least t^(2/3) times, and
    with probability 1 - K^2 / t every estimate is within w = sqrt(log t / N) of its p_ij. Then i* is accepted, so the
    arm played is some i <= i*; and if i < i*, it was accepted against i*: C_i* - C_i >= p_ii* - 2 w, so
    Delta_i = gamma_i - gamma_i* - (C_i* - C_i) <= p_ii* - (C_i* - C_i) <= 2 w <= 2 sqrt(log T) t^(-1/3). Add up.

    Delta_max is at most C_K - C_1 + 1, so the whole set of problems with rho >= 1 is learned by one policy, at a
    uniform rate. (rho = 1 is a tie of extra cost and disagreement, xi = 0.)

    >>> round(forced_comparison_regret(uniform_counterexample(), 100_000))
    24139
    """
    if problem.xi < -TIE:
        raise ValueError(f"problem must have rho >= 1, got {problem!r}")
    rounds = integer("horizon", horizon, low=1)
    rate, log = rounds ** (2.0 / 3.0), math.log(rounds)
    largest = float(problem.gaps.max())
    return float(largest * (rate + 2.0 + problem.arms**2 * (1.0 + log)) + 3.0 * rate * math.sqrt(log))


def uniform_counterexample(xi: float = 0.001) -> CascadeProblem:
    """Return a problem with weak dominance by a margin ``xi`` where arm 2 costs more than 1/2 more per round.

    Arm 1 is always right, arm 2 is wrong with probability 1/2 and costs 1/2 + xi more. The two arms must be compared
    about alpha log(T) / xi^2 times before arm 1 is accepted, at a regret of 1 + xi each.
    """
    margin = number("xi", xi, above=TIE)
    return CascadeProblem([[1, 1, 1], [1, 1, 0]], [0.5, 0.5], costs=[0.0, 0.5 + margin])


def empty_set_counterexample(xi: float = 0.01) -> CascadeProblem:
    """Return a problem with weak dominance where USS-UCB keeps playing a last arm that it has already shown to be bad.

    Arms 1 and 3 always agree and are wrong with probability .3, arm 2 is always right. Arm 2 is almost worth its
    cost (it loses by ``xi`` < .5), so arm 1 passes its test against arm 2 only after alpha log(T) / xi^2
    comparisons. Arm 2 fails against arm 3, because they disagree more often than the extra cost. No arm passes, so arm
    3 is played, at a regret of .5 + xi per round.
    """
    margin = number("xi", xi, above=TIE)
    if margin >= 0.5:
        raise ValueError(f"xi must be a number below 0.5, got {brief(xi)}")
    costs = [0.0, 0.3 + margin, 0.5 + margin]
    return CascadeProblem([[1, 0, 1, 0], [1, 1, 1, 1]], [0.3, 0.7], costs)


def strong_dominance_counterexample(step: float = 0.03, dear: float = 1.0) -> CascadeProblem:
    """Return four copies of one perfect test, at the costs 0, ``step``, 2 ``step`` and 2 ``step`` + ``dear``.

    The first is optimal. While the confidence width lies between ``step`` and 2 ``step``, arm 1 fails against arm 2,
    arm 2 against arm 3, and arms 3 and 4 are not worth their price over arm 1: no arm passes both tests, so USS-UCB
    plays the last, at a regret of 2 ``step`` + ``dear`` per round. With step = sqrt(alpha log(T) / T) this happens in
    about the last three quarters of T rounds. The arms always agree, so nothing here is random.
    """
    low, more = number("step", step, above=TIE), number("dear", dear, above=TIE)
    return CascadeProblem([[1] * 5], [1.0], [0.0, low, 2.0 * low, 2.0 * low + more])


def _need_weak_dominance(problem: CascadeProblem) -> None:
    if not problem.weak_dominance:
        raise ValueError(f"problem must satisfy weak dominance, got {problem!r}")


def _exploration(horizon: int, alpha: float, f: Exploration | None) -> tuple[float, float]:
    """Return the sum C of f(t)^(-2 alpha) and log f(T)."""
    rounds = integer("horizon", horizon, low=1)
    exponent = 2.0 * number("alpha", alpha, above=0.0)
    if f is None:
        if exponent <= 1.0:
            raise ValueError(f"alpha must be > 0.5 when f(t) = t, or the series diverges, got {brief(alpha)}")
        from scipy.special import zeta

        return float(zeta(exponent)), math.log(rounds)
    values = np.array([float(f(t)) for t in range(1, rounds + 1)])
    if not np.isfinite(values).all() or values[0] < 1.0 or (np.diff(values) < 0.0).any():
        raise ValueError("f must be finite and non-decreasing from f(1) >= 1 up to the horizon")
    return math.fsum(values**-exponent), math.log(values[-1])


def _divergence(p: float, q: float) -> float:
    """Return the Kullback-Leibler divergence d(p, q) of Bernoulli laws for p < q, infinite from q = 1 on."""
    if q >= 1.0 - TIE:
        return math.inf
    head = p * math.log(p / q) if p > 0.0 else 0.0
    return head + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
