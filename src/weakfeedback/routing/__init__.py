"""Models that can be called alone: which one to trust, learned from comparisons bought only when worth the price."""

from typing import TYPE_CHECKING

from weakfeedback.routing.problem import RoutingProblem
from weakfeedback.routing.setting import SETTING

if TYPE_CHECKING:
    from weakfeedback.routing.policies.double_thompson import DoubleThompson as DoubleThompson
    from weakfeedback.routing.policies.fixed_model import FixedModel as FixedModel
    from weakfeedback.routing.policies.pay_to_compare import PayToCompare as PayToCompare
    from weakfeedback.routing.policies.second_looks import SecondLooks as SecondLooks

# and the policies, which are imported when first used
__all__ = ["RoutingProblem", *SETTING.policies.classes]
__getattr__, __dir__ = SETTING.policies.exported(__name__, __all__)
