"""The decision routes: one `Operation` each, from which routes and the OpenAPI document are made."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson
from pydantic import TypeAdapter, ValidationError

from weakfeedback.journal import Event
from weakfeedback.serve import models
from weakfeedback.serve.limits import BATCH_LIMIT, NAME, is_name
from weakfeedback.serve.models import CONFIG, Problem, invalid
from weakfeedback.serve.nesting import DEEP, is_deep
from weakfeedback.serve.service import Service, moment

JSON = b"application/json"
PROBLEM = b"application/problem+json"
TEXT = b"text/plain; charset=utf-8"
LINES = b"application/x-ndjson"


@dataclass
class Call:
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
class Answer:
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
        raise Problem("invalid", f"the body must not be nested deeper than {DEEP}")
    return data


Handler = Callable[[Call], Awaitable[Answer]]
Put = Callable[[Handler], Handler]


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


OPERATIONS: list[Operation] = []


def operation(route: str, scope: str, body: Any = None, answer: Any = None, **more: Any) -> Put:
    """Put a handler into the table; ``route`` is its method and its path."""
    method, _, path = route.partition(" ")

    def put(handle: Handler) -> Handler:
        summary = (handle.__doc__ or "").strip().splitlines()[0]
        OPERATIONS.append(Operation(method, path, scope, handle, summary, body, answer, **more))
        return handle

    return put


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


# the busiest first: routes are tried in this order


@operation(
    f"POST {ONE}/decide",
    "use",
    models.DecideRequest,
    models.DecisionAnswer | models.DecisionsAnswer,
    optional=True,
    keyed=True,
    problems=(*OPENING, "wrong_context", *KEYS, "too_many_items"),
)
async def decide(call: Call) -> Answer:
    """Decide: which stages to call."""
    return Answer(await call.service.decide(call.name, call.given, call.key()))


@operation(
    f"POST {DECIDED}/feedback",
    "use",
    models.FeedbackRequest,
    models.FeedbackAnswer,
    problems=(*DECISION, "not_offered", *CLOSED, "wrong_outputs", "wrong_label", "label_too_long"),
)
async def feedback(call: Call) -> Answer:
    """Tell what was seen under a decision."""
    return Answer(await call.service.feedback(call.name, call.number("id"), call.given))


@operation(
    f"POST {ONE}/feedback",
    "use",
    models.FeedbackBatch,
    models.FeedbackBatchAnswer,
    problems=(*UNKNOWN, "too_many_items"),
)
async def feedback_batch(call: Call) -> Answer:
    """Tell what was seen under up to 1000 decisions."""
    return Answer(await call.service.feedback_batch(call.name, call.given))


@operation(
    f"POST {DECIDED}/cancel",
    "use",
    models.CancelRequest,
    models.CancelAnswer,
    optional=True,
    problems=(*DECISION, "conflict", "expired"),
)
async def cancel(call: Call) -> Answer:
    """Take a decision back: nothing is learned from it."""
    return Answer(await call.service.cancel(call.name, call.number("id"), call.given))


@operation(f"POST {ONE}/begin", "use", answer=models.StepAnswer, keyed=True, problems=(*OPENING, *KEYS))
async def begin(call: Call) -> Answer:
    """Begin a round of a learner that decides after every answer."""
    return Answer(await call.service.begin(call.name, call.key()))


@operation(
    f"POST {DECIDED}/tell",
    "use",
    models.TellRequest,
    models.StepAnswer,
    problems=(*DECISION, *CLOSED, "not_offered", "wrong_outputs", "label_too_long"),
)
async def tell(call: Call) -> Answer:
    """Tell the output of a stage: which one to run next, or whose answer counts."""
    return Answer(await call.service.tell(call.name, call.number("id"), call.given))


@operation(
    f"POST {ONE}/calibrate",
    "admin",
    models.CalibrateRequest,
    models.WarmStartAnswer,
    keyed=True,
    problems=(*OUTPUTS, "conflict", *KEYS),
)
async def calibrate(call: Call) -> Answer:
    """Learn from labelled rows how far the last stage of an adaptive learner can be believed."""
    return Answer(await call.service.calibrate(call.name, call.given, call.key()))


@operation("GET /v1/learners", "read", answer=models.LearnerList)
async def learners(call: Call) -> Answer:
    """List the learners."""
    return Answer(await call.service.infos())


@operation(f"GET {ONE}", "read", answer=models.LearnerInfo, problems=UNKNOWN)
async def learner(call: Call) -> Answer:
    """Show a learner: configuration, revision and counters."""
    return Answer(await call.service.info(call.name))


@operation(
    f"PUT {ONE}",
    "admin",
    CONFIG,
    models.LearnerInfo,
    statuses=(201, 200),
    problems=("exists", "too_many_learners", "too_many_stages"),
)
async def create(call: Call) -> Answer:
    """Make a learner; 200 if the same is there already."""
    if not is_name(call.name):
        raise Problem("invalid", f"name must match {NAME[1:-1]}, got {call.name!r:.80}", field="name")
    told, new = await call.service.create(call.name, call.given)
    return Answer(told, 201 if new else 200)


@operation(
    f"PATCH {ONE}/costs", "admin", models.CostsRequest, models.LearnerInfo, problems=(*UNKNOWN, "not_offered")
)
async def recost(call: Call) -> Answer:
    """Set new prices; what was counted stays."""
    return Answer(await call.service.recost(call.name, call.given))


@operation(f"DELETE {ONE}", "admin", answer=models.LearnerInfo, problems=UNKNOWN)
async def archive(call: Call) -> Answer:
    """Archive a learner: no more decisions; feedback for open ones is still welcome, and the log stays."""
    return Answer(await call.service.archive(call.name))


STATUSES = ("pending", "answered", "cancelled", "expired", "alone", "all")


@operation(
    f"GET {ONE}/decisions",
    "read",
    answer=models.DecisionPage,
    problems=UNKNOWN,
    query={"status": "pending", "after": 0, "limit": 100},
)
async def decisions(call: Call) -> Answer:
    """Page through decisions."""
    asked = call.asked(status="pending", after=0, limit=100)
    if asked["status"] not in STATUSES:
        raise Problem("invalid", f"status must be one of {', '.join(STATUSES)}", field="status")
    return Answer(await call.service.decisions(call.name, asked["status"], asked["after"], _limit(asked)))


@operation(f"GET {DECIDED}", "read", answer=models.DecisionState, problems=DECISION)
async def decision(call: Call) -> Answer:
    """Show where a decision stands."""
    return Answer(await call.service.decision(call.name, call.number("id")))


@operation(
    f"GET {DECIDED}/explain",
    "read",
    answer=models.ExplainAnswer,
    problems=(*UNKNOWN, "not_explained", "not_offered", "unknown_decision"),
)
async def explain(call: Call) -> Answer:
    """Say why a decision fell as it did, for the last 1000."""
    return Answer(await call.service.explain(call.name, call.number("id")))


@operation(f"GET {ONE}/report", "read", answer=models.ReportAnswer, problems=UNKNOWN, also=("text/plain",))
async def report(call: Call) -> Answer:
    """Report what was seen, spent and saved; as text/plain the printed table."""
    if call.accepts(TEXT):
        return Answer(body=(await call.service.report_text(call.name)).encode() + b"\n", kind=TEXT)
    return Answer(await call.service.report(call.name))


@operation(
    f"GET {ONE}/certificate",
    "read",
    answer=models.CertificateAnswer,
    problems=(*UNKNOWN, "not_offered"),
    query={"alpha": 0.05},
)
async def certificate(call: Call) -> Answer:
    """Say what the comparisons prove without labels."""
    return Answer(await call.service.certificate(call.name, call.asked(alpha=0.05)["alpha"]))


@operation(
    f"POST {ONE}/warm-start",
    "admin",
    models.WarmStartRequest,
    models.WarmStartAnswer,
    keyed=True,
    problems=(
        *UNKNOWN,
        "not_offered",
        "decision_open",
        "wrong_outputs",
        "wrong_context",
        "label_too_long",
        "conflict",
        *KEYS,
    ),
)
async def warm_start(call: Call) -> Answer:
    """Learn rows of outputs of all stages."""
    return Answer(await call.service.warm_start(call.name, call.given, call.key()))


@operation(
    f"POST {ONE}/audits",
    "admin",
    models.AuditRequest,
    models.AuditAnswer,
    keyed=True,
    problems=(*OUTPUTS, "conflict", *KEYS),
)
async def audit(call: Call) -> Answer:
    """Begin an audit: send outputs of fresh items, get the rows that need labels."""
    return Answer(await call.service.audit(call.name, call.given, call.key()))


@operation(
    f"POST {AUDITED}/labels",
    "admin",
    models.AuditLabels,
    models.AuditAnswer,
    problems=(*UNKNOWN, "unknown_audit", "wrong_label", "label_too_long", "conflict"),
)
async def audit_labels(call: Call) -> Answer:
    """End an audit with the labels of those rows."""
    return Answer(await call.service.audit_labels(call.name, call.number("audit"), call.given))


@operation(f"GET {AUDITED}", "admin", answer=models.AuditAnswer, problems=(*UNKNOWN, "unknown_audit"))
async def audit_told(call: Call) -> Answer:
    """Show where an audit stands."""
    return Answer(await call.service.audit_told(call.name, call.number("audit")))


@operation(
    f"GET {ONE}/events",
    "admin",
    answer=models.EventPage,
    problems=(*UNKNOWN, "forgotten"),
    query={"after": -1, "limit": 1000},
    also=("application/x-ndjson",),
)
async def events(call: Call) -> Answer:
    """Read the log; as application/x-ndjson one event a line."""
    asked = call.asked(after=-1, limit=1000)
    found = await call.service.events(call.name, asked["after"], _limit(asked))
    # not orjson: numbers of generators have 128 bits
    lines = [json.dumps(_event(event), separators=(",", ":")) for event in found]
    if call.accepts(LINES):
        return Answer(body="".join(line + "\n" for line in lines).encode(), kind=LINES)
    return Answer(body=f'{{"events":[{",".join(lines)}]}}'.encode())


def _event(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": moment(event.at),
        "kind": event.kind,
        "decision": event.decision,
        "key": event.key,
        "body": event.body,
    }


def _limit(asked: dict[str, Any]) -> int:
    if not 1 <= asked["limit"] <= BATCH_LIMIT:
        raise Problem(
            "invalid", f"limit must be from 1 to {BATCH_LIMIT}, got {asked['limit']}", field="limit"
        )
    return int(asked["limit"])


# -- the process itself


@operation("GET /health/live", "none", answer=models.Health)
async def live(call: Call) -> Answer:
    """Say that the process runs."""
    return Answer(_health(call.service, "live"))


@operation("GET /health/ready", "none", answer=models.Health, statuses=(200, 503))
async def ready(call: Call) -> Answer:
    """Say whether requests can be served: the store is owned, read and can be written."""
    state = "stopping" if call.service.draining else call.service.state
    return Answer(_health(call.service, state), 200 if state == "ready" else 503)


def _health(service: Service, status: str) -> dict[str, Any]:
    return {
        "status": status,
        "owner": service.state == "ready",
        "durability": service.options.durability,
        "learners": len(service.learners),
    }


@operation("GET /metrics", "read", also=("text/plain",))
async def metrics(call: Call) -> Answer:
    """Show the metrics, as Prometheus reads them."""
    return Answer(body=call.service.metrics.text(), kind=call.service.metrics.content_type.encode())


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
    "starting",
    "standby",
    "stopping",
)
