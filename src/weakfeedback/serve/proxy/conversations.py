"""What makes requests a conversation, and what a switch of its model costs.

A router remembers the models of conversations itself; those of adaptive learners are remembered here.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from time import time
from typing import Any

import orjson

from weakfeedback.live.talks import Talks, Turn
from weakfeedback.serve.proxy.prices import PER_TOKEN
from weakfeedback.serve.proxy.settings import Conversation, ProxySettings, StageSettings


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


class AdaptiveTalks:
    """The conversations of an adaptive learner: once a later stage has answered, it answers alone, never a cheaper one.

    Before that every turn is decided, answer by answer. With a promise only the reference can answer alone: each answer
    of another stage has its own coin, and turns of the reference alone earn nothing. In memory: after a restart a
    conversation begins anew.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._settings, self._known = settings, Talks()

    def turn_of(self, conversation: str | None) -> Turn | None:
        """Return a turn of a conversation, with the stage that answered the last one."""
        chosen = self._settings.conversation
        if conversation is None or chosen is None or self._settings.kind != "adaptive":
            return None
        return self._known.look_up(Turn(conversation, int(time()), chosen.ttl))

    def held(self, turn: Turn | None) -> int | None:
        """Return the stage that answers a turn alone, None if that is to be decided."""
        settings = self._settings
        if turn is None or not turn.held or settings.shadow:
            return None
        return None if settings.promises and turn.held != settings.reference else turn.held

    def keep(self, turn: Turn | None, stage: int) -> None:
        """Remember the stage that answered a turn; never a cheaper one than before."""
        if turn is not None:
            self._known.keep(turn, stage if turn.held is None else max(stage, turn.held))
