"""One round of a cascade split into its steps, for checks that act between them."""

import itertools
from typing import Any

import numpy as np

from weakfeedback.contract.steps import Rows, Steps
from weakfeedback.contract.typing import Problem, Rng
from weakfeedback.kernels.loops import disagreements


class Script(Rows):
    """A world that replays rows (y, y1, ..., yK), showing the outputs up to an arm and selling the truth."""

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__(rows)
        self.sold: list[int] = []  # rows whose truth was bought

    def show(self, row: Any, arm: int, seen: Any) -> None:
        """Write the outputs of arms 0, ..., arm into ``seen``."""
        for k in range(arm + 1):
            seen[k] = self.rows[row, k + 1]

    def sell(self, row: Any) -> Any:
        """Return the truth of a row, and record that it was bought."""
        self.sold.append(row)
        return self.rows[row, 0]


class Recorded(Steps):
    """What is recorded of a problem whose rounds are rows."""

    # the same feedback as pairs, for callers with their own comparison
    pair_methods: tuple[str, ...] = ("update_pairs",)

    def record(self, problem: Problem, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds: one row (y, y1, ..., yK) each."""
        world = problem.world()
        world.begin(rng)
        return np.array([world.rows[world.draw(rng)] for _ in range(rounds)])


class Protocol(Recorded):
    """The steps of a cascade."""

    replays = Script

    def show(self, row: Any, arm: int) -> Any:
        """Return what the policy may see of a row."""
        return row[1 : arm + 2].copy()

    def learn_pairs(self, policy: Any, arm: int, seen: Any, rng: Rng, size: int) -> Any:
        """Give the same feedback as a ``size`` x ``size`` matrix of disagreements, or of movements of numbers."""
        numbers = seen.dtype.kind == "f"
        apart = _moved(seen, size, getattr(policy, "scale", 1.0)) if numbers else _differ(seen, arm, size)
        policy.update_pairs(arm, apart, rng)

    def scramble(self, row: Any, arm: int, rng: Rng) -> Any:
        """Return another row that looks the same to the policy."""
        other = rng.integers(0, 1000, size=row.size).astype(row.dtype)
        other[1 : arm + 2] = row[1 : arm + 2]
        return other


class LabelProtocol(Protocol):
    """The same where the truth is sold; ``learn`` returns whether it was."""

    pair_methods = ("update_pairs", "wants_label_pairs", "learn_label_pairs")

    def show(self, row: Any, arm: int) -> Any:
        """Return what the policy may see of a row, and the truth, which it gets only if it buys it."""
        return row[1 : arm + 2].copy(), int(row[0])

    def learn(self, policy: Any, arm: int, seen: Any, rng: Rng) -> Any:
        """Sell the label if the policy wants it, then give the feedback of a decision."""
        outputs, truth = seen
        sold = bool(policy.wants_label(arm, outputs, rng))
        if sold:
            policy.learn_label(arm, outputs, truth)
        policy.update(arm, outputs, rng)
        return sold

    def learn_pairs(self, policy: Any, arm: int, seen: Any, rng: Rng, size: int) -> Any:
        """Do the same with a matrix of disagreements and with which arms were right."""
        outputs, truth = seen
        differ = _differ(outputs, arm, size)
        sold = bool(policy.wants_label_pairs(arm, differ, rng))
        if sold:
            policy.learn_label_pairs(arm, differ, outputs == truth)
        policy.update_pairs(arm, differ, rng)
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
