"""The rounds of a contextual cascade, for checks that replay and change them.

A round is a record: the features ``phi``, the ``outputs`` of all arms (or the matrix ``differ``), the ``truth``, and
what every arm costs, ``regret`` and ``loss`` in units.
"""

from typing import Any

import numpy as np

from weakfeedback.contract.steps import Steps, Told
from weakfeedback.contract.typing import Rng
from weakfeedback.kernels.loops import disagreements


class Script:
    """A world that replays recorded rounds."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows, self.phi = rows, rows["phi"]
        self.served = 0

    def begin(self, rng: Rng) -> None:
        """Nothing to prepare."""

    def draw(self, phi: np.ndarray, outputs: np.ndarray, rng: Rng) -> int:
        """Write the next context and its outputs, or its disagreements; return its number."""
        record = self.rows[self.served]
        phi[:] = record["phi"]
        outputs[:] = record["outputs" if outputs.ndim == 1 else "differ"]
        self.served += 1
        return self.served - 1

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

    def __init__(self, sees_truth: bool) -> None:
        self.sees_truth = sees_truth
        # the truth cannot be given as pairs
        self.pair_methods = () if sees_truth else ("update_pairs",)

    def record(self, problem: Any, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        K, world = problem.arms, problem.world()
        kinds = [("outputs", "i8", K), ("truth", "i8"), ("regret", "i8", K), ("loss", "i8", K)]
        records = np.zeros(rounds, dtype=[("phi", "f8", problem.dimension), *kinds])
        world.begin(rng)
        for record in records:
            row = world.draw(record["phi"], record["outputs"], rng)
            record["truth"] = world.truth(row)
            for name in ("regret", "loss"):
                record[name] = [getattr(world, name)(row, arm) for arm in range(K)]
        return records

    def script(self, problem: Any, rows: np.ndarray) -> Any:
        """Return a world that replays recorded rounds."""
        return Script(rows)

    def as_pairs(self, policy: Any, told: Told, size: int) -> Told:
        """Return the same with a ``size`` x ``size`` matrix of disagreements."""
        phi, arm, outputs, rng = told.arguments
        differ = np.zeros((size, size), dtype=np.bool_)
        disagreements(outputs, arm, differ)
        return Told("update_pairs", (phi, arm, differ, rng), {})

    def scramble(self, problem: Any, row: Any, arm: int, rng: Rng) -> Any:
        """Return another round that looks the same to the policy."""
        other = row.copy()
        other["outputs"][arm + 1 :] = rng.integers(0, 1000, size=other["outputs"].size - arm - 1)
        if not self.sees_truth:
            other["truth"] = rng.integers(0, 1000)
        return other


class PairProtocol(Protocol):
    """The same where only disagreements of pairs exist."""

    def __init__(self) -> None:
        super().__init__(sees_truth=True)

    def record(self, problem: Any, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds."""
        K, world = problem.arms, problem.world()
        kinds = [("phi", "f8", problem.dimension), ("differ", "?", (K, K)), ("regret", "i8", K)]
        records = np.zeros(rounds, dtype=kinds)
        world.begin(rng)
        for record in records:
            row = world.draw(record["phi"], record["differ"], rng)
            record["regret"] = [world.regret(row, arm) for arm in range(K)]
        return records

    def scramble(self, problem: Any, row: Any, arm: int, rng: Rng) -> Any:
        """Return another round that looks the same to the policy."""
        other = row.copy()
        other["differ"][:, arm + 1 :] = rng.integers(0, 2, size=other["differ"][:, arm + 1 :].shape)
        return other
