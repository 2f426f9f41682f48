"""A fake model server: OpenAI's protocol, known skill, known tokens, and every fault on demand.

The demo, the how-to and the tests use it. Answers depend only on the question, the model and the seed. A question
such as "What is 17 * 23?" gets a number, any other a letter.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from hashlib import blake2b
from time import monotonic
from typing import Any

import orjson

from weakfeedback.serve.proxy.upstream import Events, UpstreamFailed

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

SUM = re.compile(r"(-?\d{1,9})\s*([-+*])\s*(-?\d{1,9})")
DEEP = b',"deep":' + b"[" * 300 + b"]" * 300 + b"}"  # the end of a deeply nested object
PAD = "x" * 1024


@dataclass(frozen=True, slots=True)
class FakeModel:
    """A model that is right with probability ``skill``; ``seconds`` until its first token, ``pause`` between tokens."""

    name: str
    skill: float = 1.0
    seconds: float = 0.0
    pause: float = 0.0
    tokens: int = 20  # billed per answer


@dataclass(slots=True)
class Seen:
    """A call that the server received, and its outcome."""

    model: str
    body: dict[str, Any]
    headers: dict[str, str]
    at: float
    left: float | None = None  # when the caller closed the connection before the end


@dataclass(slots=True)
class FakeUpstream:
    """An ASGI application with models.

    ``faults`` has a list of faults per model, of which every call takes the first: a status such as "500" or
    "429:1" (with Retry-After), "hang", "stall:N" and "cut:N" (after N chunks), "broken", "broken:N", "no-done",
    "no-finish", "error-event", "error-event:N", "no-usage", "usage-with-finish", "huge", "deep", "redirect", "gzip",
    "ok".
    ``always`` has one fault per model, for every call without a fault from ``faults``.
    """

    models: dict[str, FakeModel]
    seed: int = 0
    say: Callable[[str, str], str] | None = None  # (model, question) -> answer, instead of the fakes' own
    faults: dict[str, list[str]] = field(default_factory=dict)
    always: dict[str, str] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    keep: int = 10_000

    # -- what the models know

    def answer(self, model: str, question: str) -> tuple[str, float]:
        """Return a model's answer to a question, and how sure it is of every token."""
        if self.say is not None:
            return self.say(model, question), 0.9
        fake = self.models[model]
        right = self._draw("right", model, question) < fake.skill
        doubt = self._draw("doubt", model, question)
        sure = 0.80 + 0.19 * doubt if right else 0.55 + 0.35 * doubt
        return f"The answer is {truth(question) if right else self._wrong(model, question)}.", sure

    def _wrong(self, model: str, question: str) -> str:
        true = truth(question)
        step = 1 + int(self._draw("step", model, question) * 3)
        return (
            str(int(true) + step) if true.lstrip("-").isdigit() else "ABCD"[("ABCD".index(true) + step) % 4]
        )

    def _draw(self, *words: str) -> float:
        digest = blake2b("\0".join((str(self.seed), *words)).encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64

    # -- the protocol

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix("/v1")
        if path == "/models":
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "fake"} for name in self.models]
            await _json(send, 200, {"object": "list", "data": data})
            return
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        body = orjson.loads(raw)
        if path == "/embeddings":
            await _json(send, 200, self._embeddings(body))
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        seen = Seen(str(body.get("model")), body, headers, monotonic())
        self.seen.append(seen)
        del self.seen[: -self.keep]
        work = asyncio.create_task(self._chat(body, send))
        left = asyncio.ensure_future(receive())
        try:
            await asyncio.wait({work, left}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                seen.left = monotonic()
                return
            await work
        finally:
            work.cancel()
            left.cancel()
            await asyncio.gather(work, left, return_exceptions=True)

    async def _chat(self, body: dict[str, Any], send: Send) -> None:
        name = str(body.get("model"))
        if name not in self.models:
            await _json(send, 404, _error(f"no model {name}", "model_not_found"))
            return
        waiting = self.faults.get(name)
        fault = waiting.pop(0) if waiting else self.always.get(name, "ok")
        if await self._refuse(fault, send):
            return
        await asyncio.sleep(self.models[name].seconds)
        completion = self._completion(name, body)
        if fault == "no-usage":
            del completion["usage"]
        if body.get("stream"):
            await self._stream(name, body, completion, fault, send)
            return
        if fault == "huge":
            completion["choices"][0]["message"]["content"] = PAD * (20 << 10)
        data = orjson.dumps(completion)
        if fault.startswith(("broken", "no-", "error-event")) and fault != "no-usage":
            data = data[:-20]
        if fault == "deep":
            data = data[:-1] + DEEP
        if fault.startswith(("cut", "stall")):
            half = data[: len(data) // 2]
            await _start(send, 200, [(b"content-length", str(len(data)).encode())])
            await send({"type": "http.response.body", "body": half, "more_body": True})
            await _break(fault)
        await _start(send, 200, [(b"content-length", str(len(data)).encode())])
        await send({"type": "http.response.body", "body": data})

    async def _refuse(self, fault: str, send: Send) -> bool:
        """Whether a fault ends the call before any answer."""
        kind, _, value = fault.partition(":")
        if kind.isdigit():
            more = [(b"retry-after", value.encode())] if value else []
            said = _error("no, said http://127.0.0.1 with key test-key-of-the-upstream", "bad_thing")
            await _json(send, int(kind), said, more)
        elif kind == "hang":
            await asyncio.Event().wait()
        elif kind == "redirect":
            await _json(send, 307, {}, [(b"location", b"http://127.0.0.1:9/v1/chat/completions")])
        elif kind == "gzip":
            await _json(send, 200, {}, [(b"content-encoding", b"gzip")])
        else:
            return False
        return True

    def _completion(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        question = last_question(body.get("messages"))
        text, sure = self.answer(name, question)
        if isinstance(body.get("response_format"), dict) and self.say is None:
            text = orjson.dumps({"answer": text.removeprefix("The answer is ").rstrip(".")}).decode()
        message: dict[str, Any] = {"role": "assistant", "content": text}
        finish = "stop"
        if body.get("tools"):
            tool = body["tools"][0]["function"]["name"]
            function = {"name": tool, "arguments": orjson.dumps({"value": text}).decode()}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
            }
            finish = "tool_calls"
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        if body.get("logprobs"):
            entry: dict[str, Any] = {
                "token": "x",
                "bytes": None,
                "logprob": math.log(sure),
                "top_logprobs": [],
            }
            choice["logprobs"] = {"content": [entry] * 4, "refusal": None}
        given = max(1, len(question) // 4)
        usage = {
            "prompt_tokens": given,
            "completion_tokens": self.models[name].tokens,
            "total_tokens": given + self.models[name].tokens,
        }
        choices = [{**choice, "index": k} for k in range(body.get("n") or 1)]
        head = {"id": "chatcmpl-fake", "object": "chat.completion", "created": 1, "model": name}
        return {**head, "choices": choices, "usage": usage}

    async def _stream(
        self, name: str, body: dict[str, Any], completion: dict[str, Any], fault: str, send: Send
    ) -> None:
        usage = completion.get("usage") if (body.get("stream_options") or {}).get("include_usage") else None
        chunks = stream_chunks(completion, usage, fault)
        kind, _, value = fault.partition(":")
        if kind == "huge":
            chunks = [orjson.dumps(_chunk(completion, {"content": PAD * 256}))] * 80 + chunks
        at = int(value) if value.isdigit() else 0
        await _start(send, 200, [(b"content-type", b"text/event-stream; charset=utf-8")])
        for k, chunk in enumerate(chunks):
            if kind in ("cut", "stall") and k >= at:
                await _break(fault)
            if kind == "broken" and k >= at:
                chunk = b'{"id": "chatcmpl-fake", "cho'
            if kind == "deep":
                chunk = chunk[:-1] + DEEP
            if kind == "error-event" and k >= at:
                chunk = orjson.dumps(_error("overloaded", "overloaded"))
            await send({"type": "http.response.body", "body": b"data: " + chunk + b"\n\n", "more_body": True})
            if kind in ("broken", "error-event") and k >= at:
                break
            await asyncio.sleep(self.models[name].pause)
        await send({"type": "http.response.body", "body": b""})

    def _embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        rows = []
        for k, text in enumerate(texts):
            vector = [0.0] * 32
            for word in re.findall(r"\w+", text.casefold()):
                vector[int(self._draw("word", word) * 32)] += 1.0
            rows.append({"object": "embedding", "index": k, "embedding": vector})
        usage = {"prompt_tokens": sum(map(len, texts)) // 4, "total_tokens": sum(map(len, texts)) // 4}
        return {"object": "list", "data": rows, "model": body.get("model"), "usage": usage}


class FakeServer:
    """The models of a `FakeUpstream` without a socket; the proxy of the demo calls it."""

    def __init__(self, fake: FakeUpstream) -> None:
        self._fake = fake

    async def ask(self, path: str, body: dict[str, Any], failed: Callable[[str], None]) -> dict[str, Any]:
        """Return the answer of a plain call."""
        if path == "/embeddings":
            return self._fake._embeddings(body)
        return await self._completion(body)

    async def open(self, path: str, body: dict[str, Any], failed: Callable[[str], None]) -> Events:
        """Return the events of a streamed call."""
        completion = await self._completion(body)
        return self._events(
            stream_chunks(completion, completion["usage"]), self._fake.models[body["model"]].pause
        )

    async def _events(self, chunks: list[bytes], pause: float) -> Events:
        for data in chunks:
            yield data, None if data == b"[DONE]" else orjson.loads(data)
            await asyncio.sleep(pause)

    async def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        model = self._fake.models.get(str(body.get("model")))
        if model is None:
            raise UpstreamFailed("404", 404, detail=_error("no such model", "model_not_found")["error"])
        if model.seconds:
            await asyncio.sleep(model.seconds)
        return self._fake._completion(model.name, body)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def stream_chunks(completion: dict[str, Any], usage: Any, fault: str = "ok") -> list[bytes]:
    """Return the event data of a streamed answer, with the given fault."""
    chunks: list[dict[str, Any]] = []
    for choice in completion["choices"]:
        index, message = choice["index"], choice["message"]
        chunks.append(_chunk(completion, {"role": "assistant", "content": ""}, index))
        words = re.findall(r"\S+\s*", message["content"] or "")
        for k, word in enumerate(words):
            chunks.append(_chunk(completion, {"content": word}, index))
            if choice.get("logprobs") and k < 1:
                chunks[-1]["choices"][0]["logprobs"] = choice["logprobs"]
        for call in message.get("tool_calls") or ():
            given = call["function"]["arguments"]
            first = {"name": call["function"]["name"], "arguments": ""}
            chunks.append(
                _chunk(completion, {"tool_calls": [{"index": 0, **call, "function": first}]}, index)
            )
            for part in (given[:5], given[5:]):
                delta = {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}
                chunks.append(_chunk(completion, delta, index))
        if fault != "no-finish":
            chunks.append(_chunk(completion, {}, index, choice["finish_reason"]))
    if usage is not None and fault == "usage-with-finish":
        chunks[-1]["usage"] = usage
    elif usage is not None:
        chunks.append({**_chunk(completion, {}), "choices": [], "usage": usage})
    data = [orjson.dumps(chunk) for chunk in chunks]
    return data if fault == "no-done" else [*data, b"[DONE]"]


def _chunk(
    completion: dict[str, Any], delta: dict[str, Any], index: int = 0, finish: str | None = None
) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    head = {key: completion[key] for key in ("id", "created", "model")}
    return {**head, "object": "chat.completion.chunk", "choices": [choice]}


def truth(question: str) -> str:
    """Return the right answer: a number for an arithmetic question, otherwise a letter.

    >>> truth("What is 17 * 23?"), truth("Which one?") in "ABCD"
    ('391', True)
    """
    found = SUM.search(question)
    if found is None:
        return "ABCD"[blake2b(question.encode(), digest_size=1).digest()[0] % 4]
    a, b = int(found[1]), int(found[3])
    return str({"+": a + b, "-": a - b, "*": a * b}[found[2]])


def last_question(messages: Any) -> str:
    """Return the text of the last message."""
    content = messages[-1].get("content") if isinstance(messages, list) and messages else ""
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content)
    return str(content)


def _error(message: str, code: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


async def _start(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    if not any(name == b"content-type" for name, _ in headers):
        headers = [(b"content-type", b"application/json"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _json(send: Send, status: int, body: Any, more: list[tuple[bytes, bytes]] | None = None) -> None:
    data = orjson.dumps(body)
    await _start(send, status, [(b"content-length", str(len(data)).encode()), *(more or [])])
    await send({"type": "http.response.body", "body": data})


async def _break(fault: str) -> None:
    """Stall forever, or cut the connection: the server drops it when the application fails."""
    if fault.startswith("stall"):
        await asyncio.Event().wait()
    raise ConnectionAbortedError("cut on purpose")
