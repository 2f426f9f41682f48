"""The experiments of chapter 5, players without communication, and those that its claims need besides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weakfeedback.experiments.model import Experiment
from weakfeedback.multiplayer import Dlc, DlcLix, MultiplayerProblem, MusicalChairs, SicMmab, theory
from weakfeedback.multiplayer.instances import Instance, describe

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

Makers = Mapping[str, Callable[[MultiplayerProblem], Any]]


def sic_mmab(problem: MultiplayerProblem, horizon: int) -> SicMmab:
    """Return SIC-MMAB as in its authors' program: it starts with a later phase and so communicates less."""
    return SicMmab(problem.arms, horizon, first_phase=math.ceil(math.log2(problem.players)) + 1)


def makers(epsilon: float, delta: float, horizon: int) -> dict[str, Callable[[MultiplayerProblem], Any]]:
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


def _make_named(
    name: str, instance: Instance, title: str, place: str, labels: tuple[str, ...], **options: Any
) -> Experiment:
    rounds, known = options.setdefault("horizon", instance.horizon), (instance.epsilon, instance.delta)
    usual: dict[str, Any] = {"replications": REPLICATIONS, "marks": 40, "nanoseconds": 150.0}
    usual |= {"deviations": (SHUFFLED, BOTH, MENDED, WIDTH), "facts": facts_of(*known)}
    policies = _choose(*known, rounds, labels)
    named = {**usual, **options, "instance": instance.name}
    return Experiment(f"ch5-{name}", title, place, "multiplayer", policies, **named)


def _comparisons() -> list[Experiment]:
    e1, e2 = describe("e1"), describe("e2")
    ours = (DLC, LIX, DLC_N, LIX_N, ROUNDED)
    return [
        _make_named(
            "compare-e1",
            e1,
            "DLC, DLC-LIX and Musical Chairs with T_0 = 3000",
            "figure mc",
            (*ours, MC),
            marks=200,
            measures=("regret", "collisions"),
            nanoseconds=600.0,
        ),
        _make_named(
            "compare-e2",
            e2,
            "DLC, DLC-LIX and SIC-MMAB",
            "figure sic-mmab",
            (*ours, ROUNDED_N, SIC, MC),
            marks=200,
            measures=("regret", "collisions"),
        ),
    ]


def _sweeps() -> list[Experiment]:
    labels = (DLC, LIX, DLC_N, LIX_N, ROUNDED, SIC)
    return [
        *(
            _make_named(
                f"arms-{k}",
                describe(f"arms-{k}"),
                f"Five players on {k} arms",
                "figure arms",
                labels,
                swept=("K", "arms K"),
            )
            for k in ARMS
        ),
        *(
            _make_named(
                f"players-{n}",
                describe(f"players-{n}"),
                f"{n} of at most ten players on ten arms",
                "figure players",
                labels,
                swept=("N", "players N"),
            )
            for n in PLAYERS
        ),
        *(
            _make_named(
                f"gap-{gap:g}",
                describe(f"gap-{gap:g}"),
                f"Six players on nine arms whose means are {gap:g} apart",
                "figure colSam",
                labels,
                swept=("gap", "gap between means"),
                measures=("collisions", "settled_at", "regret"),
                nanoseconds=300.0,
            )
            for gap in GAPS
        ),
    ]


def biased() -> MultiplayerProblem:
    """Return ten good arms that look worse than ten others once means are rounded down to quarters."""
    good, others = 0.998, 0.84
    means = [round(top - 0.0005 * k, 4) for top in (good, others) for k in range(10)]
    return MultiplayerProblem(means, players=10)


def _make_tests() -> list[Experiment]:
    e1, e2 = describe("e1"), describe("e2")
    rounding = (0.5, 0.05)
    return [
        _make_named(
            "ends-e1",
            e1,
            "How DLC, DLC-LIX and Musical Chairs end with the tolerance eps = 0.3",
            "section 5.5, on wrong ends",
            (DLC, LIX, ROUNDED, MC, HASTY),
            replications=100,
            nanoseconds=200.0,
            deviations=(MADE, SHUFFLED),
        ),
        _make_named(
            "long-e1",
            e1,
            "DLC and DLC-LIX with the tolerance eps/N, given time to end",
            "section 5.3, lemma samples_AE",
            (DLC_N, LIX_N, ROUNDED_N),
            horizon=100_000,
            deviations=(MADE, SHUFFLED),
        ),
        Experiment(
            "ch5-rounding",
            "DLC-LIX where means rounded to eps/2 mislead the leader",
            "section 5.4, lemma dlcIXLearning",
            "multiplayer",
            _choose(*rounding, 300_000, (LIX_N, ROUNDED_N)),
            make=biased,
            horizon=300_000,
            replications=REPLICATIONS,
            marks=40,
            facts=facts_of(*rounding),
            deviations=(MADE, "each player's mean is rounded down by nearly eps/2, the leader's own is not"),
            nanoseconds=300.0,
        ),
        _make_named(
            "fair-e2",
            e2,
            "DLC with rotation over the arms found",
            "section 5.3, fair allocation",
            (FAIR,),
            horizon=60_000,
            measures=("regret", "collisions"),
            deviations=(MADE, SHUFFLED),
        ),
    ]


EXPERIMENTS = {experiment.id: experiment for experiment in (*_comparisons(), *_sweeps(), *_make_tests())}
