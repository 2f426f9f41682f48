"""Comparators: tables of answers, partitions whatever a judge says, distances that are metrics. T15."""

import asyncio
import itertools
import re
import time

import numpy as np
import pytest
from tests.rig.pace import pace

from weakfeedback.serve.proxy.answers import CUT, UNPARSABLE, ModelAnswer, answer_of, number_in
from weakfeedback.serve.proxy.compare import Comparator, CompareSettings, angles, number_distances
from weakfeedback.toml import fitted


def comparator(**table):
    table.setdefault("price", {"input": 1}) if table["type"] in ("judge", "embedding") else None
    table |= {"upstream": "u", "model": "m"} if table["type"] in ("judge", "embedding") else {}
    return Comparator(fitted(CompareSettings, table, "learner[0].compare"))


def classes(made, *texts):
    answers = [text if isinstance(text, ModelAnswer) else ModelAnswer(text) for text in texts]
    return asyncio.run(made.compare(answers)).classes


def tools(*calls):
    return ModelAnswer("", tuple(calls))


@pytest.mark.parametrize(
    ("table", "texts", "expected"),
    [
        ({"type": "text"}, [" a  b\n", "a b", "A b"], (0, 0, 1)),
        ({"type": "text", "casefold": True}, ["Straße", "STRASSE", ""], (0, 0, 1)),
        ({"type": "choice"}, ["The answer is (B).", "A or B? B", "b", "Alphabet", "BA"], (0, 0, 1, 1, 1)),
        (
            {"type": "choice", "labels": ["spam", "ham"]},
            ["Spam!", "not ham but spam", "ham", "spams"],
            (0, 0, 1, 2),
        ),
        ({"type": "choice", "labels": ["yes", "yes and no"]}, ["yes and no", "yes", "and no"], (0, 1, 2)),
        ({"type": "regex", "pattern": r"#### (\d+)"}, ["#### 3 #### 4", "x #### 4 y", "4"], (0, 0, 1)),
        ({"type": "regex", "pattern": r"(?P<x>a)(?P<answer>\d)"}, ["a1", "a1 b2", "a2"], (0, 0, 1)),
        (
            {"type": "json", "fields": ["/label"]},
            ['{"label": 1}', '{"label": 1.0, "x": 2}', '{"x": 1}'],
            (0, 0, 1),
        ),
        ({"type": "json"}, ['{"a": 1, "b": 2}', '```json\n{"b": 2, "a": 1}\n```', "NaN", "[1"], (0, 0, 1, 1)),
        ({"type": "json", "fields": ["/0/~1"]}, ['[{"/": true}]', '[{"/": 1}]', "[]"], (0, 1, 2)),
        (
            {"type": "tools"},
            [
                tools(("f", '{"a": 1, "b": 2}')),
                tools(("f", '{"b": 2.0, "a": 1}')),
                tools(("f", "{}")),
                tools(("f", "")),
                tools(("f", "{}"), ("g", "{}")),
                tools(("g", "{}"), ("f", "{}")),
                tools(("f", "{")),
                "no tool",
            ],
            (0, 0, 1, 1, 2, 3, 4, 5),
        ),
    ],
)
def test_which_answers_are_the_same(table, texts, expected):
    assert classes(comparator(**table), *texts) == expected


def test_what_cannot_be_parsed_agrees():
    made = comparator(type="regex", pattern="(x)")
    assert made.label(ModelAnswer("a")) == made.label(ModelAnswer("b")) == UNPARSABLE
    assert comparator(type="json").label(ModelAnswer("no JSON")) == UNPARSABLE
    assert comparator(type="choice").label(ModelAnswer("none")) == UNPARSABLE
    # no answer that can be parsed is taken for one that cannot
    assert comparator(type="text").label(ModelAnswer("unparsable")) != UNPARSABLE
    assert comparator(type="json").label(ModelAnswer('"unparsable"')) != UNPARSABLE


