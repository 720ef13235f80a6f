"""An interrupt ends the command as one, however early it comes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment

# Python runs this before all else; the signal comes when it is asked for a module.
FIRST = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.{handler})
def interrupt(event, told):
    if event == "import" and told[0] == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
"""
INSTALLED = ("-c", "import sys; from agentrt_command import main; sys.exit(main())")  # as by pip
AS_MODULE = ("-m", "agentrt")
PROGRAM = """
import mine
from agentrt import program
@program
async def job() -> int:
    return 1
"""


def begun(
    folder: Path,
    module: str,
    *args: str,
    way: tuple[str, ...] = INSTALLED,
    handler: str = "default_int_handler",
) -> subprocess.CompletedProcess[str]:
    """The command, interrupted where `module` is imported."""
    first = folder / "first"
    first.mkdir()
    (first / "sitecustomize.py").write_text(FIRST.format(module=module, handler=handler), "utf-8")
    return subprocess.run(
        [sys.executable, *way, *args],
        cwd=folder,
        env=environment() | {"PYTHONPATH": str(first)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text("")
    (tmp_path / "job.py").write_text(PROGRAM, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("way", "module"),
    [
        (INSTALLED, "agentrt.program"),
        (INSTALLED, "agentrt.cli.main"),
        (AS_MODULE, "agentrt.program"),
        (AS_MODULE, "agentrt.cli.main"),
        (AS_MODULE, "mine"),
    ],
)
def test_no_traceback_is_shown_while_modules_are_imported(
    folder: Path, way: tuple[str, ...], module: str
) -> None:
    """Of the package, of its command line, and of the user's own file."""
    told = ("run", "job.py", "--engine", "http://127.0.0.1:9")
    done = begun(folder, module, *told, way=way)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


@pytest.mark.parametrize("way", [INSTALLED, AS_MODULE])
def test_who_ignores_interrupts_goes_on(folder: Path, way: tuple[str, ...]) -> None:
    done = begun(folder, "agentrt", "--version", way=way, handler="SIG_IGN")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("agentrt ")


HELD = """
import os, signal, sys
seen = set()
def interrupt(event, told):
    if event == "import" and told[0] in {modules!r} and told[0] not in seen:
        seen.add(told[0])
        with open("imported", "a") as file:
            print(told[0], file=file)
        if told[0] in {interrupted!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
"""
EARLY, LATE = "torch.torch_version", "torch.export"
"""Modules that torch imports while it starts."""


@pytest.mark.parametrize(
    ("interrupted", "told"),
    [((EARLY,), f"{EARLY}\n{LATE}\n"), ((EARLY, LATE), f"{EARLY}\n{LATE}\n")],
    ids=["one", "two"],
)
def test_an_interrupt_waits_until_torch_is_there(
    folder: Path, interrupted: tuple[str, ...], told: str
) -> None:
    """One that its C++ code meets aborts the process; a second one is not waited for."""
    pytest.importorskip("torch")
    (folder / "job.py").write_text("import torch\n" + PROGRAM)
    first = folder / "first"
    first.mkdir()
    text = HELD.format(modules=(EARLY, LATE), interrupted=interrupted)
    (first / "sitecustomize.py").write_text(text)
    done = subprocess.run(
        [sys.executable, *INSTALLED, "run", "job.py", "--engine", "http://127.0.0.1:9"],
        cwd=folder,
        env=environment() | {"PYTHONPATH": os.pathsep.join((str(first), *sys.path))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
    assert (folder / "imported").read_text() == told
