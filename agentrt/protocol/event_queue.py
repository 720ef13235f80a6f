"""The queue of a backend's events for its one reader."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator

from agentrt.base.notifier import Notifier
from agentrt.protocol.step_output import BackendEvent


class EventQueue:
    """Events in order, for one reader. Not thread-safe: used on one event loop only."""

    def __init__(self) -> None:
        self._events: deque[BackendEvent] = deque()
        self._notifier = Notifier()
        self._closed = False
        self._error: Exception | None = None

    def put(self, event: BackendEvent) -> None:
        """Add one event; after `close` it is dropped, since there is no reader."""
        if not self._closed:
            self._events.append(event)
            self._notifier.notify_all()

    def close(self) -> None:
        """End the stream: the reader takes the events that are left and ends."""
        self._closed = True
        self._notifier.notify_all()

    def fail(self, error: Exception) -> None:
        """End the stream by an error, which the reader gets behind the events that are left."""
        self._error = self._error or error
        self.close()

    async def read(self) -> AsyncIterator[BackendEvent]:
        """Events as they come, until `close` or `fail`.

        Raises:
            Exception: The error of `fail`.
        """
        while True:
            while self._events:
                yield self._events.popleft()
            if self._error is not None:
                raise self._error
            if self._closed:
                return
            await self._notifier.wait()
