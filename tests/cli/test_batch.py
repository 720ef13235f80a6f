"""A batch loses no work: wrong lines, closing lines, and going on where a batch was cut off."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrt.cli.batch_summary import BatchSummary
from tests.cli.conftest import environment

Run = Callable[..., Any]
Write = Callable[..., Path]

JOB = """
from pathlib import Path
from agentrt import program

@program
async def job(x: int, scale: int = 1) -> object:
    with Path("ran").open("a") as ran:
        ran.write(f"{x}\\n")
    return f"text\\n{scale * x}" if x == 9 else scale * (10 // x)
"""


@pytest.fixture
def batch(served: Run, program: Write, tmp_path: Path) -> Run:
    """Runs a batch of the lines in a file."""
    program(JOB)

    def run(lines: list[str], *args: str) -> Any:
        (tmp_path / "in.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return served("job.py", "--batch", "in.jsonl", "--trace", "off", *args)

    return run


def ran(folder: Path) -> list[str]:
    """What each run wrote, in order."""
    return (folder / "ran").read_text().split() if (folder / "ran").exists() else []


LINES = ['{"x": 5}', '{"y": 5}', "", '{"x": 0}', '{"x": 2}']


def test_a_bad_line_is_its_own_error(batch: Run) -> None:
    told = batch(LINES)
    assert told.out.splitlines() == ["2", "null", "null", "5"], told.err
    assert told.code == 2, "of the first failure"
    bad, failing = (told.err.split("error: ")[i].splitlines() for i in (1, 2))
    assert bad[0] == "UsageError: in.jsonl:2 names 'y', which the program has not"
    assert bad[1] == "where: in.jsonl:2"
    assert failing[0].startswith("ZeroDivisionError")
    assert "job.py:9" in failing[1]
    assert ", record in.jsonl:4" in failing[1]


def test_the_row_of_a_bad_line_says_so_in_json(batch: Run) -> None:
    told = batch(LINES, "--json")
    rows = [json.loads(line) for line in told.out.splitlines()]
    assert [row["record"] for row in rows] == [1, 2, 4, 5]
    assert [row["ok"] for row in rows] == [True, False, False, True]
    assert rows[1]["error"]["where"] == "in.jsonl:2"
    assert rows[1]["error"]["type"] == "UsageError"


def test_a_batch_of_bad_lines_needs_no_engine(inside: Run, program: Write, tmp_path: Path) -> None:
    program(JOB)
    (tmp_path / "in.jsonl").write_text("{}\n")
    told = inside("run", "job.py", "--batch", "in.jsonl", "--engine", "http://127.0.0.1:9")
    assert (told.code, told.out) == (2, "null\n"), told.err
    assert "needs `x`" in told.err


def test_a_batch_ends_with_a_summary(batch: Run) -> None:
    told = batch([*LINES, '{"x": 9}'])
    assert "compound" not in told.err
    last = told.err.splitlines()[-1]
    assert last.startswith(
        "batch: 3 done, 1 failed (line 4), 1 not read (line 2); 0 tokens in, 0 out (0/s); "
    )
    assert last.endswith(" records/s")
    assert told.out.splitlines()[-1] == '"text\\n9"', "a row is one line, text too"
    assert batch(LINES, "-v").err.count("compound") == 3
    assert "batch:" not in batch(LINES, "-q").err


def test_verbose_shows_tracebacks_of_the_program_alone(batch: Run) -> None:
    err = batch(LINES, "-v").err
    assert err.count("Traceback") == 1
    assert "ZeroDivisionError: " in err.split("Traceback")[1]
    assert "\nerror: UsageError: in.jsonl:2 names" in f"\n{err}"


def test_the_closing_lines_name_what_is_left() -> None:
    summary = BatchSummary(done=7, failed=list(range(1, 13)), unknown=[3], standing=4, not_run=2)
    first, second = summary.lines(2.0)
    assert first == (
        "batch: 7 done, 12 failed (lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 2 more), 4 stood "
        "already, 2 not run; 0 tokens in, 0 out (0/s); 2.0 s, 9.5 records/s"
    )
    assert second.startswith("outcome unknown (line 3): ")
    assert "--again 3" in second


def test_resume_adds_what_is_missing(batch: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("2\nnull\nnu")  # the last line is torn
    told = batch(LINES, "--resume", "out.jsonl")
    assert (told.code, told.out) == (1, ""), told.err
    assert out.read_text() == "2\nnull\nnull\n5\n"
    assert sorted(ran(tmp_path)) == ["0", "2"]
    assert "1 done, 1 failed (line 4), 2 stood already" in told.err
    again = batch(LINES, "--resume", "out.jsonl")
    assert again.code == 0
    assert len(ran(tmp_path)) == 2, "all rows stand"


def test_resume_begins_where_there_is_nothing(batch: Run, tmp_path: Path) -> None:
    assert batch(['{"x": 5}'], "--resume", "out.jsonl").code == 0
    assert (tmp_path / "out.jsonl").read_text() == "2\n"
    assert not list(tmp_path.glob("out.jsonl.*")), "nothing is left beside it"


def test_again_replaces_a_row(batch: Run, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("2\nnull\nnull\n6\n")
    told = batch(LINES, "--resume", "out.jsonl", "--again", "5")
    assert told.code == 0, told.err
    assert out.read_text() == "2\nnull\nnull\n5\n"
    assert ran(tmp_path) == ["2"]


@pytest.mark.parametrize(
    ("content", "args", "what"),
    [
        ("1\n2\n3\n4\n5\n", (), "out.jsonl has 5 lines, and in.jsonl only 4 records"),
        ("1\nnu l\n", (), "out.jsonl is no output of a batch"),
        ("1\n", ("--json",), "line 1 is of a batch without --json"),
        ('{"schema":"agentrt.run/1"}\n', (), "line 1 is of a batch with --json"),
        ("1\n", ("--again", "3"), "--again 3 names no record of in.jsonl"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    batch: Run, tmp_path: Path, content: str, args: tuple[str, ...], what: str
) -> None:
    (tmp_path / "out.jsonl").write_text(content)
    told = batch(LINES, "--resume", "out.jsonl", *args)
    assert told.code == 2
    assert what in told.err
    assert (tmp_path / "out.jsonl").read_text() == content
    assert ran(tmp_path) == []


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("--resume", "out.jsonl"), "--resume goes on with a batch"),
        (("--batch", "in.jsonl", "--again", "1"), "--again replaces rows"),
    ],
)
def test_flags_of_a_batch_need_it(inside: Run, args: tuple[str, ...], what: str) -> None:
    told = inside("run", str(Path(__file__)), *args)
    assert told.code == 2


def test_the_output_is_not_resumed_into_itself(
    served_outside: Run, program: Write, tmp_path: Path
) -> None:
    program(JOB)
    (tmp_path / "in.jsonl").write_text('{"x": 5}\n')
    with (tmp_path / "out.jsonl").open("a") as out:
        told = served_outside("job.py", "--batch", "in.jsonl", "--resume", "out.jsonl", stdout=out)
    assert told.code == 2
    assert "out.jsonl is standard output too" in told.err


def test_an_engine_that_does_not_start_leaves_the_records(
    inside: Run, program: Write, tmp_path: Path
) -> None:
    program(JOB)
    (tmp_path / "in.jsonl").write_text('{"x": 5}\n{"x": 5}\n')
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    told = inside("run", "job.py", "--batch", "in.jsonl", "--engine", url, "--resume", "out.jsonl")
    assert told.code == 3
    assert told.err.count("error:") == 1
    assert "2 not run" in told.err
    assert (tmp_path / "out.jsonl").read_text() == ""


WAITING = """
import anyio
from pathlib import Path
from agentrt import program

@program
async def job(x: int) -> int:
    Path(f"began-{x}").touch()
    if x == 2 and not Path("go").exists():
        while not Path("began-4").exists():
            await anyio.sleep(0.01)
        print("begun", flush=True)
        await anyio.sleep(60)
    with Path("ran").open("a") as ran:
        ran.write(f"{x}\\n")
    return x
"""


def test_what_ended_before_an_interrupt_is_kept(
    server_url: str, served_outside: Run, program: Write, tmp_path: Path
) -> None:
    """Also records behind the one that was cut off, the rows of which were not due."""
    program(WAITING)
    (tmp_path / "in.jsonl").write_text("".join(f'{{"x": {x}}}\n' for x in range(1, 5)))
    args = ("job.py", "--batch", "in.jsonl", "--resume", "out.jsonl", "--concurrency", "2")
    engine = ("--engine", server_url, "--model", "tiny", "--trace", "off")
    with subprocess.Popen(
        [sys.executable, "-m", "agentrt", "run", *engine, *args],
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert "begun\n" in iter(process.stderr.readline, "")
        while len(ran(tmp_path)) < 3:
            os.sched_yield()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert (tmp_path / "out.jsonl").read_text() == "1\n"
    (tmp_path / "go").touch()
    told = served_outside(*args, "--trace", "off")
    assert told.code == 0, told.err
    assert (tmp_path / "out.jsonl").read_text() == "1\n2\n3\n4\n"
    assert sorted(ran(tmp_path)) == ["1", "2", "3", "4"], "no record ran twice"
    assert not (tmp_path / "out.jsonl.state").exists()
