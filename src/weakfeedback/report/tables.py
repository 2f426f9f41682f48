"""The numbers of the page: final values, paired comparisons, and how they are written."""

from __future__ import annotations

import itertools
import math
from typing import Any

from weakfeedback.engine.results import Results


def final_rows(results: Results, measure: str = "regret") -> list[dict[str, Any]]:
    """Return one row per policy: mean at the last round, its 95 % interval, the replications."""
    final = results.final(measure)
    return [
        {"policy": str(policy), **{name: float(row[name]) for name in ("mean", "low", "high")}}
        | {"replications": int(row["replications"])}
        for policy, row in final.iterrows()
    ]


def comparison_rows(results: Results, measure: str = "regret") -> list[dict[str, Any]]:
    """Return one row per pair of policies; p-values are corrected by Holm's method over all these pairs."""
    from weakfeedback.stats import holm

    pairs = [results.compare(a, b, measure) for a, b in itertools.combinations(results.policies, 2)]
    corrected = holm([pair.p_value for pair in pairs]).tolist()
    shown = ("first", "second", "mean", "low", "high", "p_value")
    return [{**{word: pair[word] for word in shown}, "p_holm": p} for pair, p in zip(pairs, corrected)]


def number(value: float) -> str:
    """Write a number for a table: enough digits to compare, and no more.

    >>> number(12345.6), number(43.456), number(0.01234), number(float("nan"))
    ('12,346', '43.46', '0.0123', '–')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size >= 1000:
        text = f"{value:,.0f}"
    elif size >= 100:
        text = f"{value:.1f}"
    elif size >= 1:
        text = f"{value:.2f}"
    else:
        text = f"{value:.3g}"
    return text.replace("-", "−") if "e" not in text else text


def cell(value: float | str) -> str:
    """Write a cell of a table of the thesis: words as they are, numbers with the digits that the thesis prints.

    >>> cell(0.3937), cell(2), cell(1e-17), cell(40451.6), cell("no data")
    ('0.3937', '2', '0', '40,452', 'no data')
    """
    if isinstance(value, (str, int)):
        return str(value)
    if not math.isfinite(value):
        return number(value)
    if abs(value) >= 10_000:
        return number(value)
    text = f"{value:.4g}" if abs(value) >= 0.001 else f"{value:.5f}".rstrip("0").rstrip(".")
    return text.replace("-0", "0").replace("-", "−") if float(text) == 0.0 else text.replace("-", "−")


def p_value(value: float) -> str:
    """Write a p-value.

    >>> p_value(0.2), p_value(1e-9), p_value(0.0123)
    ('0.20', '< 0.0001', '0.012')
    """
    if math.isnan(value):
        return "–"
    if value < 1e-4:
        return "< 0.0001"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
