"""Tokens: several, with an end and limits, read anew while the service runs; who used what."""

import asyncio
import os
import re
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.harness import CASCADE, Caller, serving
from tests.rig.processes import until, wait_until
from tests.rig.server import Client, Process
from tests.rig.upstreams import MODELS
from tests.serve.proxy.test_service import chatting
from tests.serve.test_sharing import Fresh

from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.config import ConfigError, Settings, read_settings
from weakfeedback.serve.invoice import add_paid
from weakfeedback.serve.models import Problem
from weakfeedback.serve.page.routes import page_of
from weakfeedback.serve.server import serve
from weakfeedback.serve.service import Options, Service
from weakfeedback.serve.usage import DAY, Accounts, Usage

FILE = """
[[server.token]]
name = "shop"
file = "shop"
expires = 2027-01-31
per_minute = 600
per_day = 20
[[server.token]]
name = "people"
file = "people"
scope = "admin"
expires = 2026-01-31T18:00:00+01:00
"""
SHOP, PEOPLE = "the token of the shop", "the token of people"


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def test_ends_and_limits_are_in_the_file(tmp_path):
    (tmp_path / "shop").write_text(SHOP)
    (tmp_path / "people").write_text(PEOPLE)
    (tmp_path / "w.toml").write_text(FILE)
    shop, people = read_settings(tmp_path / "w.toml").tokens
    assert (shop.per_minute, shop.per_day, shop.expires) == (600, 20.0, 1801353600.0)
    assert (people.per_minute, people.per_day, people.expires) == (None, None, 1769878800.0)
    for old, new, words in (
        ("600", "0", r"token\[0\].per_minute must be an integer from 1 to 1000000, got 0"),
        ("per_day = 20", "per_day = -1", r"token\[0\].per_day must be a number > 0, got -1"),
        ("2027-01-31", '"soon"', r"token\[0\].expires must be a date or a time, such as"),
    ):
        (tmp_path / "w.toml").write_text(FILE.replace(old, new, 1))
        with pytest.raises(ConfigError, match=words):
            read_settings(tmp_path / "w.toml")


def test_requests_of_a_minute_come_back_evenly():
    now = [1000.0]
    usage = Usage(lambda: now[0])
    for _ in range(6):
        usage.ask("shop", 6, None)
    with pytest.raises(Problem, match="6 requests a minute") as caught:
        usage.ask("shop", 6, None)
    assert (caught.value.status, caught.value.headers["retry-after"]) == (429, "10")
    now[0] += 9.0
    with pytest.raises(Problem) as caught:
        usage.ask("shop", 6, None)
    assert caught.value.headers["retry-after"] == "1"
    now[0] += 1.0
    usage.ask("shop", 6, None)
    now[0] -= 500.0  # a clock that was set back gives nothing
    with pytest.raises(Problem):
        usage.ask("shop", 6, None)
    usage.ask("another", 6, None)
    now[0] += 10_000.0
    for _ in range(6):  # no more than a minute's are saved up
        usage.ask("shop", 6, None)
    with pytest.raises(Problem):
        usage.ask("shop", 6, None)
    assert (usage.of("shop").requests, usage.of("shop").refused) == (13, 4)


def test_money_of_a_day_comes_back_at_midnight():
    now = [10 * DAY + 100.0]
    usage, paid = Usage(lambda: now[0]), {}
    usage.accounts = SimpleNamespace(all=lambda: [paid, {}], owed={})  # type: ignore[assignment]

    def spend(amount: float) -> None:
        add_paid(paid, {"token": "shop", "judge": amount}, int(1e6 * now[0]))

    usage.ask("shop", None, 1.0)
    spend(0.99)
    add_paid(paid, {"judge": 7.0}, int(1e6 * now[0]))  # of nobody
    usage.ask("shop", None, 1.0)
    spend(0.5)
    with pytest.raises(Problem, match=r"1\.49 of 1") as caught:
        usage.ask("shop", None, 1.0)
    assert caught.value.headers["retry-after"] == str(DAY - 100)
    usage.ask("shop", None, None)  # what spends nothing
    now[0] = 11.0 * DAY
    usage.ask("shop", None, 1.0)
    assert usage.money("shop") == (0.0, 1.49)
    spend(0.25)
    assert usage.money("shop") == (0.25, 1.74)


