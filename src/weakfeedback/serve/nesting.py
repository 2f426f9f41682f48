"""The limit on the nesting of JSON, so that no recursive code runs out of stack."""

from typing import Any

DEEP = 128  # levels of lists and objects; orjson writes 254


def is_deep(raw: bytes, data: Any) -> bool:
    """Whether ``data``, parsed from ``raw``, is nested more deeply than `DEEP`."""
    if raw.count(b"[") + raw.count(b"{") <= DEEP:  # nearly always
        return False
    level = [data]
    for _ in range(DEEP):
        level = [
            item
            for one in level
            if isinstance(one, (list, dict))
            for item in (one if isinstance(one, list) else one.values())
        ]
    return any(isinstance(one, (list, dict)) for one in level)
