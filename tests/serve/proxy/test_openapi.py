"""The proxy's routes in the OpenAPI document: every answer, header and error is as it says."""

import asyncio
import contextlib
import json
import random

import orjson
import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.generated import check, operations_of
from tests.rig.harness import Caller
from tests.rig.raw_http import body_of
from tests.rig.upstreams import MODELS
from tests.serve.proxy.test_service import SECRET, chatting
from tests.serve.test_fuzz import ODD

from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.page.routes import page_of
from weakfeedback.serve.proxy.fake import FakeServer
from weakfeedback.serve.proxy.mount import proxy_routes
from weakfeedback.serve.proxy.openapi import ERRORS, TOLD
from weakfeedback.serve.proxy.settings import FIELDS, NEVER
from weakfeedback.serve.proxy.upstream import PASSED_ON, UpstreamFailed

CHAT = "/v1/chat/completions"
JSON = {"content-type": "application/json"}


@contextlib.asynccontextmanager
async def documented(path, auth=None):
    """A service with a proxy, the document that it gives, and how to ask: every reply must be as that says."""
    auth = auth or Auth()
    async with chatting(path) as chat:
        page = page_of(chat.service, auth)
        page["routes"] += proxy_routes(chat.proxy, auth, chat.service)
        call = Caller(make_app(chat.service, auth, **page))
        assert CHAT not in (await call("GET", "/openapi.json")).data["paths"]  # no learner answers as a model
        chat.service.models.append("support")
        made = (await call("GET", "/openapi.json")).data
        operations = {(path, method): one for path, method, one in operations_of(made)}

        async def ask(body=None, path=CHAT, method="post", **headers):
            route = path if path in made["paths"] else "/v1/models/{name}"
            sent = {**(JSON if body is not None else {}), **headers}
            sent = {name.replace("_", "-"): value for name, value in sent.items()}
            data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            reply = await call.raw(method.upper(), path, data, sent, leave=asyncio.Event().wait)
            check(made, operations[route, method], reply)
            names = {name for name in reply.headers if name.startswith("x-weakfeedback-")}
            assert names <= {f"x-weakfeedback-{name}" for name in TOLD}
            return reply

        yield chat, ask
        await chat.proxy.drain()


class Failing:
    """An upstream that refuses everything with a status."""

    def __init__(self, status):
        self.status = status

    async def ask(self, path, body, failed):
        detail = {} if self.status == 400 else {"message": "no", "code": "theirs"}
        raise UpstreamFailed(str(self.status), self.status, detail=detail)

    async def close(self):
        """Nothing is open."""


