"""Where a backend leaves its events until its one reader takes them."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

from agentrt.base.notifier import Notifier
from agentrt.protocol.step_output import BackendEvent


class EventQueue:
    """Events in order, for one reader. Not thread-safe: everything on one event loop."""

    def __init__(self) -> None:
        self._events: deque[BackendEvent] = deque()
        self._wake = Notifier()
        self._closed = False

    def put(self, event: BackendEvent) -> None:
        """Leave one event; after `close` it is dropped, for nobody reads it any more."""
        if not self._closed:
            self._events.append(event)
            self._wake.ring()

    def close(self) -> None:
        """No more events: the reader takes what is there and ends."""
        self._closed = True
        self._wake.ring()

    async def read(self) -> AsyncIterator[BackendEvent]:
        """Every event, as it comes, until `close`."""
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            await self._wake.wait()
