"""A process and all that it starts, halted between its turns and ended with this process."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence

_TAIL_BYTES = 1_500
_WAIT_FOR_END = """
import os, sys
if not sys.stdin.buffer.read(1):
    try:
        os.killpg(int(sys.argv[1]), 9)
    except ProcessLookupError:
        pass
"""


class ProcessGroup:
    """A process in a group of its own, together with the processes that it starts.

    A halted group is stopped by a signal. Otherwise its spinning threads, caches and page sweeps
    would be measured along with another arm.

    Args:
        command: Command line of the process.
        env: Variables added to this process's environment.
        talks: True if standard input and output are pipes; otherwise output goes to the log.

    Attributes:
        process: The leader of the group.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, talks: bool = False
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
            stdout=subprocess.PIPE if talks else self._log,
            stderr=self._log,
            env={**os.environ, **env},
            text=True,
            start_new_session=True,  # a signal reaches what it has started as well
        )
        self._reaper = GroupReaper(self.process.pid)
        self._halted = False

    @property
    def is_running(self) -> bool:
        """True until the leader has ended."""
        return self.process.poll() is None

    def halt(self) -> None:
        """Stop all processes by a signal. Idempotent."""
        if not self._halted:
            self._signal(signal.SIGSTOP)
            self._halted = True

    def resume(self) -> None:
        """Let them go on. Idempotent."""
        if self._halted:
            self._signal(signal.SIGCONT)
            self._halted = False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let a halted group run for the length of a block."""
        was_halted = self._halted
        self.resume()
        try:
            yield
        finally:
            if was_halted:
                self.halt()

    def close(self, patience_s: float) -> None:
        """End the group; the leader may take so long to end by itself. Idempotent."""
        self.resume()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience_s)
        self._signal(signal.SIGKILL)
        self.process.wait()
        self._reaper.close()
        self._log.close()

    def kill(self) -> None:
        """Kill all processes; `close` is still to be called."""
        self._signal(signal.SIGKILL)

    def last_words(self) -> str:
        """The last lines of the log."""
        if self._log.closed:
            return "it was closed"
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _TAIL_BYTES))
        lines = self._log.read().decode("utf-8", "replace").splitlines()
        return " | ".join(line.strip() for line in lines[-4:] if line.strip())

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


class GroupReaper:
    """A process that kills a group of processes once this process has ended.

    A halted group could not end itself.

    Args:
        group: Id of the group's leader.
    """

    def __init__(self, group: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WAIT_FOR_END, str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the terminal is not for it
        )

    def close(self) -> None:
        """Leave the group alone from now on. Idempotent."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(b".")
                self._process.stdin.close()
        self._process.wait()
