"""The linear algebra of the regressions for the interpreter: by arrays, and yet to the same bits.

Simulations compile ``weakfeedback.linalg``. A live object runs in the interpreter, where its loops take seconds with a
hundred features. The functions here do the same operations on each number in the same order, a row or a matrix at
a time, so a policy that uses them learns the same to the last bit.
"""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np

from weakfeedback.linalg import ROUNDING

Array = np.ndarray
# the methods of the regressions, and of policies made of them, that do linear algebra
HEAVY = (
    *(
        "absorb",
        "centre",
        "climb",
        "covers",
        "evaluate",
        "fit",
        "gather",
        "is_best",
        "newton",
        "rebuild",
        "remember",
    ),
    *("stride", "width"),
)


def inner(x: Array, y: Array) -> float:
    """Return the sum of x[i] y[i], added from the first to the last."""
    return 0.0 + float(np.add.accumulate(x * y)[-1])


def times(matrix: Array, x: Array, out: Array) -> None:
    """Write ``matrix @ x`` for a symmetric matrix into ``out``: the rows are added from the first to the last."""
    np.add(np.add.accumulate(x[:, None] * matrix, axis=0)[-1], 0.0, out=out)


def add_outer(matrix: Array, w: float, x: Array) -> None:
    """Add w x x'."""
    matrix += w * np.multiply.outer(x, x)


def dot_rows(table: Array, rows: Array, n: int, begin: int, x: Array, out: Array) -> None:
    """Write the sum of table[rows[r], begin + k] x[k] over k into ``out[r]``, added from first to last."""
    if n:
        out[:n] = 0.0 + np.add.accumulate(table[rows[:n], begin : begin + x.size] * x, axis=1)[:, -1]


def add_rows(x: Array, w: Array, table: Array, rows: Array, n: int, begin: int) -> None:
    """Add w[r] table[rows[r], begin + k] to x[k] in the order of r."""
    terms = w[:n, None] * table[rows[:n], begin : begin + x.size]
    x[:] = np.add.accumulate(np.concatenate([x[None], terms]), axis=0)[-1]


def add_half_rows(matrix: Array, w: Array, table: Array, rows: Array, n: int, begin: int) -> None:
    """Add w[r] x x' with x = table[rows[r], begin:] in the order of r; above the diagonal nothing counts."""
    for r in range(n):
        x = table[rows[r], begin : begin + len(matrix)]
        matrix += np.multiply.outer(w[r] * x, x)


def shrink(inverse: Array, w: float, x: Array, v: Array) -> None:
    """Turn the inverse of A into that of A + w x x', leaving ``inverse @ x`` of before in v."""
    times(inverse, x, v)
    add_outer(inverse, -w / (1.0 + w * inner(x, v)), v)


def mirror(matrix: Array) -> None:
    """Copy the lower triangle to the upper one."""
    i, j = np.tril_indices(len(matrix), -1)
    matrix[j, i] = matrix[i, j]


def invert(matrix: Array, out: Array) -> None:
    """Write the inverse of a symmetric positive definite matrix, of which the lower triangle is read, into ``out``."""
    np.negative(matrix, out=out)
    for k in range(len(matrix)):
        b = np.concatenate([out[k, :k], out[k:, k]])
        pivot, b[k] = min(b[k], -ROUNDING * matrix[k, k]), 0.0
        f = b / pivot
        out -= np.multiply.outer(f, b)  # above the diagonal nothing counts
        out[k, :k], out[k + 1 :, k] = f[:k], f[k + 1 :]
        out[k, k] = -1.0 / pivot
    mirror(out)


def exceeds(matrix: Array, level: float, spare: Array) -> bool:
    """Return whether all eigenvalues of a symmetric matrix are above ``level``."""
    spare[:] = matrix
    np.fill_diagonal(spare, spare.diagonal() - level)
    for k in range(len(matrix)):
        if not spare[k, k] > 0.0:
            return False
        spare[k, k] = math.sqrt(spare[k, k])
        spare[k + 1 :, k] /= spare[k, k]
        column = spare[k + 1 :, k]
        spare[k + 1 :, k + 1 :] -= np.multiply.outer(column, column)
    return True


def copy_block(row: Array, begin: int, out: Array) -> None:
    """Copy the features of one regression, which begin at ``begin``."""
    out[:] = row[begin : begin + out.size]


def longer(table: Array) -> Array:
    """Return a copy of a table with twice as many rows."""
    return np.concatenate([table, np.zeros_like(table)])


HELPERS = (
    *(inner, times, add_outer, add_rows, add_half_rows, dot_rows, shrink, mirror, invert, exceeds),
    *(copy_block, longer),
)


def hastened(kind: type) -> dict[str, Any]:
    """Return the methods of ``kind`` that do linear algebra, made to use the functions of this module."""
    return {name: _rebound(getattr(kind, name)) for name in HEAVY if hasattr(kind, name)}


def _rebound(method: Any) -> Any:
    scope = dict(method.__globals__)
    scope.update({helper.__name__: helper for helper in HELPERS if helper.__name__ in scope})
    return types.FunctionType(
        method.__code__, scope, method.__name__, method.__defaults__, method.__closure__
    )
