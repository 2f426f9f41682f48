"""Use a learner of `weakfeedback serve` as if it were local.

>>> from weakfeedback.client import Client
>>> service = Client("http://127.0.0.1:8470")
>>> service.learner("triage")
<learner 'triage' at http://127.0.0.1:8470>

Then use ``decide()``, ``feedback(id, outputs)``, ``print(report())``. The client repeats a call whose answer is lost,
and the call still counts once: repeated feedback and cancellations have no further effect, and a decision is requested
with a key by which the service recognises it. A call that the service refuses raises the exceptions of the library;
one that it cannot carry out now raises `ServiceUnavailable`.

`Client` needs nothing beyond Python, `AsyncClient` needs aiohttp (``pip install "weakfeedback[serve]"``).
"""

from __future__ import annotations

import contextlib
import http.client
import inspect
import json
import os
import random
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, fields
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from weakfeedback._version import __version__
from weakfeedback.environment import read_secret

REPEATS = 5
REPEATED = (429, 502, 503, 504)  # answers after which a call is repeated
LONGEST = 10.0  # maximum wait in seconds for a Retry-After
ANSWER_LIMIT = 256 * 2**20  # bytes
OWNER = "X-Weakfeedback-Owner"  # says which instance has answered, if it is another one
P = ParamSpec("P")
T = TypeVar("T")
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


class ServiceUnavailable(ConnectionError):
    """The service could not be reached or cannot answer now; whether the call was carried out is unknown.

    Repeating feedback, ``cancel``, ``create`` or ``recost`` is safe. ``status`` and ``code`` are None if there was no
    answer.
    """

    def __init__(self, words: str, status: int | None = None, code: str | None = None) -> None:
        super().__init__(words)
        self.status, self.code = status, code


class Refused(ValueError):
    """The service refused the call: ``code`` and ``status`` say why, ``field`` which field."""

    def __init__(self, words: str, status: int, code: str, field: str | None = None) -> None:
        super().__init__(words)
        self.status, self.code, self.field = status, code, field


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision: call the stages of ``call`` and use the answer of the last one, ``name``, number ``stage``.

    An allocation has ``allocation`` instead, amounts by arm. ``repeated`` is true if the service had made the decision
    before.
    """

    id: int
    stage: int | None = None
    name: str | None = None
    call: tuple[str, ...] = ()
    allocation: Mapping[str, float] | None = None
    expires: str | None = None
    repeated: bool = False
    turn: str | None = None  # of a conversation: first, same or up


@dataclass(frozen=True, slots=True)
class Step:
    """The next step of an adaptive learner: it needs the answer of the stage ``name``, or nothing more if that is None.

    At the end ``answer`` is the number of the stage whose answer counts; ``again`` names the reference where it shall
    be asked a second time.
    """

    id: int
    stage: int | None
    name: str | None
    answer: int | None = None
    repeated: bool = False
    again: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What a learner has seen, spent and saved: ``print`` it for the library's table, ``data`` has the numbers."""

    data: Mapping[str, Any]
    table: str = field(repr=False)

    def __str__(self) -> str:
        return self.table

    def __getitem__(self, name: str) -> Any:
        return self.data[name]


@dataclass(frozen=True, slots=True)
class _Call:
    """A request that can be repeated."""

    method: str
    path: str
    body: Any = None
    key: str | None = None
    accept: str = "application/json"

    def headers(self, token: str | None) -> dict[str, str]:
        told = {"Accept": self.accept, "User-Agent": f"weakfeedback/{__version__}"}
        if self.body is not None:
            told["Content-Type"] = "application/json"
        if self.key is not None:
            told["Idempotency-Key"] = self.key
        if token is not None:
            told["Authorization"] = f"Bearer {token}"
        return told

    @property
    def learner(self) -> str:
        """The name of the learner, "" if it is about none."""
        parts = self.path.split("/", 4)
        return parts[3].partition("?")[0] if parts[:3] == ["", "v1", "learners"] and len(parts) > 3 else ""

    def content(self) -> bytes | None:
        if self.body is None:
            return None
        return json.dumps(self.body, allow_nan=False, separators=(",", ":"), default=_plain).encode()


Asking = Generator[_Call, Any, T]  # requests, their answers, and what they come to


