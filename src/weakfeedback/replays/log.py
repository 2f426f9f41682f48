"""Read a log: one request a row, one column per model. Whatever is wrong with it is said in one line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.validate import brief, floats

LINES = (".jsonl", ".ndjson", ".json")
KINDS = (".csv", ".parquet", ".pq", *LINES)
DEAREST = 1e15  # a price; as in the service


@dataclass(frozen=True)
class Log:
    """The log of a replay: answers as numbers, equal numbers for equal answers."""

    models: tuple[str, ...]
    prices: np.ndarray  # of every request and model
    outputs: np.ndarray
    scores: np.ndarray | None
    groups: np.ndarray | None
    wrong: np.ndarray | None  # None without truth
    unread: dict[str, str]  # columns that may be scores, with their suffixes


def read_frame(file: Any) -> Any:
    """Return the table in a CSV, Parquet or JSON Lines file."""
    import pandas as pd

    path = Path(str(file))
    if path.suffix.lower() not in KINDS:
        raise ValueError(f"the log must be a file that ends in {', '.join(KINDS)}, got {brief(str(file))}")
    heads: list[Any] = []  # of a CSV file, as it has them: pandas renames those that stand there twice
    try:
        if path.suffix.lower() == ".csv":
            given: Any = {"keep_default_na": False, "na_values": [""], "low_memory": False}
            heads = pd.read_csv(path, header=None, nrows=1, dtype=str, **given).iloc[0].dropna().tolist()
            found = pd.read_csv(path, **given)
        elif path.suffix.lower() in LINES:
            found = pd.DataFrame(_rows(path.read_text(encoding="utf-8-sig")))
        else:
            found = pd.read_parquet(path)
    except OSError as error:
        raise ValueError(f"the log {brief(str(file))} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # the parsers raise many kinds
        raise ValueError(f"the log {brief(str(file))} is not a table: {brief(str(error).strip())}") from None
    _refuse_doubles(heads)
    return found


def _refuse_doubles(columns: list[Any]) -> None:
    for name in columns:
        if columns.count(name) > 1:
            raise ValueError(f"the log must have one column {name!r}, it has {columns.count(name)}")


def _rows(text: str) -> list[Any]:
    """Return the rows of JSON Lines; texts may hold other ends of lines than the line feed."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number}: {error.msg} at character {error.pos}") from None
            if not isinstance(row, dict):
                raise ValueError(f"line {number} must be an object, {{...}}, got {brief(row)}")
            found.append(row)
    return found


def read_log(
    frame: Any,
    models: Any,
    prices: Any,
    score_suffix: str,
    group: Any,
    truth: Any,
    tokens_suffix: str | None,
) -> Log:
    """Check a table and turn it into a log."""
    if not hasattr(frame, "columns"):
        raise ValueError(f"the log must be a pandas.DataFrame or a file, got {brief(frame)}")
    if len(frame) == 0:
        raise ValueError("the log must have at least one row, it has none")
    _refuse_doubles(list(frame.columns))
    names = _names(models)
    money = _prices(prices, len(names))
    columns = [_answers(frame, name, "models") for name in names]
    target = None if truth is None else _answers(frame, truth, "truth")
    answers = columns if target is None else [*columns, target]
    codes = _codes(answers, [*names, truth][: len(answers)])
    outputs = np.ascontiguousarray(codes[:, : len(names)])
    scores = None
    if any(f"{name}{score_suffix}" in frame for name in names):
        scores = np.column_stack([_numbers(frame, f"{name}{score_suffix}", missing=True) for name in names])
    each = np.tile(money, (len(frame), 1))
    if tokens_suffix is not None:
        each = money * np.column_stack([_numbers(frame, f"{name}{tokens_suffix}") for name in names])
    groups = None if group is None else _groups(frame, group)
    wrong = None if target is None else outputs != codes[:, -1:]
    used = {*names, truth, group, *(f"{name}{tokens_suffix}" for name in names)}
    unread = {} if scores is not None else _unread(frame, names, used)
    return Log(names, each, outputs, scores, groups, wrong, unread)


