"""The protocols beside chat, with the real clients: what they say is what the models said, and nothing else runs."""

import json

import anthropic
import openai
import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.processes import PATIENCE
from tests.rig.raw_http import QUESTION, RIGHT
from tests.rig.upstreams import MODELS, learner, world

LARGE = {"x-weakfeedback-stage": "large"}
TOOL = {
    "type": "function",
    "name": "note",
    "parameters": {"type": "object", "properties": {}},
    "strict": True,
}
THEIRS = {"name": "note", "description": "Keep it.", "input_schema": {"type": "object", "properties": {}}}
PIXEL = "iVBORw0KGgo="


@pytest.fixture(scope="module")
def here():
    with world(learner(passthrough=True)) as found:
        yield found


OPENED = []


@pytest.fixture(autouse=True)
def _closed():
    yield
    while OPENED:
        OPENED.pop().close()


def client(here, theirs):
    """The client of a package."""
    url = here.url if theirs is openai else here.url.removesuffix("/v1")
    make = openai.OpenAI if theirs is openai else anthropic.Anthropic
    OPENED.append(make(base_url=url, api_key="any", max_retries=0, timeout=PATIENCE))
    return OPENED[-1]


def by_openai(here, **more):
    given = {"model": "support", "input": QUESTION, "extra_headers": LARGE}
    return client(here, openai).responses.create(**given | more)


def by_anthropic(here, **more):
    messages = [{"role": "user", "content": QUESTION}]
    given = {"model": "support", "max_tokens": 50, "messages": messages, "extra_headers": LARGE}
    return client(here, anthropic).messages.create(**given | more)


def sent(here):
    """The body of the last call upstream."""
    return here.fake.seen[-1].body


class Short(FakeUpstream):
    """Models that are stopped by a limit."""

    def completion(self, name, body):
        made = super().completion(name, body)
        made["choices"][0]["finish_reason"] = "length"
        return made


class Thinking(FakeUpstream):
    """Models that think and have a cache, or that say so in an odd way."""

    def completion(self, name, body):
        made = super().completion(name, body)
        said = [{"cached_tokens": 3}, {"reasoning_tokens": 16}] if name == "large-5" else ["none", {}]
        made["usage"] |= dict(zip(("prompt_tokens_details", "completion_tokens_details"), said, strict=True))
        return made


# -- /v1/responses


def test_responses_answer_as_the_model_does(here):
    found = by_openai(here, instructions="Be brief.", max_output_tokens=50, temperature=0.5)
    assert found.output_text == RIGHT
    assert (found.status, found.model) == ("completed", "large-5")
    assert (found.usage.input_tokens, found.usage.output_tokens, found.usage.total_tokens) == (4, 20, 24)
    assert found.weakfeedback["stage"] == 2
    assert sent(here) == {
        "model": "large-5",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}],
        "max_completion_tokens": 50,
        "temperature": 0.5,
    }


def test_a_conversation_of_responses_with_a_function(here):
    asked = [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}]}]
    first = by_openai(here, input=asked, tools=[TOOL], tool_choice={"type": "function", "name": "note"})
    (call,) = first.output
    assert (call.type, call.name) == ("function_call", "note")
    assert json.loads(call.arguments) == {"value": RIGHT}
    function = {name: TOOL[name] for name in ("name", "parameters", "strict")}
    assert sent(here)["tools"] == [{"type": "function", "function": function}]
    assert sent(here)["tool_choice"] == {"type": "function", "function": {"name": "note"}}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "noted"}
    by_openai(here, input=[*asked, call.model_dump(exclude_none=True), result])
    said = sent(here)["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "tool"]
    assert said[1]["tool_calls"][0]["id"] == said[2]["tool_call_id"] == call.call_id
    assert said[1]["tool_calls"][0]["function"] == {"name": "note", "arguments": call.arguments}


def test_responses_with_json_and_an_image(here):
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "low"}
    asked = [{"role": "user", "content": [{"type": "input_text", "text": QUESTION}, image]}]
    found = by_openai(here, input=asked, text={"format": form}, reasoning={"effort": "low"})
    assert json.loads(found.output_text) == {"answer": "391"}
    told = sent(here)
    assert told["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
    }
    assert told["messages"][0]["content"][1]["image_url"] == {"url": image["image_url"], "detail": "low"}
    assert told["reasoning_effort"] == "low"


