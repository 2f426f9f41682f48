"""Cost estimates and data requirements of experiments, for `reproduce --list` and the progress view."""

from __future__ import annotations

from typing import Any

from weakfeedback.experiments.model import Experiment
from weakfeedback.reproduce.registry import Choice, replications

# Nanoseconds per round of one policy on one core, measured on a machine of 2024: right to a factor of two or three.
NANOSECONDS = {
    "cascade": 250.0,
    "contextual": 20_000.0,
    "routing": 250.0,
    "adaptive": 6_000.0,
    "allocation": 2_000.0,
    "multiplayer": 2_000.0,
}

FIXED = 0.2  # seconds of any experiment, however short: its plan, its files, its figure


def seconds(experiment: Experiment, repeated: int) -> float:
    """Return the estimated seconds on one core."""
    rounds = experiment.horizon * repeated * len(experiment.policies)
    return FIXED + rounds * (experiment.nanoseconds or NANOSECONDS[experiment.setting]) * 1e-9


def listing(choice: Choice, quick: bool = False) -> list[dict[str, Any]]:
    """Return one row per experiment."""
    rows = []
    for chapter in choice.chapters():
        for experiment in (one for one in chapter.experiments.values() if one.id in choice.ids):
            repeated = replications(experiment, quick)
            claims = [claim.number for claim in chapter.claims if experiment.id in claim.experiments]
            rows.append(
                {
                    "id": experiment.id,
                    "chapter": chapter.number,
                    "place": experiment.place,
                    "title": experiment.title,
                    "instance": experiment.instance,
                    "policies": list(experiment.policies),
                    "horizon": experiment.horizon,
                    "replications": repeated,
                    "seed": experiment.seed,
                    "seconds": seconds(experiment, repeated),
                    "needs": experiment.needs,
                    "stand_in": experiment.stand_in,
                    "claims": claims,
                }
            )
    return rows
