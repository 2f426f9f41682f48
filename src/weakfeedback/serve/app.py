"""The application: its routes, and the middleware of every request: host names, sizes, origin, tokens, log lines."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from weakfeedback.plaintext import one_line
from weakfeedback.serve.api import JSON, OPERATIONS, PROBLEM, Incoming, Operation
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.limits import BODY_LIMIT, HEADER_LIMIT, IN_FLIGHT_LIMIT, is_name
from weakfeedback.serve.line import Answer, pairs_of
from weakfeedback.serve.models import Problem
from weakfeedback.serve.service import Service
from weakfeedback.serve.trace import CURRENT, read_trace

log = logging.getLogger("weakfeedback.serve")
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY = [
    (b"content-security-policy", CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]
CROWD = 8  # requests under way that are answered in steps, each step for all of them
PIECE = 20  # items of a list
# paths of the proxy, and how its clients expect problems
SPOKEN = {
    "/v1/chat/": Problem.for_openai,
    "/v1/models": Problem.for_openai,
    "/v1/responses": Problem.for_openai,
    "/v1/embeddings": Problem.for_openai,
    "/v1/completions": Problem.for_openai,
    "/v1/messages": Problem.for_anthropic,
}
UNTRACED = ("/health/", "/metrics")  # asked by machines, again and again
WITHOUT_LIMIT = ("/live", "/health/ready")  # event streams, which stay open, and health checks


Message = tuple[int, list[tuple[bytes, bytes]], bytes]  # a whole answer: its status, headers and body
Write = Callable[..., None]  # called with a whole answer; with nothing if there is none


class Endpoint:
    """Serves one operation of ``service``, for requests that ``auth`` allows."""

    def __init__(self, operation: Operation, service: Service, auth: Auth, limit: int = BODY_LIMIT) -> None:
        self.operation, self._service, self._auth, self._limit = operation, service, auth, limit

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        await send_message(send, await self.answer(scope, receive))

    async def answer(self, scope: Any, receive: Any, body: bytes = b"", crowd: bool = False) -> Message:
        """Check the token, read the body unless it is here (``receive`` is None), check it, answer.

        In a ``crowd`` all others that are here are checked before: code that is used again at once is still in the
        cache of the processor.
        """
        operation = self.operation
        scope["weakfeedback.route"] = operation.path
        headers = scope["weakfeedback.headers"]
        needed = operation.scope
        if operation.path == "/metrics" and self._auth.open_metrics:
            needed = "none"
        if operation.told and scope["weakfeedback.passed"]:
            needed = "none"  # whoever tells has checked the token
        await self._auth.check(scope, headers, needed)
        call = Incoming(self._service, scope["path_params"], headers, scope["query_string"])
        if operation.body is not None:
            if receive is not None:
                body = await read_body(receive, headers, self._limit)
            call.given = operation.parsed(body, headers)
        if crowd:
            await asyncio.sleep(0)
        try:
            answer = await operation.handle(call)
        except Problem as problem:
            if problem.status < 500 and "name" in call.params:
                await self._service.steps.confirm_owner()
            raise
        made = await encoded(answer.data) if answer.body is None else answer.body
        return answer.status, [(b"content-type", answer.kind), (b"content-length", b"%d" % len(made))], made


async def read_body(receive: Any, headers: dict[bytes, bytes], limit: int) -> bytes:
    """Return the body of a request; raise 413 as soon as it is too large, without reading the rest."""
    declared = headers.get(b"content-length", b"")
    if declared and (not declared.isdigit() or len(declared) > 15 or int(declared) > limit):
        raise Problem("too_large", f"the body must have at most {limit} bytes")
    pieces, size, more = list[bytes](), 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Problem("bad_request", "the connection ended before the body did")
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        more = message.get("more_body", False)
        if size > limit:
            raise Problem("too_large", f"the body must have at most {limit} bytes")
    return b"".join(pieces)


async def send_message(send: Any, message: Message) -> None:
    """Send a whole answer."""
    status, headers, body = message
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def encoded(data: Any) -> bytes:
    """Return data as JSON; a long list in pieces, between which other requests are served."""
    if isinstance(data, dict) and len(data) == 1:
        ((name, items),) = data.items()
        if isinstance(items, list) and len(items) > PIECE:
            parts = []
            for start in range(0, len(items), PIECE):
                parts.append(orjson.dumps(items[start : start + PIECE])[1:-1])
                await asyncio.sleep(0)
            return b"{" + orjson.dumps(name) + b":[" + b",".join(parts) + b"]}"
    return orjson.dumps(data)


def problem_message(problem: Problem, path: str = "") -> Message:
    """Return a problem as RFC 9457 defines it, or on the proxy's paths in the form that its clients expect."""
    form = next((form for start, form in SPOKEN.items() if path.startswith(start)), None)
    body = orjson.dumps(problem.body() if form is None else form(problem))
    headers = [(b"content-type", PROBLEM if form is None else JSON), (b"content-length", b"%d" % len(body))]
    headers += [(name.encode(), value.encode("latin-1")) for name, value in problem.headers.items()]
    if problem.code == "unauthorized":
        headers.append((b"www-authenticate", b"Bearer"))
    return problem.status, headers, body


