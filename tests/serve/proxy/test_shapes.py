"""Answers of unusual shapes: billed by what they say they used, told as they are, or refused in words."""

import time

import openai
import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.processes import wait_until
from tests.rig.raw_http import ask, body_of, connect, send
from tests.rig.upstreams import calling, learner, world

from weakfeedback.serve.proxy.answers import answer_of
from weakfeedback.serve.proxy.fake import FakeModel, FakeModels
from weakfeedback.serve.proxy.messages import Messages
from weakfeedback.serve.proxy.prices import Tokens
from weakfeedback.serve.proxy.responses import Responses
from weakfeedback.serve.proxy.stream import Assembly, BrokenStream

MODELS = {name: FakeModel(name, 1.0, tokens=20) for name in ("small-7b", "medium-2", "large-5")}


class Shaped(FakeUpstream):
    """A model whose answers have a given shape."""

    shape = None

    def completion(self, name, body):
        made = FakeModels.completion(self, name, body)
        return {**made, **self.shape} if name == "large-5" else made


def billed(here):
    here.drain()
    return here.proxy.account("support")["stages"][2]


def test_answers_without_a_choice_are_billed_by_their_usage():
    fake = Shaped(MODELS)
    fake.shape = {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}
    with world(fake=fake, make_decider=calling(2)) as here:
        assert ask(here.url).headers["x-weakfeedback-fallback"] == "large>medium"
        line = billed(here)
    assert (line["tokens"]["input"], line["errors"]) == (1000, {"malformed": 1})
    assert line["spent"] == pytest.approx(10 * 7500e-6)


def test_all_choices_are_estimated_where_there_is_no_usage():
    with world(make_decider=calling(2)) as here:
        here.fake.always["large-5"] = "no-usage"
        outputs = []
        for n, stream in ((1, False), (4, False), (4, True)):
            assert ask(here.url, stream, n=n).status == 200
            outputs.append(billed(here)["tokens"]["output"])
    assert outputs[1] - outputs[0] == pytest.approx(4 * outputs[0], abs=4)
    assert outputs[2] - outputs[1] == outputs[1] - outputs[0]


def test_a_custom_tool_is_an_answer():
    call = {"id": "c", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    fake = Shaped(MODELS)
    fake.shape = {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    with world(fake=fake, make_decider=calling(2)) as here:
        got = ask(here.url)
        assert got.data["choices"][0]["message"]["tool_calls"] == [call]
        assert "x-weakfeedback-fallback" not in got.headers


def test_a_streamed_custom_tool_is_the_plain_one():
    chunks = [{"index": 0, "id": "c", "type": "custom", "custom": {"name": "sql", "input": ""}}]
    chunks += [{"index": 0, "custom": {"input": part}} for part in ("SELECT", " 1")]
    assembly = Assembly()
    for call in chunks:
        assembly.take({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]})
    plain = {"message": {"tool_calls": [{"type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}]}}
    assert assembly.answer() == answer_of({"choices": [plain]})


@pytest.mark.parametrize(
    "delta",
    [{"content": [{"type": "text"}]}, {"refusal": {}}, {"tool_calls": [{"function": {"arguments": {}}}]}],
)
def test_a_chunk_whose_text_is_none_breaks_the_stream(delta):
    with pytest.raises(BrokenStream, match="malformed"):
        Assembly().take({"choices": [{"index": 0, "delta": delta}]})


def test_calls_of_tools_without_numbers_of_their_own_stay_apart():
    call = {"index": 0, "type": "function", "function": {"name": "f", "arguments": "{}"}}
    calls = [{**call, "id": "a"}, {**call, "id": "b"}, {**call, "id": "c", "index": [None]}]
    choice = {"index": 0, "message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}
    for dialect in (Messages(), Responses()):
        dialect.read({"messages": [], "input": "x"} if isinstance(dialect, Messages) else {"input": "x"})
        told = dialect.whole({"model": "m", "choices": [choice, choice]}, Tokens(), {})
        blocks = told.get("content") or told["output"]
        assert [block.get("id") if "input" in block else block["call_id"] for block in blocks] == [
            "a",
            "b",
            "c",
        ]


def test_when_all_models_say_to_wait_the_client_hears_it():
    with world(retries=0, make_decider=calling(2)) as here:
        here.fake.always |= {"small-7b": "429:40", "medium-2": "429:30", "large-5": "429:50"}
        with openai.OpenAI(base_url=here.url, api_key="any", max_retries=0) as client:
            asked = {"model": "support", "messages": [{"role": "user", "content": "x"}]}
            with pytest.raises(openai.RateLimitError) as refused:
                client.chat.completions.create(**asked)
            assert refused.value.response.headers["retry-after"] == "30"
            here.fake.always["small-7b"] = "500"
            with pytest.raises(openai.InternalServerError):
                client.chat.completions.create(**asked)


def test_a_client_that_leaves_between_two_attempts_pays_for_nothing():
    """The model has refused the first attempt, and the second one has not begun."""
    with world(make_decider=calling(2)) as here:
        here.fake.always["large-5"] = "503:9"
        connection = connect(here.url)
        send(connection, body_of(question="x" * 40_000))
        wait_until(lambda: here.fake.seen)
        time.sleep(0.3)
        connection.close()
        wait_until(lambda: here.proxy.account("support")["left"] == 1)
        line = billed(here)
    assert (line["tokens"]["input"], line["errors"]) == (0, {"503": 1, "cancelled": 1})


def test_a_model_with_a_slash_in_its_name_is_shown():
    table = learner(passthrough=True)
    table["stage"][2]["model"] = "meta/large-5"
    with world(table) as here, openai.OpenAI(base_url=here.url, api_key="any") as client:
        assert "meta/large-5" in [model.id for model in client.models.list()]
        assert client.models.retrieve("meta/large-5").id == "meta/large-5"
