"""Prices that no longer fit: jumps are seen at once, each stage pays for itself, no claim beyond reason is believed."""

import asyncio
import random
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rig.fake import FakeUpstream
from tests.rig.raw_http import ask
from tests.rig.upstreams import MODELS, calling, learner, stage, world
from tests.serve.proxy.test_service import chatting

from weakfeedback.serve.proxy.fake import FakeModel
from weakfeedback.serve.proxy.prices import AGAIN, EVERY, QUICK, PriceWatch
from weakfeedback.serve.proxy.upstream import without_parts

CHEAP, DEAR = 0.0001, 0.003


def played(watch, stage, costs):
    """Count calls of a stage; return the new prices, with the number of the round that gave them."""
    found = []
    for k, cost in enumerate(costs):
        watch.add(stage, cost)
        prices = watch.look()
        if prices is not None:
            found.append((k + 1, prices))
            watch.accept(prices)
    return found


def test_a_jump_is_noticed_after_a_few_calls_however_many_there_were_before():
    for before in (0, 100, 9000):
        watch = PriceWatch([CHEAP, DEAR])
        played(watch, 0, [CHEAP] * before)
        found = played(watch, 0, [0.0015] * 60)
        assert found[0][0] <= 10
        assert found[-1][1] == pytest.approx([0.0015, DEAR], rel=0.05)
        assert watch.dropped == {}


def test_a_stage_that_becomes_dearer_than_a_better_one_is_dropped_and_nobody_pays_for_it():
    now = [0.0]
    watch = PriceWatch([CHEAP, DEAR], clock=lambda: now[0])
    assert played(watch, 0, [0.04] * QUICK) == [(QUICK, [DEAR, DEAR])]
    assert watch.dropped == {0: 0.0}
    assert watch.seen == [0.04, DEAR]
    now[0] = AGAIN + 1.0
    watch.look()
    assert watch.dropped == {}
    played(watch, 0, [0.04] * QUICK)  # still dear
    assert watch.dropped == {0: AGAIN + 1.0}
    now[0] = 2.0 * AGAIN + 2.0
    watch.look()
    assert played(watch, 0, [CHEAP] * QUICK)[-1][1] == pytest.approx([CHEAP, DEAR])
    assert watch.dropped == {}


def test_stages_of_a_cascade_need_no_order():
    watch = PriceWatch([CHEAP, DEAR], rising=False)
    assert played(watch, 0, [0.04] * QUICK) == [(QUICK, [0.04, DEAR])]
    assert watch.dropped == {}


def exponential(seed, times=1.0):
    """Costs of calls that vary much."""
    dice = random.Random(seed)
    while True:
        yield times * dice.expovariate(1.0)


def test_costs_that_vary_are_no_jump():
    """Costs by the exponential law: of 4,000 such runs none alarms (measured), so less than 1 of 1,000 does."""
    for seed in range(40):
        assert not played(PriceWatch([0.001, 1.0]), 1, islice(exponential(seed), EVERY - 1))


def test_a_jump_of_costs_that_vary_is_noticed_too():
    """By a hundred after 5 calls in nine runs of ten (measured); by three only at the next look at all prices."""
    for times, most in ((100.0, 10), (3.0, EVERY - 100)):
        delays = []
        for seed in range(20):
            watch = PriceWatch([0.001, 1.0])
            played(watch, 1, islice(exponential(seed), 100))
            delays.append(played(watch, 1, islice(exponential(seed + 100, times), EVERY))[0][0])
        assert sorted(delays)[17] <= most


@given(
    st.lists(st.floats(0.001, 1.0), min_size=2, max_size=5).map(sorted),
    st.lists(st.tuples(st.integers(0, 4), st.floats(0.0001, 10.0)), min_size=1, max_size=8),
)
def test_prices_rise_and_no_stage_is_raised_by_another(stated, jumps):
    watch = PriceWatch(list(stated), clock=lambda: 0.0)
    for stage_, cost in jumps:
        k = stage_ % len(stated)
        for _ in range(QUICK):
            for _, prices in played(watch, k, [cost]):
                assert prices == sorted(prices)
                assert prices[-1] > 0.0
                for price, seen in zip(prices, watch.seen):
                    assert price <= seen
        assert len(stated) - 1 not in watch.dropped


