"""Shared parts of the conformance checks: the policy under test, its rounds step by step, and comparisons of runs."""

import copy
import functools
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from weakfeedback.checks.codelines import writes
from weakfeedback.contract.decisions import WrongDecision
from weakfeedback.contract.readonly import Lender
from weakfeedback.contract.steps import Told, Wrapper
from weakfeedback.contract.typing import Rng
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.replication import Interpreted, restore, streams
from weakfeedback.engine.seeds import WORLD, generator
from weakfeedback.validate import brief

NUMBERS = (int, float, bool)


class Failure(Exception):
    """A check failed."""


@dataclass
class Case:
    problem: Any
    make: Callable[[], Any]
    rounds: int
    seed: int

    @functools.cached_property
    def loop(self) -> Any:
        return loop_for(self.problem, self.make())

    @functools.cached_property
    def run(self) -> list[tuple[np.ndarray, dict[str, Any]]]:
        """The run of a new policy in the interpreter, with which several checks compare another."""
        return list(trace(self, self.new(), Interpreted(self.problem)))

    def place(self, field: str, *entry: str) -> str:
        """Return where methods write a field, as the end of a message."""
        found = writes(type(self.make()), entry or self.loop.entry, field.partition(" of player ")[0])
        return f" ({found})" if found else ""

    def generators(self) -> tuple[np.random.Generator, Any]:
        return streams(self.problem, self.make(), self.seed, 0)

    def new(self) -> Any:
        """Return a new policy; for a setting with players a list of them, each from the factory."""
        players = self.loop.players
        return self.make() if players is None else [self.make() for _ in range(players(self.problem))]


class Asked(Wrapper):
    """Wraps a policy for a round: it decides, but what it is told after that is only noted."""

    def __init__(self, policy: Any, decides: str) -> None:
        super().__init__(policy)
        self.answers: list[Any] = []
        self.told: list[Told] = []
        self._decides = decides

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)
        if not callable(found):
            return found

        def called(*arguments: Any, **named: Any) -> Any:
            if name == self._decides:
                self.answers.append(found(*arguments, **named))
                return self.answers[-1]
            kept = (Rng if isinstance(one, Rng) else copy_of(one) for one in arguments)
            self.told.append(Told(name, tuple(kept), named))
            return True if self.answers else found(*arguments, **named)

        return called


class Late(Wrapper):
    """Wraps a policy and forwards feedback some rounds late."""

    def __init__(self, policy: Any, delay: int) -> None:
        super().__init__(policy)
        self._delay = delay
        self._waiting: list[tuple[Any, Any]] = []

    def update(self, *feedback: Any, **truth: Any) -> None:
        """Queue the feedback and forward the oldest."""
        *taught, rng = feedback
        self._waiting.append(([copy_of(one) for one in taught], copy.deepcopy(truth)))
        if len(self._waiting) > self._delay:
            oldest, told = self._waiting.pop(0)
            self.wrapped.update(*oldest, rng, **told)


def ask(case: Case, policy: Any, row: np.ndarray, rng: Any) -> tuple[Any, Any]:
    """Play the round of a row up to the decision; return the decision, and what the policy must be told of it."""
    loop, protocol, many = case.loop, case.loop.protocol, isinstance(policy, list)
    asked = [Asked(one, protocol.decides) for one in (policy if many else [policy])]
    counts = np.zeros(len(loop.counters(case.problem)), dtype=np.int64)
    world, table = protocol.script(case.problem, row), np.zeros((1, counts.size), dtype=np.int64)
    played = asked if many else asked[0]
    refused, _ = Interpreted(case.problem).play(played, world, None, rng, np.array([1]), counts, table)
    if refused:
        raise WrongDecision(asked[0], protocol.decides, asked[0].answers[-1], loop.refusal(case.problem))
    decisions = [protocol.decision(one, one.answers) for one in asked]
    return (decisions, [one.told for one in asked]) if many else (decisions[0], asked[0].told)


def teach(case: Case, policy: Any, decision: Any, told: Any, rng: Any) -> Any:
    """Give a policy, or each player, the feedback of a decision; return whether a label was sold."""
    if not isinstance(policy, list):
        return case.loop.protocol.learn(policy, decision, told, rng)
    for given in zip(policy, decision, told, rng):
        case.loop.protocol.learn(*given)
    return None


