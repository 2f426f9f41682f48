"""What cannot be said with a proper client: requests hidden in others, odd paths, and tokens that are almost right."""

import contextlib
import socket
from collections.abc import Iterator

import pytest
from tests.rig.harness import serving
from tests.rig.processes import PATIENCE
from tests.rig.server import Process

from weakfeedback.serve.auth import Auth, Token

SECRET = "a-right-token-0123456789"
HEAD = b"POST /v1/learners/t/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
HIDDEN = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nX-Hidden: 1\r\n\r\n"
SMUGGLED = {
    "length and chunks": HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two codings": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "an unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a coding after a tab": HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "a blank before the colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 2\r\nContent-Length: 0\r\n\r\n{}",
    "a list of lengths": HEAD + b"Content-Length: 2, 0\r\n\r\n{}",
    "a signed length": HEAD + b"Content-Length: +2\r\n\r\n{}",
    "a negative length": HEAD + b"Content-Length: -2\r\n\r\n{}",
    "a hexadecimal length": HEAD + b"Content-Length: 0x2\r\n\r\n{}",
    "a folded header": HEAD + b"X-A: 1\r\n Content-Length: 2\r\n\r\n",
    "a NUL in a header": HEAD + b"X-A: 1\x002\r\nContent-Length: 0\r\n\r\n",
    "a bare return": HEAD + b"X-A: 1\rContent-Length: 0\r\n\r\n",
    "a chunk of no size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "a negative chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n",
    "a huge chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 20 + b"\r\n{}\r\n0\r\n\r\n",
    "a chunk that goes on": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}XX\r\n0\r\n\r\n",
    "a protocol to come": HEAD.replace(b"1.1", b"9.9") + b"\r\n",
}
ODD_PATHS = [
    *(
        "/../etc/passwd",
        "/static/../../models.py",
        "/static/%2e%2e/%2e%2e/models.py",
        "/static/..%2f..%2fmodels.py",
    ),
    *(
        "/static//etc/passwd",
        "/static/%00",
        "/static/page.js%00.css",
        "/static/..\\..\\models.py",
        "/static/",
    ),
    *("//evil.example/", "/%2f%2fevil.example", "/\\evil.example", "/v1/learners/..%2f..%2fmetrics"),
    *("/v1/learners/%2e%2e", "/v1//learners", "/V1/learners", "/v1/learners/t;x=1", "/v1/learners/t%20"),
    *("/v1/learners/%c0%ae", "/v1/learners/%", "/v1/learners/t%0d%0aSet-Cookie:x=1"),
]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with Process(tmp_path_factory.mktemp("wire")) as server:
        yield server.port


def exchanged(port: int, sent: bytes) -> bytes:
    """Everything that comes back until the server closes, which it must."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        connection.sendall(sent)
        found = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := connection.recv(65536):
                found += piece
        return found


@pytest.mark.parametrize("kind", SMUGGLED)
def test_what_can_be_read_in_two_ways_is_refused_and_the_connection_closed(port, kind):
    found = exchanged(port, SMUGGLED[kind] + HIDDEN)
    assert found.count(b"HTTP/1.1 ") == 1  # nothing that follows is answered
    assert found.startswith(b"HTTP/1.1 400 ")
    assert exchanged(port, HIDDEN.replace(b"X-Hidden: 1", b"Connection: close")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", ODD_PATHS)
def test_odd_paths_lead_nowhere(port, path):
    found = exchanged(port, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = found.partition(b"\r\n\r\n")
    assert found[9:12] in (b"400", b"404", b"405", b"422") or b"\r\nlocation: /\r\n" in head + b"\r\n", found[
        :300
    ]
    assert b"set-cookie" not in head.lower()
    assert b"root:" not in body
    assert b"import " not in body


async def test_a_token_that_is_almost_right_opens_nothing(tmp_path):
    other = "another-token-0123456789"
    wrong = [
        *("", "Bearer", "Bearer ", f"Bearer {SECRET[:-1]}", f"Bearer {SECRET}x", f"Bearer {SECRET.upper()}"),
        *(
            f"Bearer  {SECRET} x",
            f"Bearer {SECRET},",
            f'Bearer "{SECRET}"',
            f"Bearer {SECRET}\0",
            f"Token {SECRET}",
        ),
        *(
            SECRET,
            f"Basic {SECRET}",
            f"Bearer={SECRET}",
            f"Bearer\t{SECRET}\t{other}",
            f"Bearer {SECRET} {other}",
        ),
        *(
            "Bearer null",
            "Bearer undefined",
            "Bearer é",
            "Bearer *",
            f"Bearer {SECRET[::-1]}",
            "Bearer " + "a" * 60_000,
        ),
    ]

    async with serving(tmp_path / "s.db", auth=Auth([Token.of("t", SECRET, "admin")])) as (_, call):
        for n, text in enumerate(wrong):
            told = await call.raw(
                "GET", "/v1/learners", headers={"authorization": text}, client=(f"10.0.0.{n}", 1)
            )
            assert told.status == 401, text[:80]
        for n, place in enumerate(("token", "access_token", "authorization")):
            path = f"/v1/learners?{place}={SECRET}"
            assert (await call.raw("GET", path, client=(f"10.0.1.{n}", 1))).status == 401
        right = {"authorization": f"Bearer {SECRET}"}
        assert (await call.raw("GET", "/v1/learners", headers=right)).status == 200
