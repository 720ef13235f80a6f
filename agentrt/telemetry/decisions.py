"""Decisions of the scheduler about a node, as events of its span."""

from __future__ import annotations

from agentrt.analysis import NodeRecord, RunRecord
from agentrt.protocol.events import Scheduled
from agentrt.telemetry import names
from agentrt.telemetry.span import Attributes, Span, SpanEvent
from agentrt.telemetry.timeline import Timeline


def decision_events(
    record: RunRecord, node: NodeRecord, timeline: Timeline, span: Span
) -> tuple[SpanEvent, ...]:
    """One event a decision, within the span.

    A node may be held back, or admitted with the known part of its prompt, before its span begins:
    the exact instant is an attribute.

    Args:
        record: The run.
        node: The node.
        timeline: Timeline of the run.
        span: Span of the node.
    """
    return tuple(
        SpanEvent(
            names.SCHEDULED,
            timeline.us_inside(span, decision.at_s),
            _attributes(decision, record.started_at_s),
        )
        for decision in node.scheduled
    )


def _attributes(decision: Scheduled, zero_s: float) -> Attributes:
    attributes: Attributes = {
        names.DECISION: decision.decision,
        names.DECISION_REASON: decision.reason,
        names.AT_MS: round((decision.at_s - zero_s) * 1e3, 3),
    }
    if decision.policy:
        attributes[names.POLICY] = decision.policy
    attributes.update({names.TERM.format(name): round(value, 6) for name, value in decision.terms})
    return attributes
