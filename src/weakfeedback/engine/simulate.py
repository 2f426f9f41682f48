"""Simulate policies on a problem: replications in chunks, on any executor, always with the same numbers."""

import contextlib
import os
import pickle
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed, wait
from pathlib import Path
from typing import Any

from weakfeedback.contract.typing import AnyPolicy, Problem
from weakfeedback.engine.plan import InterpretedWarning, Plan, mark_rounds
from weakfeedback.engine.replication import Task, run
from weakfeedback.engine.results import Results
from weakfeedback.plaintext import visible
from weakfeedback.validate import brief

__all__ = ["InterpretedWarning", "mark_rounds", "play", "simulate"]
PATIENCE = 5.0  # seconds to wait for cancelled runs
QUIET = 1.0  # seconds after which a progress bar appears by itself


def simulate(
    problem: Problem,
    policies: Mapping[str, AnyPolicy],
    horizon: int = 10_000,
    replications: int = 100,
    seed: int | None = 0,
    marks: Any = 200,
    executor: Executor | None = None,
    compiled: bool = True,
    store: str | Path | None = None,
    progress: bool | None = None,
    method: str = "rounds",
) -> Results:
    """Play every policy on the same worlds and return the measures at the marks.

    Parameters
    ----------
    problem : a problem of any setting
    policies : mapping of labels to policies
        Each policy is a prototype: every replication plays with its own copy.
    horizon, replications : integers >= 1
    seed : integer >= 0, or None
        None draws one; ``results.about["seed"]`` has it.
        Replication r takes its world from ``SeedSequence(seed, spawn_key=(r, 0))`` and the policy's draws
        from ``(r, 1)``, so results do not depend on the executor, the workers or the chunks.
    marks : integer, or increasing rounds
        How many rounds are recorded, or which ones. The last round is always recorded.
    executor : a ``concurrent.futures.Executor``, optional
        Threads on all cores by default: compiled rounds run in parallel.
    compiled : bool
        False plays with the objects themselves in the interpreter; the results are the same to the bit.
    store : folder, optional
        Stores finished chunks and reuses them.
    progress : bool, optional
        Whether a progress bar is shown when standard error is a terminal. By default it is, after a second.
    method : "rounds" or "events"
        "events" skips rounds in which nothing changes, for policies that allow it: horizons of 10^9 rounds in a
        second, and ``compiled`` is ignored. For USS-TS the distribution is the same, but the numbers differ from those
        of "rounds", and policies do not share worlds. For Pay-to-compare the counts are the same to the bit.

    Examples
    --------
    >>> from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb
    >>> problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], costs=[0.05, 0.285, 0.45])
    >>> policies = {"USS-TS": UssTs(problem.costs), "USS-UCB": UssUcb(problem.costs)}
    >>> results = simulate(problem, policies, horizon=1000, replications=20)
    >>> results.final().round(1)["mean"].to_dict()
    {'USS-TS': 26.0, 'USS-UCB': 106.3}
    """
    plan = Plan(problem, policies, horizon, replications, seed, marks, compiled, store, method)
    plan.find()
    plan.prepare()
    try:
        play(plan, executor, progress)
    except KeyboardInterrupt:  # one that ends at the caller's line, without the inside of thread pools
        words = "simulate was stopped" + ("" if store is None else "; the same call goes on from its store")
        raise KeyboardInterrupt(words) from None
    return plan.results()


def play(plan: Plan, executor: Executor | None = None, progress: bool | None = False) -> None:
    """Play the missing tasks of a plan; arguments as for ``simulate``."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise ValueError(f"executor must be a concurrent.futures.Executor or None, got {brief(executor)}")
    missing = plan.missing
    futures: dict[Future[Any], int] = {}
    with contextlib.ExitStack() as stack:
        advance = stack.enter_context(_progress(plan.tasks, missing, progress))
        if executor is None:
            executor = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
            stack.callback(leave, executor, futures)
        futures.update({executor.submit(run, plan.task(k)): k for k in missing})
        try:
            for future in as_completed(futures):
                k = futures[future]
                _refuse_unsent(plan.tasks[k], future)
                plan.keep(k, future.result())
                advance(plan.tasks[k])
        except BaseException:
            plan.stop()
            for future in futures:
                future.cancel()
            wait(futures, timeout=PATIENCE)
            raise
        finally:
            for future in futures:
                future.cancel()
            _keep_finished(plan, futures)


def leave(executor: Executor, futures: Iterable[Future[Any]]) -> None:
    """Shut an executor down; a policy that never returns cannot be stopped, so its thread is abandoned."""
    executor.shutdown(wait=all(future.done() for future in futures), cancel_futures=True)


def _keep_finished(plan: Plan, futures: dict[Future[Any], int]) -> None:
    """After an error or an interruption, keep the tasks finished so far."""
    missing = set(plan.missing)
    for future, k in futures.items():
        if k in missing and future.done() and not future.cancelled() and future.exception() is None:
            plan.keep(k, future.result())


def _refuse_unsent(task: Task, future: Future[Any]) -> None:
    """Name the policy that could not be sent to another process."""
    if not isinstance(future.exception(), (pickle.PicklingError, AttributeError, TypeError)):
        return
    try:
        pickle.dumps(task)
    except Exception as reason:
        raise ValueError(
            f"policies[{task.label!r}] cannot be sent to another process ({reason}): define its class at the top of "
            "a module and keep plain fields, or use threads"
        ) from None


def _end(timer: threading.Timer) -> None:
    timer.cancel()
    timer.join()


@contextlib.contextmanager
def _progress(tasks: Sequence[Task], missing: list[int], wanted: bool | None) -> Iterator[Any]:
    if wanted is False or not missing or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with contextlib.ExitStack() as stack:
        bar = Progress(*columns, console=Console(stderr=True), transient=wanted is None)
        stack.callback(bar.stop)
        lines = {}
        for k, task in enumerate(tasks):
            if task.label not in lines:
                lines[task.label] = bar.add_task(visible(task.label), total=0)
            line = lines[task.label]
            bar.update(line, total=(bar.tasks[line].total or 0) + task.last - task.first)
            if k not in missing:
                bar.advance(line, task.last - task.first)
        if wanted:
            bar.start()
        else:  # a run of a moment needs none
            timer = threading.Timer(QUIET, bar.start)
            timer.daemon = True
            timer.start()
            stack.callback(_end, timer)
        yield lambda task: bar.advance(lines[task.label], task.last - task.first)
