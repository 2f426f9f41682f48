"""The proxy over the real service: what it decides is on disk, in the report, in the metrics and in the log."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import urllib.request
from types import SimpleNamespace

import openai
import pytest
from prometheus_client import CollectorRegistry
from tests.rig.fake import FakeUpstream
from tests.rig.harness import Caller, opener, quick
from tests.rig.processes import PATIENCE, until, wait_until
from tests.rig.raw_http import RIGHT, ask, body_of
from tests.rig.upstreams import MODELS, NOBODY, Running, learner, stage

from weakfeedback.journal import OwnedElsewhere, open_store
from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.models import CostsRequest, DecideRequest, ReportAnswer, WarmStartRequest
from weakfeedback.serve.proxy.accounts import UpstreamMetrics
from weakfeedback.serve.proxy.fake import FakeModel, FakeServer
from weakfeedback.serve.proxy.mount import extend, make_proxy, prepare_learners, proxy_routes
from weakfeedback.serve.proxy.prices import Tokens
from weakfeedback.serve.proxy.settings import read_proxied
from weakfeedback.serve.proxy.upstream import UpstreamSettings
from weakfeedback.serve.service import Service
from weakfeedback.serve.usage import Accounts

SECRET = "a-token-that-is-long-enough"


class Chat:
    """A service with a proxy over fake models in this process, called without sockets."""

    def __init__(self, service, proxy, app, fake=None):
        self.service, self.proxy, self.app, self.fake = service, proxy, app, fake

    async def post(self, body, leave=None, **headers):
        """Return status, headers and body of an answer; the client goes when ``leave()`` ends, if there is that."""
        sent = {"content-type": "application/json", **{k.replace("_", "-"): v for k, v in headers.items()}}
        stay, body = leave or asyncio.Event().wait, json.dumps(body).encode()
        reply = await Caller(self.app).raw("POST", "/v1/chat/completions", body, sent, leave=stay)
        if leave is not None:
            await self.proxy.drain()
            return None
        return reply.status, reply.headers, reply.body

    async def ask(self, question="What is 17 * 23?", **headers):
        status, names, _ = await self.post(body_of(question=question), **headers)
        await self.proxy.drain()
        assert status == 200
        return names


class Watched(FakeServer):
    """Fake models that tell when one of them was called."""

    def __init__(self, fake):
        super().__init__(fake)
        self.called = asyncio.Event()

    async def complete(self, body):
        self.called.set()
        return await super().complete(body)


@contextlib.asynccontextmanager
async def chatting(path, table=None, fake=None, auth=None, wrap=lambda store: store):
    settings = read_proxied("learner[0]", table or learner(), {"fake": None})
    service = Service(opener(path, wrap), quick(durability="process"))
    await service.start()
    try:
        server = Watched(fake or FakeUpstream(MODELS))
        proxy = make_proxy(service, {}, [settings], {"fake": server})
        await prepare_learners(service, proxy)
        auth = auth or Auth()
        auth.usage.accounts = Accounts(service, list(proxy.learners), proxy.bills.owed)
        yield Chat(service, proxy, make_app(service, auth, routes=proxy_routes(proxy, auth)), server)
        await proxy.close()
    finally:
        await service.stop()


async def test_a_request_is_a_decision_of_the_learner(tmp_path):
    async with chatting(tmp_path / "s.db") as chat:
        told = [await chat.ask(f"What is {k} * 7?") for k in range(40)]
        report = await chat.service.report("support")
        events = await chat.service.events("support", -1, 1000)
        text = chat.service.metrics.text().decode()
    assert [int(one["x-weakfeedback-decision"]) for one in told] == list(range(1, 41))
    compared = sum(one["x-weakfeedback-compared"] == "yes" for one in told)
    assert report["rounds"] == 40
    assert compared == sum(event.kind == "feedback" for event in events) > 5
    assert report["pending"] == 0
    assert report["proxy"]["requests"] == 40
    assert report["proxy"]["saved"]["against"] == "large alone"
    assert ReportAnswer.model_validate(report).proxy["compared"] == compared
    fed = next(event for event in events if event.kind == "feedback")
    assert fed.body["spent"] > 0
    assert fed.body["tokens"][2] >= 40
    # nothing of questions and answers is kept
    assert "answer is" not in repr(events)
    assert "What is" not in repr(events)
    calls = 'weakfeedback_upstream_seconds_count{learner="support",outcome="ok",stage="large"}'
    assert any(line.startswith(calls) for line in text.splitlines())
    assert 'weakfeedback_upstream_tokens_total{kind="output",learner="support",stage="large"}' in text


async def test_the_judge_of_an_adaptive_learner_is_an_option_of_its_policy(tmp_path):
    table = learner(mode="adaptive", judge="score", compare={"type": "text"})

    async with chatting(tmp_path / "s.db", table) as chat:
        await chat.ask()
        assert (await chat.service.info("support"))["config"]["options"] == {"judge": "score"}
        assert (await chat.service.report("support"))["details"]["judge"] == "score"
    with pytest.raises(ValueError, match="judge must be last or score, for adaptive, got 'lst'"):
        read_proxied("learner[0]", {**table, "judge": "lst"}, {"fake": None})


async def test_models_of_the_file_are_added_removed_and_replaced(tmp_path):
    """What is known of the others stays; behind the name of a stage there may be another model."""
    first, second = learner(), learner()
    first["stage"] = [first["stage"][0], first["stage"][2]]
    third = learner()
    third["stage"] = [stage("small", "medium-2", 50.0), third["stage"][1]]

    async def played(table, rounds):
        async with chatting(tmp_path / "s.db", table) as chat:
            counts = chat.service.learners["support"].core.counts
            for k in range(rounds):
                await chat.ask(f"What is {k} * 7?")
            told = await chat.service.report("support")
            after = chat.service.learners["support"].core.counts
            return counts, after, told

    _, one, before = await played(first, 30)
    two, _, told = await played(second, 30)
    assert two.compared[0, 2] == one.compared[0, 1] > 0
    assert (two.compared[0, 1], two.compared[1, 2]) == (0, 0)
    assert [line["name"] for line in told["proxy"]["stages"]] == ["small", "medium", "large"]
    assert told["proxy"]["stages"][2]["calls"] >= before["proxy"]["stages"][1]["calls"] > 0
    three, _, last = await played(third, 5)
    assert three.compared.sum() == 0  # of small nothing is known any more
    assert (three.gone > 0, last["rounds"]) == (True, 65)
    assert last["spent"] > told["spent"]
    again, _, _ = await played(third, 1)
    assert again.gone == three.gone


def test_what_was_learned_survives_and_open_decisions_are_taken_back(tmp_path):
    async def first():
        async with chatting(tmp_path / "s.db") as chat:
            for k in range(30):
                await chat.ask(f"What is {k} * 7?")
            found = await chat.service.report("support")
            await chat.ask(x_weakfeedback_stage="large")
            while (await chat.service.decide("support"))["expires"] is None:
                pass  # until one waits for feedback, which never comes
            return found

    async def second():
        async with chatting(tmp_path / "s.db") as chat:
            events = await chat.service.events("support", -1, 1000)
            return await chat.service.report("support"), [event.body for event in events[-1:]]

    before = asyncio.run(first())
    after, (last,) = asyncio.run(second())
    assert after["disagreement"] == before["disagreement"]
    assert after["pending"] == 0
    assert last["reason"] == "restart"


async def test_open_decisions_are_taken_back_together(tmp_path):
    """With a commit for each, a start or a move to another instance took seconds, the more were open."""
    async with chatting(tmp_path / "s.db") as chat:
        made = await chat.service.decide("support", DecideRequest(count=1000))
        opened = sum(one["expires"] is not None for one in made["decisions"])
        assert opened > 300
    async with chatting(tmp_path / "s.db") as chat:
        assert chat.service.learners["support"].counts["cancelled"] == opened
        assert not chat.service.learners["support"].opened
        assert chat.service.commits < opened / 2


@pytest.mark.parametrize("warm", [False, True], ids=["compared", "alone"])
async def test_a_client_that_leaves_cancels_the_decision_with_its_cost(tmp_path, warm):
    """Also the decision of one model alone, which waits for no feedback."""
    models = {name: FakeModel(name, seconds=3600.0) for name in MODELS}
    table = learner(waiting_price=0.5, compare={"type": "text"})

    async with chatting(tmp_path / "s.db", table, FakeUpstream(models)) as chat:
        if warm:
            await chat.service.warm_start("support", WarmStartRequest(outputs=[["a"] * 3] * 300))

        async def leave():
            await chat.fake.called.wait()
            await asyncio.sleep(0.1)  # which is paid

        await chat.post(body_of(), leave)
        events = await chat.service.events("support", -1, 1000)
        (*_, decided, ended) = [event for event in events if event.kind != "bill"]
        assert decided.kind == "decide"
        assert (len(decided.body["call"]) == 1) == warm
        assert (ended.kind, ended.decision) == ("cancel", decided.decision)
        assert ended.body["reason"] == "the client left"
        assert 0.1 * 0.5 < ended.body["cost"] < 3600.0 * 0.5
        assert (await chat.service.report("support"))["pending"] == 0


@pytest.mark.parametrize("mode", ["adaptive", "router"])
async def test_a_client_that_leaves_while_it_is_decided_leaves_nothing_open(tmp_path, mode, monkeypatch):
    table = learner(mode=mode, compare={"type": "text"})
    monkeypatch.setattr("weakfeedback.serve.learner.HEAVY", -1.0)

    async with chatting(tmp_path / "s.db", table) as chat:
        made = chat.service.learners["support"]
        name = "begin_round" if mode == "adaptive" else "decide"
        decide = getattr(made, name)

        deciding, gone = threading.Event(), threading.Event()

        def slowly(*given):
            deciding.set()
            assert gone.wait(PATIENCE)
            return decide(*given)

        async def leave():
            await until(deciding.is_set)
            asyncio.get_running_loop().call_later(0.1, gone.set)

        monkeypatch.setattr(made, name, slowly)
        await chat.post(body_of(), leave)
        events = await chat.service.events("support", 0, 1000)
        events = [event for event in events if event.kind not in ("terms", "bill")]
        assert [event.kind for event in events][1:] == ["cancel"]
        assert events[-1].body["reason"] == "the client left"
        assert (await chat.service.report("support"))["pending"] == 0


def test_prices_of_the_file_are_taken_and_measured_ones_stay(tmp_path):
    async def prices(table=None, measured=None):
        async with chatting(tmp_path / "s.db", table) as chat:
            if measured is not None:
                await chat.proxy._decider.recost("support", measured)
            found = chat.service.learners["support"].settings()["prices"]
            assert chat.proxy._books["support"].prices.stated == found or measured is not None
            return found

    assert asyncio.run(prices()) == pytest.approx([0.001, 0.02, 0.15])
    asyncio.run(prices(measured=[0.002, 0.03, 0.2]))
    assert asyncio.run(prices()) == [0.002, 0.03, 0.2]  # the file has not changed
    other = learner()
    other["stage"][2]["price"]["output"] = 10_000.0
    assert asyncio.run(prices(other)) == pytest.approx([0.001, 0.02, 0.2])


def test_a_learner_that_is_another_is_refused(tmp_path):
    async def work(table):
        async with chatting(tmp_path / "s.db", table):
            pass

    asyncio.run(work(learner()))
    with pytest.raises(ValueError, match=r"kind = 'cascade' \(it has 'router'\)"):
        asyncio.run(work(learner(kind="cascade")))


async def test_without_a_learner_that_can_be_read_answers_go_on(tmp_path):
    path = tmp_path / "s.db"
    async with chatting(path) as chat:
        await chat.ask()
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM snapshot")
        database.execute("UPDATE event SET body = 'x' WHERE seq = 1")
    database.close()
    async with chatting(path) as chat:
        assert "support" in chat.service.kept_out
        for _ in range(3):
            told = await chat.ask()
            assert (told["x-weakfeedback-learning"], told["x-weakfeedback-stage"]) == ("off", "2")


async def test_without_a_store_answers_go_on_and_learning_stops(tmp_path):
    class Failing:
        """A store that can be made to fail."""

        broken = False

        def __init__(self, store):
            self._store = store

        def __getattr__(self, name):
            found = getattr(self._store, name)
            if name != "write":
                return found

            def write(*given, **more):
                if Failing.broken:
                    raise OSError(28, "no space left")
                return found(*given, **more)

            return write

    async with chatting(tmp_path / "s.db", wrap=Failing) as chat:
        assert (await chat.ask())["x-weakfeedback-learning"] == "on"
        Failing.broken = True  # the first one is decided, but not stored
        assert (await chat.ask())["x-weakfeedback-learning"] == "off"
        for _ in range(3):
            told = await chat.ask()
            assert told["x-weakfeedback-learning"] == "off"
            assert told["x-weakfeedback-stage"] == "2"
        Failing.broken = False
        while (await chat.ask())["x-weakfeedback-learning"] != "on":
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("mode", ["adaptive", "router"])
def test_what_another_owner_left_open_is_cancelled_when_the_store_comes_back(tmp_path, mode, monkeypatch):
    """A request that is under way meanwhile keeps its decision and is learned from."""
    path, left, back = tmp_path / "s.db", [], threading.Event()
    complete = FakeServer.complete

    async def when_back(server, body):
        while not back.is_set():
            await asyncio.sleep(0.01)
        return await complete(server, body)

    monkeypatch.setattr(FakeServer, "complete", when_back)

    async def in_between():
        service = Service(opener(path), quick(durability="process"))
        await service.start()
        for _ in range(2):
            made = await (service.begin if mode == "adaptive" else service.decide)("support")
            assert made["expires"] is not None
            left.append(made["id"])
        learner = service.learners["support"]
        name = "stage_costs" if mode == "adaptive" else "prices"
        await service.recost("support", CostsRequest(**{name: [0.002, 0.03, 0.2]}))
        learner.pictured = learner.seq  # as if it was killed
        await service.stop()

    def wrap(store):
        if len(opened) == 1:
            store.close()
            asyncio.run(in_between())
            store = open_store(path)
        opened.append(store)
        return store

    opened = []

    async def work():
        table = learner(mode=mode, compare={"type": "text"})
        async with chatting(path, table, wrap=wrap) as chat:
            request = asyncio.ensure_future(chat.post(body_of()))
            own = chat.service.learners["support"]
            while own.committed < 2:
                await asyncio.sleep(0.01)
            chat.service._handle_loss(OSError("somebody else has taken over"))
            while len(opened) < 2 or chat.service.state != "ready":
                await asyncio.sleep(0.01)
            back.set()
            status, names, _ = await request
            assert (status, names["x-weakfeedback-decision"]) == (200, "1")
            await chat.proxy.drain()
            now = chat.service.learners["support"]
            while chat.service.state != "ready" or now.opened or now.committed < now.seq:
                await asyncio.sleep(0.01)
            ends = {
                event.decision: (event.kind, event.body.get("reason"))
                for event in await chat.service.events("support", -1, 1000)
                if event.kind in ("feedback", "cancel")
            }
            assert ends == {1: ("feedback", None), **dict.fromkeys(left, ("cancel", "restart"))}
            assert chat.proxy._books["support"].prices.stated == [0.002, 0.03, 0.2]
            assert not chat.proxy._under_way

    asyncio.run(asyncio.wait_for(work(), PATIENCE))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_decision_is_stored_while_models_are_called_and_before_the_client_hears_of_it(
    tmp_path, stream
):
    written, answered = threading.Event(), threading.Event()
    answered.set()  # nobody waits at the start

    class Slow:
        """A store whose writes wait for an answer."""

        def __init__(self, store):
            self._store = store

        def __getattr__(self, name):
            return getattr(self._store, name)

        def write(self, *given, **more):
            assert answered.wait(PATIENCE)
            found = self._store.write(*given, **more)
            written.set()
            return found

    def say(model, question):
        assert answered.is_set() or not written.is_set()
        answered.set()
        return "yes"

    async with chatting(tmp_path / "s.db", fake=FakeUpstream(MODELS, say=say), wrap=Slow) as chat:
        made = chat.service.learners["support"]
        await until(lambda: made.committed == made.seq)
        written.clear()
        answered.clear()
        status, _, _ = await chat.post(body_of(stream))
        assert status == 200
        assert written.is_set()


async def test_tokens_and_the_form_of_errors(tmp_path):
    auth = Auth([Token.of("web", SECRET, "use"), Token.of("eye", SECRET + "2", "read")], hosts=["here"])

    async with chatting(tmp_path / "s.db", auth=auth) as chat:
        status, _, body = await chat.post(body_of())
        assert status == 401
        assert json.loads(body)["error"]["code"] == "unauthorized"
        status, _, body = await chat.post(body_of(), authorization=f"Bearer {SECRET}2")
        assert status == 403
        status, _, body = await chat.post(body_of(), authorization=f"Bearer {SECRET}", host="there")
        assert status == 421
        assert json.loads(body)["error"]["code"] == "unknown_host"
        status, names, body = await chat.post(body_of(), authorization=f"Bearer {SECRET}", host="here")
        assert status == 200
        assert names["x-content-type-options"] == "nosniff"
        assert json.loads(body)["choices"]


@pytest.mark.parametrize("compare", [{"type": "text"}, {"type": "number", "scale": 50}])
async def test_a_contextual_learner_over_the_service(tmp_path, compare):
    table = learner(kind="contextual", compare=compare, features=["prompt_tokens", "has_code"])

    async with chatting(tmp_path / "s.db", table) as chat:
        for k in range(12):
            told = await chat.ask(f"What is {k} * 7?", idempotency_key=f"k{k}")
        again = await chat.ask("What is 11 * 7?", idempotency_key="k11")
        assert again["x-weakfeedback-decision"] == told["x-weakfeedback-decision"]
        status, _, body = await chat.post(body_of(question="```x```"), idempotency_key="k11")
        assert status == 422
        assert json.loads(body)["error"]["code"] == "key_reused"
        report = await chat.service.report("support")
        assert report["rounds"] == 12
        assert report["policy"] == ("USS-mean" if compare["type"] == "number" else "USS-PD")


async def test_a_cascade_over_the_service(tmp_path):
    table = learner(kind="cascade", compare={"type": "regex", "pattern": r"(\d+)"})

    async with chatting(tmp_path / "s.db", table) as chat:
        for k in range(30):
            await chat.ask(f"What is {k} * 7?")
        report = await chat.service.report("support")
        assert report["rounds"] == 30
        assert report["spent"] == pytest.approx(chat.proxy.account("support")["spent"])


def test_an_adaptive_learner_over_the_service(tmp_path):
    """It learns to call the dear model less; what was learned is there after a restart."""
    table = learner(
        mode="adaptive", error_cost=4.0, compare={"type": "regex", "pattern": r"(\d+)\.$"}, seed=1
    )

    async def work(first, last):
        async with chatting(tmp_path / "s.db", table) as chat:
            told = [await chat.ask(f"What is {k} * 7?") for k in range(first, last)]
            forced = await chat.ask(x_weakfeedback_learn="no")
            return told, forced, await chat.service.report("support")

    told, _, report = asyncio.run(work(0, 250))
    assert report["rounds"] == 250
    assert report["pending"] == 0
    stages = [int(one["x-weakfeedback-stage"]) for one in told]
    assert len(set(stages[-100:])) > 1  # some answers are good enough, some are not
    assert stages[-100:].count(2) / 100 < 0.7 * stages[:30].count(2) / 30
    told, forced, report = asyncio.run(work(250, 260))
    assert report["rounds"] == 260
    assert "x-weakfeedback-decision" not in forced


def test_minutes_hear_of_calls():
    noted = []
    minutes = SimpleNamespace(note=lambda at, column, amount: noted.append((column, amount)))
    kind = SimpleNamespace(names=["small", "large"])
    known = SimpleNamespace(kind=kind, observers={"minutes": minutes, "other": object()})
    options = SimpleNamespace(clock=lambda: 5)
    service = SimpleNamespace(options=options, learners={"support": known})
    metrics = UpstreamMetrics(CollectorRegistry(), service)
    metrics.called("support", "large", "timeout", 2.0, 0.5, Tokens(3, 1, 2))
    assert dict(noted) == {
        "calls_1": 1.0,
        "seconds_1": 2.0,
        "errors_1": 1.0,
        "streams_1": 1.0,
        "first_1": 0.5,
    }


CONFIG = """
[server]
port = 0
store = "sqlite:///{store}"

