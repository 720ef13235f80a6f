"""Export over OTLP/HTTP to a collector in this process; and to none."""

import socket
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from agentrt.analysis import RunRecord
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import NodeId, RunId, trace_id_of
from agentrt.protocol.events import NodeDeclared, NodeFinished, RunFinished, RunStarted
from agentrt.telemetry import SpanObserver, build, collector_of
from agentrt.telemetry.span import Span as PlainSpan

RUN = RunId("00000000000000a1")


@pytest.fixture
def endpoint(clean_environment: pytest.MonkeyPatch, collector: Any) -> Any:
    clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    return collector


def export(events: list[Any]) -> list[str]:
    """Observe a run; gives what was warned of."""
    told: list[str] = []
    observer = SpanObserver(warn=told.append)
    observer.on_events(events)
    observer.close()
    return told


def test_every_span_arrives_as_it_was_built(endpoint: Any, finance: list[Any]) -> None:
    assert export(finance) == []
    record = RunRecord()
    record.on_events(finance)
    built = {span.span_id: span for span in build(record).spans}
    arrived = {span.span_id.hex(): (service, span) for service, span in endpoint.spans()}
    assert arrived.keys() == built.keys()
    for span_id, plain in built.items():
        service, span = arrived[span_id]
        assert span.trace_id.hex() == trace_id_of(RUN)
        assert span.name == plain.name
        assert span.parent_span_id.hex() == (plain.parent_id or "")
        assert span.start_time_unix_nano == plain.start_us * 1000
        assert span.end_time_unix_nano == plain.end_us * 1000
        assert service == ("agentrt" if plain.service == "runtime" else "agentrt-engine")
        assert len(span.links) == len(plain.links)
        assert [event.name for event in span.events] == [event.name for event in plain.events]
        assert span.kind == _kind(plain)
        assert {pair.key for pair in span.attributes} == set(plain.attributes)


def _kind(span: PlainSpan) -> int:
    return int(Span.SpanKind.Value(f"SPAN_KIND_{span.kind.upper()}"))


def test_standard_variables_are_obeyed(
    endpoint: Any, clean_environment: pytest.MonkeyPatch, finance: list[Any]
) -> None:
    clean_environment.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=abc")
    clean_environment.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    clean_environment.setenv("OTEL_SERVICE_NAME", "shop")
    clean_environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    export(finance)
    headers, message = endpoint.requests[0]
    assert headers["x-key"] == "abc"
    assert headers["path"] == "/v1/traces"
    assert headers["content-type"] == "application/x-protobuf"
    resource = {
        pair.key: pair.value.string_value for pair in message.resource_spans[0].resource.attributes
    }
    assert resource["deployment.environment"] == "test"
    assert {service for service, _ in endpoint.spans()} == {"shop", "shop-engine"}


def test_the_endpoint_for_traces_is_taken_as_it_is(
    clean_environment: pytest.MonkeyPatch, collector: Any, finance: list[Any]
) -> None:
    clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    clean_environment.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/mine")
    export(finance)
    assert collector.requests[0][0]["path"] == "/mine"


def test_a_sampler_that_drops_everything_sends_nothing(
    endpoint: Any, clean_environment: pytest.MonkeyPatch, finance: list[Any]
) -> None:
    clean_environment.setenv("OTEL_TRACES_SAMPLER", "always_off")
    assert export(finance) == []
    assert endpoint.requests == []


def test_errors_have_their_status(endpoint: Any) -> None:
    error = ErrorRecord("ToolFailed", "it broke")
    export(
        [
            RunStarted(RUN, "p", "p.py:p", 5.0, 1_700_000_000_000_000_000),
            NodeDeclared(RUN, NodeId("p#0"), "program", "p", None, (), "p.py:1", 5.0),
            NodeFinished(RUN, NodeId("p#0"), "failed", 5.1, error=error),
            RunFinished(RUN, "failed", 5.1, error),
        ]
    )
    ((_, span),) = endpoint.spans()
    assert span.status.code == Status.STATUS_CODE_ERROR
    assert span.status.message == "ToolFailed"


def test_a_collector_that_refuses_costs_one_warning(endpoint: Any, finance: list[Any]) -> None:
    endpoint.status = 400
    (told,) = export(finance)
    assert "spans did not reach" in told
    assert endpoint.url in told


def test_no_collector_costs_one_warning(
    clean_environment: pytest.MonkeyPatch, finance: list[Any], capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    clean_environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    (told,) = export(finance)
    assert "\n" not in told
    assert f"127.0.0.1:{port}" in told
    assert capfd.readouterr().err == ""


def test_a_full_queue_drops_and_counts(
    endpoint: Any, clean_environment: pytest.MonkeyPatch, finance: list[Any]
) -> None:
    clean_environment.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "3")
    clean_environment.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
    (told,) = export(finance)
    record = RunRecord()
    record.on_events(finance)
    made, arrived = len(build(record).spans), len(endpoint.spans())
    assert arrived >= 3
    assert told.startswith(f"telemetry: {made - arrived} spans did not reach")


def test_an_endpoint_makes_an_observer_for_runs_outside_the_command_line(
    endpoint: Any, finance: list[Any]
) -> None:
    assert collector_of({}) is None
    address = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint.url}
    assert collector_of(address | {"OTEL_SDK_DISABLED": "true"}) is None
    observer = collector_of(address)
    assert observer is not None
    observer.on_events(finance)
    observer.close()
    assert endpoint.spans()
