"""The tables of chapter 3: the shares of contexts with weak dominance, printed and ours."""

from __future__ import annotations

import math

from weakfeedback.contextual import instances
from weakfeedback.experiments.model import Row, Run, Table
from weakfeedback.thesis.chapter3 import experiments as ch3


def _synthetic(_results: Run) -> list[Row]:
    rows: list[Row] = []
    for k in ch3.CASES:
        stated, problem = instances.describe(f"synthetic-{k}"), instances.load(f"synthetic-{k}")
        own, fixed = problem.weak_dominance_fraction, problem.weak_dominance_fraction_fixed
        rows.append([f"PI {k}", *stated.costs, stated.stated_weak_dominance_fraction, own, fixed])
    return rows


def _real(results: Run) -> list[Row]:
    rows: list[Row] = []
    for data in ("pima", "heart"):
        for k in (1, 2, 3):
            stated = instances.describe(f"{data}-contextual-{k}")
            name = ch3.cost_id(data, "random", k)
            own = fixed = math.nan
            if name in results and not results[name].about["stands_in_for"]:
                known = results[name].about["facts"]
                own, fixed = known["wd_served"], known["wd_fixed"]
            rows.append([f"{data} PI {k}", *stated.costs, stated.stated_weak_dominance_fraction, own, fixed])
    return rows


TABLES = (
    Table(
        "ch3-table-synthetic",
        "Weak dominance on the synthetic contexts",
        "table sysDatasetCases",
        ("Instance", "C₁", "C₂", "C₃", "C₄", "C₅", "WD fraction, printed", "ours", "for the best fixed arm"),
        _synthetic,
        note="The printed fractions are those of the best fixed arm, not of the optimal arm of each context.",
    ),
    Table(
        "ch3-table-real",
        "Weak dominance on the medical data sets",
        "table real_dataset",
        ("Instance", "C₁", "C₂", "C₃", "WD fraction, printed", "ours", "for the best fixed arm"),
        _real,
        experiments=tuple(ch3.cost_id(data, "random", k) for data in ("pima", "heart") for k in (1, 2, 3)),
        note="Random labels; ours over 5000 rounds in file order. The fractions depend strongly on the scaling.",
    ),
)
