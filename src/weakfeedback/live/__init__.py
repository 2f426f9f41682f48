"""Live objects: policies in production use, with ids, delayed feedback, threads and saved states."""

from weakfeedback.live.adaptive_report import AdaptiveReport
from weakfeedback.live.allocation_report import AllocationReport
from weakfeedback.live.allocator import Allocator, Allotment
from weakfeedback.live.cascade import Answer, Audit, Cascade, Costed, Decision, Scored, majority
from weakfeedback.live.cascade_report import CascadeReport
from weakfeedback.live.context_report import ContextualReport
from weakfeedback.live.contextual import ContextualCascade
from weakfeedback.live.errors import (
    DurabilityWarning,
    FeedbackConflict,
    PendingDecision,
    Refused,
    UnknownDecision,
)
from weakfeedback.live.player import Player, WrongSlot
from weakfeedback.live.player_report import PlayerReport
from weakfeedback.live.router import Router, RouterAnswer, RouterDecision
from weakfeedback.live.router_report import RouterReport
from weakfeedback.live.stopping import Step
from weakfeedback.live.storage import StateError

__all__ = [
    "AdaptiveReport",
    "AllocationReport",
    "Allocator",
    "Allotment",
    "Answer",
    "Audit",
    "Cascade",
    "CascadeReport",
    "ContextualCascade",
    "ContextualReport",
    "Costed",
    "Decision",
    "DurabilityWarning",
    "FeedbackConflict",
    "PendingDecision",
    "Player",
    "PlayerReport",
    "Refused",
    "Router",
    "RouterAnswer",
    "RouterDecision",
    "RouterReport",
    "Scored",
    "StateError",
    "Step",
    "UnknownDecision",
    "WrongSlot",
    "majority",
]
