"""Two instances on one store in PostgreSQL against one: ``python -m benchmarks.sharing [SECONDS] [CLIENTS]``.

Clients, instances and the server of the store share the cores of one machine, so the clock tells little. What counts is
the CPU time of the busiest instance per decision with its feedback: where each instance has a core of its own, that is
what bounds the decisions a second. Clients that know the owner of a learner ask it; others have a connection to each
instance and ask any, or have one, as behind a balancer of connections; ours asks the first instance, and the owner once
it was told. There are 32 clients for each instance, unless told; the more, the more requests share a commit and a
wake-up.
"""

import asyncio
import contextlib
import http.client
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.rig.postgres import Cluster, cluster

from benchmarks.service import CASCADE, OURS, cpu_of, post, serving
from weakfeedback.client import AsyncClient
from weakfeedback.journal.shards import SHARDS

NAMES = [f"t{k}" for k in range(SHARDS)]  # a learner of each shard
CLIENTS = 32  # of each instance
GOAL = 1.6  # times the decisions of one instance, at least


async def load(ports: dict[str, list[int]], clients: int, seconds: float, stay: bool = False) -> int:
    """Decide and feed back, each learner at its ports; a client asks any, or one if they ``stay``; how often."""
    count, end, luck = 0, time.perf_counter() + seconds, random.Random(0)

    async def client(number: int) -> None:
        nonlocal count
        name = NAMES[number % len(NAMES)]
        chosen = [luck.choice(ports[name])] if stay else ports[name]
        lines = [await asyncio.open_connection("127.0.0.1", port) for port in chosen]
        while time.perf_counter() < end:
            told = json.loads(await post(luck.choice(lines), f"{name}/decide", "{}"))
            outputs = json.dumps({"outputs": [1] * (told["stage"] + 1)})
            await post(luck.choice(lines), f"{name}/decisions/{told['id']}/feedback", outputs)
            count += 1
        for _, writer in lines:
            writer.close()

    await asyncio.gather(*(client(number) for number in range(clients)))
    return count


async def load_ours(ports: list[int], clients: int, seconds: float) -> int:
    """Do the same with the client of the library; how often."""
    count, end = 0, time.perf_counter() + seconds
    async with AsyncClient([f"http://127.0.0.1:{port}" for port in ports]) as service:

        async def client(number: int) -> None:
            nonlocal count
            learner = service.learner(NAMES[number % len(NAMES)])
            while time.perf_counter() < end:
                made = await learner.decide()
                await learner.feedback(made.id, [1] * (int(made.stage or 0) + 1))
                count += 1

        await asyncio.gather(*(client(number) for number in range(clients)))
    return count


def ask(port: int, method: str, path: str, body: Any = None) -> Any:
    line = http.client.HTTPConnection("127.0.0.1", port)
    line.request(
        method, path, None if body is None else json.dumps(body), {"content-type": "application/json"}
    )
    answer = line.getresponse()
    assert answer.status in (200, 201), answer.status
    found = json.loads(answer.read())
    line.close()
    return found


def cpu_of_store(server: Cluster) -> float:
    """CPU seconds of PostgreSQL: its first process and those that it has started and not ended."""
    first = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True)
    total = 0.0
    for pid in (first, *map(int, children.stdout.split())):
        with contextlib.suppress(OSError):
            total += cpu_of(pid)
    return total


def owned(metrics: int) -> set[str]:
    """The learners of an instance."""
    line = http.client.HTTPConnection("127.0.0.1", metrics)
    line.request("GET", "/metrics")
    text = line.getresponse().read().decode()
    line.close()
    return {name for name in NAMES if f'weakfeedback_pending{{learner="{name}"}}' in text}


def run(
    server: Cluster, instances: int, way: str, seconds: float, clients: int = CLIENTS
) -> dict[str, float]:
    """What so many instances cost per decision, in microseconds of CPU, and how many there were a second."""
    command = [*OURS, "--shared", "--store", server.url("s" + str(time.monotonic_ns()))]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        running = [stack.enter_context(serving(command, folder)) for _ in range(instances)]
        first = running[0][1]
        for name in NAMES:
            ask(first, "PUT", f"/v1/learners/{name}", CASCADE)
        while sorted(len(owned(port)) for _, port in running) != [SHARDS // instances] * instances:
            time.sleep(0.2)
        owners = {name: port for _, port in running for name in owned(port)}
        everywhere = [port for _, port in running]
        ports = {name: [owners[name]] if way == "owner" else everywhere for name in NAMES}
        clients *= instances

        def play(seconds: float) -> int:
            if way == "ours":
                return asyncio.run(load_ours(everywhere, clients, seconds))
            return asyncio.run(load(ports, clients, seconds, way == "one of them"))

        play(1.0)
        before, stored = [cpu_of(pid) for pid, _ in running], cpu_of_store(server)
        began = time.perf_counter()
        count = play(seconds)
        taken = time.perf_counter() - began
        used = [1e6 * (cpu_of(pid) - start) / count for (pid, _), start in zip(running, before)]
        store = 1e6 * (cpu_of_store(server) - stored) / count
    return {"busiest": max(used), "all": sum(used), "store": store, "per_second": count / taken}


def main() -> int:
    """Measure by turns, print the medians."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    clients = int(sys.argv[2]) if len(sys.argv) > 2 else CLIENTS
    ways = {"one": (1, "owner"), "two, the owner": (2, "owner"), "two, any of them": (2, "any")}
    ways |= {"two, each at one": (2, "one of them")}
    ways |= {"one, our client": (1, "ours"), "two, our client": (2, "ours")}
    found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
    with cluster() as server:
        for _ in range(3):
            for name, (instances, way) in ways.items():
                found[name].append(run(server, instances, way, seconds, clients))
    best = {name: min(runs, key=lambda one: one["busiest"]) for name, runs in found.items()}
    print("microseconds of CPU per decision with its feedback, the best of three turns")
    for name, one in best.items():
        alone = best["one, our client" if ways[name][1] == "ours" else "one"]
        ratio = alone["busiest"] / one["busiest"]
        print(
            f"{name:22}  busiest instance {one['busiest']:6.0f}  all {one['all']:6.0f}  PostgreSQL {one['store']:6.0f}"
            f"  {one['per_second']:6.0f} a second here  {ratio:.2f} times the decisions of one"
        )
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
