"""Spans as plain values, independent of an exporter.

Instants are whole microseconds since 1970: the resolution of Jaeger, and exact as an integer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from agentrt.base.record import record
from agentrt.base.trace_context import TraceContext
from agentrt.protocol.events import AttributeValue

Service = Literal["runtime", "engine"]
SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
Attributes = dict[str, AttributeValue]


@record
class SpanEvent:
    """An event at one instant of a span."""

    name: str
    at_us: int
    attributes: Attributes = field(default_factory=dict)


@record
class SpanLink:
    """A related span, in the same trace or another."""

    trace_id: str
    span_id: str
    attributes: Attributes = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Span:
    """A named interval of time.

    Attributes:
        name: Name of low cardinality.
        span_id: 16 hex digits.
        parent_id: Parent span; None for a root.
        start_us: First instant.
        end_us: Instant after the last, at least `start_us + 1`.
        service: Service of the span.
        kind: OpenTelemetry's span kind.
        attributes: Attributes by name.
        events: Events in order of time.
        links: Links to spans that it depends on.
        error: Message of a failure.
    """

    name: str
    span_id: str
    parent_id: str | None
    start_us: int
    end_us: int
    service: Service = "runtime"
    kind: SpanKind = "internal"
    attributes: Attributes = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    error: str | None = None


@record
class Trace:
    """The spans of a run in one trace; the first is the root of the run.

    Attributes:
        trace_id: 32 hex digits.
        name: Name for files and lists.
        spans: Spans, parents before children.
        caller: Parent of the root, which is recorded elsewhere; None if the root has none.
    """

    trace_id: str
    name: str
    spans: tuple[Span, ...]
    caller: TraceContext | None = None


def span_ids(trace_id: str) -> Iterator[str]:
    """Span ids of one trace: distinct, never zero, the same for the same run."""
    base = int(trace_id[:16], 16)
    for count in itertools.count(1):
        if value := (base + count) & 0xFFFF_FFFF_FFFF_FFFF:
            yield f"{value:016x}"
