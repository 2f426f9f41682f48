"""The real OpenAI client, through the proxy as against a plain upstream: T12."""

import asyncio
import json

import openai
import orjson
import pytest
from tests.rig import fake
from tests.rig.fake import streamed
from tests.rig.processes import PATIENCE
from tests.rig.raw_http import RIGHT
from tests.rig.upstreams import learner, world

QUESTION = [{"role": "user", "content": "What is 17 * 23?"}]
TOOL = {"type": "function", "function": {"name": "note", "parameters": {"type": "object", "properties": {}}}}


def client(url, **more):
    return openai.OpenAI(base_url=url, api_key="any", max_retries=0, timeout=PATIENCE, **more)


@pytest.fixture(scope="module")
def here():
    with world() as found:
        yield found


def plain_and_proxied(here, **asked):
    """The same question to the upstream itself and through the proxy, which is made to answer by that model."""
    direct = client(here.upstream_url).chat.completions.create(model="large-5", messages=QUESTION, **asked)
    headers = {"x-weakfeedback-stage": "large"}
    through = client(here.url).chat.completions.create(
        model="support", messages=QUESTION, extra_headers=headers, **asked
    )
    return direct, through


def without_note(model):
    found = model.model_dump()
    found.pop("weakfeedback", None)
    return found


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"temperature": 0.5, "max_tokens": 50, "seed": 3, "user": "u"},
        {"tools": [TOOL], "tool_choice": "auto"},
        {"response_format": {"type": "json_object"}},
        {"logprobs": True},
        {"n": 3},
    ],
    ids=["plain", "options", "tools", "json", "logprobs", "n"],
)
def test_plain_answers_are_those_of_the_upstream(here, asked):
    direct, through = plain_and_proxied(here, **asked)
    assert without_note(direct) == without_note(through)
    assert through.weakfeedback["stage"] == 2


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"stream_options": {"include_usage": True}},
        {"tools": [TOOL]},
        {"response_format": {"type": "json_object"}},
        {"logprobs": True, "stream_options": {"include_usage": True}},
        {"n": 2},
    ],
    ids=["plain", "usage", "tools", "json", "logprobs", "n"],
)
def test_streams_are_those_of_the_upstream_chunk_by_chunk(here, asked):
    direct, through = plain_and_proxied(here, stream=True, **asked)
    expected, found = list(direct), list(through)
    assert [without_note(chunk) for chunk in expected] == [without_note(chunk) for chunk in found]
    assert len(found) >= 3
    if "stream_options" in asked:
        assert found[-1].usage.completion_tokens == 20
        assert found[-1].weakfeedback["cost"] > 0
    else:
        assert all(chunk.usage is None for chunk in found)


@pytest.mark.parametrize("told", [None, True, False])
def test_what_an_upstream_adds_to_hide_lengths_can_be_left_out(here, monkeypatch, told):
    def padded(*given):
        chunks = [orjson.loads(chunk) for chunk in streamed(*given)[:-1]]
        return [*(orjson.dumps({**chunk, "obfuscation": "x9"}) for chunk in chunks), b"[DONE]"]

    monkeypatch.setattr(fake, "streamed", padded)
    asked = {} if told is None else {"stream_options": {"include_obfuscation": told}}
    direct, through = plain_and_proxied(here, stream=True, **asked)
    direct.close()
    found = list(through)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in found) == RIGHT
    assert {getattr(chunk, "obfuscation", None) for chunk in found} == ({None} if told is False else {"x9"})


@pytest.mark.parametrize("stream", [False, True])
async def test_the_asynchronous_client_gets_the_same(here, stream):
    asks = [{}, {"tools": [TOOL]}, {"response_format": {"type": "json_object"}}]
    if stream:
        asks.append({"stream_options": {"include_usage": True}})

    async def one(asker, model, asked, headers=None):
        found = await asker.chat.completions.create(
            model=model, messages=QUESTION, stream=stream, extra_headers=headers, **asked
        )
        return [without_note(chunk) async for chunk in found] if stream else without_note(found)

    options = {"api_key": "any", "max_retries": 0, "timeout": PATIENCE}
    async with (
        openai.AsyncOpenAI(base_url=here.upstream_url, **options) as direct,
        openai.AsyncOpenAI(base_url=here.url, **options) as through,
    ):
        for asked in asks:
            expected = await one(direct, "large-5", asked)
            assert await one(through, "support", asked, {"x-weakfeedback-stage": "large"}) == expected
        with pytest.raises(openai.NotFoundError):
            await one(through, "nobody", {})


def test_upstreams_are_always_asked_for_usage(here):
    list(client(here.url).chat.completions.create(model="support", messages=QUESTION, stream=True))
    here.drain()
    asked = [
        seen for seen in here.fake.seen if seen.body.get("stream") and "x-stainless-lang" not in seen.headers
    ]
    assert asked
    assert all(seen.body["stream_options"] == {"include_usage": True} for seen in asked)


