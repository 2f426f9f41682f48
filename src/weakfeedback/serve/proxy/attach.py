"""The proxy as a part of the service: its decisions, routes and metrics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.routing import BaseRoute, Route

from weakfeedback.serve.auth import Auth
from weakfeedback.serve.config import ConfigError, Settings, checked_learner, settle
from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.metrics import PREFIX
from weakfeedback.serve.models import (
    BeginRequest,
    CancelRequest,
    CostsRequest,
    DecideRequest,
    FeedbackRequest,
    Problem,
    TellRequest,
)
from weakfeedback.serve.proxy.calls import Server
from weakfeedback.serve.proxy.chat import Proxy
from weakfeedback.serve.proxy.decider import NextStage, Ruling, Spending, Unavailable
from weakfeedback.serve.proxy.dialect import Completions, Dialect
from weakfeedback.serve.proxy.messages import Messages
from weakfeedback.serve.proxy.prices import Tokens
from weakfeedback.serve.proxy.responses import Responses
from weakfeedback.serve.proxy.settings import ProxySettings
from weakfeedback.serve.proxy.upstream import Upstream, UpstreamSettings
from weakfeedback.serve.service import Service

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
UNABLE = (
    "store_unavailable",
    "learner_replaying",
    "starting",
    "standby",
    "stopping",
    "unknown_learner",
    "archived",
    "decision_open",
    "too_many_pending",
    "not_offered",
)
Serve = Callable[[Any, Any, Any], Awaitable[None]]
DIALECTS: dict[str, Callable[[], Dialect]] = {
    "/v1/chat/completions": Completions,
    "/v1/responses": Responses,
    "/v1/messages": Messages,
}
# what clients of these protocols may ask for, and get a sentence
SILENT = ("/v1/embeddings", "/v1/completions", "/v1/responses/{rest:path}", "/v1/messages/{rest:path}")
GOOD = ("ok", "cancelled")  # outcomes of upstream calls that are not errors of the upstream
ENDED = ("conflict", "expired", "cancelled", "forgotten", "unknown_decision")  # nothing is left to do


class ServiceDecider:
    """Decides with the learners of the service."""

    def __init__(self, service: Service, learners: Iterable[ProxySettings]) -> None:
        self._service = service
        self._settings = {settings.name: settings for settings in learners}
        self._places = {
            settings.name: {stage.name: k for k, stage in enumerate(settings.stages)}
            for settings in self._settings.values()
        }

    async def decide(
        self, learner: str, context: list[float] | None, key: str | None, group: str | None = None
    ) -> Ruling:
        """Decide which stages to call; a key that was seen before gets its earlier decision."""
        given = None if context is None and group is None else DecideRequest(context=context, group=group)
        found, commit = await self._asked(self._service.decide_ahead(learner, given, key))
        place = self._places[learner]
        call = tuple(place[name] for name in found["call"])
        waits = found["expires"] is not None and not found["repeated"]

        async def stored() -> None:
            await self._asked(commit())

        return Ruling(found["id"], call, found["stage"], found["repeated"], waits, stored)

    async def begin(self, learner: str, group: str | None = None) -> NextStage:
        """Begin a request of an adaptive learner."""
        found = await self._asked(self._service.begin(learner, BeginRequest(group=group)))
        return NextStage(found["id"], found["stage"])

    async def tell_failed(self, learner: str, id: int, stage: int) -> NextStage:
        """Tell that the requested stage gave no answer."""
        given = TellRequest(output=None, failed=True, stage=stage)
        found = await self._asked(self._service.tell(learner, id, given))
        if found is None:
            raise Unavailable(f"decision {id} has ended")
        return NextStage(id, found["stage"])

    async def unseen(self, learner: str, group: str | None) -> bool:
        """Count an answer that nobody can compare; whether it may go out."""
        return bool(await self._asked(self._service.unseen(learner, group)))

    def risk(self, learner: str, id: int) -> float | None:
        """Return the estimated risk of an answer, None where none is promised."""
        known = self._service.learners.get(learner)
        live: Any = None if known is None else known.live
        if live is None or getattr(live, "promised", None) is None or known is None or known.lock.locked():
            return None
        found: float | None = live.risk(id)
        return found

    async def tell(
        self, learner: str, id: int, stage: int, label: int, score: float | None, cost: float
    ) -> NextStage:
        """Tell the answer of the requested stage: its class of equal answers, its score and its price."""
        given = TellRequest(output=label, stage=stage, score=score, cost=cost)
        found = await self._asked(self._service.tell(learner, id, given))
        if found is None:
            raise Unavailable(f"decision {id} has ended")
        return NextStage(id, found["stage"])

    async def feedback(
        self,
        learner: str,
        id: int,
        differ: Sequence[tuple[int, int]],
        far: Sequence[float] | None,
        digest: str,
        spending: Spending,
        failed: Sequence[int] = (),
    ) -> None:
        """Report which pairs of stages differed, or the distances of all pairs of the call."""
        seen: dict[str, Any] = {"differ": [list(pair) for pair in differ]}
        if failed:
            seen["failed"] = list(failed)
        if far is not None:
            seen = {"distance": list(far)}
        if self._settings[learner].kind != "router":
            seen["costs"] = [cost for _, cost in sorted(spending.costs.items())]
        given = FeedbackRequest(**seen)
        extra = {"spent": spending.total, "tokens": list(spending.tokens)}
        await self._asked(self._service.feedback(learner, id, given, digest=digest, extra=extra))

    async def cancel(self, learner: str, id: int, spending: Spending, reason: str) -> None:
        """Cancel a decision; nothing is learned, and its cost counts as wasted."""
        await self._asked(
            self._service.cancel(learner, id, CancelRequest(cost=spending.total, reason=reason))
        )

    async def serve(self, learner: str, stage: int, spending: Spending) -> None:
        """Count a request that was answered without a decision of its own; its tokens are counted with its calls."""
        await self._asked(self._service.note(learner, "serve", {"stage": stage, "cost": spending.total}))

    async def bill(self, learner: str, bill: dict[str, Any]) -> None:
        """Store a bill."""
        await self._asked(self._service.note(learner, "bill", bill))

    def invoice(self, learner: str) -> Invoice:
        """Return the sums of all bills, or an empty invoice if they cannot be read now."""
        known = self._service.learners.get(learner)
        return Invoice(len(self._places[learner])) if known is None else known.invoice

    async def recost(self, learner: str, prices: list[float]) -> None:
        """Continue with new prices."""
        name = "prices" if self._settings[learner].kind == "router" else "stage_costs"
        await self._asked(self._service.recost(learner, CostsRequest(**{name: prices})))  # type: ignore[arg-type]

    def gain(self, learner: str, low: int, high: int) -> float:
        """Return what a request gains if a dearer stage answers instead of a cheaper one, as far as it differs."""
        try:
            live: Any = self._service.learner(learner).live
        except Problem as problem:
            raise Unavailable(problem.detail) from None
        counts, terms = live.core.view(lambda view: (view.counts, view.terms))
        share = (counts.differed[low, high] + 1.0) / (counts.compared[low, high] + 2.0)
        return float(share * terms.error_cost - (terms.prices[high] - terms.prices[low]))

    def settled(self, learner: str) -> int:
        """Return the stage that the learner trusts now."""
        try:
            live: Any = self._service.learner(learner).live
            return int(live.settled())
        except Problem as problem:
            raise Unavailable(problem.detail) from None
        except ValueError as error:  # the learner trusts no single stage
            raise Unavailable(str(error)) from None

    async def _asked(self, work: Awaitable[Any]) -> Any:
        try:
            return await work
        except Problem as problem:
            if problem.code in ENDED:
                return None
            if problem.code in UNABLE:
                raise Unavailable(problem.detail) from None
            if problem.code == "wrong_outputs":  # nothing can be learned from these answers
                raise ValueError(problem.detail) from None
            raise


class UpstreamMetrics:
    """Prometheus metrics of upstream calls; labels are configured names only."""

    def __init__(self, registry: CollectorRegistry, service: Service | None = None) -> None:
        self._service = service
        self._children: dict[Any, Any] = {}
        self._seconds = Histogram(
            f"{PREFIX}upstream_seconds",
            "What an upstream call took.",
            ("learner", "stage", "outcome"),
            buckets=SECONDS,
            registry=registry,
        )
        self._first = Histogram(
            f"{PREFIX}first_token_seconds",
            "Until the first token of a stream.",
            ("learner", "stage"),
            buckets=SECONDS,
            registry=registry,
        )
        self._tokens = Counter(
            f"{PREFIX}upstream_tokens",
            "Tokens of upstream calls.",
            ("learner", "stage", "kind"),
            registry=registry,
        )

    def called(
        self,
        learner: str,
        stage: str,
        outcome: str,
        seconds: float,
        first: float | None,
        tokens: Tokens | None,
    ) -> None:
        """Count a call that ended."""
        self._child(self._seconds, learner, stage, outcome).observe(seconds)
        if first is not None:
            self._child(self._first, learner, stage).observe(first)
        if tokens is not None:
            for kind, count in (
                ("input", tokens.input),
                ("cached", tokens.cached),
                ("output", tokens.output),
            ):
                if count:
                    self._child(self._tokens, learner, stage, kind).inc(count)
        if self._service is not None:
            self._note(self._service, learner, stage, outcome, seconds, first)

    def _child(self, family: Any, *labels: str) -> Any:
        known = self._children.get((family, labels))
        if known is None:
            known = self._children[family, labels] = family.labels(*labels)
        return known

    def _note(
        self,
        service: Service,
        name: str,
        stage: str,
        outcome: str,
        seconds: float,
        first: float | None,
    ) -> None:
        """Pass a call to the learner's observers that keep sums by minute."""
        learner = service.learners.get(name)
        if learner is None or stage not in learner.kind.names:
            return
        k, at = learner.kind.names.index(stage), service.options.clock()
        amounts = {f"calls_{k}": 1.0, f"seconds_{k}": seconds, f"errors_{k}": float(outcome not in GOOD)}
        if first is not None:
            amounts |= {f"streams_{k}": 1.0, f"first_{k}": first}
        for observer in learner.observers.values():
            note = getattr(observer, "note", None)
            if note is not None:
                for column, amount in amounts.items():
                    if amount:
                        note(at, column, amount)


