"""Feature maps of contexts: the quadratic one of the thesis, and one map per pair of arms."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from weakfeedback.contextual.arguments import pairs
from weakfeedback.validate import brief, floats, integer, number

# A column counts as dependent on earlier ones if they leave at most this share of its norm unexplained.
DEPENDENT = 1e-8
LARGEST = 1e100  # of a context or a feature: products of two of them must be finite


@functools.lru_cache(maxsize=16)
def _columns(inputs: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of all products of two different inputs."""
    first, second = pairs(inputs)
    return np.array(first, dtype=np.int64), np.array(second, dtype=np.int64)


class QuadraticFeatures:
    """The coordinates of the kernel (1 + x.z)^2, scaled to norm at most 1.

        Phi(x) = (1, sqrt2 x_1, ..., sqrt2 x_d, x_1^2, ..., x_d^2, sqrt2 x_1 x_2, ..., sqrt2 x_{d-1} x_d) / (1 + B^2)

    so that Phi(x).Phi(z) = ((1 + x.z) / (1 + B^2))^2 and |Phi(x)| <= 1 for |x| <= B. The thesis (section 3.5) names
    the polynomial kernel of degree two, not its constant or its scale; the constant is needed for an intercept,
    the scale for the assumption |Phi| <= 1.

    ``fit(contexts)`` drops the columns that depend linearly on earlier ones over these contexts. The square of a
    feature that is 0 or 1 is such a column; it would make the matrices V singular.

    Parameters
    ----------
    bound : number > 0
        B, at least the largest norm of a context: sqrt(d) for contexts in the cube [-1, 1]^d.

    Examples
    --------
    >>> features = QuadraticFeatures(bound=1.0)
    >>> features([[0.6, 0.8]]).round(2).tolist()
    [[0.5, 0.42, 0.57, 0.18, 0.32, 0.34]]
    >>> features.fit([[0.0, 0.1], [1.0, 0.0], [0.0, 0.5], [0.0, 0.9]]).columns.tolist()
    [0, 1, 2, 4]
    """

    def __init__(self, bound: Any) -> None:
        self.bound = number("bound", bound, above=0.0)
        if self.bound > LARGEST:
            raise ValueError(f"bound must be at most {LARGEST:g}, got {brief(bound)}")
        self.columns = np.zeros(0, dtype=np.int64)  # columns kept; empty before a fit: all
        self.inputs = 0  # d; 0 before a fit: any

    @property
    def fitted(self) -> bool:
        """Whether the columns have been chosen."""
        return self.inputs > 0

    def dimension(self, inputs: Any) -> int:
        """Return the number of features of a context of ``inputs`` numbers."""
        d = integer("inputs", inputs, 1)
        if self.fitted and d != self.inputs:
            raise ValueError(f"inputs must be {self.inputs}, as in the fit, got {brief(inputs)}")
        return self.columns.size if self.fitted else (d + 1) * (d + 2) // 2

    def fit(self, contexts: Any) -> QuadraticFeatures:
        """Keep the columns that are linearly independent over these contexts; return this object."""
        table = context_table("contexts", contexts)
        self.columns, self.inputs = np.zeros(0, dtype=np.int64), 0
        self.columns = independent_columns(self(table))
        self.inputs = table.shape[1]
        return self

    def __call__(self, contexts: Any) -> np.ndarray:
        """Return the features of every row of ``contexts``."""
        x = context_table("contexts", contexts)
        if self.fitted and x.shape[1] != self.inputs:
            raise ValueError(f"contexts must have {self.inputs} columns, as in the fit, got {x.shape[1]}")
        largest = math.sqrt(float(np.max((x * x).sum(axis=1))))
        if largest > self.bound * (1.0 + 1e-9):
            raise ValueError(f"contexts must have norm at most the bound {self.bound:g}, got {largest:g}")
        root = math.sqrt(2.0)
        first, second = _columns(x.shape[1])
        blocks = [np.ones((len(x), 1)), root * x, x * x, root * (x[:, first] * x[:, second])]
        phi = np.hstack(blocks) / (1.0 + self.bound * self.bound)
        return np.ascontiguousarray(phi[:, self.columns]) if self.fitted else phi

    def __repr__(self) -> str:
        kept = f", {self.columns.size} columns" if self.fitted else ""
        return f"QuadraticFeatures(bound={self.bound:g}{kept})"


