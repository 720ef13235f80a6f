"""Live spans of one run: made by the tracer provider of the process while the nodes run."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from agentrt.analysis import NodeRecord, RunRecord
from agentrt.base.ids import NodeId
from agentrt.base.trace_context import TraceContext
from agentrt.protocol.events import NodeKind, RunStarted
from agentrt.telemetry import names
from agentrt.telemetry.node_attributes import operation_of, span_title
from agentrt.telemetry.otel_context import context_below, trace_context
from agentrt.telemetry.run_clock import RunClock
from agentrt.telemetry.span import Attributes, SpanLink

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanContext, Tracer


_log = logging.getLogger("agentrt.telemetry")


class LiveRun:
    """The live spans of a run.

    Code of programs, tools and questions runs inside of its span, so what it opens hangs below.
    Nothing runs inside of a generation: its span begins when its request leaves for a remote
    engine, which has to know it, or else once the node has ended, in the thread that ends it: the
    loop does not wait for the provider.

    Args:
        tracer: Makes the spans.
        started: Start of the run, whose clock is that of the spans.
        parent: Context of the run's root.

    Attributes:
        record: Events of the run so far.
        root: Span of the run.
        start_us: First instant of the span of each such node.
    """

    def __init__(self, tracer: Tracer, started: RunStarted, parent: Context | None) -> None:
        from opentelemetry.context import get_current
        from opentelemetry.trace import SpanKind

        self.tracer = tracer
        self.clock = RunClock(started)
        self.record = RunRecord(started.run_id)
        self.start_us: dict[NodeId, int] = {}
        self._open: dict[NodeId, Span] = {}
        self._contexts: dict[NodeId, SpanContext] = {}  # of ended spans, too: a span is large
        self._declared: dict[NodeId, tuple[Context, float]] = {}
        self._ended: dict[NodeId, NodeRecord] = {}  # spans of these have yet to begin
        self._lock = threading.Lock()
        self._span_ids: dict[NodeId, str] = {}
        self._get_current = get_current
        self._has_failed = False
        self._remote_kind, self._kind = SpanKind.CLIENT, SpanKind.INTERNAL
        self.root: Span = tracer.start_span(
            span_title("program", started.program),
            parent,
            self._kind,
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
        return self._span_ids

    def declare(self, node_id: NodeId, at_s: float) -> None:
        """Note where a generation is declared: its span is a child of the span there."""
        self._declared[node_id] = (self._get_current(), at_s)

    def enter(self, node_id: NodeId, kind: NodeKind, name: str, at_s: float) -> None:
        """Begin the span of a node, as the current one of the calling task."""
        from opentelemetry.context import attach
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

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
            self._begin(node_id, "generate", name, at_s, is_remote=True)

    def context_of(self, node_id: NodeId | None) -> TraceContext:
        """The span of a node; that of the run if the node has none yet."""
        return trace_context(self._context_of(node_id))

    def note_end(self, node: NodeRecord) -> None:
        """Note that a node has ended; its span is to be taken, or left out."""
        if node.node_id not in self._contexts:
            self._ended[node.node_id] = node

    def take(self, node: NodeRecord) -> Span:
        """The span of a node that has ended; the caller ends it. Any thread may call this."""
        self._begin_ended(node)
        return self._open.pop(node.node_id)

    def leave_out(self, node: NodeRecord) -> None:
        """Make or end no span of a node that has ended."""
        for table in (self._ended, self._declared, self._open):
            table.pop(node.node_id, None)

    def link_to(self, node_id: NodeId) -> SpanLink | None:
        """A link to the span of a node; None if it has none yet."""
        if node_id not in self._contexts:
            return None
        found = self.context_of(node_id)
        return SpanLink(found.trace_id, found.span_id)

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
        """Begin the span of a node that has ended, unless it has begun."""
        node_id, declared = node.node_id, node.declared
        with self._lock:
            if self._ended.pop(node_id, None) is None:
                return
            at_s = max(declared.at_s, node.filled_at_s or 0.0)
            is_remote = bool(node.sent) and node.sent[-1].backend == "remote"
            self._begin(node_id, node.kind, node.name, at_s, declared.parent, is_remote=is_remote)

    def _begin(
        self,
        node_id: NodeId,
        kind: NodeKind,
        name: str,
        at_s: float,
        parent: NodeId | None = None,
        *,
        is_remote: bool = False,
    ) -> Span:
        from opentelemetry.trace import NonRecordingSpan, get_current_span

        if "/" not in node_id:  # the program itself
            span = self.root
        else:
            context = self._declared.pop(node_id, (None, 0.0))[0]
            if context is None and parent is not None:
                context = self.context_below(parent)
            given: Attributes = {names.OPERATION: operation_of(kind)} if kind != "ask" else {}
            given |= {names.NODE_ID: node_id, names.NODE_NAME: name}
            span_kind = self._remote_kind if is_remote else self._kind
            start_us = self.start_us[node_id] = self.clock.us(at_s)
            try:
                span = self.tracer.start_span(
                    span_title(kind, name), context, span_kind, given, start_time=start_us * 1000
                )
            except Exception as error:  # of a processor of the user
                self._note_failure(error)
                span = NonRecordingSpan(get_current_span(context).get_span_context())
        context_of_span = self._contexts[node_id] = span.get_span_context()
        self._open[node_id] = span
        self._span_ids[node_id] = f"{context_of_span.span_id:016x}"
        return span
