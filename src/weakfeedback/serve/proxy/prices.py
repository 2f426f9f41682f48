"""Money: the cost of a call, from its tokens and its seconds, and when the stated prices no longer fit."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from weakfeedback.serve.proxy.checks import known_keys, number_at, table_at

MILLION = 1e6
PER_TOKEN = 4  # characters, for an upstream that reports no usage
UNCOUNTED = ("role", "type", "image_url", "input_audio", "file")  # parts of messages without text
EVERY = 500  # rounds between two checks of the prices
MOVED = 0.05  # the smallest relative change of a mean that causes new prices
FADING = 5000.0  # calls after which old values have faded from a mean
ENOUGH = 30  # calls before a mean is trusted


@dataclass(frozen=True, slots=True)
class Price:
    """Money per million tokens."""

    input: float
    output: float
    cached: float

    def of(self, tokens: Tokens) -> float:
        """Return the cost of these tokens.

        >>> Price(3.0, 12.0, 0.3).of(Tokens(1000, 400, 100))
        0.00312
        """
        fresh = tokens.input - tokens.cached
        money = fresh * self.input + tokens.cached * self.cached + tokens.output * self.output
        return money / MILLION


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a call; ``cached`` is the part of the input that was read from a cache."""

    input: int = 0
    cached: int = 0
    output: int = 0
    estimated: bool = False


def read_price(where: str, value: Any) -> Price:
    """Return the price in a table ``{ input, output, cached }``; ``cached`` defaults to ``input``."""
    table = table_at(where, value)
    known_keys(where, table, ("input", "cached", "output"))
    given = number_at(where, table, "input")
    return Price(given, number_at(where, table, "output", 0.0), number_at(where, table, "cached", given))


def tokens_of(usage: Any) -> Tokens | None:
    """Return the tokens in the ``usage`` of an answer, None if there is nothing usable.

    >>> tokens_of({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})
    Tokens(input=10, cached=4, output=2, estimated=False)
    """
    if not isinstance(usage, dict):
        return None
    given, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens", 0))
    if given is None or made is None:
        return None
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return Tokens(given, min(cached or 0, given), made)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 10**12 else None


def estimated_tokens(given: int, made: int) -> Tokens:
    """Estimate tokens from numbers of characters, for an upstream that does not report them.

    >>> estimated_tokens(10, 0)
    Tokens(input=3, cached=0, output=0, estimated=True)
    """
    return Tokens(math.ceil(given / PER_TOKEN), 0, math.ceil(made / PER_TOKEN), True)


def characters_of(messages: Any) -> int:
    """Return the number of characters of the texts in messages, tools and the like."""
    if isinstance(messages, str):
        return len(messages)
    if isinstance(messages, dict):
        return sum(characters_of(value) for key, value in messages.items() if key not in UNCOUNTED)
    if isinstance(messages, list):
        return sum(characters_of(value) for value in messages)
    return 0


@dataclass(slots=True)
class Mean:
    """The mean and spread of the cost of calls of one stage; old calls fade."""

    count: float = 0.0
    mean: float = 0.0
    spread: float = 0.0  # the mean square deviation

    def add(self, value: float) -> None:
        """Take one more call into account."""
        self.count = min(self.count + 1.0, FADING)
        share = 1.0 / self.count
        step = value - self.mean
        self.mean += share * step
        self.spread = (1.0 - share) * (self.spread + share * step * step)

    def moved_from(self, stated: float) -> bool:
        """Whether the mean differs from the stated value by more than 5 % and more than two standard errors."""
        if self.count < ENOUGH:
            return False
        away = abs(self.mean - stated)
        return away > MOVED * max(stated, 1e-300) and away > 2.0 * math.sqrt(self.spread / self.count)


@dataclass(slots=True)
class PriceWatch:
    """Checks every 500 rounds whether calls still cost what was stated; gives new prices if a mean moved over 5 %."""

    stated: list[float]
    rising: bool = True  # whether prices must not fall from one stage to the next, as for a router
    rounds: int = 0
    means: list[Mean] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.means = [Mean() for _ in self.stated]

    def add(self, stage: int, cost: float) -> None:
        """Count what one call of a stage cost."""
        self.means[stage].add(cost)

    def look(self) -> list[float] | None:
        """Count a round; return new prices if it is time and they are needed.

        Where prices must rise and the means do not, the later ones are raised.
        """
        self.rounds += 1
        if self.rounds % EVERY or not any(m.moved_from(s) for m, s in zip(self.means, self.stated)):
            return None
        found, least = list[float](), 0.0
        for mean, stated in zip(self.means, self.stated):
            seen = mean.mean if mean.count >= ENOUGH else stated
            least = max(least, seen)
            found.append(least if self.rising else seen)
        return found if found[-1] > 0.0 and found != self.stated else None

    def accept(self, prices: list[float]) -> None:
        """Take over the learner's current prices."""
        self.stated = list(prices)
