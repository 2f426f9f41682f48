"""What a cascade counts beside its policy: comparisons of stages, stops and money."""

from __future__ import annotations

from typing import Any

import numpy as np

from weakfeedback.live import storage
from weakfeedback.live.storage import StateError

ARRAYS = ("differed", "compared", "stops")
SUMS = ("spent", "saved", "wasted")


class Tally:
    """Counts for K stages; any policy can be reported on, whatever statistics it keeps itself."""

    def __init__(self, arms: int) -> None:
        # These two are replaced, never changed in place: a record of a decision can keep them as they were.
        self.differed = np.zeros((arms, arms), dtype=np.int64)  # pairs i < j whose answers differed
        self.seen = [0] * arms  # seen[k]: how often the stages up to k were compared, and none after it
        self.stops = np.zeros(arms, dtype=np.int64)  # rounds that stopped at each stage
        self.spent = 0.0
        self.saved = 0.0  # stated costs of the calls not made
        self.wasted = 0.0  # spent on rounds that failed

    @property
    def compared(self) -> np.ndarray:
        """How often the pairs i < j were seen together."""
        return pairs_compared(self.seen)

    def compare(self, arm: int, differ: np.ndarray) -> None:
        """Count the pairs i < j <= arm."""
        if arm == 0:
            return
        differed = self.differed.copy()
        differed[: arm + 1, : arm + 1] += differ
        self.differed = differed
        self._see(arm)

    def compare_pairs(self, arm: int, differing: list[tuple[int, int]]) -> None:
        """Count the pairs i < j <= arm, of which these differed."""
        if arm == 0:
            return
        if differing:
            differed = self.differed.copy()
            for pair in differing:
                differed[pair] += 1
            self.differed = differed
        self._see(arm)

    def stop(self, arm: int, cost: float, saved: float) -> None:
        """Count a round that stopped at this stage."""
        self.stops[arm] += 1
        self.spent += cost
        self.saved += saved

    def _see(self, arm: int) -> None:
        seen = self.seen.copy()
        seen[arm] += 1
        self.seen = seen

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {name: storage.encode(getattr(self, name)) for name in ARRAYS + SUMS}

    @classmethod
    def from_state(cls, arms: int, state: Any) -> Tally:
        """Return the tally that gave ``state``, or raise `StateError`."""
        tally = cls(arms)
        if not isinstance(state, dict) or set(state) != {*ARRAYS, *SUMS}:
            raise StateError(f"the counts must hold exactly: {', '.join(ARRAYS + SUMS)}")
        found = {name: storage.restored(name, getattr(tally, name), value) for name, value in state.items()}
        compared = found.pop("compared")
        for name, value in found.items():
            setattr(tally, name, value)
        reached = np.append(compared[0], 0)  # a stage is compared with the first one whenever it is seen
        tally.seen = [0, *(reached[1:-1] - reached[2:]).tolist()]
        sound = (
            (tally.differed >= 0).all()
            and (tally.differed <= compared).all()
            and (tally.stops >= 0).all()
            and min(tally.seen) >= 0
            and np.array_equal(tally.compared, compared)
        )
        if not sound or not min(tally.spent, tally.saved, tally.wasted) >= 0.0:
            raise StateError("the counts contradict each other")
        return tally


def pairs_compared(seen: list[int]) -> np.ndarray:
    """Return how often pairs i < j were compared, if the stages up to k and none after it were so ``seen[k]`` times.

    >>> pairs_compared([0, 5, 2]).tolist()
    [[0, 7, 2], [0, 0, 2], [0, 0, 0]]
    """
    reached = np.cumsum(seen[::-1])[::-1]
    return np.triu(np.broadcast_to(reached, (len(seen), len(seen))), 1)
