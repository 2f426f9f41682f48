"""Claims of chapter 2 that are computed: its tables, and statements about all cascades, checked on random ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weakfeedback.cascade import CascadeProblem, instances
from weakfeedback.cascade.problem import law_of, sampled_rows
from weakfeedback.datasets import DataMissing
from weakfeedback.engine.seeds import WORLD, generator
from weakfeedback.experiments.evidence import beside, decided, often, skipped, without_exception
from weakfeedback.experiments.model import Claim, ClaimList, Finding, Part, data_of
from weakfeedback.thesis.chapter2 import experiments as ch2
from weakfeedback.thesis.random_cascades import random_dominant, random_problems

COUNT = 2_000
TIE = 1e-12
PRINTED = {"pima": (0.3098, 0.233, 0.2278), "heart": (0.2929, 0.2025, 0.1483)}
# One error in 768 rows is .0013; the printed rates are rounded, and over 10 000 rounds of a cycled data set.
NEAR = 0.0015
SAMPLES, ROUNDS, OFTEN = 200, 10_000, 0.9


CLAIMS = ClaimList()


@CLAIMS.tested(4, "1211-1224", how="computation")
def bsc_table(_run: Any) -> Finding:
    """Error-rate 0.3937, 0.2899, 0.1358 [...] WD property doesn't hold for Instance 5. Optimal arm's cost is in red
    bold font"""
    parts = [_row(name, instances.load(name), 1e-12, ch2.BSC_ERRORS) for name in ch2.BSC]
    return Finding(
        tuple(parts),
        reading="the generator of the text (arms right with probability .6, .7, .8) does not give the error rates "
        "of the table. Here arms 2 and 3 err with probability .05 where arm 1 is right, and where it errs with the "
        "probability that gives the printed rates; any probability up to the text's 10 % gives the same table.",
    )


@CLAIMS.tested(5, "1239-1252", how="computation")
def real_table(run: Any) -> Finding:
    """Error-rate 0.3098, 0.233, 0.2278 [and] 0.2929, 0.2025, 0.1483 [...] WD property doesn't hold for Instance 5"""
    parts = []
    for name in (*ch2.PIMA, *ch2.HEART):
        try:
            problem = instances.load(name, data_of(run))
        except DataMissing:
            parts.append(skipped(name))
            continue
        part = _row(name, problem, NEAR, PRINTED[name.split("-")[0]])
        parts.append(beside(part, "corrected") if name == "heart-5" else part)
    return Finding(
        tuple(parts),
        summary="Error rates agree to within 0.0015. Heart instance 5 as printed has the optimal arm of instance 2 "
        "and a more expensive last arm, so it cannot lack weak dominance if instance 2 has it: probably a "
        "misprinted cost.",
    )


def _row(name: str, problem: CascadeProblem, near: float, printed: tuple[float, ...]) -> Part:
    stated = instances.describe(name)
    off = float(np.abs(problem.errors - printed).max())
    right = problem.optimal_arm == stated.stated_optimal_arm
    dominance = problem.weak_dominance == stated.stated_weak_dominance
    words = [f"errors off by {off:.2g}", f"xi {problem.xi:.3g}"]
    words += [] if right else ["another optimal arm"]
    words += [] if dominance else ["weak dominance not as stated"]
    return decided(name, off <= near and right and dominance, off, note="; ".join(words))


@CLAIMS.tested(6, "1256", how="computation")
def verified_from_estimates(run: Any) -> Finding:
    """WD property is verified by using the disagreement probability estimates after 10000 rounds"""
    # disagreement counted over 10 000 rounds gives the same answer on weak dominance as the law.
    parts = []
    for name in ch2.TABLES:
        try:
            problem = instances.load(name, data_of(run))
        except DataMissing:
            parts.append(skipped(name))
            continue
        right = sum(_same_answer(problem, replication) for replication in range(SAMPLES))
        parts.append(often(name, right, SAMPLES, OFTEN, f"right in {right} of {SAMPLES}"))
    return Finding(tuple(parts), summary=f"The same answer in more than {OFTEN:.0%} of {SAMPLES} samples.")


def _same_answer(problem: CascadeProblem, replication: int) -> bool:
    rows = sampled_rows(problem, ROUNDS, generator(6, replication, WORLD))
    best, costs = problem.optimal_arm, problem.costs
    margins = [
        costs[j] - costs[best] - np.mean(rows[:, j + 1] != rows[:, best + 1])
        for j in range(best + 1, problem.arms)
    ]
    return (min(margins, default=math.inf) > TIE) == problem.weak_dominance


