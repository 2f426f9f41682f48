"""One round of routing split into its steps, for checks that act between them."""

from typing import Any

import numpy as np

from weakfeedback.cascade.conformance import Recorded
from weakfeedback.contract.decisions import checked_call
from weakfeedback.contract.steps import Rows, Wrapper
from weakfeedback.contract.typing import Rng, RoutingPolicy


class Script(Rows):
    """A world that replays given rows (y, y1, ..., yK), showing the outputs of the models called."""

    def show(self, row: Any, call: np.ndarray, seen: Any) -> int:
        """Write the outputs of the models called into ``seen``, side by side, and return how many they are."""
        shown = self.rows[row, 1:][call]
        seen[: shown.size] = shown
        return int(shown.size)


class Protocol(Recorded):
    """Draw, decide, show and learn as separate steps; a round is counted when it is learned from."""

    replays: Any = Script

    def show(self, row: Any, call: np.ndarray) -> Any:
        """Return what the policy may see of a row."""
        return row[1:][call]

    def learn(self, policy: RoutingPolicy, call: np.ndarray, seen: Any, rng: Rng) -> None:
        """Count the round and give its feedback."""
        policy.start(call, rng)
        policy.update(call, seen, rng)

    def learn_pairs(self, policy: Any, call: np.ndarray, seen: Any, rng: Rng, size: int) -> None:
        """Do the same with a ``size`` x ``size`` matrix of disagreements."""
        policy.start(call, rng)
        policy.update_pairs(call, differences(call, seen, size), rng)

    def scramble(self, row: Any, call: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy."""
        other = rng.integers(0, 1000, size=row.size)
        other[1:][call] = row[1:][call]
        return other


class CountedProtocol(Protocol):
    """The same where errors are counted."""

    def scramble(self, row: Any, call: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy; the truth is counted by the loop, and never shown."""
        other = super().scramble(row, call, rng)
        other[0] = row[0]
        return other


class GroupsScript(Script):
    """The same with the groups of every round."""

    def __init__(self, rounds: np.ndarray) -> None:
        super().__init__(rounds["row"])
        self.groups = rounds["groups"]


class GroupsSpy(Wrapper):
    """Wraps a policy and records its calls, and which of them its first layer asked for."""

    def __init__(self, policy: Any) -> None:
        super().__init__(policy)
        self.decisions: list[np.ndarray] = []

    def start(self, call: np.ndarray, rng: Rng) -> None:
        """Record the decision, and forward the call."""
        self.decisions.append(np.array([call, self.wrapped.own]))
        self.wrapped.start(call, rng)


class GroupsLate(GroupsSpy):
    """Wraps a policy and forwards feedback some rounds late, with the groups of its own round."""

    def __init__(self, policy: Any, delay: int) -> None:
        super().__init__(policy)
        self._delay = delay
        self._waiting: list[tuple[Any, ...]] = []

    def turn_to(self, groups: np.ndarray, own: np.ndarray) -> None:
        """Note the groups, and forward the call."""
        self._groups = groups.copy()
        self.wrapped.turn_to(groups, own)

    def update(self, call: np.ndarray, outputs: np.ndarray, rng: Rng) -> None:
        """Queue the feedback and forward the oldest."""
        self._waiting.append((self._groups, self.decisions[-1], outputs.copy()))
        if len(self._waiting) > self._delay:
            groups, (asked, own), given = self._waiting.pop(0)
            self.wrapped.turn_to(groups, own)
            self.wrapped.update(asked, given, rng)


class GroupsProtocol(CountedProtocol):
    """The same for policies that are told the groups of a round; a decision has two rows, ``call`` and ``own``."""

    replays = GroupsScript
    judges = True  # ``decide`` checks the decision itself
    spy = GroupsSpy
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

    def announce(self, row: Any) -> tuple[Any, ...]:
        """The groups, which a policy is told before it decides, and how many models there are."""
        return row["groups"].copy(), row["row"].size - 1

    def decide(self, policy: Any, groups: np.ndarray, models: int, rng: Rng) -> np.ndarray:
        """Tell the groups, and ask for the models to call."""
        policy.turn_to(groups, np.zeros(models, dtype=np.bool_))
        call = checked_call(policy, policy.select(rng), models)
        return np.array([call, policy.own])

    def show(self, row: Any, decision: np.ndarray) -> Any:
        """Return what the policy may see of a row."""
        return row["groups"].copy(), row["row"][1:][decision[0]]

    def learn(self, policy: Any, decision: np.ndarray, seen: Any, rng: Rng) -> None:
        """Tell the round again, count it and give its feedback."""
        policy.turn_to(seen[0], decision[1])
        super().learn(policy, decision[0], seen[1], rng)

    def learn_pairs(self, policy: Any, decision: np.ndarray, seen: Any, rng: Rng, size: int) -> None:
        """Do the same with a ``size`` x ``size`` matrix of disagreements."""
        policy.turn_to(seen[0], decision[1])
        super().learn_pairs(policy, decision[0], seen[1], rng, size)

    def scramble(self, row: Any, decision: np.ndarray, rng: Rng) -> Any:
        """Return another row that looks the same to the policy."""
        other = row.copy()
        other["row"] = super().scramble(row["row"], decision[0], rng)
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
