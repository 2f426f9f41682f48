"""Lines between instances: frames in pieces, answers in any order, who leaves, who refuses, who ends."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.rig.processes import until

from weakfeedback.serve.line import FRAME, LARGEST, AnsweringLine, AskingLine, Frames, NoLine, pairs_of

LIKE = {
    "type": "http",
    "asgi": {},
    "server": None,
    "client": ("127.0.0.1", 1),
    "scheme": "http",
    "root_path": "",
}


class Wire:
    """A transport that keeps what is written."""

    def __init__(self):
        self.written, self.is_over = b"", False

    def write(self, data):
        self.written += data

    def abort(self):
        self.is_over = True

    def is_closing(self):
        return self.is_over


class Noted(Frames):
    def __init__(self):
        super().__init__()
        self.found = []
        self.connection_made(Wire())

    def taken(self, *frame):
        self.found.append(frame)


async def test_frames_arrive_whole_however_they_are_cut():
    one = Noted()
    sent = [(1, 200, [b"a", b"b: c"], b"\n\x00" * 40), (2, 0, [b""], b""), (7, 503, [b"x" * 300], b"{}")]
    for frame in sent:
        one.put(*frame)
    await asyncio.sleep(0)
    written = one.transport.written
    for size in (1, 7, 64, len(written)):
        other = Noted()
        for place in range(0, len(written), size):
            other.data_received(written[place : place + size])
        assert other.found == sent
    other.data_received(FRAME.pack(LARGEST, 1, 1, 0))
    assert other.transport.is_over


async def answer(scope, receive, send):
    """Answer with what was given, or never."""
    body = (await receive())["body"]
    if scope["path"] == "/never":
        await asyncio.Event().wait()
    if scope["path"] == "/fault":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise ValueError("a fault")
    told = dict(scope["headers"])[b"told"]
    assert scope["weakfeedback.passed"] is True
    assert scope["query_string"] == b"q=1"
    await send({"type": "http.response.start", "status": 201, "headers": [(b"told", told)]})
    await send({"type": "http.response.body", "body": body[:1], "more_body": True})
    await send({"type": "http.response.body", "body": body[1:]})


@asynccontextmanager
async def between(app):
    """A line to an application, and its other end; who asks for the line is not looked at."""
    lines, tasks = set(), set()

    class Door(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport

        def data_received(self, data):
            assert b"upgrade: weakfeedback-line\r\nsecret: s\r\n\r\n" in data
            AnsweringLine(lambda *_: False, app, tasks, LIKE, lines).connection_made(self.transport)

    server = await asyncio.get_running_loop().create_server(Door, "127.0.0.1", 0)
    try:
        line = await AskingLine.make(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", b"secret: s")
        yield line, lines
    finally:
        line.transport.abort()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def asked_of(line, head, body=b""):
    """The answer of a line, None if it ends."""
    future = asyncio.get_running_loop().create_future()
    line.ask(head, body, future.set_result)
    return future


async def test_answers_come_in_any_order_and_who_leaves_answers_what_was_asked():
    late = asyncio.Event()

    async def in_time(scope, receive, send):
        if scope["path"] == "/late":
            await late.wait()
        await answer(scope, receive, send)

    async with between(in_time) as (line, lines):
        paths = (b"/late", b"/soon", b"/now")
        asked = [asked_of(line, [path, b"q=1", b"told", path], b"body" + path) for path in paths]
        await asyncio.wait(asked[1:])
        assert not asked[0].done()
        (other,) = lines
        other.leave()
        late.set()
        for path, future in zip(paths, asked):
            status, flat, body = await future
            assert (status, body) == (201, b"body" + path)
            assert pairs_of(flat) == [(b"told", path), (b"content-length", b"%d" % len(body))]
        assert line.is_left
        await until(lambda: not lines)  # the line is closed once all is answered


async def test_a_request_that_fails_halfway_is_answered(caplog):
    async with between(answer) as (line, _):
        assert await asked_of(line, [b"/fault", b""]) == (500, [b"content-length", b"0"], b"")
    assert "ValueError: a fault" in caplog.text


async def test_who_waits_is_told_that_the_line_has_ended():
    async with between(answer) as (line, lines):
        asked = asked_of(line, [b"/never", b""])
        await until(lambda: lines)
        (other,) = lines
        other.transport.abort()
        assert await asked is None
        assert line.is_left


async def test_who_makes_no_lines_refuses_and_nobody_is_not_reached():
    async def plain(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(plain, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(NoLine):
        await AskingLine.make(address, b"a: b")
    server.close()
    await server.wait_closed()
    with pytest.raises(OSError) as found:
        await AskingLine.make(address, b"a: b")
    assert not isinstance(found.value, NoLine)
