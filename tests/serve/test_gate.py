"""Who may do what, and how much of it: tokens, hosts, origins, media types, sizes, numbers."""

import asyncio
import contextlib
import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rig.harness import CASCADE, Caller, quick, run, serving
from tests.rig.processes import PATIENCE, wait_until
from tests.rig.server import Process

from weakfeedback.serve import auth as auth_module
from weakfeedback.serve.api import OPERATIONS
from weakfeedback.serve.app import read_body
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.limits import BODY_LIMIT, HEADER_LIMIT
from weakfeedback.serve.models import Problem
from weakfeedback.serve.operations import registry

SECRETS = {scope: f"{scope}-token-0123456789" for scope in ("read", "use", "admin")}
ORDER = ["none", "read", "use", "admin"]
PLACE = "/v1/learners/t"


def guarded(**more: Any) -> Auth:
    return Auth([Token.of(scope, secret, scope) for scope, secret in SECRETS.items()], **more)


def bearer(scope: str) -> dict[str, str]:
    return {} if scope == "none" else {"authorization": f"Bearer {SECRETS[scope]}"}


async def test_every_route_with_every_scope(tmp_path, monkeypatch):
    monkeypatch.setattr(auth_module, "DELAY", 0.0)

    async with serving(tmp_path / "s.db", auth=guarded()) as (_, call):
        for operation in OPERATIONS:
            path = operation.path.replace("{name}", "nobody").replace("{id}", "1").replace("{audit}", "1")
            for scope in ORDER:
                given = {"content-type": "application/json", **bearer(scope)}
                client = ("10.0.0.1", 1)
                reply = await call.raw(operation.method, path, b"{}", given, client=client)
                enough = ORDER.index(scope) >= ORDER.index(operation.scope)
                if enough:
                    assert reply.status not in (401, 403), (operation.path, scope)
                elif scope == "none":
                    assert (reply.status, reply.data["code"]) == (401, "unauthorized")
                    assert reply.headers["www-authenticate"] == "Bearer"
                else:
                    assert (reply.status, reply.data["code"]) == (403, "forbidden")


