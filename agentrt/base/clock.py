"""The clock of all rooms, injected so that tests can replace it.

Instants are seconds of `time.monotonic()`: one scale for all processes of a machine.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of instants."""

    def now_s(self) -> float:
        """Current time in seconds, on a scale that never goes back."""
        ...

    def unix_ns(self) -> int:
        """Current time in nanoseconds since 1970, to place a run on the calendar."""
        ...


class MonotonicClock:
    """The machine's clock. Read a dozen times a node, so without a call in between."""

    now_s = staticmethod(time.monotonic)
    unix_ns = staticmethod(time.time_ns)


class FakeClock:
    """A clock that moves only by `advance`."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s

    def now_s(self) -> float:
        return self._now_s

    def unix_ns(self) -> int:
        return 1_600_000_000_000_000_000 + int(self._now_s * 1e9)

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`, which must not be negative."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back by {-seconds} s")
        self._now_s += seconds
