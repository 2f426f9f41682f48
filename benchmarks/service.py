"""The service: one commit for all who wait, the cost of a decision over HTTP, replay, light learners beside heavy ones.

All are ratios within one run. Commits are timed by the clock, for the disk is what is waited for; the rest in CPU time.
"""

import asyncio
import contextlib
import gzip
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from weakfeedback import Cascade
from weakfeedback.journal import SqliteStore
from weakfeedback.journal.events import make_row
from weakfeedback.serve import service as service_module
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.commit import Committer
from weakfeedback.serve.models import CONFIG, DecideRequest, FeedbackRequest
from weakfeedback.serve.page.routes import SPAN_WORDS, Page, static_files, templates
from weakfeedback.serve.page.view import table_of
from weakfeedback.serve.recover import recover_all
from weakfeedback.serve.server import SWITCH
from weakfeedback.serve.service import Options, Service

CASCADE = {"kind": "cascade", "stages": ["a", "b", "c"], "stage_costs": [0.5, 2.0, 5.0], "error_cost": 20.0}
HEAVY = {"kind": "contextual", "policy": "USS-PD-TS", "stages": ["a", "b"], "stage_costs": [1.0, 20.0]}
HEAVY["error_cost"] = 100.0
OURS = [sys.executable, "-m", "weakfeedback", "serve", "--port", "0", "--quiet", "--interpreted"]
TURNS = 5  # of the service and what it is compared with
GOALS = {
    "group_64": ("group commit, 64 callers, against a transaction each", 5.0, "at least"),
    "full_64": ("  against durability = process", 0.35, "at least"),
    "group_256": ("group commit, 256 callers, against a transaction each", 15.0, "at least"),
    "full_256": ("  against durability = process", 0.5, "at least"),
    "cpu": ("CPU of a request, 64 clients, against a constant route", 1.6, "at most"),
    "p99": ("p99 of a decision, 16 clients, against one synchronised commit", 4.0, "at most"),
    "replay": ("replay against the same rounds in memory", 0.3, "at least"),
    "replay_seconds": ("seconds of replay for 10,000 events of a cascade", 1.0, "at most"),
    "beside": ("p99 of a light learner beside a heavy one, against alone", 6.0, "at most"),
    "page_ms": ("CPU ms of an update of the page, 100 learners that all changed", 5.0, "at most"),
    "page_kb": ("kB transferred for the page of a learner, files included", 100.0, "at most"),
}
CONSTANT = """
import asyncio, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

async def constant(request):
    await request.body()
    return JSONResponse({"id": 17, "stage": 1, "name": "b", "call": ["a", "b"], "expires": None, "repeated": False})

paths = ["/v1/learners/{name}/decide", "/v1/learners/{name}/decisions/{id}/feedback"]
app = Starlette(routes=[Route(path, constant, methods=["POST"]) for path in paths])
server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
start = server.startup

async def startup(sockets=None):
    await start(sockets)
    print(f":{server.servers[0].sockets[0].getsockname()[1]}", flush=True)

server.startup = startup
server.run()
"""


class Each(Committer):
    """Writes every request in a transaction of its own."""

    def _carry_out(self, taken: Any) -> Any:
        done = []
        for one in taken:
            done += super()._carry_out([one])
        return done


def opener(path: Path) -> Callable[..., Any]:
    """Opens the store of a service."""
    return lambda read_only=False, create=True: SqliteStore.open(path, read_only=read_only, create=create)


async def engine(path: Path, callers: int, seconds: float, durability: str, committer: Any) -> float:
    """Operations per second of so many callers, without HTTP."""
    service_module.Committer = committer
    try:
        service = Service(opener(path), Options(durability=durability, compiled=False))
        await service.start()
    finally:
        service_module.Committer = Committer
    await service.create("t", CONFIG.validate_python(CASCADE))
    count, end = 0, time.perf_counter() + seconds

    async def caller() -> None:
        nonlocal count
        while time.perf_counter() < end:
            told = await service.decide("t")
            await service.feedback("t", told["id"], FeedbackRequest(outputs=[1] * (told["stage"] + 1)))
            count += 2

    began = time.perf_counter()
    await asyncio.gather(*(caller() for _ in range(callers)))
    taken = time.perf_counter() - began
    await service.stop()
    return count / taken


