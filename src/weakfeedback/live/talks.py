"""Conversations: the first request decides, later ones stay with its model, or move up, never down.

A switch loses the cache of the prompt, so a conversation that goes to and fro can cost more than the dear model alone.
Later requests are not compared and teach nothing. One moves up if the policy would by now answer with a dearer model,
and that still pays with what the switch costs, spread over the turns that are expected to follow. That presupposes that
the dearer model is right where they differ: a router with context believes the last model from its first conversation
on, unless it is told to believe nobody. With a promise every turn has its own coin, and a conversation that the
reference has answered once stays with it.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import Any, NamedTuple

from weakfeedback.live.report import percent
from weakfeedback.live.storage import StateError
from weakfeedback.plaintext import numbered
from weakfeedback.validate import brief, integer
from weakfeedback.words import Words

MOST = 100_000  # conversations that are remembered; the least recent are forgotten first
TURNS = 8  # that are expected to follow
TTL = 3600.0  # seconds after which a conversation is forgotten
LONGEST = 1000  # characters of a key


class Turn(NamedTuple):
    """A request of a conversation."""

    key: str  # a hash
    at: int  # seconds since 1970
    ttl: float = TTL
    switching: tuple[float, ...] | None = None  # what moving to each model would cost now
    held: int | None = None  # the model that the conversation is on; None: it begins
    known: bool = False  # whether ``held`` was looked up

    def body(self) -> dict[str, Any]:
        """Return what the event of a decision holds of it."""
        told: dict[str, Any] = {"conversation": self.key, "at": self.at}
        return told if self.held is None else {**told, "held": self.held}

    def word(self, model: int) -> str:
        """Return which turn it is, if this model answers."""
        return "first" if self.held is None else "same" if model == self.held else "up"


class Talks:
    """The models of conversations; bounded memory."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, int]] = OrderedDict()  # key -> model, time

    def __len__(self) -> int:
        return len(self._known)

    def look_up(self, turn: Turn) -> Turn:
        """Return a turn with the model that its conversation is on."""
        if turn.known:
            return turn
        found = self._known.get(turn.key)
        held = None if found is None or turn.at - found[1] > turn.ttl else found[0]
        return turn._replace(held=held, known=True)

    def keep(self, turn: Turn, model: int) -> None:
        """Remember the model that answers; a repetition has no effect."""
        self._known[turn.key] = model, turn.at
        self._known.move_to_end(turn.key)
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def with_models(self, kept: list[int]) -> Talks:
        """Return them for other models; a conversation on one that is gone moves up, to the next that stays."""
        found, stayed = Talks(), [was for was in kept if was >= 0]
        for key, (model, at) in self._known.items():
            after = [was for was in stayed if was >= model]
            found._known[key] = kept.index(after[0]) if after else len(kept) - 1, at
        return found

    def state(self) -> list[list[Any]]:
        """Return everything as JSON data."""
        return [[key, model, at] for key, (model, at) in self._known.items()]

    def restore(self, state: Any, models: int) -> None:
        """Continue from a result of ``state``, or raise `StateError`."""
        try:
            rows = [
                (str(key), integer("model", k, 0, models - 1), integer("at", at, 0)) for key, k, at in state
            ]
        except (TypeError, ValueError):
            raise StateError(f"the conversations are damaged: {brief(state)}") from None
        self._known = OrderedDict((key, (k, at)) for key, k, at in rows)


def key_of(conversation: Any) -> str:
    """Return what a conversation is known by: a hash of the text or integer that a caller gives."""
    if isinstance(conversation, bool) or not isinstance(conversation, (str, int)) or conversation == "":
        raise ValueError(f"conversation must be a text or an integer, got {brief(conversation)}")
    text = str(conversation)
    if len(text) > LONGEST:
        raise ValueError(f"conversation must have at most {LONGEST} characters, got {len(text)}")
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def turn_of(call: Any) -> str | None:
    """Return which turn of a conversation a call is for: the first, one with the same model, or a move up."""
    said: Turn | None = getattr(call, "said", None)
    return None if said is None else said.word(call[-1])


def turn_in(body: dict[str, Any]) -> Turn | None:
    """Return the turn of a conversation that the event of a decision holds."""
    if "conversation" not in body:
        return None
    return Turn(body["conversation"], body["at"], held=body.get("held"), known=True)


def talks_of(counts: Any) -> dict[str, Any] | None:
    """Return the accounts of conversations, None if there was none."""
    if not getattr(counts, "turns", 0):
        return None
    told = {"begun": counts.talks, "moved_up": counts.moved, "turns": counts.turns}
    told |= {"spent": counts.talk_spent, "alone": counts.talk_alone}
    return told if counts.promise is None else {**told, "differ": counts.talk_differ}


def talk_words(talks: dict[str, Any] | None, words: Words, alone: str) -> tuple[str, ...]:
    """Say how many conversations there were, and what one costs."""
    if talks is None:
        return ()
    begun, each = talks["begun"], talks["spent"] / max(talks["begun"], 1)
    line = f"{numbered(begun, 'conversation')} began; {talks['moved_up']} times one moved up. On average one has "
    line += f"{talks['turns'] / max(begun, 1):.1f} requests and costs {words.money(each)}"
    if talks["alone"] > 0.0:
        line += f", {percent(talks['spent'] / talks['alone'])} of {alone} alone"
    if "differ" in talks:
        line += f"; about {talks['differ'] / max(begun, 1):.2f} of its answers differ"
    return (f"{line}.",)
