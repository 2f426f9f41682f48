"""How deeply JSON may be nested, so that nothing that walks through it runs out of stack."""

from typing import Any

DEEP = 128  # levels of lists and objects; orjson writes 254


def is_deep(raw: bytes, data: Any) -> bool:
    """Whether ``data``, read from ``raw``, is nested more deeply than that."""
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
