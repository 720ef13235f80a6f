"""What was said is kept beside the trace, shown when asked for, and one switch turns it off."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentrt
from agentrt.analysis.transcript_reading import read_transcript
from agentrt.cli.trace_files import TraceFile, find
from agentrt.cli.transcripts import find_transcript
from agentrt.telemetry.run_files import TRANSCRIPT_SUFFIX

Run = Callable[..., Any]
Write = Callable[..., Path]

JOB = """
from agentrt import chat, program, tool

@tool(effects="read")
def look(word: str) -> str:
    return f"found {word}"

@program
async def job(word: str) -> str:
    said = await chat(system="canary-system").user(f"Say {word}.").generate(max_tokens=5)
    seen = await look(word)
    if word == "boom":
        raise ValueError("canary-error")
    return seen
"""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Folder of trace files."""
    return tmp_path / "traces" / "runs"


def transcripts(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"*{TRANSCRIPT_SUFFIX}"))


def test_a_plain_run_can_be_read_at_once(served: Run, inside: Run, program: Write) -> None:
    program(JOB)
    told = served("job.py", "--word", "sea")
    assert told.code == 0, told.err
    assert "canary-system" not in told.err
    shown = inside("trace", "show", "last", "--text")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0].startswith("job, run ")
    assert '  arguments    {"word":"sea"}' in lines
    assert "  system       canary-system" in lines
    assert "  user         Say sea." in lines
    assert "str#0  generate by tiny" in shown.out
    assert "  result       found sea" in lines
    assert "\x1b" not in shown.out


def test_a_run_is_found_by_its_ids_and_its_files(
    served: Run, inside: Run, program: Write, runs: Path
) -> None:
    program(JOB)
    ids = []
    for word in ("one", "two"):
        told = served("job.py", "--word", word, "--json")
        ids.append(told.json["run_id"])
    (first, _), (trace, _) = transcripts(runs), sorted(runs.glob("*.json"))
    whole = inside("trace", "show", ids[0][:8], "--text").out
    assert "Say one." in whole
    for name in (read_transcript(first).run.run_id, str(first), str(trace), trace.stem[-32:-20]):
        assert inside("trace", "show", name, "--text").out == whole, name
    trace.unlink()
    assert inside("trace", "show", ids[0], "--text", "--folder", str(runs)).out == whole


def test_show_prints_it_beside_the_result(served: Run, program: Write) -> None:
    program(JOB)
    told = served("job.py", "--word", "sea", "--show")
    assert told.code == 0, told.err
    assert told.out == "found sea\n"
    assert "  user         Say sea." in told.err.splitlines()


def test_a_failed_run_shows_what_came_before(served: Run, program: Write) -> None:
    program(JOB)
    told = served("job.py", "--word", "boom", "--show")
    assert told.code != 0
    assert "  result       found boom" in told.err
    assert "  error        ValueError: canary-error" in told.err
    assert told.err.index("Say boom.") < told.err.index("error: ")


