"""A fake upstream and a proxy in front of it, both real servers on loopback, in one thread beside the tests."""

import asyncio
import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import orjson
import uvicorn
from starlette.applications import Starlette
from tests.rig.fake import FakeUpstream
from tests.rig.processes import PATIENCE, wait_until

from weakfeedback import Cascade, Router
from weakfeedback.serve.app import Gate
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.invoice import Invoice
from weakfeedback.serve.proxy.chat import Proxy
from weakfeedback.serve.proxy.decider import NextStage, Ruling, Unavailable
from weakfeedback.serve.proxy.fake import FakeModel
from weakfeedback.serve.proxy.mount import proxy_routes
from weakfeedback.serve.proxy.settings import read_proxied, read_upstreams
from weakfeedback.serve.proxy.upstream import Upstream

KEY = "test-key-of-the-upstream"
NOBODY = 9  # a port where nobody listens, unlike one that was free a moment ago
MODELS = {
    "small-7b": FakeModel("small-7b", 0.8, tokens=20),
    "medium-2": FakeModel("medium-2", 0.93, tokens=20),
    "large-5": FakeModel("large-5", 0.97, tokens=20),
}


LONG = dict.fromkeys(("connect", "first_byte", "chunk", "total"), PATIENCE)  # for what must arrive


def stage(name, model, price, **more):
    return {
        "name": name,
        "upstream": "fake",
        "model": model,
        "price": {"input": 0.0, "output": price},
        "expect": {"input": 4, "output": 20},
        **more,
    }


def learner(name="support", **more):
    """The table of a learner with three stages that cost 0.001, 0.02 and 0.15 of an error."""
    return {
        "name": name,
        "kind": "router",
        "error_cost": 1.0,
        "compare": {"type": "number", "scale": 1e-9},
        "stage": [
            stage("small", "small-7b", 50.0),
            stage("medium", "medium-2", 1000.0),
            stage("large", "large-5", 7500.0),
        ],
        **more,
    }


class LocalDecider:
    """Decides with live objects in memory, and notes everything that it is told."""

    def __init__(self, proxied):
        self.objects, self.told, self.off = {}, [], False
        self.forced = None  # a call that is decided instead of the learner's
        self.keys = {}
        self.trusted = None  # a model that is trusted instead
        self.invoices = {}
        for settings in proxied:
            metric = (lambda a, b: 0.0) if settings.compare.metric else None
            self.invoices[settings.name] = invoice = Invoice(len(settings.stages))
            invoice.agree(settings.terms(), 0)
            count, prices, error = len(settings.stages), settings.prices(), settings.error_cost
            if settings.kind == "router":
                made = Router(count, prices, error, metric=metric, seed=0)
            else:
                made = Cascade(count, prices, error, metric=metric, seed=0)
            self.objects[settings.name] = made

    def _check(self):
        if self.off:
            raise Unavailable("the store cannot be written now")

    async def decide(self, name, key, told):
        self._check()
        talk = {one: told[one] for one in ("conversation", "switching") if one in told}
        if key is not None and key in self.keys:
            old = self.keys[key]
            return Ruling(old.id, old.call, old.answer, repeated=True, open=False)
        found = self.objects[name].decide(**talk)
        call = found.call if hasattr(found, "call") else tuple(range(found.arm + 1))
        if self.forced is not None:
            self.told.append(("forced", found.id))
            call = self.forced
        turn = getattr(found, "turn", None)
        ruling = Ruling(found.id, call, call[-1], open=len(call) > 1, turn=turn)
        self.keys[key] = ruling
        self.told.append(("decide", ruling.id, ruling.call, told.get("context")))
        return ruling

    async def feedback(self, name, id, differ, far, digest, spending, failed=()):
        self._check()
        self.told.append(("feedback", id, list(differ), far, spending))
        if self.forced is None:
            self.objects[name].feedback_pairs(id, differ, far=far, digest=digest)

    async def cancel(self, name, id, spending, reason):
        self._check()
        self.told.append(("cancel", id, spending, reason))
        if self.forced is None:
            self.objects[name].cancel(id, spending.total)

    async def serve(self, name, stage, spending):
        self._check()
        self.told.append(("serve", stage, spending))

    async def bill(self, name, bill, key, again=False):
        self._check()
        self.invoices[name].add(orjson.loads(orjson.dumps(bill)))

    def invoice(self, name):
        return self.invoices[name]

    async def recost(self, name, prices):
        self.told.append(("recost", prices))
        self.objects[name].recost(prices, 1.0)

    def held(self, name, conversation):
        return self.objects[name].model_of(conversation)

    async def move(self, name, conversation, stage):
        self.objects[name].move_conversation(conversation, stage)

    def settled(self, name):
        self._check()
        return self.objects[name].settled() if self.trusted is None else self.trusted

    def kinds(self):
        return [entry[0] for entry in self.told]


