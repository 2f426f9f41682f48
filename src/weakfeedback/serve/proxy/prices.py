"""Money: the cost of a call, from its tokens and its seconds, and when the stated prices no longer fit."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from pydantic import Field, model_validator

from weakfeedback.toml import Amount, Table

MILLION = 1e6
PER_TOKEN = 4  # characters, for an upstream that reports no usage
UNCOUNTED = ("role", "type", "image_url", "input_audio", "file")  # parts of messages without text
EVERY = 500  # rounds between two checks of the prices
MOVED = 0.05  # the smallest relative change of a mean that causes new prices
FADING = 5000.0  # calls after which old values have faded from a mean
ENOUGH = 30  # calls before a mean is trusted
QUICK = 5  # calls in a row that show a jump,
FAR = 0.5  # which is a change of more than this share of the price,
SMALL = 0.1  # or of this share of the dearest one,
SURE = 4.0  # and of more than so many standard errors of the first calls, which vary as the exponential law at least,
RARE = 9.0  # and so many of later ones: the mean of five costs of that law lies further away once in a million times
AGAIN = 3600.0  # seconds after which a dropped stage is tried again
SLACK = 200_000  # tokens that an upstream can have added, or thought without showing: a whole context
LONGEST_TOKENS = 4  # tokens of one character, at most


class Price(Table):
    """Money per million tokens; ``cached`` defaults to ``input``."""

    input: Amount
    output: Amount = 0.0
    cached: Amount = Field(default=0.0, title="as input")

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, table: Any) -> Any:
        return {"cached": table["input"], **table} if isinstance(table, dict) and "input" in table else table

    def of(self, tokens: Tokens) -> float:
        """Return the cost of these tokens.

        >>> Price(input=3.0, output=12.0, cached=0.3).of(Tokens(1000, 400, 100))
        0.00312
        """
        fresh = tokens.input - tokens.cached
        money = fresh * self.input + tokens.cached * self.cached + tokens.output * self.output
        return money / MILLION


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a call; ``cached`` is the part of the input that was read from a cache.

    ``reasoning`` is the part of the output that was thought and not shown.
    """

    input: int = 0
    cached: int = 0
    output: int = 0
    estimated: bool = False
    reasoning: int = 0


