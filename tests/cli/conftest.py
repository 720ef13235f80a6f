"""The real command, in a process of its own or in this one."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from agentrt.cli.main import answer
from agentrt.testing.tiny_model import tiny_engine

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "programs"
PAYING = """
import time
from pathlib import Path
from agentrt import program, tool

@tool(effects="write")
def pay() -> str:
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    Path("paid").touch()
    return "receipt"

@program
async def job() -> str:
    return await pay()
"""
"""A program whose write tool pays once the file `go` is there."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The three lines of an error."""
        found = self.err.splitlines()
        starts = [i for i, line in enumerate(found) if line.startswith("error:")]
        assert starts, self.err
        return found[starts[-1] : starts[-1] + 3]

    @property
    def json(self) -> Any:
        """Standard output as one JSON value."""
        return json.loads(self.out)


def environment() -> dict[str, str]:
    """Quiet, and one thread: many of these run on few cores."""
    return os.environ | {"OMP_NUM_THREADS": "1", "CI": "true", "NO_COLOR": "1", "COLUMNS": "100"}


@pytest.fixture(autouse=True)
def traces_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for traces, and another one for state, in the folder of the test."""
    (tmp_path / "traces").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def agentrt(tmp_path: Path) -> Callable[..., Told]:
    """Runs `agentrt` in a folder of its own."""

    def run(
        *args: str,
        stdin: str = "",
        env: dict[str, str] | None = None,
        stdout: IO[str] | int = subprocess.PIPE,
    ) -> Told:
        done = subprocess.run(
            [sys.executable, "-m", "agentrt", *args],
            cwd=tmp_path,
            env=environment() | (env or {}),
            input=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
        return Told(done.returncode, done.stdout or "", done.stderr)

    return run


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    """Writes a program file into the folder the command runs in."""

    def write(text: str, name: str = "job.py") -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return write


@pytest.fixture
def inside(folder_here: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Told]:
    """The same in this process, which has imported everything: a tenth of the time."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)

    def run(*args: str, stdin: str = "") -> Told:
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with redirect_stdout(out), redirect_stderr(err):
            code = answer(list(args))
        return Told(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def served(inside: Callable[..., Told], server_url: str) -> Callable[..., Told]:
    """Runs a program on a shared server, so that no engine is loaded."""
    return partial(inside, "run", "--engine", server_url, "--model", "tiny")


@pytest.fixture
def served_outside(agentrt: Callable[..., Told], server_url: str) -> Callable[..., Told]:
    """The same in a process of its own."""
    return partial(agentrt, "run", "--engine", server_url, "--model", "tiny")


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A model directory whose weights are noise."""
    config = tiny_engine(tmp_path / "tiny")
    write_weights(config.model_path)
    return str(config.model_path)


def write_weights(model: Path) -> None:
    """Random weights for a model directory that has none."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(0)
    made = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(model))
    made.save_pretrained(model)
