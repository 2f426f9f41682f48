"""Short requests for a learner of another instance: over the line, without a task, and answered as at the owner."""

import asyncio
import json
import socket
from contextlib import asynccontextmanager

import pytest
from tests.journal.stores import InPostgres
from tests.rig.harness import CASCADE, quick
from tests.rig.processes import until

from weakfeedback.journal.shards import SHARDS, shard_of
from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.config import opener
from weakfeedback.serve.passing import Passing
from weakfeedback.serve.server import Config, HttpServer, Patient
from weakfeedback.serve.service import Service

NAMES = [f"t{k}" for k in range(SHARDS)]  # one of each shard
SECRET = "a-secret-of-the-shop"


class Instance:
    """An instance in this process that listens."""

    def __init__(self, address):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.service = Service(opener(address), quick(standby=True, shared=self.address))
        self.task = None

    async def start(self):
        await self.service.start()
        app = make_app(self.service, Auth([Token.of("shop", SECRET, "admin")]), root_path="/decide")
        self.gate = app.state.gate
        options = {"ws": "none", "lifespan": "off", "log_config": None, "access_log": False}
        config = Config(app, http=Patient, server_header=False, **options)
        config.gate = self.gate
        self.server = HttpServer(config, self.service)
        self.task = asyncio.create_task(self.server._serve([self.socket]))
        await until(lambda: self.server.started)

    async def stop(self):
        if self.task is not None:
            self.server.should_exit = True
            await self.task
        await self.service.stop()
        self.socket.close()

    async def ask(self, *pieces, answers=1):
        """Send bytes, in pieces; the status, headers and body of so many answers."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.01)
            found = []
            for _ in range(answers):
                head, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                found.append((int(head.split()[1]), headers, body))
            if headers.get("connection") == "close":
                assert await reader.read() == b""
        finally:
            writer.close()
        return found if answers > 1 else found[0]


def request(name, *lines, body=b"{}", host="localhost", method="POST", path="/decide", token=SECRET):
    head = [f"{method} /v1/learners/{name}{path} HTTP/1.1", f"host: {host}", f"content-length: {len(body)}"]
    head += ["content-type: application/json", f"authorization: Bearer {token}", *lines, "", ""]
    return "\r\n".join(head).encode() + body


@asynccontextmanager
async def two(server, monkeypatch):
    """Two instances with a line between them, a learner that the second owns, and what did not go over the line."""
    address, others, copy = InPostgres(server).address, [], Passing._copy
    noted = lambda *given: others.append(given[2]["method"]) or copy(*given)  # noqa: E731
    monkeypatch.setattr(Passing, "_copy", noted)
    first, second = Instance(address), Instance(address)
    try:
        for one in (first, second):
            await one.start()
        await until(lambda: [len(one.service.sharing.shards) for one in (first, second)] == [8, 8])
        far = next(name for name in NAMES if shard_of(name) in second.service.sharing.shards)
        made = request(far, body=json.dumps(CASCADE).encode(), method="PUT", path="")
        assert (await first.ask(made))[0] == 201
        assert (await first.ask(request(far)))[0] == 200
        await until(lambda: first.gate.passing._lines)
        assert others == ["PUT", "POST"]  # there was no line before
        others.clear()
        yield first, second, far, others
    finally:
        for one in (first, second):
            await one.stop()


async def test_a_passed_request_is_answered_as_at_the_owner(server, monkeypatch):
    async with two(server, monkeypatch) as (first, second, far, others):
        told = []
        for one in (first, second):
            sent = request(far, "x-request-id: r1", "idempotency-key: k1", "origin: http://localhost")
            status, headers, body = await one.ask(sent)
            headers.pop("date")
            told.append((status, headers, body.replace(b"true", b"false")))
        assert told[0][1].pop("x-weakfeedback-owner") == second.address
        length = [int(headers.pop("content-length")) for _, headers, _ in told]
        assert told[0] == told[1]
        assert length[0] - length[1] == len("false") - len("true")  # it was repeated
        # in pieces, several at once, for the last time, below a prefix
        whole = request(far)
        assert (await first.ask(whole[:20], whole[20:-1], whole[-1:]))[0] == 200
        answers = await first.ask(whole + whole, whole, answers=3)
        assert [json.loads(body)["id"] for _, _, body in answers] == [4, 5, 6]
        closing = await first.ask(request(far, "connection: close"))
        assert closing[1]["connection"] == "close"
        prefixed = whole.replace(b"/v1/", b"/decide/v1/", 1)
        assert json.loads((await first.ask(prefixed))[2])["id"] == 8
        assert f'route="passed on",status="200"}} {8.0}' in first.service.metrics.text().decode()
        assert others == []


async def test_a_passed_request_is_checked_as_every_other(server, monkeypatch):
    async with two(server, monkeypatch) as (first, _, far, others):
        for status, code, sent in (
            (421, "unknown_host", request(far, host="elsewhere")),
            (403, "foreign_origin", request(far, "origin: http://elsewhere")),
            (400, "bad_request", request(far, "x-api-key: a", "x-api-key: b")),
            (401, "unauthorized", request(far, token="b-secret-of-the-shop")),
            (422, "invalid", request(far, body=b'{"count": "x"}')),
            (404, "not_found", request(far, path="/nowhere")),
        ):
            found, headers, body = await first.ask(sent)
            assert (found, json.loads(body).get("code")) == (status, code), body
            assert "x-weakfeedback-owner" not in headers  # strangers need not know
            assert headers["x-content-type-options"] == "nosniff"
        first.gate._most = 0
        first.gate.under_way = 1
        assert (await first.ask(request(far)))[0] == 429
        first.gate.under_way -= 1
        assert others == []


async def test_a_passed_request_outlives_its_line_and_its_client(server, monkeypatch):
    async with two(server, monkeypatch) as (first, second, far, others):
        (line,) = first.gate.passing._lines.values()
        async with second.service.learners[far].lock:
            asked = asyncio.create_task(first.ask(request(far)))
            await until(lambda: line._waiting)
            line.transport.abort()
            status, headers, body = await asyncio.wait_for(asked, 20)
            assert (status, json.loads(body)["code"]) == (503, "moving")
            assert headers["retry-after"] == "1"
        assert others == []  # nobody knows whether it was carried out
        assert (await first.ask(request(far)))[0] == 200
        assert others == ["POST"]
        await until(lambda: not next(iter(first.gate.passing._lines.values())).is_left)
        (line,) = first.gate.passing._lines.values()
        async with second.service.learners[far].lock:
            asked = asyncio.create_task(first.ask(request(far)))
            await until(lambda: line._waiting)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        await until(lambda: not line._waiting and first.gate.under_way == 0)
        # who does not own it any more says so, and the request waits for the next owner
        with monkeypatch.context() as patched:
            for way in ("is_here", "is_coming"):
                patched.setattr(second.service.sharing, way, lambda name: False)
            asked = asyncio.create_task(first.ask(request(far)))
            await until(lambda: len(others) >= 2)
        assert (await asked)[0] == 200


@pytest.mark.parametrize("more", [["expect: 100-continue"], ["transfer-encoding: chunked"]])
async def test_what_is_not_short_goes_another_way(server, monkeypatch, more):
    async with two(server, monkeypatch) as (first, _, far, others):
        sent = request(far, *more)
        if "chunked" in more[0]:
            sent = sent.replace(b"content-length: 2\r\n", b"").replace(b"\r\n{}", b"\r\n2\r\n{}\r\n0\r\n\r\n")
        answers = await first.ask(sent, answers=1 if "chunked" in more[0] else 2)
        status = answers[0] if "chunked" in more[0] else answers[1][0]
        assert (status, others) == (200, ["POST"])
