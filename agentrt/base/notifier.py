"""Waiting for a change, and waking whoever waits.

`anyio.Event` is a flag that stays set and asks at every birth which library is in force. A wait
here needs neither: it has looked at what it waits for, and asyncio runs it.
"""

from __future__ import annotations

import asyncio


class Notifier:
    """Wakes all who wait, as often as there is something new. For one event loop."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def waiting(self) -> int:
        """Number of waits that no ring has ended yet."""
        return len(self._waiting)

    def ring(self) -> None:
        """Wake all who wait now."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next ring."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            raise
