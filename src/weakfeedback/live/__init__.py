"""The objects that people hold: policies in use, with ids, delayed feedback, threads and saved states."""

from weakfeedback.live.cascade import Answer, Cascade, Costed, Decision, majority
from weakfeedback.live.ledger import FeedbackConflict, PendingDecision, UnknownDecision
from weakfeedback.live.report import CascadeReport
from weakfeedback.live.storage import StateError

__all__ = [
    "Answer",
    "Cascade",
    "CascadeReport",
    "Costed",
    "Decision",
    "FeedbackConflict",
    "PendingDecision",
    "StateError",
    "UnknownDecision",
    "majority",
]
