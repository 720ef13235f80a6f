"""`agentrt trace export`: the forms, and the file that they go to."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt.analysis import RunRecord
from agentrt.telemetry import JaegerFile, build
from agentrt.telemetry.reading import read
from tests.oracles.random_runs import play
from tests.oracles.statements import Statement, WaitStatement, Work

BODY: tuple[Statement, ...] = (
    Work("generate", queue_s=0.2, prefill_s=0.1, decode_s=0.4),
    WaitStatement(0),
    Work("tool", deps=(0,), decode_s=0.5),
    WaitStatement(1),
)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    record = RunRecord()
    record.on_events(play(BODY))
    return JaegerFile(tmp_path / "runs").export([build(record)])


@pytest.fixture
def export(inside: Callable[..., Any], written: Path) -> Callable[..., Any]:
    return lambda *words: inside("trace", "export", str(written), *words)


def test_jaeger_gets_the_file_as_it_is(export: Callable[..., Any], written: Path) -> None:
    assert export("--format", "jaeger").out == written.read_text() + "\n"


def test_a_collector_gets_all_spans(export: Callable[..., Any], written: Path) -> None:
    told = export("--format", "otlp-json").json
    spans = [
        span
        for part in told["resourceSpans"]
        for scope in part["scopeSpans"]
        for span in scope["spans"]
    ]
    assert {span["spanId"] for span in spans} == {one.span_id for one in read(written)[0].spans}


def test_a_script_gets_figures(export: Callable[..., Any]) -> None:
    told = export().json
    assert told["schema"] == "agentrt.trace/1"
    assert told["compound_ms"] == 1200.0
    assert sum(told["split_ms"].values()) == 1200.0
    assert told["critical_path"] == ["root/generate0", "root/tool1"]
    (generate,) = [one for one in told["nodes"] if one["kind"] == "generate"]
    assert (generate["took_ms"], generate["queue_ms"]) == (700.0, 200.0)
    assert generate["cost"] is None


def test_a_spreadsheet_gets_a_row_a_node(export: Callable[..., Any]) -> None:
    rows = list(csv.DictReader(export("--format", "csv").out.splitlines()))
    assert [row["id"] for row in rows] == ["root", "root/generate0", "root/tool1"]
    assert rows[1]["prefill_ms"] == "100.0"
    assert rows[2]["deps"] == "root/generate0"
    assert float(rows[2]["wait_tool_ms"]) == pytest.approx(500, abs=0.1)


def test_a_file_is_for_its_owner_only(export: Callable[..., Any], tmp_path: Path) -> None:
    out = tmp_path / "run.csv"
    out.write_text("what was there before is gone, however long it was" * 100)
    told = export("--format", "csv", "--out", str(out))
    assert (told.code, told.out, told.err) == (0, "", f"wrote {out}\n")
    assert out.read_text().startswith("id,name,kind")
    assert out.read_text().count("\n") == 4
    assert out.stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_written_is_told(export: Callable[..., Any], tmp_path: Path) -> None:
    told = export("--out", str(tmp_path / "absent" / "run.json"))
    assert told.code == 2
    assert "cannot be written: No such file or directory" in told.lines[0]
    assert export("--format", "xml").code == 2


def test_a_file_that_is_no_trace(inside: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text(json.dumps({"data": 3}))
    told = inside("trace", "export", str(tmp_path / "notes.json"))
    assert told.code == 2
    assert "is no trace" in told.lines[0]
