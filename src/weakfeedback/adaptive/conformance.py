"""The rounds of an adaptive cascade, for checks that replay and change them.

A round is a record: the ``outputs`` and ``scores`` of all stages, which of them are ``wrong`` and ``unlike`` which, the
``chances`` that the last stage gives to every answer, and the ``group``. The decision of a round is the stage at which
it stopped, or, for policies that name the next stage, the stages called and the chance of the coin.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from weakfeedback.adaptive.world import OrderedWorld
from weakfeedback.contract.steps import Steps, Told
from weakfeedback.contract.typing import Problem, Rng


class Script(OrderedWorld):
    """A world that replays recorded rounds."""

    def __init__(self, rows: np.ndarray) -> None:
        names = ("outputs", "scores", "wrong", "chances", "group")
        outputs, scores, wrong, chances, groups = (rows[name].copy() for name in names)
        super().__init__(outputs, scores, wrong, chances, groups, False)
        self.unlike = rows["unlike"]

    def differs(self, row: Any, arm: int, reference: int) -> Any:
        """Whether two stages differ: counted by the loop, never shown."""
        return self.unlike[row, arm, reference]


class Protocol(Steps):
    """The rounds of policies that are asked after every stage; the decision is the stage at which they stop."""

    decides = "go_on"

    def starts(self, stage: int, *_: Any) -> bool:
        """Whether a call of ``go_on`` is the first of its round."""
        return stage == 0

    def record(self, problem: Problem, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        K = problem.arms
        world = problem.world()
        width = world.chances.shape[1]
        kinds: list[Any] = [
            ("outputs", "i8", K),
            ("scores", "f8", K),
            ("wrong", "i8", K),
            ("chances", "f8", (width,)),
        ]
        kinds += [("group", "i8"), ("unlike", "i8", (K, K))]
        records = np.zeros(rounds, dtype=kinds)
        world.begin(rng)
        for t in range(rounds):
            row = world.draw(rng)
            for name in ("outputs", "scores", "wrong", "chances"):
                records[name][t] = getattr(world, name)[row]
            records["group"][t] = world.group(row)
            records["unlike"][t] = [[world.differs(row, i, j) for j in range(K)] for i in range(K)]
        return records

    def decision(self, policy: Any, answers: Sequence[Any]) -> Any:
        """Return the last stage."""
        return sum(map(bool, answers))

    def script(self, problem: Problem, rows: np.ndarray) -> Any:
        """Return a world that replays recorded rounds."""
        return Script(rows)

    def scramble(self, problem: Problem, row: Any, arm: int, rng: Rng) -> Any:
        """Return another round that looks the same to the policy."""
        other = row.copy()
        hidden = slice(arm + 1, None)
        other["outputs"][hidden] = rng.integers(0, 1000, size=other["outputs"][hidden].size)
        other["scores"][hidden] = rng.random(other["scores"][hidden].size)
        other["wrong"] = row["wrong"]  # counted by the loop, never shown
        if arm < row["outputs"].size - 1:
            other["chances"] = rng.random(other["chances"].size)
        return other


class StagesProtocol(Protocol):
    """The same for policies that name the next stage: the stages called, and the chance of the coin."""

    decides = "next_stage"

    def starts(self, stage: int, *_: Any) -> bool:
        """Whether a call of ``next_stage`` is the first of its round."""
        return stage < 0

    def decision(self, policy: Any, answers: Sequence[Any]) -> Any:
        """Return the stages called in this order, and the chance of the coin."""
        return tuple(answers[:-1]), float(getattr(policy, "chance", 1.0))

    def told_again(self, told: Told, decision: Any) -> Told:
        """Tell the group again, with the stage and the chance of the coin."""
        called, chance = decision
        again = (told.arguments[0], called[0] if chance < 1.0 else -1, chance)
        return told._replace(arguments=again) if told.method == "turn_to" else told

    def scramble(self, problem: Problem, row: Any, decision: Any, rng: Rng) -> Any:
        """Return another round that looks the same to the policy."""
        called, _ = decision
        other = row.copy()
        for k in range(row["outputs"].size):
            if k not in called:
                other["outputs"][k] = rng.integers(0, 1000)
                other["scores"][k] = rng.random()
        if row["outputs"].size - 1 not in called:
            other["chances"] = rng.random(other["chances"].size)
        return other
