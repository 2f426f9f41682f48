"""What makes requests a conversation, and what a switch of its model costs; the learner remembers its model."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import orjson

from weakfeedback.serve.proxy.prices import PER_TOKEN
from weakfeedback.serve.proxy.settings import Conversation, StageSettings


def key_of(settings: Conversation | None, body: dict[str, Any], headers: Mapping[str, str]) -> str | None:
    """Return what identifies the conversation of a request, None if it belongs to none.

    >>> first = [{"role": "user", "content": "hello"}]
    >>> later = [*first, {"role": "assistant", "content": "hi"}, {"role": "user", "content": "how are you?"}]
    >>> by_first = Conversation(key="first")
    >>> key_of(by_first, {"messages": first}, {}) == key_of(by_first, {"messages": later}, {})
    True
    """
    if settings is None:
        return None
    name = settings.header
    if name is not None:
        given = headers.get(name)
        return None if not given else digest(given)
    opening = []
    for message in body["messages"]:
        opening.append([message.get("role"), message.get("content")])
        if message.get("role") == "user":
            break
    return digest(opening)


def digest(value: Any) -> str:
    """Return a short text that stands for JSON data."""
    return blake2b(orjson.dumps(value), digest_size=16).hexdigest()


def switching(stage: StageSettings, characters: int) -> float:
    """Return what moving to a stage costs: the prompt so far is not in its cache."""
    lost = characters / PER_TOKEN * (stage.price.input - stage.price.cached) / 1e6
    return max(lost, 0.0)
