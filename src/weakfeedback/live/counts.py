"""Counts of a cascade beside its policy: comparisons of stages, stops and money."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.live import storage
from weakfeedback.live.storage import StateError

ARRAYS = ("differed", "compared", "stops")
SUMS = ("spent", "saved", "alone", "wasted")


class Counts(NamedTuple):
    """Counts for K stages. Immutable: a round creates new ones, so that a record can keep the old."""

    differed: np.ndarray  # pairs i < j whose answers differed
    seen: tuple[int, ...]  # seen[k]: how often the stages up to k were compared, and none after it
    stops: tuple[int, ...]  # rounds that stopped at each stage
    spent: float = 0.0  # on rounds that were learned
    saved: float = 0.0  # stated costs of the calls not made
    alone: float = 0.0  # what the last stage alone would have cost
    wasted: float = 0.0  # spent on rounds that failed
    labels: int = 0  # bought
    label_spent: float = 0.0

    @classmethod
    def of(cls, arms: int) -> Counts:
        """Return the counts before the first round."""
        return cls(np.zeros((arms, arms), dtype=np.int64), (0,) * arms, (0,) * arms)

    @property
    def compared(self) -> np.ndarray:
        """How often the pairs i < j were seen together."""
        return pairs_compared(self.seen)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return sum(self.stops)

    @property
    def learned(self) -> int:
        """The number of feedbacks: one for every round."""
        return self.rounds

    def after_round(self, arm: int, differ: np.ndarray, cost: float, saved: float, alone: float) -> Counts:
        """Count a round that stopped at this stage; ``differ`` has the pairs i < j <= arm."""
        differed, seen = self._compared(arm, differ)
        stops = (*self.stops[:arm], self.stops[arm] + 1, *self.stops[arm + 1 :])
        spent, saved, alone = self.spent + cost, self.saved + saved, self.alone + alone
        if spent == math.inf or alone == math.inf:
            raise ValueError(
                f"costs must have a finite sum with the {self.spent:g} spent so far, got {cost!r}"
            )
        return Counts(differed, seen, stops, spent, saved, alone, self.wasted, self.labels, self.label_spent)

    def after_comparison(self, arm: int, differ: np.ndarray) -> Counts:
        """Count a comparison of the stages up to ``arm`` outside a round."""
        differed, seen = self._compared(arm, differ)
        return self._replace(differed=differed, seen=seen)

    def after_label(self, cost: float) -> Counts:
        """Count a label that was bought."""
        return self._replace(labels=self.labels + 1, label_spent=self.label_spent + cost)

    def after_failure(self, cost: float) -> Counts:
        """Count what was spent on a round that failed."""
        return self._replace(wasted=min(self.wasted + cost, sys.float_info.max))

    def _compared(self, arm: int, differ: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
        if arm == 0:
            return self.differed, self.seen
        differed = self.differed
        if b"\1" in differ.tobytes():  # faster than any() for few items
            differed = differed.copy()
            differed[: arm + 1, : arm + 1] += differ
        return differed, (*self.seen[:arm], self.seen[arm] + 1, *self.seen[arm + 1 :])

    def state(self) -> dict[str, Any]:
        """Return everything but the labels as plain data."""
        arrays = {
            "differed": self.differed,
            "compared": self.compared,
            "stops": np.array(self.stops, dtype=np.int64),
        }
        encoded = {name: storage.encode(value) for name, value in arrays.items()}
        return encoded | {name: getattr(self, name) for name in SUMS}

    @classmethod
    def from_state(cls, arms: int, state: Any) -> Counts:
        """Return the counts that gave ``state``, or raise `StateError`."""
        if not isinstance(state, dict) or set(state) != {*ARRAYS, *SUMS}:
            raise StateError(f"the counts must hold exactly: {', '.join(ARRAYS + SUMS)}")
        square = np.zeros((arms, arms), dtype=np.int64)
        differed = storage.restored("differed", square, state["differed"])
        compared = storage.restored("compared", square, state["compared"])
        stops = storage.restored("stops", square[0], state["stops"])
        sums = [storage.restored(name, 0.0, state[name]) for name in SUMS]
        reached = np.append(compared[0], 0)  # a stage is compared with the first one whenever it is seen
        seen = (0, *(reached[1:-1] - reached[2:]).tolist())
        sound = (
            (differed >= 0).all()
            and (differed <= compared).all()
            and (stops >= 0).all()
            and min(seen) >= 0
            and np.array_equal(pairs_compared(seen), compared)
            and all(0.0 <= value < math.inf for value in sums)
        )
        if not sound:
            raise StateError("the counts contradict each other")
        return cls(differed, seen, tuple(stops.tolist()), *sums)


def pairs_compared(seen: tuple[int, ...] | list[int]) -> np.ndarray:
    """Return how often pairs i < j were compared, if the stages up to k and none after it were so ``seen[k]`` times.

    >>> pairs_compared([0, 5, 2]).tolist()
    [[0, 7, 2], [0, 0, 2], [0, 0, 0]]
    """
    reached = np.cumsum(seen[::-1])[::-1]
    return np.triu(np.broadcast_to(reached, (len(seen), len(seen))), 1)