class PairFeatures:
    """One feature map per pair of arms, side by side.

    phi is the blocks of the pairs (0, 1), (0, 2), ..., (1, 2), ... one after the other, all of the same length.
    Policies need ``per_pair=True`` for them. Unfitted ``QuadraticFeatures`` are refused: fit them first, so that
    each pair keeps its own columns (and as many as the others).

    Parameters
    ----------
    maps : mapping of pairs (i, j), i < j, to maps
        Each takes an array of contexts, shape (n, d), and returns their features, shape (n, d').

    Examples
    --------
    >>> wide, narrow = QuadraticFeatures(2.0), QuadraticFeatures(1.0)
    >>> maps = PairFeatures({(0, 1): wide, (0, 2): narrow, (1, 2): narrow})
    >>> maps([[0.5]]).round(2).tolist()
    [[0.2, 0.14, 0.05, 0.5, 0.35, 0.12, 0.5, 0.35, 0.12]]
    """

    per_pair = True

    def __init__(self, maps: Mapping[tuple[int, int], Callable[[Any], Any]]) -> None:
        if not isinstance(maps, Mapping) or not maps:
            raise ValueError(f"maps must be a mapping of pairs (i, j) to feature maps, got {brief(maps)}")
        self.arms = round((1.0 + math.sqrt(1.0 + 8.0 * len(maps))) / 2.0)
        wanted = list(zip(*pairs(self.arms)))
        if set(maps) != set(wanted):
            raise ValueError(
                f"maps must have one map for each pair i < j of the arms, got {brief(list(maps))}"
            )
        self.maps = [maps[pair] for pair in wanted]

    def __call__(self, contexts: Any) -> np.ndarray:
        """Return the blocks of all pairs for every row of ``contexts``."""
        blocks = [feature_table(one, contexts) for one in self.maps]
        widths = {block.shape[1] for block in blocks}
        if len(widths) > 1:
            raise ValueError(f"maps must give the same number of features, got {sorted(widths)}")
        return np.hstack(blocks)


def context_table(name: str, value: Any) -> np.ndarray:
    """Validate an array of finite floats, one row per context."""
    try:
        table = floats(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers of shape (n, d), got {type(value).__name__}") from None
    if table.ndim != 2 or table.shape[0] < 1 or table.shape[1] < 1:
        raise ValueError(f"{name} must have shape (n, d) with n, d >= 1, got {table.shape}")
    if not np.isfinite(table).all():
        raise ValueError(f"{name} must be finite, got {table[~np.isfinite(table)][0]!r}")
    if np.abs(table).max() > LARGEST:
        raise ValueError(f"{name} must be at most {LARGEST:g} in size, got {np.abs(table).max():g}")
    return table


def feature_table(features: Any, contexts: Any) -> np.ndarray:
    """Compute and check the features of all contexts with any map."""
    if not callable(features):
        raise ValueError(f"features must be a map of contexts to features, got {brief(features)}")
    phi = context_table("features(contexts)", features(contexts))
    if len(phi) != len(contexts):
        raise ValueError(f"features(contexts) must have {len(contexts)} rows, got {len(phi)}")
    return phi


def map_of(features: Any, contexts: np.ndarray) -> Any:
    """Return the map to use on these contexts: the one given, fitted if needed, or the quadratic one."""
    if features is None:
        norm = math.sqrt(float(np.max((contexts * contexts).sum(axis=1))))
        return QuadraticFeatures(norm if norm > 0.0 else 1.0).fit(contexts)
    if isinstance(features, QuadraticFeatures) and not features.fitted:
        return copy.copy(features).fit(contexts)
    return features


def independent_columns(table: np.ndarray) -> np.ndarray:
    """Return the columns of a table that do not depend linearly on earlier ones, by orthogonalisation.

    >>> independent_columns(np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 1.0], [1.0, 2.0, 3.0]])).tolist()
    [0, 2]
    """
    basis: list[np.ndarray] = []
    kept = []
    for k, column in enumerate(table.T):
        rest = column.copy()
        for _ in range(2):  # twice: after the first pass rounding errors along the basis remain
            for direction in basis:
                rest -= (direction @ rest) * direction
        norm = float(np.linalg.norm(rest))
        if norm > DEPENDENT * float(np.linalg.norm(column)):
            kept.append(k)
            basis.append(rest / norm)
    return np.array(kept, dtype=np.int64)