async def test_answers_and_errors_are_as_the_document_says(tmp_path):
    seen = set()

    auth = Auth([Token.of("web", SECRET, "use"), Token.of("eye", SECRET + "2", "read")])
    async with documented(tmp_path / "s.db", auth) as (chat, send):

        async def ask(status, code=None, **given):
            reply = await send(**{"authorization": f"Bearer {SECRET}", **given})
            assert reply.status == status, reply.body
            if code is not None:
                assert reply.data["error"]["code"] == code
                seen.add(code)
            return reply

        plain = body_of()
        whole = await ask(200, body=plain)
        assert "x-weakfeedback-cost" in whole.headers
        stream = await ask(200, body=body_of(stream=True))
        assert stream.body.endswith(b"[DONE]\n\n")
        for name in ("learn", "context", "stage"):
            await ask(200, body=plain, **{f"x_weakfeedback_{name}": "no" if name == "learn" else "1"})
        said = {"model": "support", "input": "What is 1 + 1?"}
        await ask(200, body=said, path="/v1/responses")
        await ask(400, "bad_value", body={**said, "store": True}, path="/v1/responses")
        theirs = {**plain, "max_tokens": 5}
        await ask(200, body=theirs, path="/v1/messages")
        await ask(404, "model_not_found", body={**theirs, "model": "x"}, path="/v1/messages")
        for key, status in ((SECRET, 200), ("wrong", 401)):
            reply = await send(body=theirs, path="/v1/messages", x_api_key=key)
            assert reply.status == status
        await ask(200, path="/v1/models", method="get")
        await ask(200, path="/v1/models/support", method="get")
        await ask(404, "model_not_found", path="/v1/models/nobody", method="get")
        await ask(404, "model_not_found", body={**plain, "model": "nobody"})
        await ask(400, "missing_model", body={"messages": []})
        await ask(400, "bad_value", body={**plain, "n": 0})
        await ask(400, "bad_value", body=plain, x_weakfeedback_stage="9")
        await ask(400, "unknown_parameter", body={**plain, "base_url": "x"})
        await ask(400, "bad_json", body=b"{")
        await ask(422, "invalid", body=b'{"x": ' + b"[" * 200 + b"]" * 200 + b"}")
        await ask(415, "unsupported_media_type", body=plain, content_type="text/plain")
        await ask(413, "too_large", body=b" " * (16 * 2**20 + 1))
        await ask(401, "unauthorized", body=plain, authorization="Bearer x")
        await ask(403, "forbidden", body=plain, authorization=f"Bearer {SECRET}2")
        await ask(403, "foreign_origin", body=plain, origin="http://elsewhere.example")
        await ask(421, "unknown_host", body=plain, host="elsewhere.example")
        await ask(431, "headers_too_large", body=plain, x="x" * 2**17)
        for status in PASSED_ON:
            chat.proxy._servers["fake"] = Failing(status)
            code = "upstream_refused" if status == 400 else "theirs"
            refused = await ask(status, code, body=plain)
            assert refused.data["error"]["type"] == "invalid_request_error"
        chat.proxy._servers["fake"] = Failing(500)
        await ask(502, "upstream_failed", body=plain)
        for state in ("starting", "standby"):
            chat.service.state = state
            await ask(503, state, body=plain)
        chat.service.state = "ready"
    assert set(ERRORS) - seen == {"key_reused", "wrong_context", "store_unavailable"}  # of other tests


class Strict(FakeServer):
    """Models that are sent JSON, and refuse what they do not understand."""

    async def ask(self, path, body, failed):
        orjson.dumps(body)
        return await self._tried(super().ask(path, body, failed))

    async def open(self, path, body, failed):
        orjson.dumps(body)
        return await self._tried(super().open(path, body, failed))

    async def _tried(self, work):
        try:
            return await work
        except (TypeError, LookupError, AttributeError):
            raise UpstreamFailed("400", 400) from None


NAMES = sorted({*FIELDS, *NEVER, "", "\0", "x"})
HEADERS = ("x_weakfeedback_stage", "x_weakfeedback_learn", "x_weakfeedback_context", "idempotency_key")
VALUES = ("0", "1", "7", "large", "no", "yes", "[0.5]", "[", "", "k", "x" * 200, "\xe9", "-1")
DEEP = tuple("[" * levels + "]" * levels for levels in (100, 300, 1000))


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
async def test_fuzzed_requests_get_documented_answers(tmp_path, count):
    luck, statuses = random.Random(3), dict[int, int]()

    def body():
        if luck.random() < 0.1:
            return luck.choice([b"", b"[]", b"null", b"[" * 5000, b'"\xff"', luck.randbytes(30)])
        made = body_of(stream=luck.random() < 0.3)
        for _ in range(luck.choice((0, 1, 1, 2, 5))):
            made[luck.choice(NAMES)] = luck.choice(ODD)
        if luck.random() < 0.2:
            made["messages"] = [
                luck.choice(({"role": "user", "content": luck.choice(ODD)}, luck.choice(ODD)))
            ]
        text = json.dumps(made)
        return (text.replace("1e-09", luck.choice(DEEP)) if luck.random() < 0.3 else text).encode()

    async with documented(tmp_path / "s.db") as (chat, ask):
        chat.proxy._servers["fake"] = Strict(FakeUpstream(MODELS))
        for _ in range(count):
            headers = {luck.choice(HEADERS): luck.choice(VALUES)} if luck.random() < 0.3 else {}
            reply = await ask(body(), **headers)
            statuses[reply.status] = statuses.get(reply.status, 0) + 1
        await chat.proxy.drain()
        report = await chat.service.report("support")
        assert (report["pending"], chat.proxy._under_way) == (0, set())
    assert {200, 400, 404} <= set(statuses)
    assert not {409, 500} & set(statuses)
