"""A batch whose output was redirected keeps its state in the user's folder."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import environment

PAYING = """
import os, signal
from pathlib import Path
from agentrt import program, tool

@tool(effects="write")
def pay(n: int) -> int:
    if n == 2 and not Path("mended").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    with open("ledger", "a") as ledger:
        ledger.write(f"{n}\\n")
    return n

@program
async def job(n: int) -> int:
    return await pay(n)
"""


@pytest.mark.parametrize("reached_file", [True, False])
def test_a_redirected_batch_goes_on(
    reached_file: bool,
    server_url: str,
    served: Callable[..., Any],
    program: Callable[..., Path],
    tmp_path: Path,
) -> None:
    program(PAYING)
    (tmp_path / "in.jsonl").write_text('{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    batch = ("job.py", "--batch", "in.jsonl", "--concurrency", "1", "--trace", "off")
    engine = ("--engine", server_url, "--model", "tiny")
    with (tmp_path / "out.jsonl").open("w") as out:
        done = subprocess.run(
            [sys.executable, "-m", "agentrt", "run", *engine, *batch],
            cwd=tmp_path,
            env=environment(),
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode == -signal.SIGKILL
    if not reached_file:  # a row is on its way while the next record calls already
        (tmp_path / "out.jsonl").write_text("")
    (tmp_path / "mended").touch()
    (state,) = (tmp_path / "state" / "agentrt" / "batches").iterdir()
    anew = served(*batch)
    assert anew.code == 2
    assert "was cut off after calls of write tools" in anew.err
    told = served(*batch, "--resume", "out.jsonl")
    assert told.code == 1
    assert "OutcomeUnknown: pay was called and its end is not known" in told.err
    assert "--again 2 makes the call again" in told.err
    assert (tmp_path / "out.jsonl").read_text() == "1\nnull\n3\n"
    again = served(*batch, "--resume", "out.jsonl", "--again", "2")
    assert again.code == 0, again.err
    assert (tmp_path / "out.jsonl").read_text() == "1\n2\n3\n"
    assert (tmp_path / "ledger").read_text().split() == ["1", "3", "2"]
    assert not state.exists()
    assert os.listdir(tmp_path / "state" / "agentrt" / "batches") == []