def tokens_of(usage: Any) -> Tokens | None:
    """Return the tokens in the ``usage`` of an answer, None if there is nothing usable.

    >>> tokens_of({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})
    Tokens(input=10, cached=4, output=2, estimated=False, reasoning=0)
    """
    if not isinstance(usage, dict):
        return None
    given, made = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens", 0))
    if given is None or made is None:
        return None
    cached = _detail(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = _detail(usage, "completion_tokens_details", "reasoning_tokens")
    return Tokens(given, min(cached, given), made, reasoning=min(reasoning, made))


def _detail(usage: dict[str, Any], details: str, name: str) -> int:
    found = usage.get(details)
    return (_count(found.get(name)) or 0) if isinstance(found, dict) else 0


def is_beyond(tokens: Tokens, given: int, made: int) -> bool:
    """Whether an upstream claims far more than these characters, even if it added or thought a whole context.

    >>> is_beyond(Tokens(10**11, 0, 5), 19, 20), is_beyond(Tokens(100_000, 0, 100_000), 19, 20)
    (True, False)
    """
    claims = ((tokens.input, given), (tokens.output, made))
    return any(count > LONGEST_TOKENS * characters + SLACK for count, characters in claims)


def _count(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 10**12 else None


def estimated_tokens(given: int, made: int) -> Tokens:
    """Estimate tokens from numbers of characters, for an upstream that does not report them.

    >>> estimated_tokens(10, 0)
    Tokens(input=3, cached=0, output=0, estimated=True, reasoning=0)
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
        return away > MOVED * max(stated, 1e-300) and away > 2.0 * self.error()

    def error(self, count: float | None = None) -> float:
        """Return the standard error of the mean, or of the mean of ``count`` calls."""
        return math.sqrt(self.spread / (count or self.count))


@dataclass(slots=True)
class PriceWatch:
    """Checks whether calls still cost what was stated, and gives new prices if not.

    A jump, by half or more, is noticed after five calls, a mean that moved over 5 % every 500 rounds. The price of a
    stage follows its own calls only. If prices must rise, as for a router, a stage that has become dearer than a later
    one, which answers better, is dropped: it must not be called. An hour later it is tried again.
    """

    stated: list[float]  # the prices of the learner
    rising: bool = True
    rounds: int = 0
    clock: Callable[[], float] = monotonic
    seen: list[float] = field(init=False)  # what calls cost, as far as is known
    means: list[Mean] = field(init=False)
    recent: list[deque[float]] = field(init=False)  # the last calls,
    former: list[Mean] = field(init=False)  # and those before
    dropped: dict[int, float] = field(init=False)  # stage -> when
    retried: set[int] = field(init=False)  # stages that were dropped, and whose price is not known

    def __post_init__(self) -> None:
        self.seen, self.dropped, self.retried = list(self.stated), {}, set()
        self.means = [Mean() for _ in self.stated]
        self.former = [Mean() for _ in self.stated]
        self.recent = [deque(maxlen=QUICK) for _ in self.stated]

    def add(self, stage: int, cost: float) -> None:
        """Count what one call of a stage cost."""
        self.means[stage].add(cost)
        if len(self.recent[stage]) == QUICK:
            self.former[stage].add(self.recent[stage][0])
        self.recent[stage].append(cost)

    def look(self) -> list[float] | None:
        """Count a round; return new prices if they are needed."""
        self.rounds += 1
        for k, since in list(self.dropped.items()):
            if self.clock() - since > AGAIN:
                del self.dropped[k]
                self.seen[k] = self.stated[k]
                self.retried.add(k)
                self._begin(k)
        called = [k for k in range(len(self.stated)) if k not in self.dropped]
        jumps = [k for k in called if self._is_new(k) or self._has_jumped(k)]
        for k in jumps:
            self.retried.discard(k)
            if not self._is_new(k):
                self._begin(k, self.recent[k])
            self.seen[k] = self.means[k].mean
        regular = self.rounds % EVERY == 0
        if regular and any(self.means[k].moved_from(self.seen[k]) for k in called):
            for k in called:
                if self.means[k].count >= ENOUGH:
                    self.seen[k] = self.means[k].mean
        if not regular and not jumps:
            return None
        found, dearer = self._ordered()
        for k in dearer:
            self.dropped.setdefault(k, self.clock())
        return found if found[-1] > 0.0 and found != self.stated else None

    def _begin(self, stage: int, costs: Iterable[float] = ()) -> None:
        """Forget the calls of a stage, but for these."""
        costs = list(costs)
        self.means[stage], self.former[stage] = Mean(), Mean()
        self.recent[stage].clear()
        for cost in costs:
            self.add(stage, cost)

    def _is_new(self, stage: int) -> bool:
        """Whether the first calls of a stage show that its price was wrong all along."""
        mean = self.means[stage]
        if mean.count >= ENOUGH or mean.count < QUICK:
            return False
        # a few calls may be alike by chance
        least = 0.0 if stage in self.retried else self.seen[stage] / math.sqrt(mean.count)
        return self._is_off(stage, mean.mean, SURE * max(least, mean.error(mean.count - 1.0)))

    def _has_jumped(self, stage: int) -> bool:
        """Whether the last calls of a stage lie further from its price than calls did before."""
        before, last = self.former[stage], self.recent[stage]
        if before.count < QUICK:
            return False
        least = self.seen[stage] / math.sqrt(QUICK) if before.count < ENOUGH else 0.0
        return self._is_off(stage, sum(last) / QUICK, RARE * max(least, before.error(QUICK)))

    def _is_off(self, stage: int, mean: float, least: float) -> bool:
        """Whether this mean is far from the price of a stage, and the last calls are all on its side."""
        last, known, band = self.recent[stage], self.seen[stage], self._band(stage)
        if len(last) < QUICK or abs(mean - known) <= max(band, least):
            return False
        return min(last) > known + band if mean > known else max(last) < known - band

    def _band(self, stage: int) -> float:
        return FAR * max(self.seen[stage], SMALL * max(self.seen))

    def _ordered(self) -> tuple[list[float], list[int]]:
        """Return the prices, in rising order if they must be, and the stages that cost more than a later one."""
        found, dearer = list(self.seen), list[int]()
        for k in reversed(range(len(found) - 1)):
            if self.rising and found[k] > found[k + 1]:
                if found[k] > (1.0 + MOVED) * found[k + 1]:
                    dearer.append(k)
                found[k] = found[k + 1]  # never raise a later one: it costs no more than before
        return found, dearer

    def accept(self, prices: list[float]) -> None:
        """Take over the learner's current prices, if they are not those of `look`."""
        if prices != self._ordered()[0]:
            self.seen = list(prices)
        self.stated = list(prices)
