"""The experiments of chapter 5, players without communication, and those that its claims need besides."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weakfeedback.experiments.model import ExperimentList, Makers
from weakfeedback.multiplayer import Dlc, DlcLix, MultiplayerProblem, MusicalChairs, SicMmab, theory
from weakfeedback.multiplayer.instances import describe

# With "eps" AdaptiveExplore stops as it must have done for the thesis's figures, with "eps/N" as its text says.
DLC, LIX = "DLC, eps", "DLC-LIX, eps"
DLC_N, LIX_N = "DLC, eps/N", "DLC-LIX, eps/N"
# Means sent to within eps/2, as printed; else exactly.
ROUNDED, ROUNDED_N = "DLC-LIX, eps, means to eps/2", "DLC-LIX, eps/N, means to eps/2"
SIC, MC, HASTY = "SIC-MMAB", "Musical Chairs", "Musical Chairs, T0 = 100"
FAIR = "DLC, eps, fair"
LEARNING = 3_000  # T_0 of the thesis

ARMS = (6, 7, 8, 9, 10, 12, 14)
PLAYERS = tuple(range(1, 11))
GAPS = (0.02, 0.03, 0.04, 0.05, 0.07, 0.1)
REPLICATIONS = 20

SHUFFLED = (
    "the means are assigned to the arms in a random order in each replication; the thesis does not say how"
)
BOTH = (
    "AdaptiveExplore stops at eps/N, as the text says, and at eps, as it must have for the figures: "
    "both are shown"
)
MENDED = (
    "served players of DLC wait until all are served, and players of DLC-LIX send exact sums: as printed, players of "
    "DLC jam each other and DLC-LIX loses its guarantee"
)
WIDTH = (
    "the constant of SIC-MMAB's confidence width is not given; 2 is that of its authors' program, as is the first "
    "phase, ceil(log2 N) + 1"
)
MADE = "not an experiment of the thesis: made to test what it proves or remarks"


def sic_mmab(problem: MultiplayerProblem, horizon: int) -> SicMmab:
    """Return SIC-MMAB as in its authors' program: it starts with a later phase and so communicates less."""
    return SicMmab(problem.arms, horizon, first_phase=math.ceil(math.log2(problem.players)) + 1)


def makers(epsilon: float, delta: float, horizon: int) -> Makers:
    """Return all policies of the chapter by label."""
    return {
        DLC: lambda p: Dlc(p.arms, epsilon, delta, tolerance="eps"),
        LIX: lambda p: DlcLix(p.arms, epsilon, delta, tolerance="eps"),
        DLC_N: lambda p: Dlc(p.arms, epsilon, delta),
        LIX_N: lambda p: DlcLix(p.arms, epsilon, delta),
        ROUNDED: lambda p: DlcLix(p.arms, epsilon, delta, tolerance="eps", transfer="eps/2"),
        ROUNDED_N: lambda p: DlcLix(p.arms, epsilon, delta, transfer="eps/2"),
        SIC: lambda p: sic_mmab(p, horizon),
        MC: lambda p: MusicalChairs(p.arms, LEARNING),
        HASTY: lambda p: MusicalChairs(p.arms, 100),
        FAIR: lambda p: Dlc(p.arms, epsilon, delta, tolerance="eps", fair=True),
    }


def _choose(epsilon: float, delta: float, horizon: int, labels: tuple[str, ...]) -> Makers:
    known = makers(epsilon, delta, horizon)
    return {label: known[label] for label in labels}


def facts_of(epsilon: float, delta: float) -> Callable[[MultiplayerProblem], dict[str, Any]]:
    """Return the facts of a problem that the claims need: its sizes, and the bounds of the theorems."""

    def facts(problem: MultiplayerProblem) -> dict[str, Any]:
        ordered = np.sort(problem.means)[::-1]
        opening = theory.orthogonalisation_rounds(problem.arms, delta) + theory.indexing_rounds(problem.arms)
        return {
            "K": problem.arms,
            "N": problem.players,
            "gap": round(float(ordered[0] - ordered[1]), 10),
            "epsilon": epsilon,
            "delta": delta,
            "opening": opening,
            "explored": _bound_exploration(problem, epsilon / problem.players, delta),
            "explored_printed": _bound_exploration(problem, epsilon, delta),
            "telling": theory.communication_rounds(problem.arms, problem.players),
            "dlc_rounds": theory.dlc_rounds(problem, epsilon, delta),
            "dlc_collisions": theory.dlc_collisions(problem, delta),
            "dlc_regret": theory.dlc_regret(problem, epsilon, delta),
            "lix_rounds": theory.dlc_lix_rounds(problem, epsilon, delta),
            "lix_collisions": theory.dlc_lix_collisions(problem, epsilon, delta),
            "lix_regret": theory.dlc_lix_regret(problem, epsilon, delta),
        }

    return facts


