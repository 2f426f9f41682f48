"""First use: from a fresh process to the first result, with an empty and a filled compile cache."""

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, UssTs

FIRST = """
import time
t0 = time.perf_counter()
import weakfeedback
t1 = time.perf_counter()
from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, {name}
problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])
simulate(problem, {{"a": {name}(problem.costs)}}, horizon=100, replications=1)
print(t1 - t0, time.perf_counter() - t1)
"""


def first_result(name):
    """Seconds of ``import weakfeedback``, and from there to the first result, cold and cached."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        program = [sys.executable, "-c", FIRST.format(name=name)]
        runs = [
            subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
            for _ in range(3)
        ]
    imports, firsts = zip(*[map(float, run.stdout.split()) for run in runs])
    return min(imports), firsts[0], min(firsts[1:])


def two_threads():
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
    return best[1] / best[2]
