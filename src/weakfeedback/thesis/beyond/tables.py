"""Where the new policies win, tie and lose: every comparison is paired, and corrected over its whole table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from weakfeedback.engine.results import Results
from weakfeedback.experiments.model import Row, Run, Table
from weakfeedback.stats import holm
from weakfeedback.thesis.beyond.experiments import FLOORS, INSTANCES, NEW
from weakfeedback.thesis.beyond.families import DISTRIBUTIONS, FAMILIES, TOLD

LEVEL = 0.05
LEAST = 1.0  # a ratio to less regret than this is meaningless
PLACES = {
    "cascade": "Cascades: new policies against the best of USS-TS and USS-UCB",
    "contextual": "Cascades with context: USS-PD-TS against the best of the thesis's",
    "allocation": "Allocation: CSB-TS and CSB-TS-same against the best of the thesis's",
    "players": "Players: DPE1, Claims and early moves against the best of the thesis's",
}


class Compared:
    """A new policy compared with the thesis's best on one problem."""

    def __init__(self, name: str, results: Results, new: str, rival: str | None = None) -> None:
        final = {label: results.values(label)[:, -1] for label in results.policies}
        thesis = (
            [label for label in final if label not in (*NEW, *FLOORS, TOLD)] if rival is None else [rival]
        )
        self.best = min(thesis, key=lambda label: float(final[label].mean()))
        self.name, self.new = name, new
        self.regret, self.rival = float(final[new].mean()), float(final[self.best].mean())
        self.floor = _floor(results, final)
        self.p_value = results.compare(new, self.best).p_value
        self.outcome = ""

    @property
    def ratio(self) -> float:
        """Return the ratio of the two regrets; 1 if both are 0."""
        if self.rival == 0.0:
            return 1.0 if self.regret == 0.0 else math.inf
        return self.regret / self.rival

    def row(self) -> Row:
        """Return a row for a table."""
        p = f"{self.p_value:.4f}" if self.p_value >= 1e-4 else "< 0.0001"
        numbers: Row = [self.regret, self.rival, self.ratio, self.floor, p]
        return [f"{self.name}, {self.new}", self.best, *numbers, self.outcome]


def _floor(results: Results, final: Mapping[str, np.ndarray]) -> float:
    """Return the regret with known thresholds, or the smallest possible one; 0 where the best choice loses nothing."""
    for label in FLOORS:
        if label in final:
            return float(final[label].mean())
    return float(results.about.get("facts", {}).get("floor", 0.0))


def comparisons(run: Run, names: list[str], rival: str | None = None) -> list[Compared]:
    """Compare all new policies on these experiments, with Holm's correction over all of them.

    They are compared with the thesis's best, or with a ``rival`` where it was played.
    """
    found = [
        Compared(name, run[name], new, rival)
        for name in names
        if name in run and (rival is None or rival in run[name].policies)
        for new in run[name].policies
        if new in NEW
    ]
    for one, p in zip(found, holm([one.p_value for one in found])):
        one.p_value = float(p)
        decided = p <= LEVEL
        one.outcome = "ties" if not decided else "wins" if one.regret < one.rival else "loses"
    return found


def _instances(run: Run, kind: str) -> list[Row]:
    start = f"beyond-{kind}-"
    found = comparisons(run, [name for name in INSTANCES if name.startswith(start)])
    return [[str(one.row()[0]).removeprefix(start), *one.row()[1:]] for one in found]


def _tallies(run: Run, kinds: Iterable[str], start: str, rival: str | None = None) -> list[Row]:
    """Return the tallies by new policy, over all problems of each kind."""
    rows: list[Row] = []
    for kind in kinds:
        names = [name for name in INSTANCES if name.startswith(f"{start}{kind}-")]
        # without its number
        names += [name for name in FAMILIES if name.rpartition("-")[0] == f"{start}{kind}"]
        rows += _by_policy(comparisons(run, names, rival), kind)
    return rows


def _by_policy(found: list[Compared], kind: str) -> list[Row]:
    rows: list[Row] = []
    for new in dict.fromkeys(one.new for one in found):
        some = [one for one in found if one.new == new]
        ratios = np.array([one.ratio for one in some if one.rival >= LEAST])
        excess = max(one.regret - one.rival for one in some)
        count = {word: sum(one.outcome == word for one in some) for word in ("wins", "ties", "loses")}
        positive = ratios[ratios > 0.0]
        middle = float(np.exp(np.log(positive).mean())) if positive.size else math.nan
        worst = float(ratios.max()) if ratios.size else math.nan
        share = count["wins"] / len(some)
        rows.append([f"{new}, {kind}", len(some), *count.values(), share, middle, worst, excess])
    return rows


COLUMNS = (
    "Instance, new policy",
    "Thesis's best",
    "New regret",
    "Its regret",
    "Ratio",
    "Floor",
    "p",
    "The new one",
)
TALLY = (
    "New policy",
    "Problems",
    "Wins",
    "Ties",
    "Loses",
    "Share won",
    "Mean ratio",
    "Worst ratio",
    "Worst excess",
)
PAIRED = (
    "Paired t-tests of final regret against the thesis's policy with the lowest mean on that problem, corrected by "
    f"Holm's method over the table; a tie is a difference that is not significant at {LEVEL:g}."
)
RATIOS = (
    "The mean ratio is geometric; below 1 the new policy has less regret. Ratios are over problems where the "
    f"thesis's best has a regret of at least {LEAST:g}; the worst excess, the new regret minus that of the thesis's "
    "best, is over all."
)
TABLES = (
    Table(
        "beyond-table-tally",
        "New policies on the named instances",
        "all settings",
        TALLY,
        lambda run: _tallies(run, PLACES, "beyond-"),
        tuple(INSTANCES),
        f"{PAIRED} {RATIOS}",
    ),
    Table(
        "beyond-table-families",
        "New policies on random problems",
        "all settings",
        TALLY,
        lambda run: _tallies(run, DISTRIBUTIONS, "beyond-family-"),
        tuple(FAMILIES),
        f"{RATIOS} Families: " + " ".join(f"{name}: {words}." for name, words in DISTRIBUTIONS.items()),
    ),
    Table(
        "beyond-table-told",
        "CSB-TS against CSB-DU that is told its resolution",
        "all settings",
        TALLY,
        lambda run: _tallies(run, DISTRIBUTIONS, "beyond-family-", TOLD),
        tuple(name for name, experiment in FAMILIES.items() if TOLD in experiment.policies),
        "CSB-DU gets the largest step that is safe, what the optimum leaves divided by the number of arms, which no "
        f"learner knows. It takes the place of the thesis's best: {PAIRED} {RATIOS}",
    ),
    *(
        Table(
            f"beyond-table-{kind}",
            title,
            "named instances",
            COLUMNS,
            lambda run, kind=kind: _instances(run, kind),  # type: ignore[misc]
            tuple(name for name in INSTANCES if name.startswith(f"beyond-{kind}-")),
            PAIRED,
        )
        for kind, title in PLACES.items()
    ),
)
