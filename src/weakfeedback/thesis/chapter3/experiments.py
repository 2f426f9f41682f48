"""The experiments of chapter 3, cascades with context, and those that its claims need besides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weakfeedback.contextual import (
    ContextualProblem,
    FixedArm,
    RandomArm,
    RealizableProblem,
    Supervised,
    UssPd,
    UssPdRidge,
    families,
    theory,
)
from weakfeedback.contextual.assumptions import assess
from weakfeedback.experiments.model import ExperimentList, Makers

PD, SUPERVISED = "USS-PD", "supervised"
ALPHA, BETA = "USS-PD-lambdaI, alpha", "USS-PD-lambdaI, beta"
FIRST, SECOND, THIRD, RANDOM = "I_t = 1", "I_t = 2", "I_t = 3", "Random"
CAUTIOUS = "USS-PD, true kappa and sigma"
SYNTHETIC_COSTS = (0.01, 0.02, 0.032, 0.05)
LAST_COSTS = (0.55, 0.60, 0.65, 0.70, 0.75, 0.80)  # C_5; the first four are the instances of the table
CASES = (1, 2, 3, 4)
# Built-in instances that replace the real data; the third has the costs of PI 1.
STAND_INS = {1: 3, 2: 2, 3: 1}
HORIZON = 5_000
# Bernoulli variables are 1/2-sub-Gaussian.
SUB_GAUSSIAN = 0.5

FORCED = "the forced phase ends when all eigenvalues of V reach 1, or after 500 rounds: the thesis's m is not a number"
TRAINED = (
    "the thesis does not print the five regularisation strengths; these give its fractions for the best arm"
)
LOOSE = "estimates are updated less often (tolerance 2), which changes the final regret by about 1 %"
FEWER = "fewer than 100 replications: they differ by less than 1 % here, and a round is expensive with so many features"
BOTH = "the first classifier, which the thesis leaves out, is added to the baselines"
UNPRINTED = "the thesis does not print the parameters theta_ij of its realizable cases"
OURS = "not an experiment of the thesis: made to test what it proves or remarks"


def settled_arms(problem: Any) -> np.ndarray:
    """Return, by context, the arm that the true disagreements point to: min B of the thesis's lemma BContx."""
    costs, found = problem.costs, np.full(len(problem.contexts), problem.arms - 1)
    for i in range(problem.arms - 2, -1, -1):
        extra = costs[i + 1 :] - costs[i]
        found[(extra > problem.disagreement[:, i, i + 1 :]).all(axis=1)] = i
    return found


def facts(problem: Any) -> dict[str, Any]:
    """Return the facts of a contextual problem that the claims need."""
    rows = np.arange(len(problem.contexts))
    served = np.arange(HORIZON) % rows.size
    best, measured = problem.best_fixed_arm, assess(problem)
    margin = problem.costs[best + 1 :] - problem.costs[best] - problem.disagreement[:, best, best + 1 :]
    return {
        "wd": problem.weak_dominance_fraction,
        "wd_fixed": problem.weak_dominance_fraction_fixed,
        "wd_served": float(problem.weak_dominance[served].mean()),
        "best_fixed_arm": best,
        "xi": problem.xi,
        "xi_fixed": float(margin.min(initial=math.inf)),
        "largest_regret": theory.largest_regret(problem),
        # cost per round in the long run, once disagreements are known
        "limit": float(problem.gaps[rows, settled_arms(problem)].mean()),
        "misfit": measured.misfit,
        "mean_misfit": measured.mean_misfit,
        "kappa": measured.kappa,
        "lambda_sigma": measured.lambda_sigma,
    }


def facts_and_bound(problem: Any) -> dict[str, Any]:
    """Return the same with the bound on regret, its unknown constants set to 1."""
    known = facts(problem)
    size = float(np.linalg.norm(problem.pair_parameters, axis=1).max())
    options = {"sigma": SUB_GAUSSIAN, "kappa": known["kappa"]}
    bound = theory.regret_bound(problem, HORIZON, known["lambda_sigma"], **options)
    ridge = theory.ridge_regret_bound(problem, HORIZON, known["lambda_sigma"], norm_bound=size, **options)
    return {**known, "bound": bound, "ridge_bound": ridge}


def _pd(problem: Any) -> UssPd:
    return UssPd(problem.costs, problem.dimension)


def _loose(problem: Any) -> UssPd:
    return UssPd(problem.costs, problem.dimension, tolerance=2.0)


def _supervised(problem: Any) -> Supervised:
    return Supervised(problem.costs, problem.dimension)


def _cautious(problem: Any) -> UssPd:
    return UssPd(problem.costs, problem.dimension, sigma=SUB_GAUSSIAN, kappa=assess(problem).kappa)


def _fixed(arm: int) -> Callable[[Any], FixedArm]:
    return lambda problem: FixedArm(problem.costs, arm)


def synthetic_id(last: float) -> str:
    """Return the id of the experiment with this C_5: an instance of the thesis's table, or a step of its sweep."""
    number = LAST_COSTS.index(last) + 1
    return f"ch3-synthetic-{number}" if number <= 4 else f"ch3-xi-{last:g}"


