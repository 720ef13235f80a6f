"""Trace files: written for every run, however it ended, in a folder that stays small."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentrt.base.errors import ErrorRecord, UsageError
from agentrt.base.ids import NodeId, RunId, trace_id_of
from agentrt.protocol.events import (
    NodeDeclared,
    NodeFinished,
    RunFinished,
    RunStarted,
)
from agentrt.telemetry import JaegerFile, SpanObserver, build, settings_of
from tests.oracles import jaeger
from tests.oracles.random_runs import play
from tests.oracles.statements import Work

RUN = RunId("00000000000000a1")


def observed(folder: Path, events: list[Any], **environment: str) -> SpanObserver:
    observer = SpanObserver(folder=folder, environment=environment)
    observer.on_events(events)
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
        "chat generate",
        "execute_tool tool",
        "item generate",
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
    assert len(parts) == 11
    assert sum(parts) == pytest.approx(tags["agentrt.latency.compound_ms"], abs=0.01)
    nodes = json.loads(tags["agentrt.critical_path.nodes"])
    assert nodes == ["root/generate0", "root/tool1", "root/generate3"]
    assert tags["gen_ai.operation.name"] == "invoke_workflow"


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
        assert tags["otel.status_description"] == "ToolFailed"


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
    observer.on_events(finance)
    observer.on_events(play((Work("tool"),), run_id="00000000000000b2"))
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
        assert "agentrt.step" in {tag["key"] for tag in span["tags"]}
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
    observer.on_events(finance)
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
