"""Independent draws that go round in a circle: exact runs of USS-TS over 10^9 rounds, with means and medians.

Three arms, the first optimal. Arm 1 is rejected with probability 1 - (1 - a12)(1 - a13), where a_ij is the posterior
probability of p_ij >= C_j - C_i; then arm 3 is played with probability a23, otherwise arm 2. Nothing changes while
arm 1 is played, so the number of rounds until it is rejected is geometric. A play of arm 2 shows only the pair (1, 2).
Once a12 is negligible (below ``NEGLIGIBLE``: in 10^9 rounds it would reject arm 1 with probability 10^-6), plays
of arm 2 change nothing either: the number of them before arm 3 is played is geometric, and the rounds that this takes
are negative binomial. Where such a leap passes a mark, it is split in halves until the mark is found: given the sum,
the share of a part is Beta-binomial.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb, UssWd
from weakfeedback.cascade.problem import law_of
from weakfeedback.experiments.model import ExperimentList, Makers, Row, Run, Table
from weakfeedback.thesis.beyond.experiments import OURS, WD
from weakfeedback.thesis.chapter2.experiments import limit_fact

NEGLIGIBLE = 1e-15
RUNS = 400
MARKS = (10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9)
LONGEST = 4 * 10**18  # rounds; more do not fit into an integer
# Outputs and their probabilities, costs. The truth is the first arm's output; only gaps depend on it.
CASES: dict[str, tuple[dict[str, float], tuple[float, ...]]] = {
    "a": ({"000": 0.5, "011": 0.5}, (0.0, 0.6, 0.7)),
    "b": ({"000": 0.5, "011": 0.5}, (0.0, 0.55, 0.75)),
    "c": ({"000": 0.75, "011": 0.19, "010": 0.01, "001": 0.05}, (0.0, 0.27, 0.39)),
}


def problem_of(name: str) -> CascadeProblem:
    """Return one of the problems."""
    law, costs = CASES[name]
    return CascadeProblem([[0, *map(int, row)] for row in law], list(law.values()), costs)


def exact_pulls(problem: CascadeProblem, marks: Any, runs: int, seed: int) -> np.ndarray:
    """Return how often USS-TS plays arms 2 and 3 up to each mark: shape (runs, marks, 2)."""
    rng = np.random.default_rng(seed)
    steps = np.array([problem.costs[1] - problem.costs[0], problem.costs[2] - problem.costs[0]])
    steps = np.append(steps, problem.costs[2] - problem.costs[1])  # of the pairs (1, 2), (1, 3), (2, 3)
    rows, law = law_of(problem)
    rows = rows[:, 1:]
    differ = np.column_stack([rows[:, i] != rows[:, j] for i, j in ((0, 1), (0, 2), (1, 2))]).astype(float)
    marks = np.asarray(marks)
    table = np.zeros((runs, marks.size, 2), dtype=np.int64)
    agreed, differed = np.ones((runs, 3)), np.ones((runs, 3))
    played = np.zeros((runs, 2), dtype=np.int64)
    t = np.zeros(runs, dtype=np.int64)
    going = np.arange(runs)
    while going.size:
        above = _above(differed[going], agreed[going], steps)
        chance = -np.expm1(np.log1p(-above[:, :2]).sum(axis=1))
        leaps = above[:, 0] < NEGLIGIBLE
        # plays of arm 2 before arm 3 is played, that one counted; and whether arm 3 is played in the end
        third = rng.random(going.size) < above[:, 2]
        plays = np.where(leaps, rng.geometric(np.maximum(above[:, 2], 1e-18)), 1)
        plays = np.where(plays < 0, LONGEST, plays)
        third |= leaps
        waited = _rejected_after(plays, chance, rng)
        end = t[going] + waited
        for m, mark in enumerate(marks.tolist()):
            passing = (t[going] < mark) & (mark < end)
            table[going[passing], m] = played[going[passing]]
            for k in np.flatnonzero(passing & leaps):
                table[going[k], m, 0] += _before(
                    int(plays[k]), int(waited[k] - plays[k]), int(mark - t[going[k]]), rng
                )
        played[going, 0] += np.where(third, plays - 1, 1)
        played[going, 1] += third
        for m, mark in enumerate(marks.tolist()):  # a mark that is hit, not passed
            table[going[end == mark], m] = played[going[end == mark]]
        t[going] = end
        # what is seen: arm 2 shows the pair (1, 2) once if the play is single, arm 3 shows all pairs
        shown = differ[rng.choice(len(rows), p=law, size=going.size)]
        pairs = np.column_stack((np.ones(going.size), third, third)).astype(float)
        differed[going] += shown * pairs
        agreed[going] += (1.0 - shown) * pairs
        going = going[t[going] < marks[-1]]
    return table


def _above(differed: np.ndarray, agreed: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Return the posterior probabilities of p_ij >= C_j - C_i."""
    from scipy.special import betaincc

    found: np.ndarray = np.minimum(betaincc(differed, agreed, np.minimum(steps, 1.0)), 1.0 - 1e-16)
    return found


