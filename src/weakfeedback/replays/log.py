"""Read a log: one request a row, one column per model. Whatever is wrong with it is said in one line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.validate import brief

LINES = (".jsonl", ".ndjson", ".json")
KINDS = (".csv", ".parquet", ".pq", *LINES)


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
    try:
        if path.suffix.lower() == ".csv":
            return pd.read_csv(path, keep_default_na=False, na_values=[""])
        if path.suffix.lower() in LINES:
            lines = path.read_text(encoding="utf-8").splitlines()
            return pd.DataFrame([json.loads(line) for line in lines if line.strip()])
        return pd.read_parquet(path)
    except OSError as error:
        raise ValueError(f"the log {brief(str(file))} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # the parsers raise many kinds
        raise ValueError(f"the log {brief(str(file))} is not a table: {brief(str(error))}") from None


def read_log(
    frame: Any,
    models: Any,
    prices: Any,
    score_suffix: str,
    group: str | None,
    truth: str | None,
    tokens_suffix: str | None,
) -> Log:
    """Check a table and turn it into a log."""
    if not hasattr(frame, "columns"):
        raise ValueError(f"the log must be a pandas.DataFrame or a file, got {brief(frame)}")
    if len(frame) == 0:
        raise ValueError("the log must have at least one row, it has none")
    names = _names(models)
    money = _prices(prices, len(names))
    columns = [_answers(frame, name, "models") for name in names]
    target = None if truth is None else _answers(frame, truth, "truth")
    _refuse_mixture([*columns, *([] if target is None else [target])], [*names, *([truth] if truth else [])])
    codes = np.unique(
        np.column_stack([*columns, *([] if target is None else [target])]), return_inverse=True
    )[1]
    codes = codes.reshape(len(frame), -1).astype(np.int64)
    outputs = np.ascontiguousarray(codes[:, : len(names)])
    scores = None
    if any(f"{name}{score_suffix}" in frame for name in names):
        scores = np.column_stack([_numbers(frame, f"{name}{score_suffix}", missing=True) for name in names])
    each = np.tile(money, (len(frame), 1))
    if tokens_suffix is not None:
        each = money * np.column_stack([_numbers(frame, f"{name}{tokens_suffix}") for name in names])
        if (each < 0.0).any():
            raise ValueError("tokens must be at least 0")
    groups = None if group is None else _groups(frame, group)
    wrong = None if target is None else outputs != codes[:, -1:]
    used = {*names, truth, group, *(f"{name}{tokens_suffix}" for name in names)}
    unread = {} if scores is not None else _unread(frame, names, used)
    return Log(names, each, outputs, scores, groups, wrong, unread)


def _unread(frame: Any, names: tuple[str, ...], used: set[Any]) -> dict[str, str]:
    """Return the columns of numbers that are named after a model and were not read, with the rest of their names."""
    found = {}
    for column in frame.columns:
        model = max((name for name in names if str(column).startswith(str(name))), key=len, default=None)
        if model is not None and column not in used and frame[column].dtype.kind == "f":
            found[str(column)] = str(column)[len(str(model)) :]
    return found


def _names(models: Any) -> tuple[str, ...]:
    if isinstance(models, str) or not isinstance(models, (list, tuple)) or len(models) < 2:
        raise ValueError(f"models must be the names of at least two columns, got {brief(models)}")
    if len(set(models)) < len(models):
        raise ValueError(f"models must be different columns, got {brief(models)}")
    return tuple(models)


def _prices(prices: Any, size: int) -> np.ndarray:
    try:
        found = np.array(prices, dtype=float)
    except (TypeError, ValueError):
        found = np.full(1, np.nan)
    if found.shape != (size,) or not (np.isfinite(found) & (found >= 0.0)).all():
        raise ValueError(f"prices must be {size} numbers >= 0, one per model, got {brief(prices)}")
    return found


def _column(frame: Any, name: Any, what: str) -> Any:
    if name not in frame:
        known = ", ".join(str(column) for column in frame.columns)
        raise ValueError(f"{what}: the log has no column {name!r}; it has {known}")
    return frame[name]


def _answers(frame: Any, name: Any, what: str) -> np.ndarray:
    """Return a column of answers as numbers or text."""
    column = _column(frame, name, what)
    if column.isna().any():
        row = int(np.flatnonzero(column.isna())[0])
        raise ValueError(
            f"column {name!r} is empty in row {row} (counted from 0): every model must have answered"
        )
    if column.dtype.kind in "biuf":
        found: np.ndarray = column.to_numpy(dtype=float)
        return found
    kinds = sorted({type(value).__name__ for value in column})
    if kinds != ["str"]:
        raise ValueError(
            f"column {name!r} must hold answers of one kind, text or numbers, it holds {', '.join(kinds)}"
        )
    return np.array(column.tolist())


def _refuse_mixture(columns: list[np.ndarray], names: list[Any]) -> None:
    """Numbers and text never agree: a log in which one model answers in text is a mistake."""
    text = [name for name, column in zip(names, columns) if column.dtype.kind == "U"]
    if 0 < len(text) < len(names):
        other = next(name for name in names if name not in text)
        raise ValueError(f"column {text[0]!r} holds text, {other!r} holds numbers: they could never agree")


def _numbers(frame: Any, name: str, missing: bool = False) -> np.ndarray:
    if missing and name not in frame:
        return np.full(len(frame), np.nan)
    column = _column(frame, name, "scores" if missing else "tokens")
    if column.dtype.kind not in "biuf":
        raise ValueError(f"column {name!r} must hold numbers, it holds {column.dtype}")
    found: np.ndarray = column.to_numpy(dtype=float)
    if not missing and not np.isfinite(found).all():
        raise ValueError(f"column {name!r} must hold numbers in every row")
    if np.isinf(found).any():
        raise ValueError(f"column {name!r} must hold finite numbers, or nothing")
    return found


def _groups(frame: Any, name: str) -> np.ndarray:
    column = _column(frame, name, "group")
    if column.isna().any():
        raise ValueError(
            f"column {name!r} is empty in row {int(np.flatnonzero(column.isna())[0])} (counted from 0)"
        )
    return np.array([str(value) for value in column])
