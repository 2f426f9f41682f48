"""Connections: those that say nothing are closed, there are fewer than descriptors, and who fails takes no place."""

import asyncio
import contextlib
import socket
import sys
import time
from types import SimpleNamespace

import pytest
from tests.rig.harness import CASCADE, quick, serving
from tests.rig.processes import PATIENCE, until, wait_until
from tests.rig.server import Client, Process

from weakfeedback.serve import auth as auth_module
from weakfeedback.serve import server as server_module
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.limits import CONNECTIONS_LIMIT, is_name
from weakfeedback.serve.page.routes import templates
from weakfeedback.serve.server import Config, HttpServer, Patient, room_for


def is_closed(one: socket.socket) -> bool:
    """Whether the other side has closed a connection; what it said last is dropped."""
    try:
        return one.recv(4096, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of descriptors there")
def test_silent_connections_take_nothing_from_others(tmp_path):
    """300 of them against 256 descriptors: all others got resets, and they were never closed."""
    with contextlib.ExitStack() as ends, Process(tmp_path, descriptors=256) as server:
        silent = []
        for n in range(300):
            silent.append(ends.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE)))
            if n % 50 == 49:
                call = Client(server.port)  # a new connection each time
                assert call("PUT", "/v1/learners/t", CASCADE)[0] in (200, 201)
                assert call("POST", "/v1/learners/t/decide", {})[0] == 200
                call.close()
        wait_until(lambda: sum(map(is_closed, silent)) >= 140)  # the oldest made room
        call = Client(server.port)
        assert call("GET", "/v1/learners/t")[1]["pending"] == 6
        call.close()
    assert "connections, and at most 160 are allowed" in (tmp_path / "errors").read_text()


def test_connections_that_say_nothing_are_closed(tmp_path):
    with contextlib.ExitStack() as ends, Process(tmp_path, "--patience", "1") as server:
        where = ("127.0.0.1", server.port)
        silent = [ends.enter_context(socket.create_connection(where, PATIENCE)) for _ in range(20)]
        wait_until(lambda: all(map(is_closed, silent)))
        assert server.stop() == 0
    told = (tmp_path / "errors").read_text()
    assert "that had said nothing for 1 seconds" in told
    assert len(told.splitlines()) == 1  # once a minute


@pytest.mark.parametrize(
    ("later", "answer"), [(600.0, b"200 OK"), (1001.0, b"408 The request took too long")]
)
async def test_a_request_after_a_silence_has_its_whole_time(tmp_path, monkeypatch, later, answer):
    clock = SimpleNamespace(passed=0.0, monotonic=lambda: time.monotonic() + clock.passed)
    monkeypatch.setattr(server_module, "time", clock)

    async with serving(tmp_path / "s.db") as (service, call):
        config = Config(call.app, http=Patient, port=0, lifespan="off", log_config=None, ws="none")
        server = HttpServer(config, service, patience=1000.0)
        task = asyncio.ensure_future(server._serve())
        await until(lambda: server.started)
        where = server.servers[0].sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(*where)
        await until(lambda: server.server_state.connections)
        (connection,) = server.server_state.connections
        clock.passed += 600.0
        writer.write(b"GET /health/live HTTP/1.1\r\n")
        await until(lambda: not connection.is_silent)
        clock.passed += later  # more than the patience since the connection was made
        await server.on_tick(0)
        writer.write(b"Host: localhost\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 " + answer)
        writer.close()
        server.should_exit = True
        await task


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of descriptors there")
@pytest.mark.parametrize(
    ("soft", "hard", "most", "backlog"),
    [
        (256, 256, 160, 32),
        (1024, 1024, 832, 128),
        (1024, 1_048_576, CONNECTIONS_LIMIT, 1514),
        (1024, -1, CONNECTIONS_LIMIT, 1514),
        (-1, -1, CONNECTIONS_LIMIT, 1514),
        (16, 16, 6, 2),
    ],
)
def test_there_are_fewer_connections_than_descriptors(monkeypatch, soft, hard, most, backlog):
    import resource

    raised = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits[0]))
    for proxy in (False, True):
        found, waiting = room_for(proxy)
        have = max(raised[-1:] or [soft])
        assert found >= 1
        assert waiting >= 1
        assert have < 0 or found + waiting < have
    assert room_for(False) == (most, backlog)


async def test_who_waits_for_having_failed_takes_no_place(tmp_path, monkeypatch):
    """600 strangers with a wrong token filled the 500 places."""
    monkeypatch.setattr(auth_module, "WAITING", 40)
    auth = Auth([Token.of("t", "a-right-token-0123456789", "admin")])
    right = {"authorization": "Bearer a-right-token-0123456789"}

    async with serving(tmp_path / "s.db", quick(), auth, in_flight=20) as (_, call):
        for _ in range(auth_module.FAILURES):
            assert (await call("GET", "/v1/learners", authorization="Bearer wrong")).status == 401
        strangers = [
            asyncio.ensure_future(call("GET", "/v1/learners", authorization="Bearer wrong"))
            for _ in range(60)
        ]
        await until(lambda: sum(one.done() for one in strangers) >= 20)
        for _ in range(20):
            assert (await call("GET", "/v1/learners", **right)).status == 200
        statuses = [reply.status for reply in await asyncio.gather(*strangers)]
        assert statuses.count(401) == 40  # the others are not made to wait
        assert statuses.count(429) == 20


@pytest.mark.parametrize("name", ["abc%0A", "abc\n", "abc%0a%0a"])
async def test_a_name_ends_where_it_ends(tmp_path, name):
    from urllib.parse import unquote

    assert not is_name(unquote(name))

    async with serving(tmp_path / "s.db") as (service, call):
        reply = await call("PUT", f"/v1/learners/{unquote(name)}", CASCADE)
        assert reply.status == 422
        assert not service.learners


def test_names_of_an_old_store_are_shown_without_what_hides_or_turns_others():
    shown = templates().from_string("{{ name }}").render(name="<a\u202e\x1b[31mb>")
    assert shown == "&lt;a\\u202e\\x1b[31mb&gt;"


@pytest.mark.parametrize("text", ["a\u202eb", "\x1b[31mred", "a\nb", "\u2066x", "\ue000"])
async def test_names_that_hide_or_turn_others_are_refused(tmp_path, text):
    async with serving(tmp_path / "s.db") as (_, call):
        for config in ({**CASCADE, "stages": ["a", text, "c"]}, {**CASCADE, "currency": text}):
            reply = await call("PUT", "/v1/learners/t", config)
            assert (reply.status, "printable" in reply.data["detail"]) == (422, True)