def headers_of(scope: Any) -> dict[bytes, bytes]:
    """Return the headers of a request by their names; the last of several."""
    known: dict[bytes, bytes] | None = scope.get("weakfeedback.headers")
    if known is None:
        known = scope["weakfeedback.headers"] = dict(scope["headers"])
    return known


class Visit:
    """A request within the gate: its headers, its number and trace, and what is told of it when it is over."""

    def __init__(self, gate: Gate, scope: Any) -> None:
        service = gate.service
        self.began, self.scope, self._gate = time.perf_counter(), scope, gate
        headers = self.headers = headers_of(scope)
        self.number = scope["weakfeedback.number"] = _request_id(headers)
        trace = read_trace(scope["headers"]) if b"traceparent" in headers else None
        self.span = None
        if service.telemetry is not None and not scope["path"].startswith(UNTRACED):
            self.span = service.telemetry.request(scope["method"], scope["path"], scope["scheme"], trace)
            trace = self.span.trace
        self.trace = scope["weakfeedback.trace"] = trace
        self._is_counted = not scope["path"].endswith(WITHOUT_LIMIT)
        gate.under_way += self._is_counted
        scope["weakfeedback.step_aside"] = self.step_aside

    def step_aside(self) -> None:
        """Count no longer as under way: who waits for having failed must not take the place of another."""
        self._gate.under_way -= self._is_counted
        self._is_counted = False

    def dress(self, own: list[tuple[bytes, bytes]], origins: Container[str]) -> None:
        """Add to the headers of the answer what every answer has."""
        known = dict(own)
        own += [pair for pair in SECURITY if pair[0] not in known]
        own.append((b"x-request-id", self.number))
        origin = self.headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() in origins:
            own += [(b"access-control-allow-origin", origin), (b"vary", b"origin")]

    def end(self, status: int) -> None:
        """Count the request, and log it."""
        self.step_aside()
        scope, trace = self.scope, self.trace
        # a cycle: both would live until the next search for garbage
        scope.pop("weakfeedback.step_aside", None)
        seconds = time.perf_counter() - self.began
        route = scope.get("weakfeedback.route", "other")
        self._gate.service.metrics.requested(route, status, seconds)
        is_logged = log.isEnabledFor(logging.INFO)
        if self.span is None and not is_logged:
            return
        name = scope.get("weakfeedback.learner") or scope.get("path_params", {}).get("name")
        if self.span is not None:
            self.span.end(route, status, seconds, name if is_name(name) else None)
        if is_logged:
            told = {
                "id": self.number.decode(),
                "route": route,
                "status": status,
                "ms": round(1e3 * seconds, 2),
            }
            line = f"{scope['method']} {route} {status}"
            if trace is not None:
                told |= {"trace_id": trace.id, "span_id": trace.span}
            if is_name(name):
                told["learner"], line = name, f"{line} {name}"
            if status >= 400 and "weakfeedback.reason" in scope:
                told["reason"] = one_line(scope["weakfeedback.reason"], 200)
                line = f"{line}: {told['reason']}"
            log.info("%s", line, extra={"request": told})


