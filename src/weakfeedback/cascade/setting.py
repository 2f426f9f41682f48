"""Registration of the setting "cascade"."""

import math
from typing import Any

import numpy as np

from weakfeedback.cascade.limit import limit, reason_against
from weakfeedback.cascade.numbers import NumericProblem
from weakfeedback.cascade.problem import CascadeProblem
from weakfeedback.settings.setting import Form, Policies, Setting, Words, in_a_row


def sample_problem() -> CascadeProblem:
    """Three binary symmetric channels."""
    return CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])


def sample_numbers() -> NumericProblem:
    """Three stages that answer with numbers, each closer to the truth."""
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(200, 4)) * [1.0, 0.4, 0.2, 0.1]
    answers = np.cumsum(steps, axis=1)
    return NumericProblem(answers[:, 3], answers[:, :3], [0.05, 0.15, 0.3])


def describe_numbers(problem: NumericProblem) -> Words:
    """Describe a problem with answers that are numbers."""
    settled = "the optimal one" if problem.settled_arm == problem.optimal_arm else "not the optimal one"
    return [
        ("Stages", f"{problem.arms}, counted from 0, that answer with numbers"),
        ("Costs", in_a_row(problem.costs)),
        ("Mean squared errors", in_a_row(problem.errors)),
        ("Size of an error that costs 1", f"{problem.scale:.4g}"),
        ("Loss per round above the best", in_a_row(problem.gaps)),
        ("Optimal stage", str(problem.optimal_arm)),
        ("Stage that movements point to", f"{problem.settled_arm}, {settled}"),
        ("Weak dominance", "holds" if problem.weak_dominance else "fails"),
    ]


def describe_problem(problem: CascadeProblem | NumericProblem) -> Words:
    """Describe a problem for readers."""
    if isinstance(problem, NumericProblem):
        return describe_numbers(problem)
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
            "USS-mean": "uss_mean:UssMean",
            "Fixed": "baselines:FixedArm",
            "Random": "baselines:RandomArm",
        },
    ),
    unlisted=Policies(
        "weakfeedback.cascade.policies",
        {"USS-TS-joint": "uss_wd:UssTsJoint", "USS-WD-TS": "uss_wd:UssWdTs"},
    ),
    first=("costs",),
    arguments=lambda problem: (problem.costs,),
    samples={"channels": sample_problem, "numbers": sample_numbers},
    describe_problem=describe_problem,
    forms=(
        Form(from_channel, ("bsc",), {"bsc": channel}),
        Form(CascadeProblem.bsc, ("errors",)),
        Form(NumericProblem, ("scale",)),
        Form(CascadeProblem.from_predictions, ("truth", "predictions")),
        Form(CascadeProblem),
    ),
    listed=("weak_dominance", "xi", "optimal_arm"),
    facts=(
        *("arms", "costs", "errors", "gaps", "optimal_arm"),
        *("weak_dominance", "xi", "strong_dominance"),
    ),
)
