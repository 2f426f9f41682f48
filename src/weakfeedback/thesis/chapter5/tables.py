"""The comparisons of chapter 5 in numbers, with both tolerances side by side; the thesis prints only figures."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from weakfeedback.experiments.evidence import last
from weakfeedback.experiments.model import Row, Run, Table
from weakfeedback.thesis.chapter5.evidence import ARMS, E1, E2, ENDS, GAPS, PLAYERS, ROUNDING, ended
from weakfeedback.thesis.chapter5.experiments import DLC, DLC_N, LIX, LIX_N, SIC

SWEPT = (DLC, DLC_N, LIX, LIX_N, SIC)


def _rows(ids: Iterable[str], run: Run) -> list[Row]:
    rows: list[Row] = []
    for name in ids:
        for policy in run[name].policies if name in run else ():
            results = run[name]
            means = [float(last(results, policy, m).mean()) for m in ("regret", "collisions", "settled_at")]
            shares = [float(ended(results, policy).mean()), float(last(results, policy, "optimal").mean())]
            rows.append([f"{name.removeprefix('ch5-')}: {policy}", *means, *shares])
    return rows


def _sweep(ids: Iterable[str], fact: str, measure: str, run: Run) -> list[Row]:
    rows: list[Row] = []
    for name in ids:
        if name in run:
            at = run[name].about["facts"][fact]
            rows.append([f"{fact} = {at:g}", *(float(last(run[name], p, measure).mean()) for p in SWEPT)])
    return rows


def _table(name: str, title: str, place: str, ids: tuple[str, ...], fact: str, measure: str) -> Table:
    return Table(f"ch5-table-{name}", title, place, (fact, *SWEPT), partial(_sweep, ids, fact, measure), ids)


COLUMNS = ("Policy", "Regret", "Collisions", "Rounds until settled", "Settled", "On the best arms")
TABLES = (
    Table(
        "ch5-table-compare",
        "Comparison with Musical Chairs (e1) and SIC-MMAB (e2)",
        "figures mc, sic-mmab",
        COLUMNS,
        partial(_rows, (E1, E2)),
        (E1, E2),
        note="AdaptiveExplore stops at eps or at eps/N. Means over replications; where players have not settled, "
        "the horizon is used as the number of rounds.",
    ),
    Table(
        "ch5-table-ends",
        "How runs end: tolerance above the gap (e1), and means rounded to eps/2",
        "section 5.5, on wrong ends",
        COLUMNS,
        partial(_rows, (ENDS, ROUNDING)),
        (ENDS, ROUNDING),
    ),
    _table("arms", "Regret against the number of arms", "figure arms", ARMS, "K", "regret"),
    _table("players", "Regret against the number of players", "figure players", PLAYERS, "N", "regret"),
    _table("collisions", "Collisions against the gap", "figure colSam", GAPS, "gap", "collisions"),
    _table(
        "rounds", "Rounds until all have settled against the gap", "figure colSam", GAPS, "gap", "settled_at"
    ),
)
