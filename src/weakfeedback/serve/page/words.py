"""Numbers and times as people read them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"


def amount(value: float | None, currency: str | None = None) -> str:
    """Return an amount of money.

    >>> amount(2986.6, "EUR"), amount(-0.00123), amount(4e-6), amount(None)
    ('2,986.60 EUR', '−0.00123', '0.000004', '–')
    """
    if value is None or not math.isfinite(value):
        return NONE
    size = abs(value)
    if size >= 1e6:
        text = f"{size:,.0f}"
    elif size >= 1.0 or size == 0.0:
        text = f"{size:,.2f}"
    else:
        text = f"{size:.3g}" if size >= 1e-4 else f"{size:.9f}".rstrip("0") if size >= 1e-8 else f"{size:.1e}"
    sign = MINUS if value < 0.0 and text.strip("0.,") else ""
    return f"{sign}{text} {currency}" if currency else sign + text


def share(value: float | None) -> str:
    """Return a share as a percentage.

    >>> share(0.2534), share(0.0001), share(1.0), share(None)
    ('25.3 %', '< 0.1 %', '100 %', '–')
    """
    if value is None or not math.isfinite(value):
        return NONE
    if 0.0 < value < 0.001:
        return "< 0.1 %"
    if 0.999 < value < 1.0:
        return "> 99.9 %"
    return f"{100.0 * value:.1f}".removesuffix(".0") + " %"


def count(value: float) -> str:
    """Return a number with thousands separators.

    >>> count(12345)
    '12,345'
    """
    return f"{value:,.0f}"


def number(value: float | None) -> str:
    """Return a number that is not money, with four digits.

    >>> number(0.33333), number(None)
    ('0.3333', '–')
    """
    return NONE if value is None or not math.isfinite(value) else f"{value:.4g}"


def duration(seconds: float, units: int = 2) -> str:
    """Return a time span in its largest units.

    >>> duration(0.4), duration(75), duration(3600), duration(90061)
    ('under 1 s', '1 min 15 s', '1 h', '1 d 1 h')
    """
    if seconds < 1.0:
        return "under 1 s"
    left, parts = int(seconds), list[str]()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if left >= size and len(parts) < units:
            parts.append(f"{left // size} {unit}")
            left %= size
        elif parts:
            break
    return " ".join(parts)


def moment(at: int | None) -> str:
    """Return a time, microseconds since 1970, in UTC.

    >>> moment(1_700_000_000_000_000)
    '2023-11-14 22:13:20'
    """
    if at is None:
        return NONE
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock(at: int, now: int) -> str:
    """Return the time of the day, in UTC, with the day if it is another one than ``now``.

    >>> clock(1_700_000_000_000_000, 1_700_000_100_000_000), clock(1_700_000_000_000_000, 1_700_100_000_000_000)
    ('22:13 UTC', '14 Nov, 22:13 UTC')
    """
    then, today = datetime.fromtimestamp(at / 1e6, UTC), datetime.fromtimestamp(now / 1e6, UTC)
    day = "" if then.date() == today.date() else f"{then.day} {then:%b}, "
    return f"{day}{then:%H:%M} UTC"


def ago(at: int | None, now: int | None = None, units: int = 2) -> str:
    """Return how long ago a time was.

    >>> ago(1_000_000, 6_000_000)
    '5 s ago'
    """
    if at is None:
        return NONE
    passed = ((time.time_ns() // 1000 if now is None else now) - at) / 1e6
    return "now" if passed < 1.0 else f"{duration(passed, units)} ago"


def listed(names: Sequence[str]) -> str:
    """Return names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