class _Base:
    """What the two clients share: address, token and timeouts."""

    def __init__(
        self,
        address: str | Sequence[str] = "http://127.0.0.1:8470",
        *,
        token_env: str | None = None,
        timeout: float = 30.0,
        repeats: int = REPEATS,
    ) -> None:
        given = [address] if isinstance(address, str) else list(address)
        if not given:
            raise ValueError("address must be one address, or several")
        if not timeout > 0.0:
            raise ValueError(f"timeout must be a number of seconds > 0, got {timeout!r}")
        if not 0 <= repeats <= REPEATS:
            raise ValueError(f"repeats must be from 0 to {REPEATS}, got {repeats!r}")
        self.addresses = tuple(_address(one) for one in given)
        self.address = self.addresses[0]  # which is asked unless another one owns the learner
        self.timeout, self.repeats = float(timeout), repeats
        self._owners = dict[str, str]()  # the address of learners that live elsewhere
        self._token = None if token_env is None else _token(token_env)
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}  # of a `Client`, by address
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address!r})"

    def _again(self, tried: int, status: int | None, retry_after: str | None) -> float | None:
        """Return how long to wait before repeating the call, or None if it is not repeated."""
        if tried >= self.repeats or (status is not None and status not in REPEATED):
            return None
        told = float(retry_after) if retry_after is not None and retry_after.isdecimal() else 0.0
        found: float | None = max(min(told, LONGEST), min(2.0, 0.05 * 2**tried) * random.uniform(0.5, 1.0))
        return found

    def _place(self, call: _Call) -> str:
        """Return the address for a call: that of the instance that owns its learner, if it is known."""
        return self._owners.get(call.learner, self.address)

    def _note_owner(self, call: _Call, owner: str | None) -> None:
        """Ask the instance that has answered for another one directly, from now on; only where the user said so."""
        if owner is not None and owner in self.addresses:
            self._owners[call.learner] = owner
        elif owner is not None:
            self._owners.pop(call.learner, None)

    def _leave(self, call: _Call, place: str) -> bool:
        """Ask elsewhere from now on; return whether ``place`` was asked as the owner of a learner."""
        if place == self.address:
            self.address = self.addresses[(self.addresses.index(place) + 1) % len(self.addresses)]
        return self._owners.get(call.learner) == place and self._owners.pop(call.learner, None) is not None

    def _failed(self, call: _Call, place: str, problem: BaseException) -> ServiceUnavailable:
        words = str(problem) or type(problem).__name__
        return ServiceUnavailable(f"{call.method} {place}{call.path}: {words}")


