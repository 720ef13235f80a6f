"""A batch typed in a terminal: results go where standard output goes, rows to the terminal."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import IO, Any

import pytest

from tests.cli.conftest import environment

RESULTS: list[dict[str, Any]] = [{"n": n, "text": "x" * 200} for n in range(3)]
JOB = """
from agentrt import program


@program
async def job(n: int) -> dict[str, object]:
    print("printed", n)
    return {"n": n, "text": "x" * 200}
"""


def typed(folder: Path, server_url: str, stdout: IO[bytes] | int | None) -> tuple[bytes, bytes]:
    """A batch whose standard input and error are a terminal.

    Args:
        folder: Where it runs.
        server_url: What serves its model.
        stdout: As for `subprocess`; None is the terminal.

    Returns:
        What a pipe received as standard output, and what stood on the terminal.
    """
    (folder / "job.py").write_text(JOB, "utf-8")
    (folder / "in.jsonl").write_text("".join(f'{{"n": {one["n"]}}}\n' for one in RESULTS))
    engine = ("--engine", server_url, "--model", "tiny", "--trace", "off")
    command = [sys.executable, "-m", "agentrt", "run", *engine, "job.py", "--batch", "in.jsonl"]
    env = {k: v for k, v in environment().items() if k != "CI"} | {"TERM": "xterm"}
    ours, theirs = pty.openpty()
    seen: list[bytes] = []
    reader = Thread(target=read_all, args=(ours, seen), daemon=True)
    try:
        with subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdin=theirs,
            stdout=theirs if stdout is None else stdout,
            stderr=theirs,
        ) as process:
            os.close(theirs)
            reader.start()
            try:
                out, _ = process.communicate(timeout=120)
            finally:
                process.kill()
        reader.join(timeout=60)
    finally:
        os.close(ours)
    assert process.returncode == 0, b"".join(seen)
    return out or b"", b"".join(seen)


def read_all(terminal: int, into: list[bytes]) -> None:
    """Everything that a terminal shows, until its other side is closed."""
    try:
        while chunk := os.read(terminal, 4096):
            into.append(chunk)
    except OSError:  # Linux's way to say that it is closed
        pass


@pytest.mark.parametrize("to", ["file", "pipe"])
def test_redirected_results_of_a_batch_arrive(to: str, tmp_path: Path, server_url: str) -> None:
    if to == "file":
        with (tmp_path / "out.jsonl").open("wb") as file:
            _, shown = typed(tmp_path, server_url, file)
        out = (tmp_path / "out.jsonl").read_bytes()
    else:
        out, shown = typed(tmp_path, server_url, subprocess.PIPE)
    assert b"\x1b[" in shown, "rows are drawn on the terminal"
    assert b"3/3 runs done" in shown
    assert [json.loads(line) for line in out.decode().splitlines()] == RESULTS
    assert all(b"printed %d" % one["n"] in shown for one in RESULTS)
    assert b"xxx" not in shown


def test_on_one_terminal_results_stand_above_the_rows(tmp_path: Path, server_url: str) -> None:
    _, shown = typed(tmp_path, server_url, None)
    assert shown.count(b"x" * 50) >= len(RESULTS)
    last = shown.rindex(b"3/3 runs done")
    assert all(shown.index(b'"n":%d' % one["n"]) < last for one in RESULTS)
