"""Recorded stages from a file, to find out what a policy would have done and saved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.adaptive.problem import AdaptiveProblem
from weakfeedback.validate import brief

KINDS = (".csv", ".parquet", ".pq")


def read_problem(
    file: Any,
    truth: Any,
    outputs: Any,
    scores: Any,
    costs: Any,
    chances: Any = None,
    groups: Any = None,
    order: str = "drawn",
) -> AdaptiveProblem:
    """Make a problem from a CSV or Parquet file with one row per item and the answers of *all* stages to it.

    Arguments
    ---------
    file : path
        Ends in .csv, .parquet or .pq.
    truth : name of a column
        The true label.
    outputs, scores : K names of columns each
        The label and the score of every stage; ``scores`` may be None. An empty cell is a score that is missing.
    costs : K numbers >= 0
        The price of each stage in units of an error.
    chances : mapping from labels to names of columns, or None
        The probability that the last stage gives to each label.
    groups : name of a column, or None
        The group of each item.
    order : text
        As for `AdaptiveProblem`.
    """
    import pandas as pd

    path = Path(str(file))
    if not isinstance(file, (str, Path)) or path.suffix.lower() not in KINDS:
        raise ValueError(f"file must be a path that ends in {' or '.join(KINDS)}, got {brief(file)}")
    try:
        table = pd.read_csv(path) if path.suffix.lower() == ".csv" else pd.read_parquet(path)
    except OSError as error:
        raise ValueError(f"file {brief(str(file))} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # the parsers raise many kinds
        raise ValueError(f"file {brief(str(file))} is not a table: {brief(str(error))}") from None
    target = _labels(table, "truth", truth)
    answers = np.column_stack([_labels(table, "outputs", name) for name in _names("outputs", outputs)])
    sure = None
    if scores is not None:
        sure = np.column_stack([_numbers(table, "scores", name) for name in _names("scores", scores)])
    believed = None
    if chances is not None:
        if not isinstance(chances, dict):
            raise ValueError(f"chances must be a table from labels to names of columns, got {brief(chances)}")
        believed = {
            _label(label, target): _numbers(table, "chances", name) for label, name in chances.items()
        }
    places = None if groups is None else _labels(table, "groups", groups)
    return AdaptiveProblem(target, answers, sure, costs, believed, places, order)


def _names(what: str, value: Any) -> Sequence[str]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)) or not value:
        raise ValueError(f"{what} must be a list of names of columns, one per stage, got {brief(value)}")
    return value


def _column(table: Any, what: str, name: Any) -> Any:
    if not isinstance(name, str) or name not in table.columns:
        known = ", ".join(str(column) for column in table.columns)
        raise ValueError(f"{what} must name a column of the file ({known}), got {brief(name)}")
    return table[name]


def _labels(table: Any, what: str, name: Any) -> np.ndarray:
    column = _column(table, what, name)
    if column.isna().any():
        row = int(np.flatnonzero(column.isna())[0])
        raise ValueError(f"{what}: column {name!r} is empty in row {row} (counted from 0)")
    numeric = column.dtype.kind in "biuf"
    found: np.ndarray = column.to_numpy() if numeric else column.astype(str).to_numpy(dtype=str)
    return found


def _numbers(table: Any, what: str, name: Any) -> np.ndarray:
    column = _column(table, what, name)
    if column.dtype.kind not in "biuf":
        raise ValueError(f"{what}: column {name!r} must hold numbers, it holds {column.dtype}")
    found: np.ndarray = column.to_numpy(dtype=float)
    return found


def _label(label: str, target: np.ndarray) -> Any:
    """Return the label as the file has it: keys of a TOML table are text."""
    if target.dtype.kind not in "biuf":
        return label
    try:
        return int(label)
    except ValueError:
        raise ValueError(f"chances must have the labels of the file, whole numbers, got {label!r}") from None
