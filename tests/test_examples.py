"""Every example and program runs as its docstring says, on the embedded model.

Two of them as users run them, in processes of their own. To load torch there takes most of the
time of a run, so the others run in this process, with the engine in a thread of it.
"""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agentrt.cli.main import answer
from tests.oracles import jaeger

pytestmark = pytest.mark.model

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9][0-9]_*.py"))
COMMAND = re.compile(r"^\s*(agentrt run (\S+)[^\n]*)$", re.MULTILINE)
PROGRAMS = sorted(
    path
    for path in (ROOT / "programs").glob("*.py")
    if re.search(r"^@program", path.read_text("utf-8"), re.MULTILINE)
)
OUTSIDE = {"01_hello", "finance"}
"""The example to begin with, and what `make run` runs."""


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in a folder of its own, so that traces stay out of the tree."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CI": "true", "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120
    )


def commands_of(path: Path) -> list[list[str]]:
    """The `agentrt run` lines of a file's docstring, without those that need a file of the user."""
    text = path.read_text("utf-8")
    lines = [match[0] for match in COMMAND.findall(text)]
    whole = [line for line in lines if "my_" not in line and '"..."' not in line]
    return [shlex.split(line.replace("@programs/", f"@{ROOT}/programs/")) for line in whole]


@pytest.fixture
def in_thread(folder_here: Path, engines_in_threads: None) -> Path:
    """The folder to run in, where engines are put into threads."""
    return folder_here


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path, in_thread: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if path.stem in OUTSIDE:
        done = run(sys.executable, str(path), folder=in_thread)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
    else:
        runpy.run_path(str(path), run_name="__main__")
        assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_runs(path: Path, in_thread: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commands = commands_of(path)
    assert commands, f"{path} does not say how it is run"
    for _, _, _, *flags in commands:
        command = ["run", str(path), *flags, "--json"]
        if path.stem in OUTSIDE:
            done = run(sys.executable, "-m", "agentrt", *command, folder=in_thread)
            assert done.returncode == 0, done.stderr
            out = done.stdout
        else:
            assert answer(command) == 0, capsys.readouterr().err
            out = capsys.readouterr().out
        told = json.loads(out)
        assert told["schema"] == "agentrt.run/1"
        assert told["ok"]
        assert told["output"] is not None
        latency = told["latency"]
        assert sum(latency["split_ms"].values()) == pytest.approx(latency["compound_ms"], abs=1e-6)
        trace = json.loads((in_thread / told["trace"]["file"]).read_text("utf-8"))
        assert jaeger.faults(trace) == []
        assert jaeger.strayed(trace["data"][0]) == ""


def test_examples_are_numbered_in_reading_order() -> None:
    assert [path.name[:2] for path in EXAMPLES] == [f"{n:02}" for n in range(1, len(EXAMPLES) + 1)]


def test_the_readme_shows_code_that_runs() -> None:
    """Each Python block of the README is a part of the file named above it."""
    readme = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"<!-- (\S+) -->\n+```python\n(.*?)```", readme, re.DOTALL)
    assert blocks
    assert len(blocks) == readme.count("```python")
    for name, block in blocks:
        assert block.strip() in (ROOT / name).read_text("utf-8"), name
