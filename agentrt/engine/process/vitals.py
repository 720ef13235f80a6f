"""Judges from its signs of life whether an engine is stopped or hangs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from agentrt.engine.process.life_signs import Reading
from agentrt.engine.process.process_state import ProcessState

CHECK_S = 0.5
"""Seconds between two looks at an engine."""

STOPPED_S = 2.0
"""Seconds without a beat and without processor time after which a process is stopped."""

LOADING_S = 15.0
"""The same while the engine loads, unless the system reports the process as stopped: one library
may take long to read, and hold all threads."""

HANGS_FORECASTS = 20.0
"""A phase hangs if it takes so many times its forecast ..."""

HANGS_S = 5.0
"""... and more than this many seconds."""

Verdict = Literal["alive", "stopped", "hangs"]

_UNKNOWN = ProcessState()


@dataclass(slots=True)
class Vitals:
    """Health of one engine's process.

    A look counts for at most twice `CHECK_S`: if the owner itself was stopped, or its loop was
    blocked, the time proves nothing about the engine.

    Attributes:
        reading: Signs of life at the last look.
        process: State of the process at the last look.
        silent_s: Seconds since the last beat or processor time.
        phase_s: Seconds since the phase under way was seen first.
    """

    reading: Reading = field(default_factory=Reading)
    process: ProcessState = _UNKNOWN
    silent_s: float = 0.0
    phase_s: float = 0.0

    def look(self, reading: Reading, process: ProcessState, passed_s: float) -> Verdict:
        """Take new signs of life into account.

        Args:
            reading: Signs of life now.
            process: State of the process now.
            passed_s: Seconds since the last look.
        """
        counted_s = min(passed_s, 2 * CHECK_S)
        before, self.reading = self.reading, reading
        moved = reading.beats != before.beats or process.cpu_s != self.process.cpu_s
        self.process = process
        self.silent_s = 0.0 if moved else self.silent_s + counted_s
        is_same_phase = reading.phases == before.phases and reading.forecast_s > 0
        self.phase_s = self.phase_s + counted_s if is_same_phase else 0.0
        may_be_reading = reading.is_loading and not process.is_stopped
        if self.silent_s >= (LOADING_S if may_be_reading else STOPPED_S):
            return "stopped"
        if self.phase_s > max(HANGS_S, HANGS_FORECASTS * reading.forecast_s):
            return "hangs"
        return "alive"

    def describe(self, verdict: Verdict) -> str:
        """Description of a verdict, for an error."""
        if verdict == "stopped":
            return f"no sign of life for {self.silent_s:.1f} s: its process is stopped"
        work = "a load" if self.reading.is_loading else "a step"
        forecast_s = self.reading.forecast_s
        return f"{work} has taken {self.phase_s:.1f} s and should take {forecast_s:.3g} s"
