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

# by module, its names; for type checkers the same above, which a test compares
_HOMES = {
    "adaptive_report": "AdaptiveReport",
    "allocation_report": "AllocationReport",
    "allocator": "Allocator Allotment",
    "cascade": "Answer Audit Cascade Costed Decision Scored majority",
    "cascade_report": "CascadeReport",
    "context_report": "ContextualReport",
    "contextual": "ContextualCascade",
    "errors": "DurabilityWarning FeedbackConflict PendingDecision Refused UnknownDecision",
    "games.adaptive": "Step",
    "player": "Player WrongSlot",
    "player_report": "PlayerReport",
    "promise_report": "PromiseCertificate PromiseReport",
    "router": "Router RouterAnswer RouterDecision",
    "router_report": "RouterReport",
    "storage": "StateError",
}
__getattr__, __dir__ = importing(__name__, _HOMES)
__all__ = __dir__()