class Client(_Base):
    """A client for synchronous code. Safe to use from several threads; connections are kept open.

    Parameters
    ----------
    address : str, or several
        Where the service listens. Of several instances that share a store, that which owns a learner is asked once
        another has told it, at the address that it advertises if that is one of these; when it is gone, the next one.
    token_env : str, optional
        The environment variable that holds the token, if the service requires one; or the same with ``_FILE`` at its
        end names a file that does.
    timeout : seconds
        For each attempt.
    repeats : integer from 0 to 5
        How often a call is repeated after a connection error or the answers 429, 502, 503 and 504.
    """

    process: subprocess.Popen[str] | None = None  # of a service that was started with `local_service`

    def learner(self, name: str) -> Learner:
        """Return the learner with this name, without a request to the service."""
        return Learner(self, name)

    def learners(self) -> list[dict[str, Any]]:
        """Return name, kind, configuration and counters of all learners."""
        return list(self._send(_Call("GET", "/v1/learners"))["learners"])

    def create(self, name: str, **configuration: Any) -> Learner:
        """Create a learner, as the command ``PUT`` does; an existing one with the same configuration is returned."""
        learner = Learner(self, name)
        self._send(_Call("PUT", learner._path, configuration))
        return learner

    def ready(self) -> bool:
        """Return whether the service can be used now."""
        try:
            return self._once(_Call("GET", "/health/ready"), self.address)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connection in [one for kept in idle.values() for one in kept]:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _send(self, call: _Call) -> Any:
        tried = 0
        while True:
            status, wait, place = None, None, self._place(call)
            try:
                status, headers, content = self._once(call, place)
            except (OSError, http.client.HTTPException) as problem:
                if self._leave(call, place):
                    continue
                wait = self._again(tried, None, None)
                if wait is None:
                    raise self._failed(call, place, problem) from problem
            else:
                wait = self._again(tried, status, headers.get("Retry-After"))
                if wait is None:
                    return _result(call, status, content)
                if status != 429:
                    self._leave(call, place)
            time.sleep(wait)
            tried += 1

    def _once(self, call: _Call, place: str) -> tuple[int, Any, bytes]:
        """Send a request and read the answer; if a kept connection was closed meanwhile, send the request again."""
        with self._lock:
            idle = self._idle.get(place)
            connection = idle.pop() if idle else None
        if connection is not None:
            try:
                return self._exchange(connection, place, call)
            except (ConnectionError, http.client.HTTPException):
                pass
        return self._exchange(self._connect(place), place, call)

    def _connect(self, place: str) -> http.client.HTTPConnection:
        parts = urlsplit(place)
        host, port = str(parts.hostname), parts.port
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, port, timeout=self.timeout, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(host, port, timeout=self.timeout)

    def _exchange(
        self, connection: http.client.HTTPConnection, place: str, call: _Call
    ) -> tuple[int, Any, bytes]:
        kept = False
        try:
            connection.request(
                call.method, urlsplit(place).path + call.path, call.content(), call.headers(self._token)
            )
            answer = connection.getresponse()
            content = answer.read(ANSWER_LIMIT)
            if not answer.isclosed():
                raise http.client.HTTPException("the answer is too long")
            if not answer.will_close:
                with self._lock:
                    self._idle.setdefault(place, []).append(connection)
                kept = True
            self._note_owner(call, answer.headers.get(OWNER))
            return answer.status, answer.headers, content
        finally:
            if not kept:
                connection.close()


