"""Checks of tables of a configuration file: each mistake is one line with key, value and what is allowed."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

from weakfeedback.plaintext import one_line


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a hint at the nearest known word, or nothing.

    >>> did_you_mean("jsn", ["text", "json"])
    ' (did you mean json?)'
    """
    near = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f" (did you mean {near[0]}?)" if near else ""


def shown(value: Any) -> str:
    """Return the beginning of a value, for messages."""
    return one_line(repr(value), 80)


def known_keys(where: str, table: dict[str, Any], known: Iterable[str]) -> None:
    """Refuse keys that are not known."""
    allowed = list(known)
    for key in table:
        if key not in allowed:
            named = one_line(f"{where}.{key}", 80)
            raise ValueError(
                f"{named} is not a known key{did_you_mean(key, allowed)}; allowed: {', '.join(allowed)}"
            )


def table_at(where: str, value: Any) -> dict[str, Any]:
    """Return a table."""
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a table, got {shown(value)}")
    return value


def text_at(where: str, table: dict[str, Any], key: str, default: str | None = None) -> str:
    """Return a text that is not empty."""
    value = table.get(key, default)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where}.{key} must be a text, got {shown(value)}")
    return value


def flag_at(where: str, table: dict[str, Any], key: str, default: bool) -> bool:
    """Return true or false."""
    value = table.get(key, default)
    if not isinstance(value, bool):
        raise ValueError(f"{where}.{key} must be true or false, got {shown(value)}")
    return value


def number_at(
    where: str, table: dict[str, Any], key: str, default: float | None = None, *, above: bool = False
) -> float:
    """Return a finite number >= 0, or > 0 if it must be ``above``."""
    value: Any = table.get(key, default)
    fine = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fine or value < 0 or (above and value == 0):
        raise ValueError(f"{where}.{key} must be a number {'>' if above else '>='} 0, got {shown(value)}")
    return float(value)


def count_at(where: str, table: dict[str, Any], key: str, default: int, most: int) -> int:
    """Return an integer from 0 to ``most``."""
    value = table.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{where}.{key} must be an integer from 0 to {most}, got {shown(value)}")
    return value


def texts_at(where: str, table: dict[str, Any], key: str, default: list[str]) -> tuple[str, ...]:
    """Return a list of different texts."""
    value = table.get(key, default)
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ValueError(f"{where}.{key} must be a list of texts, got {shown(value)}")
    if len(set(value)) != len(value):
        raise ValueError(f"{where}.{key} must have no text twice, got {shown(value)}")
    return tuple(value)
