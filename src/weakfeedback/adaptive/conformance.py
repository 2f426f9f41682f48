"""One round of an adaptive cascade split into its steps, for checks that act between them.

A round is a record: the ``outputs`` and ``scores`` of all stages, which of them are ``wrong`` and ``unlike`` which, the
``chances`` that the last stage gives to every answer, and the ``group``. The decision of a round is the stage at which
it stopped, or, for policies that name the next stage, the stages called and the chance of the coin.
"""

from typing import Any

import numpy as np

from weakfeedback.contract.decisions import WrongDecision, checked_bool, checked_stage
from weakfeedback.contract.steps import Rows, Steps, Wrapper
from weakfeedback.contract.typing import AdaptivePolicy, Problem, Rng


class Script(Rows):
    """A world that replays recorded rounds."""

    def show(self, row: Any, stage: int, outputs: np.ndarray, scores: np.ndarray) -> None:
        """Write what a stage says."""
        outputs[stage] = self.rows["outputs"][row, stage]
        scores[stage] = self.rows["scores"][row, stage]

    def believe(self, row: Any, arm: int, chances: np.ndarray) -> int:
        """Write the last stage's probabilities, if it was run."""
        found = _believed(self.rows[row], arm)
        chances[: found.size] = found
        return int(found.size)

    def group(self, row: Any) -> Any:
        """Return the group of a round."""
        return self.rows["group"][row]

    def errs(self, row: Any, arm: int) -> Any:
        """Whether a stage errs."""
        return self.rows["wrong"][row, arm]

    def differs(self, row: Any, arm: int, reference: int) -> Any:
        """Whether two stages differ."""
        return self.rows["unlike"][row, arm, reference]


class Spy(Wrapper):
    """Wraps a policy and records where it stops."""

    def __init__(self, policy: AdaptivePolicy) -> None:
        super().__init__(policy)
        self.decisions: list[int] = []

    def update(self, arm: int, *feedback: Any) -> None:
        """Record the stage, and forward the call."""
        self.decisions.append(int(arm))
        self.wrapped.update(arm, *feedback)


class Protocol(Steps):
    """Draw, decide stage by stage, show and learn as separate steps."""

    decides = "go_on"
    replays = Script
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


class StagesSpy(Spy):
    """Records which stages were called."""

    decisions: list[Any]

    def update(self, arm: int, *feedback: Any) -> None:
        """Record the stages, and forward the call."""
        self.decisions.append((tuple(np.flatnonzero(feedback[0] != -1).tolist()), 1.0))
        self.wrapped.update(arm, *feedback)


class StagesProtocol(Protocol):
    """The same steps for policies that name the next stage."""

    decides = "next_stage"
    spy = StagesSpy

    def starts(self, stage: int, *_: Any) -> bool:
        """Whether a call of ``next_stage`` is the first of its round."""
        return stage < 0

    def decide(self, policy: Any, row: Any, rng: Rng) -> Any:
        """Call stages until the policy stops; return them in this order, and the chance of the coin."""
        K = row["outputs"].size
        turn_to = getattr(policy, "turn_to", None)
        if turn_to is not None:
            turn_to(int(row["group"]), -1, 1.0)
        called: list[int] = []
        while True:
            outputs, scores = _shown(row, called)
            stage = policy.next_stage(called[-1] if called else -1, outputs, scores, rng)
            stage = checked_stage(policy, stage, K)
            if stage in called or (stage < 0 and not called):
                raise WrongDecision(
                    policy, "next_stage", stage, "a stage not called yet, and at first not -1"
                )
            if stage < 0:
                return tuple(called), float(getattr(policy, "chance", 1.0))
            called.append(stage)

    def show(self, row: Any, decision: Any) -> Any:
        """Return what the policy may see of a round."""
        called, _ = decision
        last = row["outputs"].size - 1
        return (
            *_shown(row, called),
            _believed(row, last if last in called else -1).copy(),
            int(row["group"]),
        )

    def learn(self, policy: Any, decision: Any, seen: Any, rng: Rng) -> None:
        """Give the feedback of a decision."""
        called, chance = decision
        outputs, scores, chances, group = seen
        turn_to = getattr(policy, "turn_to", None)
        if turn_to is not None:
            turn_to(group, called[0] if chance < 1.0 else -1, chance)
        policy.update(called[-1], outputs, scores, chances, rng)

    def scramble(self, row: Any, decision: Any, rng: Rng) -> Any:
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


def _shown(row: Any, called: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return answers and scores up to the highest stage called: -1 and NaN where a stage was not called."""
    size = max(called, default=-1) + 1
    outputs, scores = np.full(size, -1, dtype=np.int64), np.full(size, np.nan)
    for k in called:
        outputs[k], scores[k] = row["outputs"][k], row["scores"][k]
    return outputs, scores


def _believed(row: Any, arm: int) -> Any:
    return row["chances"] if arm == row["outputs"].size - 1 else row["chances"][:0]
