"""The chart of where answers come from: bars over the whole time span, drawn by the server.

All places are shares of the drawing in percent, so that it fits every width. The axis is whole from the first minute,
the time before the learner was made is hatched, and the running step is pale.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from weakfeedback.serve.activity import Activity
from weakfeedback.serve.page.words import count, share

STEPS = {15: "15 seconds", 60: "minute", 1800: "half hour", 7200: "2 hours"}
# seconds between labels, by the length of the span
LABELS = {900: 180, 3600: 600, 86_400: 10_800, 604_800: 86_400}
GAP = 0.14  # share of a step that stays empty between bars


def bars_of(watch: Activity, length: int, step: int, now: int, created: int) -> dict[str, Any]:
    """Return the bars of ``length`` seconds in steps of ``step``; ``now`` and ``created`` in microseconds."""
    end = (now // 1_000_000 // step + 1) * step  # the running step is shown
    start = end - length
    names = [f"stop_{k}" for k in range(len(watch.names))]
    columns = watch.series.read(start, end, step, names)["columns"]
    values = [columns[name] for name in names]
    steps = length // step
    top = round_top(max((sum(column[i] for column in values) for i in range(steps)), default=0.0))
    rects, width = [], 100.0 / steps
    for i in range(steps):
        height = 0.0
        for k, column in enumerate(values):
            if column[i]:
                size = 100.0 * column[i] / top
                height += size
                rects.append(
                    {
                        "x": round((i + GAP / 2) * width, 3),
                        "y": round(100.0 - height, 3),
                        "width": round((1.0 - GAP) * width, 3),
                        "height": round(size, 3),
                        "stage": k % 8,
                        "running": i == steps - 1,
                    }
                )
    sums = [sum(column) for column in values]
    total = sum(sums)
    before = min(max((created / 1e6 - start) / length, 0.0), 1.0)
    return {
        "unit": f"answers per {STEPS[step]}",
        "rects": rects,
        "grid": [
            {"y": 100.0 - 25.0 * k, "label": _tick(top * k / 4.0) if k % 2 == 0 else ""} for k in range(5)
        ],
        "ticks": [
            {
                "x": round(100.0 * (at - start) / length, 3),
                "label": _time(at, length),
                "odd": at // every % 2 == 1,
            }
            for every in (LABELS[length],)
            for at in range(-(-start // every) * every, end, every)
        ],
        "before": round(100.0 * before, 3),
        "made": f"made on {_moment(created)}" if before > 0.0 else "",
        "late": before > 0.6,  # the words stand to the left of the line
        "legend": [
            {"name": name, "count": count(part), "share": share(part / total if total else None)}
            for name, part in zip(watch.names, sums)
        ],
        "total": count(total),
        "words": f"{count(total)} answers: "
        + ", ".join(f"{n} {count(s)}" for n, s in zip(watch.names, sums)),
    }


def round_top(value: float) -> float:
    """Return the smallest round number that is at least ``value`` and can be quartered.

    >>> round_top(0), round_top(3), round_top(11), round_top(870)
    (4.0, 4.0, 20.0, 1000.0)
    """
    if value <= 4.0:
        return 4.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1.0, 2.0, 4.0, 5.0, 10.0) if step * unit >= value)


def _tick(value: float) -> str:
    return count(value) if value == int(value) else f"{value:g}"


def _time(at: int, length: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%a %d" if length > 86_400 else "%H:%M")


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%d %b, %H:%M").lstrip("0")