def calling(*stages):
    """Makes a decider for which these stages are always called."""

    def make(proxied):
        decider = LocalDecider(proxied)
        decider.forced = stages
        return decider

    return make


class ScriptedSteps(LocalDecider):
    """An adaptive learner that goes on until stage ``last``."""

    def __init__(self, proxied, last):
        super().__init__([])
        self.last, self.at = last, 0
        for settings in proxied:
            self.invoices[settings.name] = invoice = Invoice(len(settings.stages))
            invoice.agree(settings.terms(), 0)

    async def begin(self, name, group=None):
        self._check()
        self.told.append(("begin",))
        return NextStage(7, 0)

    async def tell(self, name, id, stage, label, score, cost):
        self._check()
        at = sum(entry[0] == "tell" for entry in self.told)
        assert stage == at % 3
        assert cost > 0
        self.told.append(("tell", id, label, score))
        return NextStage(id, at + 1 if at < self.last else None)

    def settled(self, name):
        return 0


class Running:
    """A server of ASGI applications in a thread; ``call`` runs a coroutine there."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._servers = []

    def serve(self, app):
        """Return the port on which an application listens now."""
        held = socket.socket(proto=socket.IPPROTO_TCP)  # else small packets are held back
        held.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, log_level="critical", lifespan="off", access_log=False, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        task = asyncio.run_coroutine_threadsafe(server.serve(sockets=[held]), self.loop)
        self._servers.append((server, task))
        wait_until(lambda: server.started)
        return held.getsockname()[1]

    def call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def close(self):
        for server, _ in self._servers:
            server.should_exit = True
            server.force_exit = True
        for _, task in self._servers:
            task.result(PATIENCE)
        self.call(self.loop.shutdown_asyncgens())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


class World:
    """The fake upstream, the proxy and their addresses."""

    def __init__(self, running, fake, proxy, decider, upstream_port, port):
        self.running, self.fake, self.proxy, self.decider = running, fake, proxy, decider
        self.upstream_url, self.url = f"http://127.0.0.1:{upstream_port}/v1", f"http://127.0.0.1:{port}/v1"

    def drain(self):
        self.running.call(self.proxy.drain())


def gated(proxy):
    """The routes of a proxy behind the gate of a service, without one."""
    service = SimpleNamespace(metrics=SimpleNamespace(requested=lambda *_: None), telemetry=None)
    app, auth = Starlette(routes=proxy_routes(proxy, Auth())), Auth()
    app.middleware_stack = Gate(app.router, service, auth)
    return app


def make_proxy(tables, port, retries=2, make_decider=LocalDecider, more_upstreams=None, hurried=None):
    table = {"url": f"http://127.0.0.1:{port}/v1", "timeout": LONG, "retries": retries}
    more = {"hurried": {**table, "timeout": hurried}} if hurried else more_upstreams or {}
    upstreams = read_upstreams({"fake": table, **more})
    proxied = [read_proxied(f"learner[{k}]", entry, upstreams) for k, entry in enumerate(tables)]
    servers = {name: Upstream(settings, jitter=lambda: -0.45) for name, settings in upstreams.items()}
    decider = make_decider(proxied)
    return Proxy(proxied, servers, decider), decider


@contextmanager
def world(*tables, models=None, hurried=None, retries=2, make_decider=LocalDecider, fake=None, dead=False):
    """Run a fake upstream and a proxy; with ``dead`` nothing listens where the upstream should be.

    The upstream is also named "hurried", with these limits of time: for models that never answer, not for those
    that must.
    """
    running = Running()
    try:
        fake = fake or FakeUpstream(models or MODELS)
        upstream_port = running.serve(fake)
        used = NOBODY if dead else upstream_port
        proxy, decider = make_proxy(tables or [learner()], used, retries, make_decider, hurried=hurried)
        port = running.serve(gated(proxy))
        try:
            yield World(running, fake, proxy, decider, upstream_port, port)
        finally:
            running.call(proxy.close(1.0))
    finally:
        running.close()


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]