class Guarded:
    """A route of the proxy: checks the token. A process that does not own the store refuses requests."""

    def __init__(
        self, serve: Serve, auth: Auth, path: str, scope: str, service: Service | None = None
    ) -> None:
        self._serve, self._auth, self._path, self._scope = serve, auth, path, scope
        self._service = service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        scope["weakfeedback.route"] = self._path
        await self._auth.check(scope, dict(scope["headers"]), self._scope, spends=self._scope == "use")
        state = self._service.state if self._service is not None else ""
        if state in ("starting", "standby"):
            raise Problem(state, f"the service is {state}", retry_after=1)
        await self._serve(scope, receive, send)


async def refuse(scope: Any, *_: Any) -> None:
    """Say that a path is not spoken."""
    words = f"{scope['path'][:64]} is not spoken here; there are {', '.join(DIALECTS)} and /v1/models"
    raise Problem("not_spoken", f"{words}: call the upstream itself")


def proxy_routes(proxy: Proxy, auth: Auth, service: Service | None = None) -> list[BaseRoute]:
    """Return the routes of the proxy, for `weakfeedback.serve.app.make_app`."""

    def spoken(dialect: Callable[[], Dialect]) -> Serve:
        return lambda scope, receive, send: proxy.answer(dialect(), scope, receive, send)

    table: list[tuple[str, Serve, list[str], str]]
    table = [(path, spoken(dialect), ["POST"], "use") for path, dialect in DIALECTS.items()]
    table += [(path, proxy.models, ["GET"], "read") for path in ("/v1/models", "/v1/models/{name}")]
    table += [(path, refuse, ["GET", "POST", "DELETE"], "use") for path in SILENT]
    return [
        Route(path, Guarded(serve, auth, path, scope, service), methods=methods, name=path)
        for path, serve, methods, scope in table
    ]


