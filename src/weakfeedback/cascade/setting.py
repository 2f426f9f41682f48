"""The setting "cascade": what the package must know of it."""

import math
from typing import Any

from weakfeedback.cascade.policies.baselines import FixedArm, RandomArm
from weakfeedback.cascade.policies.hanawal import HanawalHeuristic
from weakfeedback.cascade.policies.q_uss import QUss
from weakfeedback.cascade.policies.uss_ts import UssTs
from weakfeedback.cascade.policies.uss_ts_drift import UssTsDrift
from weakfeedback.cascade.policies.uss_ts_joint import UssTsJoint
from weakfeedback.cascade.policies.uss_ucb import UssUcb
from weakfeedback.cascade.problem import CascadeProblem
from weakfeedback.setting import Form, Setting, Words, in_a_row


def sample_problem() -> CascadeProblem:
    """Three binary symmetric channels."""
    return CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])


def describe_problem(problem: CascadeProblem) -> Words:
    """What a reader should know of a problem."""
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
    ]


def channel(errors: Any, slip: Any = 0.05) -> dict[str, Any]:
    """The keys of the table ``bsc``."""
    return {"errors": errors, "slip": slip}


def from_channel(bsc: dict[str, Any], costs: Any, tradeoff: Any = 1.0) -> CascadeProblem:
    """A cascade of binary symmetric channels, written as a table of its own."""
    return CascadeProblem.bsc(costs=costs, tradeoff=tradeoff, **channel(**bsc))


SETTING = Setting(
    name="cascade",
    summary="tests of rising cost whose errors are never revealed (thesis, chapter 2)",
    policies={
        "USS-TS": UssTs,
        "USS-UCB": UssUcb,
        "Hanawal": HanawalHeuristic,
        "USS-TS-joint": UssTsJoint,
        "USS-TS-drift": UssTsDrift,
        "Q-USS": QUss,
        "Fixed": FixedArm,
        "Random": RandomArm,
    },
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
