"""Conformance of a policy: everything the simulation and the live objects rely on, checked by running it.

``check_policy(factory, problem)`` is what this package's own policies pass; run it on yours. Each check is
a function below whose first line says what it demands.
"""

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weakfeedback.engine.cast import cast, restore, state_of, streams
from weakfeedback.engine.chunk import Compiled, Interpreted
from weakfeedback.engine.digest import CannotLower
from weakfeedback.engine.loop import loop_for, measures_of
from weakfeedback.engine.plan import separate_fields
from weakfeedback.engine.seeds import WORLD, generator
from weakfeedback.plaintext import one_line
from weakfeedback.validate import brief


class PolicyCheckError(ValueError):
    """A policy does not keep the protocol; one line per failed check."""


@dataclass
class CheckReport:
    """What was checked."""

    policy: str
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.policy}: {len(self.passed)} checks passed, {len(self.failed)} failed"]
        lines += [f"  passed  {name}" for name in self.passed]
        lines += [f"  FAILED  {text}" for text in self.failed]
        return "\n".join(lines)


class _Failure(Exception):
    """A check's verdict."""


@dataclass
class _Case:
    problem: Any
    make: Callable[[], Any]
    rounds: int
    seed: int

    @property
    def loop(self) -> Any:
        return loop_for(self.problem, self.make())

    def generators(self) -> tuple[np.random.Generator, Any]:
        return streams(self.problem, self.make(), self.seed, 0)

    def new(self) -> Any:
        """A fresh policy; for a setting with players a list of them, each from the factory."""
        players = self.loop.players
        return self.make() if players is None else [self.make() for _ in range(players(self.problem))]


def check_policy(
    factory: Callable[[Any], Any], problem: Any, rounds: int = 300, seed: int = 0, compiled: bool = True
) -> CheckReport:
    """Run every check on the policy that ``factory(problem)`` makes.

    Parameters
    ----------
    factory : callable
        Takes the problem and returns a fresh policy, for instance ``lambda p: UssTs(p.costs)``.
    problem : a problem of the policy's setting
    rounds, seed : integers
        Length and seed of each run.
    compiled : bool
        False leaves out the comparison with compiled code, for policies that cannot be compiled.

    Returns the report; raises ``PolicyCheckError`` when a check fails.

    Examples
    --------
    >>> from weakfeedback.cascade import CascadeProblem, UssTs
    >>> problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    >>> print(len(check_policy(lambda p: UssTs(p.costs), problem).passed))
    11
    """
    case = _Case(problem, lambda: factory(problem), rounds, seed)
    policy = case.make()
    report = CheckReport(type(policy).__name__)
    loop_for(problem, policy).fits(problem, policy)
    for check in CHECKS:
        if check is compiled_as_interpreted and not compiled:
            continue
        name = check.__name__.replace("_", " ")
        try:
            check(case)
        except _Failure as failure:
            report.failed.append(f"{name}: {failure}")
        except (Exception, SystemExit) as error:
            report.failed.append(f"{name}: {type(error).__name__}: {_words_of(error)}")
        else:
            report.passed.append(name)
    if report.failed:
        raise PolicyCheckError(str(report))
    return report


def fields_are_numbers_and_arrays(case: _Case) -> None:
    """``vars(policy)`` holds numbers, bools and arrays only, and no two arrays share memory."""
    policy = case.make()
    separate_fields(policy)
    for name, value in vars(policy).items():
        if isinstance(value, np.ndarray) and value.dtype.kind not in "biuf":
            raise _Failure(f"field {name!r} is an array of {value.dtype}")
        if not isinstance(value, (bool, int, float, np.generic, np.ndarray)):
            raise _Failure(f"field {name!r} is a {type(value).__name__}: use numbers, bools and arrays")


def same_seed_same_run(case: _Case) -> None:
    """Two fresh policies with equal generators do the same: all randomness comes from ``rng``."""
    runs = [_trace(case, case.new(), Interpreted(case.problem)) for _ in range(2)]
    _compare(runs[0], runs[1], "two runs with one seed")