async def test_an_expired_token_is_named_and_its_cookie_ends(tmp_path):
    auth = Auth(
        [Token.of("shop", SHOP, "admin", expires=time.time() + 3600), Token.of("people", PEOPLE, "read")]
    )

    async with serving(tmp_path / "s.db") as (service, _):
        call = Caller(make_app(service, auth, **page_of(service, auth)))
        cookie = {"cookie": f"weakfeedback={auth.session(SHOP)}"}
        for headers in (bearer(SHOP), cookie):
            assert (await call.raw("GET", "/v1/learners", headers=headers)).status == 200
        auth.replace([Token.of("shop", SHOP, "admin", expires=time.time() - 1), auth.tokens[1]])
        for headers in (bearer(SHOP), cookie):
            reply = await call.raw("GET", "/v1/learners", headers=headers)
            assert (reply.status, reply.data["detail"]) == (401, "the token has expired")
        assert auth.session(SHOP) is None
        assert (await call.raw("GET", "/v1/learners", headers=bearer(PEOPLE))).status == 200
        auth.replace(auth.tokens[1:])
        reply = await call.raw("GET", "/v1/learners", headers=cookie)
        assert (reply.status, reply.data["detail"][:17]) == (401, "a token is needed")
        with pytest.raises(ValueError, match="no token left"):
            auth.replace([])


def test_a_cookie_lives_as_long_as_its_token():
    """What the other tokens are does not matter: neither after they were read anew, nor to another instance."""
    shop, people = Token.of("shop", SHOP, "use"), Token.of("people", PEOPLE, "admin")
    here, there, elsewhere = Auth([shop, people]), Auth([people]), Auth([shop, people])
    for auth in (here, there):
        auth.share(b"what they have in common")
    cookie, other = ((b"cookie", f"weakfeedback={here.session(one)}".encode()) for one in (PEOPLE, SHOP))
    assert [auth.level(dict([cookie])) for auth in (here, there, elsewhere)] == [3, 3, None]
    assert [auth.level(dict([other])) for auth in (here, there, elsewhere)] == [2, None, None]
    form = here.form_of(value := here.session(PEOPLE))
    assert form == there.form_of(value) != ""
    here.replace([people, Token.of("new", "another token of the shop", "use")])
    assert (here.level(dict([cookie])), here.level(dict([other]))) == (3, None)
    # the name of a token in a cookie says nothing: the signature must be of that token
    value = here.session("another token of the shop").replace(here.tokens[1].sign, people.sign)
    assert here.level({b"cookie": f"weakfeedback={value}".encode()}) is None
    assert here.form_of(value) == ""
    # a random key of the process signs where nobody shares anything
    alone = [Auth([people]) for _ in range(2)]
    mine = {b"cookie": f"weakfeedback={alone[0].session(PEOPLE)}".encode()}
    assert [auth.level(mine) for auth in alone] == [3, None]


async def test_who_used_what_is_told(tmp_path):
    auth = Auth([Token.of("shop", SHOP, "use", per_minute=3), Token.of("people", PEOPLE, "admin")])
    settings = SimpleNamespace(root_path="", reload=lambda: SimpleNamespace(tokens=auth.tokens[:1]))

    async with serving(tmp_path / "s.db") as (service, _):
        call = Caller(make_app(service, auth, **page_of(service, auth, settings)))
        service.metrics.registry.register(auth.usage)
        assert (await call("PUT", "/v1/learners/t", CASCADE, **bearer(PEOPLE))).status == 201
        statuses = [
            (await call("POST", "/v1/learners/t/decide", {}, **bearer(SHOP))).status for _ in range(4)
        ]
        assert statuses == [200, 200, 200, 429]
        reply = await call("POST", "/v1/learners/t/decide", {}, **bearer(SHOP))
        assert (reply.data["code"], int(reply.headers["retry-after"]) <= 20) == (
            "too_many_requests",
            True,
        )
        assert (await call("GET", "/v1/tokens", **bearer(SHOP))).status == 403
        shop, people = (await call("GET", "/v1/tokens", **bearer(PEOPLE))).data["tokens"]
        assert (shop["name"], shop["requests"], shop["refused"], shop["money"]) == ("shop", 3, 2, 0.0)
        assert (people["requests"], people["per_minute"], people["expires"]) == (2, None, None)
        metrics = (await call("GET", "/metrics", **bearer(PEOPLE))).body.decode()
        assert 'weakfeedback_token_requests_total{token="shop"} 3.0' in metrics
        assert 'weakfeedback_token_refused_total{token="shop"} 2.0' in metrics
        page = (await call("GET", "/", **bearer(PEOPLE))).body.decode()
        assert re.search(r"<h2>Tokens</h2>.*shop.*people", page, re.DOTALL)
        assert SHOP not in page
        assert "<h2>Tokens" not in (await call("GET", "/", **bearer(SHOP))).body.decode()
        assert (await call("POST", "/v1/tokens/reload", {}, **bearer(PEOPLE))).data == {"tokens": 1}
        assert (await call("GET", "/v1/tokens", **bearer(PEOPLE))).status == 401  # it is gone


