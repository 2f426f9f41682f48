"""What goes in and out over HTTP: requests, answers and problems (RFC 9457)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)

from weakfeedback.serve.limits import (
    AMOUNT_LIMIT,
    BATCH_LIMIT,
    CONTEXT_LIMIT,
    KEEP_LIMIT,
    PENDING_LIMIT,
    REASON_LIMIT,
    SMALLEST,
    TEXT_LIMIT,
    TTL_LIMIT,
    clamped,
)
from weakfeedback.toml import first_mistake

DAY = 86_400.0

# code -> status, title
PROBLEMS: dict[str, tuple[int, str]] = {
    "bad_json": (400, "The body is not JSON"),
    "bad_request": (400, "The request cannot be understood"),
    "unauthorized": (401, "A token is needed"),
    "forbidden": (403, "The token does not allow this"),
    "foreign_origin": (403, "The request comes from another site"),
    "not_found": (404, "There is nothing here"),
    "unknown_learner": (404, "There is no such learner"),
    "unknown_decision": (404, "There is no such decision"),
    "unknown_audit": (404, "There is no such audit"),
    "not_explained": (404, "The decision can no longer be explained"),
    "method_not_allowed": (405, "The method is not allowed here"),
    "slow_request": (408, "The request took too long to arrive"),
    "conflict": (409, "The decision was answered with other content"),
    "exists": (409, "A learner of this name has another configuration"),
    "decision_open": (409, "A decision must be answered first"),
    "archived": (409, "The learner is archived"),
    "not_offered": (409, "This learner does not offer it"),
    "too_many_learners": (409, "There are too many learners"),
    "expired": (410, "The decision has expired"),
    "cancelled": (410, "The decision was cancelled"),
    "forgotten": (410, "The decision is too old"),
    "too_large": (413, "The body is too large"),
    "unsupported_media_type": (415, "The body must be application/json"),
    "unknown_host": (421, "This service does not answer to that name"),
    "invalid": (422, "A field is wrong"),
    "wrong_outputs": (422, "The outputs do not fit the decision"),
    "wrong_context": (422, "The context does not fit"),
    "wrong_label": (422, "The label does not fit"),
    "too_many_stages": (422, "There are too many stages"),
    "too_many_items": (422, "There are too many items in one request"),
    "label_too_long": (422, "A label is too long"),
    "wrong_key": (422, "The idempotency key is wrong"),
    "key_too_long": (422, "The idempotency key is too long"),
    "key_reused": (422, "The idempotency key was used for another request"),
    "too_many_pending": (429, "Too many decisions wait for feedback"),
    "too_many_requests": (429, "Too many requests are under way"),
    "headers_too_large": (431, "The headers are too large"),
    "internal": (500, "The service has a fault"),
    "store_unavailable": (503, "The store cannot be read or written now"),
    "starting": (503, "The service is starting"),
    "learner_replaying": (503, "The learner is read again"),
    "kept_out": (503, "The learner cannot be read"),
    "standby": (503, "Another process owns the store"),
    "moving": (503, "The learner moves to another instance"),
    "stopping": (503, "The service is stopping"),
}
# those of the proxy alone
CHAT_PROBLEMS: dict[str, tuple[int, str]] = {
    "missing_model": (400, "There is no model"),
    "bad_value": (400, "A field or a header is wrong"),
    "unknown_parameter": (400, "There is no such parameter, or clients may not set it"),
    "upstream_refused": (400, "A model finds the request wrong; the code may be its own"),
    "model_not_found": (404, "There is no such model"),
    "not_spoken": (404, "The proxy does not speak this"),
    "upstream_failed": (502, "No model answered"),
}
# what Anthropic's protocol calls errors, by status
KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
}


class Problem(Exception):
    """An answer that is an error. ``detail`` is one line: what, which value, what is allowed."""

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        retry_after: int | None = None,
        title: str | None = None,
        theirs: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code, self.detail, self.field = code, " ".join(detail.split()), field
        self.headers = {} if retry_after is None else {"retry-after": str(retry_after)}
        self.status, words = PROBLEMS.get(code) or CHAT_PROBLEMS[code]
        self.title = title or words
        self.theirs = theirs or {}  # what an upstream says of it, in OpenAI's form

    def body(self) -> dict[str, Any]:
        """The problem as RFC 9457 has it, with its code and where it helps the field."""
        told = {
            "type": f"/problems/{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
        }
        return told if self.field is None else {**told, "field": self.field}

    def for_openai(self) -> dict[str, Any]:
        """The problem as OpenAI's clients expect it."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        kind = "upstream_error" if self.code == "upstream_failed" else kind
        told = {"message": self.detail, "type": kind, "param": self.field, "code": self.code}
        return {"error": told | {name: value for name, value in self.theirs.items() if value is not None}}

    def for_anthropic(self) -> dict[str, Any]:
        """The problem as Anthropic's clients expect it, with its code."""
        kind = "api_error" if self.status >= 500 else KINDS.get(self.status, "invalid_request_error")
        kind = "rate_limit_error" if self.status == 429 else kind
        return {"type": "error", "error": {"type": kind, "message": self.detail, "code": self.code}}


