"""What the problems of all settings share: they cannot be changed, know their size, and have a fingerprint."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from weakfeedback.plaintext import with_article


class FrozenProblem:
    """A problem that cannot be changed once it is made: ``__init__`` fills ``__dict__`` and calls ``_freeze``."""

    setting: str

    def _freeze(self) -> None:
        for value in self.__dict__.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def loop(self) -> Any:
        """Return the round loop of its setting."""
        return importlib.import_module(f"weakfeedback.{self.setting}.play").LOOP

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{_named(self)} cannot be changed, so {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{_named(self)} cannot be changed, so {name} cannot be deleted")

    def __setstate__(self, state: dict[str, Any]) -> None:
        # NumPy does not pickle the read-only flag.
        self.__dict__.update(state)
        self._freeze()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def _named(problem: object) -> str:
    return with_article(type(problem).__name__)


def counts_table(name: str, counts: Any, width: int) -> np.ndarray:
    """Return counts as an array of integers of shape (..., width).

    >>> counts_table("counts", [3, 5], 2)
    array([3, 5])
    """
    table = np.asarray(counts)
    if table.ndim < 1 or table.shape[-1] != width or table.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers of shape (..., {width}), got {table.dtype} {table.shape}")
    return table


def weighted(counts: np.ndarray, weights: Iterable[Any]) -> np.ndarray:
    """Return counts of shape (..., K) times K weights, added in index order: however counts are batched, the same bits.

    >>> weighted(np.array([[3, 5], [1, 0]]), [0.25, 0.5])
    array([3.25, 0.25])
    """
    total = np.zeros(counts.shape[:-1])
    for k, weight in enumerate(weights):
        total += counts[..., k] * weight
    return total


def check_arms(problem: Any, policy: Any, noun: str = "arms") -> None:
    """Reject a policy that was made for another number of arms."""
    arms = getattr(policy, "K", problem.arms)
    if arms != problem.arms:
        raise ValueError(
            f"{type(policy).__name__} was made for {arms} {noun}, the problem has {problem.arms}"
        )


def fingerprint(head: str, *arrays: np.ndarray) -> str:
    """Return the hexadecimal digest of words and of arrays of floats and integers, the same on every processor."""
    digest = hashlib.sha256(head.encode())
    for array in arrays:
        digest.update(array.astype("<f8" if array.dtype.kind == "f" else "<i8").tobytes())
    return digest.hexdigest()
