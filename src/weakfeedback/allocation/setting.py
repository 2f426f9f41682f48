"""Registration of the setting "allocation"."""

from typing import Any

from weakfeedback.allocation.problem import AllocationProblem
from weakfeedback.settings.setting import Form, Policies, Setting, Words, in_a_row

MEANS = (0.9, 0.7, 0.5, 0.3)


def same_thresholds() -> AllocationProblem:
    """Losses, and one threshold for all arms."""
    return AllocationProblem(MEANS, [0.5, 0.5, 0.5, 0.5], budget=1.2)


def different_thresholds() -> AllocationProblem:
    """Losses, and three thresholds."""
    return AllocationProblem(MEANS, [0.5, 0.3, 0.5, 0.2], budget=0.9)


def rewards() -> AllocationProblem:
    """Rewards, and one threshold for all arms."""
    return AllocationProblem(MEANS, [0.5, 0.5, 0.5, 0.5], budget=1.2, setting="reward")


def with_thresholds(
    means: Any, thresholds: Any, budget: Any, setting: str = "loss", rewards: str = "bernoulli"
) -> AllocationProblem:
    """A problem whose arms are served or not."""
    return AllocationProblem(means, thresholds, budget, setting, rewards)


def with_curves(curves: Any, budget: Any, setting: str = "loss") -> AllocationProblem:
    """A problem whose arms respond gradually."""
    return AllocationProblem(curves=curves, budget=budget, setting=setting)


def describe_problem(problem: AllocationProblem) -> Words:
    """Describe a problem for readers."""
    if problem.curves is not None:
        return [
            ("Arms", str(problem.arms)),
            ("Budget", f"{problem.budget:.4g}"),
            ("Setting", problem.outcome),
            ("Levels", str(problem.curves.shape[1] - 1)),
            ("Optimal allocation", in_a_row(problem.optimal_allocation)),
            ("Optimal value", f"{problem.optimal_value:.4g}"),
        ]
    return [
        ("Arms", str(problem.arms)),
        ("Budget", f"{problem.budget:.4g}"),
        ("Setting", problem.outcome),
        ("Thresholds", in_a_row(problem.thresholds)),
        ("Means", in_a_row(problem.means)),
        ("Optimal value", f"{problem.optimal_value:.4g}"),
        ("γ", f"{problem.gamma:.4g}"),
    ]


SETTING = Setting(
    name="allocation",
    summary="a budget split over arms, feedback censored by unknown thresholds (thesis, chapter 4)",
    policies=Policies(
        "weakfeedback.allocation.policies",
        {
            "CSB-SK": "csb_sk:CsbSk",
            "CSB-MK": "csb_mk:CsbMk",
            "CSB-DK": "csb_mk:CsbMk",  # with as many thresholds as arms, which is the default of CsbMk
            "CSB-SU": "csb_su:CsbSu",
            "CSB-DU": "csb_du:CsbDu",
            "NUM-SK": "num_sk:NumSk",
            "NUM-MK": "num_mk:NumMk",
            "CSB-ST": "csb_st:CsbSt",
            "CSB-DT": "csb_dt:CsbDt",
            "CSB-TS": "csb_ts:CsbTs",
            "CSB-TS-same": "csb_ts_same:CsbTsSame",
            "CSB-TS-drift": "csb_ts_drift:CsbTsDrift",
            "CSB-ISO": "csb_iso:CsbIso",
            "Known": "known_thresholds:KnownThresholds",
        },
    ),
    first=("arms", "budget"),
    arguments=lambda problem: (problem.arms, problem.budget),
    samples={"same": same_thresholds, "different": different_thresholds, "rewards": rewards},
    describe_problem=describe_problem,
    forms=(Form(with_curves, marks=("curves",)), Form(with_thresholds)),
    told=lambda problem: {"setting": problem.outcome},
    facts=("arms", "budget", "outcome", "thresholds", "means", "optimal_value", "gamma"),
    in_short={"CSB-DK": "CSB-MK with as many thresholds as arms"},
)
