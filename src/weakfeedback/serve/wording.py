"""Words for the differences of configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


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