def rounds_of(case: Case, lending: bool = False, rounds: int = 0) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
    """Yield, round by round: policy, the policy with read-only arguments, decision, what it is told, generator."""
    policy = case.new()
    lenders: Any = [Lender(one) for one in policy] if isinstance(policy, list) else Lender(policy)
    _, rng = case.generators()
    for row in hidden_of(case, rounds):
        yield policy, lenders, *ask(case, lenders if lending else policy, row, rng), rng


def hidden_of(case: Case, rounds: int = 0) -> list[np.ndarray]:
    """Return the hidden data of every round, one array with one row each."""
    found = case.loop.protocol.record(case.problem, rounds or case.rounds, generator(case.seed, 0, WORLD))
    return [found[t : t + 1] for t in range(len(found))]


def trace(
    case: Case, policy: Any, player: Any, world: Any = None, rebuild_at: int = 0
) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
    """Play round by round; yield the counts and a copy of the state after each."""
    for counts, state in steps(case, policy, player, world, rebuild_at):
        yield counts, frozen(state)


def steps(
    case: Case, policy: Any, player: Any, world: Any = None, rebuild_at: int = 0
) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
    """Play round by round; yield the counts and the state after each, which the next round changes."""
    world_rng, rng = case.generators()
    world = case.problem.world() if world is None else world
    counts = np.zeros(len(case.loop.counters(case.problem)), dtype=np.int64)
    for t in range(1, case.rounds + 1):
        table = np.zeros((1, counts.size), dtype=np.int64)
        refused, state = player.play(policy, world, world_rng, rng, np.array([t]), counts, table)
        if refused:
            raise Failure(f"the decision of round {t} is not allowed: {case.loop.refusal(case.problem)}")
        yield table[0], state
        restore(policy, state)
        if t == rebuild_at:
            policy = _rebuild(policy)


def _rebuild(policy: Any) -> Any:
    if isinstance(policy, list):
        return [_rebuild(player) for player in policy]
    made = object.__new__(type(policy))
    vars(made).update(pickle.loads(pickle.dumps(vars(policy))))
    return made


def frozen(state: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the fields that later rounds do not change."""
    return {name: copy_of(value) for name, value in state.items()}


def copy_of(value: Any) -> Any:
    """Return a deep copy, of numbers and arrays of numbers quickly."""
    if type(value) in NUMBERS:
        return value
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        return value.copy()
    return copy.deepcopy(value)


def size_of(state: dict[str, Any]) -> int:
    """Return the bytes of the arrays, and of integers larger than a word."""
    arrays = sum(value.nbytes for value in state.values() if isinstance(value, np.ndarray))
    return arrays + sum(value.bit_length() // 64 for value in state.values() if isinstance(value, int))


def compare(one: Any, other: Any, what: str) -> None:
    for t, (a, b) in enumerate(zip(one, other), start=1):
        same_step(a, b, t, what)


def same_step(a: tuple[Any, ...], b: tuple[Any, ...], t: int, what: str) -> None:
    if not np.array_equal(a[0], b[0]):
        raise Failure(f"{what} differ in round {t}: counts {a[0].tolist()} and {b[0].tolist()}")
    same_state(a[1], b[1], f"{what}, round {t}")


def same_state(a: dict[str, Any], b: dict[str, Any], what: str) -> None:
    if a.keys() != b.keys():
        raise Failure(f"{what}: the fields changed to {sorted(b)} from {sorted(a)}")
    for name in a:
        if not are_same(a[name], b[name]):
            raise Failure(f"{what}: field {name!r} is {brief(b[name])}, not {brief(a[name])}")


def are_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal; NaN equals nothing."""
    if type(one) in NUMBERS and type(other) in NUMBERS:
        return bool(one == other)
    if type(one) is np.ndarray and type(other) is np.ndarray and one.dtype == other.dtype:
        return bool(one.shape == other.shape and np.count_nonzero(one != other) == 0)
    return np.array_equal(one, other)
