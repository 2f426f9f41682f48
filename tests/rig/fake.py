"""A fake model server: OpenAI's protocol over HTTP, and every fault on demand."""

import asyncio
from dataclasses import dataclass, field
from time import monotonic

import orjson

from weakfeedback.serve.proxy.fake import FakeModels, fake_chunk, fake_error, stream_chunks

DEEP = b',"deep":' + b"[" * 300 + b"]" * 300 + b"}"  # the end of a deeply nested object
PAD = "x" * 1024


@dataclass(slots=True)
class Seen:
    """A call that the server received, and its outcome."""

    model: str
    body: dict[str, object]
    headers: dict[str, str]
    at: float
    left: float | None = None  # when the caller closed the connection before the end


@dataclass(slots=True)
class FakeUpstream(FakeModels):
    """An ASGI application with models.

    ``faults`` has a list of faults per model, of which every call takes the first: a status such as "500" or
    "429:1" (with Retry-After), "hang", "stall:N" and "cut:N" (after N chunks), "broken", "broken:N", "no-done",
    "no-finish", "error-event", "error-event:N", "no-usage", "usage-with-finish", "huge", "deep", "redirect", "gzip",
    "ok".
    ``always`` has one fault per model, for every call without a fault from ``faults``.
    A model among ``held`` gives no answer, and of a stream no more than its start, until it is taken out.
    """

    faults: dict[str, list[str]] = field(default_factory=dict)
    always: dict[str, str] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    seen: list[Seen] = field(default_factory=list)
    keep: int = 10_000

    async def __call__(self, scope, receive, send):
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
            await _json(send, 200, self.embeddings(body))
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

    async def _chat(self, body, send):
        name = str(body.get("model"))
        if name not in self.models:
            await _json(send, 404, fake_error(f"no model {name}", "model_not_found"))
            return
        waiting = self.faults.get(name)
        fault = waiting.pop(0) if waiting else self.always.get(name, "ok")
        if await self._refuse(fault, send):
            return
        await asyncio.sleep(self.models[name].seconds)
        if not body.get("stream"):
            await self._released(name)
        completion = self.completion(name, body)
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

    async def _released(self, name):
        while name in self.held:
            await asyncio.sleep(0.01)

    async def _refuse(self, fault, send):
        """Whether a fault ends the call before any answer."""
        kind, _, value = fault.partition(":")
        if kind.isdigit():
            more = [(b"retry-after", value.encode())] if value else []
            said = fake_error("no, said http://127.0.0.1 with key test-key-of-the-upstream", "bad_thing")
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

    async def _stream(self, name, body, completion, fault, send):
        usage = completion.get("usage") if (body.get("stream_options") or {}).get("include_usage") else None
        chunks = streamed(completion, usage, fault)
        kind, _, value = fault.partition(":")
        if kind == "huge":
            chunks = [orjson.dumps(fake_chunk(completion, {"content": PAD * 256}))] * 80 + chunks
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
                chunk = orjson.dumps(fake_error("overloaded", "overloaded"))
            await send({"type": "http.response.body", "body": b"data: " + chunk + b"\n\n", "more_body": True})
            if kind in ("broken", "error-event") and k >= at:
                break
            await asyncio.sleep(self.models[name].pause)
            if k == 1:
                await self._released(name)
        await send({"type": "http.response.body", "body": b""})


def streamed(completion, usage, fault):
    """The event data of a streamed answer, with what a fault changes in their order."""
    inside = fault == "usage-with-finish"
    chunks = stream_chunks(completion, None if inside else usage)
    if fault == "no-finish":
        chunks = [chunk for chunk in chunks if b'"finish_reason":"' not in chunk]
    if inside and usage is not None:
        chunks[-2] = orjson.dumps({**orjson.loads(chunks[-2]), "usage": usage})
    return chunks[:-1] if fault == "no-done" else chunks


async def _start(send, status, headers):
    if not any(name == b"content-type" for name, _ in headers):
        headers = [(b"content-type", b"application/json"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _json(send, status, body, more=()):
    data = orjson.dumps(body)
    await _start(send, status, [(b"content-length", str(len(data)).encode()), *more])
    await send({"type": "http.response.body", "body": data})


async def _break(fault):
    """Stall forever, or cut the connection: the server drops it when the application fails."""
    if fault.startswith("stall"):
        await asyncio.Event().wait()
    raise ConnectionAbortedError("cut on purpose")
