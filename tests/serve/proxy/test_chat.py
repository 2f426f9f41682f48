"""What the proxy decides, calls and learns, request by request."""

import json

import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.raw_http import QUESTION, RIGHT, ask, body_of, connect, send
from tests.rig.upstreams import MODELS, ScriptedSteps, calling, learner, stage, world

from weakfeedback.serve.proxy import chat
from weakfeedback.serve.proxy.fake import FakeModel

ALL_RIGHT = {name: FakeModel(name, 1.0) for name in MODELS}
IMAGE = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": "data:,"}}]


@pytest.fixture(scope="module")
def here():
    with world(models=ALL_RIGHT, make_decider=calling(0, 1)) as found:
        yield found


@pytest.fixture(autouse=True)
def _fresh(here):
    here.drain()
    here.decider.told.clear()
    here.decider.off = False
    here.fake.seen.clear()


def kinds(here):
    here.drain()
    return [kind for kind in here.decider.kinds() if kind != "forced"]


@pytest.mark.parametrize("stream", [False, True])
def test_all_models_of_a_decision_are_called_and_compared(here, stream):
    got = ask(here.url, stream)
    assert got.headers["x-weakfeedback-compared"] == "yes"
    assert got.headers["x-weakfeedback-stage"] == "1"
    assert got.headers["x-weakfeedback-model"] == "medium-2"
    assert kinds(here) == ["decide", "feedback"]
    _, _, differ, far, spending = here.decider.told[-1]
    assert differ == []
    assert far == (0.0,)
    assert spending.costs == pytest.approx({0: 0.001, 1: 0.02})
    assert spending.tokens == (8, 0, 40)
    assert sorted(seen.model for seen in here.fake.seen) == ["medium-2", "small-7b"]


def test_nobody_waits_for_a_comparison():
    with world(models=ALL_RIGHT, make_decider=calling(0, 1)) as here:
        here.fake.held.add("small-7b")
        for stream in (False, True):
            ask(here.url, stream)
            assert "feedback" not in here.decider.kinds()
        here.fake.held.clear()
        assert kinds(here).count("feedback") == 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("value", ["2", "large"])
def test_a_forced_stage_answers_and_teaches_nothing(here, value, stream):
    got = ask(here.url, stream, {"x-weakfeedback-stage": value})
    assert got.headers["x-weakfeedback-stage"] == "2"
    assert got.headers["x-weakfeedback-compared"] == "no"
    assert "x-weakfeedback-decision" not in got.headers
    assert kinds(here) == ["serve"]
    assert here.decider.told[-1][1] == 2
    assert here.decider.told[-1][2].total == pytest.approx(0.15)


@pytest.mark.parametrize(
    "asked",
    [
        {"headers": {"x-weakfeedback-learn": "no"}},
        {"n": 2},
        {"messages": [{"role": "user", "content": IMAGE}]},
    ],
    ids=["learn: no", "n = 2", "image"],
)
def test_what_cannot_be_compared_is_served_by_the_settled_stage(here, asked):
    got = ask(here.url, **asked)
    assert got.status == 200
    assert kinds(here) == ["serve"]
    settled = here.decider.objects["support"].settled()
    assert got.headers["x-weakfeedback-stage"] == str(settled)


def test_images_go_to_a_stage_that_takes_them():
    table = learner()
    table["stage"][2]["images"] = True
    with world(table, models=ALL_RIGHT, make_decider=calling(0, 1)) as here:
        here.decider.objects["support"].warm_start([["a"] * 3] * 2000)
        assert here.decider.objects["support"].settled() == 0
        got = ask(here.url, messages=[{"role": "user", "content": IMAGE}])
        assert got.headers["x-weakfeedback-stage"] == "2"
        here.fake.always["large-5"] = "500"  # no stage that cannot see is asked instead
        got = ask(here.url, messages=[{"role": "user", "content": IMAGE}])
        assert got.status == 502
        assert {seen.model for seen in here.fake.seen} == {"large-5"}


