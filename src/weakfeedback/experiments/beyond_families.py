"""Families of random problems, so that the picture does not rest on chosen instances.

Each family is a stated distribution and a fixed seed; its members were not looked at before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weakfeedback.allocation import AllocationProblem, CsbDu, CsbMk, CsbTs, KnownThresholds, NumMk
from weakfeedback.contextual import RealizableProblem
from weakfeedback.experiments import beyond_experiments as beyond
from weakfeedback.experiments.beyond_experiments import JOINT, KNOWN, TS, Makers
from weakfeedback.experiments.model import Experiment
from weakfeedback.experiments.random_cascades import random_problems
from weakfeedback.multiplayer import MultiplayerProblem

SEED = 2021
CASCADES, ALLOCATIONS, CONTEXTS, TEAMS = 25, 12, 8, 12  # members of each family
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
}


def _members(family: str, count: int, make: Callable[[np.random.Generator], Any]) -> list[Any]:
    rng = np.random.default_rng([SEED, list(DISTRIBUTIONS).index(family)])
    return [make(rng) for _ in range(count)]


def _allocation(rng: np.random.Generator, outcome: str) -> AllocationProblem:
    means, thresholds = rng.uniform(0.1, 0.9, 8), rng.uniform(0.1, 0.8, 8)
    return AllocationProblem(means, thresholds, rng.uniform(0.25, 0.75) * thresholds.sum(), setting=outcome)


def _contextual(rng: np.random.Generator) -> RealizableProblem:
    arms = int(rng.integers(3, 5))
    pairs = arms * (arms - 1) // 2
    parameters = np.column_stack((rng.uniform(-2.0, 0.0, pairs), rng.normal(size=(pairs, 2))))
    contexts = np.column_stack((np.ones(500), rng.uniform(-1.0, 1.0, (500, 2))))
    costs = np.cumsum(rng.uniform(0.05, 0.4, arms))
    return RealizableProblem(contexts, parameters, costs, features=_same)


def _same(contexts: np.ndarray) -> np.ndarray:
    """Contexts as they are."""
    return contexts


def _players(rng: np.random.Generator) -> MultiplayerProblem:
    arms = int(rng.integers(4, 11))
    return MultiplayerProblem(rng.uniform(0.0, 1.0, arms), int(rng.integers(1, arms)))


LOSSES: Makers = {
    "CSB-DU": lambda p: CsbDu(p.arms, p.budget, 0.01, every=20),
    "CSB-DK": lambda p: CsbMk(p.arms, p.budget, 0.1, 1e-4, 0.01, every=20),
    TS: lambda p: CsbTs(p.arms, p.budget),
    KNOWN: lambda p: KnownThresholds(p.arms, p.budget, p.thresholds, every=20),
}
REWARDS: Makers = {
    "NUM-MK": lambda p: NumMk(p.arms, p.budget, 0.1, 0.1, 0.001, every=20),
    TS: lambda p: CsbTs(p.arms, p.budget, setting="reward"),
    KNOWN: lambda p: KnownThresholds(p.arms, p.budget, p.thresholds, "reward", every=20),
}


def _family(
    family: str, setting: str, problems: list[Any], policies: Makers, horizon: int, repeated: int, cost: float
) -> list[Experiment]:
    found = []
    for number, problem in enumerate(problems, start=1):
        facts = beyond.player_facts(horizon)(problem) if setting == "multiplayer" else {}
        found.append(
            Experiment(
                f"beyond-family-{family}-{number:02d}",
                f"Random problem {number} of the family {family}",
                f"random problems, {family}",
                setting,
                policies,
                make=lambda problem=problem: problem,  # type: ignore[misc]
                horizon=horizon,
                replications=repeated,
                seed=1,
                marks=20,
                facts=lambda _problem, n=number, facts=facts: {"member": n, **facts},  # type: ignore[misc]
                deviations=(f"random problems: {DISTRIBUTIONS[family]}; seed {SEED}",),
                swept=("member", "member of the family"),
                nanoseconds=cost,
            )
        )
    return found


def _all_families() -> list[Experiment]:
    with_wd = random_problems(CASCADES, SEED, lambda p: p.weak_dominance)
    without = random_problems(CASCADES, SEED + 1, lambda p: not p.weak_dominance)
    cascade = {k: v for k, v in beyond.cascade_policies().items() if k in ("USS-TS", JOINT, "Q-USS, label 1")}
    players = beyond.player_policies(0.05, 0.05, 100_000)
    contexts = _members("contextual", CONTEXTS, _contextual)
    losses = _members("loss", ALLOCATIONS, lambda rng: _allocation(rng, "loss"))
    rewards = _members("reward", ALLOCATIONS, lambda rng: _allocation(rng, "reward"))
    return [
        *_family("cascade-wd", "cascade", with_wd, cascade, 10_000, 20, 500.0),
        *_family("cascade-any", "cascade", without, cascade, 10_000, 20, 500.0),
        *_family("loss", "allocation", losses, LOSSES, 10_000, 20, 3_000.0),
        *_family("reward", "allocation", rewards, REWARDS, 10_000, 20, 3_000.0),
        *_family("contextual", "contextual", contexts, beyond.contextual_policies(), 3_000, 10, 10_000.0),
        *_family("players", "multiplayer", _members("players", TEAMS, _players), players, 100_000, 10, 250.0),
    ]


FAMILIES = {experiment.id: experiment for experiment in _all_families()}
