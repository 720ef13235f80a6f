"""Traces as Jaeger JSON, which Jaeger's UI opens by drag and drop, with no server behind it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentrt.events import AttributeValue
from agentrt.telemetry import names
from agentrt.telemetry.resource import Resources
from agentrt.telemetry.span import Attributes, Lane, Span, SpanEvent, Trace

_PROCESS: dict[Lane, str] = {"runtime": "p1", "engine": "p2"}
_SCOPE_TAG = {"key": "otel.scope.name", "type": "string", "value": names.SCOPE}


def jaeger_json(traces: Sequence[Trace], resources: Resources) -> str:
    """The text of a file with these traces, whole."""
    return json.dumps(
        {
            "data": [_trace(trace, resources) for trace in traces],
            "total": 0,
            "limit": 0,
            "offset": 0,
            "errors": None,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _trace(trace: Trace, resources: Resources) -> dict[str, Any]:
    lanes = {span.lane for span in trace.spans}
    return {
        "traceID": trace.trace_id,
        "spans": [_span(span, trace.trace_id) for span in trace.spans],
        "processes": {
            _PROCESS[lane]: _process(resources.of(lane)) for lane in sorted(lanes, reverse=True)
        },
    }


def _process(attributes: Attributes) -> dict[str, Any]:
    rest = {key: value for key, value in attributes.items() if key != "service.name"}
    return {"serviceName": attributes["service.name"], "tags": _tags(rest)}


def _span(span: Span, trace_id: str) -> dict[str, Any]:
    references = []
    if span.parent_id is not None:
        references.append(_reference("CHILD_OF", trace_id, span.parent_id))
    references += [_reference("FOLLOWS_FROM", to.trace_id, to.span_id) for to in span.links]
    tags = _tags(span.attributes)
    tags.append({"key": "span.kind", "type": "string", "value": span.kind})
    if span.error is not None:
        tags += [
            {"key": "error", "type": "bool", "value": True},
            {"key": "otel.status_code", "type": "string", "value": "ERROR"},
            {"key": "otel.status_description", "type": "string", "value": span.error},
        ]
    tags.append(_SCOPE_TAG)
    return {
        "traceID": trace_id,
        "spanID": span.span_id,
        "operationName": span.name,
        "references": references,
        "startTime": span.start_us,
        "duration": max(1, span.end_us - span.start_us),
        "tags": tags,
        "logs": [_log(event) for event in span.events],
        "processID": _PROCESS[span.lane],
        "warnings": None,
    }


def _reference(how: str, trace_id: str, span_id: str) -> dict[str, str]:
    return {"refType": how, "traceID": trace_id, "spanID": span_id}


def _log(event: SpanEvent) -> dict[str, Any]:
    fields = [{"key": "event", "type": "string", "value": event.name}]
    return {"timestamp": event.at_us, "fields": fields + _tags(event.attributes)}


def _tags(attributes: Attributes) -> list[dict[str, Any]]:
    return [_tag(key, value) for key, value in attributes.items()]


def _tag(key: str, value: AttributeValue) -> dict[str, Any]:
    if isinstance(value, str):
        return {"key": key, "type": "string", "value": value}
    if isinstance(value, bool):
        return {"key": key, "type": "bool", "value": value}
    if isinstance(value, int):
        return {"key": key, "type": "int64", "value": value}
    if isinstance(value, float):
        return {"key": key, "type": "float64", "value": value}
    text = json.dumps(list(value), ensure_ascii=False, separators=(",", ":"))
    return {"key": key, "type": "string", "value": text}
