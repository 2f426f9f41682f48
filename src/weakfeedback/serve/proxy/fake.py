"""Fake models: known skill and known tokens, for demonstrations and tests.

Answers depend only on the question, the model and the seed. A question such as "What is 17 * 23?" gets a number, any
other a letter.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from weakfeedback.serve.proxy.upstream import Events, UpstreamFailed

SUM = re.compile(r"(-?\d{1,9})\s*([-+*])\s*(-?\d{1,9})")


@dataclass(frozen=True, slots=True)
class FakeModel:
    """A model that is right with probability ``skill``; ``seconds`` until its first token, ``pause`` between tokens."""

    name: str
    skill: float = 1.0
    seconds: float = 0.0
    pause: float = 0.0
    tokens: int = 20  # billed per answer


@dataclass(slots=True)
class FakeModels:
    """What models answer, in OpenAI's form."""

    models: dict[str, FakeModel]
    seed: int = 0
    say: Callable[[str, str], str] | None = None  # (model, question) -> answer, instead of the fakes' own

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

    def completion(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return a model's answer to a request."""
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

    def embeddings(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return vectors that count words."""
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
    """Fake models as a server without a socket; the proxy of the demo calls it."""

    def __init__(self, fake: FakeModels) -> None:
        self._fake = fake

    async def ask(self, path: str, body: dict[str, Any], failed: Callable[[str], None]) -> dict[str, Any]:
        """Return the answer of a plain call."""
        if path == "/embeddings":
            return self._fake.embeddings(body)
        return await self.complete(body)

    async def open(self, path: str, body: dict[str, Any], failed: Callable[[str], None]) -> Events:
        """Return the events of a streamed call."""
        completion = await self.complete(body)
        return self._events(
            stream_chunks(completion, completion["usage"]), self._fake.models[body["model"]].pause
        )

    async def _events(self, chunks: list[bytes], pause: float) -> Events:
        for data in chunks:
            yield data, None if data == b"[DONE]" else orjson.loads(data)
            await asyncio.sleep(pause)

    async def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the whole answer, after the time that its model takes."""
        model = self._fake.models.get(str(body.get("model")))
        if model is None:
            raise UpstreamFailed("404", 404, detail=fake_error("no such model", "model_not_found")["error"])
        if model.seconds:
            await asyncio.sleep(model.seconds)
        return self._fake.completion(model.name, body)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def stream_chunks(completion: dict[str, Any], usage: Any) -> list[bytes]:
    """Return the event data of a streamed answer."""
    chunks: list[dict[str, Any]] = []
    for choice in completion["choices"]:
        index, message = choice["index"], choice["message"]
        chunks.append(fake_chunk(completion, {"role": "assistant", "content": ""}, index))
        words = re.findall(r"\S+\s*", message["content"] or "")
        for k, word in enumerate(words):
            chunks.append(fake_chunk(completion, {"content": word}, index))
            if choice.get("logprobs") and k < 1:
                chunks[-1]["choices"][0]["logprobs"] = choice["logprobs"]
        for call in message.get("tool_calls") or ():
            given = call["function"]["arguments"]
            first = {"name": call["function"]["name"], "arguments": ""}
            chunks.append(
                fake_chunk(completion, {"tool_calls": [{"index": 0, **call, "function": first}]}, index)
            )
            for part in (given[:5], given[5:]):
                delta = {"tool_calls": [{"index": 0, "function": {"arguments": part}}]}
                chunks.append(fake_chunk(completion, delta, index))
        chunks.append(fake_chunk(completion, {}, index, choice["finish_reason"]))
    if usage is not None:
        chunks.append({**fake_chunk(completion, {}), "choices": [], "usage": usage})
    return [*map(orjson.dumps, chunks), b"[DONE]"]


def fake_chunk(
    completion: dict[str, Any], delta: dict[str, Any], index: int = 0, finish: str | None = None
) -> dict[str, Any]:
    """Return a chunk of a streamed answer."""
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


def fake_error(message: str, code: str) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
