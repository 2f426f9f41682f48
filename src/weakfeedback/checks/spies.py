"""Wrappers of a policy: one that delays its feedback, one that records its decisions."""

import copy
from typing import Any

from weakfeedback.checks.case import copy_of


class Late:
    """Wraps a policy and forwards feedback some rounds late."""

    def __init__(self, policy: Any, delay: int) -> None:
        self._policy, self._delay = policy, delay
        self._waiting: list[tuple[Any, Any]] = []

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._policy)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def update(self, *feedback: Any, **truth: Any) -> None:
        """Queue the feedback and forward the oldest."""
        *taught, rng = feedback
        self._waiting.append(([copy_of(one) for one in taught], copy.deepcopy(truth)))
        if len(self._waiting) > self._delay:
            oldest, told = self._waiting.pop(0)
            self._policy.update(*oldest, rng, **told)


class Spy:
    """Wraps a policy and records its decisions."""

    def __init__(self, policy: Any, decides: str) -> None:
        self.decisions: list[Any] = []
        self._policy, self._decides = policy, decides

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._policy)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._policy, name)
        if name != self._decides:
            return method

        def noted(*arguments: Any) -> Any:
            self.decisions.append(method(*arguments))
            return copy.deepcopy(self.decisions[-1])

        return noted
