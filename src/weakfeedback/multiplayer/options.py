"""Validate the players' options."""

from typing import Any

from weakfeedback.multiplayer.opening import seating_length
from weakfeedback.validate import integer

MOST_ARMS = 10**9  # with many more, 1 - 1 / (4 K) rounds to 1


def seating(seating_rounds: Any, arms: int, delta: float) -> int:
    """Return the number of slots of orthogonalisation: T_RP of the thesis by default."""
    if seating_rounds is None:
        return int(seating_length(integer("arms", arms, 2, MOST_ARMS), delta))
    return integer("seating_rounds", seating_rounds, 1)
