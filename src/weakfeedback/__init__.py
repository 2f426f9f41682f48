"""Deciding well when you never see the reward.

The names below are the public surface; they are imported when first used, so that
``import weakfeedback`` is fast and compiles nothing.
"""

from typing import TYPE_CHECKING, Any

from weakfeedback._version import __version__

if TYPE_CHECKING:
    from weakfeedback.engine.results import Results
    from weakfeedback.engine.simulate import InterpretedWarning, simulate
    from weakfeedback.journal import JournalError, OwnedElsewhere
    from weakfeedback.live import (
        Allocator,
        Cascade,
        ContextualCascade,
        Costed,
        DurabilityWarning,
        FeedbackConflict,
        PendingDecision,
        Player,
        Router,
        Scored,
        StateError,
        UnknownDecision,
        WrongSlot,
    )

_HOMES = {
    "Allocator": "weakfeedback.live",
    "Cascade": "weakfeedback.live",
    "ContextualCascade": "weakfeedback.live",
    "Costed": "weakfeedback.live",
    "DurabilityWarning": "weakfeedback.live",
    "FeedbackConflict": "weakfeedback.live",
    "InterpretedWarning": "weakfeedback.engine.simulate",
    "JournalError": "weakfeedback.journal",
    "OwnedElsewhere": "weakfeedback.journal",
    "PendingDecision": "weakfeedback.live",
    "Player": "weakfeedback.live",
    "Results": "weakfeedback.engine.results",
    "Router": "weakfeedback.live",
    "Scored": "weakfeedback.live",
    "StateError": "weakfeedback.live",
    "UnknownDecision": "weakfeedback.live",
    "WrongSlot": "weakfeedback.live",
    "simulate": "weakfeedback.engine.simulate",
}

__all__ = [
    "Allocator",
    "Cascade",
    "ContextualCascade",
    "Costed",
    "DurabilityWarning",
    "FeedbackConflict",
    "InterpretedWarning",
    "JournalError",
    "OwnedElsewhere",
    "PendingDecision",
    "Player",
    "Results",
    "Router",
    "Scored",
    "StateError",
    "UnknownDecision",
    "WrongSlot",
    "__version__",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'weakfeedback' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