class AsyncClient(_Base):
    """A client for coroutines; use it in an ``async with`` block or ``await client.close()``."""

    _session: Any = None

    def learner(self, name: str) -> AsyncLearner:
        """Return the learner with this name, without a request to the service."""
        return AsyncLearner(self, name)

    async def learners(self) -> list[dict[str, Any]]:
        """Return name, kind, configuration and counters of all learners."""
        return list((await self._send(_Call("GET", "/v1/learners")))["learners"])

    async def create(self, name: str, **configuration: Any) -> AsyncLearner:
        """Create a learner; an existing one with the same configuration is returned."""
        learner = AsyncLearner(self, name)
        await self._send(_Call("PUT", learner._path, configuration))
        return learner

    async def close(self) -> None:
        """Close the connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _send(self, call: _Call) -> Any:
        import asyncio

        aiohttp = _aiohttp()
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self.timeout), trust_env=False, auto_decompress=False
            )
        tried = 0
        while True:
            place = self._place(call)
            try:
                async with self._session.request(
                    call.method,
                    place + call.path,
                    data=call.content(),
                    headers=call.headers(self._token),
                    allow_redirects=False,
                ) as answer:
                    content = await answer.read()
                    status, later = answer.status, answer.headers.get("Retry-After")
                    self._note_owner(call, answer.headers.get(OWNER))
            except (TimeoutError, aiohttp.ClientError, OSError) as problem:
                if self._leave(call, place):
                    continue
                wait = self._again(tried, None, None)
                if wait is None:
                    raise self._failed(call, place, problem) from problem
            else:
                wait = self._again(tried, status, later)
                if wait is None:
                    return _result(call, status, content)
                if status != 429:
                    self._leave(call, place)
            await asyncio.sleep(wait)
            tried += 1


# -- what can be asked, for both clients: generators of requests, which get the answers


def _address(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise ValueError(f"address must be like http://127.0.0.1:8470, got {address!r}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _learner_path(name: str) -> str:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError(f"a learner's name is a-z, 0-9, _ and -, at most 64 of them, got {name!r:.80}")
    return f"/v1/learners/{quote(name)}"


def _id(id: int) -> int:
    if isinstance(id, bool) or not isinstance(id, int) or id < 0:
        raise ValueError(f"id must be an integer >= 0, got {id!r:.40}")
    return id


def _key(key: str | None) -> str:
    return uuid.uuid4().hex if key is None else key


def _given(**told: Any) -> dict[str, Any]:
    return {name: _listed(value) for name, value in told.items() if value is not None}


class _Asked:
    """One learner of a service: its name, and what can be asked of it."""

    def __init__(self, client: Any, name: str) -> None:
        self.name, self._client, self._path = name, client, _learner_path(name)

    def __repr__(self) -> str:
        return f"<learner {self.name!r} at {self._client.address}>"

    def _get(self, path: str = "", **query: int) -> _Call:
        return _Call("GET", self._path + path + (f"?{urlencode(query)}" if query else ""))

    def _post(self, path: str, body: Any, key: str | None = None) -> _Call:
        return _Call("POST", f"{self._path}/{path}", body, key)

    def _decide(
        self,
        /,
        context: Sequence[float] | Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        group: str | None = None,
        **told: Any,
    ) -> Asking[Decision]:
        """Request a decision. Without ``key`` one is generated, so that a lost answer causes no second decision.

        ``group`` is for a learner that keeps a promise: what kind of request it is. For a router: ``context``, features
        by name, ``prices=`` of this request, ``conversation=`` to which it belongs and ``switching=``.
        """
        body = {**_given(context=context, group=group), **told}
        return _decision((yield self._post("decide", body, _key(key))))

    def _decide_many(
        self, count: int, contexts: Sequence[Sequence[float]] | None = None, *, key: str | None = None
    ) -> Asking[list[Decision]]:
        """Request several decisions at once, all or none."""
        found = yield self._post("decide", _given(count=count, contexts=contexts), _key(key))
        return [_decision(one) for one in found["decisions"]]

    def _feedback(self, /, id: int, outputs: Any = None, **told: Any) -> Asking[str]:
        """Send what the stages answered; return "accepted", or "duplicate" if that was known already.

        Instead of ``outputs``: ``differ=`` or ``distance=`` if you compare the answers yourself, ``observed=`` for an
        allocation. Also ``costs=`` and ``label=``. See the documentation of the service.
        """
        found = yield self._post(f"decisions/{_id(id)}/feedback", {**_given(outputs=outputs), **told})
        return str(found["result"])

    def _feedback_many(self, items: Iterable[Mapping[str, Any]]) -> Asking[list[dict[str, Any]]]:
        """Send up to 1000 feedbacks, each with its ``id``; return the results in this order, including refusals."""
        return list((yield self._post("feedback", {"items": [dict(item) for item in items]}))["results"])

    def _wants_label(self, id: int, outputs: Sequence[Any]) -> Asking[bool]:
        """Return whether the policy would pay for the label of this sample; nothing changes."""
        body = {**_given(outputs=outputs), "dry_run": True}
        return bool((yield self._post(f"decisions/{_id(id)}/feedback", body)).get("wants_label"))

    def _cancel(self, id: int, cost: float = 0.0, reason: str = "") -> Asking[None]:
        """Cancel a decision; ``cost`` was spent on it."""
        yield self._post(f"decisions/{_id(id)}/cancel", {"cost": cost, "reason": reason})

    def _begin(self, *, key: str | None = None, group: str | None = None) -> Asking[Step]:
        """Begin a round of an adaptive learner: call the stage that the step names, and `tell` its answer."""
        return _step((yield self._post("begin", _given(group=group), _key(key))))

    def _tell(self, /, step: Step, output: Any, **told: Any) -> Asking[Step]:
        """Send the output of the stage that ``step`` asks for; also ``score=``, ``cost=``, ``chances=``."""
        body = {"output": output, "stage": step.stage, **told}  # the stage makes it repeatable
        return _step((yield self._post(f"decisions/{_id(step.id)}/tell", body)))

    def _again(self, /, id: int, **told: Any) -> Asking[bool]:
        """Send what the reference said when it was asked a second time; return whether it differs.

        For a promise with ``self_check``, where a step or `decision` names it as ``again``. Give ``output=``, or
        ``differs=`` if you compare the answers yourself; also ``cost=``.
        """
        return bool((yield self._post(f"decisions/{_id(id)}/again", told))["differs"])

    def _calibrate(
        self, outputs: Sequence[Sequence[Any]], truth: Sequence[Any], scores: Any = None
    ) -> Asking[dict[str, Any]]:
        """Calibrate an adaptive learner with labelled rows of outputs of all stages, and their scores."""
        body = _given(outputs=outputs, truth=truth, scores=scores)
        return dict((yield self._post("calibrate", body, _key(None))))

    def _report(self) -> Asking[Report]:
        """Return what was seen, spent and saved; ``print`` it for the table."""
        data = yield self._get("/report")
        return Report(data, (yield _Call("GET", f"{self._path}/report", accept="text/plain")))

    def _explain(self, id: int) -> Asking[str]:
        """Explain in words why a decision was made, for the last 1000 decisions."""
        return str((yield self._get(f"/decisions/{_id(id)}/explain"))["text"])

    def _decision(self, id: int) -> Asking[dict[str, Any]]:
        """Return the status of a decision, with its times."""
        return dict((yield self._get(f"/decisions/{_id(id)}")))

    def _certificate(self) -> Asking[dict[str, Any]]:
        """Return what the comparisons prove without labels."""
        return dict((yield self._get("/certificate")))

    def _info(self) -> Asking[dict[str, Any]]:
        """Return configuration, revision and counters."""
        return dict((yield self._get()))

    def _warm_start(
        self, outputs: Sequence[Sequence[Any]], contexts: Sequence[Sequence[float]] | None = None
    ) -> Asking[int]:
        """Learn from existing rows of outputs of all stages; return their number."""
        body = _given(outputs=outputs, contexts=contexts)
        return int((yield self._post("warm-start", body, _key(None)))["rows"])

    def _audit(
        self, outputs: Sequence[Sequence[Any]], arm: int | None = None, alpha: float = 0.05
    ) -> Asking[dict[str, Any]]:
        """Begin an audit on fresh items; ``rows`` of the result are the items that need a label."""
        return dict((yield self._post("audits", _given(outputs=outputs, arm=arm, alpha=alpha), _key(None))))

    def _audit_labels(self, audit: int, labels: Mapping[int, Any]) -> Asking[dict[str, Any]]:
        """Give the labels of an audit by row; the result has its ``verdict``."""
        body = {"labels": {str(row): label for row, label in labels.items()}}
        return dict((yield self._post(f"audits/{_id(audit)}/labels", body)))

    def _recost(
        self, stage_costs: Sequence[float] | None = None, error_cost: float | None = None
    ) -> Asking[None]:
        """Continue with new prices; the counts stay."""
        body = _given(stage_costs=stage_costs, error_cost=error_cost)
        yield _Call("PATCH", f"{self._path}/costs", body)

    def _change_models(self, **change: Any) -> _Call:
        return _Call("PATCH", f"{self._path}/models", change, _key(None))

    def _add_model(self, name: str, price: float) -> Asking[None]:
        """Add a model to a router that runs; what is known of the others stays."""
        yield self._change_models(add={"name": name, "price": price})

    def _remove_model(self, model: str) -> Asking[None]:
        """Remove a model from a router that runs."""
        yield self._change_models(remove=model)

    def _replace_model(self, model: str, name: str | None = None, price: float | None = None) -> Asking[None]:
        """Put another model in the place of one; it keeps the name and the price that are left out."""
        yield self._change_models(replace=_given(model=model, name=name, price=price))

    def _promise(
        self,
        agree: float | None = None,
        budget: float | None = None,
        reference: str | None = None,
        shadow: bool | None = None,
        paused: bool | None = None,
        self_check: bool | None = None,
    ) -> Asking[None]:
        """Promise something else from the next request on: a share, money a request, or another reference.

        Another reference cancels open rounds that have called that one already.
        ``shadow``: the reference answers everything, and the report says what would have been; ``paused``: it answers
        everything, and nothing is learned; False turns either off. ``self_check`` begins or ends second calls of it.
        """
        told = {"shadow": shadow, "paused": paused, "self_check": self_check}
        body = _given(agree=agree, budget=budget, reference=reference, **told)
        yield _Call("PATCH", f"{self._path}/costs", body)

    def _series(self, start: int, end: int, step: int = 60) -> Asking[dict[str, Any]]:
        """Return sums per minute, or per step of whole minutes; times are in seconds since 1970."""
        return dict((yield self._get("/series", **{"from": start, "to": end, "step": step})))

    def _archive(self) -> Asking[None]:
        """Archive the learner: it makes no more decisions, still accepts feedback for open ones, and keeps its log."""
        yield _Call("DELETE", self._path)


def _now(asking: Callable[Concatenate[Any, P], Asking[T]]) -> Callable[Concatenate[Any, P], T]:
    """Return the method of `Learner` that sends these requests."""

    def ask(self: Any, /, *given: P.args, **more: P.kwargs) -> T:
        work, answer = asking(self, *given, **more), None
        try:
            while True:
                answer = self._client._send(work.send(answer))
        except StopIteration as end:
            found: T = end.value
            return found

    return _dressed(ask, asking)


def _awaited(
    asking: Callable[Concatenate[Any, P], Asking[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return the method of `AsyncLearner` that sends these requests."""

    async def ask(self: Any, /, *given: P.args, **more: P.kwargs) -> T:
        work, answer = asking(self, *given, **more), None
        try:
            while True:
                answer = await self._client._send(work.send(answer))
        except StopIteration as end:
            found: T = end.value
            return found

    return _dressed(ask, asking)


