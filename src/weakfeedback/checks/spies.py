"""A wrapper of a policy that delays its feedback."""

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
