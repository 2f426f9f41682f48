"""Replications of one policy on one problem: what a task is, and how it is run.

A task is a range of replications. Each of them is played by copies of the prototype with their own generators: one
policy with one generator, or N players with N generators. Where a setting without players passes its policy, a setting
with players passes a list of players, and a list of generators instead of one. The state of a list is one flat dict.
"""

import copy
import functools
import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weakfeedback.contract.decisions import Judged, WrongDecision
from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.seeds import POLICY, WORLD, generator

STRETCH = 2_000_000  # rounds between two checks whether the run was cancelled
REPLAYED = 200_000  # maximum number of rounds replayed to describe a refused decision


class Stopped(RuntimeError):
    """The run was cancelled."""


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
    player: Any = field(default=None, compare=False)  # ``Compiled``, ready for this process only
    method: str = "rounds"  # or "events"

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "player": None}


def run(task: Task) -> np.ndarray:
    """Play the task; return the counts at each mark, shape (replications, marks, counts)."""
    loop = loop_for(task.problem, task.policy)
    width = len(loop.counters(task.problem))
    table = np.zeros((task.last - task.first, task.marks.size, width), dtype=np.int64)
    player = task.player
    if task.method == "events":
        player = Interpreted(task.problem, events=True)
    elif player is None:
        player = Compiled(task.problem, task.policy) if task.compiled else Interpreted(task.problem)
    world = task.problem.world()
    for k, replication in enumerate(range(task.first, task.last)):
        counts = np.zeros(width, dtype=np.int64)
        try:
            policy = cast(task.problem, task.policy)
            generators = streams(task.problem, task.policy, task.seed, replication)
            refused, state = player.play(policy, fresh(world), *generators, task.marks, counts, table[k])
        except WrongDecision as error:
            raise _impossible_decision(task, replication, error.round, error.words) from None
        except Exception as error:
            error.add_note(f"while {task.label!r} played replication {replication}")
            raise
        if refused:
            raise _impossible_decision(
                task, replication, refused, _describe_refusal(task, replication, refused)
            )
        name = nan_field(state)
        if name is not None:
            raise ValueError(f"the field {name!r} of {task.label!r} became NaN in replication {replication}")
    return table


def _impossible_decision(task: Task, replication: int, round: int, words: str) -> ValueError:
    return ValueError(
        f"{task.label!r} decided something impossible in round {round} of replication {replication}: {words}"
    )


def _describe_refusal(task: Task, replication: int, round: int) -> str:
    """Describe the decision that compiled code refused without a reason: the interpreter plays it again."""
    player, loop = Interpreted(task.problem), loop_for(task.problem, task.policy)
    if round <= REPLAYED:
        counts = np.zeros(len(loop.counters(task.problem)), dtype=np.int64)
        table = np.zeros((1, counts.size), dtype=np.int64)
        policy = cast(task.problem, task.policy)
        generators = streams(task.problem, task.policy, task.seed, replication)
        try:
            player.play(policy, task.problem.world(), *generators, np.array([round]), counts, table)
        except WrongDecision as error:
            return error.words
    return f"it must be {loop.refusal(task.problem)}"


class Interpreted:
    """Plays the Python objects in the interpreter; by ``events`` it skips rounds in which nothing changes."""

    def __init__(self, problem: Any, events: bool = False) -> None:
        self.problem, self.events = problem, events

    def play(self, policy: Any, world: Any, *rest: Any) -> tuple[int, dict[str, Any]]:
        """Return the round of a refused decision or 0, and the policy's state afterwards."""
        loop: Any = loop_for(self.problem, policy[0] if isinstance(policy, list) else policy)
        if self.events:
            return int(loop.events(policy, world, *rest)), state_of(policy)
        decides, judge = loop.protocol.decides, functools.partial(loop.judge, self.problem)
        players = policy if isinstance(policy, list) else [policy]
        starts = getattr(loop.protocol, "starts", None)
        judged = [Judged(player, decides, judge, starts) for player in players]
        with np.errstate(divide="raise", invalid="raise"):  # turn silent NaN of array elements into errors
            refused = loop.play(judged if isinstance(policy, list) else judged[0], world, *rest)
        return int(refused), state_of(policy)


