"""Cascades that stop within the round: USS-A and its relatives against the best fixed arm in hindsight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weakfeedback.adaptive import Agreement, Thresholds, UssA, UssNext, instances
from weakfeedback.experiments.model import ExperimentList, Makers, Row, Run, Table
from weakfeedback.thesis.beyond.experiments import NO_BOUND, OURS

ORACLE = "best thresholds (labels)"
POLICIES: Makers = {
    "USS-A, last": lambda p: UssA(p.costs, "last", labels=p.labels),
    "USS-A, score": lambda p: UssA(p.costs, "score", labels=p.labels),
    "USS-next": lambda p: UssNext(p.costs),
    "Agreement": lambda p: Agreement(p.costs),
    "Thresholds, .9": lambda p: Thresholds(p.costs, [0.9] * (p.arms - 1)),
    ORACLE: lambda p: Thresholds(p.costs, p.oracle_thresholds()),
}
LOW = 0.1  # the largest price of all stages that counts as low, in errors
SIGNED = "regret is the cost against the best fixed arm in hindsight, and may be negative"


def facts(problem: Any) -> dict[str, Any]:
    """Return the price of all stages, and the cost per round of the best fixed arm."""
    return {"price": round(float(problem.cumulative[-1]), 6), "fixed": float(problem.fixed_costs.min())}


ADAPTIVE = ExperimentList("beyond-adaptive", setting="adaptive")
for name in instances.names():
    if "-adaptive-" in name:
        ADAPTIVE.add(
            name.replace("-adaptive", ""),
            f"Cascades that stop within the round, on {name}",
            "cascades that stop within the round",
            POLICIES,
            instance=name,
            replications=20,
            marks=20,
            needs=instances.describe(name).needs,
            facts=facts,
            deviations=(OURS, NO_BOUND, SIGNED),
            measures=("regret", "total_cost"),
            nanoseconds=4_000.0,
        )


def ratios(run: Run, label: str, low: bool) -> np.ndarray:
    """Return the total cost relative to the best fixed arm, on the instances with low prices or on the others."""
    found = []
    for name in ADAPTIVE:
        known = run[name].about["facts"] if name in run else {"price": math.nan, "fixed": math.nan}
        if name in run and (known["price"] <= LOW) == low:
            results = run[name]
            paid = float(results.values(label, "total_cost")[:, -1].mean()) / int(results.about["horizon"])
            found.append(paid / known["fixed"])
    return np.array(found)


def tally(run: Run) -> list[Row]:
    """Return, by policy and price: instances, those below the best fixed arm, geometric mean and worst ratio."""
    rows: list[Row] = []
    for label in POLICIES:
        for low in (True, False):
            found = ratios(run, label, low)
            if found.size:
                words = f"{label}, prices {'up to' if low else 'above'} {LOW:g}"
                middle = float(np.exp(np.log(found).mean()))
                rows.append([words, found.size, int((found < 1.0).sum()), middle, float(found.max())])
    return rows


TABLE = Table(
    "beyond-table-adaptive",
    "Cascades that stop within the round: cost as a share of the best fixed arm's in hindsight",
    "named instances",
    ("Policy, price of all stages in errors", "Instances", "Below 1", "Mean ratio", "Worst ratio"),
    tally,
    tuple(ADAPTIVE),
    "The mean is geometric. The best thresholds were chosen with labels on the same rows: a reference, not a "
    "competitor.",
)
