"""What happened in each minute: sums by minute and column, for seven days, in bounded memory."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

MINUTE = 60_000_000  # microseconds, as events count time
KEPT = 7 * 24 * 60  # minutes


class Series:
    """Sums by minute. Minutes in which nothing happened take no room.

    >>> series = Series(["decisions", "spent"])
    >>> series.add(60_000_000, "decisions")
    >>> series.add(61_000_000, "spent", 0.25)
    >>> series.read(0, 180)
    {'step': 60, 'at': [0, 60, 120], 'columns': {'decisions': [0.0, 1.0, 0.0], 'spent': [0.0, 0.25, 0.0]}}
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.place = {name: k for k, name in enumerate(self.columns, 1)}
        self._width = len(self.columns) + 1
        self._rows = array("d")  # closed minutes one after the other: the minute, then the columns
        self._row = [0.0] * self._width  # the open minute
        self._open = False

    def add(self, at: int, column: str, amount: float = 1.0) -> None:
        """Add an amount in the minute of ``at``, microseconds since 1970, which must not decrease."""
        self.row(at)[self.place[column]] += amount

    def row(self, at: int) -> list[float]:
        """Return the open row of the minute of ``at``; add to it by ``place``."""
        minute = at // MINUTE
        if not self._open or minute > self._row[0]:
            self._begin(minute)
        return self._row

    def _begin(self, minute: int) -> None:
        if self._open:
            self._rows.extend(self._row)
        self._row = [float(minute)] + [0.0] * (self._width - 1)
        self._open = True
        # now and then only, for it moves all that is kept
        if self._rows and self._rows[0] < minute - KEPT - 60:
            del self._rows[: self._find(minute - KEPT + 1) * self._width]

    def _find(self, minute: int) -> int:
        """Return the first closed row of this minute or a later one."""
        return bisect_left(range(len(self._rows) // self._width), minute, key=self._minute)

    def _minute(self, row: int) -> int:
        return int(self._rows[row * self._width])

    def __len__(self) -> int:
        return len(self._rows) // self._width + self._open

    def last(self) -> int | None:
        """Return the seconds since 1970 at which the open minute began, None before the first."""
        return int(self._row[0]) * 60 if self._open else None

    def read(
        self, start: int, end: int, step: int = 60, columns: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return sums for ``start <= at < end`` in steps, all in seconds; a step is a number of whole minutes.

        The first step begins at the last multiple of ``step`` up to ``start``. At most seven days and 10,080 steps.
        """
        if step < 60 or step % 60:
            raise ValueError(f"step must be a number of whole minutes in seconds, got {step}")
        names = self.columns if columns is None else tuple(columns)
        places = [self.place[name] for name in names]
        first = start // step * step
        count = max(0, -((first - end) // step))
        if count > KEPT:
            raise ValueError(f"at most {KEPT} steps can be read at once, got {count}")
        sums = [[0.0] * count for _ in names]
        bottom = max(first // 60, (int(self._row[0]) if self._open else 0) - KEPT + 1)
        for k in range(self._find(bottom), len(self._rows) // self._width):
            minute = self._minute(k)
            if minute * 60 >= end:
                break
            offset = k * self._width
            bucket = (minute * 60 - first) // step
            for out, place in zip(sums, places):
                out[bucket] += self._rows[offset + place]
        if self._open and first <= self._row[0] * 60 < end:
            bucket = (int(self._row[0]) * 60 - first) // step
            for out, place in zip(sums, places):
                out[bucket] += self._row[place]
        return {
            "step": step,
            "at": [first + k * step for k in range(count)],
            "columns": dict(zip(names, sums)),
        }

    def state(self) -> dict[str, Any]:
        """Return everything as JSON data: the columns, and rows of minute and sums with zeros left out."""
        starts = range(0, len(self._rows), self._width)
        rows = [_sparse(self._rows[start : start + self._width].tolist()) for start in starts]
        if self._open:
            rows.append(_sparse(self._row))
        return {"columns": list(self.columns), "rows": rows}

    @classmethod
    def from_state(cls, state: Any) -> Series:
        """Return the series that gave ``state``; ValueError for anything else."""
        try:
            made = cls([str(name) for name in state["columns"]])
            for minute, *cells in state["rows"]:
                row = made.row(int(minute) * MINUTE)
                for place, amount in zip(cells[::2], cells[1::2], strict=True):
                    if not 1 <= place < made._width:
                        raise ValueError
                    row[place] = float(amount)
        except (LookupError, TypeError, ValueError):
            raise ValueError(f"not the state of a series: {state!r:.80}") from None
        return made


def _sparse(row: list[float]) -> list[float]:
    """Return the minute, then the place and the sum of every column that is not zero."""
    cells: list[float] = [int(row[0])]
    for place in range(1, len(row)):
        if row[place]:
            whole = row[place].is_integer() and abs(row[place]) < 2**53
            cells += [place, int(row[place]) if whole else row[place]]
    return cells