def _dressed(ask: T, asking: Callable[..., Any]) -> T:
    """Return a method with the name, the words and the signature of what it asks."""
    made: Any = ask
    made.__name__ = made.__qualname__ = asking.__name__[1:]
    made.__doc__, known = asking.__doc__, inspect.signature(asking)
    result = known.return_annotation.removeprefix("Asking[").removesuffix("]")
    made.__signature__ = known.replace(return_annotation=result)
    return ask


class Learner(_Asked):
    """One learner of a service. Create it with ``client.learner(name)``."""

    decide = _now(_Asked._decide)
    decide_many = _now(_Asked._decide_many)
    feedback = _now(_Asked._feedback)
    feedback_many = _now(_Asked._feedback_many)
    wants_label = _now(_Asked._wants_label)
    cancel = _now(_Asked._cancel)
    begin = _now(_Asked._begin)
    tell = _now(_Asked._tell)
    again = _now(_Asked._again)
    calibrate = _now(_Asked._calibrate)
    report = _now(_Asked._report)
    explain = _now(_Asked._explain)
    decision = _now(_Asked._decision)
    certificate = _now(_Asked._certificate)
    info = _now(_Asked._info)
    warm_start = _now(_Asked._warm_start)
    audit = _now(_Asked._audit)
    audit_labels = _now(_Asked._audit_labels)
    recost = _now(_Asked._recost)
    add_model = _now(_Asked._add_model)
    remove_model = _now(_Asked._remove_model)
    replace_model = _now(_Asked._replace_model)
    promise = _now(_Asked._promise)
    series = _now(_Asked._series)
    archive = _now(_Asked._archive)

    def events(self, after: int = -1) -> Iterator[dict[str, Any]]:
        """Yield the events of the log in order, starting with the one after ``after``."""
        while page := self._client._send(self._get("/events", after=after, limit=1000))["events"]:
            yield from page
            after = page[-1]["seq"]


