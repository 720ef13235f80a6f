"""Traces that the runs of a runtime belong to."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
from anyio import to_thread

from agentrt.base.errors import UsageError
from agentrt.base.trace_context import TraceContext, current_span, trace_context_of
from agentrt.protocol.events import RunStarted
from agentrt.runtime.observers import Observers
from agentrt.runtime.options import RunOptions
from agentrt.runtime.run_spans import RunSpans
from agentrt.telemetry.otel_context import ambient_span, is_api_loaded

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from agentrt.base.content_config import ContentChoice
    from agentrt.telemetry.live_spans import LiveSpans


class Tracing:
    """Finds the caller of each run, and has live spans made where a tracer provider is active.

    Args:
        provider: The tracer provider; None takes that of the process, as it is when a run begins.
        keep: Choice of what live spans have of prompts and answers; None leaves it to the
            environment.
    """

    def __init__(self, provider: TracerProvider | None, keep: ContentChoice | None) -> None:
        self._provider = provider
        self._keep = keep
        self._live: LiveSpans | None = None

    def begin_run(
        self, started: RunStarted, options: RunOptions, observers: Observers
    ) -> tuple[RunStarted, RunSpans]:
        """The spans of a run that begins, and its start with the trace that it belongs to.

        The caller is the one that the options name, or else the current OpenTelemetry span, or else
        the tool or the request of a server that the calling code belongs to.

        Raises:
            UsageError: The caller in the options is malformed.
        """
        named = _named_caller(options)
        caller = named or ambient_span() or _current_caller()
        live = self._live_spans()
        live_run = None if live is None else live.begin_run(started, named)
        if live is not None and live_run is not None:
            observers.add(live)
            started = replace(started, caller=caller, trace_id=live_run.trace_id)
        elif caller is not None:
            started = replace(started, caller=caller)
        spans = RunSpans(started.run_id, caller, live_run, is_recorded=observers.make_spans)
        return started, spans

    async def aclose(self) -> None:
        """Hand all spans to the tracer provider, even while the caller is being cancelled."""
        if self._live is not None and self._live.has_begun:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._live.close)

    def _live_spans(self) -> LiveSpans | None:
        """Live spans, if there may be a provider: without OpenTelemetry's API there is none."""
        if self._live is None and (self._provider is not None or is_api_loaded()):
            from agentrt.telemetry.live_spans import LiveSpans

            self._live = LiveSpans(os.environ, self._provider, keep=self._keep)
        return self._live


def _current_caller() -> TraceContext | None:
    span = current_span.get()
    return None if span is None else span.context


def _named_caller(options: RunOptions) -> TraceContext | None:
    if options.traceparent is None:
        return None
    found = trace_context_of(options.traceparent, options.tracestate)
    if found is None:
        raise UsageError(
            f"traceparent {options.traceparent!r} is malformed",
            hint="Give the header as it came, 00-<32 hex digits>-<16 hex digits>-01, or leave it "
            "out to take the current OpenTelemetry span",
        )
    return found
