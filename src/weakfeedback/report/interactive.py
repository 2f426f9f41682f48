"""The figures of the page: what the script draws with plotly in the reader's browser."""

from __future__ import annotations

from typing import Any

from weakfeedback.figures import look, spread
from weakfeedback.plaintext import visible

DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}
LABEL_GAP = 0.065  # of the height, between two labels


def for_browser(figure: dict[str, Any]) -> dict[str, Any]:
    """A figure with looks, the range of its values and a label for each series; its numbers are not repeated."""
    series, ends = [], []
    for k, one in enumerate(figure["series"]):
        colour, style = look(k)
        looks = {"name": _text(one["name"]), "colour": colour, "dash": DASHES[style]}
        series.append({**one, **looks})
        known = [value for value in one["mean"] if value is not None]
        ends.append((known[-1] if known else 0.0, _text(one["name"]), _darker(colour)))
    values = [
        value
        for one in figure["series"]
        for end in ("mean", "low", "high")
        for value in one[end]
        if value is not None
    ]
    means = [value for one in figure["series"] for value in one["mean"] if value is not None]
    # a band may reach below zero where a measure cannot: the axis starts at zero then
    floor = min(0.0, *values) if means and min(means) < 0.0 else 0.0
    top = max([floor + 1e-9, *values])
    top += 0.04 * (top - floor)
    ends.sort()
    heights = spread([end[0] for end in ends], LABEL_GAP * (top - floor), top)
    labels = [[name, float(f"{at:.5g}"), colour] for at, (_, name, colour) in zip(heights, ends)]
    return {**figure, "series": series, "range": [floor, top], "labels": labels}


def _darker(colour: str) -> str:
    """A shade of the curve's colour that can be read as text on white."""
    return "#" + "".join(f"{int(int(colour[k : k + 2], 16) * 0.68):02x}" for k in (1, 3, 5))


def _text(words: str) -> str:
    """Plotly reads some tags in its texts; a label has none."""
    return visible(words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
