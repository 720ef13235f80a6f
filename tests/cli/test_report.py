"""`agentrt run --report` and `agentrt trace report`: one page of a run, for its owner."""

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentrt.analysis import RunRecord
from agentrt.base.errors import ErrorRecord
from agentrt.base.ids import RunId
from agentrt.cli.report import write_report
from agentrt.protocol.events import RunFinished
from agentrt.telemetry import RUNS_FOLDER, JaegerFile, build
from tests.oracles.pages import Element, faults, page_of
from tests.oracles.random_runs import play
from tests.oracles.statements import WaitStatement, Work

VOTE = str(Path(__file__).resolve().parent.parent.parent / "programs" / "vote.py")
QUESTION = ("--question", "What is 1 + 1?", "--n", "3")
Run = Callable[..., Any]


def page(path: Path) -> Element:
    found = page_of(path.read_text("utf-8"))
    assert faults(found) == []
    return found


@pytest.fixture
def traced(folder_here: Path) -> RunId:
    """A run that left a trace in the folder of the test."""
    run_id = RunId("00a1b2c3d4e5f607")
    record = RunRecord()
    body = (Work("generate", decode_s=0.4), WaitStatement(0), Work("tool", decode_s=0.5))
    record.on_events(play(body, run_id=run_id))
    JaegerFile(RUNS_FOLDER).export([build(record)])
    return run_id


def test_a_trace_becomes_a_page(inside: Run, traced: RunId, tmp_path: Path) -> None:
    told = inside("trace", "report", "last", "--out", "out.html")
    assert told.code == 0, told.err
    assert told.out == "out.html\n"
    out = tmp_path / "out.html"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert page(out).every("h1")[0].text() == "root ok"
    assert "tool twice as fast saves 250 ms" in page(out).named("what-if").text()
    assert traced in page(out).every("header")[0].text()
    assert [one.name for one in tmp_path.glob("*.part")] == []


def test_a_page_without_a_name_gets_that_of_its_run(
    inside: Run, traced: RunId, tmp_path: Path
) -> None:
    told = inside("trace", "report", traced[:6])
    assert (told.code, told.out) == (0, "root-00a1b2c3.html\n")
    assert (tmp_path / "root-00a1b2c3.html").is_file()


def test_a_report_is_written_again(inside: Run, traced: RunId, tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    out.write_text("old")
    out.chmod(0o644)
    assert inside("trace", "report", "last", "--out", "out.html").code == 0
    assert "old" not in out.read_text()[:3]
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("out", "what"),
    [
        ("job.py", "a report is an HTML file"),
        ("missing/out.html", "there is no folder missing"),
        ("folder.html", "is a folder"),
    ],
)
def test_a_bad_place_is_refused_before_any_work(
    inside: Run, traced: RunId, tmp_path: Path, out: str, what: str
) -> None:
    (tmp_path / "folder.html").mkdir()
    (tmp_path / "job.py").write_text("mine")
    for told in (
        inside("trace", "report", "last", "--out", out),
        inside("run", VOTE, *QUESTION, "--report", out),
    ):
        assert told.code == 2
        assert what in told.lines[0]
        assert told.out == ""
    assert (tmp_path / "job.py").read_text() == "mine"


