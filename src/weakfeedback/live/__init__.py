"""Live objects: policies in production use, with ids, delayed feedback, threads and saved states."""

from typing import TYPE_CHECKING

from weakfeedback.lazy import importing

if TYPE_CHECKING:
    from weakfeedback.live.adaptive_report import AdaptiveReport as AdaptiveReport
    from weakfeedback.live.allocation_report import AllocationReport as AllocationReport
    from weakfeedback.live.allocator import Allocator as Allocator
    from weakfeedback.live.allocator import Allotment as Allotment
    from weakfeedback.live.cascade import Answer as Answer
    from weakfeedback.live.cascade import Audit as Audit
    from weakfeedback.live.cascade import Cascade as Cascade
    from weakfeedback.live.cascade import Costed as Costed
    from weakfeedback.live.cascade import Decision as Decision
    from weakfeedback.live.cascade import Scored as Scored
    from weakfeedback.live.cascade import majority as majority
    from weakfeedback.live.cascade_report import CascadeReport as CascadeReport
    from weakfeedback.live.context_report import ContextualReport as ContextualReport
    from weakfeedback.live.contextual import ContextualCascade as ContextualCascade
    from weakfeedback.live.errors import DurabilityWarning as DurabilityWarning
    from weakfeedback.live.errors import FeedbackConflict as FeedbackConflict
    from weakfeedback.live.errors import PendingDecision as PendingDecision
    from weakfeedback.live.errors import Refused as Refused
    from weakfeedback.live.errors import UnknownDecision as UnknownDecision
    from weakfeedback.live.games.adaptive import Step as Step
    from weakfeedback.live.player import Player as Player
    from weakfeedback.live.player import WrongSlot as WrongSlot
    from weakfeedback.live.player_report import PlayerReport as PlayerReport
    from weakfeedback.live.promise_report import PromiseCertificate as PromiseCertificate
    from weakfeedback.live.promise_report import PromiseReport as PromiseReport
    from weakfeedback.live.router import Router as Router
    from weakfeedback.live.router import RouterAnswer as RouterAnswer
    from weakfeedback.live.router import RouterDecision as RouterDecision
    from weakfeedback.live.router_report import RouterReport as RouterReport
    from weakfeedback.live.storage import StateError as StateError

# the names and where they are; for type checkers the same above
_HOMES = {
    "AdaptiveReport": "weakfeedback.live.adaptive_report",
    "AllocationReport": "weakfeedback.live.allocation_report",
    "Allocator": "weakfeedback.live.allocator",
    "Allotment": "weakfeedback.live.allocator",
    "Answer": "weakfeedback.live.cascade",
    "Audit": "weakfeedback.live.cascade",
    "Cascade": "weakfeedback.live.cascade",
    "CascadeReport": "weakfeedback.live.cascade_report",
    "ContextualCascade": "weakfeedback.live.contextual",
    "ContextualReport": "weakfeedback.live.context_report",
    "Costed": "weakfeedback.live.cascade",
    "Decision": "weakfeedback.live.cascade",
    "DurabilityWarning": "weakfeedback.live.errors",
    "FeedbackConflict": "weakfeedback.live.errors",
    "PendingDecision": "weakfeedback.live.errors",
    "Player": "weakfeedback.live.player",
    "PlayerReport": "weakfeedback.live.player_report",
    "PromiseCertificate": "weakfeedback.live.promise_report",
    "PromiseReport": "weakfeedback.live.promise_report",
    "Refused": "weakfeedback.live.errors",
    "Router": "weakfeedback.live.router",
    "RouterAnswer": "weakfeedback.live.router",
    "RouterDecision": "weakfeedback.live.router",
    "RouterReport": "weakfeedback.live.router_report",
    "Scored": "weakfeedback.live.cascade",
    "StateError": "weakfeedback.live.storage",
    "Step": "weakfeedback.live.games.adaptive",
    "UnknownDecision": "weakfeedback.live.errors",
    "WrongSlot": "weakfeedback.live.player",
    "majority": "weakfeedback.live.cascade",
}
__all__ = list(_HOMES)
__getattr__ = importing(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