def wrong(field: str, words: str, code: str = "invalid") -> Problem:
    """Return the problem of a field; its name begins the sentence."""
    return Problem(code, f"{field} {words}", field=field)


class Model(BaseModel):
    """Unknown fields are refused, numbers are finite, and a text is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def check_batch(count: int) -> None:
    """Refuse more items than one request may have."""
    if count > BATCH_LIMIT:
        raise Problem("too_many_items", f"there may be at most {BATCH_LIMIT} in one request, got {count}")


class ProblemBody(Model):
    """What every error answers, as ``application/problem+json``."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str | None = None


# -- learners

STORED = {"stored": True}  # the context of a validation of what is in the store


def _printable(text: str, info: ValidationInfo) -> str:
    """Reject control characters, also those that turn the direction of the text; a store of before may hold them."""
    if not text.isprintable() and not info.context:
        raise ValueError("must consist of printable characters")
    return text


Text = Annotated[str, Field(min_length=1, max_length=TEXT_LIMIT), AfterValidator(_printable)]
Number = Annotated[float, Field(ge=-AMOUNT_LIMIT, le=AMOUNT_LIMIT)]
Amount = Annotated[float, Field(ge=0.0, le=AMOUNT_LIMIT)]
Positive = Annotated[float, Field(ge=SMALLEST, le=AMOUNT_LIMIT)]
Context = Annotated[list[Number], Field(max_length=CONTEXT_LIMIT)]
Code = Annotated[int, Field(ge=-int(AMOUNT_LIMIT), le=int(AMOUNT_LIMIT))]
Known = dict[Text, Text | Code | None]  # features of a request, by name
Talk = Annotated[str, Field(min_length=1, max_length=1000)]


class Exact(Model):
    """JSON values that are equal; numbers by value."""

    type: Literal["exact"] = "exact"


class TextCompare(Model):
    """Texts that are equal after this."""

    type: Literal["text"]
    strip: bool = True
    casefold: bool = False
    collapse: bool = True


class NumberCompare(Model):
    """Numbers, whose distance is ``min(|a - b| / scale, 1)``; with ``loss: "squared"`` its square."""

    type: Literal["number"]
    scale: Positive
    loss: Literal["squared"] | None = None


Compare = Annotated[Exact | TextCompare | NumberCompare, Field(discriminator="type")]


class _Config(Model):
    policy: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0)] | None = None
    pending_ttl: Annotated[float, Field(gt=0.0, le=TTL_LIMIT)] = DAY
    pending_limit: Annotated[int, Field(ge=1, le=PENDING_LIMIT)] = PENDING_LIMIT
    currency: Annotated[str, Field(min_length=1, max_length=16), AfterValidator(_printable)] | None = None
    keep_outputs: bool = False


class _Priced(_Config):
    error_cost: Positive = 1.0
    compare: Compare = Exact()


class CascadeConfig(_Priced):
    """Stages of rising cost; all up to the chosen one are called."""

    kind: Literal["cascade"]
    stages: Annotated[list[Text], Field(min_length=1)]
    stage_costs: list[Amount]
    label_price: Amount | None = None


class ContextualConfig(_Priced):
    """A cascade that looks at numbers about the sample first."""

    kind: Literal["contextual"]
    stages: Annotated[list[Text], Field(min_length=1)]
    stage_costs: list[Amount]
    keep: Annotated[int, Field(ge=100, le=KEEP_LIMIT)] | None = 5000


