"""The clock of the running event loop, virtual if the loop's time is."""

from __future__ import annotations

import asyncio

_UNIX_NS = 1_600_000_000_000_000_000


class LoopClock:
    """Instants of an asyncio loop, readable from any thread.

    Args:
        loop: Event loop with the time; None takes the loop that runs at the first reading.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._loop = loop

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read the time of another loop from now on."""
        self._loop = loop

    def now_s(self) -> float:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return self._loop.time()

    def unix_ns(self) -> int:
        """A fixed day plus the loop's time, so that runs of a test are equal."""
        return _UNIX_NS + int(self.now_s() * 1e9)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
