"""A simulation as a plan: its tasks, which of them are stored, and the results once all are done."""

import dataclasses
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.canonical import hashed
from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.engine.loop import loop_for, refuse_events
from weakfeedback.engine.replication import Compiled, Task
from weakfeedback.engine.results import Results
from weakfeedback.engine.sources import sources_of
from weakfeedback.engine.store import Store, code_of
from weakfeedback.engine.trial import try_first_rounds
from weakfeedback.validate import brief, integer, plain

METHODS = ("rounds", "events")
MOST_ROWS = 1_000_000_000  # of all policies
MOST_TASKS = 4_000_000
NAMED = 3  # damaged files in a warning
LONGEST = 2**53  # rounds are counted by integers, and marks set by floats


class InterpretedWarning(UserWarning):
    """A policy could not be compiled and runs in the interpreter."""


class DamagedWarning(UserWarning):
    """Files of a store were damaged; their chunks are played again."""


class SentTask(Task):
    """A task that a worker plays only if the policy has the same code there."""

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "code": _code(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        sent = state.pop("code")
        vars(self).update(state)
        if sent != _code(self):
            vars(self)["player"] = OtherCode()


class OtherCode:
    """Refuses to play, for a worker with other code of the policy: started before an edit, or with other files."""

    def play(self, *arguments: Any) -> Any:
        """Raise the error."""
        raise ValueError(
            "the worker has different code for this policy than the process that sent it: restart the workers"
        )


def _code(task: Task) -> str | None:
    try:
        return code_of(task.problem, task.policy)
    except CannotLower:
        return None


class Plan:
    """A validated call of ``simulate``; the arguments are the same.

    Use: ``find()`` loads what is stored, ``prepare()`` compiles what must still be played. Then run ``task(k)`` for
    every k in ``missing``, pass the table that ``run`` returned to ``keep(k, table)``, and call ``results()``.
    """

    def __init__(
        self,
        problem: Any,
        policies: Mapping[str, Any],
        horizon: int = 10_000,
        replications: int = 100,
        seed: int | None = 0,
        marks: Any = 200,
        compiled: bool = True,
        store: str | Path | None = None,
        method: str = "rounds",
    ) -> None:
        if not callable(getattr(problem, "loop", None)):
            raise ValueError(f"problem must be a problem of this package, got {brief(problem)}")
        if not isinstance(policies, Mapping) or not policies:
            raise ValueError(f"policies must be a mapping of labels to policies, got {brief(policies)}")
        self.problem, self.policies = problem, dict(policies)
        self.horizon = integer("horizon", horizon, 1)
        if self.horizon > LONGEST:
            raise ValueError(f"horizon must be at most {LONGEST}, got {brief(horizon)}")
        self.replications = integer("replications", replications, 1)
        self.rounds = mark_rounds(marks, self.horizon)
        # independent of the number of workers
        size = max(1, min(1000, problem.loop().chunk_rounds // self.horizon))
        most = min(MOST_ROWS // (self.rounds.size * len(policies)), MOST_TASKS * size // len(policies))
        if self.replications > most:
            raise ValueError(
                f"replications must be at most {most} for {len(policies)} policies, {self.rounds.size} marks and "
                f"horizon {self.horizon}, got {brief(replications)}"
            )
        # fresh entropy is drawn once, and kept with the results
        self.seed = int.from_bytes(os.urandom(8)) if seed is None else integer("seed", seed, 0)
        if method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {brief(method)}")
        self.method = method
        if store is not None and not isinstance(store, (str, os.PathLike)):
            raise ValueError(f"store must be a folder, got {brief(store)}")
        for label, policy in policies.items():
            _refuse_non_policy(problem, label, policy)
            loop_for(problem, policy).fits(problem, policy)
            separate_fields(policy)
            if method == "events":
                refuse_events(problem, label, policy)
        ends = [(k, min(k + size, self.replications)) for k in range(0, self.replications, size)]
        self.tasks = [
            SentTask(problem, label, policy, first, last, self.rounds, self.seed, compiled, method=method)
            for label, policy in policies.items()
            for first, last in ends
        ]
        self.store = None if store is None else Store(store, problem, self.rounds, self.seed, method)
        self.how: dict[str, bool | str] = {}  # label -> True, or why it is interpreted
        self._wanted = compiled
        self._players: dict[str, Any] = {}
        self._tables: dict[int, np.ndarray] = {}

    @property
    def missing(self) -> list[int]:
        """Return the tasks that must still be played."""
        return [k for k in range(len(self.tasks)) if k not in self._tables]

    def key(self) -> str | None:
        """Return a digest of everything that determines the numbers; None if some code cannot be followed."""
        assert self.store is not None
        paths = [self.store.path(task) for task in self.tasks]
        names = [path.name for path in paths if path is not None]
        if len(names) < len(paths):
            return None
        return hashed(*self.policies, *names)[:40]

    def find(self) -> None:
        """Load the finished chunks from the store."""
        if self.store is None:
            return
        for k, task in enumerate(self.tasks):
            found = self.store.get(task)
            if found is not None:
                self._tables[k] = found[0]
                self.how.setdefault(task.label, found[1])
        if self.store.damaged:
            warnings.warn(_damage_message(self.store), DamagedWarning, stacklevel=3)

    def prepare(self) -> None:
        """Compile the policies still to be played; what cannot be compiled is interpreted, with a warning."""
        for label in {self.tasks[k].label: None for k in self.missing}:
            self.how[label] = self._prepare(label)

    def _prepare(self, label: str) -> bool | str:
        if self.method == "events":
            return "rounds in which nothing changes were skipped by events"
        if not self._wanted:
            return "compiled=False was asked for"
        policy = self.policies[label]
        try:
            self._players[label] = Compiled(self.problem, policy)
        except CannotLower as reason:
            warnings.warn(
                f"{label!r} ({type(policy).__name__}) runs in the interpreter, many times slower: {reason}",
                InterpretedWarning,
                stacklevel=4,
            )
            return str(reason)
        try_first_rounds(self.problem, label, policy, self.horizon, self.seed)
        return True

    def stop(self) -> None:
        """Cancel the runs of this process."""
        for player in self._players.values():
            player.stopped = True

    def task(self, k: int) -> Task:
        """Return task ``k``, ready for ``run``."""
        task = self.tasks[k]
        return dataclasses.replace(
            task, compiled=self.how[task.label] is True, player=self._players.get(task.label)
        )

    def keep(self, k: int, table: np.ndarray) -> None:
        """Take the result of task ``k``, and store it."""
        if self.store is not None:
            self.store.put(self.tasks[k], table, self.how[self.tasks[k].label])
        self._tables[k] = table

    def results(self) -> Results:
        """Return the results, once nothing is missing."""
        counts = {
            label: np.concatenate(
                [self._tables[k] for k, task in enumerate(self.tasks) if task.label == label]
            )
            for label in self.policies
        }
        about = {
            "setting": self.problem.setting,
            "problem": repr(self.problem),
            "horizon": self.horizon,
            "seed": self.seed,
            **({"method": self.method} if self.method != "rounds" else {}),
            "sources": sources_of(self.policies.values()),
        }
        return Results.from_counts(
            self.problem,
            counts,
            self.rounds,
            {label: self.how[label] for label in counts},
            about,
            self.policies,
        )


def mark_rounds(marks: Any, horizon: int) -> np.ndarray:
    """Return the rounds to record: evenly spaced if a number is given; the last round is always included."""
    if isinstance(marks, (int, np.integer)) and not isinstance(marks, bool):
        count = min(integer("marks", marks, 1), horizon)
        return np.unique(
            np.ceil(np.arange(1, count + 1) * (horizon / count)).astype(np.int64).clip(1, horizon)
        )
    try:
        rounds = np.asarray(plain(marks))
    except (TypeError, ValueError):  # no numbers, or rows of different lengths
        rounds = np.empty((0, 0))
    whole = rounds.ndim == 1 and rounds.size > 0 and rounds.dtype.kind in "iu"
    if not whole or (rounds[1:] <= rounds[:-1]).any() or rounds[0] < 1 or rounds[-1] > horizon:
        raise ValueError(
            f"marks must be a number or increasing rounds from 1 to {horizon}, got {brief(marks)}"
        )
    return np.unique(np.append(rounds.astype(np.int64), horizon))


def _refuse_non_policy(problem: Any, label: Any, policy: Any) -> None:
    """Raise ``ValueError`` for anything that is not a policy of the problem's setting."""
    if not isinstance(label, str):
        raise ValueError(
            f"policies must be a mapping of labels to policies, got the label {brief(label)}, not a text"
        )
    if isinstance(policy, type):
        raise ValueError(
            f"policies[{brief(label)}] must be a policy, got the class {policy.__name__}: make an object of it"
        )
    for method in loop_for(problem, policy).entry:
        if not callable(getattr(policy, method, None)):
            raise ValueError(
                f"policies[{brief(label)}] must be a policy with a method {method}(), got {brief(policy)}"
            )
    if any(vars(base).get("__slots__") for base in type(policy).__mro__) or not hasattr(policy, "__dict__"):
        raise ValueError(
            f"policies[{brief(label)}] must keep its state in plain fields, got {type(policy).__name__} with __slots__"
        )
    for name, value in vars(policy).items():
        if isinstance(value, np.random.Generator):
            raise ValueError(
                f"policies[{brief(label)}] must draw from the generator it is given, got one of its own in the field "
                f"{name!r}: every replication would draw the same"
            )


def separate_fields(policy: Any) -> None:
    """Refuse a policy two of whose arrays share memory."""
    arrays = [(name, value) for name, value in vars(policy).items() if isinstance(value, np.ndarray)]
    for k, (name, value) in enumerate(arrays):
        for other, another in arrays[:k]:
            if value is not another and np.shares_memory(value, another):
                raise ValueError(
                    f"fields {other!r} and {name!r} of {type(policy).__name__} share memory, which copies do not: "
                    "keep one array and index it"
                )


def _damage_message(store: Store) -> str:
    names = sorted(store.damaged)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    verb = "is" if len(names) == 1 else "are"
    return f"store {store.folder}: {', '.join(names[:NAMED])}{more} {verb} damaged or foreign, and made again"
