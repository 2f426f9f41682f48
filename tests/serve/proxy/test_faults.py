"""Upstreams with every fault: retried, then another stage, and never a clean end of half an answer. T13."""

import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.raw_http import QUESTION, RIGHT, ask
from tests.rig.upstreams import (
    KEY,
    LONG,
    MODELS,
    NOBODY,
    Running,
    calling,
    gated,
    learner,
    make_proxy,
    world,
)

from weakfeedback.serve.proxy.fake import FakeModel

ALL_RIGHT = {name: FakeModel(name, 1.0) for name in MODELS}
CHUNKS = 8  # of a streamed answer: role, four words, finish, usage, [DONE]


@pytest.fixture(scope="module")
def here():
    with world(models=ALL_RIGHT, retries=1, make_decider=calling(1)) as found:
        yield found


def hurried(stage, **limits):
    """A world whose proxy waits for the answer of this stage only so long."""
    table = learner()
    table["stage"][stage]["upstream"] = "hurried"
    return world(table, models=ALL_RIGHT, retries=1, make_decider=calling(1), hurried={**LONG, **limits})


@pytest.fixture(autouse=True)
def _fresh(here):
    here.drain()
    here.decider.told.clear()
    here.fake.seen.clear()
    here.fake.faults.clear()
    here.fake.always.clear()


def told_of(here, kind):
    here.drain()
    return [entry for entry in here.decider.told if entry[0] == kind]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", ["429:0.05", "429", "408", "500", "502", "503", "504", "broken", "cut:0"])
def test_a_fault_that_passes_is_retried_at_the_same_stage(here, fault, stream):
    here.fake.faults["medium-2"] = [fault]
    got = ask(here.url, stream)
    assert got.status == 200
    assert got.headers["x-weakfeedback-stage"] == "1"
    assert "x-weakfeedback-fallback" not in got.headers
    assert [seen.model for seen in here.fake.seen] == ["medium-2", "medium-2"]
    assert (
        (got.clean and got.text == RIGHT) if stream else got.data["choices"][0]["message"]["content"] == RIGHT
    )
    assert not told_of(here, "cancel")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        ("500", 2),
        ("429", 2),
        ("429:60", 1),
        ("redirect", 1),
        ("gzip", 1),
        ("broken", 2),
        ("deep", 2),
        ("cut:0", 2),
    ],
)
def test_a_fault_that_stays_leads_to_the_next_later_stage(here, fault, calls, stream):
    check_next_stage(here, fault, calls, stream)


@pytest.mark.parametrize("stream", [False, True])
def test_no_answer_in_time_leads_to_the_next_later_stage(stream):
    with hurried(1, first_byte=2.0, total=2.0) as here:
        check_next_stage(here, "hang", 1, stream)


def check_next_stage(here, fault, calls, stream):
    here.fake.always["medium-2"] = fault
    before = here.proxy.account("support")["fallbacks"]
    got = ask(here.url, stream)
    assert got.status == 200
    assert got.headers["x-weakfeedback-fallback"] == "medium>large"
    assert got.headers["x-weakfeedback-stage"] == "2"
    assert [seen.model for seen in here.fake.seen] == ["medium-2"] * calls + ["large-5"]
    assert (
        (got.clean and got.text == RIGHT) if stream else got.data["choices"][0]["message"]["content"] == RIGHT
    )
    assert [entry[3] for entry in told_of(here, "cancel")] == ["fallback"]
    assert here.proxy.account("support")["fallbacks"] == before + 1


@pytest.mark.parametrize("stream", [False, True])
def test_then_come_earlier_stages_and_in_the_end_an_error(here, stream):
    here.fake.always |= {"medium-2": "500", "large-5": "500"}
    got = ask(here.url, stream)
    assert got.headers["x-weakfeedback-fallback"] == "medium>large>small"
    here.fake.always["small-7b"] = "500"
    got = ask(here.url, stream)
    assert got.status == 502
    assert got.data["error"]["code"] == "upstream_failed"
    assert got.data["error"]["message"].endswith("medium, large, small")
    assert len(told_of(here, "cancel")) == 2
    assert "127.0.0.1" not in got.body.decode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", ["401", "403", "404"])
