"""Live objects: decisions per second with their feedback, and how long one takes at the median and at worst."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.participant import Failed, Participant
from benchmarks.peers.install import PEERS, NotInstalled, command
from benchmarks.timing import Ratio, Timing, alternate, plain
from weakfeedback import Allocator, Cascade, Player

P99_US = 200.0
RIVER_SHARE = 0.5
WARM = 1000  # rounds before the clock runs


def cascade(arms: int) -> Callable[[int], None]:
    """Decide, and feed the outputs back."""
    costs = [0.05, 0.235, 0.165] if arms == 3 else [0.02] * arms
    cascade = Cascade([lambda x: x] * arms, stage_costs=costs, seed=0)
    rng = np.random.default_rng(1)
    errors = np.linspace(0.4, 0.1, arms)
    outputs = (rng.random((4096, arms)) < errors).astype(int).tolist()

    def step(t: int) -> None:
        decision = cascade.decide()
        cascade.feedback(decision.id, outputs[t % 4096][: decision.arm + 1])

    return step


def allocator(arms: int) -> Callable[[int], None]:
    """Decide, and feed the losses back that are not censored."""
    allocator = Allocator(arms, budget=0.21 * arms + 0.3, policy="CSB-SU", seed=0)
    rng = np.random.default_rng(1)
    losses = (rng.random((1024, arms)) < np.linspace(0.95, 0.3, arms)).astype(float)

    def step(t: int) -> None:
        decision = allocator.decide()
        seen = np.where(decision.allocation < 0.7, losses[t % 1024], 0.0)
        allocator.feedback(decision.id, seen)

    return step


def player(arms: int) -> Callable[[int], None]:
    """One player who hears a reward in every slot, and never a collision."""
    player = Player(arms, policy="DLC-LIX", epsilon=0.001, delta=0.05, seed=0)
    rng = np.random.default_rng(1)
    rewards = (rng.random((4096, arms)) < np.linspace(0.9, 0.85, arms)).astype(float)

    def step(t: int) -> None:
        arm = player.choose()
        player.observe(0.0 if arm < 0 else float(rewards[t % 4096, arm]), False)

    return step


WORKS: dict[str, tuple[Callable[[], Callable[[int], None]], int]] = {
    "Cascade K=3": (lambda: cascade(3), 5000),
    "Cascade K=20": (lambda: cascade(20), 2000),
    "Allocator K=50": (lambda: allocator(50), 1000),
    "Player K=10": (lambda: player(10), 2000),
}


def clocked(step: Callable[[int], None], rounds: int, taken: list[np.ndarray]) -> float:
    """CPU ns per round; the CPU time of every round goes into ``taken``."""
    clock = time.thread_time_ns
    times = np.empty(rounds)
    start = clock()
    for t in range(rounds):
        before = clock()
        step(t)
        times[t] = clock() - before
    taken.append(times)
    return (clock() - start) / rounds


def measure(repetitions: int, peers: bool) -> dict[str, Any]:
    """Every object, and River's pull and update over three arms in the same run."""
    candidates: dict[str, Callable[[], float]] = {}
    taken: dict[str, list[np.ndarray]] = {}
    for name, (make, rounds) in WORKS.items():
        step, taken[name] = make(), []
        for t in range(WARM):
            step(t)
        candidates[name] = lambda step=step, rounds=rounds, name=name: clocked(step, rounds, taken[name])
    found: dict[str, Any] = {"objects": {}, "river": None, "skipped": ""}
    river = None
    try:
        if peers:
            river = Participant(command(PEERS["River"]), work="thompson", arms=3, rounds=5000)
            candidates["River K=3"] = river.measure
    except (NotInstalled, Failed) as reason:
        found["skipped"] = str(reason)
    timings = alternate(candidates, repetitions)
    if river is not None:
        river.close()
        found["river"] = _row(timings["River K=3"], [])
        ratio = Ratio.of(timings["River K=3"], timings["Cascade K=3"])
        found["share_of_river"] = plain(ratio)
    for name in WORKS:
        found["objects"][name] = _row(timings[name], taken[name])
    return found


def _row(timing: Timing, taken: list[np.ndarray]) -> dict[str, Any]:
    row = {**plain(timing), "per_second": round(1e9 / timing.best)}
    if taken:
        # the repetition that was disturbed least: other programs must not count as ours
        low, high = (min(np.quantile(times, q) for times in taken) for q in (0.5, 0.99))
        row |= {"p50_us": round(low / 1e3, 1), "p99_us": round(high / 1e3, 1)}
    return row


def text(found: dict[str, Any]) -> str:
    """The table in words."""
    parts = ["live objects, one decision with its feedback, CPU time"]
    for name, row in found["objects"].items():
        verdict = "met" if row["p99_us"] < P99_US else "MISSED"
        parts.append(
            f"  {name:16} {row['per_second']:7d} a second, median {row['p50_us']} us, p99 {row['p99_us']} us "
            f"(goal {P99_US:g}: {verdict})"
        )
    if found["river"]:
        share = found["share_of_river"]["value"]
        verdict = "met" if share >= RIVER_SHARE else "MISSED"
        parts.append(
            f"  River K=3        {found['river']['per_second']:7d} a second; ours {share:.2f} of it: {verdict}"
        )
    elif found["skipped"]:
        parts.append(f"  River skipped: {found['skipped']}")
    return "\n".join(parts)
