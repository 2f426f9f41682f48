"""The proxy's routes in the OpenAPI document: every answer, header and error is as it says."""

import asyncio
import json

from tests.proxy.raw import body_of
from tests.proxy.test_service import SECRET, chatting
from tests.serve.generated import check, operations_of
from tests.serve.harness import Caller

from weakfeedback.serve.app import make_app
from weakfeedback.serve.auth import Auth, Token
from weakfeedback.serve.page.routes import page_of
from weakfeedback.serve.proxy.attach import proxy_routes
from weakfeedback.serve.proxy.described import ERRORS, TOLD
from weakfeedback.serve.proxy.upstream import PASSED_ON, UpstreamFailed

CHAT = "/v1/chat/completions"
JSON = {"content-type": "application/json"}


class Failing:
    """An upstream that refuses everything with a status."""

    def __init__(self, status):
        self.status = status

    async def ask(self, path, body, failed):
        detail = {} if self.status == 400 else {"message": "no", "code": "theirs"}
        raise UpstreamFailed(str(self.status), self.status, detail=detail)

    async def close(self):
        """Nothing is open."""


def test_answers_and_errors_are_as_the_document_says(tmp_path):
    seen = set()

    async def work():
        auth = Auth([Token.of("web", SECRET, "use"), Token.of("eye", SECRET + "2", "read")])
        async with chatting(tmp_path / "s.db") as chat:
            page = page_of(chat.service, auth)
            page["routes"] += proxy_routes(chat.proxy, auth, chat.service)
            call = Caller(make_app(chat.service, auth, **page))
            assert (
                CHAT not in (await call("GET", "/openapi.json")).data["paths"]
            )  # no learner answers as a model
            chat.service.models.append("support")
            made = (await call("GET", "/openapi.json")).data
            operations = {(path, method): one for path, method, one in operations_of(made)}

            async def ask(status, code=None, body=None, path=CHAT, method="post", **headers):
                route = path if path in made["paths"] else "/v1/models/{name}"
                sent = {"authorization": f"Bearer {SECRET}", **(JSON if body is not None else {}), **headers}
                sent = {name.replace("_", "-"): value for name, value in sent.items()}
                data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
                reply = await call.raw(method.upper(), path, data, sent, stays=True)
                found, told = check(made, operations[route, method], reply)
                assert found == status, told
                if code is not None:
                    assert told["error"]["code"] == code
                    seen.add(code)
                names = {name for name in reply.headers if name.startswith("x-weakfeedback-")}
                assert names <= {f"x-weakfeedback-{name}" for name in TOLD}
                return reply

            plain = body_of()
            whole = await ask(200, body=plain)
            assert "x-weakfeedback-cost" in whole.headers
            stream = await ask(200, body=body_of(stream=True))
            assert stream.body.endswith(b"[DONE]\n\n")
            for name in ("learn", "context", "stage"):
                await ask(200, body=plain, **{f"x_weakfeedback_{name}": "no" if name == "learn" else "1"})
            await ask(200, path="/v1/models", method="get")
            await ask(200, path="/v1/models/support", method="get")
            await ask(404, "model_not_found", path="/v1/models/nobody", method="get")
            await ask(404, "model_not_found", body={**plain, "model": "nobody"})
            await ask(400, "missing_model", body={"messages": []})
            await ask(400, "bad_value", body={**plain, "n": 0})
            await ask(400, "bad_value", body=plain, x_weakfeedback_stage="9")
            await ask(400, "unknown_parameter", body={**plain, "base_url": "x"})
            await ask(400, "bad_json", body=b"{")
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
            await chat.proxy.drain()

    asyncio.run(work())
    assert set(ERRORS) - seen == {"key_reused", "wrong_context"}  # of other learners
