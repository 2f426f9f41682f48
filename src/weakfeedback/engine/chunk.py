"""One task: a range of replications of one policy on one problem."""

import copy
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.engine.digest import CannotLower
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.seeds import POLICY, WORLD, generator

# the compiler's messages are long; a line with one of these is the one to show, the first sign first
TELLING = (
    "start it in __init__",
    "Untyped global",
    "Unknown attribute",
    "Use of unsupported",
    "Unsupported",
    "Cannot unify",
    "No conversion",
    "No implementation of function",
    "Invalid use of",
)


@dataclass(frozen=True)
class Task:
    """Replications ``first`` to ``last - 1`` of a policy; small enough to be sent anywhere."""

    problem: Any
    label: str
    policy: Any
    first: int
    last: int
    marks: np.ndarray
    seed: int
    compiled: bool


def run(task: Task) -> np.ndarray:
    """Play the task; the counts at each mark, shape (replications, marks, counts)."""
    loop = loop_for(task.problem, task.policy)
    width = len(loop.counters(task.problem))
    table = np.zeros((task.last - task.first, task.marks.size, width), dtype=np.int64)
    player = Compiled(task.problem, task.policy) if task.compiled else Interpreted(task.problem)
    for k, replication in enumerate(range(task.first, task.last)):
        policy = copy.deepcopy(task.policy)
        counts = np.zeros(width, dtype=np.int64)
        generators = (generator(task.seed, replication, WORLD), generator(task.seed, replication, POLICY))
        try:
            refused, state = player.play(
                policy, task.problem.world(), *generators, task.marks, counts, table[k]
            )
        except Exception as error:
            error.add_note(f"while {task.label!r} played replication {replication}")
            raise
        if refused:
            raise ValueError(
                f"{task.label!r} decided something impossible in round {refused} of replication {replication}: "
                f"it must be {loop.refusal(task.problem)}"
            )
        for name, value in state.items():
            if isinstance(value, (float, np.ndarray)) and np.isnan(value).any():
                raise ValueError(
                    f"the field {name!r} of {task.label!r} became NaN in replication {replication}"
                )
    return table


class Interpreted:
    """Plays with the objects themselves."""

    def __init__(self, problem: Any) -> None:
        self.problem = problem

    def play(self, policy: Any, world: Any, *rest: Any) -> tuple[int, dict[str, Any]]:
        """The round of a refused decision or 0, and the policy's state afterwards."""
        with np.errstate(divide="raise", invalid="raise"):  # silent NaN of array elements becomes an error
            refused = loop_for(self.problem, policy).play(policy, world, *rest)
        return int(refused), vars(policy)


class Compiled:
    """Plays with the compiled twins; raises ``CannotLower`` at once when there can be none."""

    def __init__(self, problem: Any, policy: Any) -> None:
        from numba.core.errors import NumbaError

        from weakfeedback.engine.lowering import Blueprint, compiled_loop

        loop = loop_for(problem, policy)
        self.world = Blueprint(problem.world(), loop.world_entry)
        self.policy = Blueprint(policy, loop.entry)
        self.run = compiled_loop(loop.play, self.policy, self.world)
        if not self.run.signatures:
            width = len(loop.counters(problem))
            rest = (
                np.zeros(1, dtype=np.int64),
                np.zeros(width, dtype=np.int64),
                np.zeros((1, width), dtype=np.int64),
            )
            try:  # no round is played: this only compiles
                self.play(
                    copy.deepcopy(policy), problem.world(), generator(0, 0, 0), generator(0, 0, 1), *rest
                )
            except NumbaError as error:
                raise CannotLower(_reason(error, self.policy.methods)) from None

    def play(self, policy: Any, world: Any, *rest: Any) -> tuple[int, dict[str, Any]]:
        """The round of a refused decision or 0, and the policy's state afterwards."""
        struct = self.policy.build(policy)
        refused = self.run(struct, self.world.build(world), *rest)
        return int(refused), self.policy.read(struct)


def _reason(error: Exception, methods: dict[str, Any]) -> str:
    """One line out of a compiler's message: the method, and what is wrong in it."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    method = ""
    for path, line in re.findall(r'File "([^"]+)", line (\d+)', text):
        for name, function in methods.items():
            lines = [number for *_, number in function.__code__.co_lines() if number]
            if function.__code__.co_filename.endswith(path.lstrip("./")) and min(lines) <= int(line) <= max(
                lines
            ):
                method = f"{name}() line {line}: "
    lines_of_text = [line.strip(" -") for line in text.splitlines() if line.strip(" -")]
    lines_of_text = [line for line in lines_of_text if "<function template" not in line]
    for sign in TELLING:
        for line in reversed(lines_of_text):
            if sign in line:
                return method + line.removeprefix("TypingError: ")
    return method + lines_of_text[0]
