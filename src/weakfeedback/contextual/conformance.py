"""One round of a contextual cascade split into its steps, for checks that act between them.

A round is a record: the features ``phi``, the ``outputs`` of all arms (or the matrix ``differ``), the ``truth``, and
what every arm costs, ``regret`` and ``loss`` in units.
"""

from typing import Any

import numpy as np

from weakfeedback.contract.steps import Rows, Steps
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


class Announced(Steps):
    """A round that begins with its context."""

    replays = Script

    def announce(self, row: Any) -> tuple[Any, ...]:
        """The context, which a policy sees before it decides."""
        return (row["phi"].copy(),)


class Protocol(Announced):
    """Draw, announce, decide, show and learn as separate steps."""

    def __init__(self, sees_truth: bool) -> None:
        self.sees_truth = sees_truth
        # the same feedback as pairs, for callers with their own comparison; the truth cannot be given as pairs
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

    def show(self, row: Any, arm: int) -> Any:
        """Return what the policy may see of a round."""
        truth = (int(row["truth"]),) if self.sees_truth else ()
        return (row["phi"].copy(), row["outputs"][: arm + 1].copy(), *truth)

    def learn(self, policy: Any, arm: int, seen: Any, rng: Rng) -> None:
        """Give the feedback of a decision."""
        phi, outputs, *truth = seen
        if truth:
            policy.update(phi, arm, outputs, rng, truth=truth[0])
        else:
            policy.update(phi, arm, outputs, rng)

    def learn_pairs(self, policy: Any, arm: int, seen: Any, rng: Rng, size: int) -> None:
        """Give the same feedback as a ``size`` x ``size`` matrix of disagreements."""
        differ = np.zeros((size, size), dtype=np.bool_)
        disagreements(seen[1], arm, differ)
        policy.update_pairs(seen[0], arm, differ, rng)

    def scramble(self, row: Any, arm: int, rng: Rng) -> Any:
        """Return another round that looks the same to the policy."""
        other = row.copy()
        other["outputs"][arm + 1 :] = rng.integers(0, 1000, size=other["outputs"].size - arm - 1)
        if not self.sees_truth:
            other["truth"] = rng.integers(0, 1000)
        return other


class PairProtocol(Announced):
    """The same where only disagreements of pairs exist."""

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

    def show(self, row: Any, arm: int) -> Any:
        """Return what the policy may see of a round."""
        differ = row["differ"].copy()
        differ[:, arm + 1 :] = False
        return (row["phi"].copy(), differ)

    def learn(self, policy: Any, arm: int, seen: Any, rng: Rng) -> None:
        """Give the feedback of a decision."""
        policy.update_pairs(seen[0], arm, seen[1], rng)

    def scramble(self, row: Any, arm: int, rng: Rng) -> Any:
        """Return another round that looks the same to the policy."""
        other = row.copy()
        other["differ"][:, arm + 1 :] = rng.integers(0, 2, size=other["differ"][:, arm + 1 :].shape)
        return other
