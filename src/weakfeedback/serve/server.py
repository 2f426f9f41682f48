"""The server process: sockets, signals, log lines, start and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import logging
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from weakfeedback.serve.app import headers_of, make_app
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.config import ConfigError, Settings, opener, settle
from weakfeedback.serve.limits import CONNECTIONS_LIMIT, HEADER_LIMIT, IN_FLIGHT_LIMIT
from weakfeedback.serve.line import SHORT, UPGRADE
from weakfeedback.serve.models import Problem
from weakfeedback.serve.page.routes import page_of
from weakfeedback.serve.service import Options, Service
from weakfeedback.serve.tokens import READ, reload_tokens

if TYPE_CHECKING:
    from weakfeedback.serve.telemetry import Telemetry

log = logging.getLogger("weakfeedback.serve")
SWITCH = 0.0005  # seconds after which a thread with a heavy step yields to the loop
YOUNG = 10_000  # allocations minus deallocations between garbage collections
BACKLOG = 2048  # connections that wait to be accepted
SPARE = 64  # descriptors that are not for connections
MINUTE = 60.0
PATIENCE = 30.0  # seconds in which a request must arrive, and in which shutdown finishes the last ones


class Room:
    """How many connections there may be, fewer than the process has descriptors, and which have said nothing yet."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.silent: dict[Patient, None] = {}  # oldest first
        self._told: dict[str, float] = {}

    def enter(self, connection: Patient, count: int) -> None:
        """Let one more connection in; if there are too many, close the one that has been silent the longest."""
        self.silent[connection] = None
        if count <= self.most:
            return
        self.say(
            f"there are {count} connections, and at most {self.most} are allowed: silent ones are closed"
        )
        oldest = next(iter(self.silent))
        if oldest is connection:  # all others are in use
            words = f"there are {self.most} connections already"
            connection.refuse(Problem("too_many_requests", words, retry_after=1))
        else:
            oldest.transport.close()
        self.silent.pop(oldest)

    def say(self, words: str, kind: str = "full") -> None:
        """Log a line, at most once a minute."""
        now = time.monotonic()
        if now - self._told.get(kind, -MINUTE) >= MINUTE:
            self._told[kind] = now
            log.warning(words)


class Config(uvicorn.Config):
    """Settings of the HTTP server, with the room for its connections, and the gate that answers short requests."""

    room = Room(CONNECTIONS_LIMIT)
    gate: Any = None

    @property
    def passing(self) -> Any:
        """Who passes requests on to other instances; None if there are none."""
        return None if self.gate is None else self.gate.passing


