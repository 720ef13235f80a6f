"""Standard output has the results alone, and a write tool outlives its run."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import PAYING, environment

PRINTING = """
import subprocess, sys
from agentrt import program, tool

print("import")

@tool(effects="read")
def threaded() -> int:
    print("thread")
    sys.stdout.write("write\\n")
    subprocess.run([sys.executable, "-c", "print('process')"])
    return 1

@tool(effects="read")
async def on_the_loop() -> int:
    print("loop")
    return 2

@program
async def job() -> list[int]:
    print("program")
    return [await threaded(), await on_the_loop()]
"""


def test_what_is_printed_goes_to_standard_error(
    served_outside: Callable[..., Any], program: Callable[..., Path]
) -> None:
    program(PRINTING)
    done = served_outside("-q", "--trace", "off", "job.py")
    assert done.code == 0, done.err
    assert done.out == "[1,2]\n"
    said = done.err.splitlines()
    for word in ("import", "program", "thread", "write", "process", "loop"):
        assert word in said


@pytest.fixture
def paying(tmp_path: Path, server_url: str) -> Any:
    """A command inside a write tool, that has been interrupted once."""
    (tmp_path / "job.py").write_text(PAYING, "utf-8")
    engine = ("--engine", server_url, "--model", "tiny", "--trace", "off")
    with subprocess.Popen(
        [sys.executable, "-m", "agentrt", "run", "-q", *engine, "job.py"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            while not (tmp_path / "begun").exists():
                assert process.poll() is None
                os.sched_yield()
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            assert process.stderr.readline().startswith("waiting up to 30 s for pay: ")
            yield process
        finally:
            process.kill()


def test_an_interrupted_write_holds_the_process_until_it_is_done(
    paying: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert not (tmp_path / "paid").exists()
    (tmp_path / "go").touch()
    out, err = paying.communicate(timeout=60)
    assert (paying.returncode, out) == (130, "")
    assert err.endswith("interrupted\n")
    assert (tmp_path / "paid").exists()


def test_a_second_signal_ends_the_hold(paying: subprocess.Popen[str], tmp_path: Path) -> None:
    paying.send_signal(signal.SIGINT)
    paying.communicate(timeout=60)
    assert paying.returncode == 130
    assert not (tmp_path / "paid").exists()
