"""The command: it starts with nothing, says where it is, and ends when it is asked to."""

import asyncio
import gc
import importlib.util
import json
import signal
import socket
import sys

import pytest
from tests.rig.harness import CASCADE
from tests.rig.processes import PATIENCE, printed, wait_until
from tests.rig.server import Client, Process

from weakfeedback.cli.output import Stop
from weakfeedback.cli.serve import need_extra
from weakfeedback.serve.config import ConfigError, Settings
from weakfeedback.serve.server import YOUNG, serve
from weakfeedback.serve.service import Options


def test_it_starts_with_nothing_serves_and_goes_on_where_it_stopped(tmp_path):
    with Process(tmp_path) as server:
        assert server.line == f"weakfeedback serves 0 learners at http://127.0.0.1:{server.port}/\n"
        call = Client(server.port)
        assert call("PUT", "/v1/learners/t", CASCADE)[0] == 201
        status, first = call("POST", "/v1/learners/t/decide", {})
        assert (status, first["id"]) == (200, 1)
        assert call("GET", "/health/ready")[1]["status"] == "ready"
        status, text = call("GET", "/metrics")
        assert status == 200
        assert b'weakfeedback_pending{learner="t"} 1.0' in text
        second = Process(tmp_path, wait=False)  # on the same store
        assert second.process.wait(PATIENCE) == 2
        assert second._end() == 2
        words = (tmp_path / "errors").read_text()
        assert words.count("\n") == 1
        assert f"is in use by process {server.process.pid} since" in words
        call.close()
        assert server.stop() == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "errors",
        "weakfeedback.db",
        "weakfeedback.db.lock",
    ]
    assert (tmp_path / "weakfeedback.db").stat().st_mode & 0o777 == 0o600
    with Process(tmp_path) as server:
        call = Client(server.port)
        outputs = ["x"] * (first["stage"] + 1)
        assert (
            call("POST", "/v1/learners/t/decisions/1/feedback", {"outputs": outputs})[1]["result"]
            == "accepted"
        )
        call.close()
        server.process.send_signal(signal.SIGINT)
        assert server._end() == 130


def is_refused(port: int) -> bool:
    """Whether nobody listens any more."""
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def test_a_request_under_way_is_finished_before_the_end(tmp_path):
    body = b'{"kind": "cascade", "stages": ["a"], "stage_costs": [1]}'
    head = b"PUT /v1/learners/slow HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with Process(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body[:10])
        call = Client(server.port)  # who came first is heard first
        assert call("GET", "/health/live")[0] == 200
        call.close()
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_refused(server.port))
        line.sendall(body[10:])
        answer = line.recv(10_000)
        assert answer.startswith(b"HTTP/1.1 201")
        assert server._end() == 0


def test_searches_for_garbage_leave_alone_what_is_there_at_the_start(tmp_path):
    known, found = (gc.get_threshold(), sys.getswitchinterval()), list[tuple[int, int]]()

    def ready(*_: object) -> None:
        found.append((gc.get_freeze_count(), gc.get_threshold()[0]))
        signal.raise_signal(signal.SIGTERM)

    try:
        settings = Settings(port=0, store=f"sqlite:///{tmp_path / 's.db'}")
        assert asyncio.run(serve(settings, Options(compiled=False), ready=ready)) == 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*known[0])
        sys.setswitchinterval(known[1])
    assert found[0][0] > 50_000
    assert found[0][1] == YOUNG


def test_log_lines_are_json_with_a_request_id_and_nothing_of_the_body(tmp_path):
    with Process(tmp_path, "--log", "json", quiet=False) as server:
        call = Client(server.port)
        call("PUT", "/v1/learners/t", CASCADE, x_request_id="first-1")
        call("POST", "/v1/learners/t/decide", {}, idempotency_key="my-key")
        call("POST", "/v1/learners/t/decisions/1/feedback", {"outputs": ["a secret"]})
        call.close()
        assert server.stop() == 0
    text = (tmp_path / "errors").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    told = [(line["route"], line["status"]) for line in lines if "route" in line]
    assert told[:2] == [("/v1/learners/{name}", 201), ("/v1/learners/{name}/decide", 200)]
    assert lines[0]["id"] == "first-1"
    assert all(line["ms"] >= 0 for line in lines if "route" in line)
    for word in ("secret", "my-key", "rules"):
        assert word not in text


@pytest.mark.parametrize("more", [{}, {"shared": True}])
@pytest.mark.parametrize("host", ["nobody.invalid", "a..b", "x" * 64])
async def test_a_host_that_nobody_knows_is_named(host, more):
    settings = Settings(host=host, store="postgresql://nobody@127.0.0.1:1/none", **more)
    with pytest.raises(
        ConfigError, match=rf"^host = '{host}' must be an address of this machine, or a.*: \w+"
    ):
        await serve(settings, Options())


def test_without_the_extra_one_line_says_what_to_install(monkeypatch):
    known = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "uvicorn" else known(name)
    )
    with pytest.raises(Stop, match=r"the service needs uvicorn: pip install 'weakfeedback\[serve\]'"):
        need_extra()


def test_the_command_line_needs_nothing_of_the_extra_to_start():
    """Other commands must not wait for it, nor fail without it."""
    names = "('starlette', 'uvicorn', 'orjson')"
    code = f"import sys, weakfeedback.cli.app; print([name for name in {names} if name in sys.modules])"
    assert printed("-c", code).strip() == "[]"
