"""The proxy: what it adds to the first token, and what an upstream call costs it, against calling without it."""

import asyncio
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.service import cpu_of

FIRST = 1.1  # the first token at most so many times as late
ADDED = 0.010  # and never more than so many seconds later, at the median
CPU = 2.0  # an upstream call at most so many times the CPU of a bare aiohttp call
WAIT = 0.07  # seconds that the fake model takes for its first token
AT_ONCE = 16
MODEL, LEARNER = "medium-2", "bench"

FAKE = """
import sys, uvicorn
from tests.rig.fake import FakeUpstream
from weakfeedback.serve.proxy.fake import FakeModel
models = {"medium-2": FakeModel("medium-2"), "slow": FakeModel("slow", seconds=float(sys.argv[2]))}
uvicorn.run(FakeUpstream(models, keep=1), port=int(sys.argv[1]), log_level="critical", access_log=False, lifespan="off")
"""
CLIENT = """
import asyncio, resource, sys, aiohttp, uvloop
from weakfeedback.serve.proxy.upstream import Upstream, UpstreamSettings
async def main(url, count, at_once, ours):
    body = {"model": "medium-2", "messages": [{"role": "user", "content": "What is 17 * 23?"}]}
    upstream = Upstream(UpstreamSettings("fake", url.removesuffix("/chat/completions")))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        async def some(count):
            for _ in range(count):
                if ours:
                    await upstream.ask("/chat/completions", body, print)
                else:
                    async with session.post(url, json=body) as answer:
                        await answer.json()
        await asyncio.gather(*(some(10) for _ in range(at_once)))
        before = resource.getrusage(resource.RUSAGE_SELF)
        await asyncio.gather(*(some(count // at_once) for _ in range(at_once)))
        after = resource.getrusage(resource.RUSAGE_SELF)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(used / (count // at_once * at_once))
    await upstream.close()
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "ours"))
"""
CONFIG = """
[server]
port = {port}
store = "sqlite:///{store}"
[upstream.fake]
url = "http://127.0.0.1:{upstream}/v1"
"""
STAGES = """
[[learner]]
name = "{name}"
error_cost = 1000.0
compare = {{ type = "text" }}
[[learner.stage]]
name = "only"
upstream = "fake"
model = "{model}"
price = {{ input = 1.0, output = 1.0 }}
"""


def free_port() -> int:
    """A port that nobody uses now."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


class Servers:
    """A fake upstream and a proxy before it, each a process of its own."""

    def __init__(self, folder: str) -> None:
        self.upstream, self.port = free_port(), free_port()
        text = CONFIG.format(port=self.port, store=f"{folder}/s.db", upstream=self.upstream)
        text += STAGES.format(name=LEARNER, model=MODEL) + STAGES.format(name="slow", model="slow")
        config = Path(folder) / "w.toml"
        config.write_text(text)
        ours = [sys.executable, "-m", "weakfeedback", "serve", "--quiet", "--interpreted"]
        self._processes = [
            subprocess.Popen([sys.executable, "-c", FAKE, str(self.upstream), str(WAIT)]),
            subprocess.Popen([*ours, "--config", str(config)], stdout=subprocess.DEVNULL),
        ]
        for port in (self.upstream, self.port):
            wait_for(port)

    @property
    def direct(self) -> str:
        """The address of the upstream's chat route."""
        return f"http://127.0.0.1:{self.upstream}/v1/chat/completions"

    @property
    def through(self) -> str:
        """The address of the proxy's."""
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"

    def cpu(self) -> float:
        """Seconds of CPU time that the proxy has used."""
        return cpu_of(self._processes[1].pid)

    def close(self) -> None:
        """End both."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            process.wait(30)


def wait_for(port: int, seconds: float = 60.0) -> None:
    """Return when something listens at a port."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def asked(model: str, stream: bool) -> dict[str, Any]:
    """A request."""
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": "What is 17 * 23?"}]}


async def first_token(session: aiohttp.ClientSession, url: str, model: str) -> float:
    """Seconds until the first bytes of a streamed answer."""
    began = time.perf_counter()
    async with session.post(url, json=asked(model, True)) as answer:
        await answer.content.readany()
        found = time.perf_counter() - began
        await answer.read()
    return found


