"""Check a client's request before any stage is called: only known fields go upstream."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from weakfeedback.plaintext import one_line
from weakfeedback.serve.api import read_json
from weakfeedback.serve.models import Problem, wrong
from weakfeedback.serve.proxy.conversations import digest, key_of
from weakfeedback.serve.proxy.dialect import Dialect
from weakfeedback.serve.proxy.prices import PER_TOKEN, characters_of
from weakfeedback.serve.proxy.settings import FIELDS, NEVER, Feature, ProxySettings
from weakfeedback.toml import near

LONGEST_KEY = 128
CODE = re.compile(r"```|\bdef \w+\(|\bfunction \w+\(|#include\b|\bSELECT\b.{1,500}?\bFROM\b|;[^\S\n]*\n\s*\}")
LONG = re.compile(rb"[:,\[\s]-?\d{19,}+\s*+[,\]}]")  # perhaps an integer of more than 64 bits


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that can be served."""

    settings: ProxySettings
    body: dict[str, Any]  # fields that go upstream, without model, stream and stream_options
    stream: bool
    with_usage: bool
    with_obfuscation: bool  # characters of no meaning that an upstream adds to each chunk
    forced: int | None  # the stage that must answer
    learn: bool
    comparable: bool
    context: list[float] | dict[str, str | None] | None
    key: str | None
    group: str | None
    characters: int  # number in the messages and tools
    conversation: str | None  # to which it belongs
    dialect: Dialect  # in which the client is answered

    def body_for(self, stage: int, stream: bool, with_logprobs: bool) -> dict[str, Any]:
        """Return the body that is sent to a stage."""
        chosen = self.settings.stages[stage]
        fields = {key: value for key, value in self.body.items() if key in FIELDS or key in chosen.allow}
        fields |= chosen.params
        fields["model"] = chosen.model
        if with_logprobs:
            fields["logprobs"] = True
        if stream:
            fields["stream"] = True
            fields["stream_options"] = {"include_usage": True}
        return fields


def read_request(
    raw: bytes, headers: dict[bytes, bytes], proxied: Mapping[str, ProxySettings], dialect: Dialect
) -> Asked:
    """Return the request in a body; a problem if it cannot be served."""
    body = read_json(raw, headers)
    if not isinstance(body, dict):
        raise Problem("bad_json", "the body must be a JSON object")
    if LONG.search(raw):
        json.loads(raw, parse_int=_check_integer)
    told = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers.items()}
    settings, named = learner_of(body.pop("model", None), proxied)
    body = dialect.read(body)
    _check_fields(body, settings)
    stream = _flag(body, "stream")
    options = body.pop("stream_options", None)
    options = {} if options is None else options
    if not isinstance(options, dict) or set(options) - {"include_usage", "include_obfuscation"}:
        words = "must be an object with include_usage and include_obfuscation"
        raise wrong("stream_options", words, "bad_value")
    with_usage = stream and (dialect.with_usage or _flag(options, "include_usage"))
    characters = characters_of([body.get("messages"), body.get("tools"), body.get("response_format")])
    return Asked(
        settings=settings,
        body=body,
        stream=stream,
        with_usage=with_usage,
        with_obfuscation=_flag(options, "include_obfuscation", True),
        forced=_forced(told, settings) if named is None else named,
        learn=_learns(told),
        comparable=_comparable(body, settings),
        context=_context(body, told, settings, characters),
        key=_key(told),
        group=_group(told, settings),
        characters=characters,
        conversation=key_of(settings.conversation, body, told),
        dialect=dialect,
    )


def _check_integer(text: str) -> None:
    """Refuse an integer that our reader has rounded, as upstreams would get another one."""
    if len(text) > 20 or not -(2**63) <= int(text) < 2**64:
        raise Problem("bad_value", f"an integer must fit into 64 bits, got {one_line(text, 40)}")


def learner_of(name: Any, proxied: Mapping[str, ProxySettings]) -> tuple[ProxySettings, int | None]:
    """Return the learner that a client names, or the one that lets it name an upstream's model, and that stage."""
    if not isinstance(name, str):
        raise wrong("model", "must be the name of a learner", "missing_model")
    if name in proxied:
        return proxied[name], None
    names = list(proxied)
    for settings in proxied.values():
        if settings.passthrough:
            models = [stage.model for stage in settings.stages]
            if name in models:
                return settings, models.index(name)
            names += models
    known = ", ".join(dict.fromkeys(names)) or "none"
    words = f"the model {name[:64]!r} does not exist; there are: {one_line(known, 500)}{near(name, names)}"
    raise Problem("model_not_found", words, field="model")


def _check_fields(body: dict[str, Any], settings: ProxySettings) -> None:
    allowed = FIELDS.union(*(stage.allow for stage in settings.stages))
    for field in body:
        if field not in allowed or field in NEVER:
            shown = one_line(field, 64)
            raise Problem("unknown_parameter", f"unknown parameter: {shown}", field=shown)
    messages = body.get("messages")
    if (
        not isinstance(messages, list)
        or not messages
        or not all(isinstance(entry, dict) for entry in messages)
    ):
        raise wrong("messages", "must be a list of messages", "bad_value")
    n = body.get("n")
    if n is not None and (type(n) is not int or not 1 <= n <= 128):
        raise wrong("n", "must be an integer from 1 to 128", "bad_value")


