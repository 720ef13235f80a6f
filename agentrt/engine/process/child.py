"""Starting the engine's other end: a process with its own environment, or a thread for tests.

Nothing here imports torch; the child does, after its environment is set.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.cpu_cores import cores

_TAIL_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Death:
    """How a child ended.

    Attributes:
        how: In words: `exit code 1`, `killed by signal 9`.
        stderr: The last lines it wrote there.
    """

    how: str
    stderr: str


class Child(Protocol):
    """The engine's end of a connection."""

    ours: socket.socket

    def kill(self) -> None:
        """End it at once, where that is possible."""
        ...

    def wait(self, patience_s: float) -> Death:
        """Wait for it to end, at most `patience_s` before it is killed. Blocks."""
        ...


class ProcessChild:
    """The engine in a process of its own, which dies with this one."""

    def __init__(self, config: EngineConfig) -> None:
        self.ours, theirs = socket.socketpair()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the child
        command = [sys.executable, "-P", "-m", "agentrt.engine.process.main"]
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,  # a stray print must not end up in the program's output
                stderr=self._stderr,
                env=environment(config, os.environ),
                pass_fds=(theirs.fileno(),),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def wait(self, patience_s: float) -> Death:
        try:
            code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return Death(how, self._tail())

    def _tail(self) -> str:
        if self._stderr.closed:
            return ""
        with self._stderr as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()


class ThreadChild:
    """The engine in a thread: the same loop over the same kind of socket."""

    def __init__(self, clock: Clock) -> None:
        self.ours, theirs = socket.socketpair()
        self._thread = threading.Thread(
            target=_host_in_thread, args=(theirs, clock), name="agentrt-engine", daemon=True
        )
        self._thread.start()

    def kill(self) -> None:
        """A thread cannot be killed; it ends at its next step, when it finds its socket closed."""
        with contextlib.suppress(OSError):
            self.ours.shutdown(socket.SHUT_RDWR)

    def wait(self, patience_s: float) -> Death:
        self._thread.join(patience_s)
        return Death("its thread ended", "")


def _host_in_thread(theirs: socket.socket, clock: Clock) -> None:
    from agentrt.engine.process.main import (
        host,  # torch, which only this placement has in the process
    )

    host(theirs, clock)


def environment(config: EngineConfig, inherited: Mapping[str, str]) -> dict[str, str]:
    """The child's environment, set before torch loads.

    What the user set for OpenMP stands, except for the thread count when the configuration names
    one. Threads wait passively by default: the cores are shared with the user's own tools, and an
    OpenMP thread that spins there stalls both (research: a step can wait 8 ms at a barrier).
    """
    threads = config.threads or cores()
    defaults = {
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "KMP_BLOCKTIME": "0",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": _python_path(inherited.get("PYTHONPATH", "")),
    }
    env = {**defaults, **inherited}
    env["PYTHONPATH"] = defaults["PYTHONPATH"]
    if config.threads:
        env["OMP_NUM_THREADS"] = str(config.threads)
    return env


def _python_path(inherited: str) -> str:
    """Where the child finds agentrt when it is not installed but lies somewhere on our path."""
    root = str(Path(__file__).resolve().parents[3])
    if root == str(Path(sysconfig.get_path("purelib")).resolve()):
        return inherited
    kernels = Path(root, "kernels")
    return os.pathsep.join(
        part for part in (root, str(kernels) if kernels.is_dir() else "", inherited) if part
    )