def test_images_are_compared_where_all_stages_take_them():
    table = learner()
    for entry in table["stage"]:
        entry["images"] = True
    with world(table, models=ALL_RIGHT, make_decider=calling(0, 1)) as here:
        ask(here.url, messages=[{"role": "user", "content": IMAGE}])
        assert kinds(here) == ["decide", "feedback"]


def test_the_same_key_gets_the_same_stage_and_teaches_once(here):
    first = ask(here.url, headers={"Idempotency-Key": "one"})
    assert kinds(here) == ["decide", "feedback"]
    second = ask(here.url, headers={"Idempotency-Key": "one"})
    assert second.headers["x-weakfeedback-decision"] == first.headers["x-weakfeedback-decision"]
    assert second.headers["x-weakfeedback-stage"] == first.headers["x-weakfeedback-stage"]
    assert second.headers["x-weakfeedback-compared"] == "no"
    assert kinds(here) == ["decide", "feedback", "serve"]


@pytest.mark.parametrize("stream", [False, True])
def test_answers_do_not_stop_because_learning_does(here, stream):
    here.decider.off = True
    got = ask(here.url, stream)
    assert got.status == 200
    assert got.headers["x-weakfeedback-learning"] == "off"
    assert got.headers["x-weakfeedback-stage"] == "2"  # the fallback is the last stage
    assert kinds(here) == []


def test_unless_they_are_told_to():
    with world(learner(fail_open=False), models=ALL_RIGHT) as here:
        here.decider.off = True
        got = ask(here.url)
        assert got.status == 503
        assert got.data["error"]["code"] == "store_unavailable"
        assert here.fake.seen == []


def test_no_more_than_so_many_comparisons_wait(here, monkeypatch):
    monkeypatch.setattr(chat, "WAITING", 0)
    got = ask(here.url)
    assert got.status == 200
    assert kinds(here) == ["serve"]


def test_only_allowed_fields_go_upstream_and_the_operators_win():
    table = learner()
    table["stage"][0] |= {"params": {"temperature": 0}, "allow": ["min_p"]}
    with world(table, models=ALL_RIGHT, make_decider=calling(0, 1)) as here:
        more = {"min_p": 0.1, "temperature": 0.9, "metadata": {"a": "b"}, "stop": ["x"]}
        assert ask(here.url, headers={"Authorization": "Bearer mine", "X-Custom": "1"}, **more).status == 200
        here.drain()
        seen = {one.model: one for one in here.fake.seen}
        assert seen["small-7b"].body["temperature"] == 0
        assert seen["small-7b"].body["min_p"] == 0.1
        assert seen["medium-2"].body["temperature"] == 0.9
        assert "min_p" not in seen["medium-2"].body
        assert seen["medium-2"].body["metadata"] == {"a": "b"}
        for one in seen.values():
            assert "x-custom" not in one.headers
            assert "mine" not in one.headers.get("authorization", "")
        assert ask(here.url, top_k=3).status == 400


@pytest.mark.parametrize(
    ("raw", "kind", "status", "code"),
    [
        (b"{", "application/json", 400, "bad_json"),
        (b"[]", "application/json", 400, "bad_json"),
        (b"{}", "text/plain", 415, "unsupported_media_type"),
        (b"{}", "application/json", 400, "missing_model"),
        (b'{"model": "support", "messages": "x"}', "application/json", 400, "bad_value"),
    ],
)
def test_bodies_that_are_none(here, raw, kind, status, code):
    connection = connect(here.url)
    connection.request("POST", "/v1/chat/completions", raw, {"Content-Type": kind})
    answer = connection.getresponse()
    assert answer.status == status
    assert json.loads(answer.read())["error"]["code"] == code
    connection.close()


def test_a_body_that_is_too_large(here):
    connection = connect(here.url)
    try:
        send(connection, body_of(question="x" * (17 << 20)))
        answer = connection.getresponse()
        assert answer.status == 413
    except (BrokenPipeError, ConnectionResetError):
        pass  # it was closed before all of it was sent
    connection.close()
    assert here.fake.seen == []