def test_patterns_see_the_last_10000_characters():
    made = comparator(type="choice")
    assert made.label(ModelAnswer("A" + " " * (CUT - 1))) == "choice:a"
    assert made.label(ModelAnswer("A" + " " * CUT)) == UNPARSABLE
    assert number_in(ModelAnswer("7" + " " * CUT)) is None
    # whole texts are compared as wholes
    long = "x" * (2 * CUT)
    assert classes(comparator(type="text"), "a" + long, "b" + long) == (0, 1)


@pytest.mark.parametrize("text", ["```" + " " * 50_000, "```" + "a" * 50_000, "```\n" + "``" * 50_000])
def test_no_answer_takes_long_to_parse(text):
    made, began = comparator(type="json"), time.thread_time()
    assert made.label(ModelAnswer(text)) == UNPARSABLE
    assert time.thread_time() - began < 0.5 * pace()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("about 3.5 or 4", 4.0),
        ("1,250,000.25 EUR", 1250000.25),
        ("-2e3.", -2000.0),
        ("from 3-4", 4.0),
        ("x2", None),
        ("none", None),
        ("3, 4", 4.0),
        (".5", 0.5),
        ("1e999", None),
    ],
)
def test_the_last_number(text, value):
    assert number_in(ModelAnswer(text)) == value


def test_a_digest_tells_answers_apart_and_nothing_else():
    made = comparator(type="text")
    one = asyncio.run(made.compare([ModelAnswer("secret"), ModelAnswer("b")]))
    assert one.digest == asyncio.run(made.compare([ModelAnswer("secret"), ModelAnswer("b")])).digest
    assert one.digest != asyncio.run(made.compare([ModelAnswer("secret"), ModelAnswer("c")])).digest
    assert re.fullmatch("[0-9a-f]{32}", one.digest)


def test_pairs_are_named_by_models():
    found = asyncio.run(
        comparator(type="text").compare([ModelAnswer("a"), ModelAnswer("b"), ModelAnswer("a")])
    )
    assert found.differ((0, 2, 3)) == [(0, 2), (2, 3)]


# -- judges


def judged(say, texts):
    made = comparator(type="judge")
    asked = []

    async def ask(system, question):
        asked.append(question)
        first, second = re.findall(r"<(?:first|second)>\n(.*?)\n</", question, re.DOTALL)
        return say(first, second), 0.5

    made.ask = ask
    found = asyncio.run(made.compare([ModelAnswer(text) for text in texts]))
    return found, asked


def test_a_judge_compares_with_one_of_each_class():
    found, asked = judged(lambda a, b: "Yes." if a[0] == b[0] else "No", ["a1", "b1", "a2", "b2", "a1"])
    assert found.classes == (0, 1, 0, 1, 0)
    assert len(asked) == 4  # b1 with a1; a2 with a1; b2 with a1 and b1; a1 is a1
    assert found.cost == 2.0


def test_a_judge_that_contradicts_itself_still_gives_a_partition():
    draws = np.random.default_rng(5)
    for _ in range(200):
        texts = [str(draws.integers(6)) for _ in range(5)]
        found, _ = judged(lambda a, b: "yes" if draws.random() < 0.5 else "no", texts)
        same = {(i, j): found.classes[i] == found.classes[j] for i in range(5) for j in range(5)}
        for i, j, k in itertools.product(range(5), repeat=3):
            assert same[i, j] == same[j, i]
            assert not (same[i, j] and same[j, k]) or same[i, k]
        assert all(same[i, j] for i in range(5) for j in range(5) if texts[i] == texts[j])


def test_a_judge_that_says_neither_is_an_error():
    with pytest.raises(ValueError, match="neither yes nor no"):
        judged(lambda a, b: "perhaps", ["a", "b"])


# -- metrics