def _bound_exploration(problem: MultiplayerProblem, tolerance: float, delta: float) -> float:
    if problem.players == problem.arms:
        return 0.0  # nothing to explore
    return theory.exploration_rounds(problem, tolerance, delta)


def biased() -> MultiplayerProblem:
    """Return ten good arms that look worse than ten others once means are rounded down to quarters."""
    good, others = 0.998, 0.84
    means = [round(top - 0.0005 * k, 4) for top in (good, others) for k in range(10)]
    return MultiplayerProblem(means, players=10)


def _add(name: str, instance: str, title: str, place: str, labels: tuple[str, ...], **options: Any) -> None:
    found = describe(instance)
    horizon = options.setdefault("horizon", found.horizon)
    known = (found.epsilon, found.delta)
    options.setdefault("facts", facts_of(*known))
    EXPERIMENTS.add(name, title, place, _choose(*known, horizon, labels), instance=instance, **options)


EXPERIMENTS = ExperimentList(
    "ch5",
    setting="multiplayer",
    replications=REPLICATIONS,
    marks=40,
    deviations=(SHUFFLED, BOTH, MENDED, WIDTH),
    nanoseconds=150.0,
)
PRINTED = (DLC, LIX, DLC_N, LIX_N, ROUNDED)
_add(
    "compare-e1",
    "e1",
    "DLC, DLC-LIX and Musical Chairs with T_0 = 3000",
    "figure mc",
    (*PRINTED, MC),
    marks=200,
    measures=("regret", "collisions"),
    nanoseconds=600.0,
)
_add(
    "compare-e2",
    "e2",
    "DLC, DLC-LIX and SIC-MMAB",
    "figure sic-mmab",
    (*PRINTED, ROUNDED_N, SIC, MC),
    marks=200,
    measures=("regret", "collisions"),
)
for k in ARMS:
    name, title = f"arms-{k}", f"Five players on {k} arms"
    _add(name, name, title, "figure arms", (*PRINTED, SIC), swept=("K", "arms K"))
for n in PLAYERS:
    name, title = f"players-{n}", f"{n} of at most ten players on ten arms"
    _add(name, name, title, "figure players", (*PRINTED, SIC), swept=("N", "players N"))
for gap in GAPS:
    name = f"gap-{gap:g}"
    _add(
        name,
        name,
        f"Six players on nine arms whose means are {gap:g} apart",
        "figure colSam",
        (*PRINTED, SIC),
        swept=("gap", "gap between means"),
        measures=("collisions", "settled_at", "regret"),
        nanoseconds=300.0,
    )
_add(
    "ends-e1",
    "e1",
    "How DLC, DLC-LIX and Musical Chairs end with the tolerance eps = 0.3",
    "section 5.5, on wrong ends",
    (DLC, LIX, ROUNDED, MC, HASTY),
    replications=100,
    nanoseconds=200.0,
    deviations=(MADE, SHUFFLED),
)
_add(
    "long-e1",
    "e1",
    "DLC and DLC-LIX with the tolerance eps/N, given time to end",
    "section 5.3, lemma samples_AE",
    (DLC_N, LIX_N, ROUNDED_N),
    horizon=100_000,
    deviations=(MADE, SHUFFLED),
)
EXPERIMENTS.add(
    "rounding",
    "DLC-LIX where means rounded to eps/2 mislead the leader",
    "section 5.4, lemma dlcIXLearning",
    _choose(0.5, 0.05, 300_000, (LIX_N, ROUNDED_N)),
    make=biased,
    horizon=300_000,
    facts=facts_of(0.5, 0.05),
    deviations=(MADE, "each player's mean is rounded down by nearly eps/2, the leader's own is not"),
    nanoseconds=300.0,
)
_add(
    "fair-e2",
    "e2",
    "DLC with rotation over the arms found",
    "section 5.3, fair allocation",
    (FAIR,),
    horizon=60_000,
    measures=("regret", "collisions"),
    deviations=(MADE, SHUFFLED),
)
