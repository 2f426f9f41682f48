"""Claims of chapter 4 that need runs and formulas: the table of rounds, asymptotic optimality, known thresholds."""

from __future__ import annotations

import math

import numpy as np

from weakfeedback.allocation import AllocationProblem, theory
from weakfeedback.allocation.waiting import grid
from weakfeedback.engine.results import Results
from weakfeedback.experiments.evidence import below, beside, decided, lower, skipped
from weakfeedback.experiments.model import ClaimList, Finding, Part, Run
from weakfeedback.thesis.chapter4 import experiments as ch4
from weakfeedback.thesis.chapter4.claims import COMPARE, COMPARE_SAME
from weakfeedback.thesis.chapter4.evidence import each, no_later, rounds
from weakfeedback.thesis.chapter4.experiments import DK, DU, KNOWN, MK, SK, SU, UCB

# The regret of the last decade of a run may exceed the slope of the lower bound by a fifth.
NEAR = 1.2
RARE = (0.12, 0.10)  # means at the stated epsilon, theta = .8, Q = 1: only one arm can be served


CLAIMS = ClaimList()


def printed_rounds(name: str, policy: str) -> float:
    """Return the bound of the table on the rounds of a policy's search, as printed."""
    problem = ch4.EXPERIMENTS[f"ch4-compare-{name.lower()}"].problem()[0]
    shape = (problem.arms, problem.budget, ch4.EPSILON, ch4.DELTA, ch4.GAMMA)
    if policy == SK:
        return theory.rounds_csb_sk(problem.arms, ch4.EPSILON, ch4.DELTA)
    if policy == SU:
        return theory.rounds_csb_su(problem)
    if policy == DK:
        return theory.rounds_csb_dk(*shape)
    if policy == MK:
        return theory.rounds_csb_mk(*shape, problem.distinct(ch4.GAMMA))
    return theory.rounds_csb_du(problem, ch4.GAMMA)


def whole_rounds(name: str, policy: str) -> float:
    """Return the same bound with W and the logarithms of the high-probability rows rounded up."""
    problem = ch4.EXPERIMENTS[f"ch4-compare-{name.lower()}"].problem()[0]
    K = problem.arms
    if policy == SK:
        return math.ceil(theory.wait_same(K, ch4.EPSILON, ch4.DELTA)) * math.ceil(math.log2(K))
    if policy not in (DK, MK):
        return printed_rounds(name, policy)
    wait = math.ceil(theory.wait_multiple(K, ch4.EPSILON, ch4.DELTA, problem.budget, ch4.GAMMA))
    halvings = math.ceil(math.log2(grid(problem.budget, ch4.GAMMA)))
    if policy == DK:
        return float(K * wait * halvings)
    n = problem.distinct(ch4.GAMMA)
    return float(wait * (n * halvings + K * math.ceil(math.log2(n + 1))))


def _within(policy: str, name: str, results: Results) -> Part:
    bound = whole_rounds(name, policy)
    label = f"{policy} on {name}"
    if policy in (SU, DU):
        return no_later(label, rounds(results, policy), bound)
    values = rounds(results, policy)
    late = int(np.count_nonzero(values > bound))
    note = f"{values.mean():.4g} on average, {values.max():.4g} at most, bound {bound:.4g}"
    return decided(label, late == 0, late, values.size, note)


@CLAIMS.tested(66, "3541-3545", (*COMPARE_SAME, *COMPARE))
def table_of_rounds(run: Run) -> Finding:
    """Comparing upper bounds on the (expected) number of rounds needed to find allocation equivalent for the proposed
    algorithms"""
    parts = []
    for ids, policies in ((COMPARE_SAME, (SK, SU)), (COMPARE, (DK, DU, MK))):
        for policy in policies:
            parts += each(run, ids, lambda name, r, policy=policy: _within(policy, name, r))  # type: ignore[misc]
    parts.append(_all_candidates_suffice())
    return Finding(
        tuple(parts),
        reading="W and the binary logarithms are rounded up. As printed, the row of one threshold certainly fails "
        "where K is not a power of 2 and every candidate suffices: 50 candidates can take 6 halvings, not 5.64. "
        "Rows that hold with high probability are tested on all runs.",
    )


