"""Conversations: the first request decides, later ones stay or go up, never down; the learner remembers them."""

import asyncio

import pytest
from tests.rig.raw_http import ask
from tests.rig.upstreams import MODELS, ScriptedSteps, learner, world
from tests.serve.proxy.test_service import chatting

from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.proxy.accounts import prices_expected
from weakfeedback.serve.proxy.conversations import switching
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
        router = here.decider.objects["support"]
        # with a metric that is always 0 the models never differ: the first is trusted
        router.warm_start([["a", "a", "a"]] * 200)
        assert talk(here, 1, headers) == ("first", 0)
        assert talk(here, 2, headers) == ("same", 0)
        router.recost([0.001, 0.001, 0.001], 1.0)  # now a better model costs no more
        assert talk(here, 3, headers) == ("up", 2)
        router.recost([0.001, 0.02, 0.15], 1.0)
        assert talk(here, 4, headers) == ("same", 2)
        other = {"x-session": "s2"} if headers else None
        assert talk(here, 1, other, question="What is 6 * 7?") == ("first", 0)
        assert here.decider.kinds().count("decide") == 5
        assert here.decider.kinds().count("serve") == 0
        assert router.core.counts.talks == 2
        bill = here.decider.invoices["support"].summary()
        assert bill["requests"] == 5


@pytest.mark.parametrize("trust", [None, "nobody"])
def test_the_last_model_is_believed_from_the_first_conversation_on(tmp_path, trust):
    more = {} if trust is None else {"options": {"trust": trust}}
    table = learner(conversation={"key": "header:x-session"}, features=["header:x-task"], **more)

    async def believes(path):
        async with chatting(path, table) as chat:
            live = chat.service.learners["support"].live
            await chat.ask("What is 1 + 1?")
            before = live.policy.trusts_last
            await chat.ask("What is 2 + 2?", **SESSION)
            return before, live.policy.trusts_last, bool(live.report().belief)

    assert asyncio.run(believes(tmp_path / "s.db")) == (False, trust is None, trust is None)


def test_a_request_without_the_header_is_decided_alone():
    with world(learner(conversation={"key": "header:x-session"})) as here:
        assert [talk(here, 2)[0] for _ in range(2)] == [None, None]
        assert here.decider.kinds().count("decide") == 2
        assert talk(here, 1, {"x-weakfeedback-stage": "1", **SESSION}) == (None, 1)
        assert talk(here, 1, SESSION)[0] == "first"  # what was forced begins nothing


def test_a_request_that_is_not_learned_from_stays_with_its_conversation():
    with world(learner(conversation={"key": "header:x-session"})) as here:
        here.decider.objects["support"].warm_start([["a", "a", "a"]] * 200)
        assert talk(here, 1, SESSION) == ("first", 0)
        here.decider.trusted = 2
        assert talk(here, 2, {"x-weakfeedback-learn": "no", **SESSION}) == ("same", 0)
        assert talk(here, 2, {"x-weakfeedback-learn": "no"}) == (None, 2)


def test_a_stage_that_fails_moves_the_conversation_to_the_one_that_answered():
    with world(learner(conversation={"key": "first"}), retries=0) as here:
        here.decider.objects["support"].warm_start([["a", "a", "a"]] * 200)
        here.fake.faults["small-7b"] = ["500"]
        assert talk(here, 1) == ("first", 1)
        assert talk(here, 2) == ("same", 1)


@pytest.mark.parametrize("promise", [False, True])
def test_the_service_remembers_conversations_over_a_restart(tmp_path, promise):
    limit = {"agree": 0.9, "error_cost": None, "compare": {"type": "text"}} if promise else {}
    table = {**learner(conversation={"key": "first"}), **limit}
    table = {name: value for name, value in table.items() if value is not None}

    async def asked(turn, rounds):
        async with chatting(tmp_path / "s.db", table) as chat:
            told = [await chat.ask(f"What is {k} * 7?") for k in range(rounds)]
            counts = chat.service.learners["support"].core.counts
            events = await chat.service.events("support", -1, 1000)
            assert {one["x-weakfeedback-conversation"] for one in told} <= turn
            return told, counts, events

    before, counts, events = asyncio.run(asked({"first"}, 20))
    assert counts.talks == 20
    assert "What is" not in repr(events)
    after, counts, _ = asyncio.run(asked({"same", "up"}, 20))
    assert (counts.talks, counts.decided) == (20, 40)
    stages = [[int(one["x-weakfeedback-stage"]) for one in told] for told in (before, after)]
    assert all(one <= two for one, two in zip(*stages))


