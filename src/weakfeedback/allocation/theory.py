"""Numbers of rounds, upper bounds and the lower bound of chapter 4 as functions of a problem, with corrections."""

import math
from typing import Any

import numpy as np

from weakfeedback.allocation.problem import AllocationProblem
from weakfeedback.allocation.waiting import grid, wait_multiple, wait_program, wait_same
from weakfeedback.kernels.knapsack import CAPACITY_SLACK, pack_lightest
from weakfeedback.validate import integer, number

__all__ = [
    "delta_for",
    "lost_to_rounding",
    "lower_bound_slope",
    "regret_combinatorial_order",
    "regret_csb_du_search",
    "regret_csb_mk_search",
    "regret_csb_sk",
    "regret_csb_su",
    "rounds_csb_dk",
    "rounds_csb_du",
    "rounds_csb_mk",
    "rounds_csb_sk",
    "rounds_csb_su",
    "wait_multiple",
    "wait_program",
    "wait_same",
]


def delta_for(horizon: int, alpha: float) -> float:
    """Return delta = T^(-(log T)^-alpha), with which the search costs only O((log T)^(1 - alpha)) rounds.

    Thesis, theorems on the regret of CSB-SK and CSB-MK. It is exp(-(log T)^(1 - alpha)): much larger than 1/T.

    >>> round(delta_for(10_000, alpha=0.5), 4)
    0.0481
    """
    log = math.log(integer("horizon", horizon, 2))
    return math.exp(-(log ** (1.0 - number("alpha", alpha, above=0.0))))


def rounds_csb_sk(arms: int, epsilon: float, delta: float) -> float:
    """Return the bound W_delta log2(K) on the rounds of the search of CSB-SK and NUM-SK.

    It holds with probability 1 - delta if all means are at least epsilon (the lemma requires this only of the largest
    mean; the theorems require it of all). Thesis, table of rounds, same threshold.

    The policy rounds W up and tries at most ceil(log2 K) candidates, so it may need up to ceil(W) ceil(log2 K) rounds,
    a few more than this.

    >>> round(rounds_csb_sk(50, epsilon=0.1, delta=1e-4), 1)
    586.1
    """
    return wait_same(arms, epsilon, delta) * math.log2(integer("arms", arms, 1))


def rounds_csb_dk(arms: int, budget: float, epsilon: float, delta: float, gamma: float) -> float:
    """Return the bound K W_delta log2(ceil(1 + Q/gamma)) on the rounds of the search of CSB-DK.

    Thesis, table of rounds, different thresholds.

    >>> round(rounds_csb_dk(10, 3.0, epsilon=0.1, delta=1e-4, gamma=0.01))
    10645
    """
    return arms * wait_multiple(arms, epsilon, delta, budget, gamma) * math.log2(grid(budget, gamma))


def rounds_csb_mk(
    arms: int, budget: float, epsilon: float, delta: float, gamma: float, distinct: int
) -> float:
    """Return the bound W_delta (n log2(ceil(1 + Q/gamma)) + K log2(n + 1)) on the rounds of the search of CSB-MK.

    Thesis, lemma MultiTheta and table of rounds, 1 < n < K.

    >>> round(rounds_csb_mk(10, 3.0, epsilon=0.1, delta=1e-4, gamma=0.01, distinct=2))
    4178
    """
    n = integer("distinct", distinct, 1, arms)
    searches = n * math.log2(grid(budget, gamma)) + arms * math.log2(n + 1)
    return wait_multiple(arms, epsilon, delta, budget, gamma) * searches


def rounds_csb_su(problem: AllocationProblem) -> float:
    """Return the bound on the expected rounds until CSB-SU has found the threshold; infinite if it may never.

    Sum over L = M + 1, ..., K of 1 / (1 - product of (1 - mu_i) over the L arms with the smallest means). Thesis, lemma
    sameThetaEstRounds.

    >>> from weakfeedback.allocation.instances import load
    >>> round(rounds_csb_su(load("II")), 2)
    20.0
    """
    mu = _same_threshold(problem)
    total = 0.0
    for size in range(problem.most_served + 1, problem.arms + 1):
        chance = 1.0 - math.prod((1.0 - mu[-size:]).tolist())
        total += 1.0 / chance if chance > 0.0 else math.inf
    return total


def rounds_csb_du(problem: AllocationProblem, gamma: float) -> float:
    """Return the bound on the expected rounds until CSB-DU has found all thresholds.

    Sum over arms with mu_i > 0 of floor(theta_i / gamma) / mu_i. Thesis, lemma diffThetaEstRounds.

    >>> from weakfeedback.allocation.instances import load
    >>> round(rounds_csb_du(load("IV"), gamma=0.01))
    1177
    """
    step = number("gamma", gamma, above=0.0)
    return math.fsum(
        math.floor(theta / step * (1.0 + 1e-9)) / mu
        for theta, mu in zip(problem.thresholds.tolist(), problem.means.tolist())
        if mu > 0.0
    )


