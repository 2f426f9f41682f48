"""The figure of the page: what plotly draws in the reader's browser."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from weakfeedback.report.figures import COLOURS, STYLES

if TYPE_CHECKING:
    from weakfeedback.engine.results import Results

DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
INK, GRID = "#1f2933", "#e4e7eb"
LABEL_GAP = 0.065  # of the height, between two labels


def curves(results: Results, measure: str = "regret") -> dict[str, Any]:
    """Return data and layout for plotly: mean curves, 95 % bands, hover values, a label at each end."""
    curve = results.curve(measure)
    bands, lines, ends = [], [], []
    for k, policy in enumerate(results.policies):
        rows = curve[curve["policy"] == policy]
        x, y = rows["round"].tolist(), [_short(value) for value in rows["mean"]]
        low, high = [_short(v) for v in rows["low"]], [_short(v) for v in rows["high"]]
        colour = COLOURS[k % len(COLOURS)]
        if None not in low:
            bands.append(_band(x, low, high, colour))
        dash = DASHES[STYLES[(k // len(COLOURS) + k) % len(STYLES)]]
        lines.append(_line(policy, x, y, [low, high], colour, dash))
        ends.append((y[-1] or 0.0, policy, colour))
    tops = [value for trace in (*bands, *lines) for value in trace["y"] if value is not None]
    floors = min(0.0, *tops)
    top = max(*tops, floors + 1e-9) * 1.04
    layout = _layout(measure, [floors, top], int(curve["round"].max()))
    layout["annotations"] = _labels(ends, top - floors)
    longest = max(len(policy) for policy in results.policies)
    layout["margin"] = {"l": 30, "r": min(24 + 7 * longest, 150), "t": 12, "b": 30}
    return {"data": bands + lines, "layout": layout}


def _line(policy: str, x: list, y: list, ends: list[list], colour: str, dash: str) -> dict[str, Any]:
    interval = "" if None in ends[0] else " [%{customdata[0]:.4~g}, %{customdata[1]:.4~g}]"
    return {
        "type": "scatter",
        "mode": "lines",
        "name": _text(policy),
        "x": x,
        "y": y,
        "customdata": [list(pair) for pair in zip(*ends)],
        "line": {"color": colour, "width": 2.2, "dash": dash},
        "hovertemplate": "%{y:.4~g}" + interval,
    }


def _band(x: list, low: list, high: list, colour: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x + x[::-1],
        "y": high + low[::-1],
        "fill": "toself",
        "fillcolor": f"rgba({', '.join(str(part) for part in _rgb(colour))}, 0.18)",
        "line": {"width": 0},
        "hoverinfo": "skip",
    }


def _layout(measure: str, span: list[float], last: int) -> dict[str, Any]:
    axis = {"fixedrange": True, "gridcolor": GRID, "zeroline": False, "ticks": "outside", "tickcolor": GRID}
    return {
        "showlegend": False,
        "hovermode": "x unified",
        "dragmode": False,
        "height": 400,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "xaxis": {**axis, "title": {"text": "round", "standoff": 8}, "range": [0, last]}
        | {"nticks": 6, "showgrid": False, "automargin": True},
        "yaxis": {**axis, "title": {"text": measure, "standoff": 10}, "range": span, "automargin": True},
    }


def _labels(ends: list[tuple[float, str, str]], height: float) -> list[dict[str, Any]]:
    """Names at the ends of the curves, moved apart where curves end close together."""
    labels, at = [], -math.inf
    for value, policy, colour in sorted(ends):
        at = max(value, at + LABEL_GAP * height)
        label = {"x": 1, "xref": "paper", "y": at, "xanchor": "left", "xshift": 6, "align": "left"}
        font = {"color": _darker(colour), "size": 13}
        labels.append({**label, "text": _text(policy), "showarrow": False, "font": font})
    return labels


def _short(value: float) -> float | None:
    """Six digits are enough to hover over, and keep the page small; NaN is null in JSON."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


def _darker(colour: str) -> str:
    """A shade of the curve's colour that can be read as text on white."""
    return "#" + "".join(f"{int(part * 0.68):02x}" for part in _rgb(colour))


def _text(words: str) -> str:
    """Plotly reads some tags in its texts; a label has none."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