def _holds_on(name: str, problems: list[CascadeProblem], rule: Callable[[CascadeProblem], bool]) -> Part:
    return without_exception(name, [rule(problem) for problem in problems], "random cascades")


@CLAIMS.tested(11, "1301", how="property")
def least_xi(_run: Any) -> Finding:
    """xi can not be smaller than -max(p_i*j - (gamma_i* - gamma_j))"""
    without = random_problems(COUNT, 11, lambda p: not p.weak_dominance)

    def rule(problem: CascadeProblem) -> bool:
        # kappa_j = p_i*j - (gamma_i* - gamma_j) for j > i*
        return bool(problem.xi >= -problem.kappas[problem.optimal_arm + 1 :].max() - TIE)

    return Finding((_holds_on("cascades without weak dominance", without, rule),))


@CLAIMS.tested(19, "779", how="property")
def dominance_implied(_run: Any) -> Finding:
    """The WD property holds trivially for the problem instances that satisfy SD property [...] Also [...] where the
    last arm of the cascade is an optimal arm"""
    rng = np.random.default_rng(19)
    strong = [random_dominant(rng, most_arms=5) for _ in range(COUNT)]
    last = random_problems(COUNT, 19, lambda p: p.optimal_arm == p.arms - 1)
    return Finding(
        (
            _holds_on("strong dominance", strong, lambda p: p.weak_dominance),
            _holds_on("last arm optimal", last, lambda p: p.weak_dominance),
        )
    )


@CLAIMS.tested(26, "773, 1008", how="property")
def optimal_arm_found(_run: Any) -> Finding:
    """Then B contains the optimal arm [...] the arm I_t = min(B) is the optimal arm"""
    dominant = random_problems(COUNT, 26, lambda p: p.weak_dominance)
    return Finding(
        (
            _holds_on(
                "B contains i*", dominant, lambda p: p.optimal_arm in set(p.lower_set) & set(p.upper_set)
            ),
            _holds_on("min B^h is i*", dominant, lambda p: min(p.upper_set) == p.optimal_arm),
        )
    )


@CLAIMS.tested(27, "747, 809, 819", how="property")
def identity_and_ranges(_run: Any) -> Finding:
    """gamma_i - gamma_j = p_ij - 2 P(Y^i = Y, Y^j != Y) [...] C_j - C_i > max{0, gamma_i - gamma_j} iff C_j - C_i >
    P(Y^j != Y^i)"""
    problems = random_problems(COUNT, 27)
    return Finding(
        (
            _holds_on("gamma_i - gamma_j = p_ij - 2 P(Y^i = Y, Y^j != Y)", problems, _identity),
            _holds_on("first cost range", problems, lambda p: _ranges(p, 1)),
            _holds_on("second cost range", problems, lambda p: _ranges(p, 2)),
            beside(_holds_on("second cost range as printed", problems, lambda p: _ranges(p, 3))),
        ),
        reading="in the proposition on the second cost range we read C_i - C_j <= P; printed is C_j - C_i <= P, "
        "which is true for any costs.",
    )


def _identity(problem: CascadeProblem) -> bool:
    rows, law = law_of(problem)
    right = rows[:, 1:] == rows[:, :1]
    lost = (right[:, :, None] & ~right[:, None, :]).astype(float)
    twice = 2.0 * np.tensordot(law, lost, axes=1)
    difference = problem.errors[:, None] - problem.errors[None, :]
    return bool(np.allclose(difference, problem.disagreement - twice, rtol=0.0, atol=1e-9))


def _ranges(problem: CascadeProblem, which: int) -> bool:
    """Check the cost-range propositions on every pair whose extra cost lies outside the doubtful range."""
    costs, errors, p = problem.costs, problem.errors, problem.disagreement
    for early in range(problem.arms):
        for late in range(early + 1, problem.arms):
            extra, gain = costs[late] - costs[early], max(0.0, errors[early] - errors[late])
            if gain < extra <= p[early, late]:
                continue
            if which == 1 and (extra > gain) != (extra > p[early, late]):
                return False
            if which == 2 and (extra <= gain) != (extra <= p[early, late]):
                return False
            if which == 3 and (extra <= gain) != (-extra <= p[early, late]):
                return False
    return True


CLAIMS.append(
    Claim(
        28,
        "The one-sided test leads to a simpler algorithm",
        "628",
        "argued only",
        why="simplicity is a matter of taste. The one-sided test needs fewer comparisons and, by claim 26, finds the "
        "same arm under weak dominance.",
    )
)