def test_judges_and_embeddings_are_paid_and_in_the_accounts():
    compare = {"type": "judge", "upstream": "fake", "model": "judge", "price": {"input": 1, "output": 100}}

    def say(model, question):
        if model == "judge":
            return "yes" if "SAME" in question else "no"
        return f"{model} SAME"

    models = ALL_RIGHT | {"judge": FakeModel("judge", tokens=1)}
    fake = FakeUpstream(models, say=say)
    with world(learner(compare=compare), fake=fake, make_decider=calling(0, 1, 2)) as here:
        ask(here.url)
        here.drain()
        ((_, _, differ, far, spending),) = [entry for entry in here.decider.told if entry[0] == "feedback"]
        assert differ == []
        assert far is None
        assert spending.more > 2e-4
        assert here.decider.invoice("support").judge == spending.more
        here.fake.always["judge"] = "500"
        ask(here.url)
        here.drain()
        assert here.decider.told[-1][3] == "comparison failed"
    compare = {"type": "embedding", "upstream": "fake", "model": "e", "price": {"input": 1}}
    fake = FakeUpstream(models, say=lambda model, question: "alike" if model != "large-5" else "other words")
    with world(learner(compare=compare), fake=fake, make_decider=calling(0, 1, 2)) as here:
        ask(here.url)
        here.drain()
        far = here.decider.told[-1][3]
        assert far[0] == 0.0
        assert 0.0 < far[1] == far[2] <= 0.5


def test_prices_follow_the_tokens():
    """The small model says ten times as much as was expected: after 500 rounds its price is a new one."""
    models = ALL_RIGHT | {"small-7b": FakeModel("small-7b", 1.0, tokens=200)}
    with world(models=models, make_decider=calling(0)) as here:
        books = here.proxy._books["support"].prices
        books.rounds = 460
        for _ in range(41):
            ask(here.url)
        here.drain()
        ((_, prices),) = [entry for entry in here.decider.told if entry[0] == "recost"]
        assert prices == pytest.approx([0.01, 0.02, 0.15])
        assert books.stated == prices
        assert here.proxy.account("support")["stages"][0]["calls"] == 41


def test_accounts_are_signed_against_a_named_baseline(here):
    before = here.proxy.account("support")
    ask(here.url)
    here.drain()
    after = here.proxy.account("support")
    assert after["requests"] - before["requests"] == 1
    assert after["spent"] - before["spent"] == pytest.approx(0.021)
    assert after["saved"]["against"] == "large alone"
    assert after["saved"]["amount"] - before["saved"]["amount"] == pytest.approx(0.15 - 0.021)


# -- adaptive


def adaptive(last, models=None, table=None):
    table = table or learner(mode="adaptive", compare={"type": "text"})
    return world(table, models=models or ALL_RIGHT, make_decider=lambda proxied: ScriptedSteps(proxied, last))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("last", [0, 1, 2])
def test_an_adaptive_learner_decides_after_each_answer(last, stream):
    with adaptive(last) as here:
        more = {"stream_options": {"include_usage": True}} if stream else {}
        got = ask(here.url, stream, **more)
        assert got.headers["x-weakfeedback-stage"] == str(last)
        assert got.headers["x-weakfeedback-decision"] == "7"
        assert got.headers["x-weakfeedback-compared"] == ("yes" if last else "no")
        assert (
            (got.clean and got.text == RIGHT)
            if stream
            else got.data["choices"][0]["message"]["content"] == RIGHT
        )
        here.drain()
        told = [entry for entry in here.decider.told if entry[0] == "tell"]
        assert [entry[2] for entry in told] == [0] * (last + 1)  # all said the same
        assert all(0.8 <= entry[3] <= 1.0 for entry in told)
        assert [seen.model for seen in here.fake.seen] == list(MODELS)[: last + 1]
        assert all(seen.body["logprobs"] for seen in here.fake.seen)
        # only the stage that is known to be the last is streamed, and nobody sees what was not asked for
        assert [bool(seen.body.get("stream")) for seen in here.fake.seen] == [
            stream and k == 2 for k in range(last + 1)
        ]
        assert b'"logprob"' not in got.body
        assert (b'"usage"' in got.body) or not stream


