"""Reading of trace files: spans from Jaeger JSON as written by this package."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

from agentrt.base.errors import UsageError
from agentrt.protocol.events import AttributeValue
from agentrt.telemetry import names
from agentrt.telemetry.resource import Resources, engine_service
from agentrt.telemetry.span import Attributes, Service, Span, SpanEvent, SpanKind, SpanLink, Trace

_WRITTEN = ("error", "otel.status_code", "otel.scope.name")
"""Tags that `jaeger_json` adds to the attributes of a span."""
_HINT = "give a file that `agentrt run` wrote, or see `agentrt trace ls`"


def read(path: Path) -> tuple[Trace, ...]:
    """The traces of a file, the run's first.

    Raises:
        UsageError: The file cannot be read or has no trace.
    """
    return read_with_resources(path)[0]


def read_with_resources(path: Path) -> tuple[tuple[Trace, ...], Resources]:
    """The same, and the resources of the services in the first trace.

    Raises:
        UsageError: The file cannot be read or has no trace.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        given = [one for one in data["data"] if one["spans"]]
        traces = tuple(_trace(one) for one in given)
        resources = _resources(given[0]["processes"]) if given else {}
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=_HINT) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"{path} is no trace in Jaeger's JSON: {what}", hint=_HINT) from None
    if not traces:
        raise UsageError(f"{path} holds no trace", hint=_HINT)
    return traces, resources


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
    services = _services(data["processes"])
    spans = tuple(_span(one, services) for one in data["spans"])
    _name_links(spans)
    return Trace(data["traceID"], spans[0].name.rpartition(" ")[2], spans)


def _services(processes: dict[str, Any]) -> dict[str, Service]:
    """Service of each process; `OTEL_SERVICE_NAME` may have named both anew."""
    engines = {engine_service(process["serviceName"]) for process in processes.values()}
    return {
        key: "engine" if process["serviceName"] in engines else "runtime"
        for key, process in processes.items()
    }


def _resources(processes: dict[str, Any]) -> Resources:
    services = _services(processes)
    return {
        services[key]: {**_attributes(process["tags"]), "service.name": process["serviceName"]}
        for key, process in processes.items()
    }


def _name_links(spans: tuple[Span, ...]) -> None:
    """Say again how nodes are linked, which Jaeger's references do not.

    The first link to a node whose value is needed is that value. Another one is the item of a plan
    that started a tool, or the generation that a generation forks from.
    """
    node_ids = {span.span_id: str(span.attributes.get(names.NODE_ID, "")) for span in spans}
    for span in spans:
        if not span.links:
            continue
        needed = list(words_of(span.attributes, names.NODE_DEPS))
        other = "item" if span.attributes.get(names.NODE_KIND) == "tool" else "fork"
        named: list[SpanLink] = []
        for link in span.links:
            node_id = node_ids.get(link.span_id)
            if node_id is None:  # a span of another trace
                named.append(link)
                continue
            how = "value" if node_id in needed else other
            if node_id in needed:
                needed.remove(node_id)
            named.append(replace(link, attributes={names.LINK: how}))
        span.links = tuple(named)


def _span(data: dict[str, Any], services: dict[str, Service]) -> Span:
    attributes = _attributes(data["tags"])
    kind = attributes.pop("span.kind", "internal")
    error = attributes.pop("otel.status_description", None)
    for name in _WRITTEN:
        attributes.pop(name, None)
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
    return {
        tag["key"]: tuple(json.loads(tag["value"]))
        if tag["key"] in names.LISTS
        else cast(AttributeValue, tag["value"])
        for tag in tags
    }
