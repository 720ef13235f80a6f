"""OpenTelemetry's API, as far as a run joins the traces of its process.

Its import takes 100 ms. A process that has not loaded it has no current span, no tracer provider
and no instrumented client, so nothing here loads it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentrt.base.trace_context import TraceContext
from agentrt.telemetry.names import SCOPE

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Tracer, TracerProvider

_API = "opentelemetry.trace"


def is_api_loaded() -> bool:
    """Whether the process has loaded OpenTelemetry's API."""
    return _API in sys.modules


def ambient_span() -> TraceContext | None:
    """The current span of the calling code; None without one."""
    if not is_api_loaded():
        return None
    from opentelemetry import trace

    found = trace.get_current_span().get_span_context()
    return trace_context(found) if found.is_valid else None


def trace_context(found: SpanContext) -> TraceContext:
    """A span's context as ours."""
    return TraceContext(
        f"{found.trace_id:032x}",
        f"{found.span_id:016x}",
        int(found.trace_flags),
        found.trace_state.to_header() if found.trace_state else "",
    )


def span_context(given: TraceContext, *, is_remote: bool) -> SpanContext:
    """Our context of a span as OpenTelemetry's."""
    from opentelemetry.trace import SpanContext, TraceFlags, TraceState

    state = TraceState.from_header([given.state]) if given.state else TraceState()
    return SpanContext(
        int(given.trace_id, 16),
        int(given.span_id, 16),
        is_remote,
        TraceFlags(given.flags),
        trace_state=state,
    )


def context_below(given: SpanContext, context: Context | None = None) -> Context:
    """A context in which new spans are children of the given one."""
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    return set_span_in_context(NonRecordingSpan(given), context)


def enter_span(given: TraceContext | None) -> None:
    """Let clients that the current task uses pass this span on; it has no effect on others."""
    if given is None or _API not in sys.modules:
        return
    from opentelemetry.context import attach
    from opentelemetry.trace import (
        NonRecordingSpan,
        SpanContext,
        TraceFlags,
        TraceState,
        set_span_in_context,
    )

    state = TraceState.from_header([given.state]) if given.state else None
    trace_id, span_id = int(given.trace_id, 16), int(given.span_id, 16)
    found = SpanContext(trace_id, span_id, False, TraceFlags(given.flags), state)
    attach(set_span_in_context(NonRecordingSpan(found)))  # once a node: without calls in between


@contextmanager
def within_span(span: Span | TraceContext | None) -> Iterator[None]:
    """A block in which this is the current span; None leaves the current one.

    Args:
        span: A span of a provider, or the context of one that is built later.
    """
    if span is None or not is_api_loaded():
        yield
        return
    from opentelemetry.context import attach, detach
    from opentelemetry.trace import set_span_in_context

    if isinstance(span, TraceContext):
        context = context_below(span_context(span, is_remote=False))
    else:
        context = set_span_in_context(span)
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def active_tracer(provider: TracerProvider | None) -> Tracer | None:
    """A tracer of a provider that makes spans; None without one.

    Args:
        provider: The provider; None takes that of the process.
    """
    if provider is None:
        if not is_api_loaded():
            return None
        from opentelemetry.trace import get_tracer_provider

        provider = get_tracer_provider()
    from opentelemetry.trace import NoOpTracer, NoOpTracerProvider, ProxyTracerProvider

    if isinstance(provider, ProxyTracerProvider | NoOpTracerProvider):
        return None
    tracer = provider.get_tracer(SCOPE)
    return None if isinstance(tracer, NoOpTracer) else tracer
