"""The proxy in ``weakfeedback serve --demo``: three simulated language models of known skill and price.

The models run in this process, so that no key and no network is needed. The learners do not know how good they are.
One promises the answers of the last model, compares, and within a minute lets a cheaper one answer where that is safe.
The other knows what a wrong answer costs, and trusts the model that is worth its price.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any

import orjson

from weakfeedback.serve.auth import Auth
from weakfeedback.serve.proxy.chat import Proxy
from weakfeedback.serve.proxy.dialect import Dialect
from weakfeedback.serve.proxy.fake import FakeModel, FakeModels, FakeServer
from weakfeedback.serve.proxy.mount import make_proxy, prepare_learners, proxy_routes
from weakfeedback.serve.proxy.settings import read_proxied
from weakfeedback.serve.service import Service

NAME = "assistant"
# skill, seconds until the first token, price of a million tokens of output
MODELS = {
    "tiny-1b": (0.70, 0.02, 0.1),
    "medium-70b": (0.97, 0.06, 2.0),
    "large-400b": (0.99, 0.15, 40.0),
}
TOKENS = 40  # per answer
PERIOD = 0.2  # seconds between questions

TABLE: dict[str, Any] = {
    "name": NAME,
    "kind": "router",
    "agree": 0.95,  # of the answers are those of the last model, at least
    "currency": "USD",
    "compare": {"type": "regex", "pattern": r"answer is (\S+?)\.?$"},
    "stage": [
        {
            "name": name.split("-")[0],
            "upstream": "made-up",
            "model": name,
            "price": {"input": 0.0, "output": price},
            "expect": {"input": 5, "output": TOKENS},
        }
        for name, (_, _, price) in MODELS.items()
    ],
}

PRICED = {
    **{key: value for key, value in TABLE.items() if key != "agree"},
    "name": "thrifty",
    "error_cost": 0.01,  # what a wrong answer costs
}


def fake_models() -> FakeModels:
    """Return the simulated models."""
    made = {
        name: FakeModel(name, skill, seconds, pause=seconds / 20, tokens=TOKENS)
        for name, (skill, seconds, _) in MODELS.items()
    }
    return FakeModels(made)


async def add_demo(service: Service, auth: Auth) -> dict[str, Any]:
    """Serve the learners, and start asking questions; return the routes and how to close them."""
    servers = {"made-up": FakeServer(fake_models())}
    settings = [read_proxied("demo", table, servers) for table in (TABLE, PRICED)]
    proxy = make_proxy(service, {}, settings, servers)
    await prepare_learners(service, proxy)
    service.spawn(keep_asking(service, proxy))
    return {"routes": proxy_routes(proxy, auth), "close": proxy.close, "models": list(proxy.learners)}


async def keep_asking(service: Service, proxy: Proxy) -> None:
    """Ask questions at intervals, every other one as a stream, until the service ends."""
    dice, tasks = random.Random(7), set[asyncio.Task[bytes]]()
    while service.state == "ready" and not service.draining:
        question = f"What is {dice.randrange(1000)} * {dice.randrange(1000)}?"
        for model in proxy.learners:
            task = asyncio.create_task(ask(proxy, question, stream=dice.random() < 0.5, model=model))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(PERIOD * dice.uniform(0.5, 1.5))


def _grouped(question: str, model: str) -> list[tuple[bytes, bytes]]:
    """Return the header that names the group of a question, for the learner that promises something."""
    group = b"web" if len(question) % 3 else b"mail"
    return [(b"x-weakfeedback-group", group)] if model == NAME else []


async def ask(proxy: Proxy, question: str, stream: bool = False, model: str = NAME) -> bytes:
    """Ask a proxy in this process, as a client would; return the body of its answer."""
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": question}]}
    scope = {"type": "http", "headers": [(b"content-type", b"application/json"), *_grouped(question, model)]}
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": orjson.dumps(body)}]
    found: list[bytes] = []

    async def receive() -> Any:
        if not messages:
            await asyncio.Event().wait()  # the client stays connected
        return messages.pop()

    async def send(message: Any) -> None:
        found.append(message.get("body", b""))

    await proxy.answer(Dialect(), scope, receive, send)
    return b"".join(found)