def test_models_cost_the_token_that_asks(tmp_path, monkeypatch):
    auth = Auth([Token.of("shop", SHOP, "use", per_day=0.0015), Token.of("people", PEOPLE, "admin")])

    body = {"model": "support", "messages": [{"role": "user", "content": "What is 17 * 23?"}]}

    async def play() -> Any:
        async with chatting(tmp_path / "s.db", fake=FakeUpstream(MODELS), auth=auth) as chat:
            found = []
            for _ in range(40):
                status, headers, _ = await chat.post(body, **bearer(SHOP))
                found.append((status, headers.get("retry-after")))
                if status != 200:
                    break
            await chat.proxy.drain()
            status, _, _ = await chat.post(body, **bearer(PEOPLE))
            await chat.proxy.drain()
            return found, status, chat.proxy.account("support")["spent"]

    found, other, spent = asyncio.run(play())
    assert [status for status, _ in found] == [200] * (len(found) - 1) + [429]
    assert 0 < int(found[-1][1]) <= DAY
    assert other == 200
    used = {name: auth.usage.money(name)[1] for name in ("shop", "people")}
    assert used["shop"] >= 0.0015
    assert sum(used.values()) == pytest.approx(spent)

    async def again() -> Any:
        """After a restart, with a snapshot, and from an instance that does not serve the learner."""
        auth.usage.accounts = None
        async with chatting(tmp_path / "s.db", fake=FakeUpstream(MODELS), auth=auth) as chat:
            status, _, _ = await chat.post(body, **bearer(SHOP))
            here = {name: auth.usage.money(name) for name in used}
            elsewhere = Accounts(SimpleNamespace(learners={}, reader=chat.service.reader), ["support"])  # type: ignore[arg-type]
            looking = asyncio.create_task(elsewhere.watch())
            await until(elsewhere.all)
            looking.cancel()
            return status, here, elsewhere

    monkeypatch.setattr("weakfeedback.serve.usage.PERIOD", 0.01)
    status, here, elsewhere = asyncio.run(again())
    assert status == 429
    assert here == {name: (pytest.approx(money), pytest.approx(money)) for name, money in used.items()}
    assert elsewhere.here() == []
    auth.usage.accounts = elsewhere
    assert {name: auth.usage.money(name) for name in used} == here


def test_a_signal_reads_the_tokens_anew(tmp_path):
    (tmp_path / "shop").write_text(SHOP)
    (tmp_path / "people").write_text(PEOPLE)
    text = FILE.replace("expires = 2026-01-31T18:00:00+01:00", "").replace("expires = 2027-01-31", "")
    (tmp_path / "weakfeedback.toml").write_text(text)
    with Process(tmp_path) as server:
        call = Client(server.port)

        def status(secret: str) -> int:
            return call("GET", "/v1/learners", authorization=f"Bearer {secret}")[0]

        assert (status(SHOP), status(PEOPLE)) == (200, 200)
        (tmp_path / "shop").write_text("another token of the shop")
        os.kill(server.process.pid, signal.SIGHUP)
        wait_until(lambda: status("another token of the shop") == 200)
        assert (status(SHOP), status(PEOPLE)) == (401, 200)
        (tmp_path / "shop").write_text("short")
        reply = call("POST", "/v1/tokens/reload", {}, authorization=f"Bearer {PEOPLE}")
        assert (reply[0], "the file must hold at least 16 characters, got 5" in reply[1]["detail"]) == (
            422,
            True,
        )
        assert status("another token of the shop") == 200
        call.close()
        assert server.stop() == 0
    said = (tmp_path / "errors").read_text()
    assert "the tokens were read again: there are 2" in said
    assert SHOP not in said