def test_a_wrong_key_or_a_removed_model_leads_to_another_stage(here, status, stream, caplog):
    """It is a fault of the configuration, not of the request: nothing is asked twice, and the log says it once."""
    here.fake.always["medium-2"] = status
    before = here.proxy.account("support")["stages"][1]["errors"].get(status, 0)
    with caplog.at_level("WARNING", "weakfeedback.serve"):
        for _ in range(3):
            got = ask(here.url, stream)
            assert got.status == 200
            assert got.headers["x-weakfeedback-fallback"] == "medium>large"
            assert got.clean if stream else got.data["choices"][0]["message"]["content"] == RIGHT
        assert [seen.model for seen in here.fake.seen] == ["medium-2", "large-5"] * 3
        assert here.proxy.account("support")["stages"][1]["errors"][status] == before + 3
        here.fake.always.clear()
        assert ask(here.url, stream).headers["x-weakfeedback-stage"] == "1"
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert f"upstream fake answers {status} for medium" in said[0]
    assert said[1].endswith("answers for medium again")
    assert KEY not in " ".join(said)


@pytest.mark.parametrize("stream", [False, True])
def test_if_all_keys_are_wrong_it_is_a_fault_of_the_server(here, stream):
    here.fake.always |= dict.fromkeys(MODELS, "401")
    got = ask(here.url, stream)
    assert got.status == 502
    assert got.data["error"]["code"] == "upstream_failed"


def test_a_plain_answer_that_is_too_large_is_not_taken(here):
    here.fake.always["medium-2"] = "huge"
    got = ask(here.url)
    assert got.headers["x-weakfeedback-fallback"] == "medium>large"
    assert len(got.body) < 10_000


@pytest.mark.parametrize("fault", ["stall:0", "cut:0"])
def test_a_plain_answer_that_breaks_off_is_not_taken(fault):
    with hurried(1, total=1.0) as here:
        here.fake.always["medium-2"] = fault
        got = ask(here.url)
        assert got.headers["x-weakfeedback-fallback"] == "medium>large"
        assert got.data["choices"][0]["message"]["content"] == RIGHT


@pytest.mark.parametrize("at", range(1, CHUNKS))
@pytest.mark.parametrize("kind", ["cut", "broken", "error-event"])
def test_a_stream_that_breaks_after_its_first_byte_ends_in_an_error(here, kind, at):
    check_cut(here, kind, at)


@pytest.fixture(scope="module")
def impatient():
    with hurried(1, chunk=0.8) as found:
        yield found


@pytest.mark.parametrize("at", range(1, CHUNKS))
def test_a_stream_that_stalls_after_its_first_byte_ends_in_an_error(impatient, at):
    impatient.decider.told.clear()
    impatient.fake.seen.clear()
    check_cut(impatient, "stall", at)


def check_cut(here, kind, at):
    here.fake.faults["medium-2"] = [f"{kind}:{at}"]
    got = ask(here.url, True)
    assert got.status == 200
    assert not got.clean
    assert b"[DONE]" not in got.body
    assert got.error["code"] == "stream_cut"
    assert got.error["type"] == "upstream_error"
    assert RIGHT.startswith(got.text)
    ((_, _, spending, reason),) = told_of(here, "cancel")
    assert reason == "the stream was cut"
    assert spending.tokens[0] > 0
    assert (spending.total > 0) == bool(got.text)
    assert len(here.fake.seen) == 1  # nothing is called again after the first byte


