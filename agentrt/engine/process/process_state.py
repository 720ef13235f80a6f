"""State of a process as the system reports it, where it does."""

from __future__ import annotations

import contextlib
import os

from agentrt.base.record import record


@record
class ProcessState:
    """State of a process at one instant.

    Attributes:
        cpu_s: User and system time so far; None where the system does not report it.
        is_stopped: Whether a signal has stopped the process.
    """

    cpu_s: float | None = None
    is_stopped: bool = False


def process_state(pid: int) -> ProcessState:
    """State of a process now."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ProcessState()
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return ProcessState(cpu_s, is_stopped=fields[0] == "T")


def count_oom_kills() -> int:
    """Processes that the kernel has killed for lack of memory so far; 0 where it does not tell."""
    count = 0
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            found = (line.split() for line in file if line.startswith("oom_kill "))
            count += sum(int(value) for _, value in found)
    return count
