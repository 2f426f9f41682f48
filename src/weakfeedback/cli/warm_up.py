"""Compile policies ahead of time, in a pool of processes; the results stay in the compiler's cache.

A policy is compiled twice: as a loop, for simulations, and method by method, for live objects with ``compiled=True``.
Compiled code does not depend on sizes, so it serves any number of arms or features.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Compilation:
    """The result for a policy: the seconds it took, or the reason why it runs in the interpreter.

    ``lost`` says why compiled code could not be kept for later processes; empty if it was.
    """

    setting: str
    policy: str
    seconds: float
    refused: str = ""
    lost: str = ""


def jobs(policy: str | None = None, setting: str | None = None) -> list[tuple[str, str]]:
    """Return every setting with each of its policies, or only those of one name and one setting.

    >>> jobs("random"), jobs("uss-ts", "cascade")
    ([('cascade', 'Random'), ('contextual', 'Random')], [('cascade', 'USS-TS')])
    """
    from weakfeedback.settings.catalog import POLICIES, canonical_name
    from weakfeedback.settings.setting import find_name

    names = [find_name("setting", setting, POLICIES)] if setting is not None else list(POLICIES)
    if policy is None:
        return [(one, name) for one in names for name in POLICIES[one]]
    if setting is not None:
        return [(names[0], canonical_name(names[0], policy))]
    chosen = find_name("policy", policy, [name for one in names for name in POLICIES[one]])
    return [(one, chosen) for one in names if chosen in POLICIES[one]]


def warm_up(
    workers: int | None = None, policy: str | None = None, setting: str | None = None
) -> Iterator[Compilation]:
    """Compile all policies, or some; yield each as it is done."""
    todo = jobs(policy, setting)
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of the compiler's threads
    workers = min(workers or os.cpu_count() or 1, len(todo))
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_ignore_interrupts)
    try:
        for future in as_completed([pool.submit(compile_policy, *job) for job in todo]):
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def compile_policy(setting: str, policy: str) -> Compilation:
    """Compile one policy on the default problem of its setting, for simulations and for live use."""
    from weakfeedback.engine.compiler import cache
    from weakfeedback.engine.compiler.fingerprint import CannotLower
    from weakfeedback.engine.replication import Compiled
    from weakfeedback.settings.catalog import SETTINGS

    problem, prototype = SETTINGS[setting].sample(policy)
    before, start, refused = len(cache.lost), time.perf_counter(), ""
    try:
        Compiled(problem, prototype)
    except CannotLower as reason:
        refused = str(reason)
    else:
        live_object(setting, policy, compiled=True)
    seconds = time.perf_counter() - start
    if cache.folder() is None:
        lost = "there is no folder for it"
    else:
        lost = next(iter(cache.lost[before:]), "")
    return Compilation(setting, policy, seconds, refused, lost)


def live_object(setting: str, policy: str, compiled: bool, seed: int = 0) -> Any:
    """Return a live object on the default problem of a setting; None for a policy, or setting, that has none."""
    import numpy as np

    from weakfeedback.live import Allocator, Cascade, ContextualCascade, Player, Router
    from weakfeedback.settings.catalog import SETTINGS

    chosen = SETTINGS[setting].policy_class(policy)
    if getattr(chosen, "sees_truth", False):
        return None
    problem = SETTINGS[setting].sample_problem(policy)
    given: dict[str, Any] = {**getattr(chosen, "sample_options", {}), "seed": seed, "compiled": compiled}
    if setting == "adaptive" and hasattr(chosen, "next_stage"):
        return Cascade(problem.arms, problem.costs, agree=0.95, **given)
    if setting in ("cascade", "adaptive", "routing"):
        given["error_cost"] = 1.0
    if setting in ("cascade", "contextual"):
        kind: Any = Cascade if setting == "cascade" else ContextualCascade
        return kind(problem.arms, np.diff(problem.costs, prepend=0.0), policy=policy, **given)
    if setting == "adaptive":
        return Cascade(problem.arms, problem.costs, policy=policy, setting="adaptive", **given)
    if setting == "routing":
        return Router(problem.arms, problem.prices, policy=policy, **given)
    if setting == "allocation":
        return Allocator(problem.arms, problem.budget, policy, problem.outcome, **given)
    return Player(problem.arms, policy, **given) if setting == "multiplayer" else None


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which reaches the whole process group: only the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
