"""Conformance of a policy: everything the simulation and the live objects rely on, checked by running it.

This package's own policies pass ``check_policy(factory, problem)``; run it on yours. Each check is a function below
whose first line says what it requires.
"""

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weakfeedback.checks.case import (
    Case,
    Failure,
    Late,
    are_same,
    ask,
    compare,
    frozen,
    hidden_of,
    rounds_of,
    same_state,
    same_step,
    size_of,
    teach,
    trace,
)
from weakfeedback.checks.pairs import pairs_teach_as_outputs
from weakfeedback.contract.decisions import WrongDecision
from weakfeedback.contract.readonly import WritesToLoan, frames_of
from weakfeedback.engine.compiler.fingerprint import CannotLower
from weakfeedback.engine.loop import loop_for, measures_of
from weakfeedback.engine.plan import separate_fields
from weakfeedback.engine.replication import Compiled, Interpreted, cast, state_of, streams
from weakfeedback.engine.seeds import generator
from weakfeedback.plaintext import one_line
from weakfeedback.validate import brief

SHORT_ROUNDS = 40  # rounds of a check whose subject other checks cover as well


class PolicyCheckError(ValueError):
    """A policy violates the protocol; one line per failed check."""


@dataclass
class CheckReport:
    """The result of the checks."""

    policy: str
    passed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.policy}: {len(self.passed)} checks passed, {len(self.failed)} failed"]
        lines += [f"  FAILED  {text}" for text in self.failed]
        lines += [f"  passed  {', '.join(self.passed)}"] if self.passed else []
        return "\n".join(lines)


def check_policy(
    factory: Callable[[Any], Any], problem: Any, rounds: int = 300, seed: int = 0, compiled: bool = True
) -> CheckReport:
    """Run every check on the policy that ``factory(problem)`` makes.

    Parameters
    ----------
    factory : callable
        Takes the problem and returns a new policy, for instance ``lambda p: UssTs(p.costs)``.
    problem : a problem of the policy's setting
    rounds, seed : integers
        Length and seed of each run.
    compiled : bool
        False leaves out the comparison with compiled code, for policies that cannot be compiled.

    Returns the report; raises ``PolicyCheckError`` if a check fails: the failures first, one per cause, even if several
    checks found it.

    Examples
    --------
    >>> from weakfeedback.cascade import CascadeProblem, UssTs
    >>> problem = CascadeProblem.bsc([0.4, 0.2], costs=[0.1, 0.2])
    >>> print(len(check_policy(lambda p: UssTs(p.costs), problem).passed))
    15
    """
    case = Case(problem, lambda: factory(problem), rounds, seed)
    policy = case.make()
    report = CheckReport(type(policy).__name__)
    loop_for(problem, policy).fits(problem, policy)
    causes: set[str] = set()
    failed: set[str] = set()
    tried = [check for check in CHECKS if compiled or check is not compiled_as_interpreted]
    for check in tried:
        try:
            check(case)
        except (Exception, SystemExit) as error:
            text, cause = _describe_failure(error, case)
            name = _name(CAUSES.get(type(error), check))
            if cause not in causes:
                report.failed.append(f"{name}: {text}")
            causes.add(cause)
            failed |= {name, _name(check)}
    report.passed = [_name(check) for check in tried if _name(check) not in failed]
    if report.failed:
        raise PolicyCheckError(str(report))
    return report


def _name(check: Callable[[Case], None]) -> str:
    return check.__name__.replace("_", " ")


def _describe_failure(error: BaseException, case: Case) -> tuple[str, str]:
    """Return what a check found, with method and line, and a key that identifies the cause."""
    text, cls = _words_of(error), type(case.make())
    if isinstance(error, WritesToLoan):
        return text, text
    if isinstance(error, WrongDecision):
        method = case.loop.protocol.decides
        line = getattr(cls, method).__code__.co_firstlineno
        return f"{text}, which is defined in line {line}", "impossible decision"
    if isinstance(error, Failure):
        field = re.search(r"field '(\w+)", text)
        return (text if field is None or " line " in text else f"{text}{case.place(field[1])}"), text
    text = f"{type(error).__name__}: {one_line(text)}"
    for frame, line in frames_of(cls, error.__traceback__)[-1:]:
        text = f"{cls.__name__}.{frame.f_code.co_name}() line {line} raised {text}"
    return text, text


