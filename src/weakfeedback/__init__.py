"""Deciding well when you never see the reward.

The names below are the public surface; they are imported when first used, so that
``import weakfeedback`` is fast and compiles nothing.
"""

from typing import TYPE_CHECKING, Any

from weakfeedback._version import __version__

if TYPE_CHECKING:
    from weakfeedback.engine.results import Results
    from weakfeedback.engine.simulate import InterpretedWarning, simulate

_HOMES = {
    "simulate": "weakfeedback.engine.simulate",
    "InterpretedWarning": "weakfeedback.engine.simulate",
    "Results": "weakfeedback.engine.results",
}

__all__ = ["InterpretedWarning", "Results", "__version__", "simulate"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'weakfeedback' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
