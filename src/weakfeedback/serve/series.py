"""Time series: sums by minute and column, for seven days, in bounded memory.

The last quarter of an hour is also kept in steps of five seconds, for a page that shows live updates.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weakfeedback.stats import add_up

MINUTE = 60_000_000  # microseconds, the unit of the times of events
KEPT = 7 * 24 * 60  # minutes
FINE = 5  # seconds per fine step
SHORT = (FINE, 3 * FINE)  # steps below a minute that can be read
FINE_KEPT = 180  # fine steps
PER_MINUTE = 60 // FINE
LARGEST = sys.float_info.max


def added(one: float, other: float) -> float:
    """Return a sum that stays finite: logs of older versions may hold amounts up to 1.7e308."""
    found = one + other
    return found if -LARGEST <= found <= LARGEST else LARGEST if found > 0.0 else -LARGEST


def total(amounts: Iterable[float]) -> float:
    """Return the sum of amounts, which stays finite."""
    return added(add_up(amounts), 0.0)


class Series:
    """Sums by minute. Minutes in which nothing happened take no memory.

    >>> series = Series(["decisions", "spent"])
    >>> series.add(60_000_000, "decisions")
    >>> series.add(66_000_000, "spent", 0.25)
    >>> series.read(0, 180)
    {'step': 60, 'at': [0, 60, 120], 'columns': {'decisions': [0.0, 1.0, 0.0], 'spent': [0.0, 0.25, 0.0]}}
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.place = {name: k for k, name in enumerate(self.columns, 1)}
        self._width = len(self.columns) + 1
        self._rows = array("d")  # closed minutes one after the other: the minute, then the columns
        self._minute = self._zeros(-1)  # the open minute without the open step
        self._fine: deque[list[float]] = deque(maxlen=FINE_KEPT)  # closed steps
        self._now = self._zeros(-1)  # the open step

    def _zeros(self, number: int) -> list[float]:
        return [float(number)] + [0.0] * (self._width - 1)

    def add(self, at: int, column: str, amount: float = 1.0) -> None:
        """Add an amount at time ``at`` (microseconds since 1970), which must not decrease."""
        row, place = self.row(at), self.place[column]
        row[place] = added(row[place], amount)

    def row(self, at: int) -> list[float]:
        """Return the open row for the time ``at``; ``place`` gives the index of each column."""
        step = at // (FINE * 1_000_000)
        if step > self._now[0]:
            self._begin(step)
        return self._now

    def _begin(self, step: int) -> None:
        if self._now[0] >= 0.0:
            self._fine.append(self._now)
            self._into_minute(self._now)
        self._now = self._zeros(step)

    def _into_minute(self, row: list[float]) -> None:
        minute = int(row[0]) // PER_MINUTE
        if minute > self._minute[0]:
            self._close_minute(minute)
        sums = self._minute
        for place in range(1, self._width):
            sums[place] = added(sums[place], row[place])

    def _close_minute(self, minute: int) -> None:
        if self._minute[0] >= 0.0:
            self._rows.extend(self._minute)
        self._minute = self._zeros(minute)
        # only occasionally, because it moves all rows
        if self._rows and self._rows[0] < minute - KEPT - 60:
            del self._rows[: self._find(minute - KEPT + 1) * self._width]

    def _find(self, minute: int) -> int:
        """Return the index of the first closed minute that is this one or later."""
        return bisect_left(range(len(self._rows) // self._width), minute, key=self._minute_of)

    def _minute_of(self, row: int) -> int:
        return int(self._rows[row * self._width])

    def __len__(self) -> int:
        """Return the number of minutes that are kept, including the open one."""
        return len(self._rows) // self._width + (self._now[0] >= 0.0)

    def clear(self, columns: Sequence[str]) -> None:
        """Set all sums of these columns to 0."""
        for place in (self.place[name] for name in columns):
            for row in (self._minute, self._now, *self._fine):
                row[place] = 0.0
            for start in range(0, len(self._rows), self._width):
                self._rows[start + place] = 0.0

    def last(self) -> int | None:
        """Return when the open minute began, in seconds since 1970; None before the first."""
        return None if self._now[0] < 0.0 else int(self._now[0]) // PER_MINUTE * 60

    def read(
        self, start: int, end: int, step: int = 60, columns: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Return sums by step for ``start <= at < end``; all times are in seconds.

        A step is a number of whole minutes, or 5 or 15 seconds within the last quarter of an hour. The first begins
        at the last multiple of ``step`` that is not after ``start``. At most seven days and 10,080 steps.
        """
        if step not in SHORT and (step < 60 or step % 60):
            raise ValueError(f"step must be a number of whole minutes in seconds, or 5 or 15, got {step}")
        names = self.columns if columns is None else tuple(columns)
        places = [self.place[name] for name in names]
        first = start // step * step
        count = max(0, -((first - end) // step))
        if count > KEPT:
            raise ValueError(f"at most {KEPT} steps can be read at once, got {count}")
        rows = self._fine_rows() if step < 60 else self._minutes(first)
        rows = rows[(first <= rows[:, 0]) & (rows[:, 0] < end)]
        sums = np.zeros((len(names), count))
        if len(rows):
            steps = ((rows[:, 0] - first) // step).astype(int)
            begins = np.flatnonzero(np.diff(steps, prepend=-1))
            with np.errstate(over="ignore"):
                found = np.add.reduceat(rows[:, places], begins, axis=0)
            sums[:, steps[begins]] = found.clip(-LARGEST, LARGEST).T
        at_steps = [first + k * step for k in range(count)]
        return {"step": step, "at": at_steps, "columns": dict(zip(names, sums.tolist()))}

    def lately(self, column: str, start: int) -> float:
        """Return the sum of a column from ``start`` (in seconds) on, within the last quarter of an hour."""
        place, first = self.place[column], start // FINE
        found = self._now[place] if self._now[0] >= first else 0.0
        for row in reversed(self._fine):
            if row[0] < first:
                break
            found = added(found, row[place])
        return found

    def since(self, start: int, step: int) -> dict[str, float]:
        """Return the sums of all columns from ``start``, a multiple of ``step``, on."""
        end = max(start, int(self._now[0] + 1) * FINE)
        read = self.read(start, end, FINE if step < 60 else 60)["columns"]
        return {name: total(values) for name, values in read.items()}

    def _fine_rows(self) -> NDArray[np.float64]:
        """Return the fine steps: when each began, in seconds, and its sums."""
        rows = np.array([*self._fine, self._now])
        rows[:, 0] *= FINE
        return rows

    def _minutes(self, first: int) -> NDArray[np.float64]:
        """Return the minutes that are kept, from this second on, in the same way."""
        oldest = (self.last() or 0) // 60 - KEPT + 1
        begin = self._find(max(first // 60, oldest)) * self._width
        # a slice is a copy: what numpy looks at could not grow meanwhile
        closed = np.array(self._rows[begin:]).reshape(-1, self._width)
        rows = np.vstack([closed, self._minute, self._now])
        rows[-1, 0] //= PER_MINUTE
        rows[:, 0] *= 60
        return rows

    def state(self) -> dict[str, Any]:
        """Return everything as JSON data: a row is the time and the sums by place, without zeros."""
        starts = range(0, len(self._rows), self._width)
        return {
            "columns": list(self.columns),
            "minutes": [_sparse(self._rows[start : start + self._width].tolist()) for start in starts],
            "minute": _sparse(self._minute),
            "fine": [_sparse(row) for row in self._fine],
            "now": _sparse(self._now),
        }

    @classmethod
    def from_state(cls, state: Any, columns: Sequence[str] | None = None) -> Series:
        """Return the series restored from ``state``; ValueError for anything else.

        With ``columns`` it has these columns, and others are left out, for a state of another version.
        """
        try:
            known = [str(name) for name in state["columns"]]
            made = cls(known if columns is None else columns)
            places = [0, *(made.place.get(name, 0) for name in known)]
            for cells in state["minutes"]:
                made._rows.extend(made._dense(cells, places))
            made._minute = made._dense(state["minute"], places)
            made._now = made._dense(state["now"], places)
            made._fine.extend(made._dense(cells, places) for cells in state["fine"])
        except (LookupError, TypeError, ValueError):
            raise ValueError(f"not the state of a series: {state!r:.80}") from None
        return made

    def _dense(self, cells: Any, places: Sequence[int]) -> list[float]:
        row = self._zeros(int(cells[0]))
        for place, amount in zip(cells[1::2], cells[2::2], strict=True):
            if not 1 <= place < len(places):
                raise ValueError
            if places[place]:
                row[places[place]] = float(amount)
        return row


def _sparse(row: list[float]) -> list[float]:
    """Return the time, then the place and the sum of every column that is not zero."""
    cells: list[float] = [int(row[0])]
    for place in range(1, len(row)):
        if row[place]:
            whole = row[place].is_integer() and abs(row[place]) < 2**53
            cells += [place, int(row[place]) if whole else row[place]]
    return cells
