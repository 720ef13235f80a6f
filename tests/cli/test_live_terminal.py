"""The live tree in a real terminal of 80 columns and 24 rows."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import PROGRAMS, environment
from tests.oracles.terminal_screen import TerminalScreen

COLUMNS, ROWS = 80, 24
MOST_DRAWINGS = 200
QUESTION = "Which returned more from 2005 to 2009, AAPL or IBM?"
WAITING = """
import asyncio
from pathlib import Path
from agentrt import program, tool

@tool(effects="read")
async def look(n: int) -> int:
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    return n

@program
async def job(n: int = 40, fails: bool = False) -> int:
    looks = [look(i) for i in range(n)]
    total = sum([await one for one in looks])
    if fails:
        raise ValueError("that is all")
    return total
"""


class Typed:
    """A command typed in a terminal, its results led to a file.

    Args:
        folder: Folder of the command.
        args: Arguments.
        env: Variables beside those of the test.
    """

    def __init__(self, folder: Path, *args: str, env: dict[str, str] | None = None) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        left_out = ("CI", "NO_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
        clean = {name: value for name, value in environment().items() if name not in left_out}
        self._folder = folder
        with (folder / "out").open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agentrt", "run", *args],
                cwd=folder,
                env=clean | {"TERM": "xterm-256color", "PYTHONUTF8": "1"} | (env or {}),
                stdin=theirs,
                stdout=out,
                stderr=theirs,
            )
        os.close(theirs)
        self.screen = TerminalScreen(COLUMNS, ROWS)
        self.raw = ""
        self._rest = b""

    def until(self, is_seen: Callable[[str], object]) -> None:
        """Read until something is on the screen, which is drawn a few times a second."""
        for _ in range(MOST_DRAWINGS):
            if is_seen(self.screen.text):
                return
            assert self._read(), self.screen.text
        self.process.kill()
        raise AssertionError(self.screen.text)

    def end(self) -> int:
        """Read until the command has ended; gives its exit code."""
        while self._read():
            pass
        os.close(self._ours)
        return self.process.wait(timeout=60)

    @property
    def result(self) -> str:
        """What went to the file."""
        return (self._folder / "out").read_text("utf-8")

    def _read(self) -> bool:
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:  # the other side is closed
            return False
        # A character or a sequence may be cut in two; the rest comes with the next part.
        whole = self._rest + chunk
        cut = max(whole.rfind(b"\n"), whole.rfind(b"m"), whole.rfind(b"K"), whole.rfind(b"A")) + 1
        self._rest = whole[cut:]
        text = whole[:cut].decode()
        self.raw += text
        self.screen.feed(text)
        return True


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "job.py").write_text(WAITING, "utf-8")
    return tmp_path


def remote(url: str) -> tuple[str, ...]:
    return ("--engine", url, "--model", "tiny", "--trace", "off")


def test_finance_leaves_its_tree_and_its_line(tmp_path: Path) -> None:
    typed = Typed(tmp_path, str(PROGRAMS / "finance.py"), "--question", QUESTION)
    assert typed.end() == 0, typed.screen.text
    lines = typed.screen.text.splitlines()
    assert lines[0].split()[-4:] == ["tokens", "tok/s", "KV", "cached"]
    rows = {line.split()[1]: line for line in lines if line.startswith(("├", "└"))}
    assert {"plan#0", "report#0"} <= rows.keys()
    assert all("*" in rows[name] and "█" in rows[name] for name in ("plan#0", "report#0"))
    assert lines[1].startswith("finance#0")
    (at,) = [n for n, line in enumerate(lines) if line.startswith("compound ")]
    told = "".join(line.removeprefix(" ") for line in lines[at:]).split(" | ")
    assert told[1].startswith("parallelism ")
    assert any(line.startswith("  | trace ") for line in lines[at:]), (
        "its path has a line of its own"
    )
    assert "starting the engine" in typed.raw
    assert "answer" in json.loads(typed.result)
    assert not typed.screen.hidden_cursor


def test_forty_tools_fit_the_terminal(job: Path, server_url: str) -> None:
    typed = Typed(job, "job.py", *remote(server_url))
    typed.until(lambda text: "and 23 running" in text)
    assert len(typed.screen.lines) <= ROWS
    assert sum("look#" in line for line in typed.screen.text.splitlines()) == 17
    (job / "go").touch()
    assert typed.end() == 0
    lines = typed.screen.text.splitlines()
    assert lines[1].startswith("job#0")
    assert len([line for line in lines if "look#" in line]) == 8
    assert [line for line in lines if line.startswith("⋮ and 32 ok")]
    assert typed.result == "780\n"


def test_an_interrupt_leaves_the_tree_as_it_was(job: Path, server_url: str) -> None:
    typed = Typed(job, "job.py", "--n", "3", *remote(server_url))
    typed.until(lambda text: text.count("tool  ") == 3)
    typed.process.send_signal(signal.SIGINT)
    assert typed.end() == 130
    lines = typed.screen.text.splitlines()
    assert lines[1].split()[:2] == ["job#0", "cancelled"]
    assert [line.split()[2] for line in lines[2:5]] == ["cancelled"] * 3
    assert lines[-1] == "interrupted"
    assert not typed.screen.hidden_cursor


@pytest.mark.slow
def test_an_error_stands_below_the_tree(job: Path, server_url: str) -> None:
    (job / "go").touch()
    typed = Typed(job, "job.py", "--n", "2", "--fails", *remote(server_url))
    assert typed.end() == 1
    lines = typed.screen.text.splitlines()
    assert lines[1].split()[:2] == ["job#0", "failed"]
    at = next(at for at, line in enumerate(lines) if line.startswith("error:"))
    assert "that is all" in lines[at]
    assert at > 4


CALM: list[tuple[str, tuple[str, ...], dict[str, str]]] = [
    ("json", ("--json",), {}),
    ("quiet", ("--quiet",), {}),
    ("CI", (), {"CI": "true"}),
    ("dumb", (), {"TERM": "dumb"}),
]


@pytest.mark.parametrize(
    ("args", "env"),
    [
        pytest.param(*one[1:], id=one[0], marks=[pytest.mark.slow] if at else [])
        for at, one in enumerate(CALM)
    ],
)
def test_where_nothing_is_redrawn(
    job: Path, server_url: str, args: tuple[str, ...], env: dict[str, str]
) -> None:
    (job / "go").touch()
    typed = Typed(job, "job.py", "--n", "2", *args, *remote(server_url), env=env)
    assert typed.end() == 0
    assert "\x1b" not in typed.raw
    is_quiet = "--quiet" in args
    assert len(re.findall(r"look#\d +tool +ok", typed.raw)) == (0 if is_quiet else 2)
    assert (typed.raw == "") is is_quiet


@pytest.mark.slow
def test_no_colour_where_none_is_wanted(job: Path, server_url: str) -> None:
    (job / "go").touch()
    typed = Typed(job, "job.py", "--n", "2", *remote(server_url), env={"NO_COLOR": "1"})
    assert typed.end() == 0
    assert "look#1" in typed.screen.text
    assert not typed.screen.colours
