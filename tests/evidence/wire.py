"""Some 300 requests and what the service and its proxy answer, with times, request ids and durations left out."""

import asyncio
import json
import random
import re

from tests.rig.fake import FakeUpstream
from tests.rig.harness import Caller, Reply, quick, serving
from tests.rig.histories import LEARNERS, answer
from tests.rig.raw_http import ask, body_of
from tests.rig.upstreams import MODELS, learner, stage, world
from tests.serve.proxy.test_service import chatting

from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth
from weakfeedback.serve.page.routes import page_of

TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00| UTC)?")
PLACE = re.compile(r"(/[\w.-]+)+/\w+\.db")
TOLD = (
    "content-type",
    "retry-after",
    "location",
    "allow",
    "www-authenticate",
    "cache-control",
    "x-accel-buffering",
)
RUNNING = {
    "created",
    "seconds",
    "uptime",
    "since",
    "waited",
    "first_token",
    "latency",
    "took",
    "request_id",
    "system_fingerprint",
}


def normal(value, key=""):
    """JSON data without what differs from run to run."""
    if isinstance(value, dict):
        return {name: normal(one, name) for name, one in value.items()}
    if isinstance(value, list):
        if key == "calls" and len(value) > 8:  # one call of the accounts ends with its seconds
            value = [*value[:8], *(type(one).__name__ for one in value[8:])]
        return [normal(one, key) for one in value]
    if key in RUNNING and isinstance(value, (int, float, str)):
        return type(value).__name__
    if isinstance(value, str):
        value = TIME.sub("TIME", PLACE.sub("PLACE", value))
        value = re.sub(r"policy must be one of [^']*, got", "policy must be one of THOSE, got", value)
        value = re.sub(r"bill-[0-9a-f]{24}", "bill-KEY", value)
        return re.sub(r"chatcmpl-[\w-]+", "chatcmpl-ID", value)
    return value


