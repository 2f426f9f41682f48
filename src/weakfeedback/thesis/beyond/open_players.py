"""Players beyond chapter 5: faults, players that come and go, own qualities, no collision sensing, side by side."""

from __future__ import annotations

from functools import partial

import numpy as np

from weakfeedback.experiments.model import ExperimentList, Makers, Row, Run, Table
from weakfeedback.multiplayer import Claims, DlcLix, Dpe1, Match, MultiplayerProblem, Selfish, instances
from weakfeedback.thesis.beyond.experiments import NO_BOUND, OURS

SEED = 2021
SIX = (0.9, 0.8, 0.7, 0.4, 0.3, 0.2)  # the arms of the faults, for four players
TEN = tuple(round(0.95 - 0.05 * k, 2) for k in range(10))  # the arms of the churn
# the 5 x 5 instance of BEACON's repository
P55 = (
    (0.5, 0.49, 0.39, 0.29, 0.5),
    (0.5, 0.49, 0.39, 0.29, 0.19),
    (0.29, 0.19, 0.5, 0.499, 0.39),
    (0.29, 0.49, 0.5, 0.5, 0.39),
    (0.49, 0.49, 0.49, 0.49, 0.5),
)
ALWAYS = (0, None)
PROTOCOLS: Makers = {
    "DPE1": lambda p: Dpe1(p.arms),
    "DLC-LIX, eps": lambda p: DlcLix(p.arms, 0.1, 0.05, tolerance="eps", alarm=True),
}
SURVIVORS: Makers = {
    "Claims": lambda p: Claims(p.arms),
    "Claims, recheck 300": lambda p: Claims(p.arms, recheck=300),
    "Selfish": lambda p: Selfish(p.arms),
}
KL_UCB: Makers = {"Selfish, KL-UCB": lambda p: Selfish(p.arms, index="kl-ucb")}
OWN: Makers = {"Match": lambda p: Match(p.arms), "Claims": SURVIVORS["Claims"]}


def faults() -> dict[str, MultiplayerProblem]:
    """Return four players on six arms, with one fault each."""
    fault = partial(MultiplayerProblem, SIX)
    return {
        "none": fault(4),
        "leaves-300": fault(4, presence=[(0, 300), ALWAYS, ALWAYS, ALWAYS]),
        "leaves-15000": fault(4, presence=[(0, 15_000), ALWAYS, ALWAYS, ALWAYS]),
        "joins-300": fault(5, presence=[(300, None), *[ALWAYS] * 4]),
        "joins-15000": fault(5, presence=[(15_000, None), *[ALWAYS] * 4]),
        "lost": fault(4, lost=0.005),
    }


def churn(life: float, pause: float, horizon: int = 60_000) -> MultiplayerProblem:
    """Return a problem with six players at first, exponential lives and a newcomer every ``pause`` slots on average."""
    rng = np.random.default_rng([SEED, int(life)])
    presence = [(0, 1 + int(rng.exponential(life))) for _ in range(6)]
    start = rng.exponential(pause)
    while start < horizon:
        presence.append((int(start), int(start) + 1 + int(rng.exponential(life))))
        start += rng.exponential(pause)
    return MultiplayerProblem(TEN, len(presence), presence=presence)


def own_qualities() -> dict[str, MultiplayerProblem]:
    """Return problems in which every player has its own means: BEACON's, and uniform ones."""
    rng = np.random.default_rng([SEED, 5])
    found = {"p55": MultiplayerProblem(P55, 5)}
    for players, arms, number in ((5, 5, 1), (5, 5, 2), (5, 5, 3), (4, 8, 1), (4, 8, 2)):
        found[f"{players}x{arms}-{number}"] = MultiplayerProblem(rng.random((players, arms)), players)
    return found


def _deaf(name: str) -> MultiplayerProblem:
    known = instances.describe(name)
    return MultiplayerProblem(known.means, known.players, sensing=False)


def _add(
    name: str, title: str, problem: MultiplayerProblem, policies: Makers, horizon: int, runs: int
) -> None:
    place = "players that come and go, own qualities, no sensing"
    OPEN.add(name, title, place, policies, make=lambda: problem, horizon=horizon, replications=runs)


OPEN = ExperimentList(
    "beyond-open",
    setting="multiplayer",
    seed=1,
    marks=100,
    facts=lambda problem: {"K": problem.arms, "N": problem.players},
    deviations=(OURS, NO_BOUND),
    measures=("regret", "share"),
    nanoseconds=3_000.0,
)
for name, problem in faults().items():
    _add(f"fault-{name}", f"A fault: {name}", problem, {**SURVIVORS, **PROTOCOLS}, 20_000, 20)
for name, pace in {"fast": (6_000.0, 1_000.0), "slow": (30_000.0, 5_000.0)}.items():
    steady = {**SURVIVORS, "DPE1": PROTOCOLS["DPE1"]}
    _add(f"churn-{name}", f"Players that come and go, {name}", churn(*pace), steady, 60_000, 5)
for name, problem in own_qualities().items():
    _add(f"own-{name}", f"Own qualities: {name}", problem, OWN, 100_000, 10)
DEAF: Makers = {"Selfish": SURVIVORS["Selfish"], **KL_UCB}
_add(
    "deaf-6x4",
    "No collision sensing, four players on six arms",
    MultiplayerProblem(SIX, 4, sensing=False),
    DEAF,
    20_000,
    20,
)
_add("deaf-e1", "No collision sensing, e1", _deaf("e1"), DEAF, 10_000, 20)


def rows(run: Run) -> list[Row]:
    """Return, by problem and policy: regret, share of the best possible, its worst run, collisions."""
    found: list[Row] = []
    for name in OPEN:
        if name not in run:
            continue
        results = run[name]
        horizon = int(results.about["horizon"])
        for label in results.policies:
            regret, share = results.values(label)[:, -1], results.values(label, "share")[:, -1]
            hits = results.values(label, "collisions")[:, -1].mean() / horizon
            words = f"{name.removeprefix('beyond-open-')}, {label}"
            found.append([words, float(regret.mean()), float(share.mean()), float(share.min()), float(hits)])
    return found


TABLE = Table(
    "beyond-table-open",
    "Players beyond chapter 5: what is earned of the best possible for those present",
    "faults, churn, own qualities, no sensing",
    ("Problem, policy", "Regret", "Share", "Worst run", "Collisions per slot"),
    rows,
    tuple(OPEN),
    "Share: earned / best possible for the players present. DPE1 and DLC-LIX need that nobody ever comes, goes or "
    "loses a slot; Match needs that too, and is the only one that looks for the best assignment.",
)
