"""An hour's worth of traffic in bounded form: ``python -m benchmarks.load [DECISIONS] [LEARNERS] [SECONDS] [LATE]``.

A service in a process of its own on a file, 16 clients over HTTP, decisions of one learner with their feedback. First
at the pace of a million an hour, for so many seconds (60 unless told): the p99 of a decision is told in lone commits,
beside that of a bare loop, which commits a row for each packet, all that are there together, and answers a constant.
Then as fast as they are answered, so many as asked for (100,000): memory must stay flat, and each client waits for the
15 others, so that the p99 is what the processor needs for 16 requests. Then many learners (10,000): what each costs in
memory, and what reading them again takes. A part with 0 is left out. With LATE, the disk takes so many microseconds
more for each ``fdatasync``, for whoever asks it: a C compiler must be there.
"""

import asyncio
import http.client
import json
import os
import statistics
import subprocess
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


BARE = """
import asyncio, uvloop
from weakfeedback.journal import SqliteStore
from weakfeedback.journal.events import make_row

BODY = b'{"id":17,"stage":1,"name":"b"}'
ANSWER = b"HTTP/1.1 200 OK\\r\\ncontent-length: %d\\r\\n\\r\\n%s" % (len(BODY), BODY)
store, waiting, seq = SqliteStore.open("bare.db"), [], 0
learner = store.create_learner("t", 0)

def commit():
    global seq
    store.write([make_row(learner, n, n, "decide", n, None, {"stage": 1}) for n in range(seq, seq + len(waiting))])
    seq += len(waiting)
    while waiting:
        waiting.pop().write(ANSWER)

class Bare(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        if not waiting:
            asyncio.get_running_loop().call_soon(commit)
        waiting.append(self.transport)

async def main():
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(f":{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()

uvloop.run(main())
"""

LATER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

int fdatasync(int file) {
    usleep(LATE);
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}
"""


def memory_of(pid: int) -> float:
    """MB that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def pace(seconds: float) -> None:
    """Play at the pace of an hour's worth of traffic, and tell the times of decisions."""
    period, taken, commits = CLIENTS * 3600 / HOURLY, list[float](), list[float]()
    bare: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(OURS, folder, make_learner) as (pid, port),
        serving([sys.executable, "-c", BARE], folder) as (_, other),
    ):
        for one in (port, other):
            asyncio.run(load(one, CLIENTS, 2.0, period))
        used = cpu_of(pid)
        for _ in range(max(1, round(seconds / PART))):  # by turns
            commits += lone_commits(folder, 50)
            taken += asyncio.run(load(port, CLIENTS, PART, period))[1]
            bare += asyncio.run(load(other, CLIENTS, PART, period))[1]
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
    cuts = statistics.quantiles(bare, n=100)
    print(
        f"a bare loop: median {1e3 * cuts[49]:.2f} ms, p90 {1e3 * cuts[89]:.2f}, p99 {1e3 * cuts[98]:.2f}, "
        f"{cuts[98] / commit:.1f} commits"
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


def slow_disk(late: int) -> None:
    """Run all this again, and all that it starts, with a disk that takes so many microseconds more."""
    with tempfile.TemporaryDirectory() as folder:
        source, shim = Path(folder) / "later.c", Path(folder) / "later.so"
        source.write_text(LATER)
        subprocess.run(["cc", "-shared", "-fPIC", f"-DLATE={late}", source, "-o", shim, "-ldl"], check=True)
        again = [sys.executable, "-m", "benchmarks.load", *sys.argv[1:4]]
        subprocess.run(again, env=os.environ | {"LD_PRELOAD": str(shim)}, check=True)


if __name__ == "__main__":
    given = dict(enumerate(map(int, sys.argv[1:])))
    if 3 in given:
        slow_disk(given.pop(3))
        sys.exit()
    for place, (part, usual) in enumerate(((traffic, 100_000), (learners, 10_000), (pace, 60))):
        if given.get(place, usual):
            part(given.get(place, usual))
