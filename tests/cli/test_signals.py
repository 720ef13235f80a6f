"""Signals end a command in order, and at once at the second one, whatever a program does."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment

WAITING = """
import anyio
from pathlib import Path
from agentrt import program
@program
async def job() -> int:
    print("begun", flush=True)
    while not Path("go").exists():
        await anyio.sleep(0.01)
    return 1
"""
BLOCKING = """
import time
from agentrt import program
@program
async def job() -> int:
    print("begun", flush=True)
    {how}
    return 1
"""

PAYING_AND_BLOCKING = """
import anyio, time
from pathlib import Path
from agentrt import program, tool
@tool(effects="write")
def pay() -> None:
    print("begun", flush=True)
    while not Path("go").exists():
        time.sleep(0.01)
    Path("paid").touch()
@program
async def job() -> None:
    paying = pay()
    await anyio.sleep(0.01)
    time.sleep(60)
"""
STUBBORN = """
import anyio
from agentrt import program
@program
async def job() -> None:
    print("begun", flush=True)
    while True:
        try:
            await anyio.sleep(60)
        except BaseException:
            pass
"""


@pytest.fixture
def begun(tmp_path: Path, server_url: str) -> Callable[..., object]:
    """Starts a command, and gives it when its program has begun."""

    @contextmanager
    def start(job: str, hang_up: Any = signal.SIG_DFL) -> Iterator[subprocess.Popen[str]]:
        (tmp_path / "job.py").write_text(job, "utf-8")
        engine = ("--engine", server_url, "--model", "tiny")
        with subprocess.Popen(
            [sys.executable, "-m", "agentrt", "run", *engine, "job.py"],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, hang_up),  # whatever pytest inherited
        ) as process:
            try:
                assert process.stderr is not None
                assert "begun\n" in iter(process.stderr.readline, "")
                yield process
            finally:
                process.kill()

    return start


def test_a_hang_up_ends_the_run_and_keeps_its_trace(begun, tmp_path: Path) -> None:
    with begun(WAITING) as process:
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 129, err
    assert err.endswith("terminated\n")
    assert len(list((tmp_path / "traces" / "runs").glob("*.json"))) == 1


def test_a_hang_up_that_is_ignored_stays_so(begun, tmp_path: Path) -> None:
    with begun(WAITING, hang_up=signal.SIG_IGN) as process:
        process.send_signal(signal.SIGHUP)
        (tmp_path / "go").touch()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "1\n"), err


@pytest.mark.parametrize("how", ["time.sleep(60)", "while True: pass"])
def test_a_signal_ends_a_program_that_blocks_the_loop(begun, how: str) -> None:
    with begun(BLOCKING.format(how=how)) as process:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    line = 1 + BLOCKING.splitlines().index("    {how}")
    assert f"job.py:{line} in job holds the event loop: the process ends" in err


@pytest.mark.parametrize("again", [False, True])
def test_a_write_tool_holds_a_process_whose_loop_is_blocked(
    begun, tmp_path: Path, again: bool
) -> None:
    with begun(PAYING_AND_BLOCKING) as process:
        process.send_signal(signal.SIGTERM)
        lines = iter(process.stderr.readline, "")
        assert "waiting up to 30 s for pay" in next(one for one in lines if "second signal" in one)
        if again:
            process.send_signal(signal.SIGINT)
        else:
            (tmp_path / "go").touch()
        process.communicate(timeout=60)
    assert process.returncode == 143
    assert (tmp_path / "paid").exists() is not again


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_code_that_catches_its_cancellation_holds_nothing(begun, number: signal.Signals) -> None:
    with begun(STUBBORN) as process:
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number], err
    assert "job#0 was stopped and does not end: nothing waits for it" in err
    assert "Traceback" not in err