async def first_tokens(servers: Servers, count: int) -> tuple[list[float], list[float]]:
    """Seconds until the first token, direct and through the proxy in turn."""
    direct, through = [], []
    async with aiohttp.ClientSession() as session:
        for k in range(count + 5):
            one = await first_token(session, servers.direct, "slow")
            two = await first_token(session, servers.through, "slow")
            if k >= 5:
                direct.append(one)
                through.append(two)
    return direct, through


async def load(servers: Servers, path: str, body: dict[str, Any], count: int) -> None:
    """So many plain requests to the service, several at once."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def some(number: int) -> None:
            for _ in range(number):
                async with session.post(f"http://127.0.0.1:{servers.port}{path}", json=body) as answer:
                    assert answer.status == 200
                    await answer.read()

        await asyncio.gather(*(some(count // AT_ONCE) for _ in range(AT_ONCE)))


def served(servers: Servers, path: str, body: dict[str, Any], count: int) -> float:
    """Seconds of CPU of the service for a request."""
    asyncio.run(load(servers, path, body, 10 * AT_ONCE))
    before = servers.cpu()
    asyncio.run(load(servers, path, body, count))
    return (servers.cpu() - before) / (count // AT_ONCE * AT_ONCE)


def called(servers: Servers, who: str, count: int) -> float:
    """Seconds of CPU of a client for a call."""
    arguments = [sys.executable, "-c", CLIENT, servers.direct, str(count), str(AT_ONCE), who]
    return float(subprocess.run(arguments, check=True, capture_output=True, text=True).stdout)


def cpu_per_call(servers: Servers, count: int) -> dict[str, float]:
    """Seconds of CPU: of a request through the proxy, of a decision alone, of a call by us and by bare aiohttp."""
    return {
        "proxy": served(servers, "/v1/chat/completions", asked(LEARNER, False), count),
        "decide": served(servers, f"/v1/learners/{LEARNER}/decide", {}, count),
        "ours": called(servers, "ours", count),
        "bare": called(servers, "bare", count),
    }


def measure(repetitions: int) -> dict[str, Any]:
    """Medians over the repetitions."""
    with tempfile.TemporaryDirectory() as folder:
        servers = Servers(folder)
        try:
            direct, through = asyncio.run(first_tokens(servers, 20 * repetitions))
            costs = [cpu_per_call(servers, 2000) for _ in range(repetitions)]
        finally:
            servers.close()
    added = statistics.median(two - one for one, two in zip(direct, through))
    cpu = {f"{name}_us": 1e6 * statistics.median(one[name] for one in costs) for name in costs[0]}
    return {
        "first_token": {
            "direct_ms": 1e3 * statistics.median(direct),
            "through_ms": 1e3 * statistics.median(through),
            "added_ms": 1e3 * added,
            "ratio": statistics.median(through) / statistics.median(direct),
        },
        "cpu": {
            **cpu,
            "ratio": statistics.median(one["ours"] / one["bare"] for one in costs),
            "whole": statistics.median(one["proxy"] / one["bare"] for one in costs),
        },
    }


def text(found: dict[str, Any]) -> str:
    """The table, goals missed included."""
    first, cpu = found["first_token"], found["cpu"]
    good = first["ratio"] <= FIRST and first["added_ms"] <= 1e3 * ADDED
    return "\n".join(
        (
            "Proxy",
            f"  first token: {first['through_ms']:.1f} ms, direct {first['direct_ms']:.1f} ms: "
            f"{first['ratio']:.2f} times, "
            f"{first['added_ms']:.1f} ms added; goal {FIRST:g} times and {1e3 * ADDED:g} ms{'' if good else ' MISSED'}",
            f"  CPU of an upstream call: {cpu['ours_us']:.0f} us, bare aiohttp {cpu['bare_us']:.0f} us: "
            f"{cpu['ratio']:.2f} times; goal {CPU:g} times{'' if cpu['ratio'] <= CPU else ' MISSED'}",
            f"  CPU of a whole request, served, decided, stored and called: {cpu['proxy_us']:.0f} us, "
            f"{cpu['whole']:.1f} times a bare call; a decision alone, served and stored: {cpu['decide_us']:.0f} us",
        )
    )
