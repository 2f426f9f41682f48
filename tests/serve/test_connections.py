"""Connections: those that say nothing are closed, there are fewer than descriptors, and who fails takes no place."""

import asyncio
import contextlib
import socket
import sys
import time
from pathlib import Path

import pytest
from tests.rig.harness import CASCADE, quick, serving
from tests.rig.server import Client, Process, patiently

from weakfeedback.serve import auth as auth_module
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.limits import CONNECTIONS_LIMIT, is_name
from weakfeedback.serve.page.routes import templates
from weakfeedback.serve.server import room_for


def is_closed(one: socket.socket) -> bool:
    """Whether the other side has closed a connection; what it said last is dropped."""
    try:
        return one.recv(4096, socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


@pytest.mark.skipif(sys.platform == "win32", reason="no limit of descriptors there")
def test_silent_connections_take_nothing_from_others(tmp_path: Path) -> None:
    """300 of them against 256 descriptors: all others got resets, and they were never closed."""
    with contextlib.ExitStack() as ends, Process(tmp_path, descriptors=256) as server:
        silent = []
        for n in range(300):
            silent.append(ends.enter_context(socket.create_connection(("127.0.0.1", server.port), 10)))
            if n % 50 == 49:
                call = Client(server.port)  # a new connection each time
                assert call("PUT", "/v1/learners/t", CASCADE)[0] in (200, 201)
                assert call("POST", "/v1/learners/t/decide", {})[0] == 200
                call.close()
        patiently(lambda: sum(map(is_closed, silent)) >= 140, 20)  # the oldest made room
        call = Client(server.port)
        assert call("GET", "/v1/learners/t")[1]["pending"] == 6
        call.close()
    assert "connections, and at most 160 are allowed" in (tmp_path / "errors").read_text()


def test_connections_that_say_nothing_are_closed(tmp_path: Path) -> None:
    with contextlib.ExitStack() as ends, Process(tmp_path, "--patience", "1") as server:
        where = ("127.0.0.1", server.port)
        silent = [ends.enter_context(socket.create_connection(where, 10)) for _ in range(20)]
        patiently(lambda: all(map(is_closed, silent)), 20)
        assert server.stop() == 0
    told = (tmp_path / "errors").read_text()
    assert "that had said nothing for 1 seconds" in told
    assert len(told.splitlines()) == 1  # once a minute


def test_a_request_after_a_silence_has_its_whole_time(tmp_path: Path) -> None:
    with contextlib.ExitStack() as ends:
        server = ends.enter_context(Process(tmp_path, "--patience", "3"))
        one = ends.enter_context(socket.create_connection(("127.0.0.1", server.port), 10))
        time.sleep(1.5)
        one.sendall(b"GET /health/live HTTP/1.1\r\n")
        time.sleep(2.0)  # more than the patience since the connection was made
        one.sendall(b"Host: localhost\r\n\r\n")
        assert one.recv(100).startswith(b"HTTP/1.1 200")


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
def test_there_are_fewer_connections_than_descriptors(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, most: int, backlog: int
) -> None:
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


async def test_who_waits_for_having_failed_takes_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        await asyncio.sleep(0.1)
        for _ in range(20):
            assert (await call("GET", "/v1/learners", **right)).status == 200
        statuses = [reply.status for reply in await asyncio.gather(*strangers)]
        assert statuses.count(401) == 40  # the others are not made to wait
        assert statuses.count(429) == 20


@pytest.mark.parametrize("name", ["abc%0A", "abc\n", "abc%0a%0a"])
async def test_a_name_ends_where_it_ends(tmp_path: Path, name: str) -> None:
    from urllib.parse import unquote

    assert not is_name(unquote(name))

    async with serving(tmp_path / "s.db") as (service, call):
        reply = await call("PUT", f"/v1/learners/{unquote(name)}", CASCADE)
        assert reply.status == 422
        assert not service.learners


def test_names_of_an_old_store_are_shown_without_what_hides_or_turns_others() -> None:
    shown = templates().from_string("{{ name }}").render(name="<a\u202e\x1b[31mb>")
    assert shown == "&lt;a\\u202e\\x1b[31mb&gt;"


@pytest.mark.parametrize("text", ["a\u202eb", "\x1b[31mred", "a\nb", "\u2066x", "\ue000"])
async def test_names_that_hide_or_turn_others_are_refused(tmp_path: Path, text: str) -> None:
    async with serving(tmp_path / "s.db") as (_, call):
        for config in ({**CASCADE, "stages": ["a", text, "c"]}, {**CASCADE, "currency": text}):
            reply = await call("PUT", "/v1/learners/t", config)
            assert (reply.status, "printable" in reply.data["detail"]) == (422, True)
