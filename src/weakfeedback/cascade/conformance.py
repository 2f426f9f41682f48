"""The rounds of a cascade, for checks that replay and change them."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from weakfeedback.cascade.world import TableWorld
from weakfeedback.contract.steps import Steps, Told
from weakfeedback.contract.typing import Problem, Rng
from weakfeedback.kernels.loops import disagreements


class Script(TableWorld):
    """A world that replays rows (y, y1, ..., yK) in their order."""

    def begin(self, rng: Any) -> None:
        """Shuffle nothing."""


class Recorded(Steps):
    """What is recorded of a problem whose rounds are rows."""

    pair_methods: tuple[str, ...] = ("update_pairs",)

    def record(self, problem: Problem, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds: one row (y, y1, ..., yK) each."""
        world = problem.world()
        world.begin(rng)
        return np.array([world.rows[world.draw(rng)] for _ in range(rounds)])


class Protocol(Recorded):
    """The steps of a cascade."""

    def script(self, problem: Problem, rows: np.ndarray) -> Any:
        """Return a world that replays recorded rounds."""
        return Script(rows)

    def as_pairs(self, policy: Any, told: Told, size: int) -> Told:
        """Return the same with a matrix of disagreements, or of movements of numbers; of a label, who is right."""
        arm, outputs, last = told.arguments
        numbers = outputs.dtype.kind == "f"
        apart = (
            _moved(outputs, size, getattr(policy, "scale", 1.0)) if numbers else _differ(outputs, arm, size)
        )
        right = outputs == last if told.method == "learn_label" else last
        return Told(f"{told.method}_pairs", (arm, apart, right), {})

    def scramble(self, problem: Problem, row: Any, arm: int, rng: Rng) -> Any:
        """Return another row that looks the same to the policy."""
        other = rng.integers(0, 1000, size=row.size).astype(row.dtype)
        other[1 : arm + 2] = row[1 : arm + 2]
        return other


class LabelProtocol(Protocol):
    """The same where the truth is sold; ``learn`` returns whether it was."""

    pair_methods = ("update_pairs", "wants_label_pairs", "learn_label_pairs")

    def learn(self, policy: Any, decision: Any, told: Sequence[Told], rng: Any) -> Any:
        """Sell the label if the policy wants it, then give the feedback of a decision."""
        wish, label, feedback = told
        sold = bool(wish.to(policy, rng))
        if sold:
            label.to(policy, rng)
        feedback.to(policy, rng)
        return sold


def _moved(outputs: np.ndarray, size: int, scale: float) -> np.ndarray:
    moved = np.zeros((size, size))
    for i, j in itertools.combinations(range(outputs.size), 2):
        apart = (outputs[i] - outputs[j]) / scale
        moved[i, j] = min(apart * apart, 1.0)
    return moved


def _differ(outputs: np.ndarray, arm: int, size: int) -> np.ndarray:
    differ = np.zeros((size, size), dtype=np.bool_)
    disagreements(outputs, arm, differ)
    return differ
