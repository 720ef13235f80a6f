"""The spans of a finished run, built from its record."""

from __future__ import annotations

from dataclasses import replace

from agentrt.analysis import (
    Causes,
    NodeRecord,
    RunRecord,
    Split,
    critical_path,
    slack_s,
    split,
    stages,
    work_s,
)
from agentrt.analysis.stage import Label
from agentrt.base.ids import NodeId, span_id_of, trace_id_of
from agentrt.telemetry import names
from agentrt.telemetry.background import Background
from agentrt.telemetry.content import Capture
from agentrt.telemetry.node_attributes import (
    node_attributes,
    run_attributes,
    span_kind,
    span_name,
)
from agentrt.telemetry.node_spans import NodeDescriptions, linked_nodes
from agentrt.telemetry.span import Attributes, Span, SpanLink, Trace, span_ids
from agentrt.telemetry.timeline import GAP_US, Timeline

_LEAST_STAGE_US = 100
"""A shorter stage has no span, which could not be seen, and is an attribute of its generation."""
_SHORT_S = (_LEAST_STAGE_US - 2) / 1e6
"""A stage that is shorter has no span, whatever its ends are rounded to."""

_ENGINE_STAGES = {"queue", "kv_reload", "constraint", "prefill", "decode"}


def build(record: RunRecord, capture: Capture = "NO_CONTENT") -> Trace:
    """The trace of a finished run, however it ended.

    Args:
        record: The run.
        capture: Destination of message content, if any.
    """
    return TraceBuilder(record, capture).whole()


