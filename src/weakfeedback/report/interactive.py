"""The figures of a page, as the script in the reader's browser draws them."""

from __future__ import annotations

from typing import Any

from weakfeedback.figures import look_of, thinned
from weakfeedback.plaintext import visible

DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}


def for_browser(figure: dict[str, Any], points: int | None = None) -> dict[str, Any]:
    """Return a styled figure with the range of its values; long curves are thinned to ``points`` points."""
    kept = range(len(figure["x"])) if points is None else thinned(len(figure["x"]), points)
    series = []
    for k, one in enumerate(figure["series"]):
        colour, style = look_of(one, k)
        looks = {
            "name": visible(one["name"]),
            "colour": colour,
            "ink": _darken(colour),
            "dash": DASHES[style],
        }
        series.append({**{end: [one[end][at] for at in kept] for end in ("mean", "low", "high")}, **looks})
    values = [
        value for one in series for end in ("mean", "low", "high") for value in one[end] if value is not None
    ]
    means = [value for one in series for value in one["mean"] if value is not None]
    # the axis starts at zero if the measure cannot be negative, even if a band reaches below
    floor = min(0.0, *values) if means and min(means) < 0.0 else 0.0
    top = max([floor + 1e-9, *values])
    top += 0.04 * (top - floor)
    words = {name: visible(figure[name]) for name in ("x_title", "y_title")}
    shown = {"x": [figure["x"][at] for at in kept], "series": series, "range": [floor, top]}
    return {"kind": figure["kind"], **words, **shown}


def _darken(colour: str) -> str:
    """Return a darker shade of the curve's colour, readable as text on white."""
    return "#" + "".join(f"{int(int(colour[k : k + 2], 16) * 0.68):02x}" for k in (1, 3, 5))
