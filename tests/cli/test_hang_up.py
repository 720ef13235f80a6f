"""A terminal that is closed ends its command in order: a write tool is not cut short."""

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path

from tests.cli.conftest import PAYING, environment


def _own_terminal() -> None:
    """Take standard input as the terminal whose end is a hang-up, whatever pytest inherited."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def test_a_closed_terminal_does_not_cut_a_write_short(tmp_path: Path, server_url: str) -> None:
    (tmp_path / "job.py").write_text(PAYING, "utf-8")
    engine = ("--engine", server_url, "--model", "tiny")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "agentrt", "run", *engine, "job.py"],
        cwd=tmp_path,
        env={k: v for k, v in environment().items() if k != "CI"} | {"TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_own_terminal,
    ) as process:
        try:
            os.close(theirs)
            while not (tmp_path / "begun").exists():
                assert process.poll() is None
                os.sched_yield()
            os.close(ours)
            (tmp_path / "go").touch()
            assert process.wait(timeout=60) == 129
        finally:
            process.kill()
    assert (tmp_path / "paid").exists()
    assert len(list((tmp_path / "traces" / "runs").glob("*.json"))) == 1
