"""The spans of a run as others see them: its engines, its tools, and the logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrt.base.ids import NodeId, RunId, span_id_of, trace_id_of
from agentrt.base.record import record
from agentrt.base.trace_context import TraceContext, current_span
from agentrt.program import Node
from agentrt.telemetry.otel_context import enter_span, is_api_loaded

if TYPE_CHECKING:
    from agentrt.telemetry.live_run import LiveRun


class RunSpans:
    """Trace context of the nodes of one run.

    With a tracer provider in the process, its spans are live. Without one, the spans are built
    after the run, and their ids are known before. If the run is not recorded, engines and tools get
    the caller's span as it is, so that they still join its trace.

    Args:
        run_id: The run.
        caller: Span of the caller, or None.
        live: Live spans of the run, or None.
        is_recorded: Whether an observer makes spans of the run's events.

    Attributes:
        run_id: The run.
        live: Live spans of the run, or None.
        are_told: Whether there is anything to tell engines and tools.
    """

    def __init__(
        self,
        run_id: RunId,
        caller: TraceContext | None,
        live: LiveRun | None,
        *,
        is_recorded: bool,
    ) -> None:
        self.run_id = run_id
        self.live = live
        self._caller = caller
        self._is_recorded = is_recorded
        self._trace_id = trace_id_of(run_id) if is_recorded else ""
        self._has_clients = is_api_loaded()
        self.are_told = is_recorded or live is not None or caller is not None

    def context_of(self, node_id: NodeId | None) -> TraceContext | None:
        """The span of a node, or of the run; None if it is not recorded and has no caller."""
        if self.live is not None:
            return self.live.context_of(node_id)
        if not self._is_recorded or node_id is None:
            return self._caller
        span_id, caller = span_id_of(self.run_id, node_id), self._caller
        if caller is None:
            return TraceContext(self._trace_id, span_id)
        return TraceContext(caller.trace_id, span_id, caller.flags, caller.state)

    def enter(self, node: Node[object], at_s: float) -> None:
        """Make the span of a node the current one of the calling task."""
        current_span.set(NodeSpan(self, node.id))
        if self.live is not None:
            self.live.enter(node.id, node.kind, node.name, at_s)
        elif self._has_clients:
            enter_span(self.context_of(node.id))

    def enter_program(self, node_id: NodeId) -> None:
        """Make the span of a program the current one, for work that no node has asked for."""
        current_span.set(NodeSpan(self, node_id))
        enter_span(self.context_of(node_id))

    def traceparent(self, node: Node[object], filled_at_s: float | None) -> str:
        """The header of the request of a generation, which is complete.

        Args:
            node: The generation.
            filled_at_s: Arrival of the last part of its prompt; None if it was declared complete.
        """
        if self.live is not None:
            self.live.begin_request(node.id, node.name, filled_at_s)
        return _header(self.context_of(node.id))

    def program_traceparent(self, node: Node[object]) -> str:
        """The header of work that is done before a node can run, for its program."""
        return _header(self.context_of(node.scope.owner))


@record
class NodeSpan:
    """The span of the node whose code runs.

    Attributes:
        spans: Spans of its run.
        node_id: The node.
    """

    spans: RunSpans
    node_id: NodeId

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.spans.run_id

    @property
    def context(self) -> TraceContext | None:
        """The span; None if the run is not recorded and its caller has none."""
        return self.spans.context_of(self.node_id)


def _header(found: TraceContext | None) -> str:
    return "" if found is None else found.traceparent()
