"""Short requests are answered without a detour: as all others are, in order, and nobody can fill the memory."""

import asyncio
import contextlib
import gc
import json
import re
import socket

from tests.rig.harness import CASCADE, quick, serving
from tests.rig.processes import PATIENCE, until

from weakfeedback.serve.app import Gate
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.server import Config, HttpServer, Patient

TOKEN = "a-secret-of-sixteen"
OWN = (b"date", b"x-request-id")  # headers that differ from request to request


@contextlib.asynccontextmanager
async def listening(path, auth=None, root_path=""):
    """A service that listens, and its port."""
    async with serving(path, quick(), auth, root_path=root_path) as (service, call):
        config = Config(call.app, http=Patient, port=0, lifespan="off", log_config=None, ws="none")
        config.gate = call.app.state.gate
        server = HttpServer(config, service)
        task = asyncio.ensure_future(server._serve())
        await until(lambda: server.started)
        try:
            yield service, server, server.servers[0].sockets[0].getsockname()[1]
        finally:
            server.should_exit = True
            await task


def request(path, body=b"{}", *headers, chunked=False, kind="application/json", host="localhost"):
    """The bytes of a POST."""
    lines = [f"POST {path} HTTP/1.1", f"host: {host}", f"content-type: {kind}", *headers]
    if chunked:
        lines.append("transfer-encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    else:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join((*lines, "\r\n")).encode() + body


async def answer_of(reader):
    """The next answer: its first line, headers and body."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
    first, *lines = head[:-4].split(b"\r\n")
    headers = dict(line.split(b": ", 1) for line in lines)
    return first, headers, await reader.readexactly(int(headers[b"content-length"]))


async def test_short_requests_are_answered_as_all_others(tmp_path, monkeypatch):
    """The same with a length and in chunks, which no shortcut takes: but for ids and times not a byte differs."""
    taken = []
    answer = Gate.answer_short

    def noting(*arguments):
        taken.append(answer(*arguments))
        return taken[-1]

    monkeypatch.setattr(Gate, "answer_short", noting)
    tokens = [Token.of("admin", TOKEN, "admin"), Token.of("reader", "another-secret-of-it", "read")]
    auth, mine = Auth(tokens, origins=["http://page"]), f"authorization: Bearer {TOKEN}"
    async with listening(tmp_path / "s.db", auth, "/below") as (service, _, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        put = request("/v1/learners/t", json.dumps(CASCADE).encode(), mine).replace(b"POST", b"PUT", 1)
        writer.write(put)
        assert (await answer_of(reader))[0] == b"HTTP/1.1 201 Created"
        decide, feedback = "/v1/learners/t/decide", "/v1/learners/t/decisions/{}/feedback"
        seen = []
        for shortcut, asked in (
            (True, (decide, b"{}", mine)),
            (True, (decide, b"", mine)),
            (True, ("/below" + decide, b"{}", mine)),
            (True, (decide, b'{"count": 3}', mine, "idempotency-key: {}")),
            (True, (feedback, b'{"outputs": [1]}', mine)),
            (True, (feedback, b'{"outputs": 1}', mine)),
            (True, (feedback.format(10**9), b'{"outputs": [1]}', mine)),
            (True, (feedback.format("x"), b'{"outputs": [1]}', mine)),
            (True, (decide, b"{", mine)),
            (True, (decide, b'{"contexts": [', mine)),
            (True, (decide, b"[" * 5000, mine)),
            (True, (decide, b"{}", mine, "origin: http://page")),
            (True, (decide, b"{}", mine, "origin: http://elsewhere")),
            (True, (decide, b"{}", mine, mine)),
            (True, (decide, b"{}", mine, "traceparent: 00-" + 32 * "a" + "-" + 16 * "b" + "-01")),
            (True, (decide, b"{}", mine, "x-weakfeedback-passed: x")),
            (True, (decide, b"{}")),
            (True, (decide, b"{}", "authorization: Bearer another-secret-of-it")),
            (True, ("/v1/learners/u/decide", b"{}", mine)),
            (False, ("/v1/learners/t/nowhere", b"{}", mine)),
            (False, ("/v1/learners/t", b"{}", mine)),
            (False, ("/nowhere", b"{}", mine)),
        ):
            path, body, *headers = asked
            found = []
            for chunked in (False, True):
                taken.clear()
                made = (await service.decide("t"))["id"]  # to be answered
                sent = [line.format(f"k{len(seen)}{chunked}") for line in headers]
                writer.write(request(path.format(made), body, *sent, chunked=chunked))
                first, told, text = await answer_of(reader)
                assert taken == ([] if chunked else [shortcut])
                plain = re.sub(rb'"(detail|digest)":"[^"]*"|\d+', b"", text) if b" 200 " not in first else b""
                for name in (*OWN, b"content-length"):
                    told.pop(name, None)
                found.append((first, told, plain, sorted(json.loads(text))))
            assert found[0] == found[1], asked
            seen.append(found[0][0])
        assert len(set(seen)) >= 6  # they really fail in different ways
        for kind, host in (("text/plain", "localhost"), ("application/json", "elsewhere")):
            both = []
            for chunked in (False, True):
                writer.write(request(decide, b"{}", mine, chunked=chunked, kind=kind, host=host))
                both.append((await answer_of(reader))[::2])
            assert both[0] == both[1]
            assert b" 200 " not in both[0][0]
        writer.close()


async def test_requests_leave_no_garbage_in_cycles(tmp_path):
    """Searches for garbage cost as much as it leaves: a cycle of one object for each request was 6 % of its time."""
    async with listening(tmp_path / "s.db") as (_, _, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/v1/learners/t", json.dumps(CASCADE).encode()).replace(b"POST", b"PUT", 1))
        await answer_of(reader)

        async def play(count, path, body, chunked):
            for _ in range(count):
                writer.write(request(f"/v1/learners/{path}", body, chunked=chunked))
                await answer_of(reader)

        again, unknown = (f"t/decisions/{id}/feedback" for id in (1, 10**9))
        gc.disable()
        try:
            for path in ("t/decide", again, unknown, "none/decide", "t/nowhere"):
                for chunked in (False, True):
                    body = b'{"outputs": [1]}' if path == again else b"{}"
                    await play(40, path, body, chunked)
                    gc.collect()
                    await play(100, path, body, chunked)
                    assert gc.collect() < 50, (path, chunked)
        finally:
            gc.enable()
        writer.close()


async def test_many_requests_at_once_are_answered_in_order(tmp_path):
    """Those that fail are answered before the next one is read: a thousand of them are no thousand calls deep."""
    async with listening(tmp_path / "s.db") as (_, _, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/v1/learners/t", json.dumps(CASCADE).encode()).replace(b"POST", b"PUT", 1))
        await answer_of(reader)
        paths = [f"/v1/learners/{'t' if k % 100 == 0 else f'none{k}'}/decide" for k in range(1500)]
        writer.write(b"".join(map(request, paths)))
        for k, path in enumerate(paths):
            first, _, text = await answer_of(reader)
            if "none" in path:
                assert first.startswith(b"HTTP/1.1 404 ")
                assert f"none{k}".encode() in text
            else:
                assert json.loads(text)["id"] == 1 + k // 100
        writer.write(request("/v1/learners/t/decide", b"{}", "connection: close"))
        assert (await answer_of(reader))[1][b"connection"] == b"close"
        assert await reader.read() == b""
        writer.close()


async def test_who_reads_no_answers_gets_no_more_of_them(tmp_path):
    async with listening(tmp_path / "s.db") as (_, server, port):
        loop = asyncio.get_running_loop()
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.setblocking(False)
            await until(lambda: server.server_state.connections)
            (connection,) = server.server_state.connections
            connection.transport.set_write_buffer_limits(high=2**12)
            sending = loop.create_task(
                loop.sock_sendall(client, request("/v1/learners/none/decide") * 200_000)
            )
            await until(lambda: connection.flow.write_paused)
            before = server.server_state.total_requests
            await asyncio.sleep(0.2)
            assert server.server_state.total_requests <= before + 1  # the one that waits
            assert connection.transport.get_write_buffer_size() < 2**14
            assert not sending.done()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def test_a_decision_whose_client_has_left_stands(tmp_path):
    async with listening(tmp_path / "s.db") as (service, server, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("/v1/learners/t", json.dumps(CASCADE).encode()).replace(b"POST", b"PUT", 1))
        await answer_of(reader)
        async with service.learners["t"].lock:
            writer.write(request("/v1/learners/t/decide"))
            await until(lambda: server.server_state.tasks)
            writer.close()
            await until(lambda: not server.server_state.connections)
        await until(lambda: not server.server_state.tasks)
        assert (await service.info("t"))["pending"] == 1
