"""Policies that go beyond the thesis against its own, on every instance of their settings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from weakfeedback.allocation import AllocationProblem, CsbIso, CsbTs, CsbTsDrift, CsbTsSame
from weakfeedback.allocation import instances as allocations
from weakfeedback.cascade import FixedArm, QUss, UssMean, UssTs, UssTsDrift, UssUcb, UssWd, instances
from weakfeedback.contextual import UssPd, UssPdRidge, UssPdTs
from weakfeedback.contextual import instances as contexts
from weakfeedback.experiments.model import ExperimentList, Makers
from weakfeedback.multiplayer import Claims, Dlc, DlcLix, Dpe1, MultiplayerProblem, theory
from weakfeedback.multiplayer import instances as players
from weakfeedback.routing import DoubleThompson, FixedModel, PayToCompare
from weakfeedback.routing import instances as routes
from weakfeedback.thesis.chapter2.experiments import limit_fact
from weakfeedback.thesis.chapter4 import experiments as ch4
from weakfeedback.thesis.chapter5.experiments import sic_mmab

WD = "USS-WD"
DRIFT = "USS-TS-drift"
PD_TS = "USS-PD-TS"
TS = "CSB-TS"
TS_SAME = "CSB-TS-same"
DPE1 = "DPE1"
CLAIMS = "Claims"
MEAN = "USS-mean"
PRICES = (0.1, 1.0, 5.0)
Q_USS = {f"Q-USS, label {price:g}": price for price in PRICES}
EARLY, EARLY_N = "DLC-LIX, eps, early moves", "DLC-LIX, eps/N, early moves"
KNOWN = ch4.KNOWN
# All labels of policies that are not from the thesis, and of comparators that know more than a policy may.
ISO, TS_DRIFT = "CSB-ISO", "CSB-TS-drift"
NEW = (WD, DRIFT, *Q_USS, PD_TS, TS, TS_SAME, ISO, TS_DRIFT, DPE1, CLAIMS, EARLY, EARLY_N)
FLOORS = (KNOWN,)

OURS = "not an experiment of the thesis: its policies beside newer ones"
NO_BOUND = "no regret bound is known for the new policies, DPE1 apart"
PAID = "the regret of Q-USS includes what it paid for labels"
LOOSE = "estimates of USS-PD are updated less often on real data (tolerance 2)"

DEAR = ("heart", "built-in")  # data with many features, where a round takes long


def cascade_policies() -> Makers:
    """Return USS-TS and USS-UCB, and later policies."""
    makers: Makers = {
        "USS-TS": lambda p: UssTs(p.costs),
        "USS-UCB": lambda p: UssUcb(p.costs),
        WD: lambda p: UssWd(p.costs),
        DRIFT: lambda p: UssTsDrift(p.costs),
    }
    for label, price in Q_USS.items():
        makers[label] = lambda p, price=price: QUss(p.costs, price)  # type: ignore[misc]
    return makers


def contextual_policies(tolerance: float = 0.5) -> Makers:
    """Return USS-PD, its variant with a ridge, and USS-PD-TS."""
    return {
        "USS-PD": lambda p: UssPd(p.costs, p.dimension, tolerance=tolerance),
        "USS-PD-lambdaI": lambda p: UssPdRidge(p.costs, p.dimension, tolerance=tolerance),
        PD_TS: lambda p: UssPdTs(p.costs, p.dimension),
    }


def _contextual(name: str, replications: int, nanoseconds: float) -> None:
    found = contexts.describe(name)
    real = found.data != ""
    policies = contextual_policies(2.0 if real else 0.5)
    if real:  # a variant that never wins there and takes minutes
        del policies["USS-PD-lambdaI"]
    INSTANCES.add(
        f"contextual-{name}",
        f"Contextual policies on {name}",
        "cascades with context",
        policies,
        setting="contextual",
        instance=name,
        horizon=2_000 if found.data in DEAR else 5_000,
        replications=replications,
        marks=20,
        needs=found.needs,
        deviations=(OURS, NO_BOUND, *((LOOSE,) if real else ())),
        nanoseconds=nanoseconds,
    )


def routing_policies() -> Makers:
    """Return Pay-to-compare, its competitor, and what is done without them: a fixed model."""
    return {
        "Pay-to-compare": lambda p: PayToCompare(p.prices),
        "Double-Thompson": lambda p: DoubleThompson(p.prices),
        "Always the first": lambda p: FixedModel(p.prices, 0),
        "Always the last": lambda p: FixedModel(p.prices, p.arms - 1),
    }


def _allocation(name: str) -> None:
    problem = allocations.load(name)
    setting = problem.outcome
    thesis: dict[str, Makers] = {
        "I": {ch4.SK: ch4.sk, ch4.SU: ch4.su},
        "III": {ch4.MK: ch4.mk, ch4.DK: ch4.dk, ch4.DU: ch4.du},
        "NUM1": {ch4.NUM_SK: ch4.num_sk},
        "NUM2": {ch4.NUM_MK: ch4.num_mk, ch4.ROUNDED: lambda p: ch4.num_mk(p, 1e-4, 3)},
    }
    alike = {"II": "I", "IV": "III", "NUM3": "NUM2"}
    many = problem.arms >= 50
    new: Makers = {TS: lambda p: CsbTs(p.arms, p.budget, setting=setting)}
    if problem.same_threshold:
        new[TS_SAME] = lambda p: CsbTsSame(p.arms, p.budget, setting=setting)
    INSTANCES.add(
        f"allocation-{name.lower()}",
        f"Allocation policies on {name}",
        "allocation",
        {**thesis[alike.get(name, name)], **new, KNOWN: ch4.known},
        setting="allocation",
        make=partial(allocations.load, name),
        deviations=(OURS, NO_BOUND, ch4.SETS),
        nanoseconds=10_000.0 if many else 3_000.0,
    )


GRADUAL = ("step", "diminishing", "s-shaped", "floor", "mixed")  # how the arms respond


def gradual_problem(kind: str) -> AllocationProblem:
    """Return 10 arms that respond gradually to what they get, in even shares l; mixed ones in all ways in turn."""
    rng, l = np.random.default_rng([2021, GRADUAL.index(kind)]), np.linspace(0.0, 10.0, 101)  # noqa: E741
    curves = []
    for arm in range(10):
        mean, need, left = rng.uniform(0.3, 0.95), rng.uniform(0.4, 3.0), rng.uniform(0.1, 0.5)
        shapes = {
            "step": np.where(l < need, 1.0, 0.0),
            "diminishing": np.exp(-l / need),
            "s-shaped": 1.0 / (1.0 + np.exp((l - need) / (0.15 * need))),
            "floor": np.where(l < need, 1.0, left),
        }
        curves.append(mean * shapes[kind if kind in shapes else GRADUAL[arm % 4]])
    return AllocationProblem(curves=curves, budget=1.0)


def still_problem() -> AllocationProblem:
    """Return 8 arms that do not change, with needs that are whole percents of the budget."""
    needs = [0.1, 0.2, 0.15, 0.3, 0.25, 0.1, 0.2, 0.3]
    return AllocationProblem(np.linspace(0.9, 0.2, 8), needs, 1.0)


def player_policies(epsilon: float, delta: float, horizon: int) -> Makers:
    """Return DLC, DLC-LIX and SIC-MMAB, and later policies."""
    return {
        "DLC, eps": lambda p: Dlc(p.arms, epsilon, delta, tolerance="eps"),
        "DLC-LIX, eps": lambda p: DlcLix(p.arms, epsilon, delta, tolerance="eps"),
        "DLC-LIX, eps/N": lambda p: DlcLix(p.arms, epsilon, delta),
        "SIC-MMAB": lambda p: sic_mmab(p, horizon),
        EARLY: lambda p: DlcLix(p.arms, epsilon, delta, tolerance="eps", early_moves=True),
        EARLY_N: lambda p: DlcLix(p.arms, epsilon, delta, early_moves=True),
        DPE1: lambda p: Dpe1(p.arms),
        CLAIMS: lambda p: Claims(p.arms),
    }


def player_facts(horizon: int) -> Callable[[MultiplayerProblem], dict[str, Any]]:
    """Return the sizes of a problem, and the smallest possible regret even with full observation."""

    def facts(problem: MultiplayerProblem) -> dict[str, Any]:
        floor = theory.lower_bound(problem, horizon) if problem.players < problem.arms else 0.0
        best, second = np.sort(problem.means)[::-1][:2]
        gap = round(float(best - second), 10)
        return {"K": problem.arms, "N": problem.players, "gap": gap, "floor": floor}

    return facts


SWEPT = {"arms": ("K", "arms K"), "players": ("N", "players N"), "gap": ("gap", "gap between means")}
INSTANCES = ExperimentList("beyond", marks=40, deviations=(OURS, NO_BOUND))
for name in instances.labelled():
    if name != "heart-5-as-printed":
        INSTANCES.add(
            f"cascade-{name}",
            f"Cascade policies on {name}",
            "cascades",
            cascade_policies(),
            setting="cascade",
            instance=name,
            needs=instances.describe(name).needs,
            deviations=(OURS, NO_BOUND, PAID),
            facts=limit_fact,
            nanoseconds=500.0,
        )
for name in instances.names():
    if name not in instances.labelled():
        INSTANCES.add(
            f"numbers-{name}",
            f"Stages that answer with numbers, on {name}",
            "cascades that answer with numbers",
            {
                MEAN: lambda p: UssMean(p.costs, p.scale),
                "Always the first": lambda p: FixedArm(p.costs, 0),
                "Always the last": lambda p: FixedArm(p.costs, p.arms - 1),
            },
            setting="cascade",
            instance=name,
            horizon=5_000,
            replications=20,
            marks=20,
            facts=lambda p: {"fixed": float(p.total_costs.min())},
            nanoseconds=200.0,
        )
REAL = {"bc": (10, 30_000.0), "pima": (20, 12_000.0), "heart": (5, 80_000.0)}  # replications, ns a round
for name in contexts.names():
    _contextual(name, *REAL.get(name.split("-")[0], (100, 20_000.0)))
for name in routes.names():
    INSTANCES.add(
        f"routing-{name}",
        f"Models called alone on {name}",
        "routing",
        routing_policies(),
        setting="routing",
        instance=name,
        horizon=5_000,
        deviations=("not a setting of the thesis: its cascades always call all stages up to the last",),
        nanoseconds=250.0,
    )
for name in allocations.names():
    _allocation(name)
for kind in GRADUAL:
    INSTANCES.add(
        f"gradual-{kind}",
        f"Allocation where arms respond gradually: {kind}",
        "allocation",
        {ISO: lambda p: CsbIso(p.arms, p.budget), TS: lambda p: CsbTs(p.arms, p.budget)},
        setting="allocation",
        make=partial(gradual_problem, kind),
        replications=20,
        deviations=("not a setting of the thesis: its arms are served or not", NO_BOUND),
        nanoseconds=20_000.0,
    )
INSTANCES.add(
    "drift-still",
    "What following changes costs where nothing changes",
    "allocation",
    {TS_DRIFT: lambda p: CsbTsDrift(p.arms, p.budget), TS: lambda p: CsbTs(p.arms, p.budget)},
    setting="allocation",
    make=still_problem,
    replications=5,
    nanoseconds=100_000.0,
)
for name in players.names():
    known = players.describe(name)
    INSTANCES.add(
        f"players-{name}",
        f"Players on {name}",
        "players",
        player_policies(known.epsilon, known.delta, known.horizon),
        setting="multiplayer",
        instance=name,
        horizon=known.horizon,
        replications=20,
        facts=player_facts(known.horizon),
        swept=SWEPT.get(name.split("-")[0]),
        nanoseconds=250.0,
    )
