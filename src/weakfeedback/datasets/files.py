"""Finding and reading the files of the medical data sets; every error is one clear line."""

from __future__ import annotations

import math
import os
from typing import Any

# Both published files are under 25 kB; anything far larger is another file.
LARGEST = 1_000_000


class NotFound(Exception):
    """There is no file at the given path; the message says what was looked for."""


def find(place: Any, names: tuple[str, ...], folder_only: bool = False) -> str:
    """Return the file at ``place``: the file itself, or the first of ``names`` in that folder."""
    try:
        given = os.path.expanduser(os.fsdecode(place))
    except TypeError:
        raise ValueError(f"path must be the name of a file or folder, got {place!r}") from None
    if os.path.isdir(given):
        for name in names:
            if os.path.isfile(os.path.join(given, name)):
                return os.path.join(given, name)
        raise NotFound(f"the folder {given!r} has no {' or '.join(names)}")
    if folder_only:
        raise NotFound(f"{given!r} is not a folder")
    if not os.path.isfile(given):
        raise NotFound(f"{given!r} is not a file or folder")
    return given


def read_table(
    path: str, header: tuple[str, ...], aliases: dict[str, str], missing: str
) -> list[list[float]]:
    """Return the rows of a comma-separated file; a cell equal to ``missing`` becomes NaN.

    The first line is the ``header`` (in any case, or in the words of ``aliases``), or already data.
    """
    lines = [(k, line) for k, line in enumerate(_text(path).splitlines(), start=1) if line.strip()]
    if not lines:
        raise ValueError(f"{path!r} is empty")
    first = _cells(lines[0][1])
    if not all(_is_value(cell, missing) for cell in first):
        if tuple(aliases.get(cell.lower(), cell.lower()) for cell in first) != header:
            raise ValueError(f"{path!r} has the columns {_short(first)}, expected {', '.join(header)}")
        lines = lines[1:]
    return [_row(path, number, _cells(line), header, missing) for number, line in lines]


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise ValueError(f"{path!r} cannot be read: {error.strerror or error}") from None
    if len(content) > LARGEST:
        raise ValueError(f"{path!r} is larger than {LARGEST} bytes, so not the data set")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path!r} is not a text file (UTF-8)") from None


def _cells(line: str) -> list[str]:
    return [cell.strip().strip('"') for cell in line.split(",")]


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return math.nan


def _is_value(cell: str, missing: str) -> bool:
    return math.isfinite(_number(cell)) or (missing != "" and cell == missing)


def _row(path: str, number: int, cells: list[str], header: tuple[str, ...], missing: str) -> list[float]:
    if len(cells) != len(header):
        raise ValueError(f"{path!r}, line {number}: {len(cells)} cells, expected {len(header)}")
    for name, cell in zip(header, cells):
        if not _is_value(cell, missing):
            raise ValueError(f"{path!r}, line {number}: {name} is {_short([cell])}, expected a number")
    return [_number(cell) for cell in cells]


def _short(cells: list[str]) -> str:
    # repr escapes control characters, so the message stays one printable line
    text = ", ".join(repr(cell)[1:-1] if cell else "''" for cell in cells)
    return text if len(text) <= 120 else text[:117] + "..."
