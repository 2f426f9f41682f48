"""The proxy as a part of the service: its routes and its learners."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.routing import BaseRoute, Route

from weakfeedback.serve.api import read_json
from weakfeedback.serve.app import read_body
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.config import ConfigError, Settings, checked_learner, settle
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.models import (
    CancelRequest,
    ModelsRequest,
    Problem,
    Replacement,
)
from weakfeedback.serve.passing import again
from weakfeedback.serve.proxy.accounts import UpstreamMetrics
from weakfeedback.serve.proxy.bills import TakesBills
from weakfeedback.serve.proxy.calls import Server
from weakfeedback.serve.proxy.chat import LARGEST, Proxy
from weakfeedback.serve.proxy.decider import BILLS, ENDED, Decider
from weakfeedback.serve.proxy.dialect import Dialect
from weakfeedback.serve.proxy.messages import Messages
from weakfeedback.serve.proxy.request import learner_of
from weakfeedback.serve.proxy.responses import Responses
from weakfeedback.serve.proxy.settings import ProxySettings
from weakfeedback.serve.proxy.upstream import Upstream, UpstreamSettings
from weakfeedback.serve.service import Service
from weakfeedback.serve.usage import Accounts
from weakfeedback.validate import brief

TOGETHER = 200  # decisions that are cancelled in one commit
Serve = Callable[[Any, Any, Any], Awaitable[None]]
DIALECTS: dict[str, Callable[[], Dialect]] = {
    "/v1/chat/completions": Dialect,
    "/v1/responses": Responses,
    "/v1/messages": Messages,
}
# what clients of these protocols may ask for, and get a sentence
UNSPOKEN = ("audio", "batches", "completions", "embeddings", "files", "fine_tuning", "images", "moderations")
SILENT = [f"/v1/{path}" for path in UNSPOKEN] + [f"/v1/{path}/{{rest:path}}" for path in UNSPOKEN]
SILENT += ["/v1/responses/{rest:path}", "/v1/messages/{rest:path}"]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A route of the proxy: checks the token. A process that does not own the store refuses requests."""

    serve: Serve
    auth: Auth
    path: str
    scope: str
    service: Service | None = None
    shared: Callable[..., Awaitable[Any]] | None = (
        None  # lets another instance answer, if it owns the learner
    )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        scope["weakfeedback.route"] = self.path
        headers = dict(scope["headers"])
        if self.shared is not None and self.auth.level(headers) is not None:  # else it is refused here
            receive = await self.shared(scope, receive, send, headers)
            if receive is None:
                return
        await self.auth.check(scope, headers, self.scope, spends=self.scope == "use")
        state = self.service.state if self.service is not None else ""
        if state in ("starting", "standby"):
            raise Problem(state, f"the service is {state}", retry_after=1)
        await self.serve(scope, receive, send)


async def refuse(scope: Any, *_: Any) -> None:
    """Say that a path is not spoken."""
    words = f"{scope['path'][:64]} is not spoken here; there are {', '.join(DIALECTS)} and /v1/models"
    raise Problem("not_spoken", f"{words}: call the upstream itself")


