"""Starts the engine's end of a connection: a process of its own, or a thread for tests.

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

from agentrt.base.child_environment import child_environment
from agentrt.base.clock import Clock
from agentrt.base.config import EngineConfig
from agentrt.base.cpu_cores import cores
from agentrt.engine.process.forecasts import load_forecast_s
from agentrt.engine.process.life_signs import LifeSigns

_TAIL_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child ended.

    Attributes:
        how: Description: `exit code 1`, `killed by signal 9`.
        stderr: Last lines of its stderr.
        code: Exit code; negative, the number of the signal that ended it.
    """

    how: str
    stderr: str
    code: int = 0


class Child(Protocol):
    """The engine's end of a connection.

    Attributes:
        owner_socket: The other end.
        signs: Signs of life; None for a thread, which cannot be killed.
    """

    owner_socket: socket.socket
    signs: LifeSigns | None

    @property
    def pid(self) -> int | None:
        """Id of its process; None if it has none of its own."""
        ...

    def kill(self) -> None:
        """Kill it at once, if that is possible."""
        ...

    def wait(self, timeout_s: float) -> ChildExit:
        """Wait for its end; after `timeout_s` it is killed. Blocks."""
        ...


class ProcessChild:
    """The engine in a process of its own, which dies with this one."""

    def __init__(self, config: EngineConfig) -> None:
        self.owner_socket, engine_socket = socket.socketpair()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the child
        command = [sys.executable, "-P", "-m", "agentrt.engine.process.main"]
        with engine_socket, tempfile.TemporaryFile() as page:
            self.signs: LifeSigns | None = LifeSigns.on_new(page)
            self.signs.begin(load_forecast_s(config))
            self._process = subprocess.Popen(
                [*command, *map(str, (engine_socket.fileno(), os.getpid(), page.fileno()))],
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,  # keeps stray prints out of the program's output
                stderr=self._stderr,
                env=environment(config, os.environ),
                pass_fds=(engine_socket.fileno(), page.fileno()),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout_s: float) -> ChildExit:
        try:
            code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return ChildExit(how, self._stderr_tail(), code)

    def _stderr_tail(self) -> str:
        if self._stderr.closed:
            return ""
        with self._stderr as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()


class ThreadChild:
    """The engine in a thread: the same loop over the same kind of socket."""

    pid = None

    def __init__(self, clock: Clock) -> None:
        self.owner_socket, engine_socket = socket.socketpair()
        self.signs: LifeSigns | None = None
        self._thread = threading.Thread(
            target=_serve_in_thread, args=(engine_socket, clock), name="agentrt-engine", daemon=True
        )
        self._thread.start()

    def kill(self) -> None:
        """Close the socket: a thread cannot be killed, but ends at its next step without one."""
        with contextlib.suppress(OSError):
            self.owner_socket.shutdown(socket.SHUT_RDWR)

    def wait(self, timeout_s: float) -> ChildExit:
        self._thread.join(timeout_s)
        return ChildExit("its thread ended", "")


def _serve_in_thread(engine_socket: socket.socket, clock: Clock) -> None:
    from agentrt.engine.process.main import (
        serve_engine,  # torch, which only this placement has in the process
    )

    serve_engine(engine_socket, clock)


def environment(config: EngineConfig, inherited: Mapping[str, str]) -> dict[str, str]:
    """Environment of the child, set before torch loads; the user's secrets stay out of it.

    The user's OpenMP settings are kept, except for the thread count if the config sets one. Threads
    wait passively by default: the cores are shared with the user's own tools, and an OpenMP thread
    that spins there stalls both (measured: a step can wait 8 ms at a barrier).
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
    env = {**defaults, **child_environment(inherited)}
    env["PYTHONPATH"] = defaults["PYTHONPATH"]
    if config.threads:
        env["OMP_NUM_THREADS"] = str(config.threads)
    return env


def _python_path(inherited: str) -> str:
    """Import path with which the child finds agentrt even if it is not installed."""
    root = str(Path(__file__).resolve().parents[3])
    if root == str(Path(sysconfig.get_path("purelib")).resolve()):
        return inherited
    kernels = Path(root, "kernels")
    return os.pathsep.join(
        part for part in (root, str(kernels) if kernels.is_dir() else "", inherited) if part
    )
