"""The proxy keeps a promise: as the reference answers, also where models fail, and says what it risks."""

import asyncio
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.harness import quick, serving

from weakfeedback.serve.config import ConfigError
from weakfeedback.serve.proxy.dialect import Dialect
from weakfeedback.serve.proxy.fake import FakeModel, FakeServer
from weakfeedback.serve.proxy.mount import make_proxy, prepare_learners
from weakfeedback.serve.proxy.settings import read_proxied
from weakfeedback.serve.proxy.upstream import UpstreamFailed

NAMES = ("small", "large")


def table(**more: Any) -> dict[str, Any]:
    stages = [
        {
            "name": name,
            "upstream": "fake",
            "model": name,
            "price": {"input": 0.0, "output": price},
            "expect": {"input": 5, "output": 20},
        }
        for name, price in zip(NAMES, (1.0, 20.0))
    ]
    compare = {"type": "regex", "pattern": r"answer is (\S+?)\.?$"}
    return {
        "name": "p",
        "agree": 0.9,
        "compare": compare,
        "stage": stages,
        "options": {"memory": 64},
        "seed": 3,
        **more,
    }


class Failing(FakeServer):
    """Models of which some are down, and some never answer."""

    down: set[str]
    silent: set[str]
    called: asyncio.Event

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        if body["model"] in self.silent:
            self.called.set()
            await asyncio.Event().wait()
        if body["model"] in self.down:
            raise UpstreamFailed("500", 500)
        return await super().complete(body)


class Talk:
    """A proxy in this process, with what it answered."""

    def __init__(self, service: Any, fake: FakeUpstream, settings: Any) -> None:
        self.service, self.fake, server = service, fake, Failing(fake)
        self.down = server.down = set[str]()
        self.silent = server.silent = set[str]()
        self.called = server.called = asyncio.Event()
        self.proxy = make_proxy(service, {}, [settings], {"fake": server})

    async def ask(self, n: int, stream: bool = False, **headers: str) -> tuple[int, dict[str, str], bytes]:
        content = f"What is {n} * 3?"
        body = {"model": "p", "stream": stream, "messages": [{"role": "user", "content": content}]}
        sent = [(b"content-type", b"application/json")]
        sent += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        messages: list[dict[str, Any]] = [{"type": "http.request", "body": orjson.dumps(body)}]
        found: list[Any] = []

        async def receive() -> Any:
            if not messages:
                await self.called.wait()  # a client waits until a model is silent, and leaves
                self.called.clear()
                return {"type": "http.disconnect"}
            return messages.pop()

        async def send(message: Any) -> None:
            found.append(message)

        await self.proxy.answer(Dialect(), {"type": "http", "headers": sent}, receive, send)
        await self.proxy.drain()
        if not found:
            return 0, {}, b""
        told = {name.decode(): value.decode() for name, value in found[0]["headers"]}
        return found[0]["status"], told, b"".join(one.get("body", b"") for one in found[1:])


def run(tmp_path: Path, work: Any, skill: float = 0.95, **more: Any) -> None:
    async def play() -> None:
        async with serving(tmp_path / "s.db", quick(durability="process")) as (service, _):
            fake = FakeUpstream({"small": FakeModel("small", skill), "large": FakeModel("large", 1.0)})
            talk = Talk(service, fake, read_proxied("test", table(**more), {"fake"}))
            await prepare_learners(service, talk.proxy)
            await work(talk, service.learners["p"])

    asyncio.run(play())