def proxy_routes(proxy: Proxy, auth: Auth, service: Service | None = None) -> list[BaseRoute]:
    """Return the routes of the proxy, for `weakfeedback.serve.app.make_app`."""

    async def to_owner(scope: Any, receive: Any, send: Any, headers: dict[bytes, bytes]) -> Any:
        raw = await read_body(receive, headers, LARGEST)
        given = read_json(raw, headers)
        settings, _ = learner_of(given.get("model") if isinstance(given, dict) else None, proxy.learners)
        passing = scope["weakfeedback.passing"]
        try:
            if not goes_on(settings, scope):
                return await passing.pass_on(settings.name, scope, receive, send, raw, watch=True)
        except Problem as problem:
            if problem.code != "moving" or not goes_on(settings, scope):
                raise
        return again(raw, receive)  # without the store, as an instance that shares it with nobody

    def goes_on(settings: ProxySettings, scope: Any) -> bool:
        away = service is not None and service.state == "replaying"
        return away and settings.fail_open and not scope["weakfeedback.passed"]

    def spoken(dialect: Callable[[], Dialect]) -> Serve:
        return lambda scope, receive, send: proxy.answer(dialect(), scope, receive, send)

    shared = service is not None and service.sharing is not None
    table: list[tuple[str, Serve, list[str], str]]
    table = [(path, spoken(dialect), ["POST"], "use") for path, dialect in DIALECTS.items()]
    table += [(path, proxy.models, ["GET"], "read") for path in ("/v1/models", "/v1/models/{name:path}")]
    table += [(path, refuse, ["GET", "POST", "DELETE"], "use") for path in SILENT]
    between: list[BaseRoute] = []
    if service is not None and service.sharing is not None:
        between.append(Route(BILLS, TakesBills(service), methods=["POST"]))
    return between + [
        Route(
            path,
            Guarded(serve, auth, path, scope, service, to_owner if shared and path in DIALECTS else None),
            methods=methods,
            name=path,
        )
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
    proxy = Proxy(learners, {**made, **(servers or {})}, Decider(service, learners), watch)
    service.when_owned_again(lambda: resume_learners(service, proxy))
    return proxy


async def prepare_learners(service: Service, proxy: Proxy, file: str = "") -> None:
    """Create the learners of a proxy, or continue with existing ones; ConfigError if one has another configuration.

    Changed prices in the file cause a ``recost``; if the file has not changed, measured prices are kept. Decisions
    that an earlier process left open are cancelled: nothing will answer them.
    """
    for settings in proxy.learners.values():
        if not service.is_arriving(settings.name):
            continue
        given = settings.learner()
        known = service.learners.get(settings.name)
        name = "prices" if settings.kind == "router" else "stage_costs"
        if known is not None and known.kind.name == settings.kind:
            given[name] = _measured(known, name, [stage.name for stage in settings.stages], given[name])
        config = checked_learner(f"{file}: learner {settings.name}", given)
        await settle(service, [(settings.name, config)], file)
        terms = service.learner(settings.name).invoice.terms
        before, now = (terms or {}).get("compare"), settings.terms().get("compare")
        if before is not None and before != now:
            raise ConfigError(
                f"{file}: learner {settings.name}: compare was {brief(before)}: other answers would be the same, which "
                "needs a new certificate; use another name"
            )
        await _replace_models(service, settings)
        if terms != settings.terms():
            await service.note(settings.name, "terms", settings.terms())
        proxy.accept_prices(settings.name, given[name])
        await _end_left(service, proxy, settings.name)
    await proxy.bills.send()


def _measured(known: Learner, field: str, names: list[str], stated: list[float]) -> list[float]:
    """Return the measured prices of stages whose stated ones are as before, unless they would not rise."""
    born = dict(zip(known.kind.names, getattr(known.config, field)))
    if any(born.get(name, price) != price for name, price in zip(names, stated)):
        return stated
    now = dict(zip(known.kind.names, known.settings()[field]))
    found = [now.get(name, price) for name, price in zip(names, stated)]
    return found if field != "prices" or found == sorted(found) else stated


async def _replace_models(service: Service, settings: ProxySettings) -> None:
    """Forget what is known of a stage behind whose name there is another model than before."""
    before = service.learner(settings.name).invoice.terms
    if settings.kind != "router" or before is None:
        return
    known = {one["name"]: one["model"] for one in before["models"]}
    for stage in settings.stages:
        if known.get(stage.name, stage.model) != stage.model:
            change = ModelsRequest(replace=Replacement(model=stage.name))
            await service.change_models(settings.name, change)


async def resume_learners(service: Service, proxy: Proxy) -> None:
    """Continue with a store that was lost: take its prices, and cancel decisions that nothing will answer.

    These are decisions that another owner left open, or that could not be ended here while there was no store.
    Requests in progress here keep their decisions.
    """
    served = [name for name in proxy.learners if name not in service.kept_out]
    for name in served:
        settings = service.learner(name).settings()
        proxy.accept_prices(name, settings.get("prices") or settings["stage_costs"])
    await proxy.bills.send()
    for name in served:
        await _end_left(service, proxy, name)


async def _end_left(service: Service, proxy: Proxy, name: str) -> None:
    """Cancel the decisions of a learner that no request in progress here will end."""

    async def end(id: int) -> None:
        if proxy.is_under_way(name, id):
            return
        try:
            await service.cancel(name, id, CancelRequest(reason="restart"))
        except Problem as problem:
            if problem.code not in ENDED:
                raise

    opened = list(service.learner(name).opened)
    for start in range(0, len(opened), TOGETHER):
        await asyncio.gather(*map(end, opened[start : start + TOGETHER]))


async def extend(service: Service, auth: Auth, settings: Settings) -> dict[str, Any]:
    """Return the routes of the proxy that a configuration describes, and how to close it."""
    try:
        proxy = make_proxy(service, settings.upstreams, settings.proxied)
    except ValueError as error:
        raise ConfigError(f"{settings.file}: {error}") from None
    if service.sharing is not None:
        service.sharing.finish.append(proxy.finish)
    await service.when_owned(lambda: prepare_learners(service, proxy, settings.file))
    accounts = auth.usage.accounts = Accounts(service, list(proxy.learners), proxy.bills.owed)
    if service.sharing is not None:
        await accounts.look()  # before anything is served
        service.spawn(accounts.watch())
    return {
        "routes": proxy_routes(proxy, auth, service),
        "close": proxy.close,
        "models": list(proxy.learners),
    }
