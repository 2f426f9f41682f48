"""Claims of chapter 3 that are tables, lemmas and bounds: computed, checked on random problems, or both."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from weakfeedback.contextual import ContextualProblem, RealizableProblem, instances, theory
from weakfeedback.contextual.arguments import pairs
from weakfeedback.contextual.assumptions import assess, fit_logistic
from weakfeedback.engine.results import Results
from weakfeedback.experiments.evidence import below, beside, decided, joined, last, skipped, stand_in
from weakfeedback.experiments.model import ClaimList, Finding, Part, Run
from weakfeedback.thesis.chapter3 import experiments as ch3
from weakfeedback.thesis.chapter3.claims import PRINTED, REALIZABLE, cost_ids, each
from weakfeedback.thesis.chapter3.experiments import PD, SUB_GAUSSIAN

RANDOM_PROBLEMS, ROWS = 200, 12
ROUNDING = 0.0005  # of the synthetic table, which has three digits
# Of the real table: fractions move strongly with the scale of the parameters. Set after looking at the differences; the
# verdict is the same down to 0, and changes from .061 on.
NEAR = 0.02
# The logistic model "fits" if it is off by at most .05 on average and .1 at worst. The thesis gives no measure; these
# were set after looking at the misfits.
MEAN_MISFIT, WORST_MISFIT = 0.05, 0.1
# Regret like log T adds as much from T/2 to T as from T/4 to T/2; like sqrt(T), 1.41 times as much.
# Only the family with a xi of .08 counts: a pilot run showed that with .05 and less 5000 rounds are not enough.
LOGARITHMIC, ROOT = 1.2, math.sqrt(2.0)
COVERED_ROUNDS, COVERED = 1000, 100
RIDGE = 1.0


CLAIMS = ClaimList()


@CLAIMS.tested(36, "2895-2901", how="computation")
def synthetic_fractions(_run: Run) -> Finding:
    """WD fraction: PI 1 0.997, PI 2 1.0, PI 3 1.0, PI 4 1.0"""
    parts = []
    for k in ch3.CASES:
        name = f"synthetic-{k}"
        stated, problem = instances.describe(name).stated_weak_dominance_fraction, instances.load(name)
        fixed, own = problem.weak_dominance_fraction_fixed, problem.weak_dominance_fraction
        parts.append(_near(f"{name}, best fixed arm", fixed, stated, ROUNDING))
        parts.append(beside(_near(f"{name}, by the definition", own, stated, ROUNDING)))
    return Finding(
        tuple(parts),
        reading="the printed fractions are those of the best fixed arm (the fourth) taken as optimal in every "
        "context, with regularisation strengths that we chose to match them. By the definition, with i* of each "
        "context, they are about 0.73.",
    )


@CLAIMS.tested(37, "2921-2925", (*cost_ids("pima")[:3], *cost_ids("heart")[:3]), how="computation")
def real_fractions(run: Run) -> Finding:
    """WD fraction: PIMA 0.0692, 0.1192, 0.2204, Heart Disease 0.1384, 0.1454, 0.2426"""
    parts = []
    for data in ("pima", "heart"):
        for k, name in enumerate(cost_ids(data)[:3], start=1):
            title = f"{data} {k}"
            if name not in run or run[name].about["stands_in_for"]:
                parts.append(skipped(title))
                continue
            known = run[name].about["facts"]
            stated = instances.describe(f"{data}-contextual-{k}").stated_weak_dominance_fraction
            found = _near(title, known["wd_served"], stated, NEAR)
            if found.outcome != "reproduced":  # the fractions move with the classifiers, and these are ours
                found = dataclasses.replace(found, outcome="inconclusive")
            parts.append(found)
            parts.append(beside(_near(f"{title}, best fixed arm", known["wd_fixed"], stated, NEAR)))
    return Finding(
        tuple(parts),
        summary=f"Within {NEAR} of the printed fraction, over 5000 rounds in file order, by the definition. The "
        "classifiers are ours: the thesis prints neither their scaling nor their regularisation, and both change "
        "these fractions. So a difference decides nothing.",
    )


def _near(name: str, ours: float, stated: float, allowed: float) -> Part:
    note = f"{ours:.4f}, printed {stated:g}"
    return decided(name, abs(ours - stated) <= allowed, ours, note=note)


@CLAIMS.tested(38, "2968", how="computation")
def xi_by_case(_run: Run) -> Finding:
    """The value of xi largest for Case 1, and it decreases for subsequent cases"""
    # with our own parameters, which can support the thesis's caption but not contradict it.
    parts = []
    for arms in (4, 5):
        cases = [instances.load(f"realizable-{arms}-{case}") for case in ch3.CASES]
        found = _falls(f"{arms} arms, our theta_ij", [problem.xi for problem in cases])
        if found.outcome != "reproduced":
            found = dataclasses.replace(found, outcome="inconclusive")
        parts.append(found)
        other = [_moving_optimum(problem.costs).xi for problem in cases]
        parts.append(beside(_falls(f"{arms} arms, an example where i*(x) moves", other)))
    return Finding(
        tuple(parts),
        summary="The thesis does not print its theta_ij. With ours the optimal arm is the same in all cases, and xi "
        "grows with the printed costs; the caption may have the order reversed. It need not be: with other "
        "disagreements (parts that do not count) the optimal arm of a context changes with the case, and xi falls.",
    )


def _falls(name: str, xis: list[float]) -> Part:
    falls = all(later < earlier for earlier, later in itertools.pairwise(xis))
    words = ", ".join(f"{xi:.4f}" for xi in xis)
    return decided(name, falls, xis[-1] - xis[0], note=f"xi is {words}")


def _moving_optimum(costs: np.ndarray) -> RealizableProblem:
    """Return four contexts; in the k-th, arm 1 beats arm 2 from case k on, by a smaller margin each time."""
    arms = len(costs)
    shares = np.full((arms * (arms - 1) // 2, 4), 0.01)
    shares[: arms - 1] = (0.05, 0.0975, 0.1096, 0.1199) if arms == 4 else (0.02, 0.0675, 0.0796, 0.0899)
    odds = np.log(shares / (1.0 - shares))
    return RealizableProblem(np.eye(4), odds, costs, features=lambda x: x)


@CLAIMS.tested(39, "2979", how="property")
def pseudo_regret_above(_run: Run) -> Finding:
    """the actual regret Regret_T is upper bounded by above regret Regret_T^s"""
    rng = np.random.default_rng(39)
    problems = [instances.load(f"synthetic-{k}") for k in ch3.CASES]
    problems += [random_problem(rng) for _ in range(RANDOM_PROBLEMS)]
    worst = -math.inf
    for problem in problems:
        rows = np.arange(len(problem.contexts))
        best = problem.optimal_arms
        extra = problem.costs[None, :] - problem.costs[best][:, None]
        pseudo = extra + problem.disagreement[rows, best]
        worst = max(worst, float((problem.gaps - pseudo).max()))
    note = f"regret minus pseudo-regret is at most {worst:.2g} in a context of {len(problems)} problems"
    return Finding((decided("all contexts and arms", worst <= 1e-9, worst, len(problems), note),))


def random_problem(rng: np.random.Generator, strong: bool = False) -> ContextualProblem:
    """Return a contextual cascade with a random probability of being right for every context and arm.

    With ``strong``, an arm that is right makes all later ones right: surely wrong, then one at random, then surely
    right. The contexts are unit vectors, so a parameter belongs to one context.
    """
    arms = int(rng.integers(2, 6))
    right = rng.random((arms, ROWS))
    if strong:
        turn = rng.integers(0, arms + 1, size=ROWS)
        index = np.arange(arms)[:, None]
        right = np.where(index < turn, 0.0, np.where(index > turn, 1.0, right))
    truth = rng.integers(0, 2, size=ROWS)
    odds = np.log(np.maximum(right, 1e-16) / np.maximum(1.0 - right, 1e-16))
    costs = np.sort(rng.random(arms)) * rng.random()
    signed = np.where(truth == 1, odds, -odds)
    return ContextualProblem(np.eye(ROWS), truth, signed, costs, features=lambda x: x)


@CLAIMS.tested(40, "2420-2424", ("ch3-varying", *REALIZABLE))
def orders_of_the_bound(run: Run) -> Finding:
    """logarithmic in T and grows linearly with d' and K. The regret is inversely dependent on the value of xi"""

    def bound(rounds: int, dimension: int, xi: float, arms: int, least: float) -> float:
        level = (2.0 * theory.LIPSCHITZ * theory.alpha(rounds, dimension, arms) / xi) ** 2
        return (arms - 1) * theory.observations_needed(level, least, dimension, arms)

    usual = {"rounds": 10**12, "dimension": 10, "xi": 1e-3, "arms": 5, "least": 0.01}

    def grows(**changed: float) -> float:
        return bound(**{**usual, **changed}) / bound(**usual)  # type: ignore[arg-type]

    parts = [
        decided("log T", abs(grows(rounds=10**24) - 2.0) <= 0.1, grows(rounds=10**24), note="T to T^2"),
        decided("1 / xi^2", abs(grows(xi=5e-4) - 4.0) <= 0.1, grows(xi=5e-4), note="half of xi"),
        decided("linear in K", abs(grows(arms=9) - 2.0) <= 0.1, grows(arms=9), note="K - 1 doubled"),
    ]
    fixed = grows(dimension=20)
    note = "d' doubled, lambda_Sigma fixed"
    parts.append(decided("linear in d'", abs(fixed - 2.0) <= 0.2, fixed, note=note))
    # |Phi| <= 1 makes the trace of Sigma at most 1, so its least eigenvalue is at most 1 / d'.
    doubled = grows(dimension=20, least=1 / 20) / grows(least=1 / 10)
    note = "d' doubled, lambda_Sigma at its largest possible, 1 / d'"
    parts.append(beside(decided("linear in d', |Phi| <= 1", abs(doubled - 2.0) <= 0.2, doubled, note=note)))

    def growth(name: str, r: Results) -> Part:
        regret = r.values(PD)
        marks = regret.shape[1]
        before = regret[:, marks // 2 - 1] - regret[:, marks // 4 - 1]
        after = regret[:, -1] - regret[:, marks // 2 - 1]
        note = f"{before.mean():.4g} from T/4 to T/2, {after.mean():.4g} from T/2 to T"
        return below(f"log T on {name}", after - LOGARITHMIC * before, after - ROOT * before, note)

    parts += each(run, ("ch3-varying",), growth)
    parts += [beside(p, "5000 rounds are too few for this xi") for p in each(run, REALIZABLE, growth)]
    return Finding(
        tuple(parts),
        reading="at a fixed lambda_Sigma, as is usual in this literature.",
        summary="A remark, shown by parts that do not count: if features have norm at most 1, as the chapter "
        "assumes, lambda_Sigma <= 1 / d'. So it cannot stay fixed as features are added, and even at its largest "
        "value the bound grows at least like the square of d'.",
    )


@CLAIMS.tested(42, "3002", how="property")
def strong_implies_weak(_run: Run) -> Finding:
    """CWD property holds trivially for the problem instances that satisfy CSD property"""
    rng = np.random.default_rng(42)
    problems = [random_problem(rng, strong=True) for _ in range(RANDOM_PROBLEMS)]
    strong = sum(problem.strong_dominance_fraction == 1.0 for problem in problems)
    weak = sum(problem.weak_dominance_fraction == 1.0 for problem in problems)
    note = f"{strong} of {len(problems)} random problems have strong dominance, {weak} weak dominance"
    return Finding((decided("random problems", strong == weak == len(problems), weak, len(problems), note),))


@CLAIMS.tested(
    44, "2127, 2429", (PRINTED[1], *cost_ids("pima")[:1], *cost_ids("heart")[:1]), how="computation"
)
def model_fits(run: Run) -> Finding:
    """We then propose a parameterized Generalized Linear Model (GLM) to model the context-conditional disagreement
    probability between any two arms and validate the model empirically"""

    def part(name: str, r: Results) -> Part:
        worst, mean = r.about["facts"]["misfit"], r.about["facts"]["mean_misfit"]
        note = joined(f"off by {mean:.4f} on average, {worst:.3f} at worst", stand_in(r))
        found = decided(name, mean <= MEAN_MISFIT and worst <= WORST_MISFIT, worst, note=note)
        return beside(found) if stand_in(r) else found  # the claim is about the thesis's data

    real = (*cost_ids("pima")[:1], *cost_ids("heart")[:1])
    return Finding(
        tuple(each(run, (PRINTED[1], *real), part)),
        summary="Probabilities of the best logistic model of degree 2 are compared with the true ones; it fits if "
        f"it is off by at most {MEAN_MISFIT} on average and {WORST_MISFIT} at worst. It never fits exactly.",
    )


@CLAIMS.tested(46, "2242", how="property")
def contextual_maximal(run: Run) -> Finding:
    """The set P_CWD is maximal learnable"""
    # a cascade without context is a contextual one whose law does not depend on the context.
    from weakfeedback.thesis.chapter2.theorems import (
        maximal,  # when it is judged: no other chapter is loaded before
    )

    found = maximal(run)
    words = (
        "A cascade of chapter 2 is a contextual one whose distribution does not depend on the context, so what can "
        "be added there can be added here; the disagreements must then be tested context by context. "
    )
    return Finding(found.parts, found.rule, found.reading, words + found.summary)


@CLAIMS.tested(47, "2383, 2828", how="computation")
def covered(_run: Run) -> Finding:
    """the following event holds with probability at least 1 - 2 delta / K^2: |theta_hat - theta|_V <= alpha"""
    problem = instances.load("realizable-4-1")
    assert isinstance(problem, RealizableProblem)
    kappa = assess(problem).kappa
    parts = []
    for assumed, sigma, slope in ((True, SUB_GAUSSIAN, kappa), (False, 0.1, 0.25)):
        found = theory.ellipsoid_coverage(problem, COVERED_ROUNDS, COVERED, sigma=sigma, kappa=slope)
        note = f"{found.share:.4f} covered, promised {found.promised:.4f}, at most {found.largest:.2f} radii"
        name = f"USS-PD, {'true kappa and sigma' if assumed else 'kappa .25, sigma .1'}"
        part = decided(name, found.share >= found.promised, found.share, COVERED, note)
        parts.append(part if assumed else beside(part, "the assumptions do not hold for these defaults"))
    share, largest = ridge_coverage(problem, kappa)
    note = f"{share:.4f} covered, at most {largest:.2f} radii"
    promised = 1.0 - 2.0 * 0.05 / problem.arms**2
    parts.append(decided("USS-PD-lambdaI, true kappa and sigma", share >= promised, share, COVERED, note))
    return Finding(
        tuple(parts),
        summary=f"After {COVERED_ROUNDS} rounds on realizable case 1 with 4 arms. With the kappa and sigma of the "
        "assumptions the ellipsoid is very wide; those used in simulations guarantee nothing.",
    )


def ridge_coverage(problem: RealizableProblem, kappa: float) -> tuple[float, float]:
    """Return how often |theta_hat - theta| in V + lambda I stayed within beta, and the largest ratio."""
    rng, n = np.random.default_rng(47), COVERED_ROUNDS
    size = float(np.linalg.norm(problem.pair_parameters, axis=1).max())
    radius = theory.beta(n, problem.dimension, problem.arms, RIDGE, size, sigma=SUB_GAUSSIAN, kappa=kappa)
    ratios = []
    for _ in range(COVERED):
        rows = rng.integers(0, len(problem.contexts), size=n)
        phi = problem.features[rows]
        for theta, i, j in zip(problem.pair_parameters, *pairs(problem.arms)):
            differ = (rng.random(n) < problem.disagreement[rows, i, j]).astype(float)
            error = fit_logistic(phi, differ, RIDGE) - theta
            ratios.append(
                math.hypot(np.linalg.norm(phi @ error), math.sqrt(RIDGE) * np.linalg.norm(error)) / radius
            )
    return float(np.mean(np.array(ratios) <= 1.0)), max(ratios)


@CLAIMS.tested(49, "2410, 2868", ("ch3-varying", *REALIZABLE))
def below_the_bound(run: Run) -> Finding:
    """with probability at least 1 - 2 delta, the regret of USS-PD for T > m contexts is [at most] R_max [m + ...]"""

    def part(name: str, r: Results) -> Part:
        known, regret = r.about["facts"], last(r, PD)
        most = known["largest_regret"] * int(r.about["horizon"])
        note = f"{regret.mean():.4g}, bound {known['bound']:.2g}, R_max T {most:.4g}"
        return below(name, regret - known["bound"], note=note)

    def with_ridge(name: str, r: Results) -> Part:
        bound, regret = r.about["facts"]["ridge_bound"], last(r, ch3.BETA)
        return below(f"{ch3.BETA} on {name}", regret - bound, note=f"{regret.mean():.4g}, bound {bound:.2g}")

    parts = [*each(run, ("ch3-varying", *REALIZABLE), part), *each(run, ("ch3-varying",), with_ridge)]
    return Finding(
        tuple(parts),
        summary="Both bounds are above R_max T, the largest regret that is possible, so they exclude nothing at "
        "this horizon.",
        reading="with 32 for the printed 16, which the proof's own radius gives, with 2 sigma / kappa in the radius of "
        "USS-PD-lambdaI, with the true kappa and sigma, and with 1 for the unknown universal constants.",
    )
