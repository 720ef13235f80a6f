"""Traces in OTLP's JSON equal what is sent to a collector, but for the way it is written."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agentrt.analysis import RunRecord
from agentrt.telemetry import JaegerFile, SpanObserver, build
from agentrt.telemetry.otlp_json import otlp_json
from agentrt.telemetry.reading import read_with_resources

IDS = ("traceId", "spanId", "parentSpanId")


def with_base64_ids(value: Any) -> Any:
    """Ids as protobuf's own JSON has them; OTLP writes them in hex."""
    if isinstance(value, list):
        return [with_base64_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {
        key: b64encode(bytes.fromhex(one)).decode() if key in IDS else with_base64_ids(one)
        for key, one in value.items()
    }


def test_a_file_holds_what_a_collector_gets(
    clean_environment: pytest.MonkeyPatch, collector: Any, finance: list[Any], tmp_path: Path
) -> None:
    clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    observer = SpanObserver(warn=pytest.fail)
    observer.on_events(finance)
    observer.close()
    record = RunRecord()
    record.on_events(finance)
    traces, resources = read_with_resources(JaegerFile(tmp_path).export([build(record)]))
    written = json.loads(otlp_json(traces, resources))
    message = ParseDict(with_base64_ids(written), ExportTraceServiceRequest())
    sent = {span.span_id: (service, span) for service, span in collector.spans()}
    found = spans_of(message)
    assert found.keys() == sent.keys()
    for span_id, (service, span) in found.items():
        assert service == sent[span_id][0]
        assert plain(span) == plain(sent[span_id][1])


def spans_of(message: ExportTraceServiceRequest) -> dict[bytes, tuple[str, Any]]:
    found: dict[bytes, tuple[str, Any]] = {}
    for part in message.resource_spans:
        resource = {pair.key: pair.value.string_value for pair in part.resource.attributes}
        for scope in part.scope_spans:
            assert scope.scope.name == "agentrt"
            found |= {span.span_id: (resource["service.name"], span) for span in scope.spans}
    return found


def plain(span: Any) -> dict[str, Any]:
    """What counts of a span; the collector's also has flags."""
    return {
        "name": span.name,
        "trace": span.trace_id,
        "parent": span.parent_span_id,
        "kind": span.kind,
        "times": (span.start_time_unix_nano, span.end_time_unix_nano),
        "status": (span.status.code, span.status.message),
        "attributes": {pair.key: str(pair.value) for pair in span.attributes},
        "links": [(one.span_id, [str(pair) for pair in one.attributes]) for one in span.links],
        "events": [(one.name, one.time_unix_nano) for one in span.events],
    }
