"""Registration of the setting "multiplayer"."""

from weakfeedback.multiplayer.problem import MultiplayerProblem
from weakfeedback.settings.setting import Form, Policies, Setting, Words, in_a_row


def sample_problem() -> MultiplayerProblem:
    """Three players on five channels."""
    return MultiplayerProblem([0.9, 0.75, 0.6, 0.45, 0.3], players=3)


def describe_problem(problem: MultiplayerProblem) -> Words:
    """Describe a problem for readers."""
    own = problem.means.ndim == 2
    words = [
        ("Channels", str(problem.arms)),
        ("Players", str(problem.players)),
        ("Means", "; ".join(in_a_row(row) for row in problem.means) if own else in_a_row(problem.means)),
        ("Optimal value", f"{problem.optimal_value:.4g}"),
    ]
    if problem.presence is not None:
        stays = ", ".join(
            f"{start} to {'the end' if stop is None else stop - 1}" for start, stop in problem.presence
        )
        words.append(("Slots of the players", stays))
    if problem.lost > 0.0:
        words.append(("Lost slots", f"{problem.lost:.4g}"))
    if not problem.sensing:
        words.append(("Collisions", "not sensed"))
    return words


SETTING = Setting(
    name="multiplayer",
    summary="players that share channels and hear only their own collisions (thesis, chapter 5)",
    policies=Policies(
        "weakfeedback.multiplayer.policies",
        {
            "DLC": "dlc:Dlc",
            "DLC-LIX": "dlc_lix:DlcLix",
            "Musical-Chairs": "musical_chairs:MusicalChairs",
            "SIC-MMAB": "sic_mmab:SicMmab",
            "DPE1": "dpe1:Dpe1",
            "Claims": "claims:Claims",
            "Match": "match:Match",
            "Selfish": "selfish:Selfish",
        },
    ),
    first=("arms",),
    arguments=lambda problem: (problem.arms,),
    samples={"channels": sample_problem},
    describe_problem=describe_problem,
    forms=(Form(MultiplayerProblem),),
    facts=("arms", "players", "means", "optimal_value"),
)
