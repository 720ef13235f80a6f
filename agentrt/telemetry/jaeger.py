"""Traces as Jaeger JSON, which Jaeger's UI opens by drag and drop, without a server.

The text is assembled by hand: most of a file is tags, and a tag's text up to its value is the same
in every span, so it is cached. That is four times as fast as one big `json.dumps`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from json.encoder import encode_basestring
from typing import get_args

from agentrt.protocol.events import AttributeValue
from agentrt.telemetry import names
from agentrt.telemetry.resource import Resources
from agentrt.telemetry.span import Attributes, Service, Span, SpanEvent, SpanKind, Trace

_PROCESS: dict[Service, str] = {"runtime": "p1", "engine": "p2"}
_EXACT = 2**53  # browsers round larger integers
_END = '],"total":0,"limit":0,"offset":0,"errors":null}'


def jaeger_json(traces: Sequence[Trace], resources: Resources) -> str:
    """The complete text of a file with these traces."""
    return '{"data":[' + ",".join([_trace(trace, resources) for trace in traces]) + _END


def _trace(trace: Trace, resources: Resources) -> str:
    trace_id = f'"traceID":"{trace.trace_id}"'
    caller = trace.caller
    absent = None if caller is None else caller.span_id
    spans = ",".join([_span(span, trace_id, absent) for span in trace.spans])
    services = sorted({span.service for span in trace.spans}, reverse=True)
    processes = ",".join([f'"{_PROCESS[one]}":{_process(resources[one])}' for one in services])
    return f'{{{trace_id},"spans":[{spans}],"processes":{{{processes}}}}}'


def _process(attributes: Attributes) -> str:
    rest = {key: value for key, value in attributes.items() if key != "service.name"}
    name = encode_basestring(str(attributes["service.name"]))
    return f'{{"serviceName":{name},"tags":[{",".join(_tags(rest))}]}}'


def _span(span: Span, trace_id: str, absent: str | None) -> str:
    """The text of a span. A parent that is not in the file would make the trace incomplete."""
    references = []
    if span.parent_id is not None and span.parent_id != absent:
        references.append(f'{{"refType":"CHILD_OF",{trace_id},"spanID":"{span.parent_id}"}}')
    references += [
        f'{{"refType":"FOLLOWS_FROM","traceID":"{to.trace_id}","spanID":"{to.span_id}"}}'
        for to in span.links
    ]
    tags = _tags(span.attributes)
    tags.append(_KIND_TAGS[span.kind])
    if span.error is not None:
        tags.append(_tag("error", True))
        tags.append(_tag("otel.status_code", "ERROR"))
        tags.append(_tag("otel.status_description", span.error))
    tags.append(_SCOPE_TAG)
    return (
        f'{{{trace_id},"spanID":"{span.span_id}","operationName":{encode_basestring(span.name)},'
        f'"references":[{",".join(references)}],"startTime":{span.start_us},'
        f'"duration":{max(1, span.end_us - span.start_us)},"tags":[{",".join(tags)}],'
        f'"logs":[{",".join([_log(event) for event in span.events])}],'
        f'"processID":"{_PROCESS[span.service]}","warnings":null}}'
    )


def _log(event: SpanEvent) -> str:
    fields = [_tag("event", event.name), *_tags(event.attributes)]
    return f'{{"timestamp":{event.at_us},"fields":[{",".join(fields)}]}}'


def _tags(attributes: Attributes) -> list[str]:
    """The tags of a span; the types of value that most have are written here."""
    tags: list[str] = []
    for key, value in attributes.items():
        kind = type(value)
        if kind is str:
            tags.append(f"{_TEXTS[key]}{encode_basestring(value)}}}")  # type: ignore[arg-type]
        elif kind is float and -math.inf < value < math.inf:  # type: ignore[operator]
            tags.append(f"{_FLOATS[key]}{value!r}}}")
        elif kind is int and -_EXACT <= value <= _EXACT:  # type: ignore[operator]
            tags.append(f"{_INTEGERS[key]}{value}}}")
        elif kind is bool:
            tags.append(f"{_BOOLEANS[key]}{'true' if value else 'false'}}}")
        else:
            tags.append(_tag(key, value))
    return tags


def _tag(key: str, value: AttributeValue) -> str:
    if isinstance(value, str):
        return f"{_TEXTS[key]}{encode_basestring(value)}}}"
    if isinstance(value, float):
        finite = value if -math.inf < value < math.inf else 0.0  # not in JSON
        return f"{_FLOATS[key]}{finite!r}}}"
    if isinstance(value, tuple):
        texts = ",".join(map(encode_basestring, value))
        return f"{_TEXTS[key]}{encode_basestring(f'[{texts}]')}}}"
    if isinstance(value, bool):
        return f"{_BOOLEANS[key]}{'true' if value else 'false'}}}"
    if -_EXACT <= value <= _EXACT:
        return f"{_INTEGERS[key]}{value}}}"
    return f'{_TEXTS[key]}"{value}"}}'


class _Heads(dict[str, str]):
    """Texts of tags of one type up to their values, by key; there are few keys.

    A missing one is made. A dictionary costs a third of a call, once a tag.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __missing__(self, key: str) -> str:
        head = f'{{"key":{encode_basestring(key)},"type":"{self._kind}","value":'
        if len(self) < _MAX_HEADS:
            self[key] = head
        return head


_MAX_HEADS = 4096
_TEXTS, _FLOATS, _INTEGERS = _Heads("string"), _Heads("float64"), _Heads("int64")
_BOOLEANS = _Heads("bool")

_SCOPE_TAG = _tag("otel.scope.name", names.SCOPE)
_KIND_TAGS: dict[SpanKind, str] = {kind: _tag("span.kind", kind) for kind in get_args(SpanKind)}
