"""Standard streams that are full, closed, or read by nobody: one error, no traceback, its code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentrt.cli.standard_streams import StandardOutputError, checked_output
from tests.cli.conftest import Told, environment

UNWRITABLE = "the result cannot be written to standard output: "
SHORT = "cache stats"
LONG = "engines --kinds"


def shell(line: str, folder: Path, *, unbuffered: bool = False) -> Told:
    """A line of a shell, in which `agentrt` stands for the command."""
    env = {name: value for name, value in environment().items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", line.replace("agentrt", f"{sys.executable} -m agentrt", 1)],
        cwd=folder,
        env=env | ({"PYTHONUNBUFFERED": "1"} if unbuffered else {}),
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Told(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("line", "why", "unbuffered"),
    [
        (f"agentrt {SHORT} > /dev/full", "No space left on device", False),
        ("agentrt --help > /dev/full", "No space left on device", True),
        (f"agentrt {SHORT} >&-", "Bad file descriptor", False),
    ],
)
def test_a_result_that_cannot_be_written_is_one_error(
    tmp_path: Path, line: str, why: str, unbuffered: bool
) -> None:
    told = shell(line, tmp_path, unbuffered=unbuffered)
    assert told.code == 2
    assert told.err.splitlines() == [
        f"error: UsageError: {UNWRITABLE}{why}",
        "where: the command line",
        "fix:   look at where the output goes",
    ]


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    told = shell(f"agentrt {LONG} | true; exit ${{PIPESTATUS[0]}}", tmp_path)
    assert (told.code, told.err) == (1, "")


def test_a_closed_standard_error_loses_messages_alone(tmp_path: Path) -> None:
    assert shell(f"agentrt {SHORT} 2>&-", tmp_path).out.startswith("0 answers")
    assert shell("agentrt cache stat 2>&-", tmp_path).code == 2


def test_a_closed_standard_input_is_empty(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "from agentrt import program\n@program\nasync def job(n: int) -> int:\n    return n\n"
    )
    told = shell("agentrt run job.py --args - <&-", tmp_path)
    assert told.code == 2
    assert "not JSON" in told.lines[0]


def test_what_is_buffered_is_not_written_again(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = checked_output(writer)
    stream.write("a line\n")
    with pytest.raises(StandardOutputError, match="Broken pipe"):
        stream.flush()
    stream.flush()
    stream.close()
    os.close(writer)
