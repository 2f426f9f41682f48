"""Models that can be called alone: which one to trust, learned from comparisons bought only when worth the price."""

from typing import TYPE_CHECKING

from weakfeedback.settings.setting import exporting

if TYPE_CHECKING:
    from weakfeedback.routing.policies.double_thompson import DoubleThompson as DoubleThompson
    from weakfeedback.routing.policies.fixed_model import FixedModel as FixedModel
    from weakfeedback.routing.policies.pay_to_compare import PayToCompare as PayToCompare
    from weakfeedback.routing.policies.second_looks import SecondLooks as SecondLooks
    from weakfeedback.routing.problem import RoutingProblem as RoutingProblem

__getattr__, __dir__ = exporting(__name__, {"problem": "RoutingProblem"})
