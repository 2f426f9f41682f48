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
        self.compared = np.zeros((arms, arms), dtype=np.int64)  # pairs i < j seen together
        self.stops = np.zeros(arms, dtype=np.int64)  # rounds that stopped at each stage
        self.spent = 0.0
        self.saved = 0.0  # stated costs of the calls not made
        self.wasted = 0.0  # spent on rounds that failed
        self._pairs = np.triu(np.ones((arms, arms), dtype=np.int64), 1)

    def compare(self, arm: int, differ: np.ndarray) -> None:
        """Count the pairs i < j <= arm."""
        if arm == 0:
            return
        differed, compared = self.differed.copy(), self.compared.copy()
        differed[: arm + 1, : arm + 1] += differ
        compared[: arm + 1, : arm + 1] += self._pairs[: arm + 1, : arm + 1]
        self.differed, self.compared = differed, compared

    def state(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {name: storage.encode(getattr(self, name)) for name in ARRAYS + SUMS}

    @classmethod
    def from_state(cls, arms: int, state: Any) -> Tally:
        """Return the tally that gave ``state``, or raise `StateError`."""
        tally = cls(arms)
        if not isinstance(state, dict) or set(state) != {*ARRAYS, *SUMS}:
            raise StateError(f"the counts must hold exactly: {', '.join(ARRAYS + SUMS)}")
        for name, value in state.items():
            setattr(tally, name, storage.restored(name, getattr(tally, name), value))
        sound = (
            (tally.differed >= 0).all()
            and (tally.differed <= tally.compared).all()
            and (tally.stops >= 0).all()
        )
        if not sound or not min(tally.spent, tally.saved, tally.wasted) >= 0.0:
            raise StateError("the counts contradict each other")
        return tally
