"""Learners that cannot be read: nothing of theirs is served or written, and all others are served.

What was acknowledged stays in the store as it is, until somebody has looked at it, repaired it, or started a version
that reads it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from weakfeedback.journal import Learner as Stored
from weakfeedback.journal import Store
from weakfeedback.serve.models import Problem

log = logging.getLogger("weakfeedback.serve")


class KeptOut:
    """The learners of a store that are kept out, by name, and why."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Stored, str, Store]] = {}

    def add(self, stored: Stored, why: str, store: Store) -> None:
        """Keep a learner out from now on, and say so in the log."""
        store.set_apart(stored.id, why)
        self._found[stored.name] = stored, why, store
        log.error(
            "learner %s is kept out, and all others are served: %s; nothing of it is changed; to look at it: "
            "weakfeedback serve check",
            stored.name,
            why,
        )

    def ids(self) -> list[int]:
        """Return the numbers of those kept out."""
        return [stored.id for stored, *_ in self._found.values()]

    def reasons(self) -> Iterator[tuple[str, str]]:
        """Yield the names of those kept out, in order, and why."""
        for name in sorted(self._found):
            yield name, self._found[name][1]

    def forget(self, names: Callable[[str], bool] = lambda _: True) -> None:
        """Forget those with such names: they are read again, here or by another instance."""
        self._found = {name: one for name, one in self._found.items() if not names(name)}

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, name: str) -> bool:
        return self._why(name) is not None

    def check(self, name: str) -> None:
        """Raise Problem if the learner of this name is kept out."""
        why = self._why(name) if self._found else None
        if why is not None:
            raise Problem("kept_out", f"learner {name!r:.70} is kept out, as it cannot be read: {why}")

    def _why(self, name: str) -> str | None:
        if name in self._found:
            return self._found[name][1]
        # the name itself may be what is damaged
        for stored, why, store in self._found.values():
            if store.may_be(stored.id, name):
                return why
        return None

    def told(self) -> list[dict[str, str]]:
        """Return those kept out as the list of learners shows them."""
        return [{"name": name, "reason": why} for name, why in self.reasons()]


def words_of(names: Iterable[str]) -> str:
    """Return some names, and how many more there are."""
    first = list(names)
    more = f" and {len(first) - 3} more" if len(first) > 3 else ""
    return ", ".join(first[:3]) + more