def test_a_file_that_is_no_trace_is_refused(inside: Run, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    told = inside("trace", "report", str(tmp_path / "x.json"), "--out", "out.html")
    assert told.code == 2
    assert "is no trace" in told.lines[0]
    assert not (tmp_path / "out.html").exists()


def test_a_batch_has_no_single_report(inside: Run, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("{}\n")
    told = inside("run", VOTE, "--batch", "in.jsonl", "--report", "out.html")
    assert told.code == 2
    assert "one run" in told.lines[0]
    assert "agentrt trace report" in told.lines[2]


def test_a_run_writes_its_report_beside_the_result(served: Run, tmp_path: Path) -> None:
    told = served(VOTE, *QUESTION, "--report", "out.html", "--trace", "off")
    assert told.code == 0, told.err
    assert isinstance(told.json, int)
    assert told.err.endswith("report out.html\n")
    found = page(tmp_path / "out.html")
    assert found.every("h1")[0].text() == "vote ok"
    assert len(found.named("timeline").every("li", "row")) >= 4
    assert "tokens reused" in found.named("prefixes").text()


def test_the_report_of_the_trace_is_that_of_the_run(
    served: Run, inside: Run, tmp_path: Path
) -> None:
    assert served(VOTE, *QUESTION, "--report", "live.html", "-q").code == 0
    assert inside("trace", "report", "last", "--out", "later.html").code == 0
    live, later = page(tmp_path / "live.html"), page(tmp_path / "later.html")
    for name in ("split", "what-if", "path", "graph", "prefixes", "tokens"):
        assert later.named(name).text() == live.named(name).text(), name


def test_a_failed_run_has_a_report_too(
    served: Run, program: Callable[..., Path], tmp_path: Path
) -> None:
    path = program(
        "from agentrt import program, tool\n"
        "@tool(effects='read')\n"
        "async def look() -> str:\n"
        "    raise ValueError('<script>no</script>')\n"
        "@program\n"
        "async def job() -> str:\n"
        "    return await look()\n"
    )
    told = served(str(path), "--report", "out.html")
    assert told.code != 0
    text = (tmp_path / "out.html").read_text("utf-8")
    assert "<script" not in text
    assert "<script>no</script>" in page_of(text).named("errors").text()


def test_the_error_of_the_program_has_its_line(
    served: Run, program: Callable[..., Path], tmp_path: Path
) -> None:
    path = program(
        "from agentrt import program\n"
        "@program\n"
        "async def job() -> str:\n"
        "    raise ValueError('no answer')\n"
    )
    told = served(str(path), "--report", "out.html")
    assert "where: job.py:4 in job" in told.err
    found = page(tmp_path / "out.html")
    assert "where: job.py:4" in found.every("pre", "error")[0].text()
    assert "job.py:4" in found.named("errors").text()


def test_text_that_is_no_unicode_is_written_as_escapes(tmp_path: Path) -> None:
    record = RunRecord()
    error = ErrorRecord("ToolFailed", "half \ud83d of a pair")
    *told, end = play((Work("tool", decode_s=0.5),), outcome="failed")
    assert isinstance(end, RunFinished)
    record.on_events([*told, replace(end, error=error)])
    write_report(tmp_path / "out.html", record)
    assert "half \\ud83d of a pair" in page(tmp_path / "out.html").text()


def test_what_was_said_is_in_the_report_if_it_is_kept(
    served: Run, inside: Run, tmp_path: Path
) -> None:
    assert served(VOTE, *QUESTION, "--report", "live.html", "-q").code == 0
    assert inside("trace", "report", "last", "--out", "later.html").code == 0
    live, later = page(tmp_path / "live.html"), page(tmp_path / "later.html")
    assert "What is 1 + 1?" in live.named("transcript").text()
    assert later.named("transcript").text() == live.named("transcript").text()
    told = served(VOTE, *QUESTION, "--report", "quiet.html", "-q", "--content", "off")
    assert told.code == 0, told.err
    assert "What is 1 + 1?" not in (tmp_path / "quiet.html").read_text("utf-8")


def test_a_damaged_transcript_spoils_no_report(served: Run, inside: Run, tmp_path: Path) -> None:
    assert served(VOTE, *QUESTION, "-q").code == 0
    (transcript,) = (tmp_path / "traces" / "runs").glob("*.transcript.jsonl")
    transcript.write_text("nonsense\n")
    assert inside("trace", "report", "last", "--out", "out.html").code == 0
    assert "cannot be read" in page(tmp_path / "out.html").named("transcript").text()
