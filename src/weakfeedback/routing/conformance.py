"""The rounds of routing, for checks that replay and change them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from weakfeedback.cascade.conformance import Recorded
from weakfeedback.contract.steps import Told, Wrapper
from weakfeedback.contract.typing import Rng
from weakfeedback.routing.world import TableWorld


class Script(TableWorld):
    """A world that replays rows (y, y1, ..., yK) in their order."""

    def begin(self, rng: Any) -> None:
        """Shuffle nothing."""


class Protocol(Recorded):
    """The rounds of policies that call models."""

    def script(self, problem: Any, rows: np.ndarray) -> Any:
        """Return a world that replays recorded rounds."""
        return Script(rows)

    def as_pairs(self, policy: Any, told: Told, size: int) -> Told:
        """Return the same with a ``size`` x ``size`` matrix of disagreements."""
        if told.method != "update":
            return told
        call, outputs, rng = told.arguments
        return Told("update_pairs", (call, differences(call, outputs, size), rng), {})

    def scramble(self, problem: Any, row: Any, call: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy."""
        other = rng.integers(0, 1000, size=row.size)
        other[1:][call] = row[1:][call]
        return other


class CountedProtocol(Protocol):
    """The same where errors are counted."""

    def scramble(self, problem: Any, row: Any, call: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy; the truth is counted by the loop, and never shown."""
        other = super().scramble(problem, row, call, rng)
        other[0] = row[0]
        return other


class GroupsLate(Wrapper):
    """Wraps a policy and forwards feedback some rounds late, with the groups of its own round."""

    def __init__(self, policy: Any, delay: int) -> None:
        super().__init__(policy)
        self._delay = delay
        self._waiting: list[tuple[Any, ...]] = []

    def turn_to(self, groups: np.ndarray, own: np.ndarray) -> None:
        """Note the groups, and forward the call."""
        self._groups = groups.copy()
        self.wrapped.turn_to(groups, own)

    def start(self, call: np.ndarray, rng: Rng) -> None:
        """Note which models the first layer asked for, and forward the call."""
        self._own = self.wrapped.own.copy()
        self.wrapped.start(call, rng)

    def update(self, call: np.ndarray, outputs: np.ndarray, rng: Rng) -> None:
        """Queue the feedback and forward the oldest."""
        self._waiting.append((self._groups, call.copy(), self._own, outputs.copy()))
        if len(self._waiting) > self._delay:
            groups, asked, own, given = self._waiting.pop(0)
            self.wrapped.turn_to(groups, own)
            self.wrapped.update(asked, given, rng)


class GroupsProtocol(CountedProtocol):
    """The same for policies that are told the groups of a round; a decision has two rows, ``call`` and ``own``."""

    late = GroupsLate

    def record(self, problem: Any, rounds: int, rng: Rng) -> np.ndarray:
        """Return the hidden data of ``rounds`` rounds: rows and groups."""
        world = problem.world()
        world.begin(rng)
        kinds: Any = [("row", "i8", (world.rows.shape[1],)), ("groups", "i8", (world.groups.shape[1],))]
        records = np.zeros(rounds, dtype=kinds)
        for t in range(rounds):
            row = world.draw(rng)
            records["row"][t], records["groups"][t] = world.rows[row], world.groups[row]
        return records

    def script(self, problem: Any, rows: np.ndarray) -> Any:
        """Return a world that replays recorded rounds."""
        return Script(rows["row"], rows["groups"])

    def decision(self, policy: Any, answers: Sequence[Any]) -> np.ndarray:
        """Return the models called, and those that the first layer asked for."""
        return np.array([answers[0], policy.own])

    def told_again(self, told: Told, decision: np.ndarray) -> Told:
        """Tell the groups again, with the models that the first layer asked for."""
        again = (told.arguments[0], decision[1])
        return told._replace(arguments=again) if told.method == "turn_to" else told

    def scramble(self, problem: Any, row: Any, decision: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy."""
        other = row.copy()
        other["row"] = super().scramble(problem, row["row"], decision[0], rng)
        return other


def differences(call: np.ndarray, outputs: np.ndarray, size: int) -> np.ndarray:
    """Return which pairs i < j of the models called differ, as a matrix by models.

    >>> differences(np.array([True, False, True]), [5, 6], 3).tolist()[0]
    [False, False, True]
    """
    models = np.flatnonzero(call)
    differ = np.zeros((size, size), dtype=np.bool_)
    for a, i in enumerate(models):
        for b in range(a + 1, models.size):
            differ[i, models[b]] = outputs[a] != outputs[b]
    return differ
