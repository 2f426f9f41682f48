"""Figures with matplotlib: curves with bands, labelled at their ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette without yellow: told apart by colour-blind readers and in print
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", "-.", ":")


def plot_curves(results: Any, ax: Axes | None = None, measure: str = "regret") -> Axes:
    """Draw the mean of a measure over rounds with its 95 % band for every policy of some results."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    curve = results.curve(measure)
    ends = []
    for k, policy in enumerate(results.policies):
        rows = curve[curve["policy"] == policy]
        colour = COLOURS[k % len(COLOURS)]
        x, y = rows["round"].to_numpy(), rows["mean"].to_numpy()
        ax.plot(
            x, y, STYLES[(k // len(COLOURS) + k) % len(STYLES)], color=colour, linewidth=1.8, label=policy
        )
        ax.fill_between(x, rows["low"], rows["high"], color=colour, alpha=0.18, linewidth=0)
        ends.append((y[-1], policy, colour, x[-1]))
    ax.set_xlabel("round")
    ax.set_ylabel(measure)
    ax.set_xlim(left=0)
    ax.set_ylim(bottom=0)
    ax.spines[["top", "right"]].set_visible(False)
    _label_ends(ax, ends)
    return ax


def _label_ends(ax: Axes, ends: list[tuple]) -> None:
    """Write each policy's name at the end of its curve, moved apart where curves end close together."""
    gap = 0.055 * (ax.get_ylim()[1] - ax.get_ylim()[0])
    height = -gap
    for value, policy, colour, x in sorted(ends):
        height = max(value, height + gap)
        ax.annotate(policy, (x, height), xytext=(5, 0), textcoords="offset points", color=colour, va="center")
