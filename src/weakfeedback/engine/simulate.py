"""Simulate policies on a problem: replications in chunks, on any executor, with the same numbers on each."""

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from weakfeedback.engine.chunk import Compiled, Task, run
from weakfeedback.engine.digest import CannotLower
from weakfeedback.engine.loop import loop_for
from weakfeedback.engine.results import Results
from weakfeedback.engine.store import Store
from weakfeedback.validate import integer


class InterpretedWarning(UserWarning):
    """A policy could not be compiled and runs in the interpreter."""


def simulate(
    problem: Any,
    policies: Mapping[str, Any],
    horizon: int = 10_000,
    replications: int = 100,
    seed: int = 0,
    marks: Any = 200,
    executor: Executor | None = None,
    compiled: bool = True,
    store: str | Path | None = None,
    progress: bool = False,
) -> Results:
    """Play every policy on the same worlds and return the measures at the marks.

    Parameters
    ----------
    problem : a problem of any setting
    policies : mapping of labels to policies
        Each policy is a prototype: every replication plays with a copy of its own.
    horizon, replications : integers >= 1
    seed : integer >= 0
        Replication r takes its world from ``SeedSequence(seed, spawn_key=(r, 0))`` and the policy's draws
        from ``(r, 1)``, so results do not depend on the executor, the workers or the chunks.
    marks : integer, or increasing rounds
        How many rounds, or which, are recorded. The last round always is.
    executor : a ``concurrent.futures.Executor``, optional
        Threads on all cores by default: compiled rounds run in parallel.
    compiled : bool
        False plays with the objects themselves in the interpreter; the results are the same to the bit.
    store : folder, optional
        Keeps finished chunks and takes them up again.
    progress : bool
        Shows a progress bar when standard error is a terminal.

    Examples
    --------
    >>> from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb
    >>> problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], costs=[0.05, 0.285, 0.45])
    >>> policies = {"USS-TS": UssTs(problem.costs), "USS-UCB": UssUcb(problem.costs)}
    >>> results = simulate(problem, policies, horizon=1000, replications=20)
    >>> results.final().round(1)["mean"].to_dict()
    {'USS-TS': 43.5, 'USS-UCB': 53.7}
    """
    if not isinstance(policies, Mapping) or not policies:
        raise ValueError(f"policies must be a mapping of labels to policies, got {policies!r}")
    horizon = integer("horizon", horizon, 1)
    replications = integer("replications", replications, 1)
    seed = integer("seed", seed, 0)
    rounds = mark_rounds(marks, horizon)
    loop = problem.loop()
    for policy in policies.values():
        loop_for(problem, policy).fits(problem, policy)
        _separate_fields(policy)
    players: dict[str, Any] = {}
    how = {label: _prepare(problem, label, policy, compiled, players) for label, policy in policies.items()}
    size = max(1, min(1000, loop.chunk_rounds // horizon))  # never a matter of workers
    tasks = [
        Task(problem, label, policy, first, last, rounds, seed, how[label] is True, players.get(label))
        for label, policy in policies.items()
        for first, last in _ranges(replications, size)
    ]
    kept = None if store is None else Store(store, problem, rounds, seed)
    tables = _run_all(tasks, executor, kept, progress)
    counts = {
        label: np.concatenate([table for task, table in zip(tasks, tables) if task.label == label])
        for label in policies
    }
    about = {"setting": problem.setting, "problem": repr(problem), "horizon": horizon, "seed": seed}
    return Results.from_counts(problem, counts, rounds, how, about)


def mark_rounds(marks: Any, horizon: int) -> np.ndarray:
    """The rounds to record: evenly spaced when a number is given; always with the last one."""
    if isinstance(marks, (int, np.integer)) and not isinstance(marks, bool):
        count = min(integer("marks", marks, 1), horizon)
        return np.unique(
            np.ceil(np.arange(1, count + 1) * (horizon / count)).astype(np.int64).clip(1, horizon)
        )
    rounds = np.asarray(marks)
    whole = rounds.ndim == 1 and rounds.size > 0 and rounds.dtype.kind in "iu"
    if not whole or (np.diff(rounds) <= 0).any() or rounds[0] < 1 or rounds[-1] > horizon:
        raise ValueError(f"marks must be a number or increasing rounds from 1 to {horizon}, got {marks!r}")
    return np.unique(np.append(rounds.astype(np.int64), horizon))


def _separate_fields(policy: Any) -> None:
    arrays = [(name, value) for name, value in vars(policy).items() if isinstance(value, np.ndarray)]
    for k, (name, value) in enumerate(arrays):
        for other, another in arrays[:k]:
            if value is not another and np.shares_memory(value, another):
                raise ValueError(
                    f"fields {other!r} and {name!r} of {type(policy).__name__} share memory, which copies do not: "
                    "keep one array and index it"
                )


def _ranges(replications: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(first + size, replications)) for first in range(0, replications, size)]


def _prepare(problem: Any, label: str, policy: Any, wanted: bool, players: dict[str, Any]) -> bool | str:
    """Compile a policy into ``players``; True, or the reason why it will be interpreted."""
    if not wanted:
        return "compiled=False was asked for"
    try:
        players[label] = Compiled(problem, policy)
    except CannotLower as reason:
        warnings.warn(
            f"{label!r} ({type(policy).__name__}) runs in the interpreter, many times slower: {reason}",
            InterpretedWarning,
            stacklevel=3,
        )
        return str(reason)
    return True


def _run_all(
    tasks: list[Task], executor: Executor | None, kept: Store | None, progress: bool
) -> list[np.ndarray]:
    found = [kept.get(task) if kept else None for task in tasks]
    missing = [k for k, table in enumerate(found) if table is None]
    tables: dict[int, np.ndarray] = {k: table for k, table in enumerate(found) if table is not None}
    with contextlib.ExitStack() as stack:
        advance = stack.enter_context(_progress(tasks, list(tables), progress))
        if executor is None:
            executor = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
            stack.callback(executor.shutdown, wait=True, cancel_futures=True)
        futures: dict[Future, int] = {executor.submit(run, tasks[k]): k for k in missing}
        try:
            for future in as_completed(futures):
                k = futures[future]
                tables[k] = future.result()
                if kept:
                    kept.put(tasks[k], tables[k])
                advance(tasks[k])
        finally:
            for future in futures:
                future.cancel()
    return [tables[k] for k in range(len(tasks))]


@contextlib.contextmanager
def _progress(tasks: list[Task], done: list[int], wanted: bool) -> Iterator[Any]:
    if not (wanted and sys.stderr.isatty()):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        lines = {}
        for k, task in enumerate(tasks):
            if task.label not in lines:
                lines[task.label] = bar.add_task(task.label, total=0)
            line = lines[task.label]
            bar.update(line, total=(bar.tasks[line].total or 0) + task.last - task.first)
            if k in done:
                bar.advance(line, task.last - task.first)
        yield lambda task: bar.advance(lines[task.label], task.last - task.first)
