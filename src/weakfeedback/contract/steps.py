"""What the checks must know of the rounds of a setting: how they are recorded, replayed, and changed unseen."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weakfeedback.contract.typing import Rng


class Told(NamedTuple):
    """What a policy is told in a round: the method that is called, and its arguments."""

    method: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def to(self, policy: Any, rng: Any) -> Any:
        """Tell it to a policy."""
        given = [rng if one is Rng else one for one in self.arguments]
        return getattr(policy, self.method)(*given, **self.named)


class Steps:
    """How rounds are recorded (``record``), replayed (``script``), and changed behind a policy's back (``scramble``).

    The rounds themselves are those of the setting's loop.
    """

    decides = "select"  # the method that returns the decision
    pair_methods: tuple[str, ...] = ()  # those that take pairs, for callers with their own comparison

    def decision(self, policy: Any, answers: Sequence[Any]) -> Any:
        """Return the decision of a round, by what ``decides`` answered in it."""
        return answers[0]

    def told_again(self, told: Told, decision: Any) -> Told:
        """Return what a policy is told of a round before its feedback, if that may come late."""
        return told

    def learn(self, policy: Any, decision: Any, told: Sequence[Told], rng: Any) -> Any:
        """Give the feedback of a decision."""
        for one in told:
            self.told_again(one, decision).to(policy, rng)

    def as_pairs(self, policy: Any, told: Told, size: int) -> Told:
        """Return the same with a ``size`` x ``size`` matrix of disagreements in place of outputs."""
        raise NotImplementedError


class Wrapper:
    """Wraps a policy, which it passes for; what it does not define itself is the policy's."""

    def __init__(self, policy: Any) -> None:
        self.wrapped = policy

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return self.wrapped.__class__

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wrapped, name)


class Replay(Wrapper):
    """Wraps a world whose draws fill an array: these are replaced by recorded ones."""

    def __init__(self, world: Any, rows: np.ndarray) -> None:
        super().__init__(world)
        self.rows = rows
        self.served = 0

    def begin(self, rng: Rng) -> None:
        """Nothing to prepare."""

    def draw(self, hidden: np.ndarray, *rest: Any) -> None:
        """Write the next row."""
        hidden[:] = self.rows[self.served].reshape(hidden.shape)
        self.served += 1
