"""`make bench`: measure, print a table and write it as JSON."""

import json
import os
from pathlib import Path

from benchmarks import allocation, cascade, startup


def line(work, timing, reference):
    """A row: our time per round, the reference's, the ratio, and the interpreter's ratio."""
    ours, floor = timing["ours"], timing[reference]
    spread = max(ours.spread, floor.spread)
    return {
        "work": work,
        "ns_per_round": round(ours.best, 1),
        "reference_ns": round(floor.best, 1),
        "ratio": round(ours.best / floor.best, 2),
        "interpreter_ratio": round(timing["interpreted"].best / ours.best, 1),
        "spread": round(spread, 2),
        "marked": spread > 0.15,
    }


def chapter_4():
    """Print the tables of the knapsack, CSB-SU, CSB-MK and growth with K; return them for the file."""
    found = {"knapsack": [], "policies": [], "growth": []}
    print("CPU ns per knapsack of 50 items; OR-Tools is called from Python, from arrays to the set of items")
    for kind in allocation.KINDS:
        times = {name: round(timing.best) for name, timing in allocation.knapsacks(kind).items()}
        found["knapsack"].append({"kind": kind, **times})
        ours, called = times.pop("ours"), times.pop("from Python")
        ratios = [f"{name} {theirs / ours:.1f}x, {theirs / called:.1f}x" for name, theirs in times.items()]
        print(f"  {kind:14} compiled {ours}, from Python {called}; these against {'; '.join(ratios)}")
    same, several = allocation.unknown_threshold(), allocation.several_thresholds()
    found["policies"] = [
        line("CSB-SU, K = 50, against its draws alone", same, "floor"),
        line("CSB-MK, K = 10, a knapsack every round", several, "interpreted"),
    ]
    for name, arms, timing in allocation.growth():
        found["growth"].append({"policy": name, "K": arms, "ns_per_round": round(timing.best)})
        print(f"  {name:18} K = {arms:5d} {timing.best / 1000:10.2f} us per round")
    return found


def main():
    rows = []
    for arms, problem in cascade.problems():
        rows.append(
            line(f"USS-TS, K = {arms}, against its draws alone", cascade.thompson(arms, problem), "floor")
        )
        if arms == 3:
            rows.append(
                line("USS-UCB, K = 3, against a hand-written loop", cascade.optimism(problem), "floor")
            )
    chapter = chapter_4()
    rows += chapter.pop("policies")
    print(f"{'work':46} {'ns/round':>9} {'reference':>9} {'ratio':>6} {'interpreter':>12} {'spread':>7}")
    for row in rows:
        mark = " (unsteady)" if row["marked"] else ""
        print(
            f"{row['work']:46} {row['ns_per_round']:9.1f} {row['reference_ns']:9.1f} {row['ratio']:6.2f} "
            f"{row['interpreter_ratio']:11.1f}x {row['spread']:7.0%}{mark}"
        )
    starts = {}
    for name in ("UssTs", "UssUcb"):
        imported, cold, cached = startup.first_result(name)
        starts[name] = {"import": imported, "cold": cold, "cached": cached}
        print(f"{name}: import {imported:.2f} s, first result {cold:.1f} s cold, {cached:.2f} s cached")
    speedup = startup.two_threads()
    load = os.getloadavg()[0]
    print(f"two threads against one: {speedup:.2f} times (load average {load:.1f} on {os.cpu_count()} cores)")
    Path("out").mkdir(exist_ok=True)
    text = json.dumps(
        {"rows": rows, **chapter, "start": starts, "two_threads": speedup, "load": load}, indent=1
    )
    Path("out/benchmarks.json").write_text(text)
    print("written to out/benchmarks.json")


if __name__ == "__main__":
    main()
