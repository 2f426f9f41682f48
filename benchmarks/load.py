"""An hour's worth of traffic in bounded form: ``python -m benchmarks.load [DECISIONS] [LEARNERS] [SECONDS]``.

A service in a process of its own on a file, 16 clients over HTTP, decisions of one learner with their feedback. First
at the pace of a million an hour, for so many seconds (60 unless told): the p99 of a decision is told in lone commits.
Then as fast as they are answered, so many as asked for (100,000): memory must stay flat, and each client waits for the
15 others, so that the p99 is what the processor needs for 16 requests. Then many learners (10,000): what each costs in
memory, and what reading them again takes. A part with 0 is left out.
"""

import asyncio
import http.client
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.service import CASCADE, OURS, cpu_of, load, lone_commits, make_learner, serving

CLIENTS = 16
HOURLY = 1_000_000  # decisions
PART = 5.0  # seconds between two looks at the memory
COMMITS = 4.0  # that the p99 of a decision may take
FLAT = 1.1  # times the memory after the first tenth of the decisions, at most


def memory_of(pid: int) -> float:
    """MB that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def pace(seconds: float) -> None:
    """Play at the pace of an hour's worth of traffic, and tell the times of decisions."""
    period, taken, commits = CLIENTS * 3600 / HOURLY, list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder, serving(OURS, folder, make_learner) as (pid, port):
        asyncio.run(load(port, CLIENTS, 2.0, period))
        used = cpu_of(pid)
        for _ in range(max(1, round(seconds / PART))):
            commits += lone_commits(folder, 50)
            taken += asyncio.run(load(port, CLIENTS, PART, period))[1]
        share = (cpu_of(pid) - used) / (PART * round(seconds / PART))
    cuts, commit = statistics.quantiles(taken, n=100), statistics.median(commits)
    print(
        f"{len(taken):,} decisions, {len(taken) / seconds:.0f} a second, {100 * share:.0f} % of a core: "
        f"median {1e3 * cuts[49]:.2f} ms, p90 {1e3 * cuts[89]:.2f}, p99 {1e3 * cuts[98]:.2f}"
    )
    slow = statistics.quantiles(commits, n=100)[98]
    print(
        f"p99 is {cuts[98] / commit:.1f} commits of {1e3 * commit:.2f} ms (at most {COMMITS:g}); "
        f"the p99 of a lone commit is {slow / commit:.1f}"
    )


def traffic(decisions: int) -> None:
    """Play so many decisions, and tell memory, times and rates."""
    with tempfile.TemporaryDirectory() as folder, serving(OURS, folder, make_learner) as (pid, port):
        made, taken, memory = 0, list[float](), list[tuple[int, float]]()
        commits, began, used = list[float](), time.perf_counter(), cpu_of(pid)
        while made < decisions:
            count, times = asyncio.run(load(port, CLIENTS, PART))
            made, taken = made + count // 2, taken + times
            memory.append((made, memory_of(pid)))
            commits += lone_commits(folder, 20)
        seconds, cpu = time.perf_counter() - began, cpu_of(pid) - used
        size = sum(file.stat().st_size for file in Path(folder).glob("weakfeedback.db*")) / 2**20
    early = next(size for count, size in memory if count >= made / 10)
    p99, commit = statistics.quantiles(taken, n=100)[-1], statistics.median(commits)
    print(f"{made:,} decisions with their feedback in {seconds:.0f} s, {1e6 * cpu / made:.0f} us of CPU each")
    print(
        f"memory after a tenth of them {early:.0f} MB, at the end {memory[-1][1]:.0f} MB (at most {FLAT} times)"
    )
    print(
        f"p99 {1e3 * p99:.1f} ms, {p99 / commit:.1f} commits of {1e3 * commit:.2f} ms (at most {COMMITS:g})"
    )
    print(f"the store has {size:.0f} MB")


def learners(count: int) -> None:
    """Make so many learners, each with a decision, end the service, and start it again."""
    with tempfile.TemporaryDirectory() as folder:
        with serving(OURS, folder) as (pid, port):
            before, began = memory_of(pid), time.perf_counter()
            line = http.client.HTTPConnection("127.0.0.1", port)
            for k in range(count):
                for method, path, body in (("PUT", "", CASCADE), ("POST", "/decide", {})):
                    where = f"/v1/learners/l{k}{path}"
                    line.request(method, where, json.dumps(body), {"content-type": "application/json"})
                    answer = line.getresponse()
                    answer.read()
                    assert answer.status in (200, 201), answer.status
            seconds, each = time.perf_counter() - began, (memory_of(pid) - before) * 1024 / count
            print(f"{count:,} learners made in {seconds:.0f} s, {each:.0f} kB of memory each")
            for path in ("/v1/learners", "/metrics"):
                began = time.perf_counter()
                line.request("GET", path)
                size = len(line.getresponse().read()) / 2**20
                print(f"{path}: {size:.1f} MB in {time.perf_counter() - began:.1f} s")
            line.close()
            began = time.perf_counter()
        print(f"ended in {time.perf_counter() - began:.1f} s")
        began = time.perf_counter()
        with serving(OURS, folder) as (pid, _):
            print(f"started again in {time.perf_counter() - began:.1f} s, {cpu_of(pid):.1f} s of CPU")


if __name__ == "__main__":
    given = dict(enumerate(map(int, sys.argv[1:])))
    for place, (part, usual) in enumerate(((traffic, 100_000), (learners, 10_000), (pace, 60))):
        if given.get(place, usual):
            part(given.get(place, usual))