def _words_of(error: BaseException) -> str:
    try:
        return one_line(str(error), 500)
    except Exception:  # a user-defined exception
        return "an error whose message cannot be read"


def fields_are_numbers_and_arrays(case: Case) -> None:
    """``vars(policy)`` holds only numbers, bools and arrays, and no two arrays share memory."""
    policy = case.make()
    separate_fields(policy)
    for name, value in vars(policy).items():
        if isinstance(value, np.ndarray) and value.dtype.kind not in "biuf":
            raise Failure(f"field {name!r} is an array of {value.dtype}{case.place(name, '__init__')}")
        if not isinstance(value, (bool, int, float, np.generic, np.ndarray)):
            where = case.place(name, "__init__")
            raise Failure(f"field {name!r} is a {type(value).__name__}: use numbers, bools and arrays{where}")


def decisions_are_allowed(case: Case) -> None:
    """What ``select`` or ``choose`` returns is a valid decision of the setting; the other checks test this, too."""
    for policy, _, decision, told, rng in rounds_of(case, rounds=SHORT_ROUNDS):
        teach(case, policy, decision, told, rng)


def lent_arrays_are_not_written(case: Case) -> None:
    """Outputs, contexts, allocations and observations are only read; the two checks of feedback test this, too."""
    for _, lenders, decision, told, rng in rounds_of(case, lending=True, rounds=SHORT_ROUNDS):
        teach(case, lenders, decision, told, rng)


def settled_players_stay(case: Case) -> None:
    """A player that reports itself settled plays its arm from then on (unless it is ``fair`` and takes turns)."""
    players = case.loop.players
    if players is None or getattr(case.make(), "fair", False):
        return
    kind = type(case.make()).__name__
    seats: dict[int, int] = {}
    left = case.rounds  # to be played once all have settled
    longest = 20 * case.rounds
    for t, (team, _, arms, told, rngs) in enumerate(rounds_of(case, rounds=longest), start=1):
        for n, seat in seats.items():
            if arms[n] != seat:
                raise Failure(
                    f"{kind} was settled on arm {seat} and chose {arms[n]} in round {t}"
                    f"{case.place('settled', *case.loop.entry)}"
                )
        teach(case, team, arms, told, rngs)
        for n, player in enumerate(team):
            if n in seats and (not player.settled or player.arm != seats[n]):
                raise Failure(
                    f"{kind} was settled on arm {seats[n]}, after round {t} its fields are settled = {player.settled} "
                    f"and arm = {player.arm}{case.place('arm', *case.loop.entry)}"
                )
            if player.settled:
                seats[n] = int(player.arm)
        left -= len(seats) == len(team)
        if left == 0:
            return


def same_seed_same_run(case: Case) -> None:
    """Two new policies with equal generators do the same: all randomness comes from ``rng``."""
    compare(case.run, trace(case, case.new(), Interpreted(case.problem)), "two runs with one seed")


def copies_are_independent(case: Case) -> None:
    """Playing with a copy leaves the original and other copies as they were."""
    prototype = case.make()
    before = frozen(vars(prototype))
    alone = list(trace(case, cast(case.problem, prototype), Interpreted(case.problem)))
    same_state(before, frozen(vars(prototype)), "the original after playing with a copy")
    pair = [trace(case, cast(case.problem, prototype), Interpreted(case.problem)) for _ in range(2)]
    for t, (one, other) in enumerate(zip(*pair), start=1):
        same_step(alone[t - 1], one, t, "a copy playing beside another")
        same_step(alone[t - 1], other, t, "a copy playing beside another")


