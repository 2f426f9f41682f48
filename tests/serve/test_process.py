"""The command: it starts with nothing, says where it is, and ends when it is asked to."""

import signal
import socket
import time
from pathlib import Path

from tests.serve.harness import CASCADE
from tests.serve.processes import Client, Process


def test_it_starts_with_nothing_serves_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
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
        assert second.process.wait(60) == 2
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


def test_a_request_under_way_is_finished_before_the_end(tmp_path: Path) -> None:
    body = b'{"kind": "cascade", "stages": ["a"], "stage_costs": [1]}'
    head = b"PUT /v1/learners/slow HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with Process(tmp_path) as server, socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body[:10])
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        line.sendall(body[10:])
        answer = line.recv(10_000)
        assert answer.startswith(b"HTTP/1.1 201")
        assert server._end() == 0