def _flag(table: dict[str, Any], name: str, default: bool = False) -> bool:
    value = table.pop(name, None)
    if value is not None and not isinstance(value, bool):
        raise wrong(name, "must be true or false", "bad_value")
    return default if value is None else value


def _forced(headers: Mapping[str, str], settings: ProxySettings) -> int | None:
    value = headers.get("x-weakfeedback-stage")
    if value is None:
        return None
    names = [stage.name for stage in settings.stages]
    if value in names:
        return names.index(value)
    if not re.fullmatch(r"\d{1,2}", value) or int(value) >= len(names):
        raise wrong("x-weakfeedback-stage", f"must be 0 to {len(names) - 1} or a name", "bad_value")
    return int(value)


def _learns(headers: Mapping[str, str]) -> bool:
    value = headers.get("x-weakfeedback-learn", "yes").lower()
    if value not in ("yes", "no"):
        raise wrong("x-weakfeedback-learn", "must be yes or no", "bad_value")
    return value == "yes"


def _key(headers: Mapping[str, str]) -> str | None:
    key = headers.get("idempotency-key")
    if key is not None and not (1 <= len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise wrong("Idempotency-Key", f"must be 1 to {LONGEST_KEY} printable characters", "bad_value")
    return key


def _group(headers: Mapping[str, str], settings: ProxySettings) -> str | None:
    """Return the kind of the request, for a learner that keeps a promise."""
    value = headers.get("x-weakfeedback-group")
    if value is None or not settings.promises:
        return None
    if not 1 <= len(value) <= LONGEST_KEY or not value.isprintable():
        raise wrong("x-weakfeedback-group", f"must be 1 to {LONGEST_KEY} printable characters", "bad_value")
    return value


def _comparable(body: dict[str, Any], settings: ProxySettings) -> bool:
    """Whether answers to the request can be compared: one choice, and every stage can read it."""
    if body.get("n") not in (None, 1):
        return False
    return not has_images(body["messages"]) or all(stage.images for stage in settings.stages)


def has_images(messages: list[Any]) -> bool:
    """Whether a message has a part that is not text."""
    for message in messages:
        content = message.get("content")
        if isinstance(content, list) and any(
            not isinstance(part, dict) or part.get("type") not in ("text", "refusal") for part in content
        ):
            return True
    return False


def _context(
    body: dict[str, Any], headers: Mapping[str, str], settings: ProxySettings, characters: int
) -> list[float] | dict[str, str | None] | None:
    if settings.looks is not None:
        return {name: label_of(name, body, headers, characters) for name in settings.looks}
    if not settings.features:
        return None
    known = [one for one in settings.features if isinstance(one, Feature)]
    return [value for feature in known for value in feature_values(feature, body, headers, characters)]


def label_of(name: str, body: dict[str, Any], headers: Mapping[str, str], characters: int) -> str | None:
    """Return the group of a request by one feature, None where it has none.

    >>> label_of("length", {}, {}, 4000), label_of("header:X-Task", {}, {"x-task": "classify"}, 0)
    ('256 to 1023 tokens', 'classify')
    """
    if name == "length":
        low = 4 ** ((max(characters // PER_TOKEN, 1).bit_length() - 1) // 2)
        return f"{low} to {4 * low - 1} tokens"
    if name == "system":
        said = [one.get("content") for one in body["messages"] if one.get("role") in ("system", "developer")]
        return digest(said)[:12] if said else None
    if name == "tools":
        return digest(body["tools"])[:12] if body.get("tools") else None
    given = headers.get(name.removeprefix("header:").lower())
    return given[:64] if given and given.isprintable() else None


def feature_values(
    feature: Feature, body: dict[str, Any], headers: Mapping[str, str], characters: int
) -> list[float]:
    """Return the numbers of a feature, each from -1 to 1."""
    match feature.name:
        case "prompt_tokens":
            return [scaled(characters / PER_TOKEN, feature)]
        case "messages":
            return [scaled(len(body["messages"]), feature)]
        case "has_code":
            return [1.0 if CODE.search(_texts(body["messages"])[-20_000:]) else -1.0]
        case "has_tools":
            return [1.0 if body.get("tools") else -1.0]
        case "has_images":
            return [1.0 if has_images(body["messages"]) else -1.0]
        case _:
            return _header_numbers(headers.get("x-weakfeedback-context"), feature.size)


def scaled(value: float, feature: Feature) -> float:
    """Map a value to [-1, 1] by the position of its logarithm between those of two bounds.

    >>> scaled(10.0, Feature(name="messages", high=100.0))
    0.0
    """
    low, high = math.log(feature.low), math.log(feature.high)
    place = (math.log(max(value, feature.low)) - low) / (high - low)
    return 2.0 * min(place, 1.0) - 1.0


def _texts(messages: list[Any]) -> str:
    found = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            found.append(content)
        elif isinstance(content, list):
            found += [str(part.get("text", "")) for part in content if isinstance(part, dict)]
    return "\n".join(found)


def _header_numbers(value: str | None, size: int) -> list[float]:
    try:
        found = orjson.loads(value or "")
    except orjson.JSONDecodeError:
        found = None
    fine = isinstance(found, list) and len(found) == size
    if not fine or not all(
        isinstance(x, (int, float)) and not isinstance(x, bool) and -1 <= x <= 1 for x in found
    ):
        raise wrong(
            "x-weakfeedback-context", f"must be a JSON list of {size} numbers from -1 to 1", "bad_value"
        )
    return [float(x) for x in found]
