"""Answers that are numbers: what an error costs, how far answers move, and what that says about the stages.

With ``loss="squared"`` the distance of two answers is their movement, min(((a - b) / scale)^2, 1). It is no metric: an
improvement is the movement only if the later stage is calibrated given the earlier ones (see
`weakfeedback.cascade.movement`). A ``metric`` of the user's own bounds every improvement by the triangle inequality.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.cascade.movement import Chain, chain_of_sums
from weakfeedback.live import storage
from weakfeedback.live.answers import Comparer, freeze, sample_disagreements, short
from weakfeedback.live.form import LEFT_OUT
from weakfeedback.live.report import QUANTILE
from weakfeedback.live.storage import StateError, require
from weakfeedback.validate import number

MOST_CHAINED = 8  # stages up to which chains of movements are checked
LEAST_CHAINED = 30  # comparisons of all stages from which on they are


class Squared:
    """The squared distance of two numbers, in units of ``scale`` and at most 1.

    >>> Squared(2.0)(1.0, 2.0), Squared(2.0)(0, 9)
    (0.25, 1.0)
    """

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, a: Any, b: Any) -> float:
        moved = (plain_number(a) - plain_number(b)) / self.scale
        return min(moved * moved, 1.0)


def plain_number(answer: Any) -> float:
    """Return a finite number as a float, or raise ValueError."""
    if isinstance(answer, numbers.Real):
        try:
            found = float(answer)
        except OverflowError:
            found = math.inf
        if math.isfinite(found):
            return found
    raise ValueError(f"answers must be finite numbers for loss='squared', got {short(answer)}")


def loss_of(loss: Any, scale: Any, metric: Any, compare: Any) -> Squared | None:
    """Return the loss that the arguments of a cascade ask for, None for labels and for a metric."""
    if loss is None:
        return None
    if loss != "squared":
        raise ValueError(f"loss must be 'squared' or None, got {short(loss)}")
    if scale is None:
        raise ValueError("loss='squared' needs scale=, the size of an error that costs error_cost")
    for name, value in (("metric", metric), ("compare", compare)):
        if value is not None:
            raise ValueError(f"{name} must be left out with loss='squared', which says what differs")
    return Squared(number("scale", scale, above=0.0))


def is_numeric(code: Comparer, policy: Any) -> bool:
    """Return whether a policy learns distances as they are, and not which pairs are sampled to differ."""
    return code.metric is not None and bool(getattr(policy, "numeric_outputs", False))


def learned(far: np.ndarray, numeric: bool, rng: np.random.Generator) -> np.ndarray:
    """Return what a policy learns of distances: the distances, or which pairs are sampled to differ."""
    return freeze(far) if numeric else sample_disagreements(far, rng)


def check_metric(metric: Any, compare: Any) -> None:
    """Reject a metric that is none, or that stands beside ``compare``."""
    if metric is not None and not callable(metric):
        raise ValueError(f"metric must be a callable or None, got {short(metric)}")
    if metric is not None and compare is not None:
        raise ValueError("metric must not be given together with compare: one of them says what differs")


class Moved(NamedTuple):
    """Sums over all comparisons of stages i < j, and of chains i < j < k. Immutable, as the counts are."""

    total: np.ndarray  # of the distances
    squares: np.ndarray  # and of their squares
    gaps: np.ndarray  # of how much more the answer moves from i to k than by way of j; empty for many stages
    gap_squares: np.ndarray

    @classmethod
    def of(cls, arms: int) -> Moved:
        """Return the sums before the first comparison."""
        pair, chain = np.zeros((arms, arms)), np.zeros((arms,) * 3 if arms <= MOST_CHAINED else (0, 0, 0))
        return cls(pair, pair.copy(), chain, chain.copy())

    def after(self, far: np.ndarray) -> Moved:
        """Add one comparison of the first stages."""
        size = len(far)
        if size < 2:
            return self
        total, squares = self.total.copy(), self.squares.copy()
        total[:size, :size] += far
        squares[:size, :size] += far * far
        gaps, gap_squares = self.gaps, self.gap_squares
        if size > 2 and gaps.size:
            ordered = np.triu(np.ones((size, size), dtype=bool), 1)
            gap = far[:, None, :] - far[:, :, None] - far[None, :, :]
            gap *= ordered[:, :, None] & ordered[None, :, :]
            gaps, gap_squares = gaps.copy(), gap_squares.copy()
            gaps[:size, :size, :size] += gap
            gap_squares[:size, :size, :size] += gap * gap
        return Moved(total, squares, gaps, gap_squares)

    def state(self) -> dict[str, Any]:
        """Return the sums as plain data."""
        return storage.encoded_counts(self, self._fields)

    @classmethod
    def from_state(cls, arms: int, state: Any, compared: np.ndarray) -> Moved:
        """Return the sums that gave ``state``, of so many comparisons, or raise `StateError`."""
        found = cls(**storage.restored_counts(state, cls.of(arms)._asdict()))
        sound = all(np.isfinite(array).all() for array in found)
        for sums in (found.total, found.squares):
            sound = sound and bool((sums >= 0.0).all() and (sums <= compared * (1.0 + 1e-9)).all())
        if not sound:
            raise StateError("the movements contradict the counts")
        return found

    def means(self, compared: np.ndarray) -> np.ndarray:
        """Return the mean distance of each pair i < j, infinite before two comparisons."""
        return np.asarray(np.where(compared > 1, self.total / np.maximum(compared, 1), math.inf))

    def seen(self, i: int, j: int, tries: int) -> tuple[float, float, float]:
        """Return the mean distance of a pair and a 95 % interval, (0, 1) before two comparisons."""
        if tries == 0:
            return math.nan, 0.0, 1.0
        mean = float(self.total[i, j]) / tries
        if tries == 1:
            return mean, 0.0, 1.0
        variance = max(float(self.squares[i, j]) / tries - mean * mean, 1.0 / tries**2)
        half = QUANTILE * math.sqrt(variance / tries)
        return mean, max(mean - half, 0.0), min(mean + half, 1.0)

    def chain(self, compared: np.ndarray) -> Chain | None:
        """Return whether the movements add up; None for too many stages, or with few comparisons of all of them."""
        if len(self.total) > MOST_CHAINED or compared[0, -1] < LEAST_CHAINED:
            return None
        return chain_of_sums(compared, self.total, self.squares, self.gaps, self.gap_squares)


# -- what a state holds


def read_number(name: str) -> Callable[[dict[str, Any]], Any]:
    """Return what reads ``loss`` or ``scale`` from a state; without a loss, ``scale`` may be an option of a policy."""
    return lambda body: body["numbers"][name] if (body.get("numbers") or {}).get("loss") else LEFT_OUT


def numbers_state(code: Comparer, moved: Moved) -> dict[str, Any]:
    """Return what the state of a cascade with answers that are numbers holds of them."""
    loss = code.metric if isinstance(code.metric, Squared) else None
    told = {"loss": None, "scale": None} if loss is None else {"loss": "squared", "scale": loss.scale}
    return {"numbers": {**told, "moved": moved.state()}}


def restored_moved(arms: int, body: Mapping[str, Any], compared: np.ndarray) -> Moved:
    """Return the sums in a state, or raise `StateError`."""
    told = body.get("numbers")
    kinds = {"loss": (str, type(None)), "scale": (int, float, type(None)), "moved": (dict,)}
    require("numbers", told, kinds)
    return Moved.from_state(arms, told["moved"], compared)  # type: ignore[index]