@pytest.mark.parametrize("mode", ["router", "adaptive"])
def test_cheap_answers_go_out_with_their_risk_and_the_books_agree(tmp_path, mode):
    async def work(talk: Talk, learner: Any) -> None:
        told = [await talk.ask(n, stream=n % 5 == 0, x_weakfeedback_group="g") for n in range(160)]
        stages = {headers["x-weakfeedback-stage"] for _, headers, _ in told[100:]}
        assert stages == {"0", "1"}
        assert all(
            float(one["x-weakfeedback-risk"]) == 0 for _, one, _ in told if one["x-weakfeedback-stage"] == "1"
        )
        cheap = [one for _, one, _ in told if one["x-weakfeedback-stage"] == "0"]
        assert all(0 < float(one["x-weakfeedback-risk"]) < 0.6 for one in cheap)
        assert {one["x-weakfeedback-compared"] for _, one, _ in told[:40]} == {"yes"}
        report = learner.live.report()
        assert list(report.by_group) == ["g"]
        assert report.requests == 160
        assert (learner.opened, learner.live.policy.open.sum()) == ({}, 0)
        assert learner.invoice.saved > 0.0
        served = await talk.ask(1, x_weakfeedback_learn="no")
        assert served[1]["x-weakfeedback-stage"] == "1"  # nobody compares it: the reference

    run(tmp_path, work, mode=mode)


@pytest.mark.parametrize("more", [{"mode": "router"}, {"mode": "adaptive"}, {"background": True}])
def test_the_reference_is_asked_a_second_time_by_itself_and_it_is_in_the_invoice(tmp_path, more):
    async def work(talk: Talk, learner: Any) -> None:
        calls = 0
        for n in range(200):
            before = learner.invoice.lines[1].calls
            await talk.ask(n, stream=n % 5 == 0)
            calls += max(learner.invoice.lines[1].calls - before - 1, 0)
        found = learner.live.report().self_check
        assert found["calls"] == calls > 3  # each of them beside a first call
        assert found["differed"] == 0
        assert found["spent"] > 0.0
        assert learner.invoice.spent == pytest.approx(sum(learner.invoice.money.values()))
        assert "large, asked twice, gives the same answer in 100.0 %" in str(learner.live.report())
        luck = random.Random(2)
        talk.fake.say = lambda model, _: f"The answer is {luck.choice('xy') if model == 'large' else 'x'}."
        for n in range(200, 400):
            await talk.ask(n)
        found = learner.live.report().self_check
        assert found["differed"] > 0
        assert 0.0 < found["differs"] <= 1.0
        assert learner.invoice.requests == 400
        assert (learner.opened, learner.live.policy.open.sum()) == ({}, 0)
        talk.down.add("large")  # a second call that fails is no answer
        calls = found["calls"]
        for n in range(400, 420):
            await talk.ask(n)
        assert learner.live.report().self_check["calls"] == calls

    run(tmp_path, work, agree=0.6, self_check=True, **more)


@pytest.mark.parametrize("mode", ["router", "adaptive"])
def test_a_cheap_model_that_fails_is_no_difference(tmp_path, mode):
    async def work(talk: Talk, learner: Any) -> None:
        for n in range(120):
            await talk.ask(n)
        before = learner.live.policy.estimate.sum()
        talk.down.add("small")
        for n in range(120, 150):
            status, headers, _ = await talk.ask(n)
            assert (status, headers["x-weakfeedback-stage"]) == (200, "1")
        assert learner.live.policy.estimate.sum() == before
        assert (learner.opened, learner.live.policy.open.sum()) == ({}, 0)

    run(tmp_path, work, mode=mode)


def test_without_the_reference_a_cheap_answer_costs_an_allowance_or_is_refused(tmp_path):
    async def work(talk: Talk, learner: Any) -> None:
        for n in range(60):
            await talk.ask(n)
        talk.down.add("large")
        allowed = learner.live.report().allowance
        statuses = []
        for n in range(60, 85):
            try:
                statuses.append((await talk.ask(n))[0])
            except Exception as error:
                statuses.append(error.status)  # type: ignore[attr-defined]
        report = learner.live.report()
        assert 0 < report.blind <= allowed + 25 * 0.1
        assert statuses.count(502) > 0
        assert report.differ * report.requests >= report.blind

    run(tmp_path, work)


