"""First use: from a fresh process to the first result of every policy, with an empty and a filled compile cache."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, UssTs
from weakfeedback.cli.warm_up import jobs

AT_MOST, GOAL = 15.0, 8.0  # seconds of CPU time, of the slowest policy
IMPORT = 0.3  # seconds of CPU time until a cascade can be made
FEW = (("cascade", "USS-TS"), ("contextual", "USS-PD"), ("allocation", "CSB-MK"), ("multiplayer", "DLC"))
IMPORTED = """
import time
before = time.process_time()
from weakfeedback import Cascade
print(time.process_time() - before)
"""
FIRST = """
import json, sys, time
start, cpu = time.perf_counter(), time.process_time()
import weakfeedback
imported = time.perf_counter() - start
from weakfeedback import simulate
from weakfeedback.settings.catalog import SETTINGS
problem, policy = SETTINGS[sys.argv[1]].sample(sys.argv[2])
simulate(problem, {"a": policy}, horizon=100, replications=1)
told = {"import": imported, "wall": time.perf_counter() - start, "cpu": time.process_time() - cpu}
print(json.dumps(told))
"""


def first_result(setting: str, policy: str) -> dict[str, Any]:
    """Seconds from the first import to the first result, in a process each: cold, then cached."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        program = [sys.executable, "-c", FIRST, setting, policy]
        told = []
        for _ in range(3):
            run = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
            told.append({name: round(value, 2) for name, value in json.loads(run.stdout).items()})
    cached = min(told[1:], key=lambda one: one["cpu"])
    return {"setting": setting, "policy": policy, "cold": told[0], "cached": cached}


def importing(times: int = 5) -> float:
    """Seconds of CPU time of ``from weakfeedback import Cascade``, the median of some processes, from bytecode."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        program = [sys.executable, "-c", IMPORTED]
        runs = [
            subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
            for _ in range(times + 1)
        ]
    return round(statistics.median(float(run.stdout) for run in runs[1:]), 3)


def first_results(chosen: Any = None) -> list[dict[str, Any]]:
    """All policies, or those chosen."""
    return [first_result(setting, policy) for setting, policy in chosen or jobs()]


def two_threads() -> float:
    """Wall time of one thread over that of two; meaningful only when two cores are free."""
    problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])
    policy = {"a": UssTs(problem.costs)}
    best = {1: float("inf"), 2: float("inf")}
    for _ in range(3):
        for workers in best:
            with ThreadPoolExecutor(workers) as executor:
                before = time.perf_counter()
                simulate(problem, policy, horizon=100_000, replications=100, executor=executor)
                best[workers] = min(best[workers], time.perf_counter() - before)
    return round(best[1] / best[2], 2)


def text(found: list[dict[str, Any]], speedup: float, imported: float) -> str:
    """The table in words."""
    parts = ["first use: seconds of CPU time (wall time) from the first import to the first result"]
    for one in sorted(found, key=lambda one: -one["cold"]["cpu"]):
        cold, cached = one["cold"], one["cached"]
        parts.append(
            f"  {one['setting'] + ' ' + one['policy']:28} cold {cold['cpu']:5.1f} ({cold['wall']:5.1f})  "
            f"cached {cached['cpu']:.2f} ({cached['wall']:.2f})"
        )
    slowest = max(one["cold"]["cpu"] for one in found)
    verdict = "met" if slowest <= GOAL else "within the limit of 15" if slowest <= AT_MOST else "MISSED"
    parts.append(f"slowest cold start {slowest:.1f} s, goal {GOAL:g}: {verdict}")
    judged = "met" if imported <= IMPORT else "MISSED"
    parts.append(f"from weakfeedback import Cascade: {imported:.2f} s of CPU time, goal {IMPORT:g}: {judged}")
    parts.append(f"two threads against one: {speedup} times (needs two free cores)")
    return "\n".join(parts)
