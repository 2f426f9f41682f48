"""The fold of a journal: each event is applied again to what decides, and must come out as it was logged.

There is one function for each kind of event. Every other kind is an alteration, such as new prices, which the object
itself knows by its name. The methods that make a logged body again are those of `weakfeedback.live.core.Core`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weakfeedback.journal.events import Event, JournalError


def apply(core: Any, event: Event, same: bool, where: str) -> str | None:
    """Apply an event; ``same`` is true if this version of the package wrote it.

    Return None or, if the logged decision stands against the one made now, one line about it. An event that cannot be
    applied, or that comes out differently in the version that wrote it, raises JournalError.
    """
    kind = event.kind
    work = _open if kind == core.opening else KINDS.get(kind, _alter)
    try:
        made, logged = work(core, event)
    except (LookupError, TypeError, ValueError, ArithmeticError) as error:
        if isinstance(error, JournalError):
            raise
        raise JournalError(f"{where}: event {event.seq} ({kind}) cannot be applied: {error}") from None
    if made == logged:
        return None
    words = f"{where}: event {event.seq}: decision {event.decision} was {logged}, and is now {made}"
    if same:
        raise JournalError(f"{words}: the journal or the code was changed")
    if event.decision is not None:
        core.overrule(kind, event.decision, event.body)
    return f"{words}: the logged one stands (another version of the package wrote it)"


Compared = tuple[Any, Any]  # what was made again, and what was logged


def _open(core: Any, event: Event) -> Compared:
    id, made = core.reopen(event.body)
    return (made, event.body) if id == event.decision else (id, event.decision)


def _close(core: Any, event: Event) -> Compared:
    if not core.close([event.decision], event.body.get("cost", 0.0), event.kind):
        raise LookupError(f"decision {event.decision} is not pending")
    return None, None


def _skip(core: Any, event: Event) -> Compared:
    core.skip(event.body["next"], event.body["every"])
    return None, None


def _alter(core: Any, event: Event) -> Compared:
    return core.alter(event.kind, event.body), event.body


KINDS: dict[str, Callable[[Any, Event], Compared]] = {
    "feedback": lambda core, event: (core.relearn(event.decision, event.body), event.body),
    "tell": lambda core, event: (core.retell(event.decision, event.body), event.body),
    "cancel": _close,
    "expire": _close,
    "resume": _skip,
}
