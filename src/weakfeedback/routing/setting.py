"""Registration of the setting "routing"."""

import math

from weakfeedback.routing.instances import load
from weakfeedback.routing.problem import RoutingProblem
from weakfeedback.settings.setting import Form, Policies, Setting, Words, in_a_row


def sample_problem() -> RoutingProblem:
    """Three models whose prices are in the ratio 1 : 4 : 12."""
    return load("prices-1-4-12")


def grouped_problem() -> RoutingProblem:
    """Two models and two groups: in one they agree, in the other the dear one is right."""
    rows = [[1, 1, 1], [1, 0, 0], [1, 1, 1], [1, 0, 1], [1, 0, 0]]
    return RoutingProblem(rows, [0.48, 0.02, 0.3, 0.15, 0.05], [0.02, 0.1], [0, 0, 1, 1, 1])


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
        *([("Features known before a call", str(problem.features))] if problem.features else []),
    ]


SETTING = Setting(
    name="routing",
    summary="models that can be called alone, whose errors are never revealed (beyond the thesis)",
    policies=Policies(
        "weakfeedback.routing.policies",
        {
            "Pay-to-compare": "pay_to_compare:PayToCompare",
            "Second-looks": "second_looks:SecondLooks",
            "Double-Thompson": "double_thompson:DoubleThompson",
            "Fixed-model": "fixed_model:FixedModel",
        },
    ),
    first=("prices",),
    arguments=lambda problem: (problem.prices,),
    told=lambda problem: {"features": problem.features},
    samples={"prices": sample_problem, "groups": grouped_problem},
    describe_problem=describe_problem,
    forms=(Form(RoutingProblem.from_predictions, ("truth", "predictions")), Form(RoutingProblem)),
    listed=("weak_dominance", "xi", "optimal_arm"),
)