def test_one_switch_turns_it_off(
    served: Run, inside: Run, program: Write, runs: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    program(JOB)
    assert served("job.py", "--word", "a", "--content", "off").code == 0
    monkeypatch.setenv("AGENTRT_CONTENT", "off")
    assert served("job.py", "--word", "a").code == 0
    monkeypatch.delenv("AGENTRT_CONTENT")
    (tmp_path / "agentrt.toml").write_text("[content]\nkeep = 'off'\n")
    assert served("job.py", "--word", "a").code == 0
    (tmp_path / "agentrt.toml").unlink()
    assert served("job.py", "--word", "a", "--trace", "off").code == 0
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert served("job.py", "--word", "a").code == 0
    assert (len(transcripts(runs)), len(list(runs.glob("*.json")))) == (0, 3)
    told = inside("trace", "show", "last", "--text")
    assert told.code == 2
    assert "has no transcript beside traces/runs/" in told.err
    assert "--content" in told.err


def test_what_is_not_kept_can_still_be_shown(served: Run, program: Write, runs: Path) -> None:
    program(JOB)
    told = served("job.py", "--word", "sea", "--show", "--content", "off", "--trace", "off")
    assert "  user         Say sea." in told.err
    assert not runs.exists()


def test_spans_have_it_only_where_asked(served: Run, program: Write, runs: Path) -> None:
    program(JOB)
    assert served("job.py", "--word", "a").code == 0
    assert served("job.py", "--word", "a", "--content", "spans").code == 0
    without, having = sorted(runs.glob("*.json"))
    assert "canary-system" not in without.read_text()
    assert "canary-system" in having.read_text()
    assert len(transcripts(runs)) == 2


def test_a_batch_keeps_one_for_each_record(
    served: Run, program: Write, runs: Path, tmp_path: Path
) -> None:
    program(JOB)
    rows = "".join(json.dumps({"word": word}) + "\n" for word in ("one", "boom", "two"))
    (tmp_path / "in.jsonl").write_text(rows)
    told = served("job.py", "--batch", "in.jsonl", "--show")
    assert len(told.out.splitlines()) == 3
    assert [told.err.count(f"Say {word}.") for word in ("one", "boom", "two")] == [1, 1, 1]
    found = [read_transcript(path) for path in transcripts(runs)]
    assert sorted(str(one.nodes[0].arguments) for one in found) == [
        '{"word":"boom"}',
        '{"word":"one"}',
        '{"word":"two"}',
    ]


def test_from_python_transcripts_are_kept_where_asked(
    inside: Run, folder_here: Path, server_url: str, runs: Path, monkeypatch: Any
) -> None:
    @agentrt.tool(effects="pure")
    def double(x: int) -> int:
        return 2 * x

    @agentrt.program
    async def four() -> int:
        return await double(2)

    monkeypatch.setenv("AGENTRT_ENGINE", server_url)
    monkeypatch.setenv("AGENTRT_MODEL", "tiny")
    assert four.run() == 4
    assert not runs.exists()
    monkeypatch.setenv("AGENTRT_CONTENT", "transcript")
    assert four.run() == 4
    (path,) = transcripts(runs)
    assert [node.result for node in read_transcript(path).nodes] == ["4", "4"]


def test_a_program_redacts_what_is_kept(served: Run, program: Write, runs: Path) -> None:
    program(
        JOB + "\nfrom agentrt import redact_content\nredact_content(lambda text: text.replace("
        "'sea', '[redacted]'))\n"
    )
    assert served("job.py", "--word", "sea").code == 0
    (path,) = transcripts(runs)
    assert "sea" not in path.read_text()
    assert "Say [redacted]." in path.read_text()


WRONG = [
    (["run", "--content", "all", "job.py", "--word", "a"], "--content 'all' is no place"),
    (["run", "--show", "-q", "job.py", "--word", "a"], "--show prints what --quiet leaves out"),
    (["trace", "show", "last", "--text", "--why", "a"], "--why and --text are two reports"),
    (["trace", "show", "last", "--full"], "--full shows texts whole"),
    (["trace", "show", "last", "--text"], "there are no traces in traces/runs"),
    (["trace", "show", "notes.txt", "--text"], "notes.txt is no transcript"),
]


def test_a_wrong_variable_is_named(inside: Run, program: Write, monkeypatch: Any) -> None:
    program(JOB)
    monkeypatch.setenv("AGENTRT_CONTENT", "all")
    told = inside("run", "job.py", "--word", "a")
    assert told.code == 2
    assert "AGENTRT_CONTENT= 'all' is no place" in told.lines[0]


@pytest.mark.parametrize(("words", "what"), WRONG, ids=[what for _, what in WRONG])
def test_what_cannot_be_meant_is_said(
    inside: Run, program: Write, tmp_path: Path, words: list[str], what: str
) -> None:
    program(JOB)
    (tmp_path / "notes.txt").write_text("a\n")
    told = inside(*words)
    assert told.code == 2
    assert what in told.err


def test_the_last_of_runs_that_began_together_is_that_of_their_traces(tmp_path: Path) -> None:
    stamp = "20260101T000000.000Z"
    for trace_id, run_id in (("f" * 32, "0" * 16), ("0" * 32, "f" * 16)):
        attribute = f'{{"key":"agentrt.run.id","type":"string","value":"{run_id}"}}'
        (tmp_path / f"{stamp}-job-{trace_id}.json").write_text(attribute)
        (tmp_path / f"{stamp}-job-{run_id}{TRANSCRIPT_SUFFIX}").touch()
    run = TraceFile(find("last", tmp_path), "", "", "").run_id
    assert find_transcript("last", tmp_path).name == f"{stamp}-job-{run}{TRANSCRIPT_SUFFIX}"
    later = tmp_path / f"{stamp[:-2]}1Z-job-{'a' * 16}{TRANSCRIPT_SUFFIX}"
    later.touch()
    assert find_transcript("last", tmp_path) == later, "a run without a trace is the last one too"
