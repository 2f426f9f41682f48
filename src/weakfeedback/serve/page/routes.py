"""The routes of the page: overview, learner, why, login, live updates, and static files."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from weakfeedback._version import __version__
from weakfeedback.live.promise_report import PromiseReport
from weakfeedback.plaintext import counted, visible
from weakfeedback.serve.activity import WATCHED, Activity
from weakfeedback.serve.api import Incoming, Operation, Outgoing
from weakfeedback.serve.app import read_body
from weakfeedback.serve.auth import COOKIE, LEVELS, LOOPBACK, SESSION, Auth
from weakfeedback.serve.kinds import billed_report
from weakfeedback.serve.learner import Learner
from weakfeedback.serve.models import Problem, SeriesAnswer
from weakfeedback.serve.openapi import document, sections
from weakfeedback.serve.operations.reporting import report_now
from weakfeedback.serve.page import view
from weakfeedback.serve.page.actions import actions_of
from weakfeedback.serve.page.bars import bars_of
from weakfeedback.serve.page.calling import calls_of, decide_command, next_command
from weakfeedback.serve.page.money import csv_of, invoice_of, plainly, totals
from weakfeedback.serve.page.promise import curve_of, groups_of, offers_of, promise_of, promises_in_words
from weakfeedback.serve.page.words import ago, amount, clock, count, duration, moment, number, share
from weakfeedback.serve.service import Service
from weakfeedback.serve.tokens import token_operations, tokens_told

PAGE = 100  # learners on one page
PERIOD = 0.5  # minimum seconds between updates
VIEWERS = 200  # live connections served at once
ASSUMED = 5.0  # seconds for which what takes a moment is not computed again
YOUNG = 20 * 60_000_000  # age in microseconds up to which a learner is young
ALARMS = 10  # learners that are named at the top
SPAN_WORDS = (("15m", "15 minutes"), ("1h", "1 hour"), ("1d", "1 day"), ("7d", "7 days"))
STATIC = Path(__file__).parent / "static"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".txt": "text/plain"}
HTML = "text/html; charset=utf-8"
LIVE_STATES = {
    "ready": "owns the store and answers",
    "starting": "is starting",
    "replaying": "reads its log",
    "standby": "waits for the store",
    "stopping": "is stopping",
}


def _shown(value: Any) -> Any:
    """Return a text without characters that hide or turn others; a name in an old store may hold some."""
    return visible(value, "\n") if type(value) is str else value


@cache
def templates(root: str = "") -> Environment:
    """Return the templates, with links below ``root``; every text is escaped, and an undefined name is an error."""
    made = Environment(
        loader=PackageLoader("weakfeedback.serve.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_shown,
    )
    made.globals |= {"root": root, "zip": zip}
    made.filters |= {"pretty": lambda data: json.dumps(data, indent=1), "price": plainly, "counted": counted}
    made.filters |= {one.__name__: one for one in (amount, count, duration, moment, number, share)}
    return made


@cache
def static_files() -> dict[str, tuple[str, bytes, bytes]]:
    """Return the files that pages need: content type, content and gzipped content."""
    found = {}
    for path in STATIC.iterdir():
        if path.suffix in KINDS:
            content = path.read_bytes()
            found[path.name] = (
                KINDS[path.suffix] + "; charset=utf-8",
                content,
                gzip.compress(content, 9, mtime=0),
            )
    return found


class Page:
    """Everything that the page shows of one service."""

    def __init__(
        self,
        service: Service,
        auth: Auth,
        described: Callable[[bool], dict[str, Any]],
        root: str = "",
    ) -> None:
        self.service, self.auth, self._described, self._root = service, auth, described, root
        self._kept: dict[tuple[str, str], tuple[Any, Any, float]] = {}  # valid until its key changes
        self._views: dict[tuple[str, str], tuple[Any, dict[str, Any]]] = {}
        self._rate = (time.monotonic(), service.commits, 0.0)
        self._viewers = 0
        self.address = "http://127.0.0.1:8470"  # as the last browser addressed it, for commands to copy

    # -- content

    def now(self) -> int:
        """Return the time in microseconds since 1970, by the clock of the service."""
        return self.service.options.clock()

    def _keep(
        self, what: str, learner: Learner, key: Any, make: Callable[[], Any], seconds: float = 0.0
    ) -> Any:
        """Return what was made of a learner; anew if ``key`` has changed, but not within ``seconds``."""
        # compare the object too: after a failed commit another one may have the same number of events
        # and its revision: stages that are gone must not be named
        known, key = self._kept.get((what, learner.name)), (learner, learner.revision, key)
        now = time.monotonic()
        fresh = known is not None and known[0][:2] == key[:2] and now - known[2] < seconds
        if known is None or (not fresh and known[0] != key):
            known = self._kept[what, learner.name] = key, make(), now
        return known[1]

    def _seldom(self, what: str, learner: Learner, make: Callable[[], Any]) -> Any:
        """Return what takes a moment to compute; anew after a change, but not every time."""
        return self._keep(what, learner, learner.seq, make, ASSUMED)

    def row(self, learner: Learner) -> tuple[dict[str, Any], str]:
        """Return the row of a learner, as data and as HTML; rebuilt only if something has changed."""
        now = self.now()
        key = learner.seq, now // 60_000_000
        found: tuple[dict[str, Any], str] = self._keep("row", learner, key, lambda: self._row(learner, now))
        return found

    def _row(self, learner: Learner, now: int) -> tuple[dict[str, Any], str]:
        watch = watch_of(learner)
        made = view.row(
            learner.name,
            watch,
            line=self._keep("line", learner, now // 60_000_000, lambda: view.spark(watch, now)),
            settled=self._settled_stage(learner),
            currency=learner.config.currency,
            archived=learner.archived,
            now=now,
            money=learner.money(),
            promise=self._promise(learner),
            risk=self._seldom("risk", learner, lambda: view.risk(watch)),
        )
        pieces: Any = templates(self._root).get_template("pieces.html").module
        return made, str(pieces.row(made))

    def _settled_stage(self, learner: Learner) -> int | None:
        """Return the stage at which a learner stops."""
        settled = getattr(learner.live, "settled", None)
        return None if settled is None else self._seldom("settled", learner, lambda: int(settled()))

    def _promise(self, learner: Learner) -> dict[str, Any] | None:
        """Return what a learner promises and how it is kept."""
        live: Any = learner.live
        if promised_of(learner) is None:
            return None
        found: dict[str, Any] = self._seldom(
            "promise", learner, lambda: self._told_promise(learner, live.report())
        )
        return found

    def _told_promise(self, learner: Learner, found: PromiseReport) -> dict[str, Any]:
        at = (
            None
            if found.risk_since is None
            else watch_of(learner).minute_of(found.requests - found.risk_since)
        )
        return promise_of(found, learner.config.currency, "" if at is None else clock(at, self.now()))

    def _offers(self, learner: Learner, report: PromiseReport) -> dict[str, Any] | None:
        """Return what other promises would cost; their curve is computed anew after each fit."""
        policy = learner.live.policy
        key = int(policy.next_fit), report.settings["agree"]
        curve = self._keep("curve", learner, key, lambda: curve_of(report, policy))
        return offers_of(report, curve, float(policy.c[policy.R]), learner.kind.names)

    def chosen(self, q: str, page: int) -> tuple[list[Learner], int]:
        """Return the learners of one page of the overview, and the total number."""
        names = sorted(name for name in self.service.learners if q in name)
        first = (page - 1) * PAGE
        return [self.service.learners[name] for name in names[first : first + PAGE]], len(names)

    def status(self) -> dict[str, Any]:
        """Return what is shown above the overview."""
        service, now = self.service, self.now()
        since, commits, rate = self._rate
        passed = time.monotonic() - since
        if passed >= 1.0:
            rate = (service.commits - commits) / passed
            self._rate = time.monotonic(), service.commits, rate
        alarmed = [
            name for name, one in sorted(service.learners.items()) if view.alarms_of(watch_of(one), now)
        ]
        snapshot = service.last_snapshot
        return {
            "at_risk": [(name, promise["note"]) for name, promise in self._kept_or_not() if promise["risk"]],
            "ready": service.state == "ready",
            "state": service.state,
            "shared": service.sharing is not None,
            "state_words": LIVE_STATES.get(service.state, "")
            if service.sharing is None
            else service.sharing.words(),
            "full": service.options.durability == "full",
            "learners": len(service.learners),
            "commits": f"{rate:.1f}",
            "snapshot": "none yet" if snapshot is None else ago(int(snapshot * 1e6)),
            "kept_out": [*service.kept_out.reasons()][:ALARMS],
            "more_kept_out": max(0, len(service.kept_out) - ALARMS),
            "alarms": alarmed[:ALARMS],
            "more_alarms": max(0, len(alarmed) - ALARMS),
        }

    async def stored(self, learners: Iterable[Learner]) -> None:
        """Wait until everything that these learners show is in the store."""
        for learner in learners:
            await self.service.steps.confirm(learner, None)

    async def learner(self, name: str, span: str) -> dict[str, Any]:
        """Return everything about one learner, once it is stored."""
        learner = self.service.learner(name)
        now = self.now()
        key = learner, learner.seq, now // (view.SPANS[span][1] * 1_000_000)
        known = self._views.get((name, span))
        if known is not None and known[0] == key:
            return known[1]
        async with learner.lock:
            report = report_now(learner)
            made = self._view(learner, report, span, now)
        await self.service.steps.confirm(learner, None)
        if len(self._views) > VIEWERS:
            self._views.clear()
        self._views[name, span] = key, made
        return made

    def usual_span(self, name: str) -> str:
        """Return the default time span of the charts, a short one for a young learner."""
        young = self.now() - self.service.learner(name).created < YOUNG
        return "15m" if young else "1h"

    def _view(self, learner: Learner, report: dict[str, Any], span: str, now: int) -> dict[str, Any]:
        watch, kind = watch_of(learner), learner.kind.name
        config = learner.settings()
        charts = view.charts(report, watch, span, now, learner.created)
        promised = None
        if promised_of(learner) is not None:
            promised = billed_report(learner.live, learner.invoice)
        summary = view.summary(report, watch, learner.invoice, now, promised)
        warning = learner.warning()
        if warning is not None:
            summary["trust"] = [{"state": "bad", "text": warning}, *summary["trust"]]
        return {
            "name": learner.name,
            "kind": kind,
            "kind_words": view.KINDS[kind],
            "archived": learner.archived,
            "paused": learner.paused,
            "shadow": bool(config.get("shadow")),
            "revision": learner.revision,
            "currency": report["currency"],
            "report": report,
            "names": watch.names,
            "base": watch.baseline,
            "decided": watch.decided,
            "stops": list(watch.stops),
            "shares": view.shares_of(watch),
            "prices": list(watch.prices),
            "summary": summary,
            "invoice": invoice_of(learner.invoice, report["currency"]),
            "since": moment(learner.created)[:16],
            "bars": None if kind == "allocation" else bars_of(watch, *view.SPANS[span], now, learner.created),
            "numbers": view.numbers(report, watch, now),
            "pairs": view.pairs(report, watch),
            "waiting": view.waiting(watch, now),
            "expires": learner.config.pending_ttl,
            "drift": view.drift(watch),
            "drift_words": view.DRIFT + view.CHANGING["promise" if promised else kind]
            if kind in WATCHED
            else view.NOT_WATCHED,
            "watched": kind in WATCHED and report.get("promise") is None,
            "recent": view.recent(
                watch,
                now,
                hasattr(learner.live, "explain"),
                None if promised is None else cast(Any, learner.live).risk,
            ),
            "proxy": view.proxy(learner.invoice),
            "audited": kind in WATCHED
            and hasattr(learner.live, "audit_outputs")
            and report.get("promise") is None,
            "audits": _audits(learner, watch),
            "weak_dominance": report.get("weak_dominance"),
            "context": _context(kind, report["details"], learner.live),
            "config": _config(config, report["policy"], learner.created),
            "decide_command": decide_command(self.address, learner.name, kind),
            "calls": calls_of(
                learner.name,
                kind,
                watch.names,
                self.address,
                chat=learner.name in self.service.models,
                token=bool(self.auth.tokens),
            ),
            "next": "" if learner.archived else next_command(learner.name, watch, self.address),
            "promise": None if promised is None else self._told_promise(learner, promised),
            "offers": None if promised is None else self._offers(learner, promised),
            "groups": None if promised is None else groups_of(promised, report["currency"]),
            "actions": actions_of(learner, chat=learner.name in self.service.models),
            "charts": charts,
        }

    # -- requests

    def _read(
        self, show: Callable[[Request], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return a page for those who may read; others log in first, and a problem is a page too."""

        async def shown(request: Request) -> Response:
            try:
                await self.auth.check(request.scope, request.scope["weakfeedback.headers"], "read")
            except Problem as problem:
                if problem.code != "unauthorized":
                    raise
                return RedirectResponse(f"{self._root}/login?" + urlencode({"next": request.url.path}), 303)
            try:
                return await show(request)
            except Problem as problem:
                told = {"title": problem.title, "detail": problem.detail}
                return self.render(request, "problem.html", problem.status, **told)

        return shown

    def render(self, request: Request, template: str, code: int = 200, /, **values: Any) -> Response:
        """Return a page, gzipped if the browser accepts that."""
        cookie = request.cookies.get(COOKIE)
        logout = bool(self.auth.tokens) and cookie is not None
        level = self.auth.level(request.scope["weakfeedback.headers"]) or 0
        values = {
            "here": "",
            "version": __version__,
            "logout": logout,
            "may": level >= LEVELS["admin"],
            "form": self.auth.form_of(cookie) if cookie is not None else "",
            **values,
        }
        text = templates(self._root).get_template(template).render(values)
        return packed(request, text.encode(), HTML, code)

    async def overview(self, request: Request) -> Response:
        """Show all learners."""
        q, page = _chosen(request)
        self.service.check_ready()  # while the log is being read there would seem to be no learners
        learners, found = self.chosen(q, page)
        rows = [self.row(learner)[0] for learner in learners]
        await self.stored(learners)
        return self.render(
            request,
            "overview.html",
            here="overview",
            tokens=tokens_told(self.auth),
            status=self.status(),
            sums=self.totals(),
            rows=rows,
            total=len(self.service.learners),
            found=found,
            q=q,
            page=page,
            pages=-(-found // PAGE),
            first=(page - 1) * PAGE + 1,
            last=(page - 1) * PAGE + len(rows),
            query=urlencode({"q": q, "page": page}),
            address=f"{request.url.scheme}://{request.url.netloc}{self._root}",
        )

    async def one(self, request: Request) -> Response:
        """Show one learner."""
        name = request.path_params["name"]
        self.address = f"{request.url.scheme}://{request.url.netloc}{self._root}"
        span = _span(request) or self.usual_span(name)
        made = await self.learner(name, span)
        charts, table = made["charts"], view.table_of(made["charts"])
        return self.render(
            request, "learner.html", v=made, span=span, spans=SPAN_WORDS, charts=charts, table=table
        )

    async def why(self, request: Request) -> Response:
        """Explain a decision."""
        name, id = request.path_params["name"], _number(request.path_params["id"])
        text = (await self.service.explain(name, id))["text"]
        state = await self.service.decision(name, id)
        shown = [
            (key, value) for key, value in state.items() if value is not None and key not in ("id", "call")
        ]
        return self.render(request, "decision.html", name=name, id=id, lines=text.splitlines(), state=shown)

    async def invoice(self, request: Request) -> Response:
        """Send the invoice of a learner as a table for a spreadsheet."""
        name = request.path_params["name"]
        learner = self.service.learner(name)
        if learner.invoice.terms is None:
            raise Problem("not_offered", f"learner {name} calls no model through the proxy: no invoice")
        text = csv_of(learner.invoice, learner.config.currency)
        await self.service.steps.confirm(learner, None)
        headers = {"content-disposition": f'attachment; filename="{name}-invoice.csv"'}
        return Response(text, headers=headers, media_type="text/csv; charset=utf-8")

    async def docs(self, request: Request) -> Response:
        """Show the documentation of the API."""
        made = self._described(bool(self.service.models))
        return self.render(request, "docs.html", here="docs", doc=made, sections=sections(made))

    async def login(self, request: Request) -> Response:
        """Ask for a token; set the cookie if the token is valid."""
        if request.method == "GET":
            after = _inside(request.query_params.get("next", "/"))
            return self.render(request, "login.html", wrong=False, next=after)
        headers = request.scope["weakfeedback.headers"]
        body = await read_body(request.receive, headers, 4096)
        try:
            form = parse_qs(body.decode("latin-1"), max_num_fields=4, keep_blank_values=True)
        except ValueError:
            raise Problem("bad_request", "the form has too many fields") from None
        token = form.get("token", [""])[0].strip()
        after = _inside(form.get("next", ["/"])[0])
        value = self.auth.session(token) if token else None
        if value is None:
            await self.auth.fail(request.scope, headers)
            return self.render(request, "login.html", 401, wrong=True, next=after)
        answer = RedirectResponse(self._root + after, 303)
        secure = (request.url.hostname or "") not in LOOPBACK
        path = self._root or "/"
        answer.set_cookie(COOKIE, value, SESSION, path=path, httponly=True, samesite="strict", secure=secure)
        return answer

    async def logout(self, request: Request) -> Response:
        """Delete the cookie."""
        answer = RedirectResponse(f"{self._root}/login", 303)
        answer.delete_cookie(COOKIE, path=self._root or "/")
        return answer

    async def static(self, request: Request) -> Response:
        """Send a file that pages need."""
        found = static_files().get(request.path_params["file"])
        if found is None:
            raise Problem("not_found", "no such file")
        kind, content, small = found
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(
                small, headers={"content-encoding": "gzip", "vary": "accept-encoding"}, media_type=kind
            )
        return Response(content, headers={"vary": "accept-encoding"}, media_type=kind)

    # -- live updates

    async def live(self, request: Request) -> Response:
        """Stream the changed rows of the overview, at most twice a second."""
        await self.auth.check(request.scope, request.scope["weakfeedback.headers"], "read")
        q, page = _chosen(request)
        sent: dict[str, str] = {}

        async def news() -> dict[str, Any]:
            learners, _ = self.chosen(q, page)
            pieces = self.overview_pieces(learners)
            await self.stored(learners)
            changed = {id: html for id, html in pieces.items() if sent.get(id) != html}
            sent.update(changed)
            return {"pieces": changed} if changed else {}

        return self._stream(news)

    def overview_pieces(self, learners: Iterable[Learner]) -> dict[str, str]:
        """Return the pieces of the overview, by their places in the page."""
        pieces = {f"row-{learner.name}": self.row(learner)[1] for learner in learners}
        module: Any = templates(self._root).get_template("pieces.html").module
        status = self.status()
        pieces["status"], pieces["alarms"] = str(module.status(status)), str(module.alarms(status))
        sums = self.totals()
        pieces["say"], pieces["total"] = str(module.say_all(sums)), str(module.total(sums))
        return pieces

    def totals(self) -> dict[str, Any] | None:
        """Return the money of all learners together."""
        found = []
        for learner in self.service.learners.values():
            watch = watch_of(learner)
            money = learner.money()
            if money is not None and watch.decided:
                found.append((learner.config.currency or "", *money))
        sums = totals(found)
        if sums is not None:
            sums["promises"] = promises_in_words([one for _, one in self._kept_or_not()])
        return sums

    def _kept_or_not(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the promises of learners that are not archived, by name; none where they are too many to look at."""
        learners = [one for one in self.service.learners.values() if not one.archived and promised_of(one)]
        found = [(one.name, self._promise(one)) for one in (learners if len(learners) <= PAGE else ())]
        return sorted((name, one) for name, one in found if one is not None)

    async def live_learner(self, request: Request) -> Response:
        """Stream the changes of a learner, at most twice a second."""
        request.scope["weakfeedback.route"] = "/v1/learners/{name}/live"
        await self.auth.check(request.scope, request.scope["weakfeedback.headers"], "read")
        name = request.path_params["name"]
        span = _span(request) or self.usual_span(name)
        sent: dict[str, Any] = {}

        async def news() -> dict[str, Any]:
            made = await self.learner(name, span)
            if sent.get("view") is made:
                return {}
            sent["view"] = made
            pieces = learner_pieces(made, self._root)
            changed = {id: html for id, html in pieces.items() if sent.get(id) != html}
            sent.update(changed)
            return {"pieces": changed, "charts": made["charts"]}

        return self._stream(news)

    def _stream(self, news: Callable[[], Awaitable[dict[str, Any]]]) -> Response:
        if self._viewers >= VIEWERS:
            raise Problem("too_many_requests", f"{VIEWERS} pages are open already", retry_after=10)
        return StreamingResponse(
            self._updates(news),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def _updates(self, news: Callable[[], Awaitable[dict[str, Any]]]) -> AsyncIterator[bytes]:
        """Yield server-sent events until the page or the service ends; regular comments detect closed connections."""
        self._viewers += 1
        quiet = 0
        try:
            yield b"retry: 2000\n\n"
            while not self._ending():
                try:
                    found = await news() if self.service.state == "ready" else {}
                except Problem:
                    found = {}  # the store is temporarily unavailable
                if found:
                    yield b"data: " + json.dumps(found, separators=(",", ":")).encode() + b"\n\n"
                    quiet = 0
                elif (quiet := quiet + 1) >= 30:
                    yield b": still here\n\n"
                    quiet = 0
                await asyncio.sleep(PERIOD)
        finally:
            self._viewers -= 1

    def _ending(self) -> bool:
        return self.service.draining or self.service.state in ("stopping", "stopped")

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the page."""
        return [
            Route("/", self._read(self.overview), name="page"),
            Route("/live", self.live, name="page live"),
            Route("/learners/{name}", self._read(self.one), name="page of a learner"),
            Route("/learners/{name}/invoice.csv", self._read(self.invoice), name="invoice of a learner"),
            Route("/learners/{name}/decisions/{id}", self._read(self.why), name="page of a decision"),
            Route("/v1/learners/{name}/live", self.live_learner, name="live"),
            Route("/docs", self.docs, name="page of the API"),
            Route("/login", self.login, methods=["GET", "POST"], name="login"),
            Route("/logout", self.logout, methods=["POST"], name="logout"),
            Route("/static/{file}", self.static, name="static"),
        ]


def learner_pieces(made: dict[str, Any], root: str = "") -> dict[str, str]:
    """Return the pieces of a learner's page, by their places in the page."""
    module: Any = templates(root).get_template("pieces.html").module
    wanted = ["badges", "summary", "trust", "numbers", "waiting", "recent", "proxy"]
    wanted += ["arms"] if made["kind"] == "allocation" else ["stages", "pairs", "drift", "bars", "invoice"]
    wanted += ["groups", "offers"] if made["kind"] in ("router", "adaptive") else []
    wanted += ["audits"] if made["audited"] or made["weak_dominance"] else []
    if made["context"]:
        wanted.append("context")
    return {name: str(getattr(module, name)(made)) for name in wanted}


def page_of(service: Service, auth: Auth, settings: Any = None) -> dict[str, Any]:
    """Return the operations and routes that the page adds to a service."""
    from weakfeedback.serve.api import OPERATIONS

    root = "" if settings is None else settings.root_path
    extra = [
        Operation(
            "GET",
            "/v1/learners/{name}/series",
            "read",
            series,
            "Read sums by minute, or by steps of whole minutes; times are seconds since 1970.",
            answer=SeriesAnswer,
            problems=("unknown_learner",),
            query={"from": 0, "to": 0, "step": 60},
        ),
        *token_operations(auth, settings),
    ]

    @functools.cache  # it takes as long as hundreds of decisions
    def described(chat: bool) -> dict[str, Any]:
        return document([*OPERATIONS, *extra], chat=chat, root=root)

    async def openapi(_: Incoming) -> Outgoing:
        return Outgoing(described(bool(service.models)))

    extra.append(Operation("GET", "/openapi.json", "none", openapi, "Describe all routes: this document."))
    page = Page(service, auth, described, root)
    return {"operations": extra, "routes": page.routes()}


async def series(call: Incoming) -> Outgoing:
    """Sums by minute."""
    learner = call.service.learner(call.name)
    asked = call.asked(**{"from": 0, "to": 0, "step": 60})
    end = asked["to"] or call.service.options.clock() // 1_000_000 + 1
    start = asked["from"] or end - 3600
    try:
        read = watch_of(learner).read(start, end, asked["step"])
    except ValueError as error:
        raise Problem("invalid", str(error), field="step") from None
    return Outgoing(await call.service.steps.confirm(learner, read))


def promised_of(learner: Learner) -> Any:
    """Return the promise of a learner; None if it has none."""
    return getattr(learner.core.terms, "promise", None)


def watch_of(learner: Learner) -> Activity:
    """Return the watch of a learner."""
    return cast(Activity, learner.observers["watch"])


def packed(request: Request, content: bytes, kind: str, status: int = 200) -> Response:
    """Return a response, gzipped if the browser accepts that."""
    headers = {"vary": "accept-encoding"}
    if len(content) > 1000 and "gzip" in request.headers.get("accept-encoding", ""):
        content = gzip.compress(content, 5, mtime=0)
        headers["content-encoding"] = "gzip"
    return Response(content, status, headers, kind)


def _chosen(request: Request) -> tuple[str, int]:
    text = request.query_params.get("page", "1")
    page = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1
    return request.query_params.get("q", "")[:64].strip().lower(), max(1, page)


def _span(request: Request) -> str:
    span = request.query_params.get("span", "")
    return span if span in view.SPANS else ""


def _number(text: str) -> int:
    """Return the id in a text, or 0, which no decision has."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else 0


def _inside(target: str) -> str:
    """Return a path of this service for a redirection; never another host."""
    good = target.startswith("/") and not target.startswith("//") and "\\" not in target
    return target if good and target.isprintable() else "/"


def _config(config: dict[str, Any], policy: str, created: int) -> list[tuple[str, str]]:
    shown = [("policy", policy), ("made (UTC)", moment(created))]
    for key, value in config.items():
        if key in ("policy", "kind") or value in (None, {}, ""):
            continue
        if key == "pending_ttl":
            key, text = "expires after", duration(value)
        elif key == "compare":
            text = value["type"] + "".join(
                f", {name} {item}" for name, item in value.items() if name != "type"
            )
        elif isinstance(value, list):
            text = ", ".join(amount(item) if isinstance(item, float) else str(item) for item in value)
        elif isinstance(value, dict):
            text = ", ".join(f"{name} {item}" for name, item in value.items())
        else:
            text = (
                {True: "yes", False: "no"}.get(value, str(value)) if isinstance(value, bool) else str(value)
            )
        shown.append((key.replace("_", " "), text))
    return shown


def _audits(learner: Learner, watch: Activity) -> list[tuple[int | None, dict[str, Any]]]:
    """Return the last audits, newest first, each with its time."""
    at = {one["audit"]: one["at"] for one in watch.audits if "audit" in one}
    return [(at.get(number), dict(audit)) for number, audit in reversed(learner.audits.items())][:20]


def _context(kind: str, details: dict[str, Any], live: Any) -> list[tuple[str, str]]:
    """Return what a contextual learner knows: how much it has seen, and how large its coefficients are."""
    if kind != "contextual":
        return []
    policy = live.policy
    shown = [
        ("numbers per request", count(details["inputs"])),
        ("features made of them", count(details["features"])),
        ("first rounds", "over" if details["learning"] else "still going to the last stage"),
        ("observations kept", count(details["kept"])),
        ("older ones as a quadratic", count(details["let_go"])),
    ]
    theta = getattr(policy, "theta", None)
    if theta is not None:
        norm = float((theta**2).sum()) ** 0.5
        shown.append(("norm of the coefficients", f"{norm:.3g}"))
    refits = getattr(policy, "refits", None)
    if isinstance(refits, int):
        shown.append(("refits", count(refits)))
    return shown
