"""Turns at a few workers, shared among tenants: whoever has had the least goes first."""

from __future__ import annotations

import asyncio
from collections import Counter, deque


class FairTurns:
    """Turns for a number of workers at once.

    Args:
        workers: Number of workers.
    """

    def __init__(self, workers: int) -> None:
        self._free = workers
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def take(self, tenant: str) -> None:
        """Wait for a turn; `give_back` ends it."""
        if not self._free:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(tenant, deque()).append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # it came as the wait was given up
                    self.give_back(tenant)
                raise
            return
        self._begin(tenant)

    def give_back(self, tenant: str) -> None:
        """End a turn; the next one goes to the tenant with the fewest, the longest waiting one."""
        self._free += 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
        while self._waiting:
            following = min(self._waiting, key=lambda name: self._running[name])
            turns = self._waiting.pop(following)
            turn = turns.popleft()
            if turns:
                self._waiting[following] = turns  # behind all others
            if not turn.cancelled():
                self._begin(following)
                turn.set_result(None)
                return

    def _begin(self, tenant: str) -> None:
        self._free -= 1
        self._running[tenant] += 1