def lower_bound_slope(problem: AllocationProblem) -> float:
    """Return the slope of the asymptotic lower bound in log T for one threshold (Anantharam et al. 1987).

    Losses: sum over i <= M of (mu_i - mu_{M+1}) / d(mu_{M+1}, mu_i), arms by decreasing mean, M served. Rewards: sum
    over i > M of (mu_M - mu_i) / d(mu_i, mu_M). d is the Kullback-Leibler divergence of Bernoulli laws. Zero if all
    arms can be served.

    It is only a slope: at T = 10 000, log T times this value exceeds the measured regret on instances I and II.

    >>> from weakfeedback.allocation.instances import load
    >>> [round(lower_bound_slope(load(name)) * math.log(10_000)) for name in ("I", "II")]
    [1352, 1797]
    """
    mu = _same_threshold(problem)
    M = problem.most_served
    if problem.arms == M:
        return 0.0
    if problem.outcome == "loss":
        return math.fsum(_ratio(mu[i] - mu[M], _divergence(mu[M], mu[i])) for i in range(M))
    if M == 0:
        return 0.0
    return math.fsum(_ratio(mu[M - 1] - mu[i], _divergence(mu[i], mu[M - 1])) for i in range(M, problem.arms))


def lost_to_rounding(problem: AllocationProblem, step: float) -> float:
    """Return g_h: the least regret per round, on every run, of a policy that gives multiples of ``step``, as CSB-TS.

    It gives at most floor(Q/h) steps h, so it can do no better than the best set with the thresholds h ceil(theta_i/h)
    and the budget h floor(Q/h). g_h is 0 if and only if an optimal set A fits so: the optimum leaves at least
    sum_A (h ceil(theta_i/h) - theta_i) + Q - h floor(Q/h), which is (|A| + 1) h / 2 on average, and anything from 0 to
    (|A| + 1) h.

    >>> problem = AllocationProblem([0.9, 0.8, 0.3], [0.3, 0.7, 0.7], budget=1.0)
    >>> [round(lost_to_rounding(problem, step), 12) for step in (0.04, 0.02)]
    [0.8, 0.0]
    """
    h = number("step", step, above=0.0)
    levels = math.floor(problem.budget / h * (1.0 + CAPACITY_SLACK))
    needs = np.ceil(problem.thresholds / h * (1.0 - CAPACITY_SLACK))
    best = pack_lightest(problem.means, needs, float(levels))
    lost = problem.optimal_value - math.fsum(problem.means[best])
    return lost if lost > CAPACITY_SLACK * max(1.0, problem.optimal_value) else 0.0


def regret_csb_sk(problem: AllocationProblem, horizon: int, epsilon: float, delta: float) -> float:
    """Return the bound on the regret of CSB-SK (or NUM-SK), without its term O((log T)^(2/3)).

    W_delta log2(K) times the largest gap, plus log T times ``lower_bound_slope``. It holds with probability 1 - delta
    if all means are at least epsilon and the optimal set is unique. Thesis, theorem regretSameThreshold.
    """
    rounds = rounds_csb_sk(problem.arms, epsilon, delta)
    return rounds * problem.largest_gap + _log(horizon) * lower_bound_slope(problem)


def regret_csb_su(problem: AllocationProblem, horizon: int) -> float:
    """Return the bound on the expected regret of CSB-SU, with 1 for the constant of its O(.) term.

    ``rounds_csb_su`` times the largest gap, plus log T times ``lower_bound_slope``. Thesis, theorem
    regretJointSameThreshold.
    """
    return rounds_csb_su(problem) * problem.largest_gap + _log(horizon) * lower_bound_slope(problem)


def regret_csb_mk_search(
    problem: AllocationProblem, epsilon: float, delta: float, gamma: float, distinct: int | None = None
) -> float:
    """Return the bound on the regret of the search of CSB-MK (CSB-DK without ``distinct``), NUM-MK alike.

    The rounds of the table times the largest gap: the first term of theorem regretDiffThreshold. The second, of the
    rounds after the search, is known up to a constant only: see ``regret_combinatorial_order``.
    """
    shape = (problem.arms, problem.budget, epsilon, delta, gamma)
    rounds = rounds_csb_dk(*shape) if distinct is None else rounds_csb_mk(*shape, distinct)
    return rounds * problem.largest_gap


def regret_csb_du_search(problem: AllocationProblem, gamma: float) -> float:
    """Return the bound on the expected regret of CSB-DU until it has found the thresholds.

    The first term of theorem regretJointDiffThreshold.
    """
    return rounds_csb_du(problem, gamma) * problem.largest_gap


def regret_combinatorial_order(problem: AllocationProblem, horizon: int) -> float:
    """Return sum_i log(K')^2 log(T) / nabla_i: the order, without its constant, of the regret after the search.

    K' is the largest number of arms that one allocation can serve, nabla_i the smallest gap of a round in which arm i
    incurs its outcome. Thesis, theorems on CSB-MK, CSB-DU and NUM-MK, after Perrault et al. 2020.
    """
    scale = math.log(max(problem.most_served, 1)) ** 2 * _log(horizon)
    return math.fsum(scale / gap for gap in problem.arm_gaps.tolist())


def _same_threshold(problem: AllocationProblem) -> np.ndarray:
    """Return the means in decreasing order; only problems with one threshold have a meaningful one."""
    if not problem.same_threshold:
        raise ValueError(
            f"problem must have the same threshold for all arms, got {problem.thresholds.tolist()!r}"
        )
    return np.sort(problem.means)[::-1]


def _log(horizon: Any) -> float:
    return math.log(integer("horizon", horizon, 1))


def _ratio(gap: float, divergence: float) -> float:
    if gap <= 0.0:
        return 0.0
    return gap / divergence


def _divergence(p: float, q: float) -> float:
    """Return the Kullback-Leibler divergence d(p, q) of Bernoulli laws."""
    total = 0.0
    for a, b in ((p, q), (1.0 - p, 1.0 - q)):
        if a > 0.0:
            total += a * math.log(a / b) if b > 0.0 else math.inf
    return total
