"""Live spans of one run: made by the tracer provider of the process while the nodes run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from agentrt.analysis import NodeRecord, RunRecord
from agentrt.base.ids import NodeId
from agentrt.base.trace_context import TraceContext
from agentrt.protocol.events import NodeKind, RunStarted
from agentrt.telemetry import names
from agentrt.telemetry.content import Capture
from agentrt.telemetry.node_attributes import operation_of, span_kind, span_title
from agentrt.telemetry.node_spans import NodeDescriptions, linked_nodes
from agentrt.telemetry.otel_context import context_below, trace_context
from agentrt.telemetry.run_clock import RunClock
from agentrt.telemetry.span import Attributes
from agentrt.telemetry.span import Span as PlainSpan

_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
_log = logging.getLogger("agentrt.telemetry")


class LiveRun:
    """The live spans of a run.

    Code of programs, tools and questions runs inside of its span, so what it opens hangs below.
    Nothing runs inside of a generation: its span begins when its request leaves for a remote
    engine, which has to know it, or else once the node has ended, in the thread that ends it: the
    loop does not wait for the provider. Such a span begins with all that is known of its node: what
    is written on a span later costs the provider as much again.

    Args:
        tracer: Makes the spans.
        started: Start of the run, whose clock is that of the spans.
        parent: Context of the run's root.
        capture: Destination of message content, if any.

    Attributes:
        record: Events of the run so far, which another observer collects.
        descriptions: Writer of attributes and events on spans of nodes.
        root: Span of the run.
        start_us: First instant of the span of each such node.
    """

    def __init__(
        self,
        tracer: Tracer,
        started: RunStarted,
        parent: Context | None,
        capture: Capture = "NO_CONTENT",
    ) -> None:
        self.tracer = tracer
        self.clock = RunClock(started)
        self.descriptions = NodeDescriptions(self.clock, capture)
        self.record = RunRecord(started.run_id)
        self.start_us: dict[NodeId, int] = {}
        self._open: dict[NodeId, Span] = {}
        self._contexts: dict[NodeId, SpanContext] = {}  # of ended spans, too: a span is large
        self._declared: dict[NodeId, tuple[Context, float]] = {}
        self._ended: dict[NodeId, NodeRecord] = {}  # spans of these have yet to begin
        self._lock = threading.Lock()
        self._has_failed = False
        self.root: Span = tracer.start_span(
            span_title("program", started.program),
            parent,
            SpanKind.INTERNAL,
            {names.OPERATION: operation_of("program"), names.RUN_ID: started.run_id},
            start_time=self.clock.us(started.at_s) * 1000,
        )

    @property
    def is_recorded(self) -> bool:
        """Whether the provider's sampler has taken the run."""
        return self.root.is_recording()

    @property
    def trace_id(self) -> str:
        """Trace of the run, 32 hex digits."""
        return trace_context(self.root.get_span_context()).trace_id

    @property
    def span_ids(self) -> dict[NodeId, str]:
        """Id of the span of each node that has begun one, or has ended: those begin now."""
        for node in tuple(self._ended.values()):
            self._begin_ended(node)
        with self._lock:  # a span may be about to begin in the other thread
            contexts = tuple(self._contexts.items())
        return {node_id: f"{context.span_id:016x}" for node_id, context in contexts}

    def declare(self, node_id: NodeId, at_s: float) -> None:
        """Note where a generation is declared: its span is a child of the span there."""
        self._declared[node_id] = (get_current(), at_s)

    def enter(self, node_id: NodeId, kind: NodeKind, name: str, at_s: float) -> None:
        """Begin the span of a node, as the current one of the calling task."""
        span = self._open.get(node_id)
        if span is None and node_id in self._contexts:
            span = NonRecordingSpan(self._contexts[node_id])  # it has ended
        attach(set_span_in_context(span or self._begin(node_id, kind, name, at_s)))

    def begin_request(self, node_id: NodeId, name: str, filled_at_s: float | None) -> None:
        """Begin the span of a generation whose request leaves for a remote engine.

        Args:
            node_id: The generation.
            name: Name of the node.
            filled_at_s: Arrival of the last part of its prompt; None if it was declared complete.
        """
        if node_id in self._declared and node_id not in self._contexts:
            at_s = self._declared[node_id][1] if filled_at_s is None else filled_at_s
            self._begin(node_id, "generate", name, at_s, kind_of_span=SpanKind.CLIENT)

    def context_of(self, node_id: NodeId | None) -> TraceContext:
        """The span of a node; that of the run if the node has none yet."""
        return trace_context(self._context_of(node_id))

    def note_end(self, node: NodeRecord) -> None:
        """Note that a node has ended; its span is to be taken, or left out."""
        if node.node_id not in self._contexts:
            self._ended[node.node_id] = node

    def begin_us(self, node: NodeRecord) -> int:
        """First instant of the span of a node that has ended."""
        known = self.start_us.get(node.node_id)
        return self.clock.us(_began_at_s(node)) if known is None else known

    def take(self, node: NodeRecord, plain: PlainSpan) -> tuple[Span, bool]:
        """The span of a node that has ended; the caller ends it. Any thread may call this.

        Args:
            node: The node.
            plain: The span with all that is known of the node.

        Returns:
            The span, and whether it has begun with its attributes and the links of the node.
        """
        node_id = node.node_id
        with self._lock:
            if self._ended.pop(node_id, None) is None:
                return self._open.pop(node_id), False
            context = self._context_for(node_id, node.declared.parent)
            kind, links = _KINDS[span_kind(node)], self.links_of(node)
            at_us, given = plain.start_us, plain.attributes
            return self._start(node_id, plain.name, context, kind, given, at_us, links), True

    def leave_out(self, node: NodeRecord) -> None:
        """Make or end no span of a node that has ended."""
        for table in (self._ended, self._declared, self._open):
            table.pop(node.node_id, None)

    def links_of(self, node: NodeRecord) -> list[Link]:
        """Links to the nodes that a node has needed, as far as they have spans."""
        links: list[Link] = []
        for node_id, how in linked_nodes(node):
            context = self._contexts.get(node_id)
            if context is not None:
                links.append(Link(context, {names.LINK: how}))
        return links

    def context_below(self, node_id: NodeId) -> Context:
        """A context in which new spans are children of a node's."""
        return context_below(self._context_of(node_id))

    def left(self) -> list[Span]:
        """Spans of nodes that have not ended, the innermost first."""
        return [span for span in reversed(self._open.values()) if span is not self.root]

    def _context_of(self, node_id: NodeId | None) -> SpanContext:
        found = None if node_id is None else self._contexts.get(node_id)
        return self.root.get_span_context() if found is None else found

    def _note_failure(self, error: Exception) -> None:
        if not self._has_failed:
            self._has_failed = True
            _log.warning("telemetry: the tracer provider makes no span: %r", error)

    def _begin_ended(self, node: NodeRecord) -> None:
        """Begin the span of a node that has ended with its ids, unless it has begun."""
        with self._lock:
            if self._ended.pop(node.node_id, None) is not None:
                at_s, parent, kind = _began_at_s(node), node.declared.parent, span_kind(node)
                self._begin(node.node_id, node.kind, node.name, at_s, parent, _KINDS[kind])

    def _begin(
        self,
        node_id: NodeId,
        kind: NodeKind,
        name: str,
        at_s: float,
        parent: NodeId | None = None,
        kind_of_span: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        """Begin the span of a node of which only ids are known."""
        if "/" not in node_id:  # the program itself
            self._contexts[node_id] = self.root.get_span_context()
            self._open[node_id] = self.root
            return self.root
        given: Attributes = {names.OPERATION: operation_of(kind)} if kind != "ask" else {}
        given |= {names.NODE_ID: node_id, names.NODE_NAME: name}
        start_us = self.start_us[node_id] = self.clock.us(at_s)
        context = self._context_for(node_id, parent)
        title = span_title(kind, name)
        span = self._start(node_id, title, context, kind_of_span, given, start_us)
        self._open[node_id] = span
        return span

    def _context_for(self, node_id: NodeId, parent: NodeId | None) -> Context | None:
        """Context of a new span: that of its declaration, or else that of its parent's span."""
        context = self._declared.pop(node_id, (None, 0.0))[0]
        if context is None and parent is not None:
            return self.context_below(parent)
        return context

    def _start(
        self,
        node_id: NodeId,
        title: str,
        context: Context | None,
        kind: SpanKind,
        attributes: Attributes,
        start_us: int,
        links: Sequence[Link] = (),
    ) -> Span:
        try:
            span = self.tracer.start_span(
                title, context, kind, attributes, links, start_time=start_us * 1000
            )
        except Exception as error:  # of a processor of the user
            self._note_failure(error)
            span = NonRecordingSpan(get_current_span(context).get_span_context())
        self._contexts[node_id] = span.get_span_context()
        return span


def _began_at_s(node: NodeRecord) -> float:
    """Instant of the last input of a node that has ended."""
    return max(node.declared.at_s, node.filled_at_s or 0.0)
