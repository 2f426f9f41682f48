"""One round of an adaptive cascade split into its steps, for checks that act between them.

A round is a record: the ``outputs`` and ``scores`` of all stages, which of them are ``wrong``, and the ``chances`` that
the last stage gives to every answer. The decision of a round is the stage at which it stopped.
"""

from typing import Any

import numpy as np

from weakfeedback.contract.decisions import checked_bool
from weakfeedback.contract.typing import AdaptivePolicy, Problem, Rng


class Script:
    """A world that replays recorded rounds."""

    def __init__(self, rounds: np.ndarray) -> None:
        self.rounds = rounds
        self.served = 0

    def begin(self, rng: Rng) -> None:
        """Nothing to prepare."""

    def draw(self, rng: Rng) -> int:
        """Return the number of the next round."""
        self.served += 1
        return self.served - 1

    def show(self, row: Any, stage: int, outputs: np.ndarray, scores: np.ndarray) -> None:
        """Write what a stage says."""
        outputs[stage] = self.rounds["outputs"][row, stage]
        scores[stage] = self.rounds["scores"][row, stage]

    def believe(self, row: Any, arm: int, chances: np.ndarray) -> int:
        """Write the last stage's probabilities, if it was run."""
        found = _believed(self.rounds[row], arm)
        chances[: found.size] = found
        return int(found.size)

    def errs(self, row: Any, arm: int) -> Any:
        """Whether a stage errs."""
        return self.rounds["wrong"][row, arm]


class Spy:
    """Wraps a policy and records where it stops."""

    def __init__(self, policy: AdaptivePolicy) -> None:
        self.decisions: list[int] = []
        self._policy = policy

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._policy)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def update(self, arm: int, *feedback: Any) -> None:
        """Record the stage, and forward the call."""
        self.decisions.append(int(arm))
        self._policy.update(arm, *feedback)


class Protocol:
    """Draw, decide stage by stage, show and learn as separate steps."""

    decides = "go_on"  # the method that returns a decision
    pair_methods: tuple[str, ...] = ()
    judges = True  # ``decide`` asks several times, and checks every answer itself
    spy = Spy

    def starts(self, stage: int, *_: Any) -> bool:
        """Whether a call of ``go_on`` is the first of its round."""
        return stage == 0

    def record(self, problem: Problem, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        K = problem.arms
        world = problem.world()
        width = world.chances.shape[1]
        kinds = [("outputs", "i8", K), ("scores", "f8", K), ("wrong", "i8", K), ("chances", "f8", (width,))]
        records = np.zeros(rounds, dtype=kinds)
        world.begin(rng)
        for t in range(rounds):
            row = world.draw(rng)
            for name in ("outputs", "scores", "wrong", "chances"):
                records[name][t] = getattr(world, name)[row]
        return records

    def script(self, hidden: np.ndarray) -> Script:
        """Return a world that replays recorded data."""
        return Script(hidden)

    def announce(self, row: Any) -> tuple[Any, ...]:
        """Return the whole round, which ``decide`` shows stage by stage."""
        return (row,)

    def decide(self, policy: AdaptivePolicy, row: Any, rng: Rng) -> int:
        """Run stages until the policy stops; return the last stage."""
        K = row["outputs"].size
        arm = 0
        while arm < K - 1:
            outputs, scores = row["outputs"][: arm + 1].copy(), row["scores"][: arm + 1].copy()
            if not checked_bool(policy, policy.go_on(arm, outputs, scores, rng), "go_on"):
                break
            arm += 1
        return arm

    def show(self, row: Any, arm: int) -> Any:
        """Return what the policy may see of a round."""
        return row["outputs"][: arm + 1].copy(), row["scores"][: arm + 1].copy(), _believed(row, arm).copy()

    def learn(self, policy: AdaptivePolicy, arm: int, seen: Any, rng: Rng) -> None:
        """Give the feedback of a decision."""
        outputs, scores, chances = seen
        policy.update(arm, outputs, scores, chances, rng)

    def scramble(self, row: Any, arm: int, rng: Rng) -> Any:
        """Return another round that looks the same to the policy."""
        other = row.copy()
        hidden = slice(arm + 1, None)
        other["outputs"][hidden] = rng.integers(0, 1000, size=other["outputs"][hidden].size)
        other["scores"][hidden] = rng.random(other["scores"][hidden].size)
        other["wrong"] = row["wrong"]  # counted by the loop, never shown
        if arm < row["outputs"].size - 1:
            other["chances"] = rng.random(other["chances"].size)
        return other


def _believed(row: Any, arm: int) -> Any:
    return row["chances"] if arm == row["outputs"].size - 1 else row["chances"][:0]
