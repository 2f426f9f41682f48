"""One call of a stage for one request: its outcome, duration and cost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Protocol

from weakfeedback.serve.invoice import BilledCall
from weakfeedback.serve.proxy.accounts import UpstreamMetrics
from weakfeedback.serve.proxy.answers import ModelAnswer, answers_of
from weakfeedback.serve.proxy.prices import PriceWatch, Tokens, estimated_tokens, is_beyond, tokens_of
from weakfeedback.serve.proxy.request import Asked, has_images
from weakfeedback.serve.proxy.settings import ProxySettings
from weakfeedback.serve.proxy.stream import Assembly, BrokenStream
from weakfeedback.serve.proxy.upstream import RESTING, Events, UpstreamFailed

log = logging.getLogger("weakfeedback.serve")
CHAT = "/chat/completions"
REFUSALS = {
    "401": "its key is wrong or has expired",
    "403": "its key does not allow this model",
    "404": "there is no such model or address",
}


class Server(Protocol):
    """A server of models; `weakfeedback.serve.proxy.upstream.Upstream` is one."""

    async def ask(self, path: str, body: dict[str, Any], failed: Callable[[str], None]) -> dict[str, Any]:
        """Return the answer of a plain call."""

    async def open(self, path: str, body: dict[str, Any], failed: Callable[[str], None]) -> Events:
        """Return the events of a streamed call, once the first has arrived."""

    async def close(self) -> None:
        """Close all connections."""


class Books:
    """Records the calls of one learner."""

    def __init__(self, prices: PriceWatch, watch: UpstreamMetrics | None) -> None:
        self.prices, self.watch = prices, watch
        self._refused: dict[int, str] = {}  # stages whose upstream refuses them, and its status
        self._beyond: set[int] = set()  # stages that have claimed more tokens than the texts can have

    def note(self, outcome: str, stage: int, settings: ProxySettings) -> None:
        """Say in the log, once, that an upstream refuses a stage, and that it answers again."""
        chosen, known = settings.stages[stage], self._refused.get(stage)
        if outcome in REFUSALS and known != outcome:
            self._refused[stage] = outcome
            words = f"answers {outcome} for {chosen.name}: {REFUSALS[outcome]}; other stages answer instead"
            self._warn(settings, stage, words)
        elif outcome == "ok" and known is not None:
            del self._refused[stage]
            self._warn(settings, stage, f"answers for {chosen.name} again")

    def doubt(self, tokens: Tokens, stage: int, settings: ProxySettings) -> None:
        """Say in the log, once, that an upstream claims more tokens than the texts can have."""
        if stage not in self._beyond:
            self._beyond.add(stage)
            words = (
                f"claims {tokens.input} tokens in and {tokens.output} out for {settings.stages[stage].name}"
            )
            self._warn(settings, stage, f"{words}, far beyond the texts; such calls are estimated")

    def _warn(self, settings: ProxySettings, stage: int, words: str) -> None:
        log.warning("learner %s: upstream %s %s", settings.name, settings.stages[stage].upstream, words)


class Call:
    """A call of a stage. It is recorded exactly once, no matter how it ends."""

    def __init__(self, asked: Asked, stage: int, server: Server, books: Books, with_logprobs: bool) -> None:
        self.asked, self.stage = asked, stage
        self._server, self._books = server, books
        self.settings = asked.settings.stages[stage]
        self.adds_logprobs = with_logprobs and self.settings.logprobs and not asked.body.get("logprobs")
        self._started = monotonic()
        self._seconds: float | None = None
        self._first: float | None = None
        self._assembly: Assembly | None = None
        self.tokens: Tokens | None = None
        self.cost = self.money = 0.0  # set when the call ends: with the time that it took, and without
        self.outcome = ""
        self.again = list[str]()  # outcomes of attempts that were repeated
        self.billed = False
        self.answer: ModelAnswer | None = None
        self.completion: dict[str, Any] | None = None

    @property
    def ended(self) -> bool:
        """Whether it has been recorded."""
        return self._seconds is not None

    async def plain(self) -> dict[str, Any]:
        """Return the whole answer; UpstreamFailed if there is none."""
        body = self.asked.body_for(self.stage, False, self.adds_logprobs)
        with self._failing():
            found = await self._server.ask(CHAT, body, self.again.append)
            try:
                answers = answers_of(found)
            except ValueError:  # what it says that it has used, it charges for
                self.tokens = self._believed(tokens_of(found.get("usage")), 0)
                raise UpstreamFailed("malformed") from None
        self.answer, made = answers[0], sum(answer.characters for answer in answers)
        self.tokens = self._believed(tokens_of(found.get("usage")), made)
        if self.tokens is None:
            self.tokens = estimated_tokens(self.asked.characters, made)
        self.completion = found
        self.end("ok")
        return found

    async def open(self) -> Events:
        """Return the chunks of a streamed answer, once the first has arrived; UpstreamFailed if there is none."""
        body = self.asked.body_for(self.stage, True, self.adds_logprobs)
        with self._failing():
            events = await self._server.open(CHAT, body, self.again.append)
        self._first = monotonic() - self._started
        self._assembly = Assembly()
        chunks = self._chunks(events, self._assembly)
        await anext(chunks)  # only a generator that has started ends the call when it is closed
        return chunks

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Record a call that ends without an answer."""
        try:
            yield
        except UpstreamFailed as error:
            self.end(error.outcome, billed=self.tokens is not None)
            raise
        except BaseException as error:
            self.end("cancelled", billed=RESTING not in error.args)
            raise

    async def _chunks(self, events: Events, assembly: Assembly) -> Events:
        try:
            yield b"", None  # for ``open``
            async for data, chunk in events:
                if chunk is not None:
                    assembly.take(chunk)
                    self.tokens = self._believed(assembly.tokens, assembly.characters)
                elif not assembly.finished:
                    raise BrokenStream("the upstream ended its answer without a finish reason")
                else:
                    self.answer = assembly.answer()
                    if self.tokens is None:
                        self.tokens = estimated_tokens(self.asked.characters, assembly.characters)
                    self.end("ok")
                yield data, chunk
        except BrokenStream:
            self.end("cut")
            raise
        finally:
            self.end("cancelled")
            await events.aclose()

    def _believed(self, tokens: Tokens | None, made: int) -> Tokens | None:
        """Return the tokens that an upstream reports, or an estimate if they are far beyond the characters."""
        if tokens is None or self.characters is None or not is_beyond(tokens, self.characters, made):
            return tokens
        self._books.doubt(tokens, self.stage, self.asked.settings)
        return estimated_tokens(self.characters, made)

    @property
    def characters(self) -> int | None:
        """Return the number of characters sent, None if there is more than text."""
        return None if has_images(self.asked.body["messages"]) else self.asked.characters

    def spent(self) -> float:
        """Return the cost so far."""
        return self.cost if self.ended else self._price(self._tokens_so_far(), monotonic() - self._started)

    def billed_so_far(self) -> float:
        """Return the money so far."""
        return self.money if self.ended else self.settings.price.of(self._tokens_so_far())

    def _tokens_so_far(self) -> Tokens:
        if self.tokens is not None:
            return self.tokens
        made = self._assembly.characters if self._assembly is not None else 0
        return estimated_tokens(self.asked.characters, made)

    def _price(self, tokens: Tokens, seconds: float) -> float:
        return self.settings.price.of(tokens) + seconds * self.asked.settings.waiting_price

    def end(self, outcome: str, billed: bool = True) -> None:
        """Record the call, unless that was done already; ``billed`` if the upstream will charge for it."""
        if self.ended:
            return
        self._seconds = seconds = monotonic() - self._started
        tokens = self._tokens_so_far() if billed else None
        self.tokens, self.outcome = tokens, outcome
        self.money = self.settings.price.of(tokens or Tokens())
        self.cost = self._price(tokens or Tokens(), seconds)
        books = self._books
        if outcome == "ok":
            books.prices.add(self.stage, self.cost)
        books.note(outcome, self.stage, self.asked.settings)
        if books.watch is not None:
            name, stage = self.asked.settings.name, self.settings.name
            books.watch.called(name, stage, outcome, seconds, self._first, tokens)

    def row(self, purpose: str) -> BilledCall:
        """Return the call as it stands in a bill."""
        tokens = self.tokens or Tokens()
        return BilledCall(
            self.stage,
            purpose,
            self.outcome,
            self.money,
            tokens.input,
            tokens.cached,
            tokens.output,
            tokens.estimated,
            round(self._seconds or 0.0, 4),
            None if self._first is None else round(self._first, 4),
            self.characters,
        )


async def stop(tasks: list[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
