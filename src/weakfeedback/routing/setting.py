"""Registration of the setting "routing"."""

import math

from weakfeedback.routing.instances import load
from weakfeedback.routing.problem import RoutingProblem
from weakfeedback.settings.setting import Form, Policies, Setting, Words, in_a_row


def sample_problem() -> RoutingProblem:
    """Three models whose prices are in the ratio 1 : 4 : 12."""
    return load("prices-1-4-12")


def describe_problem(problem: RoutingProblem) -> Words:
    """Describe a problem for readers."""
    holds = "holds" if problem.weak_dominance else "fails: the optimal model cannot be learned"
    return [
        ("Models", f"{problem.arms}, counted from 0"),
        ("Prices, each alone", in_a_row(problem.prices)),
        ("Error rates", in_a_row(problem.errors)),
        ("Loss per round above the best", in_a_row(problem.gaps)),
        ("Optimal model", str(problem.optimal_arm)),
        ("Weak dominance", holds),
        ("ξ", "∞" if math.isinf(problem.xi) else f"{problem.xi:.4g}"),
        ("Margin", "∞" if math.isinf(problem.margin) else f"{problem.margin:.4g}"),
    ]


SETTING = Setting(
    name="routing",
    summary="models that can be called alone, whose errors are never revealed (beyond the thesis)",
    policies=Policies(
        "weakfeedback.routing.policies",
        {
            "Pay-to-compare": "pay_to_compare:PayToCompare",
            "Double-Thompson": "double_thompson:DoubleThompson",
            "Fixed-model": "fixed_model:FixedModel",
        },
    ),
    first=("prices",),
    arguments=lambda problem: (problem.prices,),
    samples={"prices": sample_problem},
    describe_problem=describe_problem,
    forms=(Form(RoutingProblem.from_predictions, ("truth", "predictions")), Form(RoutingProblem)),
    listed=("weak_dominance", "xi", "optimal_arm"),
)