def _rejected_after(times: np.ndarray, chance: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the rounds until arm 1 is rejected ``times`` times: the failures are negative binomial."""
    chance = np.maximum(chance, 1e-300)
    mean = rng.gamma(times.astype(float), (1.0 - chance) / chance)  # of a Poisson variable
    failures = np.where(mean < 1e17, rng.poisson(np.minimum(mean, 1e17)), np.minimum(mean, LONGEST / 4))
    found: np.ndarray = np.minimum(times, LONGEST // 4) + failures.astype(np.int64)
    return found


def _before(plays: int, failures: int, rounds: int, rng: np.random.Generator) -> int:
    """Return how many of ``plays`` rejections, with ``failures`` rounds between, are in the first ``rounds``."""
    found = 0
    while plays > 1:
        half = plays // 2
        early = int(rng.binomial(failures, rng.beta(half, plays - half)))
        if half + early <= rounds:
            found += half
            plays, failures, rounds = plays - half, failures - early, rounds - half - early
        else:
            plays, failures = half, early
    return found + (1 + failures <= rounds)


def exponents(problem: CascadeProblem) -> tuple[float, float]:
    """Return beta and beta2 of the theorem: a typical run has regret T^beta, the mean at least T^beta2."""
    from scipy.optimize import minimize

    best, arms = problem.optimal_arm, problem.arms
    rows, chances = law_of(problem)
    outputs = rows[:, 1:]
    kinds = 2 * (outputs[:, best] != outputs[:, arms - 1]) + (outputs[:, arms - 2] != outputs[:, arms - 1])
    mu = np.bincount(kinds, weights=chances, minlength=4)  # all that the exponents depend on
    outer, inner = np.arange(4)[mu > 0.0] // 2 == 1, np.arange(4)[mu > 0.0] % 2 == 1
    mu = mu[mu > 0.0]
    c_outer = float(problem.costs[arms - 1] - problem.costs[best])
    c_inner = float(problem.costs[arms - 1] - problem.costs[arms - 2])

    def exponent(law: np.ndarray) -> float:
        q13, q23 = min(float(law[outer].sum()), c_outer), min(float(law[inner].sum()), c_inner)
        far, near = _kl(q13, c_outer), _kl(q23, c_inner)
        away = float(sum(p * math.log(p / m) for p, m in zip(law, mu) if p > 0.0))
        return (near - away) / (far + near)

    def of_weights(weights: np.ndarray) -> float:
        law = mu * np.exp(weights - weights.max())
        return -exponent(law / law.sum())

    starts = [np.zeros(mu.size), -0.5 * outer, 0.5 * outer, -0.5 * inner]
    found = min(float(minimize(of_weights, start, method="Nelder-Mead").fun) for start in starts)
    return exponent(mu), -found


def _kl(p: float, q: float) -> float:
    return sum(a * math.log(a / b) for a, b in ((p, q), (1.0 - p, 1.0 - q)) if a > 0.0)


POLICIES: Makers = {
    "USS-TS": lambda p: UssTs(p.costs),
    WD: lambda p: UssWd(p.costs),
    "USS-UCB": lambda p: UssUcb(p.costs),
}
EXPERIMENTS = ExperimentList("beyond-cycle", setting="cascade")
for case, (_, costs) in CASES.items():
    EXPERIMENTS.add(
        case,
        f"Three arms on which independent draws go in a circle, costs {', '.join(f'{c:g}' for c in costs)}",
        "cascades on which independent draws are not consistent",
        POLICIES,
        make=functools.partial(problem_of, case),
        horizon=100_000,
        facts=limit_fact,
        deviations=(OURS,),
        marks=40,
        nanoseconds=400.0,
    )


@functools.cache
def regrets(name: str, runs: int = RUNS) -> np.ndarray:
    """Return the regret of USS-TS in every run, at every mark."""
    problem = problem_of(name)
    found: np.ndarray = exact_pulls(problem, MARKS, runs, seed=36) @ problem.gaps[1:]
    return found


def _rows(results: Run) -> list[Row]:
    rows: list[Row] = []
    for name in CASES:
        if f"beyond-cycle-{name}" not in results:
            continue
        found = regrets(name)
        beta, beta2 = exponents(problem_of(name))
        error = found.std(axis=0, ddof=1) / math.sqrt(len(found))
        words = f"{name}, costs {', '.join(f'{c:g}' for c in CASES[name][1])}"
        rows.append([f"{words}: mean", round(beta, 3), round(beta2, 3), *found.mean(axis=0).tolist()])
        rows.append([f"{words}: standard error", "", "", *error.tolist()])
        rows.append([f"{words}: median", "", "", *np.median(found, axis=0).tolist()])
    return rows


TABLE = Table(
    "beyond-table-cycle",
    "USS-TS on three arms: regret that grows like a power of T",
    "theorems of ours, independent draws",
    ("Problem", "β", "β₂", *(f"T = 10^{len(str(mark)) - 1}" for mark in MARKS)),
    _rows,
    tuple(EXPERIMENTS),
    f"{RUNS} exact runs of USS-TS with independent draws, as printed. A typical run grows like T^β, the mean at least "
    "like T^β₂; its distribution has a heavy tail, so medians are beside means.",
)
