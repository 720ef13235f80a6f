"""Traces to a collector over OTLP/HTTP.

Loaded only if an endpoint is set: the SDK and its exporter take 160 ms to import. A collector that
does not answer costs one warning and the spans, never the run.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from agentrt.telemetry import names
from agentrt.telemetry.otel_context import context_below, span_context
from agentrt.telemetry.resource import resources_of
from agentrt.telemetry.span import Span, Trace

QUEUE_SPANS = 65_536
BATCH_SPANS = 512
DELAY_MS = 500
FLUSH_S = 5.0
TIMEOUT_S = 2.0  # limit of one request, so that a dead collector costs a second, not ten
_SCOPE = InstrumentationScope(names.SCOPE)
_NOISY = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.sdk._shared_internal",
)
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_KINDS = {kind.name.lower(): kind for kind in SpanKind}


class OtlpExport:
    """Passes spans to OpenTelemetry's batch processor, and counts those that were lost.

    Args:
        endpoint: Full address of the collector's traces path.
        environment: Source of resource attributes; headers, timeout, compression, certificates,
            sampler, limits and queue sizes are read from the process environment by the SDK.
        warn: Called once, with one line, if spans are lost.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        environment: Mapping[str, str] | None = None,
        warn: Callable[[str], None],
    ) -> None:
        environment = os.environ if environment is None else environment
        for name in _NOISY:  # the SDK logs every failed batch; reported once here
            logging.getLogger(name).setLevel(logging.CRITICAL)
        timed = any(name in environment for name in _TIMEOUTS)
        exporter = OTLPSpanExporter(endpoint=endpoint, timeout=None if timed else TIMEOUT_S)
        self._counted = _Counted(exporter)
        queue = _positive_int(environment, "OTEL_BSP_MAX_QUEUE_SIZE", QUEUE_SPANS)
        batch = _positive_int(environment, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", BATCH_SPANS)
        delay = _positive_int(environment, "OTEL_BSP_SCHEDULE_DELAY", DELAY_MS)
        self._processor = BatchSpanProcessor(
            self._counted,
            max_queue_size=queue,
            schedule_delay_millis=delay,
            max_export_batch_size=min(batch, queue),
        )
        self._max_spans = queue
        self._endpoint = endpoint
        self._warn = warn
        self._warned = False
        self._resources = {
            service: Resource.create(attributes)
            for service, attributes in resources_of(environment).items()
        }
        self._limits = SpanLimits()
        self._sampler: Sampler = TracerProvider(shutdown_on_exit=False).sampler

    @property
    def dropped_spans(self) -> int:
        """Spans lost so far: the queue was full, or the collector refused them."""
        return self._counted.dropped_spans

    def export(self, traces: Sequence[Trace]) -> None:
        """Queue the spans of sampled traces; never waits for the collector."""
        for trace in traces:
            if not self._sampled(trace):
                continue
            for span in trace.spans:
                if self._counted.add_waiting(+1) > self._max_spans:
                    self._counted.count_lost(1)
                else:
                    self._processor.on_end(self._readable(span, trace))

    def flush(self, timeout_s: float = FLUSH_S) -> bool:
        """Send the queue, for at most `timeout_s`; False if some spans are left or were lost."""
        # The processor's own force_flush ignores its timeout.
        thread = threading.Thread(target=self._processor.force_flush, daemon=True)
        thread.start()
        thread.join(timeout_s)
        self._report_lost(unanswered=thread.is_alive())
        return not thread.is_alive() and not self.dropped_spans

    def close(self, timeout_s: float = FLUSH_S) -> None:
        """Flush and end, for at most `timeout_s`."""
        if not self.flush(timeout_s):
            self._counted.shutdown()  # ends running retries
        closing = threading.Thread(target=self._processor.shutdown, daemon=True)
        closing.start()
        closing.join(0.5)

    def _sampled(self, trace: Trace) -> bool:
        root, caller = trace.spans[0], trace.caller
        above = None if caller is None else context_below(span_context(caller, is_remote=True))
        result = self._sampler.should_sample(
            above, int(trace.trace_id, 16), root.name, _KINDS[root.kind], root.attributes
        )
        return result.decision is Decision.RECORD_AND_SAMPLE

    def _report_lost(self, *, unanswered: bool) -> None:
        lost = self.dropped_spans + (self._counted.add_waiting(0) if unanswered else 0)
        if lost and not self._warned:
            self._warned = True
            self._warn(f"{lost} spans did not reach {self._endpoint}: {self._counted.reason}")

    def _readable(self, span: Span, trace: Trace) -> ReadableSpan:
        trace_id, caller = int(trace.trace_id, 16), trace.caller
        parent = None if span.parent_id is None else _context(trace_id, span.parent_id)
        if caller is not None and span.parent_id == caller.span_id:
            parent = span_context(caller, is_remote=True)
        failed = span.error is not None
        return ReadableSpan(
            name=span.name,
            context=_context(trace_id, span.span_id),
            parent=parent,
            resource=self._resources[span.service],
            attributes=span.attributes,
            events=[
                Event(event.name, event.attributes, event.at_us * 1000)
                for event in span.events[: self._limits.max_events]
            ],
            links=[
                Link(_context(int(link.trace_id, 16), link.span_id), link.attributes)
                for link in span.links[: self._limits.max_links]
            ],
            kind=_KINDS[span.kind],
            status=Status(StatusCode.ERROR, span.error) if failed else Status(),
            start_time=span.start_us * 1000,
            end_time=span.end_us * 1000,
            instrumentation_scope=_SCOPE,
        )


class _Counted(SpanExporter):
    """Counts the spans that an exporter could not deliver."""

    def __init__(self, inner: SpanExporter) -> None:
        self._inner = inner
        self._lock = threading.Lock()
        self._waiting = 0
        self.dropped_spans = 0
        self.reason = "no answer"
        self._over = False

    def add_waiting(self, more: int) -> int:
        """Change the number of spans in the queue by `more` and return it."""
        with self._lock:
            self._waiting += more
            return self._waiting

    def count_lost(self, count: int) -> None:
        """Count spans as lost for lack of room."""
        with self._lock:
            self._waiting -= count
            self.dropped_spans += count
            self.reason = "the queue is full"

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            result = self._inner.export(spans)
        finally:
            with self._lock:
                self._waiting -= len(spans)
                if result is not SpanExportResult.SUCCESS:
                    self.dropped_spans += len(spans)
        return result

    def shutdown(self) -> None:
        if not self._over:
            self._over = True
            self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._inner.force_flush(timeout_millis)


def _positive_int(environment: Mapping[str, str], name: str, default: int) -> int:
    """A positive integer in the environment; like the SDK, ignores anything else."""
    given = environment.get(name, "").strip()
    return int(given) if given.isdecimal() and int(given) > 0 else default


def _context(trace_id: int, span_id: str) -> SpanContext:
    return SpanContext(trace_id, int(span_id, 16), False, TraceFlags(TraceFlags.SAMPLED))