def test_a_raw_answer_has_the_headers_of_the_decision(here):
    raw = client(here.url).chat.completions.with_raw_response.create(model="support", messages=QUESTION)
    told = {name: value for name, value in raw.headers.items() if name.startswith("x-weakfeedback-")}
    assert told["x-weakfeedback-learner"] == "support"
    assert told["x-weakfeedback-learning"] == "on"
    assert int(told["x-weakfeedback-decision"]) >= 1
    assert told["x-weakfeedback-compared"] in ("yes", "no")
    assert float(told["x-weakfeedback-cost"]) == pytest.approx(raw.parse().weakfeedback["cost"], rel=1e-5)


def test_models_are_learners(here):
    found = client(here.url).models.list()
    assert [model.id for model in found.data] == ["support"]
    assert client(here.url).models.retrieve("support").owned_by == "weakfeedback"
    with pytest.raises(openai.NotFoundError):
        client(here.url).models.retrieve("nobody")


@pytest.mark.parametrize(
    ("asked", "kind", "code"),
    [
        ({"model": "nobody"}, openai.NotFoundError, "model_not_found"),
        ({"extra_body": {"api_base": "http://10.0.0.9"}}, openai.BadRequestError, "unknown_parameter"),
        ({"extra_body": {"base_url": "http://10.0.0.9"}}, openai.BadRequestError, "unknown_parameter"),
        ({"extra_headers": {"x-weakfeedback-stage": "7"}}, openai.BadRequestError, "bad_value"),
        ({"extra_headers": {"x-weakfeedback-learn": "perhaps"}}, openai.BadRequestError, "bad_value"),
        ({"messages": []}, openai.BadRequestError, "bad_value"),
        ({"n": 0}, openai.BadRequestError, "bad_value"),
        ({"stream_options": {"x": 1}, "stream": True}, openai.BadRequestError, "bad_value"),
        (
            {"stream_options": {"include_obfuscation": 1}, "stream": True},
            openai.BadRequestError,
            "bad_value",
        ),
    ],
)
def test_errors_have_openais_form(here, asked, kind, code):
    with pytest.raises(kind) as caught:
        client(here.url).chat.completions.create(**{"model": "support", "messages": QUESTION, **asked})
    assert caught.value.code == code
    assert caught.value.response.json()["error"].keys() == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, openai.BadRequestError),
        (422, openai.UnprocessableEntityError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_refusals_of_an_upstream_are_passed_on_without_its_address(here, status, kind, stream):
    here.fake.faults["large-5"] = [str(status)]
    with pytest.raises(kind) as caught:
        client(here.url).chat.completions.create(
            model="support", messages=QUESTION, stream=stream, extra_headers={"x-weakfeedback-stage": "large"}
        )
    assert caught.value.code == "bad_thing"
    assert "127.0.0.1" not in caught.value.message
    assert here.fake.faults["large-5"] == []


def test_a_timeout_of_the_client_is_its_own():
    with world() as here:
        here.fake.always["large-5"] = "hang"
        with pytest.raises(openai.APITimeoutError):
            client(here.url).with_options(timeout=0.3).chat.completions.create(
                model="support", messages=QUESTION, extra_headers={"x-weakfeedback-stage": "large"}
            )


def test_a_cut_stream_raises_in_the_client(here):
    here.fake.faults["large-5"] = ["cut:3"]
    stream = client(here.url).chat.completions.create(
        model="support", messages=QUESTION, stream=True, extra_headers={"x-weakfeedback-stage": "large"}
    )
    with pytest.raises(openai.APIError) as caught:
        list(stream)
    assert caught.value.code == "stream_cut"


async def test_the_asynchronous_client_a_hundred_at_a_time(here):
    async def ask(asker, k):
        messages = [{"role": "user", "content": f"What is {k} * 3?"}]
        if k % 2:
            found = await asker.chat.completions.create(model="support", messages=messages)
            return found.choices[0].message.content
        stream = await asker.chat.completions.create(model="support", messages=messages, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async with openai.AsyncOpenAI(base_url=here.url, api_key="any", max_retries=0, timeout=PATIENCE) as asker:
        said = await asyncio.gather(*(ask(asker, k) for k in range(100)))
    here.drain()
    assert all(text.startswith("The answer is ") and text.endswith(".") for text in said)
    right = sum(text == f"The answer is {3 * k}." for k, text in enumerate(said))
    # the worst model is right 80 times of 100, but the first 50 are answered by better ones
    assert right >= 85


def test_tools_arrive_whole_in_a_stream(here):
    stream = client(here.url).chat.completions.create(
        model="support", messages=QUESTION, stream=True, tools=[TOOL]
    )
    parts = [call for chunk in stream for call in (chunk.choices[0].delta.tool_calls or [])]
    assert parts[0].function.name == "note"
    assert "value" in json.loads("".join(part.function.arguments or "" for part in parts))


def test_an_upstream_that_is_down_is_an_error_of_the_server():
    with world(learner(), dead=True, retries=0) as here, pytest.raises(openai.InternalServerError) as caught:
        client(here.url).chat.completions.create(model="support", messages=QUESTION)
    assert caught.value.status_code == 502
    assert caught.value.code == "upstream_failed"
