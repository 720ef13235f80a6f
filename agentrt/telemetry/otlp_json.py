"""Traces as OTLP JSON: the body that a collector takes at `/v1/traces`, in a file.

By the protocol's own rules for JSON ids are hex, 64-bit numbers are text, and enumerations are
numbers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentrt.protocol.events import AttributeValue
from agentrt.telemetry import names
from agentrt.telemetry.resource import Resources
from agentrt.telemetry.span import Attributes, Service, Span, SpanEvent, SpanKind, Trace

_KINDS: dict[SpanKind, int] = {
    "internal": 1,
    "server": 2,
    "client": 3,
    "producer": 4,
    "consumer": 5,
}
_ERROR = 2


def otlp_json(traces: Sequence[Trace], resources: Resources) -> str:
    """The complete text of a request with these traces, spans by service."""
    by_service: dict[Service, list[dict[str, Any]]] = {}
    for trace in traces:
        for span in trace.spans:
            by_service.setdefault(span.service, []).append(_span(span, trace.trace_id))
    found = [
        {
            "resource": {"attributes": _attributes(resources.get(service, {}))},
            "scopeSpans": [{"scope": {"name": names.SCOPE}, "spans": spans}],
        }
        for service, spans in by_service.items()
    ]
    return json.dumps({"resourceSpans": found}, ensure_ascii=False, separators=(",", ":"))


def _span(span: Span, trace_id: str) -> dict[str, Any]:
    given: dict[str, Any] = {
        "traceId": trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": _nano(span.start_us),
        "endTimeUnixNano": _nano(span.end_us),
        "attributes": _attributes(span.attributes),
        "events": [_event(event) for event in span.events],
        "links": [
            {
                "traceId": link.trace_id,
                "spanId": link.span_id,
                "attributes": _attributes(link.attributes),
            }
            for link in span.links
        ],
        "status": {} if span.error is None else {"code": _ERROR, "message": span.error},
    }
    return given if span.parent_id is None else given | {"parentSpanId": span.parent_id}


def _event(event: SpanEvent) -> dict[str, Any]:
    return {
        "timeUnixNano": _nano(event.at_us),
        "name": event.name,
        "attributes": _attributes(event.attributes),
    }


def _attributes(attributes: Attributes) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: AttributeValue) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_value(one) for one in value]}}


def _nano(at_us: int) -> str:
    return str(at_us * 1000)
