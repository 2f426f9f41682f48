"""Models that can be called alone: which one to trust, learned from comparisons bought only when worth the price."""

from weakfeedback.routing.policies.double_thompson import DoubleThompson
from weakfeedback.routing.policies.fixed_model import FixedModel
from weakfeedback.routing.policies.pay_to_compare import PayToCompare
from weakfeedback.routing.problem import RoutingProblem

__all__ = ["DoubleThompson", "FixedModel", "PayToCompare", "RoutingProblem"]
