"""Registration of the setting "contextual"."""

from typing import Any

import numpy as np

from weakfeedback.contextual.problem import ContextualProblem, RealizableProblem
from weakfeedback.settings.setting import Form, Policies, Setting, Words, in_a_row


def sample_problem() -> ContextualProblem:
    """Three logistic models in the plane."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-1.0, 1.0, size=(300, 2))
    truth = contexts[:, 0] + 0.5 * contexts[:, 1] > 0
    parameters = [[0.5, 0.0], [2.0, 0.5], [6.0, 3.0]]
    return ContextualProblem(contexts, truth, parameters, costs=[0.05, 0.15, 0.35])


def describe_problem(problem: Any) -> Words:
    """Describe a problem for readers."""
    return [
        ("Arms", f"{problem.arms}, counted from 0"),
        ("Costs", in_a_row(problem.costs)),
        ("Contexts", f"{len(problem.features)}, {problem.dimension} features after the map"),
        ("Contexts with weak dominance", f"{problem.weak_dominance_fraction:.4g}"),
    ]


def from_models(
    contexts: Any, truth: Any, parameters: Any, costs: Any, labels: Any = "random", intercepts: Any = None
) -> ContextualProblem:
    """Return a problem whose arms are logistic models."""
    return ContextualProblem(contexts, truth, parameters, costs, labels=labels, intercepts=intercepts)


def from_pairs(contexts: Any, pair_parameters: Any, costs: Any, regret: Any = "signed") -> RealizableProblem:
    """Return a problem whose disagreements are given by logistic models."""
    return RealizableProblem(contexts, pair_parameters, costs, regret=regret)


SETTING = Setting(
    name="contextual",
    summary="cascades whose best stop depends on the context (thesis, chapter 3)",
    policies=Policies(
        "weakfeedback.contextual.policies",
        {
            "USS-PD": "uss_pd:UssPd",
            "USS-PD-lambdaI": "uss_pd_ridge:UssPdRidge",
            "USS-PD-TS": "uss_pd_ts:UssPdTs",
            "USS-mean": "uss_mean:UssMean",
            "Supervised": "supervised:Supervised",
            "Fixed": "baselines:FixedArm",
            "Random": "baselines:RandomArm",
        },
    ),
    first=("costs", "dimension"),
    arguments=lambda problem: (problem.costs, problem.dimension),
    samples={"plane": sample_problem},
    describe_problem=describe_problem,
    forms=(Form(from_pairs, ("pair_parameters",)), Form(from_models)),
    facts=("arms", "costs", "dimension", "weak_dominance_fraction"),
)
