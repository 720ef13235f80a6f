"""Spans as plain values, before any exporter gives them a form.

Instants are whole microseconds since 1970: what Jaeger shows, and exact as an integer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentrt.base.record import record
from agentrt.protocol.events import AttributeValue

Lane = Literal["runtime", "engine"]
SpanKind = Literal["internal", "server", "client", "producer", "consumer"]
Attributes = dict[str, AttributeValue]


@record
class SpanEvent:
    """A moment within a span."""

    name: str
    at_us: int
    attributes: Attributes = field(default_factory=dict)


@record
class SpanLink:
    """Another span that this one has to do with, in the same trace or another."""

    trace_id: str
    span_id: str
    attributes: Attributes = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Span:
    """A stretch of time with a name.

    Attributes:
        name: Low in cardinality.
        span_id: 16 hex digits.
        parent_id: The span it is part of; None for a root.
        start_us: First instant.
        end_us: Instant after the last, at least `start_us + 1`.
        lane: Service it belongs to.
        kind: OpenTelemetry's span kind.
        attributes: By name.
        events: In order of time.
        links: To spans it depends on.
        error: Message when it failed.
    """

    name: str
    span_id: str
    parent_id: str | None
    start_us: int
    end_us: int
    lane: Lane = "runtime"
    kind: SpanKind = "internal"
    attributes: Attributes = field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    error: str | None = None


@record
class Trace:
    """Spans that belong together; the first is a root.

    Attributes:
        trace_id: 32 hex digits.
        name: For file names and lists.
        spans: Parents before children.
    """

    trace_id: str
    name: str
    spans: tuple[Span, ...]


class SpanIds:
    """Span ids of one trace: distinct, never zero, the same for the same run."""

    def __init__(self, trace_id: str) -> None:
        self._base = int(trace_id[:16], 16)
        self._count = 0

    def next(self) -> str:
        """An id not given before."""
        self._count += 1
        value = (self._base + self._count) & 0xFFFF_FFFF_FFFF_FFFF
        return f"{value:016x}" if value else self.next()