def test_distances_of_numbers_and_angles_are_metrics():
    draws = np.random.default_rng(3)
    for _ in range(300):
        numbers = [None if draws.random() < 0.1 else float(draws.normal(0, 2)) for _ in range(3)]
        vectors = [None if draws.random() < 0.1 else draws.normal(0, 1, 4).tolist() for _ in range(3)]
        for ab, ac, bc in (number_distances(numbers, 1.5), angles(vectors)):
            for x, y, z in ((ab, ac, bc), (ac, ab, bc), (bc, ab, ac)):
                assert 0.0 <= x <= 1.0
                assert x <= y + z + 1e-12
        assert number_distances(numbers[:1] * 2, 1.5) == (0.0,)
        assert angles(vectors[:1] * 2)[0] < 1e-12
    assert angles([[1.0, 0.0], [-2.0, 0.0]]) == (1.0,)


def test_the_cosine_distance_would_be_no_metric():
    """Why embeddings are compared by angles: the negative control."""
    a, b, c = [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]
    cosine = lambda u, v: (1 - np.dot(u, v) / np.linalg.norm(u) / np.linalg.norm(v)) / 2  # noqa: E731
    assert cosine(a, c) > cosine(a, b) + cosine(b, c)
    ab, ac, bc = angles([a, b, c])
    assert ac <= ab + bc + 1e-12


def test_embeddings_of_answers():
    made = comparator(type="embedding")

    async def embed(texts):
        return [[float(len(text)), 1.0] for text in texts], 0.25

    made.embed = embed
    found = asyncio.run(made.compare([ModelAnswer("a"), ModelAnswer(" "), ModelAnswer("a ")]))
    assert found.far == (1.0, 0.0, 1.0)
    assert found.classes is None
    assert found.cost == 0.25

    async def too_few(texts):
        return [], 0.0

    made.embed = too_few
    with pytest.raises(ValueError, match="embeddings were asked for"):
        asyncio.run(made.compare([ModelAnswer("a"), ModelAnswer("b")]))


# -- settings


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"type": "jsn"}, "must be one of .*did you mean json"),
        ({"type": "number", "tolerance": 0.1}, "a tolerance must not be used"),
        ({"type": "number", "rel_tol": 0.1, "scale": 1}, "a tolerance must not be used"),
        ({"type": "number"}, "scale must be a number > 0"),
        ({"type": "number", "scale": float("inf")}, "scale must be a number > 0"),
        ({"type": "regex", "pattern": "a"}, "must have a group"),
        ({"type": "regex", "pattern": "("}, "must be a regular expression"),
        ({"type": "json", "fields": ["label"]}, "JSON pointers such as /label"),
        ({"type": "choice", "labels": ["A", "a"]}, "differ by more than their case"),
        ({"type": "choice", "labels": []}, "labels must be"),
        ({"type": "text", "labels": ["A"]}, "labels is not known for text; allowed: type, casefold"),
        ({"type": "judge", "model": "m", "price": {"input": 1}}, "upstream must be a text"),
        ({"type": "judge", "model": "m", "upstream": "u"}, "price must be a table"),
        ("text", "compare must be a table"),
        ({"type": "python", "function": "os:system"}, "must be one of"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(table, message):
    with pytest.raises(ValueError, match=message) as caught:
        fitted(CompareSettings, table, "learner[0].compare")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("learner[0].compare")


def test_answers_of_completions():
    message = {"content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}
    logprobs = {"content": [{"logprob": -1.0}, {"logprob": -3.0}]}
    found = answer_of({"choices": [{"message": message, "logprobs": logprobs}]})
    assert found.text == ""
    assert found.tools == (("f", "{}"),)
    assert found.score == pytest.approx(np.exp(-2.0))
    assert answer_of({"choices": [{"message": {"refusal": "no"}}]}) == ModelAnswer("no")
    for wrong in ({}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": {"content": [1]}}]}):
        with pytest.raises(ValueError, match="the"):
            answer_of(wrong)
