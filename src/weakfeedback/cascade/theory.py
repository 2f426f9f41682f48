"""Regret bounds of chapter 2 as functions of a problem and a horizon, with what is known to be wrong in them."""

import math
from collections.abc import Callable

import numpy as np

from weakfeedback.cascade.problem import TOLERANCE, CascadeProblem
from weakfeedback.validate import brief, integer, number

Exploration = Callable[[int], float]


def ucb_pulls(
    problem: CascadeProblem,
    horizon: int,
    alpha: float,
    f: Exploration | None = None,
    repaired: bool = False,
) -> np.ndarray:
    """Bound the mean number of pulls of every arm by USS-UCB (thesis, section 2.4, proposition MeanPulls).

    Under weak dominance, with C = sum over t of f(t)^(-2 alpha) finite and L = alpha log f(T),

        E N_j(T) <= C / (2 xi_j^2)                                        for j < i*,
        E N_j(T) <= 1 + (L + sqrt(pi L / 2) + 1/2) / xi_j^2               for j > i*.

    The entry of the optimal arm is the horizon. With f left out, f(t) = t as in the policy and C = zeta(2 alpha),
    which needs alpha > 0.5. With f given, C is the sum over t = 1, ..., T: the proof uses no more, but the
    bound stays finite as T grows only if the series converges.

    Known to be wrong: the line for j > i*, if j is the last of three or more arms. USS-UCB plays the last arm
    also when no arm passes its tests, and then nothing is known of the last arm's own disagreement with i*
    (the proof says that an arm played is preferred to i*). ``empty_set_counterexample`` makes it play the last
    arm in all of 10 000 rounds, where the bound says 53. With ``repaired=True`` the entry of the last arm
    is 1 (for round 1) plus the entries of all other j != i* plus its own. The same argument proves that: if
    i* fails its tests, it does so against some j, and playing the last arm also compares i* with that j.

    Arguments
    ---------
    problem : a problem with weak dominance
    horizon : the number of rounds T
    alpha : the policy's parameter
    f : a non-decreasing function of the round with f(1) >= 1; its logarithm drives exploration
    repaired : whether to correct the entry of the last arm

    >>> ucb_pulls(uniform_counterexample(xi=0.1), horizon=1000, alpha=1.0).round(1).tolist()
    [1000.0, 1071.2]
    """
    _need_weak_dominance(problem)
    series, log_f = _exploration(horizon, alpha, f)
    width = alpha * log_f
    later = width + math.sqrt(math.pi * width / 2.0) + 0.5
    best, last = problem.optimal_arm, problem.arms - 1
    pulls = np.full(problem.arms, float(horizon))
    for j in range(problem.arms):
        square = float(problem.xis[j]) ** 2
        if j < best:
            # a tie, to the tolerance of the problem, may be played for ever
            pulls[j] = series / (2.0 * square) if problem.xis[j] > TOLERANCE else math.inf
        elif j > best:
            pulls[j] = 1.0 + later / square
    if repaired and best < last:
        pulls[last] = 1.0 + math.fsum(pulls[j] for j in range(problem.arms) if j != best)
    return pulls


def ucb_regret(
    problem: CascadeProblem,
    horizon: int,
    alpha: float,
    f: Exploration | None = None,
    repaired: bool = False,
) -> float:
    """Bound the expected regret of USS-UCB on one problem (thesis, section 2.4, first theorem).

    The sum over j != i* of Delta_j times the bound of ``ucb_pulls``, under the same conditions. An arm that
    ties with the optimal one adds nothing.

    Known to be wrong, for the reason given in ``ucb_pulls``, if there are three or more arms and i* is not the
    last: on ``empty_set_counterexample()`` the bound at T = 10 000, alpha = 1, is 1378 and the regret 5100. With
    ``repaired=True`` it is sound. For two arms the proof holds, with 1 more pull of arm 2 for round 1.

    >>> round(ucb_regret(empty_set_counterexample(), 10_000, alpha=1.0))
    1378
    """
    pulls = ucb_pulls(problem, horizon, alpha, f, repaired)
    return math.fsum(
        problem.gaps[j] * pulls[j]
        for j in range(problem.arms)
        if j != problem.optimal_arm and problem.gaps[j] > TOLERANCE
    )


def ucb_regret_strong_dominance(
    problem: CascadeProblem, horizon: int, alpha: float, f: Exploration | None = None
) -> float:
    """Bound the expected regret of USS-UCB uniformly under strong dominance: 4 sqrt(alpha K T log f(T)).

    Thesis, section 2.4, theorem on problem independent bounds, second part. The proof asks for alpha > 0.5
    when f(t) = t, for binary labels (so that all kappa_j are 0), and for T large enough; constants that grow
    with C_K - C_1 are dropped on the way, so it also needs costs that are small against the bound.

    Known to be wrong for many arms: it rests on ``ucb_pulls``. On ``strong_dominance_counterexample()``, 30 arms,
    the bound at T = 1000, alpha = 1, is 1821 and the regret 2320. That construction needs at least 18 arms.

    >>> round(ucb_regret_strong_dominance(strong_dominance_counterexample(), 1000, alpha=1.0))
    1821
    """
    if not problem.strong_dominance or (problem.kappas > TOLERANCE).any():
        raise ValueError(f"problem must satisfy strong dominance with binary labels, got {problem!r}")
    _, log_f = _exploration(horizon, alpha, f)
    return 4.0 * math.sqrt(alpha * problem.arms * horizon * log_f)


