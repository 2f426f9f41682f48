"""Conversations: the first request decides, later ones stay with its model, or move up, never down.

A switch loses the cache of the prompt, so a conversation that goes to and fro can cost more than the dear model alone.
Only first requests are decided, compared and learned from. A later one moves up if the learner by now trusts a dearer
model, and that still pays with the part of the prompt that the other model has not cached, spread over the turns
that are expected to follow.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from time import monotonic
from typing import Any

import orjson

from weakfeedback.serve.proxy.prices import PER_TOKEN
from weakfeedback.serve.proxy.settings import Conversation, StageSettings

MOST = 100_000  # conversations that are remembered; the least recent are forgotten first
TURNS = 8  # that are expected to follow


def key_of(settings: Conversation | None, body: dict[str, Any], headers: Mapping[str, str]) -> bytes | None:
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
        return None if not given else blake2b(given.encode(), digest_size=16).digest()
    opening = []
    for message in body["messages"]:
        opening.append([message.get("role"), message.get("content")])
        if message.get("role") == "user":
            break
    return blake2b(orjson.dumps(opening), digest_size=16).digest()


def switching(stage: StageSettings, characters: int) -> float:
    """Return what moving to a stage costs per expected turn: the prompt so far is not in its cache."""
    lost = characters / PER_TOKEN * (stage.price.input - stage.price.cached) / 1e6
    return max(lost, 0.0) / TURNS


class Conversations:
    """The stages of the conversations of one learner; bounded memory."""

    def __init__(self, ttl: float, clock: Callable[[], float] = monotonic) -> None:
        self._ttl, self._clock = ttl, clock
        self._known: OrderedDict[bytes, tuple[int, float]] = OrderedDict()

    def stage(self, key: bytes | None) -> int | None:
        """Return the stage of a conversation, None if it begins now."""
        found = None if key is None else self._known.get(key)
        return None if found is None or self._clock() - found[1] > self._ttl else found[0]

    def keep(self, key: bytes | None, stage: int) -> None:
        """Remember the stage that answered; a conversation never goes down."""
        if key is None:
            return
        before = self.stage(key)
        self._known.pop(key, None)
        self._known[key] = (stage if before is None else max(stage, before)), self._clock()
        if len(self._known) > MOST:
            self._known.popitem(last=False)
