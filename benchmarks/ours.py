"""This library as a participant: ``python -m benchmarks.ours`` answers requests as the peers do."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from benchmarks.cases import CASES, Case
from benchmarks.peers.serve import serve
from weakfeedback import simulate


def whole(case: Case, horizon: int | None = None, replications: int | None = None) -> tuple[Callable, int]:
    """``simulate`` on one thread, and the number of rounds really played."""
    rounds, times = horizon or case.horizon, replications or case.replications
    executor = ThreadPoolExecutor(1)

    def run():
        return simulate(case.problem, {"a": case.policy}, rounds, times, executor=executor)

    results = run()
    played = np.full(times, rounds)
    if case.problem.setting == "multiplayer":
        settled = results.values("a", "settled_at")[:, -1]
        played = np.where((settled > 0) & (settled < rounds), settled, rounds)
    return run, int(played.sum())


def prepare(work, role="ours", horizon=None, replications=None):
    """Ready for one case, as ourselves or as its floor."""
    case = CASES[work]()
    if role == "floor":
        from benchmarks.floors import floor

        return floor(case)
    return whole(case, horizon, replications)


if __name__ == "__main__":
    serve(prepare)
