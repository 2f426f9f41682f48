"""The tables of chapter 4 reproduced, and those that its text needs: rounds of the search, W, both conventions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weakfeedback.experiments.evidence import last
from weakfeedback.experiments.model import Row, Run, Table
from weakfeedback.thesis.chapter4 import experiments as ch4
from weakfeedback.thesis.chapter4.claims import COMPARE, COMPARE_2019, COMPARE_SAME, NUM_DIFFERENT
from weakfeedback.thesis.chapter4.evidence import rounds, short
from weakfeedback.thesis.chapter4.experiments import DK, DT, DU, MK, SK, SU
from weakfeedback.thesis.chapter4.properties import PRINTED_W, waiting_time
from weakfeedback.thesis.chapter4.theorems import printed_rounds, whole_rounds

ROWS = {
    SK: ("same threshold, known parameters", ch4.SAME),
    SU: ("same threshold, unknown parameters", ch4.SAME),
    DK: ("different thresholds, known parameters", ch4.DIFFERENT),
    DU: ("different thresholds, unknown parameters", ch4.DIFFERENT),
    MK: ("1 < n < K", ch4.DIFFERENT),
}
NOT_RUN = math.nan


def _found(run: Run, experiment: str, policy: str) -> Row:
    """Return the mean rounds of the search, the share of runs that ended it, and that with an equivalent estimate."""
    if experiment not in run:
        return [NOT_RUN, NOT_RUN, NOT_RUN]
    results = run[experiment]
    ended = ~np.isnan(last(results, policy, "found_at"))
    right = last(results, policy, "really_equivalent")
    return [float(rounds(results, policy).mean()), float(ended.mean()), float(right.mean())]


def _rounds(run: Run) -> list[Row]:
    rows: list[Row] = []
    for policy, (case, names) in ROWS.items():
        for name in names:
            bounds: Row = [printed_rounds(name, policy), whole_rounds(name, policy)]
            rows.append(
                [f"{policy}, {name}", case, *bounds, *_found(run, f"ch4-compare-{name.lower()}", policy)]
            )
    return rows


def _waits(_run: Any) -> list[Row]:
    rows: list[Row] = []
    for name, printed in PRINTED_W.items():
        real, finer = waiting_time(name), waiting_time(name, 1e-4)
        rows.append([name, printed, math.ceil(real), real, finer])
    return rows


def _ranking(run: Run) -> list[Row]:
    rows: list[Row] = []
    for name in ch4.DIFFERENT:
        for policy in (MK, DK, DT, DU):
            row: Row = [f"{policy}, {name}"]
            for experiment in (f"ch4-compare-{name.lower()}", f"ch4-compare-{name.lower()}-2019"):
                known = experiment in run
                row.append(float(last(run[experiment], policy).mean()) if known else NOT_RUN)
                row += _found(run, experiment, policy)[::2]
            rows.append(row)
    return rows


def _estimates(run: Run) -> list[Row]:
    rows: list[Row] = []
    for experiment in NUM_DIFFERENT:
        gamma = run[experiment].about["facts"]["gamma"] if experiment in run else NOT_RUN
        rows.append(
            [
                short(experiment),
                gamma,
                *_found(run, experiment, ch4.NUM_MK)[::2],
                *_found(run, experiment, ch4.ROUNDED)[::2],
            ]
        )
    return rows


TABLES = (
    Table(
        "ch4-table-rounds",
        "Rounds to find an allocation equivalent",
        "table regretComparision",
        (
            "Policy, instance",
            "Case",
            "Bound, printed",
            "rounded up",
            "Rounds, ours",
            "Search ended",
            "Really equivalent",
        ),
        _rounds,
        (*COMPARE_SAME, *COMPARE),
        note="The thesis prints formulas. The table has their values at the parameters of its instances, and what "
        "was measured within 10,000 rounds. Bounds for known parameters hold with probability 1 - 1/T, the others "
        "in expectation. W and the binary logarithms are rounded up.",
    ),
    Table(
        "ch4-table-wait",
        "W of the network utility instances",
        "section 4.6, experiments",
        ("Instance", "W, printed", "W, ours", "before rounding", "with gamma = 0.0001"),
        _waits,
        note="Ours has the stated gamma = 0.001 and is rounded up. The printed values are those of the last column, "
        "rounded down.",
    ),
    Table(
        "ch4-table-conventions",
        "Different thresholds: as printed and as in 2019",
        "figure diffTheta",
        (
            "Policy, instance",
            "Regret, as printed",
            "rounds",
            "really equivalent",
            "Regret, as in 2019",
            "rounds",
            "really equivalent",
        ),
        _ranking,
        (*COMPARE, *COMPARE_2019),
        note=f"The ranking of the thesis on IV is CSB-MK, CSB-DK, CSB-DT, CSB-DU. As in 2019: {ch4.CONVENTIONS}.",
    ),
    Table(
        "ch4-table-estimates",
        "Network utility: estimates as printed and rounded",
        "figures DiffTheta1, DiffTheta2",
        (
            "Instance, Q, rewards",
            "γ of the problem",
            "Rounds, as printed",
            "really equivalent",
            "Rounds, rounded",
            "really equivalent",
        ),
        _estimates,
        NUM_DIFFERENT,
        note="Rounds until the search ended, and the share of runs whose estimate leads to an optimal allocation. "
        "Rounded: searched to 0.0001 and rounded to three decimals.",
    ),
)
