"""The demo: learners find out what is known of the made-up models, a page shows it, and the process ends."""

import asyncio
import http.client
import subprocess
import sys
import time

import pytest
from tests.rig.harness import opener, quick
from tests.rig.processes import PATIENCE
from tests.rig.server import Client, Process
from tests.serve.test_page import paged, text_of

from weakfeedback.serve.demo import HISTORY, LEARNERS, SKILLS, Clock, Load
from weakfeedback.serve.page.routes import watch_of
from weakfeedback.serve.service import Service


async def test_an_hour_of_the_past_is_played_and_shown(tmp_path):
    clock = Clock()
    service = Service(opener(tmp_path / "s.db"), quick(clock=clock, durability="process"))
    await service.start()
    try:
        load = Load(service)
        await load.create()
        await load.play_past(clock, minutes=6)
        assert set(service.learners) == set(LEARNERS)
        support = await service.report("support")
        # what is known of the models shows in how often they differ; 4 standard errors of 150 comparisons
        pair = support["disagreement"][0]
        assert abs(pair["share"] - (SKILLS[1] - SKILLS[0])) < 4 * (0.21 * 0.79 / pair["comparisons"]) ** 0.5
        last = watch_of(service.learners["support"]).series.last()
        assert time.time() - last < 120
        call = paged(service)
        pages = [await call("GET", path) for path in ("/", *(f"/learners/{name}" for name in LEARNERS))]
        load_task = asyncio.ensure_future(load.go_on())
        before = load.rounds
        while load.rounds == before:
            await asyncio.sleep(0.05)
        load_task.cancel()
    finally:
        await service.stop()
    assert [page.status for page in pages] == [200] * len(pages)
    assert all(name in text_of(pages[0]) for name in LEARNERS)


def test_the_clock_of_the_demo_ends_at_the_true_time():
    clock = Clock()
    assert time.time() - clock() / 1e6 == pytest.approx(HISTORY * 60, abs=30)
    clock.behind = 0
    assert time.time() - clock() / 1e6 == pytest.approx(0, abs=30)
    before = clock()
    clock.behind = 60_000_000
    assert clock() >= before  # it never goes back


@pytest.mark.slow
def test_the_command_shows_the_page_and_leaves_nothing(tmp_path):
    command = [sys.executable, "-m", "weakfeedback", "serve", "--demo", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as demo:
        address = next(line.split()[-1] for line in demo.stdout if " serves " in line)
        port = int(address.rstrip("/").rpartition(":")[2])
        client = Client(port)
        status, page = client("GET", "/learners/support")
        assert status == 200
        assert b"small" in page
        assert client("GET", "/v1/learners/refunds/report")[1]["drift"][0]["alarms"] >= 1
        client.close()
        demo.terminate()
        demo.communicate(timeout=PATIENCE)
    assert demo.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_an_open_page_does_not_keep_the_service_from_ending(tmp_path):
    with Process(tmp_path, "--patience", "600") as process:
        connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=PATIENCE)
        connection.request("GET", "/live")
        stream = connection.getresponse()
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.read(10)
        began = time.monotonic()
        assert process.stop() == 0
        assert time.monotonic() - began < 20  # the patience for requests is 600
        connection.close()
