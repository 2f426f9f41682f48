"""Wrappers of a policy: one that delays its feedback, one that records its decisions."""

import copy
from typing import Any

from weakfeedback.checks.case import copy_of
from weakfeedback.contract.steps import Wrapper


class Late(Wrapper):
    """Wraps a policy and forwards feedback some rounds late."""

    def __init__(self, policy: Any, delay: int) -> None:
        super().__init__(policy)
        self._delay = delay
        self._waiting: list[tuple[Any, Any]] = []

    def update(self, *feedback: Any, **truth: Any) -> None:
        """Queue the feedback and forward the oldest."""
        *taught, rng = feedback
        self._waiting.append(([copy_of(one) for one in taught], copy.deepcopy(truth)))
        if len(self._waiting) > self._delay:
            oldest, told = self._waiting.pop(0)
            self.wrapped.update(*oldest, rng, **told)


class Spy(Wrapper):
    """Wraps a policy and records its decisions."""

    def __init__(self, policy: Any, decides: str) -> None:
        super().__init__(policy)
        self.decisions: list[Any] = []
        self._decides = decides

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.wrapped, name)
        if name != self._decides:
            return method

        def noted(*arguments: Any) -> Any:
            self.decisions.append(method(*arguments))
            return copy.deepcopy(self.decisions[-1])

        return noted
