"""Live objects: what a decision with its feedback costs, interpreted and compiled, at the median and at worst."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.participant import Failed, Participant
from benchmarks.peers.install import PEERS, NotInstalled, command
from benchmarks.timing import Ratio, Timing, alternate, plain
from weakfeedback import Allocator, Cascade, ContextualCascade, Player, Scored

RIVER_SHARE = 0.5
TAIL = 5.0  # p99 at most so many medians
CALL = 1.5  # ``cascade(x)``, its stages not counted, at most so many times decide and feedback
SWITCHES = 13  # calls from one module of the package to another in ``cascade(x)``
WARM = 1000  # rounds before the clock runs
INTERPRETED, COMPILED = "interpreted", "compiled"
BOTH = (INTERPRETED, COMPILED)

Step = Callable[[int], Any]


def made_cascade(arms: int, compiled: bool, policy: str | None = "USS-TS") -> tuple[Cascade, list[list[int]]]:
    """A cascade whose stages look up what they say, and what they say to 4096 samples."""
    costs = [0.05, 0.235, 0.165] if arms == 3 else [0.02] * arms
    rng = np.random.default_rng(1)
    outputs = (rng.random((4096, arms)) < np.linspace(0.4, 0.1, arms)).astype(int).tolist()
    given = {"policy": policy, "error_cost": 1, "seed": 0, "compiled": compiled}
    return Cascade(looking_up(arms), stage_costs=costs, **given), outputs


def looking_up(arms: int) -> list[Callable[[list[int]], int]]:
    """Stages that find their answers in the sample."""
    return [lambda x, k=k: x[k] for k in range(arms)]


def by_hand(arms: int, compiled: bool, policy: str | None = "USS-TS") -> Step:
    """Decide, and feed the outputs back."""
    cascade, outputs = made_cascade(arms, compiled, policy)

    def step(t: int) -> None:
        decision = cascade.decide()
        cascade.feedback(decision.id, outputs[t % 4096][: decision.arm + 1])

    return step


def called(arms: int, compiled: bool, policy: str = "USS-TS") -> Step:
    """Call the cascade, which calls its stages."""
    cascade, outputs = made_cascade(arms, compiled, policy)

    def step(t: int) -> int:
        return cascade(outputs[t % 4096]).arm

    return step


def stages_alone(arms: int) -> Step:
    """Call the stages that the cascade would call, and nothing else."""
    play, (_, outputs) = called(arms, False), made_cascade(arms, False)
    chosen = [play(t) for t in range(4096)]
    stages = looking_up(arms)

    def step(t: int) -> list[int]:
        x = outputs[t % 4096]
        return [stage(x) for stage in stages[: chosen[t % 4096] + 1]]

    return step


def allocator(arms: int, policy: str, compiled: bool) -> Step:
    """Decide, and feed the losses back that are not censored."""
    allocator = Allocator(arms, budget=0.21 * arms + 0.3, policy=policy, seed=0, compiled=compiled)
    rng = np.random.default_rng(1)
    losses = (rng.random((1024, arms)) < np.linspace(0.95, 0.3, arms)).astype(float)

    def step(t: int) -> None:
        decision = allocator.decide()
        seen = np.where(decision.allocation < 0.7, losses[t % 1024], 0.0)
        allocator.feedback(decision.id, seen)

    return step


def contextual(dimension: int, compiled: bool) -> Step:
    """Decide for a context, and feed the outputs back."""
    rng = np.random.default_rng(1)
    contexts = rng.normal(size=(1024, dimension)) / np.sqrt(dimension)
    outputs = (rng.random((1024, 3)) < [0.4, 0.25, 0.1]).astype(int).tolist()
    given: dict[str, Any] = {"policy": "USS-PD-TS", "features": lambda X: X, "seed": 0, "compiled": compiled}
    cascade = ContextualCascade(3, stage_costs=[0.05, 0.1, 0.15], **given)

    def step(t: int) -> None:
        decision = cascade.decide(contexts[t % 1024])
        cascade.feedback(decision.id, outputs[t % 1024][: decision.arm + 1])

    return step


def adaptive(arms: int, compiled: bool) -> Step:
    """Call a cascade that decides after every answer."""
    rng = np.random.default_rng(1)
    hard = rng.random(4096)
    right = rng.random((4096, arms)) > np.outer(hard, np.linspace(0.8, 0.2, arms))
    scores = (1.0 - hard[:, None] + 0.1 * rng.normal(size=(4096, arms))).tolist()
    said = [[Scored(bool(a), s) for a, s in zip(row, line)] for row, line in zip(right, scores)]
    stages = [lambda x, k=k: x[k] for k in range(arms)]
    costs = [0.01 * 3**k for k in range(arms)]
    cascade = Cascade(stages, stage_costs=costs, error_cost=1, policy="USS-A", seed=0, compiled=compiled)

    def step(t: int) -> int:
        return cascade(said[t % 4096]).arm

    return step


def player(arms: int, compiled: bool) -> Step:
    """One player who hears a reward in every slot, and never a collision."""
    player = Player(arms, policy="DLC-LIX", epsilon=0.001, delta=0.05, seed=0, compiled=compiled)
    rng = np.random.default_rng(1)
    rewards = (rng.random((4096, arms)) < np.linspace(0.9, 0.85, arms)).astype(float)

    def step(t: int) -> None:
        arm = player.choose()
        player.observe(0.0 if arm < 0 else float(rewards[t % 4096, arm]), False)

    return step


@dataclass(frozen=True)
class Work:
    """What is measured: how to make it, rounds of a repetition, in which ways, and the goal of its better median."""

    make: Callable[[bool], Step]
    rounds: int
    ways: tuple[str, ...] = BOTH
    goal_us: float | None = None
    warm: int = WARM


WORKS: dict[str, Work] = {
    "Cascade K=3": Work(lambda compiled: by_hand(3, compiled), 5000, goal_us=15.0),
    "Cascade K=3, cascade(x)": Work(lambda compiled: called(3, compiled), 5000),
    "Cascade K=3, default policy": Work(lambda compiled: by_hand(3, compiled, None), 5000, goal_us=15.0),
    "Cascade K=20": Work(lambda compiled: by_hand(20, compiled), 2000),
    "Cascade K=20, cascade(x)": Work(lambda compiled: called(20, compiled), 2000),
    "Allocator CSB-SU K=50": Work(lambda compiled: allocator(50, "CSB-SU", compiled), 1000),
    "Allocator CSB-TS K=50": Work(lambda compiled: allocator(50, "CSB-TS", compiled), 500, goal_us=80.0),
    "USS-PD-TS d'=10": Work(lambda compiled: contextual(10, compiled), 200, warm=200),
    "USS-PD-TS d'=45": Work(lambda compiled: contextual(45, compiled), 500, (COMPILED,)),
    "USS-PD-TS d'=105": Work(lambda compiled: contextual(105, compiled), 500, (COMPILED,), goal_us=400.0),
    "USS-A K=3, cascade(x)": Work(lambda compiled: adaptive(3, compiled), 2000, (COMPILED,), warm=2000),
    "Player K=10": Work(lambda compiled: player(10, compiled), 2000),
}
CALLED = {name: f"{name}, cascade(x)" for name in ("Cascade K=3", "Cascade K=20")}


def clocked(step: Step, rounds: int, taken: list[np.ndarray]) -> float:
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


def switches(step: Step, rounds: int = 200) -> int:
    """The most calls from one module of the package to another in one round."""
    count, most = 0, 0

    def look(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        if event == "call" and frame.f_back is not None:
            to, origin = (str(one.f_globals.get("__name__")) for one in (frame, frame.f_back))
            count += to != origin and to.startswith("weakfeedback.") and origin.startswith("weakfeedback.")

    for t in range(rounds):
        count = 0
        sys.setprofile(look)
        try:
            step(t)
        finally:
            sys.setprofile(None)
        most = max(most, count)
    return most


def measure(repetitions: int, peers: bool, works: dict[str, Work] | None = None) -> dict[str, Any]:
    """Every object in its ways, and River's pull and update over three arms in the same run."""
    works = WORKS if works is None else works
    candidates: dict[str, Callable[[], float]] = {}
    taken: dict[str, list[np.ndarray]] = {}

    def add(name: str, step: Step, rounds: int, warm: int) -> None:
        taken[name] = []
        for t in range(warm):
            step(t)
        candidates[name] = lambda: clocked(step, rounds, taken[name])

    for name, work in works.items():
        for way in work.ways:
            add(f"{name} {way}", work.make(way == COMPILED), work.rounds, work.warm)
    calls = {name: call for name, call in CALLED.items() if name in works and call in works}
    for name, call in calls.items():
        add(f"{name} stages", stages_alone(int(name.split("=")[1])), works[call].rounds, 0)
    found: dict[str, Any] = {"objects": {}, "calls": {}, "river": None, "skipped": ""}
    river = None
    try:
        if peers:
            river = Participant(command(PEERS["River"]), work="thompson", arms=3, rounds=5000)
            candidates["River K=3"] = river.measure
    except (NotInstalled, Failed) as reason:
        found["skipped"] = str(reason)
    timings = alternate(candidates, repetitions)
    for name, work in works.items():
        rows = {way: _row(timings[f"{name} {way}"], taken[f"{name} {way}"]) for way in work.ways}
        better = min(rows, key=lambda way: rows[way]["p50_us"])
        found["objects"][name] = {"ways": rows, "better": better, "goal_us": work.goal_us}
    for name, call in calls.items():
        hand, whole = (found["objects"][one] for one in (name, call))
        stages = _row(timings[f"{name} stages"], taken[f"{name} stages"])["p50_us"]
        beside = whole["ways"][whole["better"]]["p50_us"] - stages
        ratio = beside / hand["ways"][hand["better"]]["p50_us"]
        crossed = max(switches(works[call].make(way == COMPILED)) for way in works[call].ways)
        found["calls"][name] = {"to_by_hand": round(ratio, 3), "stages_us": stages, "switches": crossed}
    if river is not None:
        river.close()
        found["river"] = _row(timings["River K=3"], [])
        better = found["objects"]["Cascade K=3"]["better"]
        found["share_of_river"] = plain(Ratio.of(timings["River K=3"], timings[f"Cascade K=3 {better}"]))
    return found