def compiled_as_interpreted(case: Case) -> None:
    """Compiled and interpreted rounds leave the same counts and the same state, round by round."""
    try:
        compiled = Compiled(case.problem, case.make())
    except CannotLower as reason:
        raise Failure(f"cannot be compiled: {reason}") from None
    compare(case.run, trace(case, case.new(), compiled), "interpreted and compiled")


def select_learns_nothing(case: Case) -> None:
    """Deciding changes no field except those named in ``scratch``: a policy learns only from feedback."""
    policy, protocol = case.new(), case.loop.protocol
    notes = getattr(case.make(), "scratch", ())
    _, rng = case.generators()
    for t, row in enumerate(hidden_of(case), start=1):
        before = frozen(state_of(policy))
        decision, told = ask(case, policy, row, rng)
        after = frozen(state_of(policy)) | {name: before[name] for name in notes}
        for name in before.keys() & after.keys():
            if not are_same(before[name], after[name]):
                where = case.place(name, protocol.decides)
                raise Failure(
                    f"deciding in round {t} makes the field {name!r} {brief(after[name])}, it was "
                    f"{brief(before[name])}: only feedback may teach{where}"
                )
        same_state(before, after, f"deciding in round {t}")
        teach(case, policy, decision, told, rng)


def feedback_is_not_kept(case: Case) -> None:
    """No field shares memory with the feedback or the decision: both belong to the caller."""
    for policy, lenders, decision, told, rng in rounds_of(case, lending=True):
        teach(case, lenders, decision, told, rng)
        loans = [loan for one in (lenders if isinstance(lenders, list) else [lenders]) for loan in one.lent]
        if isinstance(decision, np.ndarray):
            loans.append(decision)
        for name, value in state_of(policy).items():
            if isinstance(value, np.ndarray) and any(np.shares_memory(value, loan) for loan in loans):
                raise Failure(f"field {name!r} is the array that was lent: copy its values{case.place(name)}")