def test_a_cheap_model_that_becomes_dear_over_the_service(tmp_path, caplog):
    """500 requests passed before anybody looked, and the price of the honest model was raised."""
    models = {name: FakeModel(name, 1.0) for name in ("small-7b", "large-5")}
    table = learner(error_cost=0.1, stage=[stage("cheap", "small-7b", 0.4), stage("dear", "large-5", 150.0)])

    async def work():
        fake = FakeUpstream(models)
        async with chatting(tmp_path / "s.db", table, fake) as chat:
            for k in range(100):
                told = await chat.ask(f"What is {k} * 7?")
            assert told["x-weakfeedback-stage"] == "0"  # it has settled on the cheap one
            before = chat.proxy.account("support")["spent"]
            fake.models["small-7b"] = FakeModel("small-7b", 1.0, tokens=100_000)
            told = [await chat.ask(f"What is {k} * 9?") for k in range(200)]
            spent = chat.proxy.account("support")["spent"] - before
            return spent, told, chat.service.learners["support"].settings()["prices"]

    with caplog.at_level("WARNING", "weakfeedback.serve"):
        spent, told, prices = asyncio.run(work())
    assert spent < 10 * 0.04 + 200 * 0.003
    assert [one["x-weakfeedback-stage"] for one in told[20:]] == ["1"] * 180
    assert prices == pytest.approx([0.003, 0.003])  # that of the honest model is its own
    assert [record.getMessage() for record in caplog.records] == [
        "learner support: cheap costs 0.04 a call, more than a later stage, and is not called for an hour"
    ]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("side", ["prompt_tokens", "completion_tokens"])
def test_usage_far_beyond_the_texts_is_estimated(stream, side, caplog):
    """One reply claimed 10^11 tokens, and 699,991 were saved."""

    class Boastful(FakeUpstream):
        def completion(self, name, body):
            found = super().completion(name, body)
            if name == "small-7b":
                found["usage"][side] = 10**11
            return found

    fake = Boastful({name: FakeModel(name, 1.0) for name in MODELS})
    with caplog.at_level("WARNING", "weakfeedback.serve"), world(fake=fake, make_decider=calling(0)) as here:
        for _ in range(3):
            assert ask(here.url, stream).status == 200
        here.drain()
        account = here.proxy.account("support")
    assert account["stages"][0]["estimated"] == 3
    assert account["stages"][0]["tokens"]["input"] < 100
    assert account["spent"] < 0.01
    assert account["saved"]["amount"] < 3 * 0.16
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "far beyond the texts" in said[0]


def test_what_the_baseline_would_have_cost_does_not_grow_with_the_claims_of_another():
    """100,000 tokens of input may be a context that the upstream adds; the baseline would not have had it."""

    class Padding(FakeUpstream):
        def completion(self, name, body):
            found = super().completion(name, body)
            if name == "small-7b":
                found["usage"]["prompt_tokens"] = 100_000
            return found

    table = learner()
    for entry in table["stage"]:
        entry["price"]["input"] = 1.0
    fake = Padding({name: FakeModel(name, 1.0) for name in MODELS})
    with world(table, fake=fake, make_decider=calling(0)) as here:
        ask(here.url)
        here.drain()
        account = here.proxy.account("support")
    assert account["spent"] == pytest.approx(0.101)
    assert account["saved"]["amount"] == pytest.approx(0.15 - 0.101, abs=1e-5)


@pytest.mark.parametrize(
    "choice", [None, 7, "text", [], {}, {"message": 3}, {"message": {"tool_calls": [1]}}]
)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["router", "adaptive"])
def test_a_second_choice_that_is_none_leads_to_the_next_stage(mode, stream, choice):
    class Odd(FakeUpstream):
        def completion(self, name, body):
            found = super().completion(name, body)
            if name == "small-7b":
                found["choices"].append(choice)
            return found

        async def _stream(self, name, body, completion, fault, send):
            if len(completion["choices"]) > 1:
                completion["choices"].pop()
            await super()._stream(name, body, completion, fault, send)

    from tests.rig.upstreams import ScriptedSteps

    fake = Odd({name: FakeModel(name, 1.0) for name in MODELS})
    make = calling(0) if mode == "router" else (lambda proxied: ScriptedSteps(proxied, 0))
    compare = {"type": "text"} if mode == "adaptive" else {"type": "number", "scale": 1e-9}
    with world(learner(mode=mode, compare=compare), fake=fake, make_decider=make, retries=0) as here:
        got = ask(here.url, stream)
    assert got.status == 200
    assert got.clean if stream else len(got.data["choices"]) == 1
    if mode == "adaptive" or not stream:
        assert got.headers["x-weakfeedback-fallback"] == "small>medium"


KEY = "sk-secret-abcdefgh123456789"


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Incorrect API key provided: sk-secr****6789.", "Incorrect API key provided: [removed]."),
        ("key sk-s...6789 is wrong", "key [removed] is wrong"),
        ("key ****************6789", "key [removed]"),
        ("key SK-SECRxxxxxxxxxxxx", "key [removed]"),
        ("key sk-\u2026789", "key [removed]"),
        (f"it begins with {KEY[:20]}", "it begins with [removed]"),
        (f"it ends with {KEY[-8:]}!", "it ends with [removed]!"),
        ("use **bold** words... and so on", "use **bold** words... and so on"),
    ],
)
def test_parts_of_a_key_are_removed(said, left):
    assert without_parts(said, KEY) == left
    assert without_parts(said, "") == said
