"""One round split into its steps, for checks that act between them: what the settings share."""

from typing import Any

import numpy as np

from weakfeedback.contract.typing import Rng


class Rows:
    """A world that replays recorded rounds, one row each."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.served = 0

    def begin(self, rng: Rng) -> None:
        """Nothing to prepare."""

    def draw(self, rng: Rng) -> int:
        """Return the number of the next row."""
        self.served += 1
        return self.served - 1


class Steps:
    """Draw, decide, show and learn as separate steps.

    A setting says what is recorded of a round (``record``), what of it a policy may see (``show``), and which other
    rounds look the same to it (``scramble``).
    """

    decides = "select"  # the method that returns the decision
    replays: Any = Rows  # the world that replays recorded data

    def script(self, hidden: np.ndarray) -> Any:
        """Return a world that replays recorded data."""
        return self.replays(hidden)

    def decide(self, policy: Any, *told: Any) -> Any:
        """Ask for a decision; ``told`` is what is announced before it, and the generator."""
        return policy.select(*told)

    def learn(self, policy: Any, decision: Any, seen: Any, rng: Any) -> Any:
        """Give the feedback of a decision."""
        policy.update(decision, seen, rng)


class Wrapper:
    """Wraps a policy, which it passes for; what it does not define itself is the policy's."""

    def __init__(self, policy: Any) -> None:
        self.wrapped = policy

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.wrapped)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)
