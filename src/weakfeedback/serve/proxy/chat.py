"""The proxy: requests of chat in several dialects, whose models are learners.

A request goes through these steps: check it, decide which stages to call, call them concurrently, send the client the
answer of the chosen stage (chunk by chunk if it wants a stream), and, when all have answered, compare and learn. The
client does not wait for the comparison. An adaptive learner calls stages one by one and decides after each answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Coroutine, Iterable, Mapping, MutableMapping, Sequence
from time import monotonic, time
from typing import Any, TypeVar

from weakfeedback.live.talks import TURNS, Turn
from weakfeedback.serve.app import read_body
from weakfeedback.serve.models import Problem
from weakfeedback.serve.proxy.accounts import UpstreamMetrics, alone_estimated, prices_expected
from weakfeedback.serve.proxy.answers import answer_of
from weakfeedback.serve.proxy.bills import Bills
from weakfeedback.serve.proxy.calls import CHAT, Books, Call, Server, stop
from weakfeedback.serve.proxy.compare import Comparator, Partition
from weakfeedback.serve.proxy.conversations import AdaptiveTalks, switching
from weakfeedback.serve.proxy.decider import Decider, NextStage, Ruling, Spending, Unavailable
from weakfeedback.serve.proxy.dialect import Dialect
from weakfeedback.serve.proxy.prices import PriceWatch, Tokens, estimated_tokens, is_beyond, tokens_of
from weakfeedback.serve.proxy.reply import Receive, Reply, Send, until_left
from weakfeedback.serve.proxy.request import Asked, has_images, learner_of, read_request
from weakfeedback.serve.proxy.settings import ProxySettings
from weakfeedback.serve.proxy.stream import BrokenStream, chunks_of
from weakfeedback.serve.proxy.upstream import UpstreamFailed

log = logging.getLogger("weakfeedback.serve")
LARGEST = 16 << 20  # maximum bytes of a request
LONGEST_WAIT = 86_400.0  # seconds that a client is asked to wait
WAITING = 1000  # comparisons that may wait at the same time
Made = TypeVar("Made", Ruling, NextStage)


class StreamCut(Exception):
    """A stream that broke after its first byte; the client has received an error."""


class Round:
    """One request in progress."""

    def __init__(self, asked: Asked, token: str | None = None) -> None:
        self.asked, self.token = asked, token  # the name of the token of who has asked
        self.ruling: Ruling | None = None  # the decision, if there is one
        self.partition: Partition | None = None  # classes of the answers so far, of an adaptive learner
        self.began = monotonic()
        self.calls: dict[int, Call] = {}  # the last of each stage
        self.all: list[Call] = []
        self.answer: Call | None = None  # the call that answered, once it is billed
        self.guessed = 0.0  # what the baseline was estimated to cost
        self.others: dict[int, asyncio.Task[dict[str, Any]]] = {}
        self.chosen = 0  # the stage that was to answer
        self.path: list[int] = []  # the stages tried; the last one answered
        self.failures: list[UpstreamFailed] = []  # of these
        self.learning = True
        self.spoilt = False  # nothing can be learned from it
        self.judged = self.judge_billed = 0.0  # money of judges and embeddings, and how much of it is billed
        self.skipped = False  # a stage that should have been called costs too much
        self.compared = False
        self.turn: str | None = None  # of a conversation: first, same or up
        self.talk: Turn | None = None  # the same of an adaptive learner, known when it has an answer
        self.delivered: int | None = None  # the stage whose answer the client has
        self.again: Call | None = None  # the second one of the reference
        self.asks_again = False
        self.risk: float | None = None  # that the answer differs from the reference's, of a promise

    def pay(self, cost: float) -> None:
        """Count what a judge or embeddings have cost."""
        self.judged += cost

    def spending(self) -> Spending:
        """Return the cost of the calls so far, and of judges and embeddings."""
        costs = {k: call.spent() for k, call in self.calls.items()}
        tokens = [call.tokens for call in self.calls.values() if call.tokens is not None]
        sums = (sum(t.input for t in tokens), sum(t.cached for t in tokens), sum(t.output for t in tokens))
        return Spending(costs, sums, self.judged)

    def headers(self, stage: int, cost: float | None = None) -> dict[str, str]:
        """Return the response headers that describe the decision."""
        settings = self.asked.settings
        found = {
            "x-weakfeedback-learner": settings.name,
            "x-weakfeedback-stage": str(stage),
            "x-weakfeedback-model": _header(settings.stages[stage].model),
            "x-weakfeedback-compared": "yes" if self.compared else "no",
            "x-weakfeedback-learning": "on" if self.learning else "off",
        }
        if self.turn is not None or self.talk is not None:
            found["x-weakfeedback-conversation"] = self.turn or (self.talk.word(stage) if self.talk else "")
        if self.ruling is not None:
            found["x-weakfeedback-decision"] = str(self.ruling.id)
        if self.risk is not None:
            found["x-weakfeedback-risk"] = f"{self.risk:.3g}"
        if len(self.path) > 1:
            found["x-weakfeedback-fallback"] = _header(">".join(settings.stages[k].name for k in self.path))
        if cost is not None:
            found["x-weakfeedback-cost"] = f"{cost:.6g}"
        return found

    def note(self, stage: int, cost: float) -> dict[str, Any]:
        """Return the description of the decision for the response body."""
        decision = self.ruling.id if self.ruling is not None else None
        return {"stage": stage, "decision": decision, "cost": cost}


class Proxy:
    """All learners with upstream stages, behind two routes."""

    def __init__(
        self,
        learners: Iterable[ProxySettings],
        servers: Mapping[str, Server],
        decider: Decider,
        watch: UpstreamMetrics | None = None,
    ) -> None:
        self.learners = {settings.name: settings for settings in learners}
        self._servers, self._decider = servers, decider
        self._books = {
            name: Books(PriceWatch(settings.prices(), settings.kind == "router"), watch)
            for name, settings in self.learners.items()
        }
        self._comparators = {name: self._comparator(settings) for name, settings in self.learners.items()}
        self._talks = {name: AdaptiveTalks(settings) for name, settings in self.learners.items()}
        self.bills = Bills(decider)
        self._under_way: set[tuple[str, int]] = set()  # decisions (learner, id) that this process will end
        self._background: set[asyncio.Task[None]] = set()
        self._comparing = 0
        self._created = int(time())

    def account(self, name: str) -> dict[str, Any]:
        """Return the accounts of a learner as plain data."""
        return self._decider.invoice(name).summary()

    def accept_prices(self, name: str, prices: list[float]) -> None:
        """Take over the current prices of a learner."""
        self._books[name].prices.accept(prices)

    def is_under_way(self, name: str, id: int) -> bool:
        """Whether a request in progress here will end this decision of a learner."""
        return (name, id) in self._under_way

    async def drain(self) -> None:
        """Wait for all comparisons and bookings in progress."""
        while self._background:  # gather() of what is done does not let the loop run, from Python 3.12 on
            await asyncio.wait(self._background)

    async def finish(self, names: Sequence[str], seconds: float = 10.0) -> None:
        """Wait for the requests of learners that will leave, and for what follows them, within a time limit."""
        end = monotonic() + seconds
        while any(name in names for name, _ in self._under_way) and monotonic() < end:
            await asyncio.sleep(0.05)
        if self._background:
            await asyncio.wait(list(self._background), timeout=max(end - monotonic(), 0.0))
        await self.bills.send()

    async def close(self, seconds: float = 5.0) -> None:
        """Finish what is in progress, within a time limit, and close all connections."""
        if self._background:
            await asyncio.wait(list(self._background), timeout=seconds)
        await stop(list(self._background))
        await self.bills.close(seconds)
        for server in self._servers.values():
            await server.close()

    # -- routes

    async def models(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """List the learners, or show one: ``GET /v1/models`` and ``GET /v1/models/NAME``."""
        name = scope.get("path_params", {}).get("name")
        direct = [one.model for known in self.learners.values() if known.passthrough for one in known.stages]
        names = dict.fromkeys([*self.learners, *direct])
        listed = {"object": "list", "data": [self._entry(known) for known in names]}
        await Reply(send).whole(listed if name is None else self._entry(name), {})

    def _entry(self, name: str) -> dict[str, Any]:
        settings, stage = learner_of(name, self.learners)
        owner = "weakfeedback" if stage is None else settings.stages[stage].upstream
        return {"id": name, "object": "model", "created": self._created, "owned_by": owner}

    async def answer(
        self, dialect: Dialect, scope: MutableMapping[str, Any], receive: Receive, send: Send
    ) -> None:
        """Answer a request in its dialect; if the client disconnects, all work for it is cancelled."""
        reply = Reply(send)
        headers = dict(scope["headers"])
        asked = read_request(await read_body(receive, headers, LARGEST), headers, self.learners, dialect)
        scope["weakfeedback.learner"] = asked.settings.name
        round = Round(asked, scope.get("weakfeedback.token"))
        work = asyncio.create_task(self._serve(round, reply))
        left = asyncio.create_task(until_left(receive))
        try:
            await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await stop([work])
                return
            await work
        finally:
            await stop([task for task in (work, left) if not task.done()])

    # -- one request

    async def _serve(self, round: Round, reply: Reply) -> None:
        try:
            try:
                first = await self._decide(round)
                if first is not None:
                    await self._one_after_the_other(round, first, reply)
                else:
                    await self._at_the_same_time(round, reply)
            except asyncio.CancelledError:
                if round.delivered is None:
                    self._abandon(round, "the client left", "left")
                    raise
            except StreamCut:
                self._abandon(round, "the stream was cut", "failed")
                return
        except Exception as error:
            self._abandon(round, "failed", "failed")
            if isinstance(error, Problem):
                error.headers |= round.headers(round.chosen)
            raise
        self._settle(round)

    async def _decide(self, round: Round) -> NextStage | None:
        """Decide which stages to call; for an adaptive learner return the first step."""
        asked = round.asked
        settings = asked.settings
        served = asked.forced is not None or not asked.learn or not asked.comparable
        if served or self._comparing >= WAITING:
            chosen = self._held(round)
            round.chosen = self._able(asked, chosen if asked.forced is None else asked.forced)
            return None
        try:
            if settings.kind == "adaptive":
                round.talk = self._talks[settings.name].turn_of(asked.conversation)
                held = self._talks[settings.name].held(round.talk)
                if held is not None:
                    round.chosen = self._able(asked, held)
                    return None
                step = await self._to_the_end(round, self._decider.begin(settings.name, asked.group))
                round.partition = Partition(self._comparators[settings.name], round.pay)
                round.ruling = Ruling(step.id, (0,), 0)
                self._under_way.add((settings.name, step.id))
                return step
            work = self._decider.decide(settings.name, asked.key, self._told_of(asked))
            ruling = await self._to_the_end(round, work)
        except Unavailable as error:
            if not settings.fail_open:
                raise Problem("store_unavailable", str(error)) from None
            round.learning, round.chosen = False, settings.fallback
            return None
        round.ruling, round.chosen, round.turn = ruling, ruling.answer, ruling.turn
        if ruling.open:
            self._under_way.add((settings.name, ruling.id))
        round.compared = len(ruling.call) > 1 and not ruling.repeated
        dropped = self._books[settings.name].prices.dropped
        if dropped and not dropped.keys().isdisjoint(ruling.call):
            round.chosen, round.compared, round.skipped = self._able(asked, ruling.answer), False, True
        return None

    def _forget(self, round: Round) -> None:
        """Forget a decision that needs no more work here."""
        if round.ruling is not None:
            self._under_way.discard((round.asked.settings.name, round.ruling.id))

    async def _to_the_end(self, round: Round, work: Coroutine[Any, Any, Made]) -> Made:
        """Complete a decision even if the client disconnects meanwhile; in that case cancel the decision."""
        task = asyncio.create_task(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            self._spawn(self._take_back(round, task))
            raise

    async def _take_back(self, round: Round, task: asyncio.Task[Made]) -> None:
        try:
            made = await task
            if isinstance(made, Ruling) and made.stored is not None:
                await made.stored()
            if not (isinstance(made, Ruling) and made.repeated):
                name = round.asked.settings.name
                await self._decider.cancel(name, made.id, round.spending(), "the client left")
        except (Unavailable, Problem):
            return

    def _settled(self, settings: ProxySettings) -> int:
        if settings.promises:  # an answer that nobody can compare is the reference's
            return settings.reference
        try:
            return self._decider.settled(settings.name)
        except Unavailable:
            return settings.fallback

    def _held(self, round: Round) -> int:
        """Return the stage of a request that is not decided: that of its conversation, or the one that is trusted."""
        asked, settings = round.asked, round.asked.settings
        if settings.kind == "adaptive" and asked.forced is None:
            round.talk = self._talks[settings.name].turn_of(asked.conversation)
            held = self._talks[settings.name].held(round.talk)
            return self._settled(settings) if held is None else held
        if asked.conversation is not None and asked.forced is None:
            with contextlib.suppress(Unavailable):
                held = self._decider.held(settings.name, asked.conversation)
                if held is not None:
                    round.turn = "same"
                    return held
        return self._settled(settings)

    def _told_of(self, asked: Asked) -> dict[str, Any]:
        """Return what the learner is told of a request, and of a router what it costs."""
        settings, turns = asked.settings, 1
        told: dict[str, Any] = {"context": asked.context, "group": asked.group}
        if asked.conversation is not None:
            told["conversation"], turns = asked.conversation, TURNS
            told["switching"] = [switching(stage, asked.characters) for stage in settings.stages]
        if settings.prices_requests:
            invoice = self._decider.invoice(settings.name)
            prices = prices_expected(settings, invoice, asked.characters, turns)
            told["prices"] = prices if prices[-1] > 0.0 else None
        return {name: value for name, value in told.items() if value is not None}

    def _able(self, asked: Asked, stage: int) -> int:
        """Return the stage if it can read the request and is worth its price, otherwise the nearest later one."""
        if asked.forced is not None:
            return stage
        stages, dropped = asked.settings.stages, self._books[asked.settings.name].prices.dropped
        images = has_images(asked.body["messages"])
        later = range(stage, len(stages))
        return next((k for k in later if k not in dropped and (stages[k].images or not images)), stage)

    def _call(self, round: Round, stage: int) -> Call:
        round.calls[stage] = call = self._made(round, stage)
        return call

    def _made(self, round: Round, stage: int) -> Call:
        settings = round.asked.settings
        server = self._servers[settings.stages[stage].upstream]
        call = Call(round.asked, stage, server, self._books[settings.name], settings.kind == "adaptive")
        round.all.append(call)
        return call

    async def _at_the_same_time(self, round: Round, reply: Reply) -> None:
        """Call all stages of the decision; the client gets the answer of the last one as it arrives."""
        if round.compared and round.ruling is not None:
            for k in round.ruling.call[:-1]:
                round.others[k] = asyncio.create_task(self._call(round, k).plain())
        await self._answer(round, reply, round.chosen)

    async def _answer(self, round: Round, reply: Reply, stage: int) -> None:
        """Answer with a stage; if it fails before the first byte, try the later ones, then the earlier ones."""
        last = len(round.asked.settings.stages)
        for k in (stage, *range(stage + 1, last)):
            if await self._try(round, reply, k):
                return
        earlier = sorted(range(stage), key=lambda k: (not self._is_there(round, k), -k))
        if earlier and await self._may_go_out(round):
            for k in earlier:
                if await self._try(round, reply, k):
                    return
        names = ", ".join(round.asked.settings.stages[k].name for k in round.path)
        raise _unanswered(names, round.failures)

    async def _may_go_out(self, round: Round) -> bool:
        """Whether a cheaper stage may answer although the reference failed: a promise must have room for it."""
        settings = round.asked.settings
        if not settings.promises or round.asked.forced is not None:
            return True
        try:
            if self._decider.is_shadowed(settings.name):
                return True
            return await self._decider.unseen(settings.name, round.asked.group)
        except Unavailable:
            return settings.fail_open

    def _is_there(self, round: Round, stage: int) -> bool:
        call = round.calls.get(stage)
        return call is not None and call.completion is not None

    async def _try(self, round: Round, reply: Reply, stage: int) -> bool:
        """Answer with one stage; return whether it succeeded. A request that the first stage finds wrong is refused."""
        asked = round.asked
        if round.path and has_images(asked.body["messages"]) and not asked.settings.stages[stage].images:
            return False
        round.path.append(stage)
        try:
            call = round.calls.get(stage)
            if stage in round.others:
                found = await asyncio.shield(round.others[stage])
            elif call is not None and call.completion is not None:
                found = call.completion
            elif asked.stream:
                await self._stream(round, reply, self._call(round, stage))
                return True
            else:
                found = await self._call(round, stage).plain()
        except UpstreamFailed as error:
            if error.passed_on and len(round.path) == 1:
                raise _refusal(error) from None
            round.failures.append(error)
            return False
        await self._give(round, reply, stage, found)
        return True

    def _weigh(self, round: Round, stage: int) -> None:
        """Note the risk of the answer that goes out, where a share is promised."""
        settings = round.asked.settings
        if settings.promises and round.ruling is not None:
            is_own = stage == settings.reference
            round.risk = 0.0 if is_own else self._decider.risk(settings.name, round.ruling.id)

    async def _wait_stored(self, round: Round) -> None:
        """Wait until the decision is on disk; the calls run meanwhile. If it is not stored, nothing is learned."""
        if round.ruling is None or round.ruling.stored is None:
            return
        try:
            await round.ruling.stored()
        except Unavailable as error:
            self._forget(round)
            round.ruling, round.learning, round.compared, round.spoilt = None, False, False, True
            if not round.asked.settings.fail_open:
                raise Problem("store_unavailable", str(error)) from None

    async def _give(self, round: Round, reply: Reply, stage: int, found: dict[str, Any]) -> None:
        """Send the client a complete answer."""
        await self._wait_stored(round)
        self._weigh(round, stage)
        call, asked = round.calls[stage], round.asked
        await self._bill_answer(round, call)
        shown = dict(found)
        if call.adds_logprobs:
            shown["choices"] = [{**choice, "logprobs": None} for choice in found["choices"]]
        note = round.note(stage, call.money)
        headers = round.headers(stage, None if asked.stream else call.money)
        tokens = call.tokens or Tokens()
        if not asked.stream:
            round.delivered = stage
            await reply.whole(asked.dialect.whole(shown, tokens, note), headers)
            return
        await reply.stream(headers)
        for chunk in chunks_of(shown, asked.with_usage):
            if not chunk["choices"]:
                chunk["weakfeedback"] = note
            await reply.piece(asked.dialect.chunk(chunk))
        round.delivered = stage
        await reply.end(asked.dialect.end(tokens, note))

    async def _stream(self, round: Round, reply: Reply, call: Call) -> None:
        """Send the client an answer chunk by chunk; if it breaks off, send an error event and no clean end."""
        events = await call.open()
        try:
            await self._wait_stored(round)
            self._weigh(round, call.stage)
            await reply.stream(round.headers(call.stage))
            async for data, chunk in events:
                if chunk is None:
                    await self._bill_answer(round, call)
                    round.delivered = call.stage
                    note = round.note(call.stage, call.money)
                    await reply.end(round.asked.dialect.end(call.tokens or Tokens(), note))
                    break
                shown = self._edit(round, call, data, chunk)
                if shown:
                    await reply.piece(shown)
        except BrokenStream as error:
            await reply.end(round.asked.dialect.cut(str(error)))
            raise StreamCut from None
        finally:
            await events.aclose()

    def _edit(self, round: Round, call: Call, data: bytes, chunk: dict[str, Any]) -> bytes:
        """Return a chunk as the client should see it: without what it did not ask for."""
        changed = False
        if "usage" in chunk:
            if not round.asked.with_usage:
                if not chunk["choices"] and chunk["usage"] is not None:
                    return b""
                del chunk["usage"]
                changed = True
            elif chunk["usage"] is not None:
                chunk["weakfeedback"] = round.note(call.stage, call.billed_so_far())
                changed = True
        if not round.asked.with_obfuscation:
            changed = chunk.pop("obfuscation", None) is not None or changed
        if call.adds_logprobs:
            for choice in chunk["choices"]:
                changed = choice.pop("logprobs", None) is not None or changed
        return round.asked.dialect.chunk(chunk, None if changed else data)

    async def _one_after_the_other(self, round: Round, step: NextStage, reply: Reply) -> None:
        """Call stage after stage, and ask the learner after each answer whether it is good enough.

        Only the last of all stages is known to be final before it answers, so only its answer can be streamed.
        """
        asked = round.asked
        last = len(asked.settings.stages) - 1
        stage: int | None = step.stage
        try:
            while stage is not None and stage < last:
                call = self._call(round, stage)
                round.chosen = stage
                stage = (await self._call_and_tell(round, call)).stage
        except (UpstreamFailed, Unavailable, ValueError) as error:
            await self._recover(round, reply, error)
            return
        if stage is not None:
            round.chosen = stage
            round.compared = bool(round.calls)
            await self._answer(round, reply, stage)
            return
        round.compared = len(round.calls) > 1
        round.path.append(round.chosen)
        await self._give(round, reply, round.chosen, round.calls[round.chosen].completion or {})

    async def _call_and_tell(self, round: Round, call: Call) -> NextStage:
        """Call a stage and tell its answer; one that fails is told to a promise, whose reference answers then."""
        settings = round.asked.settings
        try:
            await call.plain()
        except UpstreamFailed as error:
            if (
                error.passed_on
                or not settings.promises
                or call.stage == settings.reference
                or round.ruling is None
            ):
                raise
            return await self._decider.tell_failed(settings.name, round.ruling.id, call.stage)
        return await self._tell(round, call)

    async def _recover(self, round: Round, reply: Reply, error: Exception) -> None:
        """Answer a request whose learning failed midway: with later stages, then with an answer that exists."""
        failed, stages = round.chosen, len(round.asked.settings.stages)
        if isinstance(error, UpstreamFailed) and not self._is_there(round, failed):
            if error.passed_on and len(round.calls) == 1:
                raise _refusal(error) from None
            round.path.append(failed)
            round.failures.append(error)
        elif isinstance(error, Unavailable):
            round.learning = False
            if not round.asked.settings.fail_open:
                raise Problem("store_unavailable", str(error)) from None
        round.spoilt = True
        await self._answer(round, reply, min(failed + 1, stages - 1))

    async def _tell(self, round: Round, call: Call) -> NextStage:
        """Tell an adaptive learner the answer of a stage."""
        if call.answer is None or round.partition is None or round.ruling is None:
            raise ValueError("there is no answer to tell")
        label = await round.partition.add(call.answer)
        name, id = round.asked.settings.name, round.ruling.id
        step = await self._decider.tell(name, id, call.stage, label, call.answer.score, call.cost)
        round.asks_again = step.again
        if step.stage is None:
            self._forget(round)
        return step

    async def _tell_last(self, round: Round, stage: int) -> None:
        """Tell the answer of the last stage, which the client already has."""
        try:
            await self._tell(round, round.calls[stage])
        except (UpstreamFailed, ValueError):
            await self._cancel(round, "comparison failed")
        except Unavailable:
            self._forget(round)
        finally:
            await self._bill(round)  # of a judge
        await self._ask_again(round)

    # -- afterwards

    def _settle(self, round: Round) -> None:
        """Account for an answered request, and start the comparison if one was decided."""
        settings, stage = round.asked.settings, round.delivered
        if stage is None:
            return
        if round.turn is not None and round.asked.conversation is not None and stage != round.chosen:
            self._spawn(self._move(settings.name, round.asked.conversation, stage))
        self._talks[settings.name].keep(round.talk, stage)
        books = self._books[settings.name]
        if len(round.path) > 1 or round.spoilt or round.skipped:
            reason = "failed" if round.spoilt else "fallback" if len(round.path) > 1 else "too dear"
            self._abandon(round, reason)
        elif round.partition is None and round.ruling is not None and round.ruling.open:
            self._comparing += 1
            self._spawn(self._compare(round))
        elif round.ruling is not None and round.partition is not None and stage == len(settings.stages) - 1:
            self._spawn(self._tell_last(round, stage))
        elif round.asks_again:
            self._spawn(self._ask_again(round))
        elif round.ruling is None or round.ruling.repeated:
            self._spawn(self._book(round, stage))
        before = set(books.prices.dropped)
        prices = books.prices.look()
        for k in sorted(set(books.prices.dropped) - before):
            words = (
                f"{settings.stages[k].name} costs {books.prices.seen[k]:.4g} a call, more than a later stage"
            )
            log.warning("%s", f"learner {settings.name}: {words}, and is not called for an hour")
        if prices is not None:
            self._spawn(self._recost(settings.name, prices))

    async def _compare(self, round: Round) -> None:
        """Wait for the other answers, compare and learn; if that fails, cancel the decision with its cost."""
        settings, ruling = round.asked.settings, round.ruling
        try:
            if ruling is None:
                return
            try:
                async with asyncio.timeout(settings.compare_timeout):
                    failed = await self._failures(round)
                    answers = [round.calls[k].answer for k in ruling.call if k not in failed]
                    found = await self._comparators[settings.name].compare(
                        [a for a in answers if a is not None], round.pay
                    )
            except (UpstreamFailed, TimeoutError, ValueError):
                await stop(list(round.others.values()))
                await self._cancel(round, "comparison failed")
                return
            except asyncio.CancelledError:
                await stop(list(round.others.values()))
                raise
            spending = round.spending()
            try:
                called = tuple(k for k in ruling.call if k not in failed)
                round.asks_again = await self._decider.feedback(
                    settings.name, ruling.id, found.differ(called), found.far, found.digest, spending, failed
                )
            except Unavailable:
                return
        finally:
            self._forget(round)
            self._comparing -= 1
            await self._bill(round)
        await self._ask_again(round)

    async def _ask_again(self, round: Round) -> None:
        """Call the reference a second time, if that is asked for, and tell whether it agrees with itself."""
        settings, ruling = round.asked.settings, round.ruling
        first = round.calls.get(settings.reference)
        if not round.asks_again or ruling is None or first is None or first.answer is None:
            return
        round.again = call = self._made(round, settings.reference)
        try:
            async with asyncio.timeout(settings.compare_timeout):
                await call.plain()
                found = await self._comparators[settings.name].compare(
                    [one for one in (first.answer, call.answer) if one is not None], round.pay
                )
            differs = found.classes != (0, 0)
            await self._decider.check_again(settings.name, ruling.id, differs, call.cost + found.cost)
        except (UpstreamFailed, TimeoutError, ValueError, Unavailable):
            return  # there is nothing to count
        finally:
            await self._bill(round)

    async def _failures(self, round: Round) -> tuple[int, ...]:
        """Wait for the other answers; return the stages that failed, if a promise can do without them."""
        settings = round.asked.settings
        if not settings.promises or settings.reference in round.others:
            await asyncio.gather(*round.others.values())
            return ()
        found = await asyncio.gather(*round.others.values(), return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException) and not isinstance(one, UpstreamFailed):
                raise one
        return tuple(k for k, one in zip(round.others, found) if isinstance(one, UpstreamFailed))

    def _abandon(self, round: Round, reason: str, end: str | None = None) -> None:
        """Stop all calls of a request at once, and cancel its decision with its cost; ``end`` if it has no answer."""
        for task in round.others.values():
            task.cancel()

        async def finish() -> None:
            await stop(list(round.others.values()))
            await self._bill(round, None if round.answer is not None else end)
            if round.ruling is not None and not round.ruling.repeated:
                await self._cancel(round, reason)
            elif round.calls:
                await self._book(round, round.chosen)

        self._spawn(finish())

    async def _cancel(self, round: Round, reason: str) -> None:
        """Cancel the decision if it was stored; the id of one that was not stored is used again."""
        with contextlib.suppress(Problem):
            await self._wait_stored(round)
        if round.ruling is None:
            return
        try:
            await self._decider.cancel(round.asked.settings.name, round.ruling.id, round.spending(), reason)
        except Unavailable:
            return
        finally:
            self._forget(round)

    async def _book(self, round: Round, stage: int) -> None:
        """Account for a request answered without a decision of its own; otherwise the decision accounts for it."""
        if round.ruling is not None and not round.ruling.repeated:
            return
        with contextlib.suppress(Unavailable):
            await self._decider.serve(round.asked.settings.name, stage, round.spending())

    # -- bills

    async def _bill_answer(self, round: Round, call: Call) -> None:
        """Store what an answer cost before the client has it, even if it leaves meanwhile."""
        round.answer = call
        await asyncio.shield(self._spawn(self._bill(round, "answered")))

    async def _bill(self, round: Round, end: str | None = None) -> None:
        """Store the calls that have ended since the last bill; ``end`` says how the request ended."""
        bill = self._bill_of(round, end)
        if round.token is not None and ("calls" in bill or "judge" in bill):
            bill["token"] = round.token
        if bill:
            bill |= {} if round.asked.group is None else {"group": round.asked.group}
            await self.bills.add(round.asked.settings.name, bill)

    def _bill_of(self, round: Round, end: str | None) -> dict[str, Any]:
        settings, bill = round.asked.settings, dict[str, Any]()
        calls = [call for call in round.all if call.ended and not call.billed]
        for call in calls:
            call.billed = True
        if calls:
            bill["calls"] = [list(call.row(_purpose(round, call, end))) for call in calls]
            again = [[call.stage, outcome] for call in calls for outcome in call.again]
            bill |= {"again": again} if again else {}
        if round.judged > round.judge_billed:
            bill["judge"], round.judge_billed = round.judged - round.judge_billed, round.judged
        base = round.calls.get(settings.baseline)
        called = base is not None and base.outcome == "ok"
        if end is not None:
            bill["end"] = end
        if end == "answered" and round.answer is not None:
            answer, measured = round.answer, base.money if base is not None and called else 0.0
            if not called:
                given = answer.tokens.input if answer.tokens is not None else 0
                invoice = self._decider.invoice(settings.name)
                round.guessed = alone_estimated(settings, invoice, given, answer.characters)
            bill["alone"] = [measured, round.guessed]
            bill["waited"] = monotonic() - round.began
            bill |= {"fallback": True} if len(round.path) > 1 else {}
            bill |= {"compared": True} if round.others and len(round.path) == 1 else {}
        elif round.guessed and called and base is not None:  # it was called beside the answer
            bill["alone"], round.guessed = [base.money, -round.guessed], 0.0
        return bill

    async def _move(self, name: str, conversation: str, stage: int) -> None:
        """Let a conversation go on with the stage that answered in place of another."""
        with contextlib.suppress(Unavailable):
            await self._decider.move(name, conversation, stage)

    async def _recost(self, name: str, prices: list[float]) -> None:
        with contextlib.suppress(Unavailable):
            await self._decider.recost(name, prices)
            self._books[name].prices.accept(prices)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._report_end)
        return task

    def _report_end(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("something failed after a request was answered", exc_info=task.exception())

    # -- judges and embeddings

    def _comparator(self, settings: ProxySettings) -> Comparator:
        chosen = settings.compare
        if not chosen.remote or chosen.price is None:
            return Comparator(chosen)
        server, model, price = self._servers[chosen.upstream], chosen.model, chosen.price

        async def ask(system: str, question: str) -> tuple[str, float]:
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            body = {"model": model, "messages": messages, "temperature": 0, "max_tokens": 5}
            found = await server.ask(CHAT, body, lambda _: None)
            try:
                said = answer_of(found).text
            except ValueError:
                said = ""  # it is paid, and says neither yes nor no
            return said, price.of(_judged(found, len(system) + len(question), len(said)))

        async def embed(texts: list[str]) -> tuple[list[list[float]], float]:
            body = {"model": model, "input": texts, "encoding_format": "float"}
            found = await server.ask("/embeddings", body, lambda _: None)
            cost = price.of(_judged(found, sum(map(len, texts)), 0))
            try:
                rows = sorted(found["data"], key=lambda row: row["index"])
                vectors = [[float(x) for x in row["embedding"]] for row in rows]
            except (KeyError, TypeError, ValueError):
                return [], cost  # too few: it is paid, and nothing can be compared
            return vectors, cost

        return Comparator(chosen, ask, embed)


def _judged(found: dict[str, Any], given: int, made: int) -> Tokens:
    """Return the tokens that a judge or embeddings report, or an estimate if they are far beyond the characters."""
    tokens = tokens_of(found.get("usage"))
    return estimated_tokens(given, made) if tokens is None or is_beyond(tokens, given, made) else tokens


def _purpose(round: Round, call: Call, end: str | None) -> str:
    """Return what a call was for."""
    if call is round.answer:
        return "answer"
    if call.outcome != "ok" or end in ("failed", "left"):
        return "lost"
    if call.stage in round.others or call is round.again:
        return "compare"
    return "first" if round.partition is not None else "lost"


def _unanswered(names: str, failures: list[UpstreamFailed]) -> Problem:
    """Return the error for a client whom no model answers: to wait, if that is what all of them say."""
    words = f"no upstream answered; tried: {names}"
    if not failures or any(error.status != 429 for error in failures):
        return Problem("upstream_failed", words)
    wait = min(error.wait or 0.0 for error in failures)
    words = f"{words}; all of them allow no more requests now"
    return Problem("too_many_requests", words, retry_after=math.ceil(min(max(wait, 1.0), LONGEST_WAIT)))


def _refusal(error: UpstreamFailed) -> Problem:
    """Return the error for a client whose request an upstream finds wrong."""
    detail = error.detail or {}
    refused = Problem("upstream_refused", detail.get("message") or "the upstream refused", theirs=detail)
    refused.status = error.status or 400
    return refused


def _header(text: str) -> str:
    """Return a text made safe for a header."""
    return "".join(one if " " <= one <= "~" else "?" for one in text)
