"""Spans and metrics for an OpenTelemetry collector; the only module that needs the extra ``otel``.

Requests have the names of the HTTP conventions, calls of models those of the GenAI conventions. Texts are never sent.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    TraceState,
    format_span_id,
    format_trace_id,
    set_span_in_context,
)

from weakfeedback._version import __version__
from weakfeedback.serve.trace import CURRENT, Trace

NAME = "weakfeedback"
PATIENCE = 4.0  # seconds at the end
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
OPERATIONS = {"/chat/completions": "chat", "/embeddings": "embeddings"}
# limits of the histograms, as the conventions advise
REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
CALL_SECONDS = tuple(0.01 * 2**k for k in range(14))
FIRST_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
TOKENS = tuple(4.0**k for k in range(14))


class Telemetry:
    """Sends spans and metrics to the collector at ``address``; the variables ``OTEL_*`` of its SDK hold as well."""

    def __init__(self, address: str) -> None:
        told = {"service.version": __version__}
        if not os.environ.get("OTEL_SERVICE_NAME"):
            told["service.name"] = NAME
        resource = Resource.create(told)
        self._spans = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{address}/v1/metrics"))
        self._metrics = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        self._tracer = self._spans.get_tracer(NAME, __version__)
        meter = self._metrics.get_meter(NAME, __version__)

        def histogram(name: str, unit: str, words: str, limits: tuple[float, ...]) -> Any:
            return meter.create_histogram(name, unit, words, explicit_bucket_boundaries_advisory=limits)

        self.request_seconds = histogram(
            "http.server.request.duration", "s", "What a request took.", REQUEST_SECONDS
        )
        self.call_seconds = histogram(
            "gen_ai.client.operation.duration", "s", "What a call of a model took.", CALL_SECONDS
        )
        self.first_seconds = histogram(
            "gen_ai.client.operation.time_to_first_chunk",
            "s",
            "When the first chunk of a streamed answer came.",
            FIRST_SECONDS,
        )
        self.tokens = histogram(
            "gen_ai.client.token.usage", "{token}", "Tokens that a model has counted.", TOKENS
        )

    def request(self, method: str, path: str, scheme: str, parent: Trace | None) -> RequestSpan:
        """Return the span of a request that begins, within the trace that its headers name, if they do."""
        told = {
            "http.request.method": method if method in METHODS else "_OTHER",
            "url.path": path,
            "url.scheme": scheme,
        }
        span = self._tracer.start_span(method, _context(parent, True), SpanKind.SERVER, told)
        return RequestSpan(self, span, told)

    def call(self, upstream: str, url: str, path: str, body: dict[str, Any]) -> CallSpan:
        """Return the span of a call of a model that begins, within the request in progress."""
        operation, model, parts = OPERATIONS.get(path, path.strip("/")), str(body.get("model")), urlsplit(url)
        told: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": upstream,
            "gen_ai.request.model": model,
            "server.address": parts.hostname or "",
            "server.port": parts.port or (443 if parts.scheme == "https" else 80),
        }
        parent = _context(CURRENT.get(), False)
        span = self._tracer.start_span(f"{operation} {model}", parent, SpanKind.CLIENT, told)
        for name in ("max_tokens", "temperature", "top_p", "seed"):
            if isinstance(body.get(name), int | float):
                span.set_attribute(f"gen_ai.request.{name}", body[name])
        return CallSpan(self, span, told, body.get("stream") is True)

    def close(self) -> None:
        """Send what has not been sent, and end; a collector that does not answer is not waited for."""
        ends = [threading.Thread(target=one.shutdown, daemon=True) for one in (self._spans, self._metrics)]
        for end in ends:
            end.start()
        for end in ends:
            end.join(PATIENCE / len(ends))


class RequestSpan:
    """A request of the service."""

    def __init__(self, telemetry: Telemetry, span: Any, told: dict[str, Any]) -> None:
        self._telemetry, self._span, self._told = telemetry, span, told
        self.trace = _trace(span)

    def end(self, route: str, status: int, seconds: float, learner: str | None) -> None:
        """End it."""
        told = {name: self._told[name] for name in ("http.request.method", "url.scheme")}
        told |= {"http.route": route, **({"http.response.status_code": status} if status else {})}
        if status >= 500 or not status:
            told["error.type"] = str(status) if status else "cancelled"
            self._span.set_status(StatusCode.ERROR)
        self._telemetry.request_seconds.record(seconds, told)
        self._span.update_name(f"{self._told['http.request.method']} {route}")
        self._span.set_attributes(told if learner is None else {**told, "weakfeedback.learner": learner})
        self._span.end()


class CallSpan:
    """A call of a model: a `weakfeedback.serve.trace.Span`."""

    def __init__(self, telemetry: Telemetry, span: Any, told: dict[str, Any], stream: bool) -> None:
        self._telemetry, self._span, self._told, self._stream = telemetry, span, told, stream
        self._began = time.monotonic()
        self._first: float | None = None
        self._tokens = dict[str, int]()
        self._reasons = list[str]()
        self._ended = False

    def __enter__(self) -> CallSpan:
        """Make it the parent of what is sent."""
        self._before = CURRENT.set(_trace(self._span))
        return self

    def __exit__(self, kind: Any, error: BaseException | None, where: Any) -> None:
        """End it if the call has failed; the rest of a stream comes later."""
        CURRENT.reset(self._before)
        if error is not None:
            self.end(error)

    def take(self, found: dict[str, Any]) -> None:
        """Note what an answer, or a chunk of one, says of itself."""
        if self._first is None and self._stream:
            self._first = time.monotonic() - self._began
        if isinstance(model := found.get("model"), str):
            # not of a metric, which would keep every name that upstreams ever tell
            self._span.set_attribute("gen_ai.response.model", model)
        for choice in found.get("choices") or ():
            if isinstance(choice, dict) and isinstance(reason := choice.get("finish_reason"), str):
                self._reasons.append(reason)
        usage = found.get("usage")
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else None
            for kind, count in (
                ("input_tokens", usage.get("prompt_tokens")),
                ("output_tokens", usage.get("completion_tokens")),
                ("cache_read.input_tokens", cached),
            ):
                if isinstance(count, int) and not isinstance(count, bool) and count >= 0:
                    self._tokens[kind] = count

    def end(self, error: BaseException | None = None) -> None:
        """End it, unless it has ended."""
        if self._ended:
            return
        self._ended = True
        told, all = self._told, self._telemetry
        if error is not None:
            ended = "cut" if isinstance(error, Exception) else "cancelled"
            told["error.type"] = getattr(error, "outcome", ended)
            self._span.set_status(StatusCode.ERROR)
        all.call_seconds.record(time.monotonic() - self._began, told)
        for kind in ("input", "output"):
            if f"{kind}_tokens" in self._tokens:
                all.tokens.record(self._tokens[f"{kind}_tokens"], {**told, "gen_ai.token.type": kind})
        if self._first is not None:
            all.first_seconds.record(self._first, told)
            self._span.set_attribute("gen_ai.response.time_to_first_chunk", self._first)
        if self._reasons:
            self._span.set_attribute("gen_ai.response.finish_reasons", self._reasons)
        self._span.set_attributes(
            {**told, **{f"gen_ai.usage.{kind}": count for kind, count in self._tokens.items()}}
        )
        self._span.end()


def _trace(span: Any) -> Trace:
    found = span.get_span_context()
    return Trace(
        format_trace_id(found.trace_id),
        format_span_id(found.span_id),
        f"{found.trace_flags:02x}",
        found.trace_state.to_header(),
    )


def _context(trace: Trace | None, remote: bool) -> Any:
    """Return the context of the library in which a span of this trace begins; that of a new one for None."""
    if trace is None:
        return Context()
    flags, state = TraceFlags(int(trace.flags, 16)), TraceState.from_header([trace.state])
    parent = SpanContext(int(trace.id, 16), int(trace.span, 16), remote, flags, state)
    return set_span_in_context(NonRecordingSpan(parent), Context())
