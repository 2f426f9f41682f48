"""Words for the differences of configurations, and for times."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

LAST = 253_402_300_799  # the last second that can be written, in the year 9999


def unlike(wanted: Mapping[str, Any], known: Mapping[str, Any], fields: Iterable[str]) -> str:
    """Return what differs between two configurations, every field of it.

    >>> unlike({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "c": 4}, "abc")
    'b = 2 (it has 3), c = 3 (it has 4)'
    """
    told = [
        f"{field} = {wanted[field]!r:.60} (it has {known.get(field)!r:.60})"
        for field in fields
        if wanted[field] != known.get(field)
    ]
    return ", ".join(told)


def moment(at: int) -> str:
    """Return a time, microseconds since 1970, in the format of RFC 3339."""
    return _second(min(at // 1_000_000, LAST))


@functools.lru_cache(1024)
def _second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
