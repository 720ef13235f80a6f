"""Ends what was started when this process ends, whatever ends it."""

from __future__ import annotations

import contextlib
import subprocess
import sys

_WAIT = """
import os, sys
if not sys.stdin.buffer.read(1):
    try:
        os.killpg(int(sys.argv[1]), 9)
    except ProcessLookupError:
        pass
"""


class Keeper:
    """A process that waits for our end, and then kills a group of processes.

    They could not end themselves: most of the time they are stopped by a signal.

    Args:
        group: Of the processes; its leader's id.
    """

    def __init__(self, group: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _WAIT, str(group)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the terminal is not for it
        )

    def close(self) -> None:
        """Let go: the group is ended otherwise. Idempotent."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(b".")
                self._process.stdin.close()
        self._process.wait()
