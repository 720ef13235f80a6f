"""An interrupt ends the command as one, however early it comes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import environment

# As pip's script begins; the signal comes when the interpreter is asked for a module.
BEGIN = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.{handler})
def interrupt(event, told):
    if event == "import" and told[0] == {module!r}:
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(interrupt)
from agentrt_command import main
sys.exit(main())
"""
PROGRAM = """
import mine
from agentrt import program
@program
async def job() -> int:
    return 1
"""


def begun(
    folder: Path, module: str, *args: str, handler: str = "default_int_handler"
) -> subprocess.CompletedProcess[str]:
    """The command, interrupted where `module` is imported."""
    return subprocess.run(
        [sys.executable, "-c", BEGIN.format(module=module, handler=handler), *args],
        cwd=folder,
        env=environment(),
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


@pytest.mark.parametrize("module", ["agentrt.program", "agentrt.cli.main", "mine"])
def test_no_traceback_is_shown_while_modules_are_imported(folder: Path, module: str) -> None:
    """Of the package, of its command line, and of the user's own file."""
    done = begun(folder, module, "run", "job.py", "--engine", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_who_ignores_interrupts_goes_on(folder: Path) -> None:
    done = begun(folder, "agentrt", "--version", handler="SIG_IGN")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("agentrt ")
