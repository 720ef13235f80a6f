"""Limits that a process which computes in place of another sets on itself."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from agentrt.protocol.wire import FrameReader

_READ_BYTES = 1 << 16


def claim_answers() -> BinaryIO:
    """Standard output for answers alone; prints of libraries go to standard error.

    A Ctrl-C is for the owner, and ends both.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def payloads(idle_s: float | None = None) -> Iterator[bytes]:
    """The payloads on standard input, until its end.

    Args:
        idle_s: Time without input that is an end, too.
    """
    reader = FrameReader()
    while select.select([0], [], [], idle_s)[0] and (data := os.read(0, _READ_BYTES)):
        yield from reader.feed_data(data)


def limit_cpu(seconds: float) -> None:
    """Have the kernel end this process after so much CPU time of all threads; 0 lifts the limit."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


def limit_memory(more_bytes: int) -> None:
    """Limit memory to `more_bytes` beyond what is mapped now (Linux only); no core is written."""
    if sys.platform != "linux":
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
