"""The type that every loader returns, and the error for a missing data set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


class DataMissing(ValueError):
    """A data set that is not part of the package was needed and could not be found or fetched."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table of numbers with one integer target per row.

    Two data sets are equal, with equal hashes, if their names, columns and values are equal: fitted models are cached
    by content, so a changed file never gets a stale model. Arrays are read-only.

    Attributes
    ----------
    name : str
        A short name: "pima", "heart", "breast-cancer".
    columns : tuple of str
        The names of the d features.
    features : array of floats, shape (n, d)
    target : array of n integers
    source : str
        A description of where the values came from.
    """

    name: str
    columns: tuple[str, ...]
    features: np.ndarray
    target: np.ndarray
    source: str

    def __post_init__(self) -> None:
        features = np.array(self.features, dtype=float)
        target = np.array(self.target, dtype=np.int64)
        if features.ndim != 2 or target.ndim != 1 or features.shape != (len(target), len(self.columns)):
            raise ValueError(
                f"features and target must have shapes (n, {len(self.columns)}) and (n,), "
                f"got {features.shape} and {target.shape}"
            )
        for field, array in (("features", features), ("target", target)):
            array.setflags(write=False)
            object.__setattr__(self, field, array)

    def select(self, columns: Iterable[str]) -> np.ndarray:
        """Return a new array of the named columns, in the order given."""
        wanted = tuple(columns)
        unknown = [name for name in wanted if name not in self.columns]
        if unknown:
            raise ValueError(
                f"columns must be some of {', '.join(self.columns)} (data set {self.name}), got {unknown[0]!r}"
            )
        return self.features[:, [self.columns.index(name) for name in wanted]]

    def _content(self) -> tuple[object, ...]:
        return self.name, self.columns, self.features.tobytes(), self.target.tobytes()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dataset):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())
