"""Whatever a client sends is served or refused in one line; nothing of it can lead a call elsewhere."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.rig.pace import pace
from tests.rig.upstreams import learner

from weakfeedback.serve.models import Problem
from weakfeedback.serve.proxy.dialect import Dialect
from weakfeedback.serve.proxy.messages import Messages
from weakfeedback.serve.proxy.request import CODE, read_request
from weakfeedback.serve.proxy.responses import Responses
from weakfeedback.serve.proxy.settings import FIELDS, NEVER, read_proxied

table = learner()
table["stage"][0]["allow"] = ["min_p"]
PROXIED = {"support": read_proxied("learner[0]", table, ["fake"])}

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=10,
)
messages = st.lists(
    st.fixed_dictionaries({"role": st.just("user"), "content": json_values}), min_size=1, max_size=3
)
fields = st.dictionaries(
    st.sampled_from(sorted(FIELDS | NEVER | {"min_p", "other"})), json_values, max_size=5
)
headers = st.dictionaries(
    st.sampled_from(
        ["x-weakfeedback-stage", "x-weakfeedback-learn", "x-weakfeedback-context", "idempotency-key"]
    ),
    st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20),
    max_size=2,
)


JSON = {b"content-type": b"application/json"}
OWN = {
    Dialect: ["messages"],
    Responses: ["input", "instructions", "max_output_tokens", "text", "reasoning", "store", "include"],
    Messages: ["messages", "system", "thinking", "output_config", "stop_sequences", "metadata"],
}
blocks = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(
                ["text", "input_text", "tool_use", "tool_result", "function_call", "image", "x"]
            )
        },
        optional={
            "text": st.text(),
            "content": json_values,
            "role": st.sampled_from(["user", "x"]),
            "source": json_values,
        },
    ),
    max_size=3,
)


def read(raw, sent, dialect=Dialect):
    told = {name.encode(): value.encode("latin-1") for name, value in sent.items()}
    return read_request(raw, JSON | told, PROXIED, dialect())


def served_or_refused(raw, sent, dialect):
    try:
        return read(raw, sent, dialect)
    except Problem as refused:
        return refused


@settings(max_examples=600, deadline=None)
@given(st.sampled_from(sorted(OWN, key=str)), fields, messages | blocks | json_values, headers, st.data())
def test_a_request_is_served_or_refused(dialect, body, said, sent, data):
    own = data.draw(
        st.dictionaries(st.sampled_from(OWN[dialect]), messages | blocks | json_values, max_size=2)
    )
    raw = json.dumps({"model": "support", **own, **body, OWN[dialect][0]: said}).encode()
    asked = served_or_refused(raw, sent, dialect)
    if isinstance(asked, Problem):
        assert asked.status in (400, 404)
        assert "\n" not in asked.detail
        told = asked.for_openai()["error"]
        assert told.keys() == {"message", "type", "param", "code"}
        assert told["message"] == asked.for_anthropic()["error"]["message"]
        return
    for stage in range(3):
        sent_upstream = asked.body_for(stage, asked.stream, True)
        assert sent_upstream["model"] == PROXIED["support"].stages[stage].model
        assert not (NEVER - {"model"}) & set(sent_upstream)
        assert set(sent_upstream) <= FIELDS | {"model"} | ({"min_p"} if stage == 0 else set())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_request_are_refused(raw):
    with pytest.raises(Problem):
        read(raw, {})


@pytest.mark.parametrize("place", ['"seed": {}', '"logit_bias": [ {}\n]', '"tools": [{{"most": {} }}, 0]'])
def test_integers_are_passed_on_exactly_or_refused(place):
    def asked(number):
        text = place.format(number)
        return f'{{"model": "support", "messages": [{{"content": "[{2**70}]"}}], {text}}}'.encode()

    for number in (2**63 - 1, 2**64 - 1, -(2**63), 12345678901234567):
        body = read(asked(number), {}).body_for(0, False, False)
        assert json.loads(asked(number))["messages"] == body["messages"]
        assert f"{number}" in json.dumps(body)
    for number in (2**64, -(2**63) - 1, 10**30, "9" * 300):
        words = f"an integer must fit into 64 bits, got {f'{number}'[:37]}"
        with pytest.raises(Problem, match=words) as refused:
            read(asked(number), {})
        assert refused.value.status == 400
    for number in ("1e30", "12345678901234567890.5", "0.12345678901234567890123"):  # no integers
        read(asked(number), {})


@pytest.mark.parametrize("levels", [130, 260, 900])
def test_a_body_that_is_nested_too_deeply_is_refused(levels):
    deep = "[" * levels + "]" * levels
    raw = f'{{"model": "support", "messages": [{{"role": "user", "content": {deep}}}]}}'.encode()
    with pytest.raises(Problem, match="must not be nested deeper"):
        read(raw, {})


@pytest.mark.parametrize("text", ["SELECT " * 2850, "SELECT FRO " * 1800, ";" + "\n" * 19_990, ";\n" * 9_990])
def test_no_text_takes_long_to_be_searched_for_code(text):
    began = time.thread_time()
    assert CODE.search(text) is None
    assert time.thread_time() - began < 0.25 * pace()


@pytest.mark.parametrize("text", ["SELECT a, b FROM c", "x = 1;\n}", "x = 1; \n\n  }", "#include <a>"])
def test_code_is_found(text):
    assert CODE.search(text) is not None