def ucb_regret_uniform(
    problem: CascadeProblem, horizon: int, alpha: float, f: Exploration | None = None
) -> float:
    """Return the uniform bound claimed for USS-UCB under weak dominance: 3 (3 alpha K log f(T))^(1/3) T^(2/3).

    Thesis, section 2.4, theorem on problem independent bounds, first part. **This bound is false.** The proof
    balances T xi' against a term in 1 / xi'^2 with a free xi', but needs xi' < xi, and xi can be as small as
    one likes. On ``uniform_counterexample()`` with alpha = 1, USS-UCB plays arm 2 in every one of 100 000
    rounds: regret 100 100 against a bound of 26 520.

    >>> round(ucb_regret_uniform(uniform_counterexample(), 100_000, alpha=1.0))
    26520
    """
    _need_weak_dominance(problem)
    _, log_f = _exploration(horizon, alpha, f)
    return 3.0 * (3.0 * alpha * problem.arms * log_f) ** (1.0 / 3.0) * horizon ** (2.0 / 3.0)


def ts_regret_leading(problem: CascadeProblem, horizon: int, epsilon: float) -> float:
    """Return the leading term of the bound on the regret of USS-TS on one problem.

    Thesis, section 2.5, theorem on the problem dependent bound: under weak dominance and transitivity of the
    samples, for any epsilon > 0, the regret is at most

        sum over j > i* of (1 + epsilon) ln T Delta_j / d(p_j, p_j + xi_j)  +  O((K - i*) / epsilon^2),

    with p_j the disagreement of i* and j, and d the Kullback-Leibler divergence of Bernoulli laws. Only the first
    part is returned: the O hides unstated functions of the p_j and xi_j, also of the arms before i*.
    p_j + xi_j is C_j - C_i*; where that is 1 or more, no sample can exceed it, d is infinite and the arm adds
    nothing.

    Known to be wrong: the condition. USS-TS draws the samples of different pairs independently, so they are not
    transitive: with the costs (.05, .1, .53) of the thesis, 27 % of the draws from the prior are not.

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

    Known to be wrong: transitivity (see ``ts_regret_leading``), and the second bound for the reason given in
    ``ucb_regret_uniform``: on ``uniform_counterexample`` the regret of USS-TS too is linear in T until T is about
    1 / xi^2, which no constant can cover.

    >>> round(ts_regret_uniform(3, 10_000, strong=True)), round(ts_regret_uniform(3, 10_000, strong=False))
    (526, 1403)
    """
    k = integer("arms", arms, low=1)
    rounds = integer("horizon", horizon, low=1)
    if strong:
        return math.sqrt(k * rounds * math.log(rounds))
    return (k * math.log(rounds)) ** (1.0 / 3.0) * rounds ** (2.0 / 3.0)


def uniform_counterexample(xi: float = 0.001) -> CascadeProblem:
    """Return a problem with weak dominance by a margin ``xi`` where arm 2 costs more than 1/2 a round.

    Arm 1 is always right, arm 2 is wrong with probability 1/2 and costs 1/2 + xi more. Both arms must be compared
    about alpha log(T) / xi^2 times before arm 1 can be trusted, at 1 + xi each.
    """
    margin = number("xi", xi, above=TOLERANCE)
    return CascadeProblem([[1, 1, 1], [1, 1, 0]], [0.5, 0.5], costs=[0.0, 0.5 + margin])


def empty_set_counterexample(xi: float = 0.01) -> CascadeProblem:
    """Return a problem with weak dominance where USS-UCB plays a bad last arm that it knows to be bad.

    Arms 1 and 3 always agree and are wrong with probability .3, arm 2 is always right. Arm 2 is almost worth its
    cost (it loses by ``xi`` < .5), so arm 1 passes its test against arm 2 only after alpha log(T) / xi^2
    comparisons. Arm 2 fails against arm 3, which disagrees with it more often than the cost says.
    No arm passes, so arm 3 is played, at .5 + xi a round.
    """
    margin = number("xi", xi, above=TOLERANCE)
    if margin >= 0.5:
        raise ValueError(f"xi must be a number below 0.5, got {brief(xi)}")
    costs = [0.0, 0.3 + margin, 0.5 + margin]
    return CascadeProblem([[1, 0, 1, 0], [1, 1, 1, 1]], [0.3, 0.7], costs)


def strong_dominance_counterexample(arms: int = 30, step: float = 0.08) -> CascadeProblem:
    """Return ``arms`` copies of one perfect test, each dearer than the one before by ``step``.

    The first is optimal. Until the confidence width is below ``step`` no arm is told from its neighbour, so USS-UCB
    plays the last, which loses (K - 1) step a round.
    """
    k = integer("arms", arms, low=2)
    return CascadeProblem([[1] * (k + 1)], [1.0], number("step", step, above=TOLERANCE) * np.arange(k))


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
    """The Kullback-Leibler divergence d(p, q) of Bernoulli laws for p < q, infinite from q = 1 on."""
    if q >= 1.0 - TOLERANCE:
        return math.inf
    head = p * math.log(p / q) if p > 0.0 else 0.0
    return head + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