class Recorder:
    """Sends requests and keeps what came back."""

    def __init__(self, call):
        self.call, self.kept = call, []

    async def raw(self, method, path, body=None, headers=None, stays=False):
        """Send bytes."""
        leave = asyncio.Event().wait if stays else None
        reply = await self.call.raw(method, path, body, headers, leave=leave)
        told = {
            name: value
            for name, value in sorted(reply.headers.items())
            if name in TOLD or (name.startswith("x-weakfeedback") and "ms" not in name.split("-"))
        }
        if "allow" in told:
            told["allow"] = ", ".join(sorted(told["allow"].split(", ")))
        sent = None if body is None else body.decode("latin-1")[:2000]
        found = {"request": f"{method} {path}", "headers": headers or {}, "sent": sent}
        self.kept.append({**found, "status": reply.status, "told": normal(told), "body": body_in(reply)})
        return reply

    async def __call__(self, method, path, data=None, **headers):
        """Send JSON."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        body = None
        if data is not None:
            body, sent["content-type"] = json.dumps(data).encode(), "application/json"
        return await self.raw(method, path, body, sent)


def body_in(reply):
    """A body as data: JSON, the events of a stream, or lines."""
    kind = reply.headers.get("content-type", "")
    if "event-stream" in kind:
        events = [part.removeprefix("data: ") for part in reply.body.decode().split("\n\n")]
        return [normal(json.loads(one)) if one.startswith("{") else one for one in events]
    if "ndjson" in kind:
        return [normal(json.loads(line)) for line in reply.body.decode().splitlines()]
    if "json" in kind:
        return normal(json.loads(reply.body))
    return normal(reply.body.decode().splitlines())


# -- the script


async def every_kind(call):
    """What every kind of learner is asked in its life."""
    luck = random.Random(11)
    for name, config in LEARNERS.items():
        place, kind = f"/v1/learners/{name}", config["kind"]
        await call("PUT", place, {**config, "seed": 3})
        await call("PUT", place, {**config, "seed": 3})
        await call("PUT", place, {**config, "seed": 4})
        if kind == "adaptive":
            await steps(call, place, luck)
        else:
            await rounds(call, name, place, kind, luck)
        await call("GET", place)
        await call("GET", place + "/report")
        await call("GET", place + "/certificate")
        await call("GET", place + "/decisions?status=all")
        await call("GET", place + "/decisions/1/explain")


async def rounds(call, name, place, kind, luck):
    """Decisions and what belongs to them."""
    for n in range(5):
        body = {"context": [luck.choice([-1.0, 1.0]), 0.5]} if kind == "contextual" else {}
        decided = (await call("POST", place + "/decide", body, idempotency_key=f"k{n}")).data
        if n == 0:
            await call("POST", place + "/decide", body, idempotency_key="k0")
        if decided.get("expires") is None:
            continue
        told = f"{place}/decisions/{decided['id']}"
        if n == 3:
            await call("POST", told + "/cancel", {"cost": 0.5})
            continue
        said = answer(kind, name, decided, luck)
        await call("POST", told + "/feedback", said)
        await call("GET", told)
        if n == 1:
            await call("POST", told + "/feedback", said)
            await call("POST", told + "/feedback", {"outputs": ["z"] * len(decided.get("call", "abc"))})
            await call("POST", told + "/cancel", {})


async def steps(call, place, luck):
    """Rounds that decide after every answer."""
    for n in range(3):
        step = (await call("POST", place + "/begin", {}, idempotency_key=f"k{n}")).data
        while step["stage"] is not None:
            sent = {"output": luck.randrange(2), "score": round(luck.random(), 3)}
            step = (await call("POST", f"{place}/decisions/{step['id']}/tell", sent)).data
        await call("GET", f"{place}/decisions/{step['id']}")
    await call("POST", place + "/decide", {})
    await call("POST", place + "/decisions/99/tell", {"output": 1})
    rows = {"outputs": [[0, 1, 1], [1, 1, 1]], "scores": [[0.5, 0.6, 0.7]] * 2, "labels": [1, 1]}
    await call("POST", place + "/calibrate", rows)
    await call("POST", place + "/calibrate", {**rows, "truth": [1, 1]})


ONE = "/v1/learners/uss-ts"
WRONG = [  # method, path, data
    ("GET", "/v1/learners/nobody", None),
    ("GET", "/v1/nowhere", None),
    ("GET", "/", None),
    ("PUT", ONE, None),
    ("PUT", ONE + "?x=1", {}),
    ("PUT", "/v1/learners/No name!", LEARNERS["uss-ts"]),
    ("PUT", "/v1/learners/new", {}),
    ("PUT", "/v1/learners/new", {"kind": "cascde"}),
    ("PUT", "/v1/learners/new", {"kind": "cascade", "stages": ["a"]}),
    ("PUT", "/v1/learners/new", {"kind": "cascade", "stages": ["a", "b"], "stage_costs": [1], "error_cost": 2}),
    ("PUT", "/v1/learners/new", {"kind": "cascade", "stages": ["a", "b"], "stage_costs": [3, -1], "error_cost": 2}),
    ("PUT", "/v1/learners/new", {**LEARNERS["uss-ts"], "policy": "USS-TT"}),
    ("PUT", "/v1/learners/new", {**LEARNERS["uss-ts"], "options": {"x": 1}}),
    ("PUT", "/v1/learners/new", {**LEARNERS["uss-ts"], "error_costs": 1}),
    ("PUT", "/v1/learners/new", {**LEARNERS["uss-ts"], "seed": -1}),
    ("PUT", "/v1/learners/new", {**LEARNERS["uss-ts"], "stages": ["a", "a", "b"]}),
    ("PUT", "/v1/learners/new", {**LEARNERS["csb-su"], "budget": 0}),
    ("PUT", "/v1/learners/new", {**LEARNERS["csb-su"], "policy": "CSB-SU", "setting": "reward"}),
    ("PUT", "/v1/learners/new", {**LEARNERS["pay"], "prices": [1]}),
    ("PUT", "/v1/learners/new", {**LEARNERS["numbers"], "compare": {"type": "number", "scale": 0}}),
    ("PATCH", ONE + "/costs", {}),
    ("PATCH", ONE + "/costs", {"stage_costs": [1, 2, 3]}),
    ("PATCH", ONE + "/costs", {"stage_costs": [1, 2]}),
    ("PATCH", ONE + "/costs", {"prices": [1, 2, 3]}),
    ("PATCH", "/v1/learners/csb-su/costs", {"stage_costs": [1, 2, 3]}),
    ("POST", ONE + "/decide", {"count": 3}),
    ("POST", ONE + "/decide", {"count": 0}),
    ("POST", ONE + "/decide", {"count": 10_000_000}),
    ("POST", ONE + "/decide", {"context": [1.0]}),
    ("POST", "/v1/learners/context/decide", {}),
    ("POST", "/v1/learners/context/decide", {"context": [1.0]}),
    ("POST", "/v1/learners/context/decide", {"context": "abc"}),
    ("POST", ONE + "/begin", {}),
    ("POST", ONE + "/decisions/1/tell", {"output": 1}),
    ("POST", ONE + "/decisions/x/feedback", {"outputs": [1]}),
    ("POST", ONE + "/decisions/9999/feedback", {"outputs": [1]}),
    ("POST", ONE + "/decisions/9999/cancel", {}),
    ("POST", ONE + "/decisions/7/feedback", {"outputs": [1, 1, 1, 1, 1]}),
    ("POST", ONE + "/decisions/7/feedback", {"outputs": 3}),
    ("POST", ONE + "/decisions/7/feedback", {"outputs": ["x" * 5000]}),
    ("POST", ONE + "/decisions/7/feedback", {"outputs": [[1, 2], {"a": 1}, 1]}),
    ("POST", ONE + "/decisions/7/feedback", {"outputs": [1, 1, 1], "label": 1}),
    ("POST", ONE + "/decisions/7/feedback", {"differ": []}),
    ("POST", ONE + "/decisions/7/feedback", {}),
    ("POST", "/v1/learners/csb-su/decisions/5/feedback", {"observed": {"west": 1.0}}),
    ("POST", "/v1/learners/csb-su/decisions/5/feedback", {"observed": {"n": 7.0}}),
    ("POST", "/v1/learners/csb-su/decisions/5/feedback", {"outputs": [1, 1, 1]}),
    ("POST", ONE + "/feedback", {"items": []}),
    ("POST", ONE + "/feedback", {"items": [{"id": 6, "outputs": [1, 1, 1]}, {"id": 12345, "outputs": [1]}]}),
    ("POST", ONE + "/warm-start", {"outputs": [[1, 1, 0], [0, 1, 1]]}),
    ("POST", ONE + "/warm-start", {"outputs": [[1, 1]]}),
    ("POST", "/v1/learners/context/warm-start", {"outputs": [[1, 1, 0]], "contexts": [[1.0, 0.5]]}),
    ("POST", "/v1/learners/within/warm-start", {"outputs": [[1, 1, 0]]}),
    ("POST", ONE + "/audits", {"outputs": [[1, 1, 0], [0, 1, 1], [1, 1, 1]]}),
    ("GET", ONE + "/audits/1", None),
    ("POST", ONE + "/audits/1/labels", {"labels": {"0": 1, "1": 1}}),
    ("POST", ONE + "/audits/1/labels", {"labels": [1, 1]}),
    ("GET", ONE + "/audits/1", None),
    ("GET", ONE + "/audits/7", None),
    ("GET", ONE + "/audits/x", None),
    ("GET", ONE + "/certificate?alpha=2", None),
    ("GET", ONE + "/certificate?alpha=0.1", None),
    ("GET", ONE + "/certificate?beta=0.1", None),
    ("GET", ONE + "/decisions?status=open", None),
    ("GET", ONE + "/decisions?limit=0", None),
    ("GET", ONE + "/decisions?limit=2&after=1", None),
    ("GET", ONE + "/decisions?status=answered", None),
    ("GET", ONE + "/decisions?status=cancelled&limit=1", None),
    ("GET", ONE + "/decisions/1", None),
    ("GET", ONE + "/decisions/8888", None),
    ("GET", ONE + "/decisions/8888/explain", None),
    ("GET", ONE + "/events?limit=3", None),
    ("GET", ONE + "/events?after=2&limit=4", None),
    ("GET", ONE + "/events?after=-2", None),
    ("GET", "/v1/learners/within/events?after=0&limit=6", None),
    ("GET", "/v1/learners/csb-ts/events?after=0&limit=3", None),
    ("GET", "/v1/learners/pay/events?after=0&limit=5", None),
    ("GET", "/v1/learners/context/events?after=0&limit=3", None),
    ("GET", "/v1/learners", None),
    ("GET", "/health/live", None),
    ("GET", "/health/ready", None),
    ("DELETE", "/v1/learners/drift", None),
    ("DELETE", "/v1/learners/drift", None),
    ("POST", "/v1/learners/drift/decide", {}),
    ("POST", "/v1/learners/drift/decisions/5/feedback", {"outputs": [1]}),
    ("DELETE", ONE + "/decisions/1", None),
    ("POST", "/v1/learners", {}),
    ("OPTIONS", ONE, None),
    ("HEAD", "/health/live", None),
]  # fmt: skip
BYTES = [  # body, headers
    (b"{", {"content-type": "application/json"}),
    (b"", {"content-type": "application/json"}),
    (b"[]", {"content-type": "application/json"}),
    (b"{}", {"content-type": "text/plain"}),
    (b"{}", {}),
    (b'{"outputs": ' + b"[" * 200 + b"]" * 200 + b"}", {"content-type": "application/json"}),
    (b'{"outputs": [1, NaN]}', {"content-type": "application/json"}),
    (b'{"outputs": [1], "outputs": [2]}', {"content-type": "application/json"}),
    (b"\xff\xfe", {"content-type": "application/json"}),
    (b'{"outputs": [1]}', {"content-type": "application/json", "content-length": "99999999"}),
    (b'{"outputs": [1]}', {"content-type": "application/json", "host": "evil.example"}),
    (b'{"outputs": [1]}', {"content-type": "application/json", "origin": "http://evil.example"}),
]


async def of_service(path):
    """Record the exchanges of the service."""
    async with serving(path, quick(durability="process")) as (_, caller):
        call = Recorder(caller)
        await every_kind(call)
        for method, target, data in WRONG:
            await call(method, target, data)
        for body, headers in BYTES:
            await call.raw("POST", ONE + "/decisions/7/feedback", body, headers)
        await call.raw("GET", ONE + "/report", None, {"accept": "text/plain"})
        await call.raw("GET", "/v1/learners/csb-ts/report", None, {"accept": "text/plain"})
        await call.raw("GET", "/v1/learners/within/report", None, {"accept": "text/plain"})
        await call.raw("GET", "/v1/learners/pay/events?limit=2", None, {"accept": "application/x-ndjson"})
        await call("POST", ONE + "/decide", {}, idempotency_key="x" * 300)
        await call("POST", ONE + "/decide", {"count": 2}, idempotency_key="k0")
    return call.kept


ASKED = [  # what is sent beside a question, and headers
    ({}, {}),
    ({"stream": True}, {}),
    ({"stream": True, "stream_options": {"include_usage": True}}, {}),
    ({}, {"x-weakfeedback-stage": "2"}),
    ({"stream": True}, {"x-weakfeedback-stage": "small"}),
    ({}, {"x-weakfeedback-stage": "nobody"}),
    ({}, {"x-weakfeedback-learn": "no"}),
    ({}, {"x-weakfeedback-learn": "perhaps"}),
    ({"n": 2}, {}),
    ({"model": "nobody"}, {}),
    ({"model": 7}, {}),
    ({"messages": []}, {}),
    ({"messages": "hello"}, {}),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "What is 3 * 7?"}]}]}, {}),
    ({"max_tokens": 5, "temperature": 0.0}, {}),
    ({"tools": [{"type": "function", "function": {"name": "f"}}]}, {}),
    ({"logprobs": True}, {}),
    ({"stream": "yes"}, {}),
    ({}, {"idempotency-key": "same"}),
    ({}, {"idempotency-key": "same"}),
    ({"stream": True}, {"idempotency-key": "same stream"}),
]
FAULTS = [
    "500",
    "429:1",
    "usage-with-finish",
    "no-finish",
    "error-event:2",
    "gzip",
    "redirect",
    "400",
    "401",
    "404",
    "broken",
    "no-done",
    "no-usage",
    "error-event",
    "cut:2",
    "deep",
]


async def of_proxy(path, table):
    """Record what a proxied learner answers, one request after the other."""
    async with chatting(path, table, FakeUpstream(MODELS)) as chat:
        call = Recorder(Caller(chat.app))
        more = {"content-type": "application/json"}
        for n, (asked, headers) in enumerate(ASKED):
            body = json.dumps(body_of(question=f"What is {n} * 7?") | asked).encode()
            await call.raw("POST", "/v1/chat/completions", body, {**more, **headers}, stays=True)
            await chat.proxy.drain()
        await call.raw("POST", "/v1/chat/completions", b"{", more, stays=True)
        await call.raw("POST", "/v1/chat/completions", b"{}", {}, stays=True)
        await call.raw("GET", "/v1/models")
        await call.raw("GET", "/v1/models/support")
        await call.raw("GET", "/v1/models/nobody")
        await call("GET", "/v1/learners/support")
        await call("GET", "/v1/learners/support/report")
        await call("GET", "/v1/learners/support/events?limit=12")
    return call.kept


def of_faults():
    """Record what the proxy answers when all models fail, over sockets."""
    kept = []
    with world(retries=0) as here:
        for fault in FAULTS:
            here.fake.always.update(dict.fromkeys(MODELS, fault))
            for stream in (False, True):
                got = ask(here.url, stream)
                here.drain()
                body = body_in(Reply(got.status, got.headers, got.body))
                kept.append({"request": fault, "stream": stream, "status": got.status, "body": body})
    return kept


TWO = [stage("small", "small-7b", 50.0), stage("large", "large-5", 7500.0)]
TEXT = {"type": "text"}
TABLES = {
    "router": learner(seed=5),
    "cascade": learner(kind="cascade", seed=5),
    "adaptive": learner(mode="adaptive", seed=5, compare=TEXT),
    "contextual": learner(kind="contextual", seed=5, compare=TEXT, stage=TWO),
}


async def document(path):
    """The OpenAPI document of a service with page and proxy, without its version."""
    async with serving(path) as (service, _):
        service.models.append("support")
        call = Caller(make_app(service, Auth(), **page_of(service, Auth())))
        found = (await call("GET", "/openapi.json")).data
    del found["info"]["version"]
    return found


def record(folder):
    """All exchanges by part, and the OpenAPI document."""
    found = {"service": asyncio.run(of_service(folder / "service.db"))}
    for name, table in TABLES.items():
        found[f"proxy {name}"] = asyncio.run(of_proxy(folder / f"{name}.db", table))
    found["proxy faults"] = of_faults()
    found["openapi"] = asyncio.run(document(folder / "document.db"))
    found["openapi paths"] = found["openapi"].pop("paths")
    found["openapi schemas"] = found["openapi"]["components"].pop("schemas")
    return found