def commits(callers: int, seconds: float) -> tuple[float, float, dict[str, float]]:
    """Group commit against a transaction each, and against no waiting for the disk."""
    ways = {"group": ("full", Committer), "each": ("full", Each), "process": ("process", Committer)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(2):
        for name, (durability, committer) in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                work = engine(Path(folder) / "s.db", callers, seconds, durability, committer)
                found[name].append(asyncio.run(work))
    best = {name: max(rates) for name, rates in found.items()}
    return best["group"] / best["each"], best["group"] / best["process"], best


HEAD = (
    "POST /v1/learners/{} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    "content-length: {}\r\n\r\n{}"
)


async def post(line: tuple[asyncio.StreamReader, asyncio.StreamWriter], path: str, body: str) -> bytes:
    """Send one request about learners over an open connection, and return the body of its answer."""
    reader, writer = line
    writer.write(HEAD.format(path, len(body), body).encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200"), answer
    length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return await reader.readexactly(length)


async def load(port: int, clients: int, seconds: float, period: float = 0.0) -> tuple[int, list[float]]:
    """Decide and feed back over HTTP with so many connections; how many requests, and what decisions took.

    Each as fast as it is answered, or once in a random time of mean ``period``, in seconds.
    """
    taken: list[float] = []
    count, end = 0, time.perf_counter() + seconds

    async def client() -> None:
        nonlocal count
        line = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            if period:
                await asyncio.sleep(random.expovariate(1.0 / period))
            began = time.perf_counter()
            told = await post(line, "t/decide", "{}")
            taken.append(time.perf_counter() - began)
            id, stage = (told.partition(name)[2].partition(b",")[0] for name in (b'"id":', b'"stage":'))
            outputs = ",".join(["1"] * (int(stage) + 1))
            await post(line, f"t/decisions/{id.decode()}/feedback", f'{{"outputs":[{outputs}]}}')
            count += 2
        line[1].close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return count, taken


@contextlib.contextmanager
def serving(command: list[str], folder: str, setup: Any = None) -> Iterator[tuple[int, int]]:
    """A server in a process of its own: its number, and its port."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline().rstrip().rstrip("/").rpartition(":")[2])
        if setup is not None:
            setup(port)
        yield process.pid, port
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def make_learner(port: int) -> None:
    """The learner that is asked."""
    import http.client
    import json

    line = http.client.HTTPConnection("127.0.0.1", port)
    line.request("PUT", "/v1/learners/t", json.dumps(CASCADE), {"content-type": "application/json"})
    assert line.getresponse().status == 201
    line.close()


def over_http(clients: int, seconds: float) -> dict[str, Any]:
    """CPU per request of the service and of a route that returns a constant, what decisions took, and lone commits.

    By turns, as other programs use the machine too.
    """
    constant = [sys.executable, "-c", CONSTANT]
    costs: dict[str, list[float]] = {"ours": [], "constant": []}
    taken, commits = list[float](), list[float]()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(OURS, folder, make_learner) as mine,
        serving(constant, folder) as other,
    ):
        for _, port in (mine, other):
            asyncio.run(load(port, clients, 0.5))
        for _ in range(TURNS):
            for name, (pid, port) in (("ours", mine), ("constant", other)):
                before = cpu_of(pid)
                count, times = asyncio.run(load(port, clients, seconds / TURNS))
                costs[name].append((cpu_of(pid) - before) / count)
                taken += times if name == "ours" else []
            commits += lone_commits(folder)
    costs_found = {name: statistics.median(found) for name, found in costs.items()}
    return {**costs_found, "p99": _p99(taken), "commit": statistics.median(commits), "slow": _p99(commits)}


def _p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[-1]


def lone_commits(folder: str, times: int = 50) -> list[float]:
    """What synchronised commits took, one after the other and with nothing else to do."""
    found = []
    with tempfile.TemporaryDirectory(dir=folder) as place, SqliteStore.open(Path(place) / "s.db") as store:
        learner = store.create_learner("t", 0)
        for seq in range(times):
            row = make_row(learner, seq, seq, "decide", seq, None, {"stage": 1})
            began = time.perf_counter()
            store.write([row])
            found.append(time.perf_counter() - began)
    return found


def replay(rounds: int = 5000) -> tuple[float, float]:
    """CPU seconds of replay of so many rounds, and of the same rounds in memory."""

    async def history(path: Path) -> None:
        service = Service(opener(path), Options(durability="process", compiled=False))
        await service.start()
        await service.create("t", CONFIG.validate_python(CASCADE))
        for _ in range(rounds // 100):
            made = await service.decide("t", DecideRequest(count=100))
            for one in made["decisions"]:
                await service.feedback("t", one["id"], FeedbackRequest(outputs=[1] * (one["stage"] + 1)))
        learner = service.learners["t"]
        learner.pictured = learner.seq  # no snapshot
        await service.stop()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.db"
        asyncio.run(history(path))
        with SqliteStore.open(path) as store:
            store._all("DELETE FROM snapshot")
            began = time.process_time()
            found = recover_all(store)
            again = time.process_time() - began
        assert found.events == 2 * rounds
    cascade = Cascade(3, [0.5, 2.0, 5.0], 20.0, seed=0)
    began = time.process_time()
    for _ in range(rounds):
        decision = cascade.decide()
        cascade.feedback(decision.id, [1] * (decision.arm + 1))
    return again, time.process_time() - began


async def light(path: Path, beside: bool, seconds: float) -> float:
    """p99 of a light learner's decisions, alone or beside a heavy one."""
    sys.setswitchinterval(SWITCH)  # as the server does
    service = Service(opener(path), Options(durability="process", compiled=False))
    await service.start()
    await service.create("t", CONFIG.validate_python(CASCADE))
    await service.create("heavy", CONFIG.validate_python(HEAVY))
    end, taken = time.perf_counter() + seconds, list[float]()

    async def heavy() -> None:
        context = [0.1 * k for k in range(8)]
        while time.perf_counter() < end:
            told = await service.decide("heavy", DecideRequest(context=context))
            await service.feedback("heavy", told["id"], FeedbackRequest(differ=[]))

    async def other() -> None:
        while time.perf_counter() < end:
            began = time.perf_counter()
            told = await service.decide("t")
            taken.append(time.perf_counter() - began)
            await service.feedback("t", told["id"], FeedbackRequest(outputs=[1] * (told["stage"] + 1)))
            await asyncio.sleep(0.001)

    await asyncio.gather(other(), *([heavy()] if beside else []))
    await service.stop()
    return statistics.quantiles(taken, n=100)[-1]


async def page(path: Path, learners: int = 100) -> tuple[float, float]:
    """CPU ms of one update of the overview, the best of several, and kB of the page of a learner with its files."""
    service = Service(opener(path), Options(durability="process", compiled=False))
    await service.start()
    names = [f"learner-{n}" for n in range(learners)]

    async def play() -> None:
        for name in names:
            told = await service.decide(name, DecideRequest())
            await service.feedback(name, told["id"], FeedbackRequest(outputs=[1] * (told["stage"] + 1)))

    for n, name in enumerate(names):
        await service.create(name, CONFIG.validate_python({**CASCADE, "seed": n}))
    shown, taken = Page(service, Auth(), lambda _: {}), []
    for _ in range(8):
        await play()
        start = time.process_time()
        shown.overview_pieces(service.learners.values())
        taken.append(1e3 * (time.process_time() - start))
    made = await shown.learner(names[0], "1h")
    values = {"v": made, "charts": made["charts"], "table": table_of(made["charts"])}
    rest = {"span": "1h", "spans": SPAN_WORDS, "here": "", "version": "", "logout": False}
    whole = templates().get_template("learner.html").render({**values, **rest}).encode()
    size = len(gzip.compress(whole, 5)) + sum(len(small) for _, _, small in static_files().values())
    await service.stop()
    return min(taken), size / 1e3


def measure(repetitions: int) -> dict[str, Any]:
    """All ratios of the service."""
    seconds = 1.5 if repetitions < 5 else 4.0
    found: dict[str, Any] = {}
    for callers in (64, 256):
        found[f"group_{callers}"], found[f"full_{callers}"], rates = commits(callers, seconds)
        found[f"rates_{callers}"] = rates
    many, few = over_http(64, 4 * seconds), over_http(16, 4 * seconds)
    found["cpu"] = many["ours"] / many["constant"]
    found["cpu_us"] = [1e6 * many["ours"], 1e6 * many["constant"]]
    found["p99"], found["commit"] = few["p99"] / few["commit"], [few["commit"], few["slow"]]
    again, memory = min(replay() for _ in range(2))
    found["replay"], found["replay_seconds"] = memory / again, again
    with tempfile.TemporaryDirectory() as folder:
        alone = asyncio.run(light(Path(folder) / "a.db", False, seconds))
        beside = asyncio.run(light(Path(folder) / "b.db", True, seconds))
        found["page_ms"], found["page_kb"] = asyncio.run(page(Path(folder) / "c.db"))
    found["beside"] = beside / alone
    return found


def text(found: dict[str, Any]) -> str:
    """The ratios with their goals; those that are missed are marked."""
    lines = ["", "the service (goal)"]
    for name, (words, goal, sense) in GOALS.items():
        value = found[name]
        met = value >= goal if sense == "at least" else value <= goal
        lines.append(f"  {words:<68} {value:6.2f}  ({sense} {goal:g}){'' if met else '  missed'}")
    ours, constant = found["cpu_us"]
    lines.append(
        f"  a decision or feedback over HTTP takes {ours:.0f} us of CPU, a constant route {constant:.0f}"
    )
    median, slow = found["commit"]
    lines.append(
        f"  a commit with nothing else to do takes {1e3 * median:.1f} ms, and its p99 is {slow / median:.1f} times that"
    )
    return "\n".join(lines)