def _synthetic(last: float) -> None:
    number = LAST_COSTS.index(last) + 1
    printed = number <= 4
    policies: Makers = {PD: _pd}
    if number == 3:
        policies[SUPERVISED] = _supervised
    EXPERIMENTS.add(
        synthetic_id(last).removeprefix("ch3-"),
        f"USS-PD on synthetic contexts, C_5 = {last:g}" + (", and a supervised learner" * (number == 3)),
        "figures syn, supComp, xi_regret",
        policies,
        instance=f"synthetic-{number}" if printed else "",
        make=None if printed else lambda: families.synthetic((*SYNTHETIC_COSTS, last)),
        deviations=(FORCED, TRAINED),
        swept=("xi_fixed", "ξ of the best fixed arm"),
    )


def cost_id(data: str, labels: str, number: int) -> str:
    """Return the id of an experiment on real data."""
    return f"ch3-cost-{data}-{labels}-{number}"


def _cost(data: str, labels: str, number: int) -> None:
    infix = "contextual" if labels == "random" else "contextual-thresholded"
    EXPERIMENTS.add(
        cost_id(data, labels, number).removeprefix("ch3-"),
        f"Total cost on {data} PI {number}, {labels} labels",
        "figure diabetes" if data == "pima" else "figure heart",
        {
            PD: _loose,
            THIRD: _fixed(2),
            SECOND: _fixed(1),
            RANDOM: lambda problem: RandomArm(problem.costs),
            FIRST: _fixed(0),
        },
        instance=f"{data}-{infix}-{number}",
        replications=20 if data == "pima" else 10,
        seed=0 if data == "pima" else 1,
        marks=20,
        needs=data,
        stand_in=f"bc-{infix}-{STAND_INS[number]}",
        deviations=(FORCED, LOOSE, FEWER, BOTH),
        measures=("total_cost", "regret"),
        nanoseconds=12_000.0 if data == "pima" else 80_000.0,
    )


def _realizable(arms: int, case: int) -> None:
    EXPERIMENTS.add(
        f"realizable-{arms}-{case}",
        f"USS-PD where disagreements are a logistic model, {arms} arms, case {case}",
        f"figure realizable{arms}Cls",
        {PD: _loose},
        instance=f"realizable-{arms}-{case}",
        replications=500,
        marks=20,
        facts=facts_and_bound,
        deviations=(FORCED, UNPRINTED, LOOSE),
        swept=("xi", "ξ"),
        nanoseconds=12_000.0,
    )


def more_arms(arms: int) -> ContextualProblem:
    """Return the thesis's example of an arm that destroys weak dominance: two contexts, costs .1, .2, .3, then .4.

    Arm 2 is optimal in the first context and arm 3 in the second. The fourth arm is wrong with probability .3 in
    both, so it changes no optimal arm but disagrees too much with both.
    """
    wrong = np.array([[0.6, 0.7], [0.02, 0.6], [0.02, 0.02], [0.3, 0.3]])[:arms]
    return ContextualProblem(
        [[1.0, 0.0], [0.0, 1.0]],
        [1, 1],
        np.log((1.0 - wrong) / wrong),  # the truth is 1: right with probability mu(theta)
        [0.1, 0.2, 0.3, 0.4][:arms],
    )


def last_optimal() -> RealizableProblem:
    """Return the contexts of the varying family in which the last arm is optimal: every stop before it is too early.

    Its costs are raised until the last arm is only just worth them in the contexts closest to the other ones.
    """
    whole = families.varying((0.1, 0.4, 0.77))
    chosen = whole.contexts[whole.optimal_arms == 2]
    return RealizableProblem(chosen, whole.pair_parameters, whole.costs, whole.feature_map)


def _test(
    name: str, title: str, place: str, make: Callable[[], Any], policies: Makers, **options: Any
) -> None:
    usual = {"make": make, "replications": 50, "deviations": (OURS, FORCED)}
    EXPERIMENTS.add(name, title, place, policies, **usual | options)


EXPERIMENTS = ExperimentList("ch3", setting="contextual", horizon=HORIZON, marks=100, facts=facts)
for last in LAST_COSTS:
    _synthetic(last)
for data, labels, number in itertools.product(("pima", "heart"), ("random", "thresholded"), (1, 2, 3)):
    _cost(data, labels, number)
for arms, case in itertools.product((4, 5), CASES):
    _realizable(arms, case)

RIDGES: Makers = {
    ALPHA: lambda problem: UssPdRidge(problem.costs, problem.dimension),
    BETA: lambda problem: UssPdRidge(problem.costs, problem.dimension, bonus="beta"),
}
_test(
    "varying",
    "Given disagreements; the best arm changes with the context",
    "section Realizable Setting",
    families.varying,
    {PD: _pd, BETA: RIDGES[BETA]},
    replications=100,
    facts=facts_and_bound,
)
_test(
    "last-optimal",
    "Contexts in which the last arm is optimal",
    "section 3.4, lemma subOptimalLowerSelection",
    last_optimal,
    {PD: _pd, CAUTIOUS: _cautious},
)
for arms in (3, 4):
    title = f"The example of the thesis with {arms} arms"
    place = "section Effect of adding more arms"
    _test(f"arms-{arms}", title, place, partial(more_arms, arms), {PD: _pd})
_test(
    "ridge",
    "USS-PD-lambdaI on synthetic PI 2",
    "section USS-PD-lambdaI",
    lambda: families.synthetic((*SYNTHETIC_COSTS, 0.60)),
    RIDGES,
)
