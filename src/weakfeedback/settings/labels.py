"""Labels of data sets and of laws: whole numbers, booleans or text, in rectangular arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakfeedback.validate import brief, plain

ALLOWED = "labels that are integers, booleans or strings"


def label_array(name: str, values: Any) -> np.ndarray:
    """Return labels as an array of int64 or of text.

    >>> label_array("truth", [True, False]), label_array("truth", ["ill", "well"])
    (array([1, 0]), array(['ill', 'well'], dtype='<U4'))
    """
    array = _array(name, values)
    if array.dtype.kind == "T" or (array.dtype.kind == "U" and not isinstance(values, np.ndarray)):
        array = np.asarray(values, dtype=object)  # numbers and gaps among strings would pass for strings
    if not _is_text(array):
        return whole_numbers(name, array, ALLOWED)
    other = [value for value in array.flat if not isinstance(value, str)]
    if other:
        raise ValueError(f"{name} must be {ALLOWED}, all of one kind, got {brief(other[0])} beside strings")
    return array.astype(str)


def label_table(truth: Any, outputs: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return n true labels, and what each of K arms said of each row, shape (n, K); ``name`` is that of the latter."""
    target, answers = label_array("truth", truth), label_array(name, outputs)
    if target.ndim != 1 or answers.ndim != 2 or answers.shape[0] != target.size or answers.size == 0:
        raise ValueError(
            f"truth and {name} must have shapes (n,) and (n, K) with n >= 1 and K >= 1, "
            f"got {target.shape} and {answers.shape}"
        )
    if (target.dtype.kind == "U") != (answers.dtype.kind == "U"):
        raise ValueError(f"truth and {name} must both be strings or both be numbers, got one of each")
    return target, answers


def whole_numbers(name: str, values: Any, allowed: str) -> np.ndarray:
    """Return ``values`` as int64; refuse everything that is not a whole number."""
    array = _array(name, values)
    if array.dtype.kind == "O":
        wrong = [value for value in array.flat if not isinstance(value, (bool, int, float, np.generic))]
        if wrong:
            raise ValueError(f"{name} must be {allowed}, got {brief(wrong[0])}")
        array = np.array(array.tolist()) if array.size else array.astype(np.int64)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be {allowed}, got an array of {array.dtype}")
    if array.dtype.kind in "uf":
        whole = (np.abs(array) < 2.0**63) & (array == np.floor(array))
        if not whole.all():
            raise ValueError(f"{name} must be {allowed}, got {array[~whole].flat[0].item()!r}")
    return array.astype(np.int64)


def _array(name: str, values: Any) -> np.ndarray:
    try:
        return np.asarray(plain(values))
    except TypeError:
        raise ValueError(f"{name} must be a rectangular array of labels, got {brief(values)}") from None
    except ValueError:
        raise ValueError(
            f"{name} must be a rectangular array of labels, got rows of different lengths"
        ) from None


def _is_text(values: np.ndarray) -> bool:
    kind = values.dtype.kind
    return kind in "UT" or (kind == "O" and any(isinstance(value, str) for value in values.flat))
