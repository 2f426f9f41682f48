"""How the time of USS grows: with replications and rounds (linearly), and with the arms (at most quadratically)."""

from concurrent.futures import ThreadPoolExecutor
from time import process_time
from typing import Any

import numpy as np

from benchmarks.timing import Timing, alternate
from weakfeedback import simulate
from weakfeedback.cascade import CascadeProblem, UssTs, UssUcb

ARMS = (3, 10, 30, 100)


def hard(arms: int) -> CascadeProblem:
    """The last arm is the best and every round goes far: nearly all pairs are drawn, and updated."""
    rng = np.random.default_rng(arms)
    truth = rng.integers(0, 2, 2000)
    flips = rng.random((2000, 1)) < np.linspace(0.9, 0.02, arms)
    outputs = np.where(flips, 1 - truth[:, None], truth[:, None])
    return CascadeProblem.from_predictions(truth, outputs, np.linspace(0.0, 0.05, arms))


def timed(problem: Any, policy: Any, horizon: int, replications: int, repetitions: int) -> Timing:
    """CPU ns per round."""
    with ThreadPoolExecutor(1) as executor:

        def once() -> float:
            before = process_time()
            simulate(problem, {"a": policy}, horizon, replications, executor=executor)
            return (process_time() - before) / (horizon * replications) * 1e9

        return alternate({"a": once}, repetitions)["a"]


def measure(repetitions: int) -> dict[str, Any]:
    """Tables of ns per round; in the last, also ns per round and pair of arms."""
    problem = CascadeProblem.bsc([0.3937, 0.2899, 0.1358], [0.05, 0.285, 0.45])
    policy = UssTs(problem.costs)
    found: dict[str, Any] = {"replications": {}, "rounds": {}, "arms": {}}
    for times in (50, 100, 200, 400):
        found["replications"][times] = round(timed(problem, policy, 10_000, times, repetitions).best, 1)
    for horizon in (10_000, 100_000, 1_000_000):
        found["rounds"][horizon] = round(
            timed(problem, policy, horizon, max(2, 1_000_000 // horizon), repetitions).best, 1
        )
    for name, kind in (("USS-TS", UssTs), ("USS-UCB", UssUcb)):
        found["arms"][name] = {}
        for arms in ARMS:
            work = hard(arms)
            per_round = timed(work, kind(work.costs), 100_000 // arms, 2, repetitions).best
            pairs = arms * (arms - 1) / 2
            found["arms"][name][arms] = {"ns": round(per_round), "ns_per_pair": round(per_round / pairs, 1)}
    return found


def text(found: dict[str, Any]) -> str:
    """The tables in words."""
    parts = ["USS-TS, K = 3, ns per round"]
    for what in ("replications", "rounds"):
        values = found[what]
        row = ", ".join(f"{size}: {value}" for size, value in values.items())
        parts.append(
            f"  by {what}: {row}  (largest over smallest {max(values.values()) / min(values.values()):.2f})"
        )
    for name, rows in found["arms"].items():
        row = ", ".join(
            f"K = {k}: {cell['ns']} ns, {cell['ns_per_pair']} per pair" for k, cell in rows.items()
        )
        parts.append(f"{name} where the last arm is best: {row}")
    return "\n".join(parts)
