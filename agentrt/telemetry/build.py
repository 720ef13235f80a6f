"""The spans of a finished run, built from its record."""

from __future__ import annotations

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
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId, trace_id_of
from agentrt.base.server_attributes import server_attributes
from agentrt.protocol.events import AttemptFailed, Scheduled
from agentrt.telemetry import names
from agentrt.telemetry.background import Background
from agentrt.telemetry.content import Capture, content_of, sanitize, sanitize_text, without_content
from agentrt.telemetry.node_attributes import (
    given_attributes,
    node_attributes,
    run_attributes,
    span_kind,
    span_name,
)
from agentrt.telemetry.span import Attributes, Span, SpanEvent, SpanLink, Trace, span_ids
from agentrt.telemetry.timeline import GAP_US, Timeline

_ENGINE_STAGES = {"queue", "kv_reload", "constraint", "prefill", "decode"}


def build(record: RunRecord, capture: Capture = "NO_CONTENT") -> Trace:
    """The trace of a finished run, however it ended.

    Args:
        record: The run.
        capture: Destination of message content, if any.
    """
    return _Builder(record, capture).trace()


class _Builder:
    def __init__(self, record: RunRecord, capture: Capture) -> None:
        self.record = record
        self.capture = capture
        self.trace_id = trace_id_of(record.run_id)
        self.ids = span_ids(self.trace_id)
        self.causes = Causes(record)
        self.path = critical_path(record, self.causes)
        self.slack = slack_s(record, self.causes)
        self.timeline = Timeline(record, self.causes)
        self.background = Background(record, self.path, self.timeline)
        self.spans: list[Span] = []
        self.span_ids: dict[NodeId, str] = {}

    def trace(self) -> Trace:
        started = self.record.started
        name = started.program if started else "run"
        if self.record.root is None:
            self._bare_root(name)
        for node in self.record.nodes.values():
            self._node(node)
        self.spans[0].attributes.update(self._run_attributes())
        return Trace(self.trace_id, name, tuple(self.spans))

    def _run_attributes(self) -> Attributes:
        found: Split = split(self.record, self.path, self.causes)
        nodes = list(dict.fromkeys(step.node_id for step in self.path if step.node_id))
        return run_attributes(self.record, found, nodes, work_s(self.record, self.causes))

    def _bare_root(self, name: str) -> None:
        """Add a span for a run that failed before its program began."""
        start_us = self.timeline.us(self.record.started_at_s)
        end_us = max(start_us + 1, self.timeline.us(self.record.ended_at_s))
        given: Attributes = {names.OPERATION: names.INVOKE_WORKFLOW, names.WORKFLOW: name}
        root = self._add(f"{names.INVOKE_WORKFLOW} {name}", None, start_us, end_us, given)
        self._end_of_run(root)

    def _node(self, node: NodeRecord) -> None:
        parent_id = node.declared.parent
        parent = self.span_ids.get(parent_id) if parent_id else None
        start_us = self.timeline.start_us[node.node_id]
        end_us = self.timeline.end_us[node.node_id]
        kind = span_kind(node)
        if node.node_id in self.background.nodes and parent_id and parent:
            parent, kind = self._producer(parent_id, parent, node, start_us), "consumer"
        critical = node.node_id in self.background.critical
        attributes = node_attributes(node, self.slack[node.node_id], critical=critical)
        declared_s = node.declared.at_s - self.record.started_at_s
        attributes[names.NODE_DECLARED_MS] = round(declared_s * 1e3, 3)
        span = self._add(span_name(node), parent, start_us, end_us, attributes)
        span.kind = kind
        self.span_ids[node.node_id] = span.span_id
        self._describe(span, node, given_attributes(node))
        if parent_id is None:
            self._end_of_run(span)
        if node.node_id in self.background.stops and parent_id:
            self._stop(node, parent_id)
        if node.kind == "generate":
            self._engine(span, node)
            self._items(node)
        elif node.kind == "tool":
            self._tool(span, node)

    def _describe(self, span: Span, node: NodeRecord, given: Attributes) -> None:
        span.attributes.update(sanitize(without_content(given)))
        if self.capture != "NO_CONTENT" and (content := content_of(given)):
            if self.capture in {"SPAN_ONLY", "SPAN_AND_EVENT"}:
                span.attributes.update(content)
            if self.capture in {"EVENT_ONLY", "SPAN_AND_EVENT"}:
                span.events += (SpanEvent(names.DETAILS_EVENT, span.end_us, content),)
        if node.finished is not None and node.finished.error is not None:
            span.error = self._error(node.finished.error)
        if node.first_token_at_s is not None:
            at_us = self.timeline.us_inside(span, node.first_token_at_s)
            span.events = (SpanEvent(names.FIRST_TOKEN, at_us), *span.events)
        if node.failed:
            span.events += tuple(self._failed(span, attempt) for _, attempt in node.failed)
        if node.scheduled:
            span.events += tuple(self._decision(span, decision) for decision in node.scheduled)
        self._link(span, node)

    def _failed(self, span: Span, attempt: AttemptFailed) -> SpanEvent:
        """Event of an answer that failed its check; the reason may quote it, so it is content."""
        attributes: Attributes = {names.ATTEMPT: attempt.attempt + 1}
        if self.capture != "NO_CONTENT":
            attributes[names.CHECK_REASON] = sanitize_text(attempt.reason)
        at_us = self.timeline.us_inside(span, attempt.at_s)
        return SpanEvent(names.CHECK_FAILED, at_us, attributes)

    def _decision(self, span: Span, decision: Scheduled) -> SpanEvent:
        """Event of a decision of the scheduler about a node.

        A node may be held back, or admitted with the known part of its prompt, before its span
        begins: the exact instant is an attribute.
        """
        at_ms = round((decision.at_s - self.record.started_at_s) * 1e3, 3)
        attributes: Attributes = {
            names.DECISION: decision.decision,
            names.DECISION_REASON: decision.reason,
            names.AT_MS: at_ms,
        }
        if decision.policy:
            attributes[names.POLICY] = decision.policy
        if decision.worker:
            attributes |= server_attributes(decision.worker)
        for name, value in decision.terms:
            attributes[names.TERM.format(name)] = round(value, 6)
        at_us = self.timeline.us_inside(span, decision.at_s)
        return SpanEvent(names.SCHEDULED, at_us, attributes)

    def _error(self, error: ErrorRecord) -> str:
        """Text of an error, unless it may quote content and none is captured."""
        if self.capture == "NO_CONTENT" and error.holds_content:
            return error.type
        return sanitize_text(error.message)

    def _end_of_run(self, span: Span) -> None:
        finished = self.record.finished
        if finished is not None and finished.error is not None:
            span.error = self._error(finished.error)
            span.attributes[names.ERROR_TYPE] = finished.error.type

    def _link(self, span: Span, node: NodeRecord) -> None:
        """Link data edges and forks; a later span cannot be an input of this one."""
        declared = node.declared
        linked: list[tuple[NodeId | None, str]] = [(dep, "value") for dep in declared.deps]
        linked += [(declared.plan, "item"), (declared.fork_of, "fork")]
        for node_id, how in linked:
            target = self.span_ids.get(node_id) if node_id else None
            if target is not None and target != span.span_id:
                span.links += (SpanLink(self.trace_id, target, {names.LINK: how}),)

    def _engine(self, span: Span, node: NodeRecord) -> None:
        """Add spans of the engine's work for a generation, stage by stage, in its own service."""
        ledger = node.ledger
        at_us = span.start_us
        late_s = 0.0
        for stage in stages(self.record, node, self.causes):
            if stage.label == "prefill":
                late_s += stage.length_s
            if stage.label not in _ENGINE_STAGES:
                continue
            start_us = max(at_us, self.timeline.us(stage.started_at_s))
            end_us = min(self.timeline.us(stage.ended_at_s), span.end_us)
            if end_us <= start_us:
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
        start_us = self.timeline.us(max(ledger.admitted_at_s, ledger.received_at_s))
        end_us = span.start_us - GAP_US
        parent = self.span_ids.get(parent_id)
        if end_us <= start_us or ledger.prefill_s <= 0.0 or parent is None:
            return
        early_s = ledger.prefill_s - late_s
        if early_s <= 1e-6:
            return
        producer = self._producer(parent_id, parent, node, start_us)
        made = self._engine_span(producer, "prefill", start_us, end_us, node)
        made.kind = "consumer"
        made.attributes[names.PREFILL_EARLY_MS] = round(early_s * 1e3, 3)
        span.attributes[names.PREFILL_EARLY_MS] = made.attributes[names.PREFILL_EARLY_MS]

    def _producer(self, program_id: NodeId, parent: str, node: NodeRecord, at_us: int) -> str:
        """A span of 1 us below a program, as the parent of background work."""
        at_us = self.background.producer_at_us(program_id, at_us)
        given: Attributes = {names.NODE_ID: program_id, names.NODE_STARTED: node.node_id}
        span = self._add(f"start {node.kind}", parent, at_us, at_us + 1, given)
        span.kind = "producer"
        return span.span_id

    def _items(self, node: NodeRecord) -> None:
        """Add spans of streamed items up to the one at which the critical path leaves the node."""
        last, parent_id = self.background.items.get(node.node_id), node.declared.parent
        parent = self.span_ids.get(parent_id) if parent_id else None
        if last is None or parent is None:
            return
        until_us = self.timeline.item_us[(node.node_id, last)][1]
        for item in node.items:
            start_us, end_us = self.timeline.item_us[(node.node_id, item)]
            if end_us <= until_us:
                given: Attributes = {names.NODE_ID: node.node_id, names.NODE_ITEM: item}
                given[names.CRITICAL] = True
                self._add(f"item {node.name}", parent, start_us, end_us, given)

    def _stop(self, node: NodeRecord, program_id: NodeId) -> None:
        """Add the time from a node's cancellation to its end, if it is on the critical path."""
        start_us, end_us = self.timeline.stop_us[node.node_id]
        given: Attributes = {names.NODE_ID: node.node_id, names.CRITICAL: True}
        self._add(f"cancel {node.kind}", self.span_ids[program_id], start_us, end_us, given)

    def _tool(self, span: Span, node: NodeRecord) -> None:
        """Add the time spent waiting for a worker, and the attempts if there are several."""
        queued = [one for one in stages(self.record, node, self.causes) if one.label == "queue"]
        if queued:
            queued_ms = round(sum(one.length_s for one in queued) * 1e3, 3)
            span.attributes[names.STAGE_MS.format("queue")] = queued_ms
        if len(node.attempts) > 1:
            self._attempts(span, node)

    def _attempts(self, span: Span, node: NodeRecord) -> None:
        at_us = span.start_us
        for number, attempt in enumerate(node.attempts, 1):
            ended_at_s = attempt.ended_at_s
            start_us = max(at_us, self.timeline.us(attempt.started_at_s))
            end_us = span.end_us if ended_at_s is None else self.timeline.us(ended_at_s)
            end_us = min(end_us, span.end_us)
            if end_us <= start_us:
                continue
            given: Attributes = {names.NODE_ID: node.node_id, names.ATTEMPT: number}
            made = self._add("attempt", span.span_id, start_us, end_us, given)
            if attempt.error is not None:
                made.error = self._error(attempt.error)
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
        span_id = next(self.ids)
        span = Span(name, span_id, parent, start_us, end_us, "runtime", "internal", attributes)
        self.spans.append(span)
        return span