def _all_candidates_suffice() -> Part:
    wait, steps = theory.wait_same(50, ch4.EPSILON, ch4.DELTA), math.ceil(math.log2(50))
    bound = theory.rounds_csb_sk(50, ch4.EPSILON, ch4.DELTA)
    note = f"theta_s = Q/50: {steps} waits of {wait:.1f} rounds, {steps * wait:.0f}, against {bound:.0f}"
    return beside(decided("one threshold as printed, 50 arms", steps * wait <= bound, note=note))


@CLAIMS.tested(69, "3248, 3456", ("ch4-long",))
def asymptotically_optimal(run: Run) -> Finding:
    """The regret of CSB-SK is asymptotically optimal [...] The regret of CSB-SU is asymptotically optimal"""
    parts = []
    for policy in (SK, SU, KNOWN):
        label = f"{policy}, last decade of 100 000 rounds"
        part = _slope(label, run["ch4-long"], policy) if "ch4-long" in run else skipped(label)
        parts.append(beside(part) if policy == KNOWN else part)
    parts.append(_test_wrong_for_ever())
    return Finding(
        tuple(parts),
        summary="CSB-SK with the delta of the theorem, T^(-(log T)^-alpha), ends its search wrongly with a "
        "probability that falls more slowly than any power of T, and a wrong estimate is never repaired. The "
        "theorem ignores these runs. They make the expected regret T^(1 - o(1)) on every instance with M < K and "
        "means below 1, because the search must test the candidate just below the right one. Means near epsilon "
        "only make this visible early. Where they are well above epsilon, as in the simulation, such runs are rare, "
        "and 100 000 rounds are few for an asymptotic statement: the slope of the bound is not exceeded, but not "
        "reached either. CSB-SU, the second half of the claim, is not affected: it continues to test.",
    )


def _slope(name: str, results: Results, policy: str) -> Part:
    regret, slope = results.values(policy), results.about["facts"]["slope"]
    tenth = regret.shape[1] // 10 - 1
    values = (regret[:, -1] - regret[:, tenth]) / math.log(10.0)
    note = f"{values.mean():.3g} per unit of log T, lower bound {slope:.3g}"
    return below(name, values - NEAR * slope, note=note)


def share_of_wrong_runs(horizon: float, alpha: float = ch4.ALPHA) -> float:
    """Return a lower bound on the expected regret of CSB-SK, over log T, on two arms with means near epsilon.

    The first candidate, Q/2 < theta, is accepted for good if no arm has a loss in W rounds. Then no arm is ever served.
    """
    delta = math.exp(-(math.log(horizon) ** (1.0 - alpha)))
    wait = max(1, math.ceil(theory.wait_same(2, ch4.EPSILON, delta)))
    unseen = math.prod(1.0 - mean for mean in RARE) ** wait
    return unseen * RARE[0] * horizon / math.log(horizon)


def _test_wrong_for_ever() -> Part:
    slope = theory.lower_bound_slope(AllocationProblem(RARE, [0.8, 0.8], 1.0))
    least = [share_of_wrong_runs(10.0**k) for k in (8, 12, 16)]
    rises = least[0] < least[1] < least[2] and least[1] > NEAR * slope
    note = f"regret over log T at least {least[1]:.3g} at T = 10^12, {least[2]:.3g} at 10^16; lower bound {slope:.3g}"
    return decided(f"{SK}, two arms with means near epsilon", not rises, note=note)


@CLAIMS.tested(83, "3170, 3362", (*COMPARE_SAME, *COMPARE))
def sampling_is_best(run: Run) -> Finding:
    """we adapt MP-TS to our setting as it gives better empirical performance [...] We adapt the CTS-BETA to our setting
    due to its better empirical performance"""
    parts = []
    for ids, label in ((COMPARE_SAME, "MP-TS"), (COMPARE, "CTS-Beta")):
        parts += each(run, ids, lambda name, r, n=label: lower(f"{n} on {name}", r, KNOWN, UCB))  # type: ignore[misc]
    return Finding(
        tuple(parts),
        reading="with known thresholds, against confidence bounds (SDCB, which is CUCB for 0/1 losses). CTS is the "
        "same algorithm as CTS-Beta for 0/1 losses. ESCB is not run: each of its rounds is a hard optimisation "
        "problem. Ties go to the smaller index, which on I and II is the better arm: so the rival starts well and "
        "ends worse.",
    )
