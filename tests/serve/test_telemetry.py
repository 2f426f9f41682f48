"""Traces: taken from requests, logged, sent upstream; spans and metrics at a collector that listens on loopback."""

import contextlib
import gzip
import http.client
import http.server
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.rig.fake import FakeUpstream
from tests.rig.processes import PATIENCE, wait_until
from tests.rig.server import Client, Process
from tests.rig.upstreams import NOBODY, Running

from weakfeedback.cli.output import Stop
from weakfeedback.cli.serve import settings_of
from weakfeedback.serve.config import ConfigError, read_settings
from weakfeedback.serve.proxy.fake import FakeModel
from weakfeedback.serve.server import make_telemetry
from weakfeedback.serve.trace import Trace, read_trace

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
SERVICE = """
[upstream.fake]
url = "http://127.0.0.1:{port}/v1"
[[learner]]
name = "support"
error_cost = 1.0
passthrough = true
[[learner.stage]]
name = "only"
upstream = "fake"
model = "good"
price = {{ input = 0.0, output = 50.0 }}
[[learner.stage]]
name = "other"
upstream = "fake"
model = "missing"
price = {{ input = 0.0, output = 60.0 }}
"""
BODY = {"model": "good", "messages": [{"role": "user", "content": "What is 17 * 23?"}], "temperature": 0.5}


