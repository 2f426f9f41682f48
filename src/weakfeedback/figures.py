"""Figures as plain data, and how matplotlib draws them: curves with bands, labelled at their ends."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from weakfeedback.plaintext import visible

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Okabe and Ito's palette without yellow: distinguishable for colour-blind readers and in print
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", "-.", ":")
LIMIT_LOOK = ("#616e7c", "--")
MOST_POINTS = 200  # maximum number of points of a curve: more cannot be seen
LONGEST_LABEL, MOST_LABELS = 24, 15  # longer or more labels go to a legend below
MOST_LETTERS = 60  # of the names of bars side by side
LIMIT = "limit c(P) log t"  # the lower bound of consistent policies, where a problem has one
ABOVE = 1.25  # the limit is drawn up to this multiple of the highest curve


class Measured(Protocol):
    """What a figure needs from results."""

    @property
    def policies(self) -> list[str]:
        """Return the labels."""

    def curve(self, measure: str = "regret") -> pd.DataFrame:
        """Return mean and interval at every mark."""

    def final(self, measure: str = "regret") -> pd.DataFrame:
        """Return mean and interval at the last round."""


def curve_figure(results: Measured, measure: str = "regret", points: int = MOST_POINTS) -> dict[str, Any]:
    """Return a figure of the mean of a measure over rounds with its 95 % interval, for every policy."""
    curve = results.curve(measure)
    series: list[dict[str, Any]] = []
    x: list[int] = []
    for policy in results.policies:
        rows = curve[curve["policy"] == policy]
        rows = rows.iloc[thinned(len(rows), points)]
        x = rows["round"].tolist()
        series.append({"name": policy, **{end: [*map(_short, rows[end])] for end in ("mean", "low", "high")}})
    if measure == "regret":
        series += _limit(results, x, float(curve["high"].max()))
    return {"kind": "curve", "x_title": "round", "y_title": measure, "x": x, "series": series}


def _limit(results: Measured, x: list[int], highest: float) -> list[dict[str, Any]]:
    """Return the line c(P) log t as a series, if the facts of the problem have c(P) and it can be seen."""
    constant = getattr(results, "about", {}).get("facts", {}).get("limit", 0.0)
    values = [constant * math.log(t) for t in x]
    line = [_short(value) if value <= ABOVE * highest else None for value in values]
    if not constant > 0.0 or len(line) - line.count(None) < 2:
        return []
    return [{"name": LIMIT, "mean": line, "low": line, "high": line, "look": LIMIT_LOOK}]


def sweep_figure(
    results: Mapping[float, Measured], x_title: str, measure: str = "regret", points: int = MOST_POINTS
) -> dict[str, Any]:
    """Return a figure of the final mean of a measure against the swept value, for every policy."""
    values = sorted(results)[:: max(1, math.ceil(len(results) / points))]
    final = {value: results[value].final(measure) for value in values}
    policies = list(dict.fromkeys(policy for value in values for policy in results[value].policies))
    series = [
        {
            "name": policy,
            **{
                end: [_short(final[value][end].get(policy, math.nan)) for value in values]
                for end in ("mean", "low", "high")
            },
        }
        for policy in policies
    ]
    x = [_short(value) for value in values]
    return {"kind": "sweep", "x_title": x_title, "y_title": f"final {measure}", "x": x, "series": series}


def plot_curves(results: Measured, ax: Axes | None = None, measure: str = "regret") -> Axes:
    """Draw the mean of a measure over rounds with its 95 % band for every policy."""
    return plot_figure(curve_figure(results, measure), axes_or_new(ax))


def plot_bars(names: Sequence[str], values: Any, x_title: str, y_title: str, ax: Axes | None = None) -> Axes:
    """Draw a bar for each name; a value that is not known has none."""
    ax = axes_or_new(ax)
    heights = [0.0 if math.isnan(value) else float(value) for value in values]
    ax.bar(range(len(heights)), heights, color=COLOURS[0], width=0.7)
    ax.set_xticks(range(len(heights)), [visible(name).replace("$", r"\$") for name in names])
    if max((len(name) for name in names), default=0) * len(names) > MOST_LETTERS:
        ax.tick_params(axis="x", rotation=90)
    ax.set_xlabel(visible(x_title), parse_math=False)
    ax.set_ylabel(visible(y_title), parse_math=False)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def axes_or_new(ax: Axes | None) -> Axes:
    """Return the given axes, or those of a new figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    return ax