ADAPTIVE = {"mode": "adaptive", "compare": {"type": "text"}, "conversation": {"key": "header:x-session"}}


@pytest.mark.parametrize("promise", [False, True])
def test_an_adaptive_learner_stays_with_the_later_stage_that_answered(promise):
    """Before that every turn is decided; with a promise only the reference answers alone."""
    limit = {"agree": 0.9, "reference": "large"} if promise else {}
    table = {
        name: value
        for name, value in learner(**ADAPTIVE, **limit).items()
        if name != "error_cost" or not promise
    }
    for last in (0, 1, 2):
        with world(table, make_decider=lambda proxied, last=last: ScriptedSteps(proxied, last)) as here:
            here.decider.risk = lambda *_: None
            assert talk(here, 1, SESSION) == ("first", last)
            here.decider.told.clear()
            here.fake.seen.clear()
            assert talk(here, 2, SESSION) == ("same", last)
            alone = last == 2 or (last == 1 and not promise)
            assert [one.model for one in here.fake.seen] == list(MODELS)[last if alone else 0 : last + 1]
            assert ("begin" in here.decider.kinds()) == (not alone)
            assert ("serve" in here.decider.kinds()) == alone
            for headers, turn in (({"x-session": "s2"}, "first"), (None, None)):
                here.decider.told.clear()
                assert talk(here, 1, headers) == (turn, last)


def test_an_adaptive_conversation_goes_up_and_not_down():
    with world(learner(**ADAPTIVE), make_decider=lambda proxied: ScriptedSteps(proxied, 0)) as here:
        assert talk(here, 1, SESSION) == ("first", 0)
        here.decider.told.clear()
        here.decider.last = 2
        assert talk(here, 2, SESSION) == ("up", 2)
        here.decider.last = 0
        assert talk(here, 3, SESSION) == ("same", 2)
        assert talk(here, 3, {"x-weakfeedback-learn": "no", **SESSION}) == ("same", 2)
        assert talk(here, 3, {"x-weakfeedback-stage": "1", **SESSION})[1] == 1


def test_where_a_conversation_has_no_meaning_one_line_says_so():
    talked = {"conversation": {"key": "first"}}
    for more, words in (
        ({"kind": "cascade"}, "calls its first stages in every turn"),
        ({"kind": "contextual"}, "calls its first stages in every turn"),
        ({"budget": 2.0, "error_cost": None}, "to keep it, one must go down as well"),
    ):
        table = {name: value for name, value in learner(**talked, **more).items() if value is not None}
        with pytest.raises(ValueError, match=words):
            read_proxied("learner[0]", table, ["fake"])


def test_the_price_of_a_conversation_is_the_mean_of_its_turns_and_only_the_first_has_nothing_cached():
    settings = read_proxied("learner[0]", learner(), ["fake"])
    price = Price(input=10.0, cached=1.0, output=0.0)
    stages = [stage.model_copy(update={"price": price}) for stage in settings.stages]
    priced = settings.model_copy(update={"stages": stages})
    first = prices_expected(priced, Invoice(3), 4_000_000)[0]
    assert first == pytest.approx(10.0)
    assert prices_expected(priced, Invoice(3), 4_000_000, 8)[0] == pytest.approx((10.0 + 7 * 1.0) / 8)


def test_a_switch_costs_the_prompt_that_is_not_cached():
    settings = read_proxied("learner[0]", learner(), ["fake"])
    stage = settings.stages[2].model_copy(update={"price": Price(input=10.0, cached=1.0, output=0.0)})
    assert switching(stage, 4_000_000) == pytest.approx(9.0)
    assert switching(settings.stages[2], 4_000_000) == 0.0


@pytest.mark.parametrize(
    "given", [{"key": "cookie"}, {"key": "header:"}, {"key": "first", "ttl": 0}, "first"]
)
def test_what_is_no_conversation_is_refused(given):
    with pytest.raises(ValueError, match="conversation"):
        read_proxied("learner[0]", learner(conversation=given), ["fake"])