def test_a_trace_is_read_from_headers():
    found = read_trace([(b"traceparent", PARENT.encode()), (b"tracestate", b"a=1"), (b"tracestate", b"b=2")])
    assert found == Trace(TRACE, SPAN, "01", "a=1,b=2")
    assert found.headers() == {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    assert Trace(TRACE, SPAN, "00").headers() == {"traceparent": f"00-{TRACE}-{SPAN}-00"}
    later = read_trace([(b"traceparent", f"cc-{TRACE}-{SPAN}-01-more".encode())])
    assert later == Trace(TRACE, SPAN)
    noted = read_trace([(b"traceparent", PARENT.encode()), (b"tracestate", b"a=\n")])
    assert noted is not None
    assert noted.state == ""


@pytest.mark.parametrize(
    "bad",
    [
        "",
        PARENT[:-1],
        PARENT + "-more",
        PARENT + "\n",
        PARENT.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"cc-{TRACE}-{SPAN}-01more",
    ],
)
def test_a_trace_that_is_none_is_not_taken(bad):
    assert read_trace([(b"traceparent", bad.encode())]) is None
    assert read_trace([(b"traceparent", PARENT.encode())] * 2) is None


def test_nothing_of_the_extra_is_loaded_without_it():
    code = (
        "import sys, weakfeedback.cli.serve, weakfeedback.serve.server, weakfeedback.serve.proxy.mount\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'google'))])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_without_the_extra_a_line_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "weakfeedback.serve.telemetry", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.context", None)
    with pytest.raises(
        ConfigError, match=r"^otel needs opentelemetry.context: pip install 'weakfeedback\[otel"
    ):
        make_telemetry("http://127.0.0.1:1")


@pytest.mark.parametrize("bad", ["here", "ftp://a/", "http://user:secret@a/", "http://a/?key=secret"])
def test_an_address_that_is_none_is_refused(bad, tmp_path):
    with pytest.raises(Stop, match=r"^--otel must ") as caught:
        settings_of(None, None, None, None, otel=bad)
    (tmp_path / "w.toml").write_text(f'[server]\notel = "{bad}"\n')
    with pytest.raises(ConfigError, match=r"server\.otel must ") as told:
        read_settings(tmp_path / "w.toml")
    assert "secret" not in str(caught.value) + str(told.value)


class Collector(http.server.ThreadingHTTPServer):
    """Takes what OpenTelemetry sends, and keeps it decoded."""

    def __init__(self) -> None:
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        self.kinds = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
        self.got: list[Any] = []
        super().__init__(("127.0.0.1", 0), Taking)

    def told(self, kind: str, of: str) -> dict[str, Any]:
        """What came, by name: spans of /v1/traces or metrics of /v1/metrics."""
        requests = [one for one in list(self.got) if isinstance(one, self.kinds[kind])]
        resources = [part for one in requests for part in getattr(one, f"resource_{of}")]
        for part in resources:
            assert attributes(part.resource)["service.name"] == "weakfeedback"
        scopes = [scope for part in resources for scope in getattr(part, f"scope_{of}")]
        return {one.name: one for scope in scopes for one in getattr(scope, of)}

    def spans(self) -> dict[str, Any]:
        return self.told("/v1/traces", "spans")

    def metrics(self) -> dict[str, Any]:
        return self.told("/v1/metrics", "metrics")


class Taking(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.got.append(self.server.kinds[self.path].FromString(body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def attributes(told: Any) -> dict[str, Any]:
    """The attributes of a span, a point or a resource."""

    def plain(value: Any) -> Any:
        kind = value.WhichOneof("value")
        found = getattr(value, kind)
        return [plain(one) for one in found.values] if kind == "array_value" else found

    return {one.key: plain(one.value) for one in told.attributes}


def post(port: int, body: dict[str, Any], **headers: str) -> tuple[int, bytes]:
    """Ask the proxy, as part of a trace."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    sent = {"content-type": "application/json", "traceparent": PARENT, **headers}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), sent)
    reply = connection.getresponse()
    found = reply.status, reply.read()
    connection.close()
    return found


@contextlib.contextmanager
def serving(folder: Path, *options: str, env: dict[str, str] | None = None):
    """A service with a proxy, and the fake upstream behind it."""
    running, fake = Running(), FakeUpstream({"good": FakeModel("good", 1.0)})
    try:
        (folder / "weakfeedback.toml").write_text(SERVICE.format(port=running.serve(fake)))
        with Process(folder, "--log", "json", *options, quiet=False, env=env) as server:
            yield server, fake
    finally:
        running.close()


def troubles(folder: Path) -> list[str]:
    return [line["message"][:16] for line in lines(folder) if line["level"] in ("warning", "error")]


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "errors").read_text().splitlines()]


def test_a_trace_is_logged_and_sent_upstream_without_the_extra(tmp_path):
    with serving(tmp_path) as (server, fake):
        assert post(server.port, BODY, tracestate="vendor=1")[0] == 200
        assert post(server.port, BODY, traceparent="nonsense")[0] == 200
        assert [(one.headers.get("traceparent"), one.headers.get("tracestate")) for one in fake.seen] == [
            (PARENT, "vendor=1"),
            (None, None),
        ]
        assert server.stop() == 0
    first, second = [line for line in lines(tmp_path) if line.get("route") == "/v1/chat/completions"]
    assert (first["trace_id"], first["span_id"]) == (TRACE, SPAN)
    assert "trace_id" not in second


def test_spans_and_metrics_reach_a_collector(tmp_path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    collector = Collector()
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    try:
        with serving(tmp_path, "--otel", f"http://127.0.0.1:{collector.server_port}/") as (server, fake):
            assert post(server.port, BODY)[0] == 200
            status, answer = post(server.port, {**BODY, "stream": True})
            assert (status, answer.rstrip().endswith(b"data: [DONE]")) == (200, True)
            assert post(server.port, {**BODY, "model": "missing"})[0] == 200  # the other one answers
            call = Client(server.port)
            assert call("GET", "/v1/learners/nobody")[0] == 404
            assert call("GET", "/health/ready")[0] == 200
            call.close()
            assert server.stop() == 0  # which sends the rest
    finally:
        collector.shutdown()
        collector.server_close()
    spans, metrics = collector.spans(), collector.metrics()
    assert set(spans) == {
        "POST /v1/chat/completions",
        "chat good",
        "chat missing",
        "GET /v1/learners/{name}",
    }
    request, chat, failed = (
        spans[name] for name in ("POST /v1/chat/completions", "chat good", "chat missing")
    )
    told = attributes(request)
    assert (request.trace_id.hex(), request.parent_span_id.hex(), request.kind) == (TRACE, SPAN, 2)
    assert told["http.response.status_code"] == 200
    assert (told["http.route"], told["weakfeedback.learner"]) == ("/v1/chat/completions", "support")
    assert (chat.trace_id.hex(), chat.parent_span_id, chat.kind) == (TRACE, request.span_id, 3)
    assert fake.seen[-1].headers["traceparent"] == f"00-{TRACE}-{chat.span_id.hex()}-01"
    told = attributes(chat)
    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "fake",
        "gen_ai.request.model": "good",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.model": "good",
        "gen_ai.response.finish_reasons": ["stop"],
        "server.address": "127.0.0.1",
    }
    assert {name: told.get(name) for name in expected} == expected
    assert told["gen_ai.usage.input_tokens"] > 0
    assert told["gen_ai.usage.output_tokens"] > 0
    sent = str(spans) + str(metrics)
    assert "17 * 23" not in sent  # no text of a request
    assert "answer is" not in sent  # nor of an answer
    assert attributes(failed)["error.type"] == "404"
    assert failed.status.code == 2
    stranger = spans["GET /v1/learners/{name}"]
    assert (stranger.trace_id.hex() == TRACE, stranger.status.code) == (False, 0)
    counts = {
        (name, attributes(point).get("gen_ai.token.type"), attributes(point).get("error.type")): point.count
        for name, metric in metrics.items()
        for point in metric.histogram.data_points
        if attributes(point).get("http.route") != "/v1/learners/{name}"
    }
    assert counts == {
        ("http.server.request.duration", None, None): 3,
        ("gen_ai.client.operation.duration", None, None): 3,
        ("gen_ai.client.operation.duration", None, "404"): 1,
        ("gen_ai.client.operation.time_to_first_chunk", None, None): 1,
        ("gen_ai.client.token.usage", "input", None): 3,
        ("gen_ai.client.token.usage", "output", None): 3,
    }
    assert {
        attributes(point).get("gen_ai.request.model")
        for name, metric in metrics.items()
        for point in metric.histogram.data_points
        if name.startswith("gen_ai")
    } == {"good", "missing"}
    # nobody bounds how many names of models an upstream tells: each would be kept for ever
    assert "gen_ai.response.model" not in str(metrics)
    logged = [line for line in lines(tmp_path) if line.get("route") == "/v1/chat/completions"]
    assert {line["trace_id"] for line in logged} == {TRACE}
    assert logged[-1]["span_id"] == request.span_id.hex()


@pytest.mark.slow
def test_a_collector_that_is_away_disturbs_nobody(tmp_path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    hasty = {"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    with serving(tmp_path, "--otel", f"http://127.0.0.1:{NOBODY}", env=hasty) as (server, _):
        assert post(server.port, BODY)[0] == 200
        assert wait_until(lambda: troubles(tmp_path)) == ["Failed to export"]
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 20
