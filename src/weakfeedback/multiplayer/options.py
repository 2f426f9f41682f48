"""Validate the players' options."""

from typing import Any

from weakfeedback.multiplayer.opening import seating_length
from weakfeedback.validate import brief, integer

MOST_ARMS = 10**9  # with many more, 1 - 1 / (4 K) rounds to 1


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Validate a choice among a few words."""
    if not isinstance(value, str) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {brief(value)}")
    return value


def seating(seating_rounds: Any, arms: int, delta: float) -> int:
    """Return the number of slots of orthogonalisation: T_RP of the thesis by default."""
    if seating_rounds is None:
        return int(seating_length(integer("arms", arms, 2, MOST_ARMS), delta))
    return integer("seating_rounds", seating_rounds, 1)