[[server.token]]
name = "web"
env = "TEST_TOKEN"
scope = "admin"

[upstream.fake]
url = "http://127.0.0.1:{port}/v1"
key_env = "TEST_KEY"

[[learner]]
name = "support"
error_cost = 1.0
compare = {{ type = "regex", pattern = '(\\d+)' }}
[[learner.stage]]
name = "small"
upstream = "fake"
model = "small-7b"
price = {{ input = 0.0, output = 50.0 }}
expect = {{ input = 4, output = 20 }}
[[learner.stage]]
name = "large"
upstream = "fake"
model = "large-5"
price = {{ input = 0.0, output = 7500.0 }}
expect = {{ input = 4, output = 20 }}
"""


@contextlib.contextmanager
def command(folder, port, config=CONFIG, **environment):
    """The command ``weakfeedback serve`` with a configuration; yields its address."""
    (folder / "w.toml").write_text(config.format(store=folder / "s.db", port=port))
    given = {**os.environ, "TEST_TOKEN": SECRET, "TEST_KEY": "key-of-the-upstream", **environment}
    arguments = [
        sys.executable,
        "-m",
        "weakfeedback",
        "serve",
        "--config",
        str(folder / "w.toml"),
        "--interpreted",
    ]
    process = subprocess.Popen(
        arguments, env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        words = process.stdout.readline()
        yield (words.split()[-1].rstrip("/") + "/v1" if words else ""), process
    finally:
        process.kill()
        process.communicate()


def test_the_command_serves_what_a_file_says(tmp_path):
    running = Running()
    try:
        fake = FakeUpstream({name: FakeModel(name, 1.0) for name in MODELS})
        port = running.serve(fake)
        with command(tmp_path, port) as (url, process):
            client = openai.OpenAI(base_url=url, api_key=SECRET, max_retries=0, timeout=PATIENCE)
            messages = body_of()["messages"]
            found = client.chat.completions.create(model="support", messages=messages)
            assert found.choices[0].message.content == RIGHT
            assert fake.seen[0].headers["authorization"] == "Bearer key-of-the-upstream"
            stream = client.chat.completions.create(model="support", messages=messages, stream=True)
            assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == RIGHT
            assert ask(url).status == 401
            # one request hangs, its decision is open, and the end of the process finds no time for it
            fake.always |= dict.fromkeys(MODELS, "hang")
            with pytest.raises(openai.APITimeoutError):
                client.with_options(timeout=0.5).chat.completions.create(model="support", messages=messages)
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: process.poll() is not None)
            assert process.returncode == 0
            assert "key-of-the-upstream" not in process.stderr.read()
    finally:
        running.close()


def test_a_client_names_a_model_of_an_upstream_and_its_money_is_billed(tmp_path):
    running, messages = Running(), body_of()["messages"]
    config = CONFIG.replace("error_cost = 1.0", "error_cost = 1.0\npassthrough = true")
    fake = FakeUpstream({name: FakeModel(name, 1.0) for name in MODELS})
    port = running.serve(fake)

    def told(url):
        request = urllib.request.Request(
            f"{url}/learners/support/report", headers={"Authorization": f"Bearer {SECRET}"}
        )
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    try:
        with (
            command(tmp_path, port, config) as (url, _),
            openai.OpenAI(base_url=url, api_key=SECRET, max_retries=0, timeout=PATIENCE) as client,
        ):
            ask_for = client.chat.completions.create
            assert {one.id for one in client.models.list()} == {"support", "small-7b", "large-5"}
            found = ask_for(model="large-5", messages=messages)
            assert (found.model, found.choices[0].message.content) == ("large-5", RIGHT)
            assert fake.seen[-1].body["model"] == "large-5"
            asked = {"stream": True, "stream_options": {"include_usage": True}}
            chunks = list(ask_for(model="small-7b", messages=messages, **asked))
            text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
            assert (text, chunks[-1].usage.completion_tokens) == (RIGHT, 20)
            report = told(url)
            assert report["rounds"] == 0  # billed, not learned from
            assert report["spent"] == pytest.approx(20 * 7500e-6 + 20 * 50e-6)
            assert report["saved"]["amount"] == pytest.approx(20 * 7500e-6 - 20 * 50e-6)
            assert [one["answers"] for one in report["proxy"]["stages"]] == [1, 1]
            fake.faults["large-5"] = ["400"]
            with pytest.raises(openai.BadRequestError, match="no, said"):
                ask_for(model="large-5", messages=messages)
            fake.faults["large-5"] = ["cut:3"]
            with pytest.raises(openai.APIError, match="cut in the middle"):
                list(ask_for(model="large-5", messages=messages, stream=True))
            with pytest.raises(openai.NotFoundError, match="there are: support, small-7b, large-5"):
                ask_for(model="medium-2", messages=messages)
            fake.always["small-7b"] = "500"  # then a later one answers, and the headers say so
            raw = client.chat.completions.with_raw_response.create(model="small-7b", messages=messages)
            assert raw.parse().model == "large-5"
            assert raw.headers["x-weakfeedback-fallback"] == "small>large"
            wait_until(lambda: told(url)["proxy"]["requests"] == 3)
            before = told(url)
        with command(tmp_path, port, config) as (url, _):  # killed: what was billed is there
            after = told(url)
            assert (after["spent"], after["proxy"]) == (before["spent"], before["proxy"])
    finally:
        running.close()


def test_a_key_that_is_not_there_ends_the_command_in_one_line(tmp_path):
    with command(tmp_path, 9, TEST_KEY="") as (_, process):
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 2
        assert errors.strip().count("\n") == 0
        assert "TEST_KEY must hold the key" in errors


async def test_a_standby_starts_refuses_and_serves_its_models_when_it_owns(tmp_path):
    settings = SimpleNamespace(
        upstreams={"fake": UpstreamSettings("fake", f"http://127.0.0.1:{NOBODY}/v1", retries=0)},
        proxied=[read_proxied("learner[0]", learner(), {"fake": None})],
        file="f.toml",
    )
    free, plain = threading.Event(), opener(tmp_path / "s.db")

    def owned_elsewhere(wait=False, stop=None, **more):
        if wait:
            assert free.wait(PATIENCE)
        elif not free.is_set():
            raise OwnedElsewhere("s.db: another process owns it")
        return plain(**more)

    service = Service(owned_elsewhere, quick(standby=True))
    done = []

    async def then():
        done.append(list(service.learners))

    await service.start(then)
    made = await extend(service, Auth(), settings)
    chat = Chat(service, None, make_app(service, Auth(), routes=made["routes"]))
    try:
        for headers in ({}, {"x_weakfeedback_stage": "small"}):
            status, names, body = await chat.post(body_of(), **headers)
            assert (status, names["retry-after"]) == (503, "1")
            assert json.loads(body)["error"]["code"] == "standby"
        free.set()
        await until(lambda: "support" in service.learners)
        assert done == [[]]  # what comes then is first
        status, _, body = await chat.post(body_of())
        assert (status, json.loads(body)["error"]["code"]) == (502, "upstream_failed")
    finally:
        await made["close"]()
        await service.stop()


async def test_features_group_the_requests_and_prices_are_those_of_the_request(tmp_path):
    """Second looks by header, system prompt, tools and length; decided at what this request is expected to cost."""
    table = learner(features=["header:x-task", "system", "tools", "length"])
    for one in table["stage"]:
        one["price"] = {"input": one["price"]["output"] / 10, "output": one["price"]["output"]}

    async with chatting(tmp_path / "s.db", table) as chat:
        for k in range(40):
            await chat.ask(
                f"Please tell me: what is {k} * 7?" + " please" * (200 if k % 2 else 0),
                x_task=f"t{k % 2}",
            )
        events = await chat.service.events("support", -1, 1000)
        report = await chat.service.report("support")
        events, report, info = events, report, await chat.service.info("support")
    assert info["policy"] == "Second-looks"
    bodies = [event.body for event in events if event.kind == "decide"]
    assert {one["context"]["header:x-task"] for one in bodies} == {"t0", "t1"}
    assert {one["context"]["length"] for one in bodies} == {"4 to 15 tokens", "256 to 1023 tokens"}
    assert all("system" not in one["context"] for one in bodies)
    short, long = (one["prices"] for one in bodies[-2:])
    assert all(one < two for one, two in zip(short, long))
    assert long == sorted(long)
    assert {one["group"] for one in report["details"]["groups"]} >= {"t0", "t1"}


@pytest.mark.parametrize("limit", [{}, {"agree": 0.9, "error_cost": None, "compare": {"type": "text"}}])
@pytest.mark.parametrize("talk", [False, True])
async def test_every_router_decides_at_what_its_request_costs(tmp_path, limit, talk):
    """Without features, with a promise, and in a conversation with cached turns; a key may be used again."""
    table = {name: value for name, value in {**learner(), **limit}.items() if value is not None}
    table |= {"conversation": {"key": "header:x-session"}} if talk else {}
    for one in table["stage"]:
        dear = one["price"]["output"]
        one["price"] = {"input": dear / 10, "output": dear, "cached": dear / 100}

    async with chatting(tmp_path / "s.db", table) as chat:
        for k in range(20):
            text = f"Please tell me: what is {k} * 7?" + " please" * (200 if k % 2 else 0)
            await chat.ask(text, x_session=f"s{k}", idempotency_key=f"k{k}")
            await chat.ask(text, x_session=f"s{k}", idempotency_key=f"k{k}")
        events = await chat.service.events("support", -1, 1000)
        counts = chat.service.learners["support"].core.counts
        bodies, counts = [event.body for event in events if event.kind == "decide"], counts
    assert len(bodies) == counts.decided == 20
    short, long = (one["prices"] for one in bodies[-2:])
    assert all(one < two for one, two in zip(short, long))
    assert counts.alone == pytest.approx(sum(one["prices"][-1] for one in bodies))
    assert ("conversation" in bodies[0]) == talk
    assert all(one["prices"] == sorted(one["prices"]) for one in bodies)
