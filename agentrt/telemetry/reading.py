"""Reading of trace files: spans from Jaeger JSON as written by this package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast, get_args

from agentrt.base.errors import UsageError
from agentrt.protocol.events import AttributeValue
from agentrt.telemetry import names
from agentrt.telemetry.span import Attributes, Service, Span, SpanEvent, SpanKind, SpanLink, Trace

_HINT = "give a file that `agentrt run` wrote, or see `agentrt trace list`"


def read(path: Path) -> tuple[Trace, ...]:
    """The traces of a file, the run's first.

    Raises:
        UsageError: The file cannot be read or has no trace.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        traces = tuple(_trace(one) for one in data["data"] if one["spans"])
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no trace in Jaeger's JSON ({error!r})", hint=_HINT) from None
    if not traces:
        raise UsageError(f"{path} holds no trace", hint=_HINT)
    return traces


def words_of(attributes: Attributes, name: str) -> tuple[str, ...]:
    """The texts in an attribute; () if it is missing."""
    value = attributes.get(name)
    if isinstance(value, tuple):
        return tuple(map(str, value))
    if not isinstance(value, str) or not value.startswith("["):
        return ()
    return tuple(map(str, json.loads(value)))


def number_of(attributes: Attributes, name: str) -> float:
    """The number in an attribute; 0 if it is missing."""
    value = attributes.get(name, 0.0)
    return float(value) if isinstance(value, int | float) else 0.0


def _trace(data: dict[str, Any]) -> Trace:
    services: dict[str, Service] = {
        key: "runtime" if process["serviceName"] == names.RUNTIME_SERVICE else "engine"
        for key, process in data["processes"].items()
    }
    spans = tuple(_span(one, services) for one in data["spans"])
    return Trace(data["traceID"], spans[0].name.rpartition(" ")[2], spans)


def _span(data: dict[str, Any], services: dict[str, Service]) -> Span:
    attributes = _attributes(data["tags"])
    kind = attributes.pop("span.kind", "internal")
    error = attributes.pop("otel.status_description", None)
    parents = [one for one in data["references"] if one["refType"] == "CHILD_OF"]
    linked = [one for one in data["references"] if one["refType"] != "CHILD_OF"]
    return Span(
        name=data["operationName"],
        span_id=data["spanID"],
        parent_id=parents[0]["spanID"] if parents else None,
        start_us=data["startTime"],
        end_us=data["startTime"] + data["duration"],
        service=services.get(data["processID"], "runtime"),
        kind=cast(SpanKind, kind) if kind in get_args(SpanKind) else "internal",
        attributes=attributes,
        events=tuple(_event(one) for one in data["logs"]),
        links=tuple(SpanLink(one["traceID"], one["spanID"]) for one in linked),
        error=str(error) if error is not None else None,
    )


def _event(data: dict[str, Any]) -> SpanEvent:
    attributes = _attributes(data["fields"])
    return SpanEvent(str(attributes.pop("event", "")), data["timestamp"], attributes)


def _attributes(tags: list[dict[str, Any]]) -> Attributes:
    return {tag["key"]: cast(AttributeValue, tag["value"]) for tag in tags}