@pytest.mark.parametrize("fault", ["no-done", "no-finish", "huge"])
def test_a_stream_without_a_proper_end_ends_in_an_error(here, fault):
    here.fake.faults["medium-2"] = [fault]
    got = ask(here.url, True)
    assert got.status == 200
    assert not got.clean
    assert got.error["code"] == "stream_cut"


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("fault", ["ok", "usage-with-finish", "no-usage"])
def test_usage_is_understood_wherever_it_stands(here, fault, asked):
    here.fake.faults["medium-2"] = [fault]
    before = here.proxy.account("support")["stages"][1]
    more = {"stream_options": {"include_usage": True}} if asked else {}
    got = ask(here.url, True, **more)
    here.drain()
    after = here.proxy.account("support")["stages"][1]
    assert got.clean
    assert got.text == RIGHT
    assert ('"usage"' in got.body.decode()) == (asked and fault != "no-usage")
    assert after["tokens"]["output"] - before["tokens"]["output"] == (5 if fault == "no-usage" else 20)
    assert after["estimated"] - before["estimated"] == (fault == "no-usage")
    assert after["tokens"]["input"] - before["tokens"]["input"] == len(QUESTION) // 4


def test_a_plain_answer_without_usage_is_estimated(here):
    here.fake.faults["medium-2"] = ["no-usage"]
    got = ask(here.url)
    assert got.data["weakfeedback"]["cost"] == pytest.approx(5 * 1000e-6)


def test_a_server_that_refuses_connections_leads_to_another_one():
    tables = learner()
    tables["stage"][1]["upstream"] = "dead"

    running = Running()
    try:
        fake = FakeUpstream(ALL_RIGHT)
        dead = {"dead": {"url": f"http://127.0.0.1:{NOBODY}", "retries": 1}}
        proxy, _ = make_proxy([tables], running.serve(fake), 1, calling(1), dead)
        port = running.serve(gated(proxy))
        got = ask(f"http://127.0.0.1:{port}/v1")
        assert got.headers["x-weakfeedback-fallback"] == "medium>large"
        assert proxy.account("support")["stages"][1]["errors"] == {"connection": 2}
        running.call(proxy.close(1.0))
    finally:
        running.close()


# -- requests that are compared


@pytest.fixture
def compared(here):
    here.decider.forced = (0, 1)
    yield here
    here.decider.forced = (1,)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", ["500", "broken", "401", "huge"])
def test_a_failed_comparison_costs_the_comparison_not_the_answer(compared, fault, stream):
    check_comparison(compared, fault, stream)


@pytest.mark.parametrize("stream", [False, True])
def test_a_comparison_without_an_answer_costs_the_comparison_not_the_answer(stream):
    with hurried(0, first_byte=2.0, total=2.0) as here:
        here.decider.forced = (0, 1)
        check_comparison(here, "hang", stream)


def check_comparison(compared, fault, stream):
    compared.fake.always["small-7b"] = fault
    got = ask(compared.url, stream)
    assert got.status == 200
    assert got.headers["x-weakfeedback-compared"] == "yes"
    assert "x-weakfeedback-fallback" not in got.headers
    ((_, _, spending, reason),) = told_of(compared, "cancel")
    assert reason == "comparison failed"
    assert spending.costs[1] == pytest.approx(0.02)
    assert not told_of(compared, "feedback")


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_there_is_used_when_all_later_ones_fail(compared, stream):
    compared.fake.always |= {"medium-2": "500", "large-5": "500"}
    got = ask(compared.url, stream)
    assert got.status == 200
    assert got.headers["x-weakfeedback-fallback"] == "medium>large>small"
    assert [seen.model for seen in compared.fake.seen].count("small-7b") == 1
    assert (
        (got.clean and got.text == RIGHT) if stream else got.data["choices"][0]["message"]["content"] == RIGHT
    )
    assert len(told_of(compared, "cancel")) == 1


def test_a_stream_that_breaks_off_teaches_nothing(compared):
    compared.fake.faults["medium-2"] = ["cut:3"]
    assert not ask(compared.url, True).clean
    assert len(told_of(compared, "cancel")) == 1
    assert not told_of(compared, "feedback")