class _Promised(_Priced):
    """What the answers are for: one of agree, budget and error_cost, or agree and error_cost."""

    error_cost: Positive | None = None  # type: ignore[assignment]
    agree: Annotated[float, Field(gt=0.5, lt=1.0)] | None = None
    budget: Positive | None = None
    reference: Text | None = None
    sure: bool = False
    groups: Literal["each"] | None = None
    shadow: bool = False
    background: bool = False
    self_check: bool = False


class AdaptiveConfig(_Promised):
    """A cascade that decides after every answer: `begin`, then `tell` until it has enough."""

    kind: Literal["adaptive"]
    stages: Annotated[list[Text], Field(min_length=1)]
    stage_costs: list[Amount]


class RouterConfig(_Promised):
    """Models that can be called alone; compares only while that pays."""

    kind: Literal["router"]
    models: Annotated[list[Text], Field(min_length=1)]
    prices: list[Amount]
    context: Annotated[list[Text], Field(max_length=16)] | None = None
    conversation_ttl: Positive | None = None


class AllocationConfig(_Config):
    """A budget for arms whose needs are unknown."""

    kind: Literal["allocation"]
    arms: Annotated[list[Text], Field(min_length=1)]
    budget: Positive
    setting: Literal["loss", "reward"] = "loss"


LearnerConfig = Annotated[
    CascadeConfig | ContextualConfig | AdaptiveConfig | RouterConfig | AllocationConfig,
    Field(discriminator="kind"),
]
CONFIG: TypeAdapter[Any] = TypeAdapter(LearnerConfig)
CONFIGS: dict[str, type[_Config]] = {
    "cascade": CascadeConfig,
    "contextual": ContextualConfig,
    "adaptive": AdaptiveConfig,
    "router": RouterConfig,
    "allocation": AllocationConfig,
}


def stored_config(config: dict[str, Any], warnings: list[str], where: str) -> Any:
    """Return a configuration that is in the store: within the limits of this version, with a warning if it was not."""
    return CONFIG.validate_python(clamped(config, warnings, where), context=STORED)


class LearnerInfo(Model):
    """A learner, its configuration and counters."""

    name: str
    kind: str
    revision: int
    policy: str
    archived: bool
    paused: bool = False
    created: str
    seq: int
    rounds: int
    pending: int
    durability: str
    config: dict[str, Any]
    warning: str | None = None


class KeptOutInfo(Model):
    """A learner that cannot be read, and why."""

    name: str
    reason: str


class LearnerList(Model):
    """All learners, by name; and those that are kept out, if there are any."""

    learners: list[LearnerInfo]
    kept_out: list[KeptOutInfo] | None = None


class CostsRequest(Model):
    """New prices: of the stages, or models, and of an error; or another promise."""

    stage_costs: list[Amount] | None = None
    prices: list[Amount] | None = None
    error_cost: Positive | None = None
    agree: Annotated[float, Field(gt=0.5, lt=1.0)] | None = None
    budget: Positive | None = None
    reference: Text | None = None
    shadow: bool | None = None
    paused: bool | None = None
    self_check: bool | None = None


class ModelPrice(Model):
    """A model of a router, and what a call of it costs."""

    name: Text
    price: Amount


class Replacement(Model):
    """A model that takes the place of another, under its name and at its price unless others are given."""

    model: Text
    name: Text | None = None
    price: Amount | None = None


class ModelsRequest(Model):
    """A change of the models of a router: ``add`` one, ``remove`` one, or ``replace`` one by another."""

    add: ModelPrice | None = None
    remove: Text | None = None
    replace: Replacement | None = None


# -- decisions


class DecideRequest(Model):
    """Ask for one decision, or ``count`` of them; a contextual learner needs a context (or one for each).

    ``group`` is for a promise: what kind of request it is. For a router: ``context``, by the names of its features;
    ``prices``, what this request costs on each model; ``conversation``, whose first request is decided, while later
    ones stay with its model or move up if that pays with ``switching``, what moving to each model would cost.
    """

    count: Annotated[int, Field(ge=1)] | None = None
    context: Context | Known | None = None
    contexts: list[Context | Known] | None = None
    group: Text | None = None
    prices: list[Amount] | None = None
    conversation: Talk | None = None
    switching: list[Amount] | None = None


class BeginRequest(Model):
    """Begin a round; ``group`` is for a promise: what kind of request it is."""

    group: Text | None = None


