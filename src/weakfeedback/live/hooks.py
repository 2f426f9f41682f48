"""Hooks of a live object: what they are told, and that they cannot harm a round."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

Hook = Callable[[dict[str, Any]], Any]
log = logging.getLogger("weakfeedback.live")
WAITING = 10_000  # events that wait for their hooks


class Hooks:
    """Functions that are told of decisions and feedback, after these are made and without the lock."""

    def __init__(self) -> None:
        self._known: dict[str, list[Hook]] = {"decision": [], "feedback": []}
        self._news: deque[dict[str, Any]] = deque(maxlen=WAITING)

    def add(self, kind: str, hook: Hook) -> None:
        """Call ``hook`` with every event of this kind from now on."""
        if not callable(hook):
            raise ValueError(f"a hook must be callable, got {hook!r:.60}")
        self._known[kind].append(hook)

    def hears(self, kind: str) -> bool:
        """Whether anybody wants to know."""
        return bool(self._known[kind])

    def note(self, kind: str, id: int, body: dict[str, Any]) -> None:
        """Keep an event until `tell`."""
        self._news.append({"kind": kind, "id": id, **body})

    def tell(self) -> None:
        """Call the hooks; an exception of theirs is logged, and goes no further."""
        while self._news:
            try:
                event = self._news.popleft()
            except IndexError:  # another thread was faster
                return
            for hook in self._known[event["kind"]]:
                try:
                    hook(dict(event))
                except Exception:
                    log.exception("a hook failed at %s %s", event["kind"], event["id"])