def test_log_probabilities_that_were_asked_for_are_passed_on():
    with adaptive(1) as here:
        assert ask(here.url, logprobs=True).data["choices"][0]["logprobs"]["content"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_stage_of_an_adaptive_learner_that_fails(stream):
    with adaptive(2) as here:
        here.fake.always["medium-2"] = "400"  # not the first stage: the request was fine for that
        got = ask(here.url, stream)
        assert got.headers["x-weakfeedback-fallback"] == "medium>large"
        assert (got.clean and got.text == RIGHT) if stream else got.status == 200
        here.drain()
        assert [entry[3] for entry in here.decider.told if entry[0] == "cancel"] == ["failed"]
        here.fake.always |= {"medium-2": "500", "large-5": "500"}
        here.decider.told.clear()
        got = ask(here.url, stream)
        assert got.headers["x-weakfeedback-fallback"] == "medium>large>small"
        assert (got.clean and got.text == RIGHT) if stream else got.status == 200
        here.fake.always = {"small-7b": "400"}
        got = ask(here.url, stream)
        assert got.status == 400
        here.drain()
        assert len([entry for entry in here.decider.told if entry[0] == "cancel"]) == 2


def test_the_last_stage_of_an_adaptive_learner_that_breaks_off():
    with adaptive(2) as here:
        here.fake.always["large-5"] = "cut:3"
        got = ask(here.url, True)
        assert not got.clean
        here.drain()
        assert [entry[3] for entry in here.decider.told if entry[0] == "cancel"] == ["the stream was cut"]


# -- cascades and contexts


def test_a_cascade_calls_the_whole_prefix():
    table = learner(kind="cascade", prefix="always", compare={"type": "text"})
    with world(table, models=ALL_RIGHT) as here:
        for _ in range(5):
            ask(here.url)
        here.drain()
        calls = [entry[2] for entry in here.decider.told if entry[0] == "decide"]
        assert all(call == tuple(range(len(call))) for call in calls)
        for entry in here.decider.told:
            if entry[0] == "feedback":
                assert entry[2] == []


def test_a_contextual_learner_sees_features_of_the_request():
    features = [
        {"name": "prompt_tokens", "low": 1, "high": 100},
        "messages",
        "has_code",
        "has_tools",
        {"name": "header", "size": 2},
    ]
    table = learner(kind="contextual", features=features, compare={"type": "text"})
    with world(table, models=ALL_RIGHT, make_decider=calling(0)) as here:
        headers = {"x-weakfeedback-context": "[0.5, -1]"}
        tool = {"type": "function", "function": {"name": "f"}}
        ask(here.url, headers=headers, question="x" * 40)
        ask(here.url, headers=headers, question="```\nx\n```", tools=[tool])
        here.drain()
        one, two = [entry[3] for entry in here.decider.told if entry[0] == "decide"]
        assert one == pytest.approx([0.0, -1.0, -1.0, -1.0, 0.5, -1.0])
        assert two[2:] == [1.0, 1.0, 0.5, -1.0]
        for wrong in ("[0.5]", "[0.5, 2]", "x", '["a", 1]'):
            assert ask(here.url, headers={"x-weakfeedback-context": wrong}).status == 400
        assert ask(here.url).status == 400


def test_a_learner_of_one_stage():
    table = learner(stage=[stage("only", "large-5", 10.0)])
    with world(table, models=ALL_RIGHT) as here:
        assert ask(here.url).headers["x-weakfeedback-stage"] == "0"
        assert ask(here.url, True).clean