class TraceBuilder:
    """Builds the trace of a finished run, in two steps.

    Where the spans are and what lies below the nodes takes the whole run; that is done at once.
    What is known of each node takes its own events: live spans have told it when the run ends.

    Args:
        record: The run.
        capture: Destination of message content, if any.

    Attributes:
        outline: The trace with all of its spans; those of nodes are not described. The span of the
            run is: it has what the whole run alone can tell.
    """

    def __init__(self, record: RunRecord, capture: Capture) -> None:
        self._record = record
        self._run_id = record.run_id
        self._trace_id = record.trace_id
        self._ids = span_ids(trace_id_of(self._run_id))
        self._causes = Causes(record)
        self._path = critical_path(record, self._causes)
        self._timeline = Timeline(record, self._causes)
        self._clock = self._timeline.clock
        self._descriptions = NodeDescriptions(self._clock, capture)
        self._background = Background(record, self._path, self._timeline)
        self._spans: list[Span] = []
        self._of_node: dict[NodeId, Span] = {}
        self._live_ids = record.finished.span_ids if record.finished else {}
        self.outline = self._drawn()

    def whole(self) -> Trace:
        """The trace with everything in it; call it once.

        The spans of nodes are those of the outline, that of the run is another.
        """
        from agentrt.telemetry.graph_attributes import GraphAttributes  # once a run has ended

        root, *others = self.outline.spans
        root = replace(root, attributes=dict(root.attributes))
        root_node = self._record.root
        slack_of = slack_s(self._record, self._causes)
        graph = GraphAttributes(self._record, self._causes)
        for node in self._record.nodes.values():
            if node is root_node:
                span = root
            else:
                span = self._of_node[node.node_id]
                stages, span.attributes = span.attributes, node_attributes(node)
                self._describe(span, node)
                span.attributes.update(stages)
            slack_ms = round(slack_of.get(node.node_id, 0.0) * 1e6) / 1e3
            span.attributes[names.NODE_SLACK_MS] = slack_ms
            span.attributes[names.CRITICAL] = node.node_id in self._background.critical
            span.attributes.update(graph.of(node))
        return replace(self.outline, spans=(root, *others))

    def _drawn(self) -> Trace:
        started = self._record.started
        name = started.program if started else "run"
        if self._record.root is None:
            self._bare_root(name)
        for node in self._record.nodes.values():
            self._node(node)
        self._spans[0].attributes.update(self._run_attributes())
        caller = started.caller if started else None
        if caller is not None:
            self._spans[0].parent_id = caller.span_id
        return Trace(self._trace_id, name, tuple(self._spans), caller)

    def _run_attributes(self) -> Attributes:
        found: Split = split(self._record, self._path, self._causes)
        nodes = list(dict.fromkeys([step.node_id for step in self._path if step.node_id]))
        return run_attributes(self._record, found, nodes, work_s(self._record, self._causes))

    def _bare_root(self, name: str) -> None:
        """Add a span for a run that failed before its program began."""
        start_us = self._clock.us(self._record.started_at_s)
        end_us = max(start_us + 1, self._clock.us(self._record.ended_at_s))
        given: Attributes = {names.OPERATION: names.INVOKE_WORKFLOW}
        given |= {names.WORKFLOW: name, names.AGENT: name}
        root = self._add(f"{names.INVOKE_WORKFLOW} {name}", None, start_us, end_us, given)
        self._end_of_run(root)

    def _node(self, node: NodeRecord) -> None:
        node_id, parent_id = node.node_id, node.declared.parent
        start_us, end_us = self._timeline.start_us[node_id], self._timeline.end_us[node_id]
        span_id = self._live_ids.get(node_id) or span_id_of(self._run_id, node_id)
        parent = self._of_node[parent_id].span_id if parent_id in self._of_node else None
        span = Span(span_name(node), span_id, parent, start_us, end_us)
        span.kind = span_kind(node)
        if node_id in self._background.nodes and parent_id:
            span.kind = "consumer"
            self._mark_producer(parent_id)
        self._spans.append(span)
        self._of_node[node_id] = span
        if parent_id is None:
            span.attributes = node_attributes(node)
            self._describe(span, node)
            self._end_of_run(span)
        if node_id in self._background.stops and parent_id:
            self._stop(node, parent_id)
        if node.kind == "generate":
            self._engine(span, node)
            self._items(node)
        elif node.kind == "tool":
            self._tool(span, node)

    def _describe(self, span: Span, node: NodeRecord) -> None:
        """Add to a span what the events of its node tell; a later node is no input of it."""
        self._descriptions.describe(span, node)
        for node_id, how in linked_nodes(node):
            target = self._of_node.get(node_id)
            if target is not None and self._record.nodes[node_id].seq < node.seq:
                span.links += (SpanLink(self._trace_id, target.span_id, {names.LINK: how}),)

    def _end_of_run(self, span: Span) -> None:
        finished = self._record.finished
        if finished is not None and finished.error is not None:
            span.error = self._descriptions.error_text(finished.error)
            span.attributes[names.ERROR_TYPE] = finished.error.type

    def _mark_producer(self, program_id: NodeId) -> None:
        """Mark a program as the producer of background work, unless it is such work itself.

        Jaeger's walk leaves out a CONSUMER below a PRODUCER, with all below it.
        """
        program = self._of_node[program_id]
        if program.kind != "consumer":
            program.kind = "producer"

    def _engine(self, span: Span, node: NodeRecord) -> None:
        """Add spans of the engine's work for a generation, stage by stage, in its own service."""
        ledger = node.ledger
        at_us = span.start_us
        late_s = 0.0
        for stage in stages(self._record, node, self._causes):
            if stage.label not in _ENGINE_STAGES:
                continue
            length_s = stage.length_s
            if stage.label == "prefill":
                late_s += length_s
            if length_s < _SHORT_S:
                continue
            start_us = max(at_us, self._clock.us(stage.started_at_s))
            end_us = min(self._clock.us(stage.ended_at_s), span.end_us)
            if end_us < start_us + _LEAST_STAGE_US:
                continue
            made = self._engine_span(span.span_id, stage.label, start_us, end_us, node)
            if ledger is not None and stage.label == "prefill":
                made.attributes[names.PREFILL_TOKENS] = ledger.prompt_tokens - ledger.cached_tokens
            elif ledger is not None and stage.label == "decode":
                made.attributes[names.DECODE_TOKENS] = ledger.output_tokens
            for label, seconds in stage.shares:
                made.attributes[names.STAGE_MS.format(label)] = round(seconds * 1e3, 3)
            at_us = end_us + GAP_US
        self._early_prefill(span, node, late_s)

    def _early_prefill(self, span: Span, node: NodeRecord, late_s: float) -> None:
        """Add prefill of early parts, while later ones were pending: background, off the path."""
        ledger, parent_id = node.ledger, node.declared.parent
        if ledger is None or parent_id is None or not node.sent or ledger.admitted_at_s <= 0.0:
            return
        start_us = self._clock.us(max(ledger.admitted_at_s, ledger.received_at_s))
        end_us = span.start_us - GAP_US
        if end_us <= start_us or ledger.prefill_s <= 0.0 or parent_id not in self._of_node:
            return
        early_s = ledger.prefill_s - late_s
        if early_s <= 1e-6:
            return
        parent = self._of_node[parent_id]
        made = self._engine_span(parent.span_id, "prefill", start_us, end_us, node)
        made.kind = "consumer"
        self._mark_producer(parent_id)
        made.attributes[names.PREFILL_EARLY_MS] = round(early_s * 1e3, 3)
        span.attributes[names.PREFILL_EARLY_MS] = made.attributes[names.PREFILL_EARLY_MS]

    def _items(self, node: NodeRecord) -> None:
        """Add spans of streamed items up to the one at which the critical path leaves the node."""
        last, parent_id = self._background.items.get(node.node_id), node.declared.parent
        if last is None or parent_id not in self._of_node:
            return
        parent = self._of_node[parent_id].span_id
        until_us = self._timeline.item_us[(node.node_id, last)][1]
        for item in node.items:
            start_us, end_us = self._timeline.item_us[(node.node_id, item)]
            if end_us <= until_us:
                given: Attributes = {names.NODE_ID: node.node_id, names.NODE_ITEM: item}
                given[names.CRITICAL] = True
                self._add(f"item {node.name}", parent, start_us, end_us, given)

    def _stop(self, node: NodeRecord, program_id: NodeId) -> None:
        """Add the time from a node's cancellation to its end, if it is on the critical path."""
        start_us, end_us = self._timeline.stop_us[node.node_id]
        given: Attributes = {names.NODE_ID: node.node_id, names.CRITICAL: True}
        self._add(f"cancel {node.kind}", self._of_node[program_id].span_id, start_us, end_us, given)

    def _tool(self, span: Span, node: NodeRecord) -> None:
        """Add the time spent waiting for a worker, and the attempts if there are several."""
        queued = [one for one in stages(self._record, node, self._causes) if one.label == "queue"]
        if queued:
            queued_ms = round(sum(one.length_s for one in queued) * 1e3, 3)
            span.attributes[names.STAGE_MS.format("queue")] = queued_ms
        if len(node.attempts) > 1:
            self._attempts(span, node)

    def _attempts(self, span: Span, node: NodeRecord) -> None:
        at_us = span.start_us
        for number, attempt in enumerate(node.attempts, 1):
            ended_at_s = attempt.ended_at_s
            start_us = max(at_us, self._clock.us(attempt.started_at_s))
            end_us = span.end_us if ended_at_s is None else self._clock.us(ended_at_s)
            end_us = min(end_us, span.end_us)
            if end_us <= start_us:
                continue
            given: Attributes = {names.NODE_ID: node.node_id, names.ATTEMPT: number}
            made = self._add("attempt", span.span_id, start_us, end_us, given)
            if attempt.error is not None:
                made.error = self._descriptions.error_text(attempt.error)
                made.attributes[names.ERROR_TYPE] = attempt.error.type
            at_us = end_us + GAP_US

    def _engine_span(
        self, parent: str, label: Label, start_us: int, end_us: int, node: NodeRecord
    ) -> Span:
        given: Attributes = {names.NODE_ID: node.node_id}
        span = self._add(f"engine.{label}", parent, start_us, end_us, given)
        span.service = "engine"
        return span

    def _add(
        self, name: str, parent: str | None, start_us: int, end_us: int, attributes: Attributes
    ) -> Span:
        """Add a span with the next id."""
        span_id = next(self._ids)
        span = Span(name, span_id, parent, start_us, end_us, "runtime", "internal", attributes)
        self._spans.append(span)
        return span
