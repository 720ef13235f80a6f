"""The real command in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

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

    def run(*args: str, stdin: str = "", env: dict[str, str] | None = None) -> Told:
        done = subprocess.run(
            [sys.executable, "-m", "agentrt", *args],
            cwd=tmp_path,
            env=environment() | (env or {}),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Told(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., Path]:
    """Writes a program file into the folder the command runs in."""

    def write(text: str, name: str = "job.py") -> Path:
        path = tmp_path / name
        path.write_text(text, "utf-8")
        return path

    return write