def copies_are_independent(case: _Case) -> None:
    """Playing with a copy leaves the original and other copies as they were."""
    prototype = case.make()
    before = _frozen(vars(prototype))
    alone = list(_trace(case, cast(case.problem, prototype), Interpreted(case.problem)))
    _same_state(before, _frozen(vars(prototype)), "the original after playing with a copy")
    pair = [_trace(case, cast(case.problem, prototype), Interpreted(case.problem)) for _ in range(2)]
    for t, (one, other) in enumerate(zip(*pair), start=1):
        _same_step(alone[t - 1], one, t, "a copy playing beside another")
        _same_step(alone[t - 1], other, t, "a copy playing beside another")


def compiled_as_interpreted(case: _Case) -> None:
    """Compiled and interpreted rounds leave the same counts and the same state, round by round."""
    try:
        compiled = Compiled(case.problem, case.make())
    except CannotLower as reason:
        raise _Failure(f"cannot be compiled: {reason}") from None
    interpreted = _trace(case, case.new(), Interpreted(case.problem))
    _compare(interpreted, _trace(case, case.new(), compiled), "interpreted and compiled")


def select_learns_nothing(case: _Case) -> None:
    """Deciding changes no field but those named in ``scratch``: only feedback teaches."""
    policy, protocol = case.new(), case.loop.protocol
    notes = getattr(case.make(), "scratch", ())
    _, rng = case.generators()
    for t, row in enumerate(_hidden(case), start=1):
        before = _frozen(state_of(policy))
        decision = _decide(protocol, policy, row, rng)
        after = _frozen(state_of(policy))
        _same_state(before, after | {name: before[name] for name in notes}, f"deciding in round {t}")
        protocol.learn(policy, decision, protocol.show(row, decision), rng)


def feedback_is_not_kept(case: _Case) -> None:
    """No field shares memory with the feedback or the decision: both are lent for the call only."""
    policy, protocol = case.new(), case.loop.protocol
    _, rng = case.generators()
    for row in _hidden(case):
        decision = _decide(protocol, policy, row, rng)
        seen = protocol.show(row, decision)
        protocol.learn(policy, decision, seen, rng)
        for name, value in state_of(policy).items():
            for lent in (*(seen if isinstance(seen, tuple) else (seen,)), decision):
                if (
                    isinstance(value, np.ndarray)
                    and isinstance(lent, np.ndarray)
                    and np.shares_memory(value, lent)
                ):
                    raise _Failure(f"field {name!r} is the array that was lent: copy its values")