class AsyncLearner(_Asked):
    """One learner of a service, for coroutines. The methods are those of `Learner`."""

    decide = _awaited(_Asked._decide)
    decide_many = _awaited(_Asked._decide_many)
    feedback = _awaited(_Asked._feedback)
    feedback_many = _awaited(_Asked._feedback_many)
    wants_label = _awaited(_Asked._wants_label)
    cancel = _awaited(_Asked._cancel)
    begin = _awaited(_Asked._begin)
    tell = _awaited(_Asked._tell)
    again = _awaited(_Asked._again)
    calibrate = _awaited(_Asked._calibrate)
    report = _awaited(_Asked._report)
    explain = _awaited(_Asked._explain)
    decision = _awaited(_Asked._decision)
    certificate = _awaited(_Asked._certificate)
    info = _awaited(_Asked._info)
    warm_start = _awaited(_Asked._warm_start)
    audit = _awaited(_Asked._audit)
    audit_labels = _awaited(_Asked._audit_labels)
    recost = _awaited(_Asked._recost)
    add_model = _awaited(_Asked._add_model)
    remove_model = _awaited(_Asked._remove_model)
    replace_model = _awaited(_Asked._replace_model)
    promise = _awaited(_Asked._promise)
    series = _awaited(_Asked._series)
    archive = _awaited(_Asked._archive)

    async def events(self, after: int = -1) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of the log in order, starting with the one after ``after``."""
        while page := (await self._client._send(self._get("/events", after=after, limit=1000)))["events"]:
            for event in page:
                yield event
            after = page[-1]["seq"]


@contextlib.contextmanager
def local_service(store: str | os.PathLike[str] | None = None, *options: str) -> Iterator[Client]:
    """Start a private service in a child process on a free port: for notebooks, and for tests of a program.

    ``store`` is its file; without one, everything is lost at the end. ``options`` are those of ``weakfeedback serve``.
    The child ends with the block; if it is killed, the file has everything that was acknowledged.

    >>> with local_service() as service:
    ...     service.ready()
    True
    """
    with tempfile.TemporaryDirectory(prefix="weakfeedback-") as folder:
        path = os.path.join(folder, "service.db") if store is None else os.path.abspath(store)
        command = [sys.executable, "-m", "weakfeedback", "serve", "--port", "0", "--quiet", "--interpreted"]
        command += ["--store", f"sqlite:///{path}", *options]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
        assert child.stdout is not None
        try:
            address = next((line.split()[-1] for line in child.stdout if " serves " in line), None)
            if address is None:
                raise ServiceUnavailable(f"the service did not start: exit status {child.wait()}")
            with Client(address) as client:
                client.process = child
                yield client
        finally:
            child.terminate()
            child.wait()
            child.stdout.close()


# -- the answers


def _decision(data: Mapping[str, Any]) -> Decision:
    told = _told(Decision, data)
    return Decision(**{**told, "call": tuple(told.get("call", ()))})


def _step(data: Mapping[str, Any]) -> Step:
    return Step(**{"stage": None, "name": None, **_told(Step, data)})


def _told(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return those fields of an answer that ``kind`` has, and that say something."""
    return {one.name: data[one.name] for one in fields(kind) if data.get(one.name) is not None}