@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["text", "function"])
def test_a_stream_of_responses_adds_up_to_the_answer(here, tools):
    events = list(by_openai(here, stream=True, tools=tools))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:3]] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
    ]
    last = events[-1]
    assert last.type == "response.completed"
    assert last.response.usage.output_tokens == 20
    assert last.response.weakfeedback["cost"] > 0
    deltas = "".join(event.delta for event in events if event.type.endswith(".delta"))
    assert sum(event.type.endswith(".delta") for event in events) >= 2
    said = last.response.output[0].arguments if tools else last.response.output_text
    assert deltas == said
    assert (json.loads(said)["value"] if tools else said) == RIGHT
    assert "stream_options" in sent(here)


def test_the_streaming_helper_of_openai_understands_every_event(here):
    with client(here, openai).responses.stream(
        model="support", input=QUESTION, tools=[TOOL], extra_headers=LARGE
    ) as stream:
        found = stream.until_done().get_final_response()
    assert found.output[0].parsed_arguments == {"value": RIGHT}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_what_was_thought_and_read_from_a_cache_is_told(stream):
    with world(fake=Thinking(MODELS)) as there:
        told = {}
        for stage in ("large", "small"):
            found = by_openai(there, stream=stream, extra_headers={"x-weakfeedback-stage": stage})
            usage = (list(found)[-1].response if stream else found).usage
            assert usage.output_tokens == 20
            told[stage] = (
                usage.input_tokens_details.cached_tokens,
                usage.output_tokens_details.reasoning_tokens,
            )
    assert told == {"large": (3, 16), "small": (0, 0)}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"previous_response_id": "resp_1"}, "nothing is stored, send the earlier messages in input"),
        ({"store": True}, "store must be false"),
        ({"background": True}, "background must be false"),
        ({"tools": [{"type": "web_search"}]}, r"tools\[0\].type must be function"),
        ({"input": [{"type": "reasoning", "id": "r", "summary": []}]}, r"input\[0\].type must be message"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "must be input_text"),
        ({"extra_body": {"n": 2}}, "unknown parameter: n"),
        ({"extra_body": {"verbosity": "low"}}, "unknown parameter: verbosity"),
        ({"input": []}, "messages must be a list of messages"),
    ],
)
def test_what_responses_do_not_speak_gets_a_sentence(here, asked, words):
    with pytest.raises(openai.BadRequestError, match=words) as caught:
        by_openai(here, **asked)
    assert caught.value.response.json()["error"].keys() == {"message", "type", "param", "code"}


# -- /v1/messages


def test_messages_answer_as_the_model_does(here):
    found = by_anthropic(here, system="Be brief.", stop_sequences=["END"], metadata={"user_id": "u"})
    assert [block.text for block in found.content] == [RIGHT]
    assert (found.stop_reason, found.model, found.role) == ("end_turn", "large-5", "assistant")
    assert (found.usage.input_tokens, found.usage.output_tokens) == (4, 20)
    assert found.weakfeedback["stage"] == 2
    assert sent(here) == {
        "model": "large-5",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": QUESTION}],
        "max_completion_tokens": 50,
        "stop": ["END"],
        "user": "u",
    }


def test_a_conversation_of_messages_with_a_tool(here):
    asked = [{"role": "user", "content": QUESTION}]
    choice = {"type": "any", "disable_parallel_tool_use": True}
    first = by_anthropic(here, tools=[THEIRS], tool_choice=choice)
    (call,) = first.content
    assert (first.stop_reason, call.type, call.name, call.input) == (
        "tool_use",
        "tool_use",
        "note",
        {"value": RIGHT},
    )
    told = sent(here)
    assert (told["tool_choice"], told["parallel_tool_calls"]) == ("required", False)
    assert told["tools"][0]["function"] == {
        "name": "note",
        "description": "Keep it.",
        "parameters": THEIRS["input_schema"],
    }
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "noted"}]}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    after = [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result, image]}]
    by_anthropic(here, messages=asked + after)
    said = sent(here)["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "user"]
    assert said[1]["tool_calls"][0]["id"] == said[2]["tool_call_id"] == call.id
    assert json.loads(said[1]["tool_calls"][0]["function"]["arguments"]) == {"value": RIGHT}
    assert said[2]["content"] == "noted"
    assert said[3]["content"] == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    ]


