"""What a setting tells the engine about its round loop."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Loop:
    """The round loop of a setting and the methods it calls on a policy."""

    play: Callable
    entry: tuple[str, ...]