def _result(call: _Call, status: int, content: bytes) -> Any:
    """Return the content of an answer, or raise the error that it reports."""
    if status == 204:
        return None
    try:
        text = content.decode()
        if 200 <= status < 300:
            return text if call.accept == "text/plain" else json.loads(text)
        problem = json.loads(text)
        words, code = str(problem["detail"]), str(problem["code"])
    except (ValueError, LookupError, TypeError):
        words, code, problem = f"answer {status}: {content[:80]!r}", "", {}
        if 200 <= status < 300:
            words = f"the answer is not JSON: {content[:80]!r}"
            raise ServiceUnavailable(f"{call.method} {call.path}: {words}", status) from None
    raise _error(status, code, words, problem.get("field") if isinstance(problem, dict) else None)


def _error(status: int, code: str, words: str, field: str | None) -> Exception:
    """Return the exception for a problem: that of the library if there is one."""
    from weakfeedback import FeedbackConflict, PendingDecision, UnknownDecision

    if status >= 500 or status in REPEATED:
        return ServiceUnavailable(words, status, code)
    if status in (401, 403):
        return PermissionError(words)
    if code == "conflict":
        return FeedbackConflict(words)
    if code == "decision_open":
        return PendingDecision(words)
    if status == 410 or code == "unknown_decision":
        return UnknownDecision(words)
    return Refused(words, status, code, field)


def _listed(value: Any) -> Any:
    """Return arrays and tuples as lists; anything else unchanged."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _plain(value: Any) -> Any:
    """Return NumPy numbers as Python numbers."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(
        f"{value!r:.60} cannot be sent: use texts, numbers, booleans, None, lists and dicts of these"
    )


def _token(name: str) -> str:
    token = read_secret(name).strip()
    if not token:
        raise ValueError(f"token_env must name a variable that holds a token, and {name} is not set")
    return token


def _aiohttp() -> Any:
    try:
        import aiohttp
    except ImportError:
        raise ImportError('AsyncClient needs aiohttp: pip install "weakfeedback[serve]"') from None
    return aiohttp
