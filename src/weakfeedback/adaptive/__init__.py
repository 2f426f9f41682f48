"""Cascades that stop within the round when an answer is good enough, without labels. Not in the thesis."""

from typing import TYPE_CHECKING

from weakfeedback.adaptive.audit import RuleAudit, audit_rule, audit_stops
from weakfeedback.adaptive.problem import AdaptiveProblem
from weakfeedback.adaptive.setting import SETTING

if TYPE_CHECKING:
    from weakfeedback.adaptive.policies.agreement import Agreement as Agreement
    from weakfeedback.adaptive.policies.fixed_arm import FixedArm as FixedArm
    from weakfeedback.adaptive.policies.promise import Promise as Promise
    from weakfeedback.adaptive.policies.thresholds import Thresholds as Thresholds
    from weakfeedback.adaptive.policies.uss_a import UssA as UssA
    from weakfeedback.adaptive.policies.uss_next import UssNext as UssNext

# and the policies, which are imported when first used
__all__ = ["AdaptiveProblem", "RuleAudit", "audit_rule", "audit_stops", *SETTING.policies.classes]
__getattr__, __dir__ = SETTING.policies.exported(__name__, __all__)
