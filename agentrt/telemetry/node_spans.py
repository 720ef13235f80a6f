"""The span of one node, from the node's own events.

Both accounts of a run are made of these: the live one when a node ends, and the detailed one after
the run, which adds what the whole run alone can tell.
"""

from __future__ import annotations

from agentrt.analysis import NodeRecord
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId
from agentrt.base.server_attributes import server_attributes
from agentrt.protocol.events import AttemptFailed, Scheduled
from agentrt.telemetry import names
from agentrt.telemetry.content import Capture, content_of, sanitize, sanitize_text
from agentrt.telemetry.node_attributes import given_attributes
from agentrt.telemetry.run_clock import RunClock
from agentrt.telemetry.span import Attributes, Span, SpanEvent

_OF_EVENT = (names.OPERATION, names.PROVIDER, names.REQUEST_MODEL, names.RESPONSE_MODEL)
"""Attributes that the event of content repeats: it may be kept apart from its span."""


def linked_nodes(node: NodeRecord) -> list[tuple[NodeId, str]]:
    """Nodes that the span of a node links to, each with how: its data edges, and its fork."""
    declared, own_id = node.declared, node.node_id
    deps = declared.deps
    found = [(dep, "value") for dep in deps if dep != own_id] if deps else []
    if declared.plan and declared.plan != own_id:
        found.append((declared.plan, "item"))
    if declared.fork_of and declared.fork_of != own_id:
        found.append((declared.fork_of, "fork"))
    return found


class NodeDescriptions:
    """Writes on spans what is known of their nodes.

    Args:
        clock: Clock of the run.
        capture: Destination of message content, if any.
    """

    def __init__(self, clock: RunClock, capture: Capture) -> None:
        self._clock = clock
        self._capture: Capture = capture

    def describe(self, span: Span, node: NodeRecord) -> None:
        """Add attributes given by the runtime, content, events and the error of a node."""
        given = given_attributes(node)
        span.attributes.update(sanitize(given))
        if self._capture != "NO_CONTENT" and (content := content_of(given)):
            if self._capture in {"SPAN_ONLY", "SPAN_AND_EVENT"}:
                span.attributes.update(content)
            if self._capture in {"EVENT_ONLY", "SPAN_AND_EVENT"}:
                told = span.attributes
                known = {name: told[name] for name in _OF_EVENT if name in told}
                span.events += (SpanEvent(names.DETAILS_EVENT, span.end_us, known | content),)
        if node.finished is not None and node.finished.error is not None:
            span.error = self.error_text(node.finished.error)
        if node.first_token_at_s is not None:
            at_us = self._clock.us_inside(span, node.first_token_at_s)
            span.events = (SpanEvent(names.FIRST_TOKEN, at_us), *span.events)
        if node.failed:
            span.events += tuple(self._failed(span, attempt) for _, attempt in node.failed)
        if node.scheduled:
            span.events += tuple(self._decision(span, decision) for decision in node.scheduled)

    def error_text(self, error: ErrorRecord) -> str:
        """Text of an error, unless it may quote content and none is captured."""
        if self._capture == "NO_CONTENT" and error.holds_content:
            return error.type
        return sanitize_text(error.message)

    def _failed(self, span: Span, attempt: AttemptFailed) -> SpanEvent:
        """Event of an answer that failed its check; the reason may quote it, so it is content."""
        attributes: Attributes = {names.ATTEMPT: attempt.attempt + 1}
        if self._capture != "NO_CONTENT":
            attributes[names.CHECK_REASON] = sanitize_text(attempt.reason)
        at_us = self._clock.us_inside(span, attempt.at_s)
        return SpanEvent(names.CHECK_FAILED, at_us, attributes)

    def _decision(self, span: Span, decision: Scheduled) -> SpanEvent:
        """Event of a decision of the scheduler about a node.

        A node may be held back, or admitted with the known part of its prompt, before its span
        begins: the exact instant is an attribute.
        """
        attributes: Attributes = {
            names.DECISION: decision.decision,
            names.DECISION_REASON: decision.reason,
            names.AT_MS: self._clock.ms(decision.at_s),
        }
        if decision.policy:
            attributes[names.POLICY] = decision.policy
        if decision.worker:
            attributes |= server_attributes(decision.worker)
        for name, value in decision.terms:
            attributes[names.TERM.format(name)] = round(value, 6)
        at_us = self._clock.us_inside(span, decision.at_s)
        return SpanEvent(names.SCHEDULED, at_us, attributes)
