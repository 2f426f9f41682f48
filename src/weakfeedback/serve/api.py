"""The decision routes: a table of `Operation`, from which routes and the OpenAPI document are made."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson
from pydantic import TypeAdapter, ValidationError

from weakfeedback.journal import Event
from weakfeedback.serve import models
from weakfeedback.serve.limits import NAME, NESTING_LIMIT, is_deep, is_name
from weakfeedback.serve.models import CONFIG, Problem, invalid
from weakfeedback.serve.service import Service
from weakfeedback.serve.wording import moment

JSON = b"application/json"
PROBLEM = b"application/problem+json"
TEXT = b"text/plain; charset=utf-8"
LINES = b"application/x-ndjson"


@dataclass
class Incoming:
    """One request, as a handler sees it."""

    service: Service
    params: dict[str, str]
    headers: dict[bytes, bytes]
    query: bytes
    given: Any = None  # the body, checked

    @property
    def name(self) -> str:
        """The name of the learner."""
        return self.params["name"]

    def number(self, name: str) -> int:
        """A number of the path."""
        text = self.params[name]
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            code = {"audit": "unknown_audit"}.get(name, "unknown_decision")
            raise Problem(code, f"there is no {name} {text!r:.30}")
        return int(text)

    def key(self) -> str | None:
        """The idempotency key."""
        key = self.headers.get(b"idempotency-key")
        return None if key is None else key.decode("latin-1")

    def accepts(self, kind: bytes) -> bool:
        """Whether the client asks for this kind of answer."""
        return kind.partition(b";")[0] in self.headers.get(b"accept", b"")

    def asked(self, **known: Any) -> dict[str, Any]:
        """The parameters of the query, with their defaults; integers and floats are at least 0."""
        found = dict(known)
        for field_, text in parse_qsl(self.query.decode("latin-1"), keep_blank_values=True):
            if field_ not in known:
                raise Problem(
                    "invalid", f"there is no parameter {field_!r:.40}: {', '.join(known)}", field=field_
                )
            default = known[field_]
            if isinstance(default, str):
                found[field_] = text
                continue
            try:
                if len(text) > 18:
                    raise ValueError
                found[field_] = type(default)(text)
                if not 0 <= found[field_] < 2**62 and not (field_ == "after" and found[field_] == -1):
                    raise ValueError
            except ValueError:
                raise Problem(
                    "invalid", f"{field_} must be a number >= 0, got {text!r:.30}", field=field_
                ) from None
        return found


@dataclass
class Outgoing:
    """What is sent back."""

    data: Any = None
    status: int = 200
    body: bytes | None = None  # instead of data
    kind: bytes = JSON


def read_json(body: bytes, headers: dict[bytes, bytes]) -> Any:
    """Return the JSON of a body, or raise a problem."""
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != JSON:
        raise Problem("unsupported_media_type", "the body must be application/json")
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Problem("bad_json", f"the body is not JSON: {error}") from None
    if is_deep(body, data):
        raise Problem("invalid", f"the body must not be nested deeper than {NESTING_LIMIT}")
    return data


Handler = Callable[[Incoming], Awaitable[Outgoing]]


@dataclass(frozen=True)
class Operation:
    """One method of one path: what it needs, what it does, what it answers."""

    method: str
    path: str
    scope: str
    handle: Handler
    summary: str
    body: Any = None  # a model, or an adapter of several
    answer: Any = None
    problems: tuple[str, ...] = ()
    optional: bool = False  # the body may be left out
    keyed: bool = False  # takes an Idempotency-Key
    query: dict[str, Any] = field(default_factory=dict)
    statuses: tuple[int, ...] = (200,)
    also: tuple[str, ...] = ()  # other media types that the answer can have
    told: bool = False  # other instances may ask for it, without a token

    def parsed(self, body: bytes, headers: dict[bytes, bytes]) -> Any:
        """The body as its model has it, or a problem."""
        if not body and self.optional:
            return None
        data = read_json(body, headers)
        try:
            if isinstance(self.body, TypeAdapter):
                return self.body.validate_python(data)
            return self.body.model_validate(data)
        except ValidationError as error:
            raise invalid(error, quote=self.scope == "admin" and "config" in self.path) from None


# where an argument of an operation comes from; others come from the query
GIVEN: dict[str, Callable[[Incoming], Any]] = {
    "name": lambda call: call.params["name"],
    "id": lambda call: call.number("id"),
    "audit": lambda call: call.number("audit"),
    "given": lambda call: call.given,
    "key": Incoming.key,
}


def offer(
    route: str, scope: str, work: Any, answer: Any = None, problems: tuple[str, ...] = (), **more: Any
) -> Operation:
    """Return the operation of a route, its method and its path, that does ``work``.

    That is a function of a `Incoming`, or a method of `Service`, called with what its signature names: the body is of
    the model that it says of ``given``.
    """
    method, _, path = route.partition(" ")
    summary = work.__doc__.splitlines()[0]
    first, *arguments = inspect.signature(work).parameters.values()
    if first.name == "call":
        return Operation(method, path, scope, work, summary, answer=answer, problems=problems, **more)
    known = {one.name: one.default for one in arguments if one.kind is not one.KEYWORD_ONLY}
    getters = [GIVEN[name] for name in known if name in GIVEN]
    query = {name: default for name, default in known.items() if name not in GIVEN}

    async def handle(call: Incoming) -> Outgoing:
        ask, asked = getattr(call.service, work.__name__), call.asked(**query) if query else {}
        return Outgoing(await ask(*[get(call) for get in getters], **asked))

    handle.__name__ = more.pop("named", work.__name__)
    more |= {"optional": known.get("given", True) is None, "keyed": "key" in known, "query": query}
    model = next((str(one.annotation).partition(" ")[0] for one in arguments if one.name == "given"), None)
    body = None if model is None else getattr(models, model)
    return Operation(method, path, scope, handle, summary, body, answer, problems, **more)


# -- those that are more than a method of the service


async def create(call: Incoming) -> Outgoing:
    """Make a learner; 200 if the same is there already."""
    if not is_name(call.name):
        raise Problem("invalid", f"name must match {NAME[1:-1]}, got {call.name!r:.80}", field="name")
    told, new = await call.service.create(call.name, call.given)
    return Outgoing(told, 201 if new else 200)


async def report(call: Incoming) -> Outgoing:
    """Report what was seen, spent and saved; as text/plain the printed table."""
    if call.accepts(TEXT):
        return Outgoing(body=(await call.service.report_text(call.name)).encode() + b"\n", kind=TEXT)
    return Outgoing(await call.service.report(call.name))


LOGGED: dict[str, Any] = {"after": -1, "limit": 1000}


async def events(call: Incoming) -> Outgoing:
    """Read the log; as application/x-ndjson one event a line."""
    found = await call.service.events(call.name, **call.asked(**LOGGED))
    # not orjson: numbers of generators have 128 bits
    lines = [json.dumps(_event(event), separators=(",", ":")) for event in found]
    if call.accepts(LINES):
        return Outgoing(body="".join(line + "\n" for line in lines).encode(), kind=LINES)
    return Outgoing(body=f'{{"events":[{",".join(lines)}]}}'.encode())


def _event(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": moment(event.at),
        "kind": event.kind,
        "decision": event.decision,
        "key": event.key,
        "body": event.body,
    }


async def live(call: Incoming) -> Outgoing:
    """Say that the process runs."""
    return Outgoing(_health(call.service, "live"))


async def ready(call: Incoming) -> Outgoing:
    """Say whether requests can be served: the store is owned, read and can be written."""
    state = "stopping" if call.service.draining else call.service.state
    return Outgoing(_health(call.service, state), 200 if state == "ready" else 503)


def _health(service: Service, status: str) -> dict[str, Any]:
    return {
        "status": status,
        "owner": service.state == "ready",
        "durability": service.options.durability,
        "learners": len(service.learners),
        "kept_out": len(service.kept_out),
    }


async def metrics(call: Incoming) -> Outgoing:
    """Show the metrics, as Prometheus reads them."""
    told = call.service.metrics
    return Outgoing(body=await told.text_beside(), kind=told.content_type.encode())


# -- all of them

ONE = "/v1/learners/{name}"
DECIDED = ONE + "/decisions/{id}"
AUDITED = ONE + "/audits/{audit}"
# problems that several operations share
UNKNOWN = ("unknown_learner",)
DECISION = (*UNKNOWN, "unknown_decision", "forgotten")
OPENING = (*UNKNOWN, "archived", "decision_open", "not_offered", "too_many_pending")
KEYS = ("wrong_key", "key_too_long", "key_reused")
CLOSED = ("conflict", "expired", "cancelled")
OUTPUTS = (*UNKNOWN, "not_offered", "wrong_outputs", "label_too_long")
ROWS = (*OUTPUTS, "conflict", *KEYS)

# route, scope, work, answer, problems; the busiest first: routes are tried in this order
OPERATIONS = [
    offer(
        f"POST {ONE}/decide",
        "use",
        Service.decide,
        models.DecisionAnswer | models.DecisionsAnswer,
        (*OPENING, "wrong_context", *KEYS, "too_many_items"),
    ),
    offer(
        f"POST {DECIDED}/feedback",
        "use",
        Service.feedback,
        models.FeedbackAnswer,
        (*DECISION, "not_offered", *CLOSED, "wrong_outputs", "wrong_label", "label_too_long"),
    ),
    offer(
        f"POST {ONE}/feedback",
        "use",
        Service.feedback_batch,
        models.FeedbackBatchAnswer,
        (*UNKNOWN, "too_many_items"),
    ),
    offer(
        f"POST {DECIDED}/cancel",
        "use",
        Service.cancel,
        models.CancelAnswer,
        (*DECISION, "conflict", "expired"),
    ),
    offer(f"POST {ONE}/begin", "use", Service.begin, models.StepAnswer, (*OPENING, *KEYS, "wrong_context")),
    offer(
        f"POST {DECIDED}/tell",
        "use",
        Service.tell,
        models.StepAnswer,
        (*DECISION, *CLOSED, "not_offered", "wrong_outputs", "label_too_long"),
    ),
    offer(
        f"POST {DECIDED}/again",
        "use",
        Service.again,
        models.AgainAnswer,
        (*DECISION, "not_offered", "wrong_outputs", "label_too_long"),
    ),
    offer(f"POST {ONE}/calibrate", "admin", Service.calibrate, models.WarmStartAnswer, ROWS),
    offer("GET /v1/learners", "read", Service.infos, models.LearnerList, named="learners"),
    offer(f"GET {ONE}", "read", Service.info, models.LearnerInfo, UNKNOWN, named="learner"),
    offer(
        f"PUT {ONE}",
        "admin",
        create,
        models.LearnerInfo,
        ("exists", "too_many_learners", "too_many_stages"),
        body=CONFIG,
        statuses=(201, 200),
    ),
    offer(f"PATCH {ONE}/costs", "admin", Service.recost, models.LearnerInfo, (*UNKNOWN, "not_offered")),
    offer(
        f"PATCH {ONE}/models",
        "admin",
        Service.change_models,
        models.LearnerInfo,
        (*UNKNOWN, "not_offered", "too_many_stages", "conflict", *KEYS),
    ),
    offer(f"DELETE {ONE}", "admin", Service.archive, models.LearnerInfo, UNKNOWN),
    offer(f"GET {ONE}/decisions", "read", Service.decisions, models.DecisionPage, UNKNOWN),
    offer(f"GET {DECIDED}", "read", Service.decision, models.DecisionState, DECISION),
    offer(
        f"GET {DECIDED}/explain",
        "read",
        Service.explain,
        models.ExplainAnswer,
        (*UNKNOWN, "not_explained", "not_offered", "unknown_decision"),
    ),
    offer(f"GET {ONE}/report", "read", report, models.ReportAnswer, UNKNOWN, also=("text/plain",)),
    offer(
        f"GET {ONE}/certificate",
        "read",
        Service.certificate,
        models.CertificateAnswer,
        (*UNKNOWN, "not_offered"),
    ),
    offer(
        f"POST {ONE}/warm-start",
        "admin",
        Service.warm_start,
        models.WarmStartAnswer,
        (*UNKNOWN, "not_offered", "decision_open", "wrong_outputs", "wrong_context", *ROWS),
    ),
    offer(f"POST {ONE}/audits", "admin", Service.audit, models.AuditAnswer, ROWS),
    offer(
        f"POST {AUDITED}/labels",
        "admin",
        Service.audit_labels,
        models.AuditAnswer,
        (*UNKNOWN, "unknown_audit", "not_offered", "wrong_label", "label_too_long", "conflict"),
    ),
    offer(f"GET {AUDITED}", "admin", Service.audit_told, models.AuditAnswer, (*UNKNOWN, "unknown_audit")),
    offer(
        f"GET {ONE}/events",
        "admin",
        events,
        models.EventPage,
        (*UNKNOWN, "forgotten"),
        query=LOGGED,
        also=("application/x-ndjson",),
    ),
    offer("GET /health/live", "none", live, models.Health),
    offer("GET /health/ready", "none", ready, models.Health, statuses=(200, 503)),
    offer("GET /metrics", "read", metrics, also=("text/plain",)),
]

COMMON = ("bad_json", "too_large", "unsupported_media_type", "invalid")  # of every route with a body
GATE = (  # what is refused before a route is asked, those of the proxy included
    "unauthorized",
    "forbidden",
    "foreign_origin",
    "unknown_host",
    "bad_request",
    "too_many_requests",
    "headers_too_large",
)
EVERYWHERE = (
    *GATE,
    "slow_request",
    "store_unavailable",
    "learner_replaying",
    "kept_out",
    "starting",
    "standby",
    "moving",
    "stopping",
)
