"""Spans of requests: each of the server's own, between the span of its client and its run.

Names and attributes are those of OpenTelemetry's HTTP conventions.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.trace_context import (
    TRACEPARENT,
    TRACESTATE,
    TraceContext,
    current_span,
    trace_context_of,
)
from agentrt.telemetry.otel_context import (
    active_tracer,
    context_below,
    span_context,
    trace_context,
    within_span,
)
from agentrt.telemetry.span import Attributes, Span, Trace

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.trace import TracerProvider

    from agentrt.telemetry import SpanObserver

_METHODS = ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
_OTHER = "_OTHER"
_SERVER_ERROR = 500


class RequestSpan:
    """The span of one request.

    Args:
        plain: The span as a plain value.
        caller: Span of the client, or None.
        context: The span for runs below it; that of the client if this one is not recorded.
        live: The span of the tracer provider, or None.

    Attributes:
        status: Status of the response; None as long as there is none.
        run_id: No run has begun.
    """

    run_id = ""

    def __init__(
        self,
        plain: Span,
        caller: TraceContext | None,
        context: TraceContext | None,
        live: trace.Span | None,
    ) -> None:
        self.plain = plain
        self.caller = caller
        self.context = context
        self.live = live
        self.status: int | None = None


class RequestSpans:
    """Makes the spans of a server's requests.

    Args:
        observer: Exports them if no tracer provider is active; None leaves them out, and runs get
            their client's span itself as their parent.
        provider: The tracer provider; None takes that of the process.
        clock: Source of instants on the calendar.
    """

    def __init__(
        self,
        observer: SpanObserver | None = None,
        provider: TracerProvider | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._observer = observer
        self._provider = provider
        self._clock = clock or MonotonicClock()

    @contextmanager
    def span_of(self, scope: Mapping[str, Any], route: str) -> Iterator[RequestSpan]:
        """A block in which the span of a request is the current one; its end ends the span.

        Args:
            scope: The request, as ASGI has it.
            route: Path of the route that it matches; "" for none.
        """
        span = self._begin(scope, route)
        token = current_span.set(span)
        try:
            with within_span(span.live or span.context):
                yield span
        finally:
            current_span.reset(token)
            self._end(span)

    def _begin(self, scope: Mapping[str, Any], route: str) -> RequestSpan:
        headers = dict(scope["headers"])
        caller = _caller(headers)
        method = scope["method"] if scope["method"] in _METHODS else _OTHER
        name = f"{'HTTP' if method == _OTHER else method} {route}".rstrip()
        start_ns = self._clock.unix_ns()
        plain = Span(name, secrets.token_hex(8), None, start_ns // 1000, 0, kind="server")
        plain.attributes = _attributes(scope, headers, method, route)
        if (tracer := active_tracer(self._provider)) is not None:
            from opentelemetry.trace import SpanKind

            above = None if caller is None else context_below(span_context(caller, is_remote=True))
            given = plain.attributes
            live = tracer.start_span(name, above, SpanKind.SERVER, given, start_time=start_ns)
            return RequestSpan(plain, caller, trace_context(live.get_span_context()), live)
        if self._observer is None or not self._observer.makes_spans:
            return RequestSpan(plain, caller, caller, None)
        own = TraceContext(secrets.token_hex(16), plain.span_id)
        if caller is not None:
            plain.parent_id = caller.span_id
            own = replace(caller, span_id=plain.span_id)
        return RequestSpan(plain, caller, own, None)

    def _end(self, span: RequestSpan) -> None:
        plain, end_ns = span.plain, self._clock.unix_ns()
        plain.end_us = max(plain.start_us + 1, end_ns // 1000)
        failed = span.status is not None and span.status >= _SERVER_ERROR
        if span.status is not None:
            plain.attributes["http.response.status_code"] = span.status
        if failed:
            plain.attributes["error.type"] = str(span.status)
            plain.error = ""
        if span.live is not None:
            from opentelemetry.trace import Status, StatusCode

            span.live.set_attributes(plain.attributes)
            if failed:
                span.live.set_status(Status(StatusCode.ERROR))
            span.live.end(end_ns)
        elif self._observer is not None and span.context is not None:
            trace_id = span.context.trace_id
            self._observer.add_trace(Trace(trace_id, plain.name, (plain,), span.caller))


def _caller(headers: Mapping[bytes, bytes]) -> TraceContext | None:
    """The span of the client; a malformed header counts as none, as W3C asks."""
    given = headers.get(TRACEPARENT.encode(), b"").decode("latin-1")
    state = headers.get(TRACESTATE.encode(), b"").decode("latin-1")
    return trace_context_of(given, state) if given else None


def _attributes(
    scope: Mapping[str, Any], headers: Mapping[bytes, bytes], method: str, route: str
) -> Attributes:
    """Attributes that the conventions ask for."""
    found: Attributes = {
        "http.request.method": method,
        "url.path": scope["path"],
        "url.scheme": scope.get("scheme", "http"),
    }
    if method == _OTHER:
        found["http.request.method_original"] = scope["method"][:32]
    if route:
        found["http.route"] = route
    if scope.get("server"):
        address, port = scope["server"]
        found["server.address"] = address
        if port:
            found["server.port"] = port
    if scope.get("client"):
        found["client.address"] = scope["client"][0]
    if agent := headers.get(b"user-agent"):
        found["user_agent.original"] = agent.decode("latin-1")[:256]
    if version := scope.get("http_version"):
        found["network.protocol.version"] = version
    return found
