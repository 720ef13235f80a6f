"""Waiting for a change on one event loop, and waking the waiters.

`anyio.Event` stays set, and looks up the async library each time it is made. A waiter here needs
neither: it has checked its condition before, and the loop is asyncio's.
"""

from __future__ import annotations

import asyncio


class Notifier:
    """A condition without a lock: `notify_all` wakes every current waiter, any number of times."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def waiting(self) -> int:
        """Number of current waiters."""
        return len(self._waiting)

    def notify_all(self) -> None:
        """Wake all current waiters."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        """Wait for the next `notify_all`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            raise
