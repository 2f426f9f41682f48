"""Accounts of the proxy: tokens, errors, seconds and money per stage, and what was saved against the baseline."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

from weakfeedback.serve.proxy.prices import PER_TOKEN, Mean, Tokens
from weakfeedback.serve.proxy.settings import ProxySettings

OVERHEAD = 100  # tokens around the messages of a request, more or less


class Watch(Protocol):
    """Receives every upstream call, for metrics."""

    def called(
        self,
        learner: str,
        stage: str,
        outcome: str,
        seconds: float,
        first: float | None,
        tokens: Tokens | None,
    ) -> None:
        """Record a call that ended; ``first`` is the time in seconds to the first token of a stream."""


@dataclass(slots=True)
class StageAccount:
    """The totals of the calls of one stage."""

    calls: int = 0
    answers: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    input: int = 0
    cached: int = 0
    output: int = 0
    estimated: int = 0
    spent: float = 0.0
    seconds: Mean = field(default_factory=Mean)
    first_token: Mean = field(default_factory=Mean)
    made: Mean = field(default_factory=Mean)  # output tokens per answer
    characters: int = 0  # sent with the calls whose input was reported
    reported: int = 0  # input of these calls

    def summary(self) -> dict[str, Any]:
        """Return the account as plain data."""
        return {
            "calls": self.calls,
            "answers": self.answers,
            "errors": {name: count for name, count in sorted(self.outcomes.items()) if name != "ok"},
            "tokens": {"input": self.input, "cached": self.cached, "output": self.output},
            "estimated": self.estimated,
            "spent": self.spent,
            "seconds": self.seconds.mean if self.seconds.count else None,
            "first_token": self.first_token.mean if self.first_token.count else None,
        }


class Account:
    """The money of one learner's requests, since the process started."""

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self.stages = [StageAccount() for _ in settings.stages]
        self.requests = self.compared = self.fallbacks = self.failed = self.left = 0
        self.spent = self.wasted = self.baseline = self.comparing = 0.0

    def called(
        self,
        stage: int,
        outcome: str,
        seconds: float,
        first: float | None,
        tokens: Tokens | None,
        cost: float,
        characters: int | None = None,
    ) -> None:
        """Count one call of a stage, whatever its outcome; ``characters`` were sent, None if they are not all."""
        account = self.stages[stage]
        account.calls += 1
        account.outcomes[outcome] += 1
        account.spent += cost
        self.spent += cost
        if tokens is not None:
            account.input += tokens.input
            account.cached += tokens.cached
            account.output += tokens.output
            account.estimated += tokens.estimated
            if characters is not None and not tokens.estimated:
                account.characters += characters
                account.reported += tokens.input
        if outcome == "ok":
            account.seconds.add(seconds)
            if tokens is not None:
                account.made.add(tokens.output)
        if first is not None:
            account.first_token.add(first)

    def repeated(self, stage: int, outcome: str) -> None:
        """Count an attempt that failed and was repeated."""
        self.stages[stage].outcomes[outcome] += 1

    def answered(
        self, stage: int, tokens: Tokens, costs: dict[int, float], characters: int | None = None
    ) -> None:
        """Count an answered request; the cost of the baseline is known if it was called."""
        self.requests += 1
        self.stages[stage].answers += 1
        at = self._settings.baseline
        self.baseline += costs[at] if at in costs else self._estimate(tokens.input, characters)

    def _estimate(self, given: int, characters: int | None) -> float:
        """Estimate the cost of the baseline from the input that another model claims, and its mean output and seconds.

        A claim of more than twice what the baseline would have counted for these characters is not believed.
        """
        at = self._settings.baseline
        settings, account = self._settings.stages[at], self.stages[at]
        made = account.made.mean if account.made.count else settings.expect.output
        seconds = account.seconds.mean if account.seconds.count else settings.seconds
        if characters is not None:
            share = account.reported / account.characters if account.characters else 1.0 / PER_TOKEN
            own = math.ceil(characters * share)
            given = own if given > 2 * own + OVERHEAD else given
        price = settings.price.of(Tokens(given, 0, 0)) + made * settings.price.output / 1e6
        return price + seconds * self._settings.waiting_price

    def summary(self) -> dict[str, Any]:
        """Return the account as plain data, with the money saved relative to the named baseline."""
        names = [stage.name for stage in self._settings.stages]
        saved = self.baseline - self.spent - self.comparing
        return {
            "requests": self.requests,
            "compared": self.compared,
            "fallbacks": self.fallbacks,
            "failed": self.failed,
            "left": self.left,
            "spent": self.spent + self.comparing,
            "comparing": self.comparing,
            "wasted": self.wasted,
            "saved": {
                "against": f"{names[self._settings.baseline]} alone",
                "amount": saved,
                "share": saved / self.baseline if self.baseline > 0.0 else None,
                "estimated": True,
            },
            "stages": [{"name": name, **account.summary()} for name, account in zip(names, self.stages)],
        }
