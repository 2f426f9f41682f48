"""The setting "allocation": what the package must know of it."""

from weakfeedback.allocation.policies.csb_dt import CsbDt
from weakfeedback.allocation.policies.csb_du import CsbDu
from weakfeedback.allocation.policies.csb_mk import CsbMk
from weakfeedback.allocation.policies.csb_sk import CsbSk
from weakfeedback.allocation.policies.csb_st import CsbSt
from weakfeedback.allocation.policies.csb_su import CsbSu
from weakfeedback.allocation.policies.csb_ts import CsbTs
from weakfeedback.allocation.policies.csb_ts_same import CsbTsSame
from weakfeedback.allocation.policies.known_thresholds import KnownThresholds
from weakfeedback.allocation.policies.num_mk import NumMk
from weakfeedback.allocation.policies.num_sk import NumSk
from weakfeedback.allocation.problem import AllocationProblem
from weakfeedback.setting import Form, Setting, Words, in_a_row

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


def describe_problem(problem: AllocationProblem) -> Words:
    """What a reader should know of a problem."""
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
    policies={
        "CSB-SK": CsbSk,
        "CSB-MK": CsbMk,
        "CSB-DK": CsbMk,  # with as many thresholds as arms, which is what CsbMk takes unless told
        "CSB-SU": CsbSu,
        "CSB-DU": CsbDu,
        "NUM-SK": NumSk,
        "NUM-MK": NumMk,
        "CSB-ST": CsbSt,
        "CSB-DT": CsbDt,
        "CSB-TS": CsbTs,
        "CSB-TS-same": CsbTsSame,
        "Known": KnownThresholds,
    },
    first=("arms", "budget"),
    arguments=lambda problem: (problem.arms, problem.budget),
    samples={"same": same_thresholds, "different": different_thresholds, "rewards": rewards},
    describe_problem=describe_problem,
    forms=(Form(AllocationProblem),),
    told=lambda problem: {"setting": problem.outcome},
    facts=("arms", "budget", "outcome", "thresholds", "means", "optimal_value", "gamma"),
    in_short={"CSB-DK": "CSB-MK with as many thresholds as arms"},
)