def plot_figure(figure: dict[str, Any], ax: Axes) -> Axes:
    """Draw a figure on axes of matplotlib."""
    ends = []
    x = figure["x"]
    for k, series in enumerate(figure["series"]):
        colour, style = look_of(series, k)
        drawn = (series[end] for end in ("mean", "low", "high"))
        mean, low, high = ([math.nan if value is None else value for value in values] for values in drawn)
        marker = "o" if figure["kind"] == "sweep" else None
        name = visible(series["name"])
        label = name.replace("$", r"\$")  # for a legend, which would interpret $ as a formula
        ax.plot(x, mean, style, color=colour, linewidth=1.8, marker=marker, markersize=3.5, label=label)
        ax.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)
        known = [(at, value) for at, value in zip(x, mean) if not math.isnan(value)]
        if known:
            ends.append((known[-1][1], name, colour, x[-1]))
    ax.set_xlabel(visible(figure["x_title"]), parse_math=False)
    ax.set_ylabel(visible(figure["y_title"]), parse_math=False)
    if figure["kind"] == "curve":
        ax.set_xlim(left=0)
    elif min(x) < 0.0 < max(x):
        ax.axvline(0.0, color="#9aa5b1", linewidth=0.8, zorder=0)
    values = [value for series in figure["series"] for value in series["mean"] if value is not None]
    ax.set_ylim(bottom=min(0.0, ax.get_ylim()[0]) if min(values, default=0.0) < 0.0 else 0.0)
    ax.spines[["top", "right"]].set_visible(False)
    longest = max((len(end[1]) for end in ends), default=0)
    if longest > LONGEST_LABEL or len(ends) > MOST_LABELS:
        _legend_below(ax)
    else:
        _label_ends(ax, ends)
    return ax


def look(k: int) -> tuple[str, str]:
    """Return colour and line style of the k-th series."""
    turn, colour = divmod(k, len(COLOURS))
    return COLOURS[colour], STYLES[(turn + colour) % len(STYLES)]


def look_of(series: Mapping[str, Any], k: int) -> tuple[str, str]:
    """Return colour and line style of a series: its own, or those of its place."""
    colour, style = series.get("look", look(k))
    return str(colour), str(style)


def _label_ends(ax: Axes, ends: list[tuple[Any, ...]]) -> None:
    """Write each policy's name at the end of its curve, moved apart where curves end close together."""
    bottom, top = ax.get_ylim()
    ends = sorted(ends)
    heights = spread([end[0] for end in ends], 0.055 * (top - bottom), top)
    for height, (_, policy, colour, x) in zip(heights, ends):
        looks: dict[str, Any] = {"color": colour, "va": "center", "parse_math": False}
        ax.annotate(policy, (x, height), xytext=(5, 0), textcoords="offset points", **looks)


def _legend_below(ax: Axes) -> None:
    """Put a legend below the axes, in as many columns as the longest name allows; no name is cut off."""
    import textwrap

    handles, labels = ax.get_legend_handles_labels()
    labels = ["\n".join(textwrap.wrap(label, 76)) for label in labels]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    columns = max(1, min(3, 84 // (longest + 6)))
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0.0, -0.14), "borderaxespad": 0.0}
    ax.legend(handles, labels, ncols=columns, frameon=False, fontsize=9, **place)


def spread(values: list[float], gap: float, top: float) -> list[float]:
    """Return heights for the labels of rising values: close to them, a gap apart, and not above the top.

    >>> spread([0.0, 1.0, 1.5, 10.0], 1.0, 10.0), spread([10.0, 10.0, 10.0], 1.0, 10.0)
    ([0.0, 1.0, 2.0, 10.0], [8.0, 9.0, 10.0])
    """
    heights: list[float] = []
    for value in values:
        heights.append(max(value, heights[-1] + gap) if heights else value)
    limit = top
    for k in range(len(heights) - 1, -1, -1):
        heights[k] = min(heights[k], limit)
        limit = heights[k] - gap
    return heights


def thinned(count: int, points: int) -> list[int]:
    """Return at most ``points`` indices, evenly spaced, always including the last one."""
    step = math.ceil(count / points)
    return list(range(count - 1, -1, -step))[::-1]


def _short(value: float) -> float | None:
    """Round to five digits, enough to draw and to hover over, which keeps the page small; NaN is null in JSON."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.5g}")
    return int(short) if short == int(short) else short
