"""The clock of a run on the calendar."""

from __future__ import annotations

from agentrt.protocol.events import RunStarted
from agentrt.telemetry.span import Span


class RunClock:
    """Instants of a run's clock on the calendar.

    Args:
        started: Start of the run; None places the clock at 1970.

    Attributes:
        started_at_s: Start of the run, on its clock.
    """

    def __init__(self, started: RunStarted | None) -> None:
        self.started_at_s = started.at_s if started else 0.0
        self._zero_us = started.unix_ns / 1000 - started.at_s * 1e6 if started else 0.0

    def us(self, at_s: float) -> int:
        """Whole microseconds since 1970."""
        return round(self._zero_us + at_s * 1e6)

    def us_inside(self, span: Span, at_s: float) -> int:
        """The same, moved into a span."""
        return min(max(self.us(at_s), span.start_us), span.end_us)

    def ms(self, at_s: float) -> float:
        """Milliseconds since the run began."""
        return round((at_s - self.started_at_s) * 1e3, 3)
