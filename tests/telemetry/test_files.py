"""Trace files: written for every run, however it ended, in a folder that stays small."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from agentrt.backend import StepDone, StepRecord
from agentrt.errors import ErrorRecord, UsageError
from agentrt.events import (
    FirstToken,
    NodeDeclared,
    NodeFinished,
    RequestSent,
    RunFinished,
    RunStarted,
)
from agentrt.graph import RunRecord
from agentrt.ids import NodeId, RequestId, RunId, trace_id_of
from agentrt.telemetry import JaegerFile, Span, SpanObserver, Trace, build, settings_of
from agentrt.telemetry.jaeger import jaeger_json
from agentrt.telemetry.resource import resources_of
from agentrt.testing import jaeger
from agentrt.testing.made_up import play
from agentrt.testing.statements import Work

RUN = RunId("00000000000000a1")


def observed(folder: Path, events: list[Any], **environment: str) -> SpanObserver:
    observer = SpanObserver(folder=folder, environment=environment)
    observer.see(events)
    observer.close()
    return observer


def test_a_run_becomes_a_file(tmp_path: Path, finance: list[Any]) -> None:
    observer = observed(tmp_path, finance)
    path = observer.files[RUN]
    assert path.name == f"20231114T221320.000Z-root-{trace_id_of(RUN)}.json"
    document = json.loads(path.read_text("utf-8"))
    assert jaeger.faults(document) == []
    names = {span["operationName"] for span in document["data"][0]["spans"]}
    assert names == {
        "invoke_workflow root",
        "chat tiny",
        "execute_tool tool",
        "item generate",
        "start generate",
        "engine.prefill",
        "engine.decode",
    }
    services = {part["serviceName"] for part in document["data"][0]["processes"].values()}
    assert services == {"agentrt", "agentrt-engine"}
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_root_tells_the_split(tmp_path: Path, finance: list[Any]) -> None:
    observer = observed(tmp_path, finance)
    document = json.loads(observer.files[RUN].read_text("utf-8"))
    tags = jaeger.tags_of(document["data"][0]["spans"][0])
    parts = [value for key, value in tags.items() if key.startswith("agentrt.split.")]
    assert len(parts) == 10
    assert sum(parts) == pytest.approx(tags["agentrt.latency.compound_ms"], abs=0.01)
    nodes = json.loads(tags["agentrt.critical_path.nodes"])
    assert nodes == ["root/generate0", "root/tool1", "root/generate3"]
    assert tags["gen_ai.operation.name"] == "invoke_workflow"


def test_generations_carry_usage_and_first_token(finance: list[Any], recorded: Any) -> None:
    record = recorded((Work("generate", queue_s=0.1, prefill_s=0.1, decode_s=0.2),))
    chat = next(span for span in build(record).spans if span.name.startswith("chat"))
    assert chat.attributes["gen_ai.usage.input_tokens"] == 100
    assert chat.attributes["gen_ai.usage.cache_read.input_tokens"] == 60
    assert chat.attributes["gen_ai.provider.name"] == "agentrt"
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert chat.attributes["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.2)
    assert [event.name for event in chat.events] == ["gen_ai.first_token"]
    assert chat.events[0].at_us - chat.start_us == 200_000
    engine = [span for span in build(record).spans if span.lane == "engine"]
    assert [span.name for span in engine] == ["engine.queue", "engine.prefill", "engine.decode"]
    assert not any(key.startswith("gen_ai.") for span in engine for key in span.attributes)


def test_a_generation_without_a_ledger_has_few_spans() -> None:
    """Its engine died after many steps: what was seen of them becomes stages, not a span each."""
    root, made = NodeId("p#0"), NodeId("p#0/g#0")
    request = RequestId(1)
    steps = [
        StepDone(StepRecord(n, 5.1 + n, 5.9 + n, 0, 1, (request,)), (), ()) for n in range(100)
    ]
    error = ErrorRecord("EngineDied", "killed")
    record = RunRecord()
    record.see(
        [
            RunStarted(RUN, "p", "p.py:p", 5.0, 1_700_000_000_000_000_000),
            NodeDeclared(RUN, root, "program", "p", None, (), "p.py:1", 5.0),
            NodeDeclared(RUN, made, "generate", "g", root, (), "p.py:2", 5.0),
            RequestSent(RUN, made, request, "embedded", "tiny", True, 5.0),
            FirstToken(RUN, made, 5.9),
            *steps,
            NodeFinished(RUN, made, "failed", 105.0, error=error),
            NodeFinished(RUN, root, "failed", 105.0, error=error),
            RunFinished(RUN, "failed", 105.0, error),
        ]
    )
    names = [span.name for span in build(record).spans]
    assert names == [
        "invoke_workflow p",
        "chat tiny",
        "engine.queue",
        "engine.prefill",
        "engine.decode",
    ]


def test_a_failed_run_is_written_too(tmp_path: Path) -> None:
    error = ErrorRecord("ToolFailed", "it broke", "mend it", "p.py:3")
    root, tool = NodeId("p#0"), NodeId("p#0/t#0")
    observer = observed(
        tmp_path,
        [
            RunStarted(RUN, "p", "p.py:p", 5.0, 1_700_000_000_000_000_000),
            NodeDeclared(RUN, root, "program", "p", None, (), "p.py:1", 5.0),
            NodeDeclared(RUN, tool, "tool", "t", root, (), "p.py:3", 5.0),
            NodeFinished(RUN, tool, "failed", 5.1, error=error),
            NodeFinished(RUN, root, "failed", 5.1, error=error),
            RunFinished(RUN, "failed", 5.1, error),
        ],
    )
    document = json.loads(observer.files[RUN].read_text("utf-8"))
    assert jaeger.faults(document) == []
    for span in document["data"][0]["spans"]:
        tags = jaeger.tags_of(span)
        assert tags["error"] is True
        assert tags["error.type"] == "ToolFailed"
        assert tags["otel.status_description"] == "it broke"


def test_a_run_that_failed_before_its_program_began(tmp_path: Path) -> None:
    error = ErrorRecord("UsageError", "no such argument")
    observer = observed(
        tmp_path,
        [
            RunStarted(RUN, "p", "p.py:p", 5.0, 1_700_000_000_000_000_000),
            RunFinished(RUN, "failed", 5.1, error),
        ],
    )
    assert jaeger.faults(json.loads(observer.files[RUN].read_text("utf-8"))) == []


def test_a_run_cut_short_is_written_when_the_observer_closes(
    tmp_path: Path, finance: list[Any]
) -> None:
    observer = observed(tmp_path, finance[:-4])
    document = json.loads(observer.files[RUN].read_text("utf-8"))
    assert jaeger.faults(document) == []
    root = jaeger.tags_of(document["data"][0]["spans"][0])
    assert root["agentrt.cancelled.reason"] == "the run did not end"


def test_the_oldest_files_go(tmp_path: Path, recorded: Any) -> None:
    stranger = tmp_path / "20000101T000000.000Z-mine.json"
    stranger.write_text("{}")
    sink = JaegerFile(tmp_path, max_files=3)
    traces = [build(recorded((Work("tool"),), run_id=f"{n:016x}")) for n in range(1, 6)]
    for n, trace in enumerate(traces):
        trace.spans[0].start_us += n * 1_000_000
        sink.export([trace])
    kept = sorted(path.name[-37:-5] for path in tmp_path.glob("*-root-*.json"))
    assert kept == sorted(trace.trace_id for trace in traces[2:])
    assert stranger.exists()


def test_bytes_are_capped_and_the_newest_kept(tmp_path: Path, recorded: Any) -> None:
    sink = JaegerFile(tmp_path, max_bytes=1)
    for n in (1, 2):
        trace = build(recorded((Work("tool"),), run_id=f"{n:016x}"))
        trace.spans[0].start_us += n * 1_000_000
        path = sink.export([trace])
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_written_costs_one_warning(
    tmp_path: Path, finance: list[Any]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    told: list[str] = []
    observer = SpanObserver(folder=blocked / "runs", environment={}, warn=told.append)
    observer.see(finance)
    observer.see(play((Work("tool"),), run_id="00000000000000b2"))
    observer.close()
    assert len(told) == 1
    assert observer.files == {}


def test_steps_have_their_own_trace_with_links(tmp_path: Path, finance: list[Any]) -> None:
    observer = observed(tmp_path, finance, AGENTRT_TRACE_STEPS="1")
    document = json.loads(observer.files[RUN].read_text("utf-8"))
    assert jaeger.faults(document) == []
    run, steps = document["data"]
    chats = {s["spanID"] for s in run["spans"] if s["operationName"].startswith("chat")}
    assert {s["operationName"] for s in steps["spans"]} == {"engine.step"}
    for span in steps["spans"]:
        (link,) = span["references"]
        assert link["traceID"] == run["traceID"]
        assert link["spanID"] in chats


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")],
)
def test_telemetry_can_be_off(tmp_path: Path, finance: list[Any], name: str, value: str) -> None:
    assert observed(tmp_path, finance, **{name: value}).files == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "environment",
    [
        {"AGENTRT_TRACE_STEPS": "often"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4317"},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4317",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
        },
    ],
)
def test_settings_that_cannot_be_obeyed_are_errors(environment: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        settings_of(environment)
    assert caught.value.hint


def test_the_file_of_a_run_can_be_asked_for_at_once(tmp_path: Path, finance: list[Any]) -> None:
    observer = SpanObserver(folder=tmp_path, environment={})
    observer.see(finance)
    assert observer.file_of(RUN) in list(tmp_path.iterdir())
    observer.close()


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, None),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"},
            f"http://localhost:16686/trace/{trace_id_of(RUN)}",
        ),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector.example"}, None),
        (
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": "https://collector.example",
                "AGENTRT_TRACE_URL": "https://viewer.example/{trace_id}?x",
            },
            f"https://viewer.example/{trace_id_of(RUN)}?x",
        ),
    ],
)
def test_a_trace_in_a_collector_has_an_address(
    environment: dict[str, str], url: str | None
) -> None:
    assert SpanObserver(environment=environment).url_of(RUN) == url


def test_every_kind_of_value_has_its_tag() -> None:
    told: dict[str, Any] = {
        "text": 'quote " and é',
        "flag": True,
        "count": 3,
        "seed": 2**62 + 1,
        "share": 0.5,
        "none": math.nan,
        "listed": ("a", "b"),
    }
    span = Span("s", "0000000000000001", None, 5, 5, attributes=told, error="it broke")
    trace = Trace("1" * 32, "t", (span,))
    document = json.loads(jaeger_json([trace], resources_of({})))
    assert jaeger.faults(document) == []
    (found,) = document["data"][0]["spans"]
    assert found["duration"] == 1
    tags = {tag["key"]: (tag["type"], tag["value"]) for tag in found["tags"]}
    assert tags["text"] == ("string", 'quote " and é')
    assert tags["flag"] == ("bool", True)
    assert tags["count"] == ("int64", 3)
    assert tags["seed"] == ("string", str(2**62 + 1))  # a browser would round it
    assert tags["share"] == ("float64", 0.5)
    assert tags["none"] == ("float64", 0.0)
    assert tags["listed"] == ("string", '["a","b"]')
    assert tags["error"] == ("bool", True)
