"""The work of each row: a problem, a policy, so many rounds and replications."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.allocation import AllocationProblem, CsbDu, CsbMk, CsbSu
from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb
from weakfeedback.contextual import UssPd
from weakfeedback.contextual.features import QuadraticFeatures
from weakfeedback.contextual.problem import ContextualProblem
from weakfeedback.engine.replication import Compiled, fresh
from weakfeedback.engine.seeds import POLICY, WORLD, generator
from weakfeedback.multiplayer import Dlc, DlcLix, MultiplayerProblem, MusicalChairs, SicMmab


@dataclass(frozen=True)
class Case:
    """What ``simulate`` is given."""

    problem: Any
    policy: Any
    horizon: int
    replications: int


def cascade(arms: int) -> CascadeProblem:
    """K = 3: the thesis's first instance. Larger ones: outputs of 2000 samples; the third arm is the best stop."""
    if arms == 3:
        return CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])
    rng = np.random.default_rng(arms)
    truth = rng.integers(0, 2, 2000)
    errors = np.concatenate([[0.4, 0.3, 0.1], np.full(arms - 3, 0.08)])
    # one number per sample: an arm that is right makes later ones right
    flips = rng.random((2000, 1)) < errors
    costs = np.concatenate([[0.02, 0.05, 0.1], np.linspace(0.4, 0.9, arms - 3)])
    return CascadeProblem.from_predictions(truth, np.where(flips, 1 - truth[:, None], truth[:, None]), costs)


def thompson(arms: int) -> Case:
    """USS-TS over the thesis's horizon. It draws more in the first rounds, in which no arm is accepted early."""
    problem = cascade(arms)
    return Case(problem, UssTs(problem.costs), 10_000, {3: 40, 10: 5}.get(arms, 2))


def optimism(arms: int) -> Case:
    """USS-UCB."""
    problem = cascade(arms)
    horizon, replications = {3: (10_000, 100), 10: (10_000, 40)}.get(arms, (2000, 20))
    return Case(problem, UssUcb(problem.costs), horizon, replications)


def one_threshold(arms: int) -> Case:
    """CSB-SU; three in ten of the arms can be served."""
    problem = AllocationProblem(np.linspace(0.95, 0.3, arms), np.full(arms, 0.7), budget=0.21 * arms + 0.3)
    horizon, replications = (2000, 6) if arms <= 50 else (2000, 1)
    return Case(problem, CsbSu(arms, problem.budget), horizon, replications)


def different_thresholds(arms: int = 10) -> AllocationProblem:
    """About half of the arms can be served."""
    rng = np.random.default_rng(1)
    theta = rng.uniform(0.3, 0.7, arms)
    return AllocationProblem(rng.uniform(0.3, 0.95, arms), theta, budget=0.25 * arms)


def known_knapsack(arms: int = 10) -> Case:
    """CSB-MK from a state in which its search has ended, so that every round has its knapsack."""
    problem = different_thresholds(arms)
    policy = CsbMk(arms, problem.budget, epsilon=0.3, delta=0.01, gamma=0.005, wait=3)
    width = arms + 4
    rngs = generator(0, 0, WORLD), generator(0, 0, POLICY)
    counts, table = np.zeros(width, dtype=np.int64), np.zeros((1, width), dtype=np.int64)
    player = Compiled(problem, policy)
    state = player.play(fresh(policy), problem.world(), *rngs, np.array([5000]), counts, table)[1]
    for name, value in state.items():
        setattr(policy, name, value)
    assert policy.found
    return Case(problem, policy, 10_000, 4)


def unknown_knapsack(arms: int = 10) -> Case:
    """CSB-DU: a search for every threshold, with a knapsack of the estimates every round."""
    problem = different_thresholds(arms)
    return Case(problem, CsbDu(arms, problem.budget, gamma=0.05), 10_000, 4)


def team(arms: int, players: int) -> MultiplayerProblem:
    """Channels of falling quality."""
    return MultiplayerProblem(np.linspace(0.9, 0.5, arms), players)


def playing(make: Callable[[int, int, int], Any], arms: int, players: int) -> Case:
    """N players of one kind, over rounds in which they are still learning, and so many that starting counts little."""
    horizon, replications = (50_000, 2) if arms == 10 else (10_000, 5)
    return Case(team(arms, players), make(arms, players, horizon), horizon, replications)


PLAYERS: dict[str, Callable[[int, int, int], Any]] = {
    "DLC": lambda arms, *_: Dlc(arms, 0.01, 0.05),
    "DLC-LIX": lambda arms, *_: DlcLix(arms, 0.01, 0.05),
    "MusicalChairs": lambda arms, _, horizon: MusicalChairs(arms, learning_rounds=horizon),
    "SIC-MMAB": lambda arms, players, horizon: SicMmab(  # the first phase of the peer's program
        arms, horizon=20 * horizon, first_phase=math.ceil(math.log2(players)) + 1
    ),
}


def contextual(dimension: int) -> Case:
    """USS-PD with K = 3 and d' = 10, 45, 105 quadratic features of 3, 8, 13 numbers."""
    raw = {10: 3, 45: 8, 105: 13}[dimension]
    rng = np.random.default_rng(dimension)
    contexts = rng.uniform(-1.0, 1.0, size=(3000, raw))
    direction = rng.normal(size=raw)
    truth = contexts @ direction > 0.0
    parameters = [0.3 * direction, direction, 4.0 * direction]
    problem = ContextualProblem(
        contexts, truth, parameters, [0.02, 0.06, 0.3], features=QuadraticFeatures(math.sqrt(raw))
    )
    assert problem.dimension == dimension
    replications = {10: 4, 45: 1, 105: 1}[dimension]
    return Case(problem, UssPd(problem.costs, dimension), 5000, replications)  # the thesis's horizon


CASES: dict[str, Callable[[], Case]] = {
    **{f"USS-TS K={k}": (lambda k=k: thompson(k)) for k in (3, 10, 100)},
    **{f"USS-UCB K={k}": (lambda k=k: optimism(k)) for k in (3, 10, 100)},
    **{f"CSB-SU K={k}": (lambda k=k: one_threshold(k)) for k in (50, 1000)},
    "CSB-MK K=10": known_knapsack,
    "CSB-DU K=10": unknown_knapsack,
    **{
        f"{name} K={k} N={n}": (lambda make=make, k=k, n=n: playing(make, k, n))
        for k, n in ((10, 6), (100, 50))
        for name, make in PLAYERS.items()
    },
    **{f"USS-PD d'={d}": (lambda d=d: contextual(d)) for d in (10, 45, 105)},
}