@pytest.mark.parametrize("mode", ["router", "adaptive"])
def test_a_client_that_leaves_a_compared_round_does_not_hide_it(tmp_path, mode):
    """The reference is the slower one: rounds that are compared end this way more often."""

    async def work(talk: Talk, learner: Any) -> None:
        for n in range(120):
            await talk.ask(n)
        policy, left = learner.live.policy, 0
        talk.silent.add("large")
        before = policy.estimate.sum()
        for n in range(120, 180):
            left += (await talk.ask(n))[0] == 0
        assert left > 0
        assert (learner.opened, policy.open.sum()) == ({}, 0)
        assert policy.estimate.sum() > before  # those that were drawn count as differing

    run(tmp_path, work, mode=mode)


def test_a_stream_goes_out_before_it_is_compared(tmp_path):
    async def work(talk: Talk, learner: Any) -> None:
        told = [await talk.ask(n, stream=True) for n in range(160)]
        early = [
            one
            for _, one, _ in told
            if (one["x-weakfeedback-stage"], one["x-weakfeedback-compared"]) == ("0", "yes")
        ]
        assert len(early) == learner.live.report().compared > 2
        assert learner.live.policy.open.sum() == 0

    run(tmp_path, work, background=True)


def test_shadow_answers_are_the_references(tmp_path):
    async def work(talk: Talk, learner: Any) -> None:
        told = [await talk.ask(n) for n in range(90)]
        assert {one["x-weakfeedback-stage"] for _, one, _ in told} == {"1"}
        assert learner.live.report().state == "shadow"

    run(tmp_path, work, shadow=True)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"agree": None}, "agree must be given, such as 0.95"),
        ({"budget": 2.0}, "budget must stand alone"),
        ({"agree": 1.5}, "agree"),
        ({"reference": "huge"}, "reference must be one of small, large"),
        ({"agree": None, "error_cost": 1.0, "shadow": True}, "shadow must be left out"),
        ({"kind": "cascade"}, "agree is for kind router or adaptive"),
        ({"mode": "adaptive", "background": True}, "background is for kind router"),
    ],
)
def test_tables_that_contradict_themselves_are_explained(more, words):
    given = {key: value for key, value in table(**more).items() if value is not None}
    with pytest.raises(ValueError, match=words):
        read_proxied("test", given, {"fake"})


def test_another_comparison_needs_another_name(tmp_path):
    async def work(talk: Talk, learner: Any) -> None:
        service = talk.service
        await prepare_learners(service, talk.proxy, "f.toml")
        talk.proxy.learners["p"] = read_proxied("test", table(compare={"type": "text"}), {"fake"})
        with pytest.raises(ConfigError, match=r"f.toml: learner p: compare was .*regex.*; use another name"):
            await prepare_learners(service, talk.proxy, "f.toml")

    run(tmp_path, work)


def test_a_retry_gets_the_same_answer_and_a_question_asked_again_a_coin_of_its_own(tmp_path):
    async def work(talk: Talk, learner: Any) -> None:
        for n in range(100):
            await talk.ask(n)
        requests, earned = learner.live.report().requests, learner.live.policy.earned.sum()
        told = [await talk.ask(1, idempotency_key="k") for _ in range(5)]
        assert len({(one["x-weakfeedback-decision"], body) for _, one, body in told}) == 1
        assert learner.live.report().requests == requests + 1
        assert learner.live.policy.earned.sum() == pytest.approx(earned + 0.1)
        again = [await talk.ask(1) for _ in range(5)]
        assert len({one["x-weakfeedback-decision"] for _, one, _ in again}) == 5
        assert learner.live.report().requests == requests + 6

    run(tmp_path, work)


def test_a_budget_is_money_for_a_thousand_requests():
    given = {key: value for key, value in table(budget=2.0).items() if key != "agree"}
    assert read_proxied("test", given, {"fake"}).learner()["budget"] == pytest.approx(0.002)
