"""Conversations: the first request decides, later ones stay or go up, never down; nothing of them is learned."""

import asyncio

import pytest
from tests.rig.raw_http import ask
from tests.rig.upstreams import learner, world
from tests.serve.proxy.test_service import chatting

from weakfeedback.serve.proxy import conversations
from weakfeedback.serve.proxy.conversations import Conversations, switching
from weakfeedback.serve.proxy.decider import Decider
from weakfeedback.serve.proxy.prices import Price
from weakfeedback.serve.proxy.settings import read_proxied

SESSION = {"x-session": "s1"}


def turns(count, question="What is 17 * 23?"):
    """The messages of a conversation after so many turns."""
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": question}]
    for k in range(count - 1):
        said += [{"role": "assistant", "content": "yes"}, {"role": "user", "content": f"What is {k} + 1?"}]
    return said


def talk(here, count, headers=None, **more):
    got = ask(here.url, headers=headers, messages=turns(count, **more))
    here.drain()
    assert got.status == 200
    told = got.headers
    return told.get("x-weakfeedback-conversation"), int(told["x-weakfeedback-stage"])


@pytest.mark.parametrize("key", ["header:X-Session", "first"])
def test_a_conversation_stays_moves_up_and_never_down(key):
    headers = SESSION if key != "first" else None
    with world(learner(conversation={"key": key})) as here:
        here.decider.forced = (0,)
        assert talk(here, 1, headers) == ("first", 0)
        assert talk(here, 2, headers) == ("same", 0)
        here.decider.trusted, here.decider.gains = 1, -0.01
        assert talk(here, 3, headers) == ("same", 0)  # it is trusted, but a switch does not pay
        here.decider.gains = 0.01
        assert talk(here, 4, headers) == ("up", 1)
        here.decider.trusted = 0
        assert talk(here, 5, headers) == ("same", 1)
        other = {"x-session": "s2"} if headers else None
        assert talk(here, 1, other, question="What is 6 * 7?") == ("first", 0)
        assert here.decider.kinds().count("decide") == 2
        assert here.decider.kinds().count("serve") == 4
        bill = here.decider.invoices["support"].summary()
        assert bill["requests"] == 6


def test_a_request_without_the_header_is_decided_alone():
    with world(learner(conversation={"key": "header:x-session"})) as here:
        assert [talk(here, 2)[0] for _ in range(2)] == [None, None]
        assert here.decider.kinds().count("decide") == 2
        assert talk(here, 1, {"x-weakfeedback-stage": "1", **SESSION}) == (None, 1)
        assert talk(here, 1, SESSION)[0] == "first"  # what was forced begins nothing


def test_a_stage_that_fails_moves_the_conversation_to_the_one_that_answered():
    with world(learner(conversation={"key": "first"}), retries=0) as here:
        here.decider.forced = (0,)
        here.fake.faults["small-7b"] = ["500"]
        assert talk(here, 1) == ("first", 1)
        assert talk(here, 2) == ("same", 1)


def test_memory_is_bounded_and_forgets(monkeypatch):
    monkeypatch.setattr(conversations, "MOST", 3)
    now = [0.0]
    known = Conversations(10.0, lambda: now[0])
    for k in range(3):
        known.keep(bytes([k]), k)
    known.keep(b"\0", 0)  # used again: now the least recent is 1
    known.keep(b"\3", 2)
    assert [known.stage(bytes([k])) for k in range(4)] == [0, None, 2, 2]
    now[0] = 10.5
    assert known.stage(b"\0") is None
    known.keep(b"\2", 0)  # it had ended, so it begins again
    assert known.stage(b"\2") == 0
    assert known.stage(None) is None


def test_the_gain_of_a_dearer_model_is_what_the_service_has_counted(tmp_path):
    async def work():
        async with chatting(tmp_path / "s.db", learner(conversation={"key": "first"})) as chat:
            told = [await chat.ask(f"What is {k // 2} * 7?") for k in range(40)]
            report = await chat.service.report("support")
            return (
                told,
                report,
                Decider(chat.service, chat.proxy.learners.values()).gain("support", 0, 2),
            )

    told, report, gain = asyncio.run(work())
    assert [one["x-weakfeedback-conversation"] for one in told] == ["first", "same"] * 20
    details = report["details"]
    tries, share = details["compared"][0][2], details["disagreement"][0][2]
    assert 0 < tries <= 20
    expected = (tries * share + 1) / (tries + 2) * 1.0 - (details["prices"][2] - details["prices"][0])
    assert gain == pytest.approx(expected)


def test_a_switch_costs_the_prompt_that_is_not_cached():
    settings = read_proxied("learner[0]", learner(), ["fake"])
    stage = settings.stages[2].model_copy(update={"price": Price(input=10.0, cached=1.0, output=0.0)})
    assert switching(stage, 4_000_000) == pytest.approx(9.0 / 8)
    assert switching(settings.stages[2], 4_000_000) == 0.0


@pytest.mark.parametrize(
    "given", [{"key": "cookie"}, {"key": "header:"}, {"key": "first", "ttl": 0}, "first"]
)
def test_what_is_no_conversation_is_refused(given):
    with pytest.raises(ValueError, match="conversation"):
        read_proxied("learner[0]", learner(conversation=given), ["fake"])