def noted_waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that requests are made to wait for having failed; here nobody waits."""
    waits = list[float]()

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(auth_module, "asyncio", SimpleNamespace(sleep=sleep))
    return waits


async def test_wrong_tokens_tell_nothing_and_many_of_them_are_slow(tmp_path, monkeypatch):
    waits = noted_waits(monkeypatch)

    async with serving(tmp_path / "s.db", auth=guarded()) as (_, call):
        wrong = ["Bearer wrong", "Bearer ", "Basic x", SECRETS["admin"], f"Bearer {SECRETS['admin']}x"]
        replies = [await call("GET", "/v1/learners", authorization=text) for text in wrong]
        assert len({reply.body for reply in replies}) == 1
        for _ in range(5):
            await call("GET", "/v1/learners", authorization="Bearer wrong")
        assert waits == []
        await call("GET", "/v1/learners", authorization="Bearer wrong")
        assert waits == [auth_module.DELAY]
        assert (await call("GET", "/v1/learners", **bearer("read"))).status == 200
        assert waits == [auth_module.DELAY]


def test_a_cookie_stands_for_a_token_until_it_is_changed_or_old(monkeypatch):
    auth = guarded()
    assert auth.session("something else entirely") is None
    value = auth.session(SECRETS["use"])
    assert value is not None
    cookie = {b"cookie": f"other=1; weakfeedback={value}".encode()}
    assert auth.level(cookie) == 2
    assert auth.level({b"cookie": f"weakfeedback=3{value[1:]}".encode()}) is None
    assert guarded().level(cookie) is None  # of another process
    assert auth.level({b"cookie": b"weakfeedback="}) is None
    moment = time.time()
    monkeypatch.setattr(time, "time", lambda: moment + auth_module.SESSION + 1)
    assert auth.level(cookie) is None


async def test_hosts_origins_and_media_types(tmp_path):
    auth = Auth(hosts=["decide.internal"], origins=["https://page.example"])
    async with serving(tmp_path / "s.db", auth=auth) as (_, call):
        for host, status in (
            ("localhost", 200),
            ("localhost:8470", 200),
            ("127.0.0.1:1", 200),
            ("[::1]:8470", 200),
            ("DECIDE.internal", 200),
            ("evil.example", 421),
            ("", 421),
            ("localhost.evil.example", 421),
            ("127.0.0.1:x", 421),
        ):
            assert (await call("GET", "/health/live", host=host)).status == status, host
        for origin, status in (
            ("http://localhost", 201),
            ("https://page.example", 201),
            ("http://evil.example", 403),
            ("null", 403),
        ):
            reply = await call("PUT", PLACE + str(status) + origin[-4:-1].strip("./"), CASCADE, origin=origin)
            assert reply.status == status, (origin, reply.body)
            assert ("access-control-allow-origin" in reply.headers) == (origin == "https://page.example")
        asked = await call("OPTIONS", PLACE, origin="https://page.example")
        assert (asked.status, asked.headers["access-control-max-age"]) == (204, "600")
        assert (await call("OPTIONS", PLACE, origin="https://evil.example")).status == 405
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            reply = await call.raw("PUT", PLACE, b"{}", {"content-type": kind})
            assert (reply.status, reply.data["code"]) == (415, "unsupported_media_type")


async def test_every_answer_has_the_headers_that_protect_a_browser(tmp_path):
    async with serving(tmp_path / "s.db") as (_, call):
        for path in ("/health/live", "/nothing", PLACE):
            headers = (await call("GET", path, x_request_id="abc-1")).headers
            assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
            assert headers["x-request-id"] == "abc-1"
        odd = (await call("GET", "/health/live", x_request_id="a b\t<c>")).headers["x-request-id"]
        assert len(odd) == 16


async def test_limits_have_codes(tmp_path, monkeypatch):
    async with serving(tmp_path / "s.db") as (_, call):

        async def refused(method: str, path: str, data: Any = None, **headers: str) -> tuple[int, str]:
            reply = await call(method, path, data, **headers)
            return reply.status, reply.data["code"]

        await call("PUT", PLACE, CASCADE)
        big = await call.raw(
            "POST", PLACE + "/decide", b" " * (BODY_LIMIT + 1), {"content-type": "application/json"}
        )
        assert (big.status, big.data["code"]) == (413, "too_large")
        lied = {"content-type": "application/json", "content-length": "5"}
        big = await call.raw("POST", PLACE + "/decide", b" " * (BODY_LIMIT + 1), lied)
        assert (big.status, big.data["code"]) == (413, "too_large")
        assert await refused("GET", PLACE, x_much="y" * HEADER_LIMIT) == (431, "headers_too_large")
        stages = [f"s{n}" for n in range(65)]
        many = {**CASCADE, "stages": stages, "stage_costs": [1.0] * 65}
        assert await refused("PUT", "/v1/learners/many", many) == (422, "too_many_stages")
        assert await refused("POST", PLACE + "/decide", {"count": 1001}) == (422, "too_many_items")
        key = {"idempotency_key": "k" * 129}
        assert await refused("POST", PLACE + "/decide", {}, **key) == (422, "key_too_long")
        decided = (await call("POST", PLACE + "/decide", {})).data
        long = {"outputs": ["x" * 4097] * (decided["stage"] + 1)}
        assert await refused("POST", PLACE + "/decisions/1/feedback", long) == (422, "label_too_long")
        for name in ("Big", "a" * 65, "-a", "a.b", "é"):
            assert await refused("PUT", f"/v1/learners/{name}", CASCADE) == (422, "invalid")
        monkeypatch.setattr(registry, "LEARNERS_LIMIT", 1)
        assert await refused("PUT", "/v1/learners/second", CASCADE) == (409, "too_many_learners")


async def test_ten_thousand_may_be_pending_and_not_one_more(tmp_path):
    async with serving(tmp_path / "s.db", quick(durability="process")) as (_, call):
        await call("PUT", PLACE, CASCADE)
        for _ in range(10):
            assert (await call("POST", PLACE + "/decide", {"count": 1000})).status == 200
        reply = await call("POST", PLACE + "/decide", {})
        assert (reply.status, reply.data["code"]) == (429, "too_many_pending")
        assert reply.headers["retry-after"] == "1"
        page = (await call("GET", PLACE + "/decisions?limit=1000&after=9000")).data
        assert (len(page["decisions"]), page["next"]) == (1000, None)
        first = page["decisions"][0]
        sent = {"outputs": [1] * (first["stage"] + 1)}
        assert (await call("POST", f"{PLACE}/decisions/{first['id']}/feedback", sent)).status == 200
        assert (await call("POST", PLACE + "/decide", {"count": 2})).status == 429
        assert (await call("POST", PLACE + "/decide", {})).status == 200


async def test_too_many_requests_under_way(tmp_path):
    async with serving(tmp_path / "s.db", in_flight=3) as (service, call):
        await call("PUT", PLACE, CASCADE)
        async with service.learners["t"].lock:  # so that they wait
            waiting = [asyncio.ensure_future(call("POST", PLACE + "/decide", {})) for _ in range(3)]
            for _ in range(10):  # turns, in which they come to it
                await asyncio.sleep(0)
            assert (await call("GET", "/health/ready")).status == 200  # whoever watches must not be refused
            reply = await call("GET", PLACE)
            assert (reply.status, reply.data["code"]) == (429, "too_many_requests")
        assert [reply.status for reply in await asyncio.gather(*waiting)] == [200] * 3
        assert (await call("GET", PLACE)).status == 200


def test_slow_senders_and_endless_headers_are_refused_by_the_real_server(tmp_path):

    def sent(*parts: bytes) -> bytes:
        line = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
        with line, contextlib.suppress(ConnectionError):
            for part in parts:
                line.sendall(part)
            return line.recv(10_000)
        return b""

    with Process(tmp_path, "--patience", "1") as server:
        # again where this process is held up so long that it has said nothing in time
        slow = wait_until(lambda: sent(b"POST /v1/learners/t/decide HTTP/1.1\r\nhost: localhost\r\n"))
        assert slow.startswith(b"HTTP/1.1 408 ")
        assert b'"code": "slow_request"' in slow
        head = b"POST /v1/learners/t/decide HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{"
        assert wait_until(lambda: sent(head)).startswith(b"HTTP/1.1 408 ")
        assert server.stop() == 0
    with Process(tmp_path) as server:
        endless = sent(b"GET / HTTP/1.1\r\nhost: localhost\r\nx: ", *[b"y" * 10_000] * 8)
        assert endless.startswith(b"HTTP/1.1 431 ")
        assert sent(b"GET /health/live HTTP/1.1\r\nhost: localhost\r\n\r\n").startswith(b"HTTP/1.1 200")
        assert sent(b"\x16\x03\x01 nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")
        assert server.stop() == 0


async def test_nothing_of_users_is_in_problems(tmp_path):
    """Labels are personal: what is wrong with them is told without them."""
    async with serving(tmp_path / "s.db") as (_, call):
        await call("PUT", PLACE, {**CASCADE, "compare": {"type": "text"}})
        decided = (await call("POST", PLACE + "/decide", {})).data
        place = f"{PLACE}/decisions/{decided['id']}/feedback"
        for sent in (
            {"outputs": ["secret"] * 9},
            {"outputs": "secret"},
            {"outputs": [["secret"]] * (decided["stage"] + 1)},
            {"outputs": ["a"] * (decided["stage"] + 1), "label": "secret"},
            {"observed": {"secret": 1}},
            {"secret": 1},
            {"right": "secret"},
        ):
            reply = await Caller(call.app)("POST", place, sent)
            assert reply.status == 422
            if "secret" not in sent:
                assert b"secret" not in reply.body, reply.body


@pytest.mark.parametrize("parts", [[], [b"{"]], ids=["at once", "in the middle"])
async def test_a_body_that_never_came_is_not_an_empty_one(parts):
    messages: list[Any] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append({"type": "http.disconnect"})

    async def receive() -> Any:
        return messages.pop(0)

    with pytest.raises(Problem, match="ended before the body") as caught:
        await read_body(receive, {}, 100)
    assert caught.value.status == 400


def test_metrics_need_a_token_where_there_are_tokens(tmp_path, monkeypatch):
    """Also from 127.0.0.1, which is where a reverse proxy sits."""
    monkeypatch.setattr(auth_module, "DELAY", 0.0)

    async def play(auth: Auth | None, headers: dict[str, str]) -> int:
        async with serving(tmp_path / "s.db", auth=auth) as (_, call):
            return (await call.raw("GET", "/metrics", None, headers)).status

    assert run(play(guarded(), {})) == 401
    assert run(play(guarded(), bearer("read"))) == 200
    assert run(play(guarded(open_metrics=True), {})) == 200
    assert run(play(None, {})) == 200


async def test_strangers_behind_a_reverse_proxy_are_not_one(tmp_path, monkeypatch):
    waits = noted_waits(monkeypatch)

    async with serving(tmp_path / "s.db", auth=guarded()) as (_, call):

        async def is_delayed(forwarded: str | None, client: str = "127.0.0.1") -> bool:
            headers = {"authorization": "Bearer wrong"}
            if forwarded is not None:
                headers["x-forwarded-for"] = forwarded
            waits.clear()
            assert (await call.raw("GET", "/v1/learners", None, headers, client=(client, 1))).status == 401
            return waits == [auth_module.DELAY]

        for k in range(10):  # what a stranger writes there himself stands before the proxy's entry
            await is_delayed(f"10.0.0.{k}, 203.0.113.7")
        assert await is_delayed("1.2.3.4, 203.0.113.7")
        assert not await is_delayed("203.0.113.8")
        assert not await is_delayed(None)
        for k in range(10):  # only the proxy of this machine is believed
            await is_delayed(f"203.0.113.{k}", "10.9.9.9")
        assert await is_delayed("203.0.113.77", "10.9.9.9")


@pytest.mark.parametrize("name", ["host", "authorization"])
async def test_doubled_headers_are_refused(tmp_path, name):
    async with serving(tmp_path / "s.db", auth=guarded()) as (_, call):
        given = {"host": "localhost", **bearer("read")}
        for first in ("evil.example", given[name]):
            pairs = [(name, first), *given.items()]
            headers = [(key.encode(), value.encode()) for key, value in pairs]
            for path in ("/v1/learners", "/", "/v1/models"):
                reply = await _with(call, path, headers)
                assert reply.status == 400
                assert "one header" in reply.body.decode()


async def _with(call: Caller, path: str, headers: list[tuple[bytes, bytes]]) -> Any:
    """Send a request with just these headers, in this order."""
    app = call.app

    async def doubled(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "headers": headers}, receive, send)

    return await Caller(doubled).raw("GET", path)
