"""Families of random problems, so that the comparison does not depend on chosen instances.

Each family is a stated distribution and a fixed seed; nobody looked at its members beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weakfeedback.allocation import AllocationProblem, CsbDt, CsbDu, CsbMk, CsbTs, KnownThresholds, NumMk
from weakfeedback.cascade import CascadeProblem
from weakfeedback.contextual import ContextualProblem, QuadraticFeatures, RealizableProblem
from weakfeedback.experiments.model import ExperimentList, Makers
from weakfeedback.multiplayer import MultiplayerProblem
from weakfeedback.thesis.beyond import experiments as beyond
from weakfeedback.thesis.beyond.experiments import KNOWN, TS, WD
from weakfeedback.thesis.random_cascades import random_problems

SEED = 2021
CASCADES, ALLOCATIONS, CONTEXTS, TEAMS = 25, 12, 8, 12  # members of each family
ADDED_MEMBERS = 8  # members of families added to find losses
# In words, for the page.
DISTRIBUTIONS = {
    "cascade-wd": (
        "2 to 5 arms; the law of the 2^(K+1) rows is Dirichlet with parameter 0.6 / 2^(number of wrong arms); each "
        "step costs a uniform amount up to 0.1, 0.3 or 0.6; only laws with weak dominance are kept"
    ),
    "cascade-any": "the same distribution, and only laws without weak dominance are kept",
    "loss": (
        "8 arms, means uniform in [0.1, 0.9], thresholds uniform in [0.1, 0.8], a budget of 25 % to 75 % of the sum "
        "of thresholds, losses"
    ),
    "reward": "the same distribution, rewards",
    "contextual": (
        "3 or 4 arms, 500 contexts uniform in [-1, 1]^2, every pair's disagreement a logistic function of "
        "(1, x1, x2) with an intercept uniform in [-2, 0] and normal coefficients, steps of cost uniform in [0.05, 0.4]"
    ),
    "players": (
        "4 to 10 arms, 1 to K - 1 players, means uniform in [0, 1]; 100,000 rounds, epsilon 0.05, delta 0.05"
    ),
    # Designed to find losses.
    "cascade-latent": (
        "3 to 6 arms that err where a difficulty uniform in [0, 1] exceeds their skill (a logistic function, and up to "
        "8 % noise), 400 items; steps of cost uniform in [0.005, 0.3]; only laws with weak dominance are kept"
    ),
    "loss-small": "the distribution of loss with thresholds and budget 20 to 200 times smaller",
    "loss-ample": "the distribution of loss with a budget of 100 % to 160 % of the sum of thresholds",
    "loss-tiny": "the distribution of loss, and seven of ten thresholds uniform in [0.005, 0.05]",
    "loss-rare": "the distribution of loss with means uniform in [0.005, 0.08]",
    "reward-real": "the distribution of reward with real rewards, uniform around their means",
    "contextual-thresholded": (
        "3 or 4 arms, 400 contexts uniform in [-1, 1]^2, linear classifiers that turn towards the truth, their labels "
        "fixed by the context; quadratic features; steps of cost uniform in [0.02, 0.25]; weak dominance in four "
        "contexts of five at least"
    ),
    "players-close": (
        "5 to 8 arms, K - 1 players, the means of all but the worst within 0.005 to 0.05 of each other, the worst "
        "0.005 to 0.1 below"
    ),
}


def _members(family: str, count: int, make: Callable[[np.random.Generator], Any]) -> list[Any]:
    rng = np.random.default_rng([SEED, list(DISTRIBUTIONS).index(family)])
    return [make(rng) for _ in range(count)]


def _allocation(rng: np.random.Generator, outcome: str) -> AllocationProblem:
    means, thresholds = rng.uniform(0.1, 0.9, 8), rng.uniform(0.1, 0.8, 8)
    return AllocationProblem(means, thresholds, rng.uniform(0.25, 0.75) * thresholds.sum(), setting=outcome)


def _unusual(rng: np.random.Generator, family: str) -> AllocationProblem:
    means, thresholds = rng.uniform(0.1, 0.9, 8), rng.uniform(0.1, 0.8, 8)
    share = rng.uniform(0.25, 0.75)
    if family == "loss-small":
        thresholds *= rng.uniform(0.005, 0.05)
    elif family == "loss-ample":
        share = rng.uniform(1.0, 1.6)
    elif family == "loss-tiny":
        thresholds = np.where(rng.random(8) < 0.7, rng.uniform(0.005, 0.05, 8), thresholds)
    elif family == "loss-rare":
        means = rng.uniform(0.005, 0.08, 8)
    law = "uniform" if family == "reward-real" else "bernoulli"
    budget = max(share * thresholds.sum(), 1.01 * thresholds.min())
    thresholds = np.minimum(thresholds, budget)
    return AllocationProblem(means, thresholds, budget, setting=family.split("-")[0], rewards=law)


def _latent(rng: np.random.Generator) -> CascadeProblem:
    while True:
        arms = int(rng.integers(3, 7))
        skill, noise = np.sort(rng.uniform(0.2, 0.95, arms)), rng.uniform(0.01, 0.08, arms)
        beyond = (rng.uniform(0.0, 1.0, (400, 1)) - skill) / rng.uniform(0.03, 0.2)
        wrong = rng.random((400, arms)) < (1.0 - noise) / (1.0 + np.exp(-beyond)) + 0.5 * noise
        truth = rng.integers(0, 2, 400)
        rows, count = np.unique(np.column_stack((truth, truth[:, None] ^ wrong)), axis=0, return_counts=True)
        problem = CascadeProblem(rows, count / 400, np.cumsum(rng.uniform(0.005, 0.3, arms)))
        if problem.weak_dominance:
            return problem


def _thresholded(rng: np.random.Generator) -> ContextualProblem:
    while True:
        arms = int(rng.integers(3, 5))
        contexts, direction = rng.uniform(-1.0, 1.0, (400, 2)), rng.normal(size=2)
        direction /= np.linalg.norm(direction)
        turned = [direction + off * rng.normal(size=2) for off in np.linspace(1.0, 0.05, arms)]
        problem = ContextualProblem(
            contexts,
            contexts @ direction > 0.0,
            [rng.uniform(2.0, 8.0) * one for one in turned],
            np.cumsum(rng.uniform(0.02, 0.25, arms)),
            labels="thresholded",
            intercepts=rng.normal(size=arms) * np.linspace(0.8, 0.05, arms),
            features=QuadraticFeatures(1.5),
        )
        if problem.weak_dominance_fraction > 0.8:
            return problem


def _close(rng: np.random.Generator) -> MultiplayerProblem:
    arms = int(rng.integers(5, 9))
    means = rng.uniform(0.3, 0.9) + rng.uniform(0.005, 0.05) * rng.uniform(0.0, 1.0, arms)
    means[-1] = means[:-1].min() - rng.uniform(0.005, 0.1)
    return MultiplayerProblem(means, arms - 1)


def _contextual(rng: np.random.Generator) -> RealizableProblem:
    arms = int(rng.integers(3, 5))
    pairs = arms * (arms - 1) // 2
    parameters = np.column_stack((rng.uniform(-2.0, 0.0, pairs), rng.normal(size=(pairs, 2))))
    contexts = np.column_stack((np.ones(500), rng.uniform(-1.0, 1.0, (500, 2))))
    costs = np.cumsum(rng.uniform(0.05, 0.4, arms))
    return RealizableProblem(contexts, parameters, costs, features=_same)


def _same(contexts: np.ndarray) -> np.ndarray:
    """Return the contexts unchanged."""
    return contexts


def _players(rng: np.random.Generator) -> MultiplayerProblem:
    arms = int(rng.integers(4, 11))
    return MultiplayerProblem(rng.uniform(0.0, 1.0, arms), int(rng.integers(1, arms)))


def _gamma(problem: AllocationProblem) -> float:
    """Return 0.01 as in the thesis, or a hundredth of a smaller budget."""
    return min(0.01, problem.budget / 100.0)


def told_resolution(problem: AllocationProblem) -> CsbDu:
    """Return CSB-DU with the largest step that is safe on a problem, which no learner knows."""
    return CsbDu(problem.arms, problem.budget, max(problem.gamma, 1e-6 * problem.budget), every=20)


TOLD = "CSB-DU, told"
LOSSES: Makers = {
    "CSB-DU": lambda p: CsbDu(p.arms, p.budget, _gamma(p), every=20),
    "CSB-DK": lambda p: CsbMk(p.arms, p.budget, 0.1, 1e-4, _gamma(p), every=20),
    "CSB-DT": lambda p: CsbDt(p.arms, p.budget, 0.1, 1e-4, _gamma(p), every=20),
    TS: lambda p: CsbTs(p.arms, p.budget),
    TOLD: told_resolution,
    KNOWN: lambda p: KnownThresholds(p.arms, p.budget, p.thresholds, every=20),
}
REWARDS: Makers = {
    "NUM-MK": lambda p: NumMk(
        p.arms, p.budget, 0.1, 0.1, 0.1 * _gamma(p), wait=1 if p.law == "uniform" else None, every=20
    ),
    TS: lambda p: CsbTs(p.arms, p.budget, setting="reward"),
    KNOWN: lambda p: KnownThresholds(p.arms, p.budget, p.thresholds, "reward", every=20),
}


FAMILIES = ExperimentList("beyond-family", seed=1, marks=20, swept=("member", "member of the family"))


def _add(
    family: str, setting: str, problems: list[Any], policies: Makers, horizon: int, repeated: int, cost: float
) -> None:
    for number, problem in enumerate(problems, start=1):
        facts = beyond.player_facts(horizon)(problem) if setting == "multiplayer" else {}
        FAMILIES.add(
            f"{family}-{number:02d}",
            f"Random problem {number} of the family {family}",
            f"random problems, {family}",
            policies,
            setting=setting,
            make=lambda problem=problem: problem,
            horizon=horizon,
            replications=repeated,
            facts=lambda _problem, n=number, facts=facts: {"member": n, **facts},
            deviations=(f"random problems: {DISTRIBUTIONS[family]}; seed {SEED}",),
            nanoseconds=cost,
        )


def _add_cascades(family: str, problems: list[Any]) -> None:
    chosen = ("USS-TS", WD, "Q-USS, label 1")
    policies = {label: make for label, make in beyond.cascade_policies().items() if label in chosen}
    _add(family, "cascade", problems, policies, 10_000, 20, 500.0)


def _add_allocations(family: str, problems: list[Any]) -> None:
    policies = LOSSES if family.startswith("loss") else REWARDS
    _add(family, "allocation", problems, policies, 10_000, 20, 3_000.0)


def _add_contexts(family: str, problems: list[Any]) -> None:
    _add(family, "contextual", problems, beyond.contextual_policies(), 3_000, 10, 10_000.0)


def _add_players(family: str, problems: list[Any]) -> None:
    policies = beyond.player_policies(0.05, 0.05, 100_000)
    _add(family, "multiplayer", problems, policies, 100_000, 10, 250.0)


_add_cascades("cascade-wd", random_problems(CASCADES, SEED, lambda p: p.weak_dominance))
_add_cascades("cascade-any", random_problems(CASCADES, SEED + 1, lambda p: not p.weak_dominance))
for outcome in ("loss", "reward"):
    _add_allocations(outcome, _members(outcome, ALLOCATIONS, partial(_allocation, outcome=outcome)))
_add_contexts("contextual", _members("contextual", CONTEXTS, _contextual))
_add_players("players", _members("players", TEAMS, _players))
_add_cascades("cascade-latent", _members("cascade-latent", ADDED_MEMBERS, _latent))
for name in DISTRIBUTIONS:
    if name.startswith(("loss-", "reward-")):
        _add_allocations(name, _members(name, ADDED_MEMBERS, partial(_unusual, family=name)))
_add_contexts("contextual-thresholded", _members("contextual-thresholded", ADDED_MEMBERS, _thresholded))
_add_players("players-close", _members("players-close", ADDED_MEMBERS, _close))
