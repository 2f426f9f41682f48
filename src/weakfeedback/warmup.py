"""Compile every policy ahead of time, in a pool of processes; the results stay in the compiler's cache."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass


@dataclass(frozen=True)
class Compilation:
    """What became of a policy: the seconds it took, or the reason why it runs in the interpreter."""

    setting: str
    policy: str
    seconds: float
    refused: str = ""


def jobs() -> list[tuple[str, str]]:
    """Every setting with each of its policies."""
    from weakfeedback.catalog import POLICIES

    return [(setting, policy) for setting, policies in POLICIES.items() for policy in policies]


def warm_up(workers: int | None = None) -> Iterator[Compilation]:
    """Compile all policies; yield each as it is done."""
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of the compiler's threads
    todo = jobs()
    workers = min(workers or os.cpu_count() or 1, len(todo))
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)
    try:
        for future in as_completed([pool.submit(compile_policy, *job) for job in todo]):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def compile_policy(setting: str, policy: str) -> Compilation:
    """Compile one policy on the default problem of its setting."""
    from weakfeedback.engine.chunk import Compiled
    from weakfeedback.engine.digest import CannotLower
    from weakfeedback.settings import SETTINGS

    known = SETTINGS[setting]
    problem, prototype = known.sample(policy)
    start = time.perf_counter()
    try:
        Compiled(problem, prototype)
    except CannotLower as reason:
        return Compilation(setting, policy, time.perf_counter() - start, str(reason))
    return Compilation(setting, policy, time.perf_counter() - start)


def _ignore_interrupts() -> None:
    """Ctrl-C reaches the whole group of processes; the parent alone answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