class Patient(HttpToolsProtocol):
    """A connection that must send its request in time, with headers of bounded size."""

    config: Config
    began: float | None = None  # when the connection was made, or the current request began to arrive
    _short: Any = None  # a short request whose body is not here yet
    _size = 0  # bytes received before its headers were complete; -1 afterwards

    def connection_made(self, transport: Any) -> None:
        """Record when it was made; close it, or another one, if there are too many."""
        super().connection_made(transport)
        self.began = time.monotonic()
        self.config.room.enter(self, len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self.config.room.silent.pop(self, None)
        super().connection_lost(exc)

    @property
    def is_silent(self) -> bool:
        """Whether nothing was ever received."""
        return self in self.config.room.silent

    def data_received(self, data: bytes) -> None:
        """Record when a request begins."""
        if self.began is None or self.is_silent:
            self.config.room.silent.pop(self, None)
            self.began, self._size = time.monotonic(), 0
        super().data_received(data)
        if self._size >= 0:
            self._size += len(data)
            if self._size > HEADER_LIMIT and self.began is not None:
                self.refuse(Problem("headers_too_large", f"headers must have at most {HEADER_LIMIT} bytes"))

    def on_headers_complete(self) -> None:
        """Record that the headers are complete."""
        self._size = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Record that the request is complete; answer it at once if it is short."""
        self.began = None
        super().on_message_complete()
        if self._short is not None and self._short is self.cycle:
            self._answer_short(self.cycle)

    def on_response_complete(self) -> None:
        """Go on with the next request; read no more while there are some that wait for their turn."""
        super().on_response_complete()
        if self.pipeline:
            self.flow.pause_reading()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """Begin to answer a request; a short one when its body is here."""
        if self.config.gate is None or not is_short(cycle):
            super()._start_asgi_task(cycle, app)
        elif cycle.more_body:
            self._short = cycle
        else:  # the one before it on this connection was just answered, perhaps in the same way
            self.loop.call_soon(self._answer_short, cycle)

    def _answer_short(self, cycle: Any) -> None:
        self._short = None

        def write(
            status: int | None = None, headers: Sequence[tuple[bytes, bytes]] = (), body: bytes = b""
        ) -> None:
            if status is None:
                HttpToolsProtocol._start_asgi_task(self, cycle, self.app)
                return
            cycle.response_started = cycle.response_complete = True
            if self.transport.is_closing():
                return
            pairs = (*cycle.default_headers, *headers)
            head = b"%s: %s\r\n" * len(pairs) % (*itertools.chain.from_iterable(pairs),)
            end = b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n"
            self.transport.write(b"".join((STATUS_LINE[status], head, end, body)))
            if not cycle.keep_alive:
                self.transport.close()
            cycle.on_response()

        if not self.config.gate.answer_short(cycle.scope, bytes(cycle.body), self.tasks, write):
            write()

    def _should_upgrade(self) -> bool:
        """Whether another instance asks for a line."""
        passing, headers = self.config.passing, dict(self.headers)
        return passing is not None and headers.get(b"upgrade") == UPGRADE and passing.is_passed(headers)

    def handle_websocket_upgrade(self) -> None:
        """Make a line of the connection."""
        self.connections.discard(self)
        self.config.passing.answer_line(self.config.gate, self.app, self.tasks, self.scope, self.transport)

    def refuse(self, problem: Problem) -> None:
        """Answer with a problem, and close."""
        if self.transport.is_closing():
            return
        body = json.dumps(problem.body()).encode()
        head = f"HTTP/1.1 {problem.status} {problem.title}\r\ncontent-type: application/problem+json\r\n"
        head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()


def is_short(cycle: Any) -> bool:
    """Whether a request is answered as soon as its body is here; not while the client does not read its answers."""
    if cycle.scope["method"] != "POST" or cycle.waiting_for_100_continue or cycle.flow.write_paused:
        return False
    length = headers_of(cycle.scope).get(b"content-length", b"")
    return length.isdigit() and len(length) < 6 and int(length) <= SHORT


class HttpServer(uvicorn.Server):
    """A server that refuses slow senders, reports when it is ready, and ends without raising the signal again."""

    def __init__(self, config: uvicorn.Config, service: Service, patience: float = PATIENCE) -> None:
        super().__init__(config)
        self.service, self.patience = service, patience
        self.ready: Callable[[int], None] | None = None

    async def startup(self, sockets: Any = None) -> None:
        """Start listening."""
        await super().startup(sockets)
        if self.started and self.ready is not None:
            self.ready(self.servers[0].sockets[0].getsockname()[1])

    async def on_tick(self, counter: int) -> bool:
        """Check for connections that take too long, once a second."""
        if counter % 10 == 0:
            self._end_slow(time.monotonic() - self.patience)
        if self.service.fatal is not None:
            self.should_exit = True
        return await super().on_tick(counter)

    def _end_slow(self, late: float) -> None:
        silent = 0
        for connection in list(self.server_state.connections):
            if not isinstance(connection, Patient) or connection.began is None or connection.began >= late:
                continue
            if connection.is_silent:  # there is no request to answer
                silent += 1
                connection.transport.close()
            else:
                words = f"a request must arrive within {self.patience:g} seconds"
                connection.refuse(Problem("slow_request", words))
        if silent and isinstance(self.config, Config):
            words = f"{silent} connections were closed that had said nothing for {self.patience:g} seconds"
            self.config.room.say(words, "silent")

    async def shutdown(self, sockets: Any = None) -> None:
        """Accept no more requests, and finish those in progress."""
        if self.service.state == "ready":
            self.service.draining = True
        if isinstance(self.config, Config) and self.config.passing is not None:
            self.config.passing.leave()
        await super().shutdown(sockets)


Extend = Callable[[Service, Auth, Settings], Awaitable[dict[str, Any]] | dict[str, Any]]


async def add_proxy(service: Service, auth: Auth, settings: Settings) -> dict[str, Any]:
    """Serve the learners whose stages are models of upstreams, if there are any."""
    if not settings.proxied:
        return {}
    from weakfeedback.serve.proxy.mount import extend

    return await extend(service, auth, settings)


# each returns further arguments of make_app (operations and routes), and as ``close`` what to call at the end
EXTENSIONS: list[Extend] = [page_of, add_proxy]


async def serve(
    settings: Settings,
    options: Options,
    *,
    ready: Callable[[int, Service], Any] | None = None,
    patience: float = PATIENCE,
    extensions: Sequence[Extend] = (),
) -> int:
    """Serve until a signal comes; return the exit status."""
    sys.setswitchinterval(SWITCH)
    try:
        socket.getaddrinfo(settings.host, settings.port)
    except (OSError, UnicodeError) as error:
        words = f"host = {settings.host!r} must be an address of this machine, or a name of one"
        raise ConfigError(f"{words}: {getattr(error, 'strerror', 'it is no name')}") from None
    options.standby = not settings.store.startswith("sqlite:")
    listening = None
    if settings.shared:  # the others must know the port
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        listening = socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
        port = listening.getsockname()[1]
        name = settings.host if family == socket.AF_INET else f"[{settings.host}]"
        options.shared = settings.advertise or f"http://{name}:{port}"
    service = Service(opener(settings.store), options)
    hosts = [*settings.hosts, settings.host] if settings.host not in ("0.0.0.0", "::") else settings.hosts
    if settings.advertise:
        hosts = [*hosts, str(urlsplit(settings.advertise).hostname)]
    auth = Auth(settings.tokens, hosts, settings.origins, settings.metrics == "open")
    reload_at_signal(auth, settings)  # at once: a large store is read for long, and the signal would end that
    if service.sharing is not None and settings.reload is not None:
        # nobody could tell us before
        service.sharing.joined.append(partial(try_reload, auth, settings))
    closers: list[Callable[[], Awaitable[Any]]] = []
    if settings.otel is not None:
        service.telemetry = telemetry = make_telemetry(settings.otel)
        closers.append(partial(asyncio.to_thread, telemetry.close))
    try:
        await service.start(lambda: settle(service, settings.learners, settings.file))
        operations, routes = [], []
        for extend in (*EXTENSIONS, *extensions):
            more: Any = extend(service, auth, settings)
            if asyncio.iscoroutine(more):
                more = await more
            operations += more.get("operations", ())
            routes += more.get("routes", ())
            closers += [more["close"]] if "close" in more else []
            service.models += more.get("models", ())
        service.metrics.registry.register(auth.usage)
        if service.sharing is not None:
            auth.share(service.sharing.secret)
        app = make_app(service, auth, operations=operations, routes=routes, root_path=settings.root_path)
        most, backlog = room_for(bool(settings.proxied))
        config = Config(
            app,
            host=settings.host,
            port=settings.port,
            http=Patient,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(settings.proxy_headers),
            forwarded_allow_ips=settings.proxy_headers or None,
            timeout_graceful_shutdown=int(patience),
            backlog=backlog,
        )
        config.room, config.gate = Room(most), app.state.gate
        server = HttpServer(config, service, patience)
        if ready is not None:
            server.ready = lambda port: ready(port, service)
        leave_alone()
        with server.capture_signals():
            await server._serve(None if listening is None else [listening])
            interrupted = signal.SIGINT in server._captured_signals
            server._captured_signals.clear()  # shutdown was requested, and is complete
    finally:
        for close in reversed(closers):
            await close()
        await service.stop()
        if listening is not None:
            listening.close()
    if service.fatal is not None:
        log.error("the service has ended: %s", service.fatal)
        return 1
    return 130 if interrupted else 0


def make_telemetry(address: str) -> Telemetry:
    """Return what sends spans and metrics to a collector; ConfigError without the extra."""
    try:
        from weakfeedback.serve.telemetry import Telemetry
    except ModuleNotFoundError as error:
        raise ConfigError(f"otel needs {error.name}: pip install 'weakfeedback[otel]'") from None
    return Telemetry(address)


def try_reload(auth: Auth, settings: Settings) -> int | None:
    """Read the tokens anew, and return how many there are; if that fails, those that there are stay."""
    try:
        return reload_tokens(auth, settings)
    except Problem as problem:
        log.warning("the tokens stay as they are: %s", problem.detail)
        return None


def reload_at_signal(auth: Auth, settings: Settings) -> None:
    """Read the tokens anew at SIGHUP."""
    if settings.reload is None or not hasattr(signal, "SIGHUP"):
        return

    def reload() -> None:
        count = try_reload(auth, settings)
        if count is not None:
            log.warning(READ, count)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload)


def room_for(proxy: bool) -> tuple[int, int]:
    """Return how many connections there may be, and how many may wait to be accepted: fewer than descriptors.

    All that wait are accepted at once, before any can be refused. The limit of descriptors is raised as far as allowed.
    """
    spare = SPARE + (IN_FLIGHT_LIMIT if proxy else 0)  # files, and calls of upstream models
    wanted = CONNECTIONS_LIMIT + BACKLOG + spare
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return CONNECTIONS_LIMIT, BACKLOG
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < wanted:
        raised = wanted if hard < 0 else min(hard, wanted)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
    have = wanted if soft < 0 else min(soft, wanted)
    backlog = min(BACKLOG, max(have // 8, 1))
    return max(min(have - backlog - min(spare, have // 2), CONNECTIONS_LIMIT), 1), backlog


def leave_alone() -> None:
    """Exclude all existing objects from garbage collection; they live until the process ends.

    A collection over all libraries takes tens of milliseconds, in which no request is served.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        told = {
            "at": round(record.created, 3),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        told |= getattr(record, "request", {})
        if record.exc_info:
            told["trace"] = self.formatException(record.exc_info)
        return json.dumps(told)


class Lines(logging.Formatter):
    """Formats a record as one readable line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line = f"{time.strftime('%H:%M:%S', time.localtime(record.created))} {record.getMessage()}"
        told = getattr(record, "request", None)
        if told is not None:
            trace = f", trace {told['trace_id']}" if "trace_id" in told else ""
            line += f" {told['ms']} ms ({told['id']}{trace})"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def log_to_stderr(kind: str, quiet: bool) -> None:
    """Write log lines to standard error; requests only if not ``quiet``."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if kind == "json" else Lines())
    levels = {
        "weakfeedback.serve": logging.WARNING if quiet else logging.INFO,
        "uvicorn.error": logging.WARNING,
        "opentelemetry": logging.ERROR,  # it warns of every attempt
    }
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level)