class DecisionAnswer(Model):
    """What to call. ``stage`` and ``name`` answer; an allocation tells amounts by arm instead.

    ``turn``, of a conversation, is first, same or up: decided, as before, or moved to a dearer model.
    """

    id: int
    stage: int | None = None
    name: str | None = None
    call: list[str] | None = None
    allocation: dict[str, float] | None = None
    turn: Literal["first", "same", "up"] | None = None
    expires: str | None
    repeated: bool


class DecisionsAnswer(Model):
    """Several decisions."""

    decisions: list[DecisionAnswer]


class FeedbackRequest(Model):
    """What was seen: ``outputs`` of the stages called, or ``differ`` or ``distance`` if the caller compared them.

    An allocation takes ``observed`` instead. ``failed``, of a router with a promise: models that gave no answer. With
    ``dry_run`` nothing changes, and ``wants_label`` is told.
    """

    outputs: list[Any] | None = None
    differ: list[list[int]] | None = None
    distance: list[Number] | None = None
    costs: list[Amount] | None = None
    label: Any = None
    label_cost: Amount | None = None
    right: list[bool] | None = None
    observed: dict[str, Number | None] | None = None
    failed: list[int] | None = None
    dry_run: bool = False


class FeedbackItem(FeedbackRequest):
    """One feedback of many."""

    id: int


class FeedbackBatch(Model):
    """Up to 1000 feedbacks, each accepted or refused by itself."""

    items: list[FeedbackItem]


class FeedbackAnswer(Model):
    """``result`` is accepted, duplicate or, with ``dry_run``, possible.

    With ``self_check``, ``again`` names the reference where it shall be asked a second time.
    """

    result: Literal["accepted", "duplicate", "possible"]
    id: int
    differ: list[list[int]] | None = None
    wants_label: bool | None = None
    again: str | None = None


class FeedbackBatchAnswer(Model):
    """The results in the order of the items; a refused one is a problem."""

    results: list[FeedbackAnswer | ProblemBody]


class CancelRequest(Model):
    """Take a decision back; ``cost`` was spent on it."""

    cost: Amount = 0.0
    reason: Annotated[str, Field(max_length=REASON_LIMIT)] = ""


class CancelAnswer(Model):
    """``duplicate`` if it was cancelled before."""

    result: Literal["cancelled", "duplicate"]
    id: int


class TellRequest(Model):
    """The output of the stage that was to be run, by itself with its ``stage`` where a request may be repeated.

    ``score`` says how sure it is; ``chances``, of the last stage, how probable it takes each label to be. With a
    promise, ``failed`` says that the stage gave none: the reference answers.
    """

    output: Any
    failed: bool = False
    stage: Annotated[int, Field(ge=0)] | None = None
    score: Number | None = None
    cost: Amount | None = None
    chances: dict[str, Number] | None = None


class StepAnswer(Model):
    """The stage to run next and its name; both null once ``answer``, the stage whose answer counts, is known.

    With ``self_check``, ``again`` names the reference where it shall be asked a second time.
    """

    id: int
    stage: int | None
    name: str | None
    answer: int | None
    expires: str | None = None
    repeated: bool = False
    again: str | None = None


class AgainRequest(Model):
    """What the reference said when it was asked a second time, with the same input and no cache.

    Either its ``output``, or, if the caller has compared it with the first one, whether it ``differs``.
    """

    output: Any = None
    differs: bool | None = None
    cost: Amount | None = None


class AgainAnswer(Model):
    """``duplicate`` if it was told before; ``differs`` if the reference does not agree with itself."""

    result: Literal["accepted", "duplicate"]
    id: int
    differs: bool


class CalibrateRequest(Model):
    """Labelled rows: outputs of all stages, their scores where there are any, and the truth of each row."""

    outputs: list[list[Any]]
    scores: list[list[Number | None]] | None = None
    truth: list[Any]


class DecisionState(Model):
    """Where a decision stands; ``again`` names the reference while a second answer of it is waited for."""

    id: int
    status: Literal["pending", "answered", "cancelled", "expired", "alone"]
    decided: str | None
    ended: str | None
    expires: str | None
    stage: int | None = None
    call: list[str] | None = None
    allocation: dict[str, float] | None = None
    again: str | None = None


class DecisionPage(Model):
    """Some decisions; ask again with ``after`` = ``next`` unless that is null."""

    decisions: list[DecisionState]
    next: int | None