def _row(timing: Timing, taken: list[np.ndarray]) -> dict[str, Any]:
    row = {**plain(timing), "per_second": round(1e9 / timing.best)}
    if taken:
        # the repetition that was disturbed least: other programs must not count as ours
        low, high = (min(np.quantile(times, q) for times in taken) for q in (0.5, 0.99))
        row |= {"p50_us": round(low / 1e3, 1), "p99_us": round(high / 1e3, 1)}
    return row


def judged(met: bool) -> str:
    """A goal in one word."""
    return "met" if met else "MISSED"


def text(found: dict[str, Any]) -> str:
    """The table in words."""
    parts = ["live objects, one decision with its feedback, CPU time (* the better way, which is judged)"]
    for name, entry in found["objects"].items():
        for way, row in entry["ways"].items():
            words = f"median {row['p50_us']:6.1f} us, p99 {row['p99_us']:6.1f} us"
            if way == entry["better"]:
                words += f" (goal {TAIL:g} medians: {judged(row['p99_us'] <= TAIL * row['p50_us'])})"
                if entry["goal_us"] is not None:
                    words += (
                        f"; median at most {entry['goal_us']:g}: {judged(row['p50_us'] <= entry['goal_us'])}"
                    )
            mark = "*" if way == entry["better"] else " "
            parts.append(f"  {name:24} {way:11} {mark} {row['per_second']:7d} a second, {words}")
    for name, call in found["calls"].items():
        parts.append(
            f"  {name}: cascade(x) without its stages ({call['stages_us']} us) takes {call['to_by_hand']:.2f} times "
            f"decide and feedback (goal {CALL:g}: {judged(call['to_by_hand'] <= CALL)}), "
            f"{call['switches']} switches of modules (goal {SWITCHES}: {judged(call['switches'] <= SWITCHES)})"
        )
    if found["river"]:
        share = found["share_of_river"]["value"]
        parts.append(
            f"  River K=3 {found['river']['per_second']:7d} a second; ours {share:.2f} of it "
            f"(goal {RIVER_SHARE:g}: {judged(share >= RIVER_SHARE)})"
        )
    elif found["skipped"]:
        parts.append(f"  River skipped: {found['skipped']}")
    return "\n".join(parts)
