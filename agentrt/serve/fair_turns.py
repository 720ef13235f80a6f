"""Turns at a few workers, shared among tenants."""

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
        self._begun = 0
        self._latest: dict[str, int] = {}  # number of the last turn
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
        """End a turn; the next goes to the tenant with the fewest now, and the longest ago."""
        self._free += 1
        self._running[tenant] -= 1
        if not self._running[tenant]:
            del self._running[tenant]
            if tenant not in self._waiting:
                self._latest.pop(tenant, None)
        while self._waiting:
            following = min(self._waiting, key=self._claim)
            turns = self._waiting[following]
            turn = turns.popleft()
            if not turns:
                del self._waiting[following]
            if not turn.cancelled():
                self._begin(following)
                turn.set_result(None)
                return

    def _begin(self, tenant: str) -> None:
        self._free -= 1
        self._running[tenant] += 1
        self._begun += 1
        self._latest[tenant] = self._begun

    def _claim(self, tenant: str) -> tuple[int, int]:
        return self._running[tenant], self._latest.get(tenant, 0)