class ExplainAnswer(Model):
    """Why a decision fell as it did, in words."""

    id: int
    text: str


# -- other ways to learn, and to doubt


class WarmStartRequest(Model):
    """Rows of outputs of all stages; a contextual learner needs the contexts too."""

    outputs: list[list[Any]]
    contexts: list[Context] | None = None


class WarmStartAnswer(Model):
    """How many rows were learned."""

    rows: int
    repeated: bool = False


class AuditRequest(Model):
    """Fresh items, each with the outputs of the stages up to ``arm`` at least."""

    outputs: list[list[Any]]
    arm: Annotated[int, Field(ge=0)] | None = None
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05


class AuditLabels(Model):
    """The truth of the rows that were asked for, by their numbers."""

    labels: dict[str, Any]


class AuditAnswer(Model):
    """``rows`` need labels; ``verdict`` and the numbers are there once they came."""

    id: int
    arm: int
    alpha: float
    items: int
    rows: list[int]
    verdict: str | None = None
    low: float | None = None
    high: float | None = None
    labels: int | None = None
    against: list[list[float | None]] | None = None
    text: str | None = None


class CertificateAnswer(Model):
    """What the comparisons prove without labels; of a promise, which share of the answers differs at most."""

    verdict: str
    possible: list[int]
    needed: int | None
    alpha: float
    text: str
    differ_at_most: float | None = None


class Saved(Model):
    """What was saved against a named baseline, signed."""

    against: str
    amount: float
    share: float | None
    estimated: bool


class PairReport(Model):
    """How often two stages differed."""

    pair: list[int]
    share: float | None
    low: float
    high: float
    comparisons: int
    pays_above: float


class StageReport(Model):
    """A stage, or model, and how often rounds stopped there, or were answered by it."""

    name: str
    cost: float
    stopped_share: float | None


class ReportAnswer(Model):
    """What a learner has seen, spent and saved. ``details`` is the library's report as data.

    ``promise``, of a learner that keeps one: its state, how much differs, and the report in words. ``proxy``, of a
    learner whose stages are upstream models: its invoice, with requests, calls, tokens, seconds and money; ``spent``,
    ``wasted`` and ``saved`` are those of the invoice then.
    """

    name: str
    kind: str
    policy: str
    rounds: int
    pending: int
    late: int
    cancelled: int
    expired: int
    currency: str | None
    seq: int
    stages: list[StageReport] | None = None
    settled: int | None = None
    disagreement: list[PairReport] | None = None
    spent: float | None = None
    wasted: float | None = None
    saved: Saved | None = None
    drift: list[dict[str, Any]] | None = None
    weak_dominance: str | None = None
    proxy: dict[str, Any] | None = None
    promise: dict[str, Any] | None = None
    details: dict[str, Any]


class SeriesAnswer(Model):
    """Sums by step: ``at`` are the beginnings in seconds since 1970, ``columns`` the sums by name.

    Stages, models and arms go by their numbers: ``stop_0``, ``compared_0_1``, ``differed_0_1``, ``given_2``.
    """

    step: int
    at: list[int]
    columns: dict[str, list[float]]


class TokenUsed(Model):
    """A token, and what was used under its name: requests since the start, money ever."""

    name: str
    scope: str
    expires: str | None
    requests: int
    refused: int
    per_minute: int | None
    money: float
    today: float
    per_day: float | None


class TokensAnswer(Model):
    """All tokens."""

    tokens: list[TokenUsed]


class ReloadAnswer(Model):
    """The number of tokens after they were read anew."""

    tokens: int


class EventAnswer(Model):
    """One event of the log."""

    seq: int
    at: str
    kind: str
    decision: int | None
    key: str | None
    body: dict[str, Any]


class EventPage(Model):
    """Some events, in order; ask again with ``after`` = the last ``seq``."""

    events: list[EventAnswer]


class Health(Model):
    """Whether requests can be served."""

    status: str
    owner: bool
    durability: str
    learners: int
    kept_out: int


def invalid(error: ValidationError, quote: bool = False) -> Problem:
    """The problem of a body that does not fit its model; values are quoted only where they hold no data of users."""
    found = first_mistake(error)
    words = f"{found.field or 'the body'} {found.words}{found.hint}"
    if quote or isinstance(found.value, (int, float)):
        words += f", got {found.value!r:.60}"
    return Problem("invalid", words, field=found.field or None)
