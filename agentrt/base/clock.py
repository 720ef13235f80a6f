"""The clock of all rooms, injected so that tests can replace it.

Instants are seconds of `time.monotonic()`: one scale for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from agentrt.base.notifier import Notifier


class Clock(Protocol):
    """Source of instants."""

    def now_s(self) -> float:
        """Current time in seconds, on a scale that never goes back."""
        ...

    def unix_ns(self) -> int:
        """Current time in nanoseconds since 1970, to place a run on the calendar."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has moved on by so much."""
        ...


class MonotonicClock:
    """The machine's clock. Read a dozen times a node, so without a call in between."""

    now_s = staticmethod(time.monotonic)
    unix_ns = staticmethod(time.time_ns)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class FakeClock:
    """A clock that moves only by `advance`."""

    def __init__(self, now_s: float = 0.0) -> None:
        self._now_s = now_s
        self._moved = Notifier()

    def now_s(self) -> float:
        return self._now_s

    def unix_ns(self) -> int:
        return 1_600_000_000_000_000_000 + int(self._now_s * 1e9)

    def advance(self, seconds: float) -> None:
        """Move on by `seconds`, which must not be negative."""
        if seconds < 0:
            raise ValueError(f"a clock cannot go back by {-seconds} s")
        self._now_s += seconds
        self._moved.notify_all()

    async def sleep(self, seconds: float) -> None:
        until_s = self._now_s + seconds
        while self._now_s < until_s:
            await self._moved.wait()
