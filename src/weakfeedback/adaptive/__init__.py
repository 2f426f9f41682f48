"""Cascades that stop within the round when an answer is good enough, without labels. Not in the thesis."""

from weakfeedback.adaptive.audit import RuleAudit, audit_rule, audit_stops
from weakfeedback.adaptive.policies.agreement import Agreement
from weakfeedback.adaptive.policies.fixed_arm import FixedArm
from weakfeedback.adaptive.policies.promise import Promise
from weakfeedback.adaptive.policies.thresholds import Thresholds
from weakfeedback.adaptive.policies.uss_a import UssA
from weakfeedback.adaptive.policies.uss_next import UssNext
from weakfeedback.adaptive.problem import AdaptiveProblem

__all__ = [
    "AdaptiveProblem",
    "Agreement",
    "FixedArm",
    "Promise",
    "RuleAudit",
    "Thresholds",
    "UssA",
    "UssNext",
    "audit_rule",
    "audit_stops",
]