def test_all_instances_read_the_tokens_anew(server, tmp_path):
    """Only the one that was asked did: a token that was taken away still was an admin's at the others."""
    text, folders = FILE.replace("expires =", "# "), [tmp_path / name for name in ("one", "other")]

    def keep(folder: Path, secret: str) -> None:
        (folder / "people").write_text(secret)

    for folder in folders:
        folder.mkdir()
        (folder / "shop").write_text(SHOP)
        (folder / "weakfeedback.toml").write_text(text)
        keep(folder, PEOPLE)
    secrets = [f"{word} token of people" for word in ("second", "third", "fourth")]
    options = ("--store", server.url(), "--shared")
    with Process(folders[0], *options) as one, Process(folders[1], *options) as other:
        lines = [Fresh(each.port) for each in (one, other)]

        def statuses(secret: str) -> list[int]:
            return [line("GET", "/v1/tokens", **bearer(secret))[0] for line in lines]

        def reload(secret: str) -> tuple[int, str]:
            status, told = lines[0]("POST", "/v1/tokens/reload", {}, **bearer(secret))
            return status, told.get("detail", f"{told}")

        for folder in folders:
            keep(folder, secrets[0])
        assert statuses(PEOPLE) == [200, 200]
        assert reload(PEOPLE) == (200, "{'tokens': 2}")
        assert (statuses(PEOPLE), statuses(secrets[0])) == ([401, 401], [200, 200])
        # the file of one is wrong
        keep(folders[0], secrets[1])
        keep(folders[1], "short")
        status, detail = reload(secrets[0])
        assert (status, statuses(secrets[0]), statuses(secrets[1])) == (422, [401, 200], [200, 401])
        assert detail.startswith(f"done here, but not everywhere: http://127.0.0.1:{other.port} says 422: ")
        assert "the file must hold at least 16 characters, got 5" in detail
        keep(folders[1], secrets[1])
        assert reload(secrets[1])[0] == 200  # with a token that the other did not know
        assert statuses(secrets[1]) == [200, 200]
        # one is not there, and reads its file when it comes back
        other.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: f"{other.port} has ended" in (folders[0] / "errors").read_text())
        for folder in folders:
            keep(folder, secrets[2])
        assert reload(secrets[1])[0] == 200
        other.process.send_signal(signal.SIGCONT)
        wait_until(lambda: statuses(secrets[2]) == [200, 200])
        assert statuses(secrets[1]) == [401, 401]
        # one is not reached
        other.process.send_signal(signal.SIGSTOP)
        told = f"done here, but not everywhere: http://127.0.0.1:{other.port} was not reached"
        assert reload(secrets[2]) == (503, told)
        other.process.send_signal(signal.SIGCONT)
        wait_until(lambda: statuses(secrets[2]) == [200, 200])
        # nobody else can ask without a token
        for passed in ({}, {"x_weakfeedback_passed": "0" * 64}):
            assert lines[1]("POST", "/v1/tokens/reload", {}, **passed)[0] == 401
        for line in lines:
            line.close()
        assert [one.stop(), other.stop()] == [0, 0]


async def test_a_signal_while_the_store_is_read_ends_nothing(monkeypatch, caplog):
    """Until the store had been read, the signal to read the tokens anew ended the process."""
    settings = Settings(tokens=[Token.of("people", PEOPLE, "admin")])
    settings.reload = lambda: Settings(tokens=[Token.of(one, f"{one} {SHOP}", "use") for one in "abc"])

    async def start(*_: Any) -> None:
        assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: caplog.messages)
        raise ConfigError("enough")

    monkeypatch.setattr(Service, "start", start)
    try:
        with pytest.raises(ConfigError, match="enough"):
            await serve(settings, Options())
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
    assert caplog.messages == ["the tokens were read again: there are 3"]