def _unread(frame: Any, names: tuple[str, ...], used: set[Any]) -> dict[str, str]:
    """Return the columns of numbers that are named after a model and were not read, with the rest of their names."""
    found = {}
    for column in frame.columns:
        model = max((name for name in map(str, names) if str(column).startswith(name)), key=len, default=None)
        if model is not None and column not in used and frame[column].dtype.kind == "f":
            found[str(column)] = str(column)[len(model) :]
    return found


def _names(models: Any) -> tuple[str, ...]:
    if isinstance(models, str) or not isinstance(models, (list, tuple)) or len(models) < 2:
        raise ValueError(f"models must be the names of at least two columns, got {brief(models)}")
    if len(set(models)) < len(models):
        raise ValueError(f"models must be different columns, got {brief(models)}")
    return tuple(models)


def _prices(prices: Any, size: int) -> np.ndarray:
    try:
        found = floats(prices)
    except (TypeError, ValueError, OverflowError):
        found = np.full(1, np.nan)
    if found.shape != (size,) or not ((found >= 0.0) & (found <= DEAREST)).all():
        raise ValueError(
            f"prices must be {size} numbers from 0 to {DEAREST:g}, one per model, got {brief(prices)}"
        )
    return found


def _column(frame: Any, name: Any, what: str, why_full: str | None = None) -> Any:
    """Return a column, in which no row may be empty if it is said why."""
    if name not in frame:
        known = ", ".join(str(column) for column in frame.columns)
        raise ValueError(f"{what}: the log has no column {name!r}; it has {known}")
    gaps = np.flatnonzero(frame[name].isna())
    if gaps.size and why_full is not None:
        raise ValueError(f"column {name!r} is empty in row {gaps[0]} (counted from 0){why_full}")
    return frame[name]


def _answers(frame: Any, name: Any, what: str) -> Any:
    """Return a column of answers, numbers or text."""
    column = _column(frame, name, what, ": every model must have answered")
    if hasattr(column, "cat"):
        column = column.astype(column.cat.categories.dtype)
    column = column.infer_objects()
    if column.dtype.kind in "biuf":
        return column
    kinds = sorted({type(value).__name__ for value in column})
    if kinds != ["str"]:
        raise ValueError(
            f"column {name!r} must hold answers of one kind, text or numbers, it holds {', '.join(kinds)}"
        )
    return column.astype(object)


def _codes(columns: list[Any], names: list[Any]) -> np.ndarray:
    """Return one number for each answer, equal for equal ones: exactly, however long a text or large a number is.

    Numbers and text never agree: a log in which one model answers in text is a mistake.
    """
    import pandas as pd

    text = [name for name, column in zip(names, columns) if column.dtype.kind == "O"]
    if 0 < len(text) < len(names):
        other = next(name for name in names if name not in text)
        raise ValueError(f"column {text[0]!r} holds text, {other!r} holds numbers: they could never agree")
    if len({column.dtype.kind for column in columns}) > 1:
        columns = [column.astype(object) for column in columns]  # large integers are no floats
    found = pd.factorize(pd.concat(columns, ignore_index=True), sort=True)[0]
    return np.asarray(found, dtype=np.int64).reshape(len(columns), -1).T


def _numbers(frame: Any, name: str, missing: bool = False) -> np.ndarray:
    """Return a column of scores, which may be missing or infinite, or of tokens."""
    if missing and name not in frame:
        return np.full(len(frame), np.nan)
    column = _column(frame, name, "scores" if missing else "tokens")
    try:
        gaps = column.isna()
        found = np.array([np.nan if gap else float(one) for one, gap in zip(column, gaps)])
    except (TypeError, ValueError):
        kinds = ", ".join(sorted({type(value).__name__ for value in column}))
        raise ValueError(f"column {name!r} must hold numbers, it holds {kinds}") from None
    if missing:
        return np.asarray(np.nan_to_num(found, nan=np.nan))  # the order alone counts
    wrong = np.flatnonzero(~(np.isfinite(found) & (found >= 0.0)))
    if wrong.size:
        raise ValueError(
            f"column {name!r} must hold numbers >= 0, got {found[wrong[0]]:g} in row {wrong[0]} (counted from 0)"
        )
    return found


def _groups(frame: Any, name: str) -> np.ndarray:
    return np.array([str(value) for value in _column(frame, name, "group", "")])
