"""The experiments of chapter 2, unsupervised sequential selection, and those that its claims need besides."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weakfeedback.cascade import CascadeProblem, HanawalHeuristic, UssTs, UssUcb, theory
from weakfeedback.cascade.limit import reason_against
from weakfeedback.cascade.policies.variants import ForcedComparison, UssLcb, UssUcbExploring
from weakfeedback.experiments.model import ExperimentList, Makers
from weakfeedback.thesis.random_cascades import random_dominant, random_problem

TS, UCB, HEURISTIC = "USS-TS", "USS-UCB", "Heuristic"
LCB, FORCED, EQUAL = "lower confidence", "forced comparison", "Heuristic, alpha 0.5"
BSC_ERRORS = (0.3937, 0.2899, 0.1358)

BSC = tuple(f"bsc-{k}" for k in range(1, 6))
PIMA = tuple(f"pima-{k}" for k in range(1, 6))
HEART = (*(f"heart-{k}" for k in range(1, 5)), "heart-5-as-printed", "heart-5")
TABLES = (*BSC, *PIMA, *HEART)
# Built-in instances with the same role: the same place of the optimal arm (first, inside, last), and dominance.
STAND_INS = {
    "pima-1": "bc3-1",
    "pima-2": "bc3-2",
    "pima-4": "bc3-3",
    "pima-5": "bc3-4",
    "heart-1": "bc4-1",
    "heart-2": "bc4-2",
    "heart-3": "bc4-3",
    "heart-4": "bc4-4",
    "heart-5": "bc4-6",
}
# C_3 - C_2; the disagreement of arms 2 and 3 is .326, so weak dominance sets in there.
STEPS = (
    *(0.17, 0.20, 0.23, 0.26, 0.29, 0.31, 0.32, 0.326),
    *(0.33, 0.34, 0.36, 0.38, 0.40, 0.43, 0.48, 0.55, 0.65),
)
ALPHAS = (0.25, 0.5, 1.0, 1.5, 2.0)
EXPLORATION = {"f(t) = t": (1.0, 0.0), "f(t) = t (1 + log t)^2": (1.0, 2.0), "f(t) = t^2": (2.0, 0.0)}
SWEPT = ("bsc-1", "bsc-2")  # an optimal arm at the start and one inside
RANDOM, DOMINANT = 12, 4
# xi = 1 / (2 sqrt(T)): as hard as T rounds can make it
UNIFORM_HORIZONS = (1_000, 10_000, 100_000)
EPSILONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2)

SHUFFLED = "the rows of a data set are shuffled once per replication and then cycled; otherwise USS-UCB would not vary"
GENERATOR = "not the generator of the text, which does not give the error rates of its own table"
RECONSTRUCTED = (
    "Algorithm 2 of Hanawal et al. (2017) is not printed: upper bounds with alpha = 1.5, one-sided test"
)
CORRECTED = "instance 5 as printed contradicts instance 2, so its last cost is 0.34 instead of 0.40"


def facts(problem: CascadeProblem) -> dict[str, Any]:
    """Return the facts of a cascade that the claims need."""
    best = problem.optimal_arm
    critical = min(range(best + 1, problem.arms), key=lambda j: problem.xis[j], default=best)
    return {
        "optimal_arm": problem.optimal_arm,
        "weak_dominance": problem.weak_dominance,
        "xi": problem.xi,
        "gaps": problem.gaps.tolist(),
        "settled_arm": problem.upper_set[0],  # what disagreements alone point to
        "critical": float(problem.disagreement[best, critical]),  # p_i*j at the arm j that gives xi
        **limit_fact(problem),
    }


def limit_fact(problem: CascadeProblem) -> dict[str, Any]:
    """Return the constant c(P) of the lower bound c(P) log T, which figures draw; nothing where it is not known."""
    return {} if reason_against(problem) else {"limit": theory.limit(problem).constant}


def _facts_and_bounds(horizon: int) -> Callable[[CascadeProblem], dict[str, Any]]:
    def with_bounds(problem: CascadeProblem) -> dict[str, Any]:
        decade = theory.ts_regret_leading(problem, horizon, 1e-9) - theory.ts_regret_leading(
            problem, max(horizon // 10, 1), 1e-9
        )
        strong = problem.strong_dominance
        return {
            **facts(problem),
            "ucb_pulls": theory.ucb_pulls(problem, horizon, alpha=1.0).tolist(),
            "ucb_regret": theory.ucb_regret(problem, horizon, alpha=1.0),
            "ucb_uniform": theory.ucb_regret_uniform(problem, horizon, alpha=1.0),
            "ucb_repaired": theory.ucb_regret(problem, horizon, alpha=1.0, repaired="tight"),
            "ucb_strong": theory.ucb_regret_strong_dominance(problem, horizon, 1.0) if strong else math.nan,
            "ts_decade": decade,
            "ts_uniform": theory.ts_regret_uniform(problem.arms, horizon, strong=strong),
            "ts_uniform_before": theory.ts_regret_uniform(problem.arms, max(horizon // 10, 2), strong=strong),
        }

    return with_bounds


def _ts(problem: CascadeProblem) -> UssTs:
    return UssTs(problem.costs)


def _ucb(problem: CascadeProblem) -> UssUcb:
    return UssUcb(problem.costs, alpha=0.5)


def _sound_ucb(problem: CascadeProblem) -> UssUcb:
    return UssUcb(problem.costs, alpha=1.0)  # the theorems need alpha > 0.5


def _with_alpha(alpha: float) -> Callable[[CascadeProblem], UssUcb]:
    return lambda problem: UssUcb(problem.costs, alpha=alpha)


def _with_f(power: float, log_power: float) -> Callable[[CascadeProblem], UssUcbExploring]:
    return lambda problem: UssUcbExploring(problem.costs, 0.5, power, log_power)


def _compare(name: str) -> None:
    data = name.split("-")[0]
    real = data in ("pima", "heart")
    deviations = (RECONSTRUCTED, SHUFFLED if real else GENERATOR)
    EXPERIMENTS.add(
        f"compare-{name}",
        f"USS-TS, USS-UCB and the heuristic of Hanawal et al. on {name}",
        {"bsc": "figure ts_bsc", "pima": "figures dCompare, ts_pima", "heart": "figures hCompare, ts_hear"}[
            data
        ],
        {
            TS: _ts,
            UCB: _ucb,
            HEURISTIC: lambda problem: HanawalHeuristic(problem.costs, alpha=1.5),
            EQUAL: lambda problem: HanawalHeuristic(problem.costs, alpha=0.5),
        },
        instance=name,
        needs=data if real else "",
        stand_in=STAND_INS.get(name, ""),
        deviations=(*deviations, CORRECTED) if name == "heart-5" else deviations,
    )


def _sweep(step: float) -> None:
    EXPERIMENTS.add(
        f"xi-{step:g}",
        f"USS-TS where arm 3 costs {step:g} more than the optimal arm 2",
        "figure xi",
        {TS: _ts},
        make=lambda: CascadeProblem.bsc(BSC_ERRORS, [0.05, 0.10, 0.10 + step], slip=0.1),
        deviations=(GENERATOR, "the thesis does not print the costs of its sweep"),
        swept=("xi", "ξ"),
    )


def _remark(name: str, title: str, place: str, policies: Makers, *instances: str) -> None:
    made = ("not an experiment of the thesis: made to test a remark",)
    for one in instances:
        EXPERIMENTS.add(f"{name}-{one}", f"{title} on {one}", place, policies, instance=one, deviations=made)


def _test(
    name: str, title: str, place: str, make: Callable[[], CascadeProblem], policies: Makers, **options: Any
) -> None:
    options.setdefault("facts", _facts_and_bounds(options.get("horizon", 10_000)))
    made = ("not an experiment of the thesis: made to test what it proves or remarks",)
    EXPERIMENTS.add(name, title, place, policies, make=make, deviations=made, **options)


def _random(k: int) -> CascadeProblem:
    """Return the k-th random cascade with xi of .05 or more; its optimal arm is in turn first, inside and last."""
    rng = np.random.default_rng(np.random.SeedSequence(20210, spawn_key=(k,)))
    while True:
        problem = random_problem(rng)
        best, last = problem.optimal_arm, problem.arms - 1
        place = 0 if best == 0 else 2 if best == last else 1
        if problem.weak_dominance and problem.xi >= 0.05 and place == k % 3:
            return problem


def _dominant(k: int) -> CascadeProblem:
    """Return the k-th random cascade with strong dominance whose optimal arm is not the last."""
    rng = np.random.default_rng(np.random.SeedSequence(20211, spawn_key=(k,)))
    while True:
        problem = random_dominant(rng)
        if problem.optimal_arm < problem.arms - 1 and problem.xi >= 0.02:
            return problem


def _boundary(epsilon: float) -> CascadeProblem:
    """Return the pair of the proposition on rho >= 1: C_2 - C_1 = 1/4, and p_12 = 1/4 + epsilon."""
    if epsilon == 0.0:
        return CascadeProblem([[1, 1, 1], [1, 0, 1], [1, 1, 0]], [0.75, 0.125, 0.125], [0.0, 0.25])
    return CascadeProblem([[1, 1, 1], [1, 0, 1]], [0.75 - epsilon, 0.25 + epsilon], [0.0, 0.25])


def _forced_facts(problem: CascadeProblem) -> dict[str, Any]:
    return {**facts(problem), "forced": theory.forced_comparison_regret(problem, 1_000_000)}


EXPERIMENTS = ExperimentList("ch2", setting="cascade", facts=facts)
for name in TABLES:
    _compare(name)
for step in STEPS:
    _sweep(step)

EXPLORED = "section 2.4, remark on f(t) and alpha"
LOWER: Makers = {LCB: lambda problem: UssLcb(problem.costs, alpha=0.5), UCB: _ucb}
_remark("lower", "The lower-confidence variant", "section 2.4, remark DecisionSet", LOWER, "bsc-2", "bsc-4")
by_alpha = {f"alpha = {alpha:g}": _with_alpha(alpha) for alpha in ALPHAS}
_remark("alpha", "USS-UCB with several alpha", EXPLORED, by_alpha, *SWEPT)
by_f = {label: _with_f(*powers) for label, powers in EXPLORATION.items()}
_remark("f", "USS-UCB with several f(t)", EXPLORED, by_f, *SWEPT)
unordered = "USS-TS and USS-UCB, error rates in no order,"
_remark("order", unordered, "section 2.3, unknown ordering of arms", {TS: _ts, UCB: _ucb}, "unordered-1")

MEAN_PULLS, UNIFORM = "section 2.4, proposition MeanPulls", "section 2.4, problem independent bounds"
TS_BOUND = "section 2.5, problem dependent bound"
BOTH: Makers = {UCB: _sound_ucb, TS: _ts}
for k in range(RANDOM):
    _test(f"random-{k}", f"Random cascade {k} with weak dominance", MEAN_PULLS, partial(_random, k), BOTH)
for k in range(DOMINANT):
    _test(f"dominant-{k}", f"Random cascade {k} with strong dominance", UNIFORM, partial(_dominant, k), BOTH)
_test("empty-set", "No arm passes its tests", MEAN_PULLS, theory.empty_set_counterexample, BOTH)
_test(
    "intransitive",
    "An arm that is skipped leads to a worse one",
    TS_BOUND,
    partial(theory.empty_set_counterexample, 0.1),
    {TS: _ts},
    horizon=100_000,
)
_test(
    "two-arms",
    "Two arms, whose samples are always transitive",
    TS_BOUND,
    partial(theory.uniform_counterexample, 0.1),
    {TS: _ts},
    horizon=100_000,
)
_test(
    "uniform-ucb",
    "Two arms with a tiny xi",
    UNIFORM,
    theory.uniform_counterexample,
    {UCB: _sound_ucb},
    horizon=100_000,
    replications=20,
)
_test(
    "four-copies",
    "Four copies of one arm",
    UNIFORM,
    theory.strong_dominance_counterexample,
    {UCB: _sound_ucb},
)
for horizon in UNIFORM_HORIZONS:
    xi = 0.5 / math.sqrt(horizon)
    _test(
        f"uniform-ts-{horizon}",
        f"USS-TS over {horizon} rounds with xi = {xi:.4f}",
        "section 2.5, problem independent bound",
        partial(theory.uniform_counterexample, xi),
        {TS: _ts},
        horizon=horizon,
    )
for epsilon in (0.0, *EPSILONS):
    _test(
        "rho-one" if epsilon == 0.0 else f"rho-one-{epsilon:g}",
        f"Forced comparisons where disagreement exceeds the cost by {epsilon:g}",
        "section 2.3, proposition on rho >= 1",
        partial(_boundary, epsilon),
        {FORCED: lambda problem: ForcedComparison(problem.costs)},
        horizon=1_000_000,
        replications=20,
        facts=_forced_facts,
    )
