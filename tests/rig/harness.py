"""A service in this process, and a client that calls its application without a socket."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weakfeedback.journal import open_store
from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.service import Options, Service

CASCADE = {
    "kind": "cascade",
    "stages": ["rules", "small", "expert"],
    "stage_costs": [0.001, 0.02, 1.5],
    "error_cost": 10,
}
ROUTER = {"kind": "router", "models": ["small", "large"], "prices": [1.0, 20.0], "error_cost": 100.0}
CONTEXTUAL = {"kind": "contextual", "stages": ["a", "b"], "stage_costs": [1.0, 20.0], "error_cost": 100.0}
ALLOCATION = {"kind": "allocation", "arms": ["north", "south", "east"], "budget": 1.5, "policy": "CSB-SU"}


@dataclass
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """The body as JSON data."""
        return json.loads(self.body)


class Caller:
    """Sends requests to an application."""

    def __init__(self, app: Any, headers: dict[str, str] | None = None) -> None:
        self.app, self.headers = app, {"host": "localhost", **(headers or {})}

    async def raw(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        leave: Callable[[], Awaitable[Any]] | None = None,
        hear: Callable[[bytes], None] | None = None,
        **more: Any,
    ) -> Reply:
        """Send bytes; the client goes when ``leave()`` ends, which only streams ask for, and ``hear`` hears them."""
        target, _, query = path.partition("?")
        sent = {**self.headers, **(headers or {})}
        if body is not None:
            sent.setdefault("content-length", str(len(body)))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "scheme": "http",
            "headers": [(k.lower().encode("latin-1"), v.encode("latin-1")) for k, v in sent.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8470),
            **more,
        }
        messages = [{"type": "http.request", "body": body or b"", "more_body": False}]
        found: list[Any] = []

        async def receive() -> Any:
            if leave is not None and not messages:
                await leave()
            return messages.pop(0) if messages else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            found.append(message)
            if hear is not None:
                hear(message.get("body", b""))

        await self.app(scope, receive, send)
        if not found:  # the client had gone
            return Reply(0, {}, b"")
        names = {k.decode(): v.decode() for k, v in found[0]["headers"]}
        return Reply(found[0]["status"], names, b"".join(m.get("body", b"") for m in found[1:]))

    async def __call__(self, method: str, path: str, data: Any = None, **headers: str) -> Reply:
        """Send JSON; names of headers have an underscore for a dash."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        body = None
        if data is not None:
            body, sent["content-type"] = json.dumps(data).encode(), "application/json"
        return await self.raw(method, path, body, sent)


def opener(place: Path | str, wrap: Callable[[Any], Any] = lambda store: store) -> Callable[..., Any]:
    """Opens the store at a path or an address; what is written goes through ``wrap``."""

    def opened(read_only: bool = False, create: bool = True) -> Any:
        store = open_store(place, read_only=read_only, create=create, lenient=True)
        return store if read_only else wrap(store)

    return opened


def replayed(service: Service, what: str) -> float:
    """What the metrics say of recoveries: the ``events`` of the last one, or the ``differences_total`` of all."""
    found = service.metrics.registry.get_sample_value(f"weakfeedback_replay_{what}")
    assert found is not None
    return found


def quick(**more: Any) -> Options:
    """Options for tests: nothing is compiled, and no clock runs."""
    return Options(**{"compiled": False, "tick": 3600.0, **more})


@contextlib.asynccontextmanager
async def serving(
    path: Path | str, options: Options | None = None, auth: Auth | None = None, **more: Any
) -> AsyncIterator[tuple[Service, Caller]]:
    """A running service over the store at ``path``."""
    wrap = more.pop("wrap", lambda store: store)
    service = Service(opener(path, wrap), options or quick())
    app = make_app(service, auth, **more)
    await service.start()
    try:
        yield service, Caller(app)
    finally:
        await service.stop()


def run(work: Any) -> Any:
    """Run a coroutine to its end."""
    return asyncio.run(work)