@pytest.mark.parametrize("tools", [[], [THEIRS]], ids=["text", "tool"])
def test_a_stream_of_messages_adds_up_to_the_answer(here, tools):
    given = {"model": "support", "max_tokens": 50, "messages": [{"role": "user", "content": QUESTION}]}
    with client(here, anthropic).messages.stream(**given, tools=tools, extra_headers=LARGE) as stream:
        kinds = [event.type for event in stream]
        found = stream.get_final_message()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    assert kinds.count("content_block_delta") >= 2
    assert found.usage.output_tokens == 20
    assert found.stop_reason == ("tool_use" if tools else "end_turn")
    block = found.content[0]
    assert (block.input["value"] if tools else block.text) == RIGHT


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking must be disabled"),
        (
            {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
            r"tools\[0\].type must be custom",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "document"}]}]},
            "must be text, image, tool_use",
        ),
        ({"extra_body": {"top_k": 5}}, "unknown parameter: top_k"),
        ({"messages": []}, "messages must be a list of messages"),
    ],
)
def test_what_messages_do_not_speak_gets_a_sentence(here, asked, words):
    with pytest.raises(anthropic.BadRequestError, match=words) as caught:
        by_anthropic(here, **asked)
    assert caught.value.response.json()["error"]["type"] == "invalid_request_error"


# -- both


@pytest.mark.parametrize(
    ("ask", "theirs"), [(by_openai, openai), (by_anthropic, anthropic)], ids=["responses", "messages"]
)
class TestBoth:
    def test_an_answer_is_learned_from_and_counted_once(self, ask, theirs):
        with world() as there:
            for _ in range(3):
                ask(there, extra_headers={})
            there.drain()
            assert there.decider.kinds().count("decide") == 3
            assert there.decider.invoices["support"].summary()["requests"] == 3

    def test_an_unknown_model_names_those_that_exist(self, ask, theirs, here):
        words = (
            "'suport' does not exist; there are: support, small-7b, medium-2, large-5; did you mean support"
        )
        with pytest.raises(theirs.NotFoundError, match=words):
            ask(here, model="suport")

    def test_passthrough_lets_a_client_name_a_model(self, ask, theirs, here):
        before = len(here.decider.told)
        found = ask(here, model="medium-2", extra_headers={})
        here.drain()
        assert found.model == "medium-2"
        assert [entry[0] for entry in here.decider.told[before:]] == ["serve"]

    def test_a_length_is_told(self, ask, theirs):
        with world(fake=Short(MODELS)) as there:
            found = ask(there)
        if theirs is openai:
            assert (found.status, found.incomplete_details.reason) == ("incomplete", "max_output_tokens")
        else:
            assert found.stop_reason == "max_tokens"

    def test_a_cut_stream_raises(self, ask, theirs, here):
        here.fake.faults["large-5"] = ["cut:3"]
        with pytest.raises(theirs.APIError, match="cut in the middle"):
            list(ask(here, stream=True))

    def test_a_refusal_of_the_upstream_is_passed_on(self, ask, theirs, here):
        here.fake.faults["large-5"] = ["400"]
        with pytest.raises(theirs.BadRequestError, match="no, said"):
            ask(here)

    def test_an_upstream_that_is_down_is_an_error_of_the_server(self, ask, theirs):
        with (
            world(dead=True, retries=0) as there,
            pytest.raises(theirs.InternalServerError, match="no upstream answered"),
        ):
            ask(there)


def test_other_paths_get_a_sentence(here):
    ours, theirs = client(here, openai), client(here, anthropic)
    words = "is not spoken here; there are /v1/chat/completions, /v1/responses, /v1/messages and /v1/models"
    with pytest.raises(openai.NotFoundError, match=f"/v1/embeddings {words}"):
        ours.embeddings.create(model="support", input="x")
    with pytest.raises(openai.NotFoundError, match=words):
        ours.responses.retrieve("resp_1")
    with pytest.raises(anthropic.NotFoundError, match=words):
        theirs.messages.count_tokens(model="support", messages=[{"role": "user", "content": "x"}])


def test_models_that_may_be_named_are_listed(here):
    found = {model.id: model.owned_by for model in client(here, openai).models.list().data}
    assert found == {"support": "weakfeedback", "small-7b": "fake", "medium-2": "fake", "large-5": "fake"}
