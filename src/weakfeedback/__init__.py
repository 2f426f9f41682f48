"""Deciding well when you never see the reward.

The names below are the public surface; they are imported when first used, so that
``import weakfeedback`` is fast and compiles nothing.
"""

from typing import TYPE_CHECKING

from weakfeedback._version import __version__
from weakfeedback.lazy import importing

if TYPE_CHECKING:
    from weakfeedback.engine.results import Results as Results
    from weakfeedback.engine.simulate import InterpretedWarning as InterpretedWarning
    from weakfeedback.engine.simulate import simulate as simulate
    from weakfeedback.journal import JournalError as JournalError
    from weakfeedback.journal import OwnedElsewhere as OwnedElsewhere
    from weakfeedback.live import Allocator as Allocator
    from weakfeedback.live import Cascade as Cascade
    from weakfeedback.live import ContextualCascade as ContextualCascade
    from weakfeedback.live import Costed as Costed
    from weakfeedback.live import DurabilityWarning as DurabilityWarning
    from weakfeedback.live import FeedbackConflict as FeedbackConflict
    from weakfeedback.live import PendingDecision as PendingDecision
    from weakfeedback.live import Player as Player
    from weakfeedback.live import Router as Router
    from weakfeedback.live import Scored as Scored
    from weakfeedback.live import StateError as StateError
    from weakfeedback.live import UnknownDecision as UnknownDecision
    from weakfeedback.live import WrongSlot as WrongSlot
    from weakfeedback.replays import replay as replay

# by module, its names; for type checkers the same above, which a test compares
_HOMES = {
    "engine.results": "Results",
    "engine.simulate": "InterpretedWarning simulate",
    "journal": "JournalError OwnedElsewhere",
    "live": (
        "Allocator Cascade ContextualCascade Costed DurabilityWarning FeedbackConflict "
        "PendingDecision Player Router Scored StateError UnknownDecision WrongSlot"
    ),
    "replays": "replay",
}
__getattr__, __dir__ = importing(__name__, _HOMES)
__all__ = ["__version__", *__dir__()]