def save_and_restore_midway(case: _Case) -> None:
    """A policy rebuilt from ``vars`` in the middle goes on as if nothing had happened."""
    whole = list(_trace(case, case.new(), Interpreted(case.problem)))
    rest = _trace(case, case.new(), Interpreted(case.problem), rebuild_at=case.rounds // 2)
    for t, step in enumerate(rest, start=1):
        _same_step(whole[t - 1], step, t, "the run rebuilt in the middle")


def memory_is_bounded(case: _Case) -> None:
    """The state does not grow with the rounds (classes with ``keeps_history = True`` may)."""
    if getattr(case.make(), "keeps_history", False):
        return
    sizes = [_size(state) for _, state in _trace(case, case.new(), Interpreted(case.problem))]
    if sizes[-1] > sizes[len(sizes) // 4]:
        raise _Failure(
            f"the state grew from {sizes[len(sizes) // 4]} to {sizes[-1]} bytes: set keeps_history = True"
        )


def late_feedback_is_learned_right(case: _Case) -> None:
    """With ``delay_safe = True``, feedback 1, 5 or 20 rounds late teaches what it would have taught at once."""
    delay_safe = getattr(case.make(), "delay_safe", None)
    if not isinstance(delay_safe, bool):
        raise _Failure("the class must state delay_safe = True or False")
    if not delay_safe:
        return
    protocol = case.loop.protocol
    for delay in (1, 5, 20):
        late = case.new()
        log: list[tuple[Any, Any]] = []
        deciding, learning = case.generators()
        waiting: list[tuple[Any, Any]] = []
        for row in _hidden(case):
            decision = _decide(protocol, late, row, deciding)
            waiting.append((decision, protocol.show(row, decision)))
            if len(waiting) > delay:
                log.append(waiting.pop(0))
                protocol.learn(late, *copy.deepcopy(log[-1]), learning)
        at_once = case.new()
        _, learning = case.generators()
        for decision, seen in log:
            protocol.learn(at_once, decision, seen, learning)
        _same_state(_frozen(state_of(at_once)), _frozen(state_of(late)), f"feedback {delay} rounds late")


def late_feedback_does_not_ruin_it(case: _Case) -> None:
    """With ``delay_safe = True``, feedback 20 rounds late slows learning down; nothing wrong is learned."""
    policy = case.make()
    if not getattr(policy, "delay_safe", False) or case.loop.players is not None:
        return
    patience = (
        1 if getattr(policy, "keeps_history", False) else 10
    )  # a search step by step is 20 times slower
    prompt = _regret_by_tenths(case, case.rounds, delay=0)
    late = _regret_by_tenths(case, patience * case.rounds, delay=20)
    worst = max(prompt.max(), late.max())  # what a round costs while nothing is learned
    if late[8:].mean() > prompt[5:].mean() + 0.3 * worst:
        raise _Failure(
            f"with feedback 20 rounds late a round costs {late[8:].mean():.3g} in the end, at once "
            f"{prompt[5:].mean():.3g}: learn for the decision that the feedback belongs to"
        )


def hidden_is_unreachable(case: _Case) -> None:
    """Changing everything the policy has no right to see changes nothing it does."""
    protocol, hidden = case.loop.protocol, _hidden(case)
    policy = case.new()
    spies = [_Spy(one, protocol.decides) for one in (policy if isinstance(policy, list) else [policy])]
    played = spies if isinstance(policy, list) else spies[0]
    script = protocol.script(hidden)
    list(_trace(case, played, Interpreted(case.problem), world=script))
    decisions = zip(*(spy.decisions for spy in spies)) if isinstance(policy, list) else spies[0].decisions
    chaos = generator(case.seed, 0, 2)
    other = np.array([protocol.scramble(row, decision, chaos) for row, decision in zip(hidden, decisions)])
    for row in getattr(script, "sold", ()):  # what was bought was seen
        other[row, 0] = hidden[row, 0]
    runs = [
        _trace(case, case.new(), Interpreted(case.problem), world=protocol.script(rows))
        for rows in (hidden, other)
    ]
    _compare(runs[0], runs[1], "what is hidden was changed; the runs")


CHECKS: tuple[Callable[[_Case], None], ...] = (
    fields_are_numbers_and_arrays,
    same_seed_same_run,
    copies_are_independent,
    compiled_as_interpreted,
    select_learns_nothing,
    feedback_is_not_kept,
    save_and_restore_midway,
    memory_is_bounded,
    late_feedback_is_learned_right,
    late_feedback_does_not_ruin_it,
    hidden_is_unreachable,
)


class _Late:
    """Stands before a policy and hands on feedback some rounds late."""

    def __init__(self, policy: Any, delay: int) -> None:
        self._policy, self._delay = policy, delay
        self._waiting: list[tuple[Any, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def update(self, *feedback: Any, **truth: Any) -> None:
        """Keep the feedback and give the oldest."""
        *lesson, rng = feedback
        self._waiting.append(copy.deepcopy((lesson, truth)))
        if len(self._waiting) > self._delay:
            oldest, told = self._waiting.pop(0)
            self._policy.update(*oldest, rng, **told)


def _regret_by_tenths(case: _Case, rounds: int, delay: int) -> np.ndarray:
    """Regret per round in each tenth of the rounds, the mean of two replications."""
    problem, policy = case.problem, case.make()
    width = len(case.loop.counters(problem))
    marks = np.unique(np.linspace(0, rounds, 11).astype(np.int64)[1:])
    total = np.zeros(marks.size)
    for replication in range(2):
        table, counts = np.zeros((marks.size, width), dtype=np.int64), np.zeros(width, dtype=np.int64)
        rngs = streams(problem, policy, case.seed, replication)
        Interpreted(problem).play(_Late(case.new(), delay), problem.world(), *rngs, marks, counts, table)
        regret = measures_of(problem, policy, table)["regret"]
        total += np.diff(regret, prepend=0.0) / np.diff(marks, prepend=0)
    return total / 2


class _Spy:
    """Stands before a policy and notes what it decides."""

    def __init__(self, policy: Any, decides: str) -> None:
        self.decisions: list[Any] = []
        self._policy, self._decides = policy, decides

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._policy, name)
        if name != self._decides:
            return method

        def noted(*arguments: Any) -> Any:
            self.decisions.append(method(*arguments))
            return copy.deepcopy(self.decisions[-1])

        return noted


def _decide(protocol: Any, policy: Any, row: Any, rng: np.random.Generator) -> Any:
    """Ask for a decision, after what the setting announces before it (a context)."""
    announced = protocol.announce(row) if hasattr(protocol, "announce") else ()
    return protocol.decide(policy, *announced, rng)


def _hidden(case: _Case) -> np.ndarray:
    return case.loop.protocol.record(case.problem, case.rounds, generator(case.seed, 0, WORLD))


def _trace(
    case: _Case, policy: Any, player: Any, world: Any = None, rebuild_at: int = 0
) -> Iterator[tuple[np.ndarray, dict[str, Any]]]:
    """Play round by round; the counts and the state after each."""
    world_rng, rng = case.generators()
    world = case.problem.world() if world is None else world
    counts = np.zeros(len(case.loop.counters(case.problem)), dtype=np.int64)
    for t in range(1, case.rounds + 1):
        table = np.zeros((1, counts.size), dtype=np.int64)
        refused, state = player.play(policy, world, world_rng, rng, np.array([t]), counts, table)
        if refused:
            raise _Failure(f"the decision of round {t} is not allowed: {case.loop.refusal(case.problem)}")
        yield table[0].copy(), _frozen(state)
        restore(policy, state)
        if t == rebuild_at:
            policy = _rebuilt(policy)


def _rebuilt(policy: Any) -> Any:
    if isinstance(policy, list):
        return [_rebuilt(player) for player in policy]
    made = object.__new__(type(policy))
    vars(made).update(pickle.loads(pickle.dumps(vars(policy))))
    return made


def _frozen(state: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(dict(state))


def _size(state: dict[str, Any]) -> int:
    """Bytes of the arrays, and of integers that outgrow a word."""
    arrays = sum(value.nbytes for value in state.values() if isinstance(value, np.ndarray))
    return arrays + sum(value.bit_length() // 64 for value in state.values() if isinstance(value, int))


def _compare(one: Any, other: Any, what: str) -> None:
    for t, (a, b) in enumerate(zip(one, other), start=1):
        _same_step(a, b, t, what)


def _same_step(a: tuple, b: tuple, t: int, what: str) -> None:
    if not np.array_equal(a[0], b[0]):
        raise _Failure(f"{what} differ in round {t}: counts {a[0].tolist()} and {b[0].tolist()}")
    _same_state(a[1], b[1], f"{what}, round {t}")


def _same_state(a: dict[str, Any], b: dict[str, Any], what: str) -> None:
    if a.keys() != b.keys():
        raise _Failure(f"{what}: the fields changed to {sorted(b)} from {sorted(a)}")
    for name in a:
        if not np.array_equal(a[name], b[name], equal_nan=False):
            raise _Failure(f"{what}: field {name!r} is {_brief(b[name])}, not {_brief(a[name])}")


def _brief(value: Any) -> str:
    return one_line(brief(value), 80)


def _words_of(error: BaseException) -> str:
    try:
        return one_line(str(error), 500)
    except Exception:  # of somebody's own
        return "an error that cannot be written down"
