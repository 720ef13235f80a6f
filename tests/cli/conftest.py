"""The real command in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from agentrt.testing.tiny_model import tiny_engine

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = ROOT / "programs"


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


@pytest.fixture(scope="session")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real server in a process of its own, shared, so that commands need not load an engine."""
    model = tiny_engine(tmp_path_factory.mktemp("served") / "model").model_path
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "remote" / "server.py"), str(model)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


@pytest.fixture
def served(agentrt: Callable[..., Told], engine_url: str) -> Callable[..., Told]:
    """Runs a program on the shared server."""

    def run(file: str, *args: str, **how: Any) -> Told:
        return agentrt("run", file, "--engine", engine_url, "--model", "tiny", *args, **how)

    return run


@pytest.fixture
def tiny(tmp_path: Path) -> str:
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