def save_and_restore_midway(case: Case) -> None:
    """A policy rebuilt from ``vars`` in the middle of a run continues identically."""
    rest = trace(case, case.new(), Interpreted(case.problem), rebuild_at=case.rounds // 2)
    for t, step in enumerate(rest, start=1):
        same_step(case.run[t - 1], step, t, "the run rebuilt in the middle")


def memory_is_bounded(case: Case) -> None:
    """The state does not grow with the rounds (classes with ``keeps_history = True`` may)."""
    if getattr(case.make(), "keeps_history", False):
        return
    sizes: list[int] = []
    early: dict[str, Any] = {}
    state: dict[str, Any] = {}
    for _, state in case.run:
        sizes.append(size_of(state))
        if len(sizes) == case.rounds // 4 + 1:
            early = state
    if sizes[-1] > sizes[len(sizes) // 4]:
        grown = [name for name in early if size_of({name: state[name]}) > size_of({name: early[name]})]
        where = f": {grown[0]!r} grows{case.place(grown[0])}" if grown else ""
        raise Failure(
            f"the state grew from {sizes[len(sizes) // 4]} to {sizes[-1]} bytes{where}; set keeps_history = True if "
            "it must"
        )


def late_feedback_is_learned_right(case: Case) -> None:
    """With ``delay_safe = True``, feedback 1, 5 or 20 rounds late has the same effect as immediate feedback."""
    delay_safe = getattr(case.make(), "delay_safe", None)
    if not isinstance(delay_safe, bool):
        raise Failure("the class must state delay_safe = True or False")
    if not delay_safe or getattr(case.make(), "choosing_learns", False):  # rounds count when they begin
        return
    for delay in (1, 5, 20):
        late = case.new()
        log: list[tuple[Any, Any]] = []
        deciding, learning = case.generators()
        waiting: list[tuple[Any, Any]] = []
        for row in hidden_of(case):
            waiting.append(ask(case, late, row, deciding))
            if len(waiting) > delay:
                log.append(waiting.pop(0))
                teach(case, late, *copy.deepcopy(log[-1]), learning)
        at_once = case.new()
        _, learning = case.generators()
        for decision, told in log:
            teach(case, at_once, decision, told, learning)
        same_state(frozen(state_of(at_once)), frozen(state_of(late)), f"feedback {delay} rounds late")


def late_feedback_does_not_ruin_it(case: Case) -> None:
    """With ``delay_safe = True``, feedback 20 rounds late only slows learning down; nothing wrong is learned."""
    policy = case.make()
    if not getattr(policy, "delay_safe", False) or case.loop.players is not None:
        return
    # a step-by-step search is 20 times slower
    patience = 1 if getattr(policy, "keeps_history", False) else 10
    prompt = _regret_by_tenths(case, case.rounds, delay=0)
    late = _regret_by_tenths(case, patience * case.rounds, delay=20)
    worst = max(prompt.max(), late.max())  # what a round costs while nothing is learned
    worst -= min(prompt.min(), late.min(), 0.0)  # regret against a fixed arm may be negative
    if late[8:].mean() > prompt[5:].mean() + 0.3 * worst:
        raise Failure(
            f"with feedback 20 rounds late a round costs {late[8:].mean():.3g} in the end, at once "
            f"{prompt[5:].mean():.3g}: learn for the decision that the feedback belongs to"
        )


def hidden_is_unreachable(case: Case) -> None:
    """Changing everything that the policy must not see changes nothing it does."""
    protocol, hidden = case.loop.protocol, hidden_of(case)
    policy, (_, rng), chaos = case.new(), case.generators(), generator(case.seed, 0, 2)
    other = []
    for row in hidden:
        decision, told = ask(case, policy, row, rng)
        other.append(np.array([protocol.scramble(case.problem, row[0], decision, chaos)]))
        if teach(case, policy, decision, told, rng):  # what was bought was seen
            other[-1][0, 0] = row[0, 0]
    runs = [
        trace(case, case.new(), Interpreted(case.problem), world=protocol.script(case.problem, rows))
        for rows in (np.concatenate(hidden), np.concatenate(other))
    ]
    compare(runs[0], runs[1], "what is hidden was changed; the runs")


CHECKS: tuple[Callable[[Case], None], ...] = (
    fields_are_numbers_and_arrays,
    decisions_are_allowed,
    lent_arrays_are_not_written,
    same_seed_same_run,
    copies_are_independent,
    compiled_as_interpreted,
    select_learns_nothing,
    feedback_is_not_kept,
    pairs_teach_as_outputs,
    save_and_restore_midway,
    memory_is_bounded,
    late_feedback_is_learned_right,
    late_feedback_does_not_ruin_it,
    hidden_is_unreachable,
    settled_players_stay,
)
# these are reported under one name, whichever check finds them
CAUSES: dict[type, Callable[[Case], None]] = {
    WrongDecision: decisions_are_allowed,
    WritesToLoan: lent_arrays_are_not_written,
}


def _regret_by_tenths(case: Case, rounds: int, delay: int) -> np.ndarray:
    """Return the regret per round in each tenth of the rounds, averaged over two replications."""
    problem, policy = case.problem, case.make()
    width = len(case.loop.counters(problem))
    marks = np.unique(np.linspace(0, rounds, 11).astype(np.int64)[1:])
    total = np.zeros(marks.size)
    for replication in range(2):
        table, counts = np.zeros((marks.size, width), dtype=np.int64), np.zeros(width, dtype=np.int64)
        rngs = streams(problem, policy, case.seed, replication)
        late = getattr(case.loop.protocol, "late", Late)(case.new(), delay)
        Interpreted(problem).play(late, problem.world(), *rngs, marks, counts, table)
        regret = measures_of(problem, policy, table)["regret"]
        total += np.diff(regret, prepend=0.0) / np.diff(marks, prepend=0)
    return total / 2
