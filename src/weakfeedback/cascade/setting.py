"""Registration of the setting "cascade"."""

import math
from typing import Any

from weakfeedback.cascade.limit import limit, reason_against
from weakfeedback.cascade.problem import CascadeProblem
from weakfeedback.settings.setting import Form, Policies, Setting, Words, in_a_row


def sample_problem() -> CascadeProblem:
    """Three binary symmetric channels."""
    return CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])


def describe_problem(problem: CascadeProblem) -> Words:
    """Describe a problem for readers."""
    holds = "holds" if problem.weak_dominance else "fails: the optimal arm cannot be learned"
    return [
        ("Arms", f"{problem.arms}, counted from 0"),
        ("Costs", in_a_row(problem.costs)),
        ("Error rates", in_a_row(problem.errors)),
        ("Loss per round above the best", in_a_row(problem.gaps)),
        ("Optimal arm", str(problem.optimal_arm)),
        ("Weak dominance", holds),
        ("ξ", "∞" if math.isinf(problem.xi) else f"{problem.xi:.4g}"),
        ("Strong dominance", "holds" if problem.strong_dominance else "fails"),
        ("Limit of regret", _limit_in_words(problem)),
    ]


def _limit_in_words(problem: CascadeProblem) -> str:
    reason = reason_against(problem)
    if reason:
        return f"not known: the problem {reason}"
    found = limit(problem)
    if not found.confusable:
        return "0: regret need not grow with T"
    arms = ", ".join(map(str, found.confusable))
    return f"{found.constant:.4g} log T, as T grows; the optimal arm can be confused with {arms}"


def channel(errors: Any, slip: Any = 0.05) -> dict[str, Any]:
    """Return the keys of the table ``bsc``."""
    return {"errors": errors, "slip": slip}


def from_channel(bsc: dict[str, Any], costs: Any, tradeoff: Any = 1.0) -> CascadeProblem:
    """Return a cascade of binary symmetric channels, given by a table ``bsc``."""
    return CascadeProblem.bsc(costs=costs, tradeoff=tradeoff, **channel(**bsc))


SETTING = Setting(
    name="cascade",
    summary="tests of rising cost whose errors are never revealed (thesis, chapter 2)",
    policies=Policies(
        "weakfeedback.cascade.policies",
        {
            "USS-TS": "uss_ts:UssTs",
            "USS-UCB": "uss_ucb:UssUcb",
            "Hanawal": "hanawal:HanawalHeuristic",
            "USS-WD": "uss_wd:UssWd",
            "USS-TS-drift": "uss_ts_drift:UssTsDrift",
            "Q-USS": "q_uss:QUss",
            "Fixed": "baselines:FixedArm",
            "Random": "baselines:RandomArm",
        },
    ),
    former=Policies("weakfeedback.cascade.policies", {"USS-TS-joint": "uss_wd:UssTsJoint"}),
    first=("costs",),
    arguments=lambda problem: (problem.costs,),
    samples={"channels": sample_problem},
    describe_problem=describe_problem,
    forms=(
        Form(from_channel, ("bsc",), {"bsc": channel}),
        Form(CascadeProblem.bsc, ("errors",)),
        Form(CascadeProblem.from_predictions, ("truth", "predictions")),
        Form(CascadeProblem),
    ),
    listed=("weak_dominance", "xi", "optimal_arm"),
    facts=(
        *("arms", "costs", "errors", "gaps", "optimal_arm"),
        *("weak_dominance", "xi", "strong_dominance"),
    ),
)