class Gate:
    """The middleware around every request and answer."""

    def __init__(
        self,
        app: Any,
        service: Service,
        auth: Auth,
        in_flight: int = IN_FLIGHT_LIMIT,
        root_path: str = "",
    ) -> None:
        self._app, self.service, self._auth, self._most = app, service, auth, in_flight
        self._root = root_path
        self._posts = [
            (one.path_regex, one.endpoint)
            for one in getattr(app, "routes", ())
            if isinstance(getattr(one, "endpoint", None), Endpoint) and "POST" in one.methods
        ]
        self.under_way = 0
        self.passing: Any = None  # of requests for learners that other instances own

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request through, or answer with a problem."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope = self._unprefixed(scope)
        visit = Visit(self, scope)
        # then others have checked it
        passed = scope.setdefault(
            "weakfeedback.passed", self.passing is not None and self.passing.is_passed(visit.headers)
        )
        CURRENT.set(visit.trace)
        status = 0

        async def answer(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if not passed:  # else the first instance adds its own headers
                    visit.dress(message.setdefault("headers", []), self._auth.origins)
            await send(message)

        try:
            await self._pass(scope, receive, answer, visit.headers)
        except Exception as error:
            refused = _message_of(error, scope)
            if status:
                raise  # the response has already started
            await send_message(answer, refused)
        finally:
            visit.end(status)

    def answer_short(
        self, given: Any, body: bytes, tasks: set[asyncio.Task[Any]], write: Write, passed: bool = False
    ) -> bool:
        """Answer a POST whose short body is here; False if this cannot, and nothing is done.

        A task of ``tasks`` answers it, or the owner of its learner is asked over a line. If ``write`` is called with
        nothing in the end, the request must be answered as all others are.
        """
        scope = self._unprefixed(given)
        if self.passing is not None:
            passed = passed or self.passing.is_passed(headers_of(scope))
            if not passed and self._ask_owner(given, scope, body, write):
                return True
        endpoint, scope["path_params"] = self._find_post(scope["path"])
        if endpoint is None:
            return False
        if self.passing is not None and not self.passing.is_here(scope["path_params"].get("name")):
            return False
        scope["weakfeedback.passed"] = passed
        tasks.add(asyncio.get_running_loop().create_task(self._answer(scope, endpoint, body, write, tasks)))
        return True

    def _find_post(self, path: str) -> tuple[Endpoint | None, dict[str, str]]:
        for pattern, endpoint in self._posts:
            found = pattern.match(path)
            if found is not None:
                return endpoint, found.groupdict()
        return None, {}

    async def _answer(
        self, scope: Any, endpoint: Endpoint, body: bytes, write: Write, tasks: set[asyncio.Task[Any]]
    ) -> None:
        visit, status = Visit(self, scope), 0
        CURRENT.set(visit.trace)
        try:
            try:
                self._admit(scope, visit.headers)
                self._check_origin(scope, visit.headers)
                status, headers, made = await endpoint.answer(scope, None, body, self.under_way >= CROWD)
            except Exception as error:
                status, headers, made = _message_of(error, scope)
            if not scope["weakfeedback.passed"]:
                visit.dress(headers, self._auth.origins)
            write(status, headers, made)
        finally:
            visit.end(status)
            tasks.discard(asyncio.current_task())

    async def _pass(self, scope: Any, receive: Any, send: Any, headers: dict[bytes, bytes]) -> None:
        self._admit(scope, headers)
        if scope["method"] == "OPTIONS" and await self._preflight(scope, send, headers):
            return
        self._check_origin(scope, headers)
        if self.passing is not None:
            scope["weakfeedback.passing"] = self.passing
            receive = await self.passing.route(scope, receive, send)
            if receive is None:
                return
        await self._app(scope, receive, send)

    def _unprefixed(self, scope: Any) -> Any:
        if self._root and f"{scope['path']}/".startswith(f"{self._root}/"):
            return {**scope, "path": scope["path"][len(self._root) :] or "/"}
        return scope  # a reverse proxy has removed it

    def _admit(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        if sum(map(len, itertools.chain.from_iterable(scope["headers"]))) > HEADER_LIMIT:
            raise Problem("headers_too_large", f"headers must have at most {HEADER_LIMIT} bytes")
        if len(headers) < len(scope["headers"]):  # a name stands twice
            self._auth.check_single(scope["headers"])
        if not scope["weakfeedback.passed"]:
            self._auth.check_host(headers)
        if self.under_way > self._most and not scope["path"].endswith(WITHOUT_LIMIT):
            raise Problem("too_many_requests", f"{self._most} requests are under way already", retry_after=1)

    def _check_origin(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        if b"origin" in headers and not scope["weakfeedback.passed"]:
            self._auth.check_origin(scope["method"], headers)

    def _ask_owner(self, given: Any, scope: Any, body: bytes, write: Write) -> bool:
        """Ask the owner of a learner over a line; False if that cannot be."""
        found = self.passing.line_to(scope["path"])
        if found is None:
            return False
        visit, (line, name, owner) = Visit(self, scope), found
        scope["weakfeedback.passed"] = False
        try:
            self._admit(scope, visit.headers)
            self._check_origin(scope, visit.headers)
        except Problem:
            visit.step_aside()
            return False
        scope["weakfeedback.route"], scope["weakfeedback.learner"] = "passed on", name

        def answered(answer: Answer | None) -> None:
            if answer is None:
                given["weakfeedback.ended"] = True
            if answer is None or self.passing.is_refused(answer):
                visit.step_aside()
                write()
                return
            status, flat, made = answer
            headers = pairs_of(flat)
            if status < 400:  # strangers need not know
                headers.append(owner)
            visit.dress(headers, self._auth.origins)
            write(status, headers, made)
            visit.end(status)

        line.ask(self.passing.head(scope), body, answered)
        return True

    async def _preflight(self, scope: Any, send: Any, headers: dict[bytes, bytes]) -> bool:
        """Outgoing a browser's preflight request for another site's page; return False if the page is not allowed."""
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        if origin not in self._auth.origins or scope["weakfeedback.passed"]:
            return False
        allowed = [
            (b"access-control-allow-methods", b"GET, PUT, POST, PATCH, DELETE"),
            (b"access-control-allow-headers", b"authorization, content-type, idempotency-key, x-request-id"),
            (b"access-control-max-age", b"600"),
        ]
        await send({"type": "http.response.start", "status": 204, "headers": allowed})
        await send({"type": "http.response.body", "body": b""})
        return True


def _request_id(headers: dict[bytes, bytes]) -> bytes:
    given = headers.get(b"x-request-id", b"")
    if 0 < len(given) <= 64 and given.isascii() and given.replace(b"-", b"").replace(b"_", b"").isalnum():
        return given
    return b"%s%08x" % (_BORN, next(_COUNT))


_BORN = secrets.token_hex(4).encode()  # identifies this process
_COUNT = itertools.count()


def routes_of(
    operations: Iterable[Operation], service: Service, auth: Auth, limit: int = BODY_LIMIT
) -> list[BaseRoute]:
    """Return the routes of operations, for an application behind `Gate`."""
    return [
        Route(one.path, Endpoint(one, service, auth, limit), methods=[one.method], name=one.handle.__name__)
        for one in operations
    ]


def _message_of(error: Exception, scope: Any) -> Message:
    """Return what a client is told of an error."""
    path = scope["path"]
    if isinstance(error, Problem):
        scope["weakfeedback.reason"] = f"{error.code}: {error.detail}"
        return problem_message(error, path)
    if isinstance(error, HTTPException):  # from the router: unknown path, or method not allowed
        return problem_message(_problem_of(error, scope["method"]), path)
    log.error("a request failed: %s %s", scope["method"], scope.get("weakfeedback.route", ""), exc_info=error)
    return problem_message(Problem("internal", "the service has a fault; its log tells more"), path)


def _problem_of(error: HTTPException, method: str) -> Problem:
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "bad_request")
    problem = Problem(
        code, f"{method} is not allowed here" if code == "method_not_allowed" else "no such page"
    )
    if "Allow" in (error.headers or {}):
        problem.headers["allow"] = (error.headers or {})["Allow"]
    return problem


def make_app(
    service: Service,
    auth: Auth | None = None,
    *,
    operations: Sequence[Operation] = (),
    routes: Sequence[BaseRoute] = (),
    in_flight: int = IN_FLIGHT_LIMIT,
    root_path: str = "",
) -> Starlette:
    """Return the application: the decision routes, further ``operations`` and ``routes``, all behind the gate.

    Paths may begin with ``root_path``, the prefix under which a reverse proxy offers them.

    It starts and stops ``service`` unless the service is already running.
    """
    auth = auth or Auth()

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        mine = service.state == "starting"
        if mine:
            await service.start()
        try:
            yield
        finally:
            if mine:
                await service.stop()

    # matched before the others
    busy = [one for one in routes if getattr(one, "path", "").startswith(tuple(SPOKEN))]
    others = [one for one in routes if one not in busy]
    table = [*busy, *routes_of([*OPERATIONS, *operations], service, auth), *others]
    app = Starlette(routes=table, lifespan=lifespan)
    app.router.redirect_slashes = False
    # the gate handles all exceptions, so Starlette's own middleware would only cost time
    gate = app.middleware_stack = Gate(app.router, service, auth, in_flight, root_path)
    if service.sharing is not None:
        from weakfeedback.serve.passing import Passing

        gate.passing = service.sharing.passing = Passing(service.sharing, read_body)
        service.when_stopped = gate.passing.close
    app.state.service, app.state.auth, app.state.gate = service, auth, gate
    return app


__all__ = ["JSON", "Endpoint", "Gate", "make_app", "read_body", "routes_of"]
