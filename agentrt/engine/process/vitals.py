"""Judges from its signs of life whether an engine is stopped or hangs."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import Literal

from agentrt.engine.process.life_signs import Reading

CHECK_S = 0.5
"""Seconds between two looks at an engine."""

STOPPED_S = 2.0
"""Seconds without a beat and without processor time after which a process is stopped."""

LOADING_S = 15.0
"""The same before the first step: one library may take long to read, and hold all threads."""

HANGS_FORECASTS = 20.0
"""A step hangs if it takes so many times its forecast ..."""

HANGS_S = 5.0
"""... and more than this many seconds."""

Verdict = Literal["alive", "stopped", "hangs"]


@dataclass(slots=True)
class Vitals:
    """Health of one engine's process.

    A look counts for at most twice `CHECK_S`: if the owner itself was stopped, or its loop was
    blocked, the time proves nothing about the engine.

    Attributes:
        reading: Signs of life at the last look.
        cpu_s: Processor seconds of the process at the last look; None if they cannot be read.
        silent_s: Seconds since the last beat or processor time.
        step_s: Seconds since the step under way was seen first.
    """

    reading: Reading = field(default_factory=Reading)
    cpu_s: float | None = None
    silent_s: float = 0.0
    step_s: float = 0.0

    def look(self, reading: Reading, cpu_s: float | None, passed_s: float) -> Verdict:
        """Take new signs of life into account.

        Args:
            reading: Signs of life now.
            cpu_s: Processor seconds of the process until now; None if they cannot be read.
            passed_s: Seconds since the last look.
        """
        counted_s = min(passed_s, 2 * CHECK_S)
        before, self.reading = self.reading, reading
        moved = reading.beats != before.beats or cpu_s != self.cpu_s
        self.cpu_s = cpu_s
        self.silent_s = 0.0 if moved else self.silent_s + counted_s
        is_same_step = reading.steps == before.steps and reading.forecast_s > 0
        self.step_s = self.step_s + counted_s if is_same_step else 0.0
        if self.silent_s >= (STOPPED_S if reading.steps else LOADING_S):
            return "stopped"
        if self.step_s > max(HANGS_S, HANGS_FORECASTS * reading.forecast_s):
            return "hangs"
        return "alive"

    def describe(self, verdict: Verdict) -> str:
        """Description of a verdict, for an error."""
        if verdict == "stopped":
            return f"no sign of life for {self.silent_s:.1f} s: its process is stopped"
        forecast_s = self.reading.forecast_s
        return f"a step has taken {self.step_s:.1f} s and should take {forecast_s:.3g} s"


def count_oom_kills() -> int:
    """Processes that the kernel has killed for lack of memory so far; 0 where it does not tell."""
    count = 0
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
            found = (line.split() for line in file if line.startswith("oom_kill "))
            count += sum(int(value) for _, value in found)
    return count


def processor_seconds(pid: int) -> float | None:
    """User and system time of a process; None where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
