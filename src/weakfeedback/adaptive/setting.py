"""Registration of the setting "adaptive"."""

from typing import Any

import numpy as np

from weakfeedback.adaptive.problem import AdaptiveProblem
from weakfeedback.adaptive.records import read_problem
from weakfeedback.settings.setting import Form, Policies, Setting, Words, in_a_row


def sample_problem() -> AdaptiveProblem:
    """Three stages with falling error rates and confidence scores."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, size=400)
    hard = rng.random(400)
    share = hard[:, None] * np.array([0.6, 0.3, 0.1])  # error probability of each stage
    wrong = rng.random((400, 3)) < share
    outputs = np.where(wrong, (truth[:, None] + rng.integers(1, 3, size=(400, 3))) % 3, truth[:, None])
    return AdaptiveProblem(truth, outputs, 1.0 - share, costs=[0.01, 0.04, 0.1])


def describe_problem(problem: AdaptiveProblem) -> Words:
    """Describe a problem for readers."""
    return [
        ("Stages", f"{problem.arms}, counted from 0"),
        ("Prices of the stages", in_a_row(problem.costs)),
        ("Error rates", in_a_row(problem.errors)),
        ("Cost per round of always stopping at a stage", in_a_row(problem.fixed_costs)),
        ("Best fixed arm", str(problem.best_fixed)),
        ("Regret", "cost against the best fixed arm; it may be negative"),
    ]


def from_records(
    truth: Any,
    outputs: Any,
    costs: Any,
    scores: Any = None,
    chances: Any = None,
    groups: Any = None,
    order: str = "drawn",
) -> AdaptiveProblem:
    """Return a problem made from the answers of all stages to each row."""
    return AdaptiveProblem(truth, outputs, scores, costs, chances, groups, order)


def from_file(
    file: Any,
    truth: Any,
    outputs: Any,
    costs: Any,
    scores: Any = None,
    chances: Any = None,
    groups: Any = None,
    order: str = "drawn",
) -> AdaptiveProblem:
    """Return the same from a CSV or Parquet file; the keys name its columns."""
    return read_problem(file, truth, outputs, scores, costs, chances, groups, order)


SETTING = Setting(
    name="adaptive",
    summary="cascades that stop when an answer is good enough (beyond the thesis)",
    policies=Policies(
        "weakfeedback.adaptive.policies",
        {
            "USS-A": "uss_a:UssA",
            "USS-next": "uss_next:UssNext",
            "Promise": "promise:Promise",
            "Agreement": "agreement:Agreement",
            "Thresholds": "thresholds:Thresholds",
            "Fixed": "fixed_arm:FixedArm",
        },
    ),
    first=("costs",),
    arguments=lambda problem: (problem.costs,),
    samples={"stages": sample_problem},
    describe_problem=describe_problem,
    forms=(Form(from_file, ("file",)), Form(from_records)),
    told=lambda problem: {"labels": problem.labels},
)
