"""The setting "multiplayer": what the package must know of it."""

from weakfeedback.multiplayer.policies.dlc import Dlc
from weakfeedback.multiplayer.policies.dlc_lix import DlcLix
from weakfeedback.multiplayer.policies.dpe1 import Dpe1
from weakfeedback.multiplayer.policies.musical_chairs import MusicalChairs
from weakfeedback.multiplayer.policies.sic_mmab import SicMmab
from weakfeedback.multiplayer.problem import MultiplayerProblem
from weakfeedback.setting import Form, Setting, Words, in_a_row


def sample_problem() -> MultiplayerProblem:
    """Three players on five channels."""
    return MultiplayerProblem([0.9, 0.75, 0.6, 0.45, 0.3], players=3)


def describe_problem(problem: MultiplayerProblem) -> Words:
    """What a reader should know of a problem."""
    return [
        ("Channels", str(problem.arms)),
        ("Players", str(problem.players)),
        ("Means", in_a_row(problem.means)),
        ("Optimal value", f"{problem.optimal_value:.4g}"),
    ]


SETTING = Setting(
    name="multiplayer",
    summary="players who share channels and hear only their own collisions (thesis, chapter 5)",
    policies={
        "DLC": Dlc,
        "DLC-LIX": DlcLix,
        "Musical-Chairs": MusicalChairs,
        "SIC-MMAB": SicMmab,
        "DPE1": Dpe1,
    },
    first=("arms",),
    arguments=lambda problem: (problem.arms,),
    samples={"channels": sample_problem},
    describe_problem=describe_problem,
    forms=(Form(MultiplayerProblem),),
    facts=("arms", "players", "means", "optimal_value"),
)
