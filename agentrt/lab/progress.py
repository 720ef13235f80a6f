"""Progress of long commands."""

from __future__ import annotations

import time
from collections.abc import Callable

import typer

from agentrt.base.pace import pace_text

LINE_EVERY_S = 5.0


def log(text: str) -> None:
    """Print progress to standard error, beside the result."""
    typer.echo(text, err=True)


class WorkPace:
    """Pace of work in units that take about equally long: how many are done, the time left.

    Args:
        unit: Name of the units.
        total: Number of all units.
        write: Takes each line.
        now_s: Clock.
    """

    def __init__(
        self,
        unit: str,
        total: int,
        write: Callable[[str], None] = log,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unit = unit
        self._total = total
        self._write = write
        self._now_s = now_s
        self._began_s = self._told_s = now_s()
        self._done = 0

    def done(self, text: str = "") -> None:
        """Count a unit.

        Args:
            text: Result of the unit, which is told at once; without one a line comes every few
                seconds, and none of work that is over before.
        """
        self._done += 1
        now_s = self._now_s()
        if text or now_s - self._told_s >= LINE_EVERY_S:
            self._told_s = now_s
            pace = pace_text(self._done, self._total, now_s - self._began_s, self._unit)
            self._write(f"{text}; {pace}" if text else pace)
