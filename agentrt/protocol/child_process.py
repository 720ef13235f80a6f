"""A process that computes in place of this one, and that can be killed."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import IO

from agentrt.base.child_environment import child_environment
from agentrt.protocol.wire import FrameReader

_READ_BYTES = 1 << 16
_EXIT_S = 1.0


class ChildProcess:
    """A Python process that takes frames on its standard input and writes frames to its output.

    Args:
        arguments: Arguments of the interpreter: a file, or `-m` and a module.
    """

    def __init__(self, *arguments: str) -> None:
        self._reader = FrameReader()
        self._payloads: list[bytes] = []
        self._process = subprocess.Popen(
            [sys.executable, "-P", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={
                **child_environment(os.environ),
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            },
        )
        os.set_blocking(_pipe(self._process.stdin).fileno(), False)
        self._kill = weakref.finalize(self, _kill, self._process)  # if `end` is not called

    @property
    def pid(self) -> int:
        """Id of the process."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def send(self, frame: bytes, ends_s: float) -> None:
        """Write a frame. If the process is dead or does not read it, `receive` gives None.

        Args:
            frame: Length and payload.
            ends_s: End of the writing, on the monotonic clock.
        """
        target = _pipe(self._process.stdin).fileno()
        rest = memoryview(frame)
        with contextlib.suppress(BrokenPipeError):
            while rest and _is_ready(target, select.POLLOUT, ends_s):
                rest = rest[os.write(target, rest) :]

    def receive(self, ends_s: float) -> bytes | None:
        """The payload of the next frame; None if the process died or has not answered in time."""
        source = _pipe(self._process.stdout).fileno()
        while not self._payloads:
            ready = _is_ready(source, select.POLLIN, ends_s)
            data = os.read(source, _READ_BYTES) if ready else b""
            if not data:
                return None
            self._payloads += self._reader.feed_data(data)
        return self._payloads.pop(0)

    def computed_s(self) -> float:
        """CPU time of the process, if the system reports it; else 0."""
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii")
            ticks = stat.rpartition(")")[2].split()[11:13]  # user and system time
            return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return 0.0

    def end(self) -> int | None:
        """End the process.

        Returns:
            Its own exit code, negative for a signal; None if it was still alive and is killed now.
        """
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            closed = _is_ready(_pipe(self._process.stdout).fileno(), select.POLLHUP, 0.0)
            code = self._process.wait(_EXIT_S if closed else 0.0)
        self._kill()
        return code


def _is_ready(descriptor: int, event: int, ends_s: float) -> bool:
    poll = select.poll()
    poll.register(descriptor, event)
    return bool(poll.poll(max(0.0, ends_s - time.monotonic()) * 1e3))


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(BrokenPipeError):
            _pipe(pipe).close()
    process.wait()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