class Compiled:
    """Plays with the compiled twins; the constructor raises ``CannotLower`` if they cannot be compiled."""

    def __init__(self, problem: Any, policy: Any) -> None:
        from weakfeedback.engine.compiler.lowering import Blueprint, compiled_loop, entry_point

        self.stopped = False  # set by another thread to cancel the run before the next stretch of rounds
        loop = loop_for(problem, policy)
        self.world = Blueprint(problem.world(), loop.world_entry)
        self.policy = Blueprint(policy, loop.entry)
        self.alone = loop.players is None
        self.loop = compiled_loop(loop.play, self.policy, self.world)
        width = len(loop.counters(problem))
        no_rounds = (
            np.zeros(1, dtype=np.int64),
            np.zeros(width, dtype=np.int64),
            np.zeros((1, width), dtype=np.int64),
        )
        one, rng = fresh(policy), generator(0, 0, WORLD)
        twins = self._make_twins(
            one if self.alone else [one], problem.world(), rng, rng if self.alone else [rng]
        )
        try:
            self.run = entry_point(self.loop, *twins, *no_rounds)
        # the compiler raises many kinds of errors; in any case the interpreter can play
        except Exception as error:
            from weakfeedback.engine.compiler.reasons import reason

            raise CannotLower(reason(error, self.policy.methods, self.policy.cls)) from None

    def _make_twins(self, policy: Any, world: Any, world_rng: Any, rng: Any) -> tuple[Any, Any, Any, Any]:
        """Return the first four arguments of the loop, as compiled code takes them."""
        from weakfeedback.engine.compiler.fields import stream_of

        place = self.world.twin(world)
        if self.alone:
            return self.policy.twin(policy), place, stream_of(world_rng), stream_of(rng)
        from weakfeedback.engine.compiler.team import Generators, Team

        return Team(self.policy, policy), place, stream_of(world_rng), Generators(rng)

    def play(
        self,
        policy: Any,
        world: Any,
        world_rng: Any,
        rng: Any,
        marks: np.ndarray,
        counts: np.ndarray,
        table: np.ndarray,
    ) -> tuple[int, dict[str, Any]]:
        """Return the round of a refused decision or 0, and the policy's state afterwards; the world advances."""
        twin, world_twin, *generators = self._make_twins(policy, world, world_rng, rng)
        refused = 0
        for first, last in _stretches(marks):
            if self.stopped:
                raise Stopped("the run was cancelled")
            refused = self.run(twin, world_twin, *generators, marks[first:last], counts, table[first:last])
            if refused:
                break
        self.world.write_back(world_twin, world)
        return int(refused), self.policy.read(twin) if self.alone else joined(twin.states())


def _stretches(marks: np.ndarray) -> list[tuple[int, int]]:
    """Return ranges of marks of about ``STRETCH`` rounds, between which a run can be cancelled."""
    if marks[-1] - marks[0] <= STRETCH:
        return [(0, marks.size)]
    cuts = np.searchsorted(marks, np.arange(STRETCH, marks[-1], STRETCH))
    bounds = [0, *np.unique(cuts[(cuts > 0) & (cuts < marks.size)]).tolist(), marks.size]
    return list(itertools.pairwise(bounds))


def cast(problem: Any, policy: Any) -> Any:
    """Return a new copy of a prototype, or a list with one copy for each player."""
    players = loop_for(problem, policy).players
    return fresh(policy) if players is None else [fresh(policy) for _ in range(players(problem))]


def streams(problem: Any, policy: Any, seed: int, replication: int) -> tuple[np.random.Generator, Any]:
    """Return the generators of a replication: (r, 0) the world's, (r, 1) the policy's or (r, 1, n) player n's."""
    players = loop_for(problem, policy).players
    world = generator(seed, replication, WORLD)
    if players is None:
        return world, generator(seed, replication, POLICY)
    return world, [generator(seed, replication, POLICY, n) for n in range(players(problem))]


def state_of(policy: Any) -> dict[str, Any]:
    """Return all fields of a policy, or of a list of players."""
    return joined([player.__dict__ for player in policy]) if isinstance(policy, list) else vars(policy)


def joined(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the states of players into one."""
    labels = _labels(tuple(tuple(state) for state in states))
    return dict(zip(labels, itertools.chain.from_iterable(state.values() for state in states)))


@functools.lru_cache(maxsize=16)
def _labels(fields: tuple[tuple[str, ...], ...]) -> list[str]:
    return [f"{name} of player {n}" for n, names in enumerate(fields) for name in names]


def restore(policy: Any, state: dict[str, Any]) -> None:
    """Set the fields of a policy, or of the players of a list, to those in ``state``."""
    if not isinstance(policy, list):
        vars(policy).update(state)
        return
    for n, player in enumerate(policy):
        vars(player).update({name: state[f"{name} of player {n}"] for name in vars(player)})


def fresh(obj: Any) -> Any:
    """Return a copy of a plain object: its arrays are copied, read-only ones are shared."""
    made = object.__new__(type(obj))
    known: dict[int, Any] = {id(obj): made}  # two names of one object stay names of one object
    fields = made.__dict__
    for name, value in vars(obj).items():
        kind = type(value)
        if kind is int or kind is float or kind is bool or (kind is np.ndarray and not value.flags.writeable):
            fields[name] = value
        elif kind is not np.ndarray:
            fields[name] = copy.deepcopy(value, known)
        else:
            if id(value) not in known:
                known[id(value)] = value.copy(order="C")
            fields[name] = known[id(value)]
    return made


def nan_field(state: dict[str, Any]) -> str | None:
    """Return the name of a field that holds NaN, or None."""
    for name, value in state.items():
        if type(value) is int or type(value) is bool:
            continue
        if isinstance(value, np.ndarray):
            if value.dtype.kind != "f" or not value.size:
                continue
            value = value.min()  # NaN if one of them is
        if isinstance(value, (float, np.floating)) and value != value:
            return name
    return None
