"""Answers of language models, and the labels that comparators derive from them.

A label is a string. "Same" is equality of labels, and thus an equivalence relation, as the method requires. Answers
that cannot be parsed have the label `UNPARSABLE`: all of them agree, because all of them are wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weakfeedback.canonical import canonical

UNPARSABLE = "unparsable"
CUT = 10_000  # characters, from the end, that patterns, judges and embeddings see
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d{1,3})?")
FENCED = re.compile(r"```[ \t]*+[\w.+-]*+[ \t]*+\r?\n(.*?)```", re.DOTALL)
LETTERS = ("A", "B", "C", "D", "E")


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The answer of a model: its text, its tool calls (name, arguments), and how sure it was.

    ``score`` is the geometric mean of its token probabilities, None if the upstream does not report them.
    """

    text: str
    tools: tuple[tuple[str, str], ...] = ()
    score: float | None = None

    @property
    def characters(self) -> int:
        """How many were made."""
        return len(self.text) + sum(len(name) + len(given) for name, given in self.tools)


def answer_of(completion: dict[str, Any]) -> ModelAnswer:
    """Return the first answer in a plain completion; see `answers_of`."""
    return answers_of(completion)[0]


def answers_of(completion: dict[str, Any]) -> list[ModelAnswer]:
    """Return all answers in a plain completion; ValueError if there is none, or one without a message."""
    choices = completion.get("choices")
    if not isinstance(choices, list) or not choices:
        raise ValueError("the answer has no choices")
    return [_choice(choice) for choice in choices]


def _choice(choice: Any) -> ModelAnswer:
    try:
        message = choice["message"]
        tools = tuple(tool_of(call) for call in message.get("tool_calls") or ())
        text = message.get("content") or message.get("refusal") or ""
        logprobs = choice.get("logprobs")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ValueError("the answer has no message") from None
    if not isinstance(text, str):
        raise ValueError("the content of the answer is no text")
    return ModelAnswer(text, tools, score_of(logprobs))


def tool_of(call: Any) -> tuple[str, str]:
    """Return the name and the arguments, as JSON, of a call of a function, or of a custom tool, whose input is a text.

    >>> tool_of({"type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}})
    ('sql', '"SELECT 1"')
    """
    if call.get("type") == "custom":
        return str(call["custom"]["name"]), json.dumps(str(call["custom"].get("input") or ""))
    return str(call["function"]["name"]), str(call["function"].get("arguments") or "")


def score_of(logprobs: Any) -> float | None:
    """Return exp of the mean log-probability of the tokens, None if there are none.

    >>> score_of({"content": [{"logprob": -0.5}, {"logprob": -1.5}]}) == math.exp(-1.0)
    True
    """
    found = logprobs_of(logprobs)
    return math.exp(min(0.0, sum(found) / len(found))) if found else None


def logprobs_of(logprobs: Any) -> list[float]:
    """Return the log-probabilities of the tokens, without those that are not numbers."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list):
        return []
    found = [entry.get("logprob") for entry in content if isinstance(entry, dict)]
    return [float(x) for x in found if isinstance(x, (int, float)) and math.isfinite(x)]


def ending(text: str) -> str:
    """Return the end of a text, against which patterns are matched."""
    return text[-CUT:]


def last_match(pattern: re.Pattern[str], answer: ModelAnswer) -> re.Match[str] | None:
    """Return the last match of a pattern in an answer."""
    return next(iter(deque(pattern.finditer(ending(answer.text)), maxlen=1)), None)


def text_label(answer: ModelAnswer, casefold: bool = False) -> str:
    """Return the stripped text, with every run of whitespace as one space.

    >>> text_label(ModelAnswer(" Yes,  it\\n is. "), casefold=True)
    'text:yes, it is.'
    """
    text = " ".join(answer.text.split())
    return "text:" + (text.casefold() if casefold else text)


def choice_pattern(labels: Sequence[str]) -> re.Pattern[str]:
    """Return a pattern that matches labels standing alone; words in any case, single letters as written."""
    alternatives = sorted(labels, key=len, reverse=True)
    parts = [re.escape(label) if len(label) == 1 else f"(?i:{re.escape(label)})" for label in alternatives]
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts)})(?!\w)")


def choice_label(answer: ModelAnswer, pattern: re.Pattern[str]) -> str:
    """Return the last of the labels that stands alone in the text.

    >>> choice_label(ModelAnswer("Not A. The answer is (B)."), choice_pattern(LETTERS))
    'choice:b'
    """
    found = last_match(pattern, answer)
    return UNPARSABLE if found is None else "choice:" + found.group().casefold()


def regex_label(answer: ModelAnswer, pattern: re.Pattern[str]) -> str:
    """Return the group ``answer``, or the first group, of the last match.

    >>> regex_label(ModelAnswer("#### 3, no: #### 4"), re.compile(r"#### (\\d+)"))
    'regex:4'
    """
    found = last_match(pattern, answer)
    if found is None:
        return UNPARSABLE
    group = found.group("answer" if "answer" in pattern.groupindex else 1)
    return UNPARSABLE if group is None else "regex:" + group.strip()


def json_label(answer: ModelAnswer, fields: Sequence[str]) -> str:
    """Return the canonical JSON of the fields that JSON pointers name, from the text or its last fenced block.

    >>> json_label(ModelAnswer('Here:\\n```json\\n{"b": 1.0, "a": [2]}\\n```'), ["/a/0", "/b"])
    'json:[2,1]'
    """
    document = json_in(answer.text)
    if document is None:
        return UNPARSABLE
    try:
        return "json:" + canonical([pointed(document[0], field) for field in fields])
    except (LookupError, ValueError, RecursionError):
        return UNPARSABLE


def json_in(text: str) -> tuple[Any] | None:
    """Return the JSON document in a text, or in its last fenced block that holds one."""
    for candidate in (text, *reversed(FENCED.findall(ending(text)))):
        try:
            return (json.loads(candidate, parse_constant=_refuse_constant),)
        except (ValueError, RecursionError):
            continue
    return None


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def pointed(document: Any, pointer: str) -> Any:
    """Return what a JSON pointer (RFC 6901) points at; LookupError if there is nothing.

    >>> pointed({"items": [{"id": 7}], "a/b": 1}, "/items/0/id"), pointed({"a/b": 1}, "/a~1b")
    (7, 1)
    """
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document[name]
        elif isinstance(document, list) and re.fullmatch(r"0|[1-9]\d{0,8}", name):
            document = document[int(name)]
        else:
            raise LookupError(pointer)
    return document


def tools_label(answer: ModelAnswer) -> str:
    """Return the names and canonical arguments of the tool calls, in order; no call at all is also a label.

    >>> tools_label(ModelAnswer("", (("look", '{"b": 2, "a": 1}'),)))
    'tools:[["look",{"a":1,"b":2}]]'
    """
    calls = []
    for name, arguments in answer.tools:
        try:
            given = json.loads(arguments, parse_constant=_refuse_constant) if arguments.strip() else {}
        except (ValueError, RecursionError):
            return UNPARSABLE
        calls.append([name, given])
    try:
        return "tools:" + canonical(calls)
    except (ValueError, RecursionError):
        return UNPARSABLE


def number_in(answer: ModelAnswer) -> float | None:
    """Return the last number of the text, None if there is none; commas group digits.

    >>> number_in(ModelAnswer("from 3 to 1,250.5 m"))
    1250.5
    """
    found = NUMBER.findall(ending(answer.text))
    if not found:
        return None
    value = float(found[-1].replace(",", ""))
    return value if math.isfinite(value) else None
