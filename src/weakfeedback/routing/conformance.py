"""One round of routing split into its steps, for checks that act between them."""

from typing import Any

import numpy as np

from weakfeedback.cascade.conformance import Recorded, Rows
from weakfeedback.contract.typing import Rng, RoutingPolicy


class Script(Rows):
    """A world that replays given rows (y, y1, ..., yK), showing the outputs of the models called."""

    def show(self, row: Any, call: np.ndarray, seen: Any) -> int:
        """Write the outputs of the models called into ``seen``, side by side, and return how many they are."""
        shown = self.rows[row, 1:][call]
        seen[: shown.size] = shown
        return int(shown.size)


class Protocol(Recorded):
    """Draw, decide, show and learn as separate steps; a round is counted when it is learned from."""

    def script(self, hidden: np.ndarray) -> Script:
        """Return a world that replays recorded data."""
        return Script(hidden)

    def decide(self, policy: RoutingPolicy, rng: Rng) -> Any:
        """Ask for the models to call."""
        return policy.select(rng)

    def show(self, row: Any, call: np.ndarray) -> Any:
        """Return what the policy may see of a row."""
        return row[1:][call]

    def learn(self, policy: RoutingPolicy, call: np.ndarray, seen: Any, rng: Rng) -> None:
        """Count the round and give its feedback."""
        policy.start(call, rng)
        policy.update(call, seen, rng)

    def learn_pairs(self, policy: Any, call: np.ndarray, seen: Any, rng: Rng, size: int) -> None:
        """Do the same with a ``size`` x ``size`` matrix of disagreements."""
        policy.start(call, rng)
        policy.update_pairs(call, differences(call, seen, size), rng)

    def scramble(self, row: Any, call: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy."""
        other = rng.integers(0, 1000, size=row.size)
        other[1:][call] = row[1:][call]
        return other


def differences(call: np.ndarray, outputs: np.ndarray, size: int) -> np.ndarray:
    """Return which pairs i < j of the models called differ, as a matrix by models.

    >>> differences(np.array([True, False, True]), [5, 6], 3).tolist()[0]
    [False, False, True]
    """
    models = np.flatnonzero(call)
    differ = np.zeros((size, size), dtype=np.bool_)
    for a, i in enumerate(models):
        for b in range(a + 1, models.size):
            differ[i, models[b]] = outputs[a] != outputs[b]
    return differ
