"""What all reports share: formatting of numbers, and conversion to plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import combinations
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from weakfeedback.words import STAGES, Words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

QUANTILE = NormalDist().inv_cdf(0.975)


class Report:
    """Base class of the reports of live objects, which are dataclasses. ``print`` one for a table.

    ``columns`` names the fields with a value per stage, model or arm, ``row`` says what these are, ``drawn`` the field
    that ``plot`` draws, and ``rare`` those that ``to_dict`` leaves out where they say nothing.
    """

    columns: ClassVar[tuple[str, ...]] = ()
    row: ClassVar[str] = "stage"
    drawn: ClassVar[str] = ""
    rare: ClassVar[tuple[str, ...]] = ()

    # A class that is none, as classes are at most two deep, may borrow these methods.

    def to_frame(self: Any) -> pd.DataFrame:
        """Return a table with a row per stage, model or arm.

        Intervals are two columns, with ``_low`` and ``_high``. What is said of the step from a stage to the next stands
        in the row of the later one.
        """
        import pandas as pd

        size = len(getattr(self, self.columns[0]))
        found: dict[str, Any] = {}
        for name in self.columns:
            values = getattr(self, name)
            if values is None:
                continue
            if np.ndim(values) == 2:
                found |= {f"{name}_low": values[:, 0], f"{name}_high": values[:, 1]}
            else:
                found[name] = [math.nan, *values] if len(values) < size else list(values)
        names = getattr(self, "names", None) or getattr(self, "words", STAGES).names or range(size)
        return pd.DataFrame(found, index=pd.Index(list(names), name=self.row))

    def plot(self: Any, ax: Axes | None = None) -> Axes:
        """Draw a bar for each stage, model or arm: how often it answered or was played, or what it got."""
        from weakfeedback.figures import plot_bars

        values = self.to_frame()[self.drawn]
        return plot_bars(
            [str(name) for name in values.index], values, self.row, self.drawn.replace("_", " "), ax
        )

    def _repr_html_(self: Any) -> str:
        from html import escape

        words, _, _ = str(self).partition("\n\n")
        table = self.to_frame().to_html(float_format=lambda value: f"{value:.4g}")
        return f"<p>{escape(words).replace(chr(10), '<br>')}</p>{table}"

    def to_dict(self: Any) -> dict[str, Any]:
        """Return everything as JSON data: arrays are lists, NaN and infinity are None.

        What does not concern the object, such as conversations where there were none, is left out.
        """
        found: dict[str, Any] = plain(self)
        for name in self.rare:
            if found[name] in (None, []) or found[name] is False:
                del found[name]
        words = getattr(self, "words", STAGES)
        told = {"names": plain(words.names), "currency": words.currency}
        return found | {name: value for name, value in told.items() if value is not None}


def plain(value: Any) -> Any:
    """Return a number, an array, a dataclass or nested values of these as JSON data; NaN and infinity become None.

    >>> plain({"a": np.array([1.0, np.nan]), "b": np.int64(3)})
    {'a': [1.0, None], 'b': 3}
    """
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if is_dataclass(value):
        value = {item.name: getattr(value, item.name) for item in fields(value) if item.name != "words"}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def wilson(count: float, tries: float) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a proportion; (0, 1) if there were no tries.

    >>> low, high = wilson(1, 10)
    >>> round(low, 4), round(high, 4)
    (0.0179, 0.4042)
    """
    if tries == 0:
        return 0.0, 1.0
    share, z2 = count / tries, QUANTILE**2
    middle = (share + z2 / (2 * tries)) / (1 + z2 / tries)
    half = QUANTILE / (1 + z2 / tries) * math.sqrt(share * (1 - share) / tries + z2 / (4 * tries**2))
    return (0.0 if count == 0 else middle - half), (1.0 if count == tries else middle + half)


def share_of(count: int, tries: int) -> tuple[float, float, float]:
    """Return a share, NaN if there were no tries, and the ends of its Wilson interval."""
    return count / tries if tries else math.nan, *wilson(count, tries)


def disagreements(
    size: int, seen: Callable[[int, int], tuple[float, float, float]]
) -> tuple[np.ndarray, np.ndarray]:
    """Return what is ``seen`` of all pairs i < j, and the intervals; both symmetric."""
    means, intervals = np.zeros((size, size)), np.zeros((size, size, 2))
    for i, j in combinations(range(size), 2):
        means[i, j], *intervals[i, j] = seen(i, j)
        means[j, i], intervals[j, i] = means[i, j], intervals[i, j]
    return means, intervals


def against_last(words: Words, spent: float, alone: float, saved: float) -> str:
    """Say what was spent, and what the last stage or model alone would have cost; ``saved`` may be negative."""
    share = f" ({percent(abs(saved) / alone)})" if alone > 0.0 else ""
    word = "saved" if saved >= 0.0 else "lost"
    return (
        f"spent {words.money(spent)}; {words.last()} alone would have cost {words.money(alone)}: "
        f"{word} {words.money(abs(saved))}{share} against it"
    )


def columns(widths: Sequence[int], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose cells stand at the right of their columns.

    >>> columns((3, 5), [("arm", "share"), ("0",)])
    ['arm  share', '  0']
    """
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths)).rstrip() for row in rows]


def percent(share: float) -> str:
    """Return a share as a percentage, or a dash for NaN."""
    return "-" if math.isnan(share) else f"{100 * share:.1f} %"


def between(interval: Any) -> str:
    """Return the endpoints of an interval of shares as text.

    >>> between((0.25, 1.0))
    '(25.0 % to 100.0 %)'
    """
    low, high = interval
    return f"({percent(low)} to {percent(high)})"
