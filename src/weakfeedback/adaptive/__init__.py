"""Cascades that stop within the round when an answer is good enough, without labels. Not in the thesis."""

from typing import TYPE_CHECKING

from weakfeedback.settings.setting import exporting

if TYPE_CHECKING:
    from weakfeedback.adaptive.audit import RuleAudit as RuleAudit
    from weakfeedback.adaptive.audit import audit_rule as audit_rule
    from weakfeedback.adaptive.audit import audit_stops as audit_stops
    from weakfeedback.adaptive.policies.agreement import Agreement as Agreement
    from weakfeedback.adaptive.policies.fixed_arm import FixedArm as FixedArm
    from weakfeedback.adaptive.policies.promise import Promise as Promise
    from weakfeedback.adaptive.policies.thresholds import Thresholds as Thresholds
    from weakfeedback.adaptive.policies.uss_a import UssA as UssA
    from weakfeedback.adaptive.policies.uss_next import UssNext as UssNext
    from weakfeedback.adaptive.problem import AdaptiveProblem as AdaptiveProblem

__getattr__, __dir__ = exporting(
    __name__, {"audit": "RuleAudit audit_rule audit_stops", "problem": "AdaptiveProblem"}
)
