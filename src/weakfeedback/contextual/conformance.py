"""The rounds of a contextual cascade, for checks that replay and change them.

A round is a record: the features ``phi``, the ``outputs`` of all arms (or the matrix ``differ``), the ``truth``, and
what every arm costs, ``regret`` and ``loss`` in units.
"""

from typing import Any

import numpy as np

from weakfeedback.contract.steps import Rows, Steps, Told
from weakfeedback.contract.typing import Rng
from weakfeedback.kernels.loops import disagreements


class Script(Rows):
    """A world that replays recorded rounds."""

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__(rows)
        self.phi = rows["phi"]

    def draw(self, phi: np.ndarray, outputs: np.ndarray, rng: Rng) -> int:  # type: ignore[override]
        """Write the next context and its outputs, or its disagreements; return its number."""
        record = self.rows[self.served]
        phi[:] = record["phi"]
        outputs[:] = record["outputs" if outputs.ndim == 1 else "differ"]
        return super().draw(rng)

    def truth(self, row: Any) -> Any:
        """Return the truth of a round."""
        return self.rows["truth"][row]

    def regret(self, row: Any, arm: int) -> Any:
        """Return the regret of an arm in a round."""
        return self.rows["regret"][row, arm]

    def loss(self, row: Any, arm: int) -> Any:
        """Return the error probability of an arm in a round."""
        return self.rows["loss"][row, arm]


class Protocol(Steps):
    """The rounds in which arms have outputs."""

    replays = Script

    def __init__(self, sees_truth: bool) -> None:
        self.sees_truth = sees_truth
        # the truth cannot be given as pairs
        self.pair_methods = () if sees_truth else ("update_pairs",)

    def record(self, problem: Any, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        K = problem.arms
        per_arm = [("outputs", "i8", K), ("regret", "i8", K), ("loss", "i8", K)]
        records = np.zeros(rounds, dtype=[("phi", "f8", problem.dimension), ("truth", "i8"), *per_arm])
        world = problem.world()
        world.begin(rng)
        for t in range(rounds):
            row = world.draw(records["phi"][t], records["outputs"][t], rng)
            records["truth"][t] = world.truth(row)
            for arm in range(K):
                records["regret"][t, arm] = world.regret(row, arm)
                records["loss"][t, arm] = world.loss(row, arm)
        return records

    def as_pairs(self, policy: Any, told: Told, size: int) -> Told:
        """Return the same with a ``size`` x ``size`` matrix of disagreements."""
        phi, arm, outputs, rng = told.arguments
        differ = np.zeros((size, size), dtype=np.bool_)
        disagreements(outputs, arm, differ)
        return Told("update_pairs", (phi, arm, differ, rng), {})

    def scramble(self, row: Any, arm: int, rng: Rng) -> Any:
        """Return another round that looks the same to the policy."""
        other = row.copy()
        other["outputs"][arm + 1 :] = rng.integers(0, 1000, size=other["outputs"].size - arm - 1)
        if not self.sees_truth:
            other["truth"] = rng.integers(0, 1000)
        return other


class PairProtocol(Steps):
    """The same where only disagreements of pairs exist."""

    replays = Script

    def record(self, problem: Any, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        K = problem.arms
        kinds = [("phi", "f8", problem.dimension), ("differ", "?", (K, K)), ("regret", "i8", K)]
        records = np.zeros(rounds, dtype=kinds)
        world = problem.world()
        world.begin(rng)
        for t in range(rounds):
            row = world.draw(records["phi"][t], records["differ"][t], rng)
            for arm in range(K):
                records["regret"][t, arm] = world.regret(row, arm)
        return records

    def scramble(self, row: Any, arm: int, rng: Rng) -> Any:
        """Return another round that looks the same to the policy."""
        other = row.copy()
        other["differ"][:, arm + 1 :] = rng.integers(0, 2, size=other["differ"][:, arm + 1 :].shape)
        return other