def make_proxy(
    service: Service,
    upstreams: Mapping[str, UpstreamSettings],
    learners: Sequence[ProxySettings],
    servers: Mapping[str, Server] | None = None,
) -> Proxy:
    """Return the proxy of a service; ValueError if a key is not in the environment.

    ``servers`` replace upstreams by servers in this process.
    """
    made: dict[str, Server] = {
        name: Upstream(settings, telemetry=service.telemetry) for name, settings in upstreams.items()
    }
    watch = UpstreamMetrics(service.metrics.registry, service)
    proxy = Proxy(learners, {**made, **(servers or {})}, ServiceDecider(service, learners), watch)
    service.when_owned_again(lambda: resume_learners(service, proxy))
    return proxy


async def prepare_learners(service: Service, proxy: Proxy, file: str = "") -> None:
    """Create the learners of a proxy, or continue with existing ones; ConfigError if one has another configuration.

    Changed prices in the file cause a ``recost``; if the file has not changed, measured prices are kept. Decisions
    that an earlier process left open are cancelled: nothing will answer them.
    """
    for settings in proxy.learners.values():
        given = settings.learner()
        known = service.learners.get(settings.name)
        name = "prices" if settings.kind == "router" else "stage_costs"
        if known is not None and known.config.model_dump().get(name) == given[name]:
            given[name] = known.settings()[name]
        config = checked_learner(f"{file}: learner {settings.name}", given)
        await settle(service, [(settings.name, config)], file)
        if service.learner(settings.name).invoice.terms != settings.terms():
            await service.note(settings.name, "terms", settings.terms())
        proxy.accept_prices(settings.name, given[name])
        for id in list(service.learner(settings.name).opened):
            await service.cancel(settings.name, id, CancelRequest(reason="restart"))


async def resume_learners(service: Service, proxy: Proxy) -> None:
    """Continue with a store that was lost: take its prices, and cancel decisions that nothing will answer.

    These are decisions that another owner left open, or that could not be ended here while there was no store.
    Requests in progress here keep their decisions.
    """
    left = []
    for name in proxy.learners:
        learner = service.learner(name)
        settings = learner.settings()
        proxy.accept_prices(name, settings.get("prices") or settings["stage_costs"])
        left += [(name, id) for id in learner.opened if not proxy.is_under_way(name, id)]
    await proxy.send_bills()
    for name, id in left:
        try:
            await service.cancel(name, id, CancelRequest(reason="restart"))
        except Problem as problem:
            if problem.code not in ENDED:
                raise


async def extend(service: Service, auth: Auth, settings: Settings) -> dict[str, Any]:
    """Return the routes of the proxy that a configuration describes, and how to close it."""
    try:
        proxy = make_proxy(service, settings.upstreams, settings.proxied)
    except ValueError as error:
        raise ConfigError(f"{settings.file}: {error}") from None
    await service.when_owned(lambda: prepare_learners(service, proxy, settings.file))
    return {
        "routes": proxy_routes(proxy, auth, service),
        "close": proxy.close,
        "models": list(proxy.learners),
    }
