"""A client's connection under limits of time, and of number together with the others."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

ACCEPTED_AT_ONCE = 64
"""Connections that are accepted before the number of them is looked at again."""

_SPARE_FILES = 32
_FEWEST = 8
_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n"
    b"content-length: 0\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of connections.

    Attributes:
        head_s: Time for the head of a request, from its first byte or from the connection's start.
        body_s: Time for the body of a request, from the end of its head.
        most: Connections at once. A further one takes the place of the one that has waited longest
            without a complete request; if there is none, it is refused.
    """

    head_s: float
    body_s: float
    most: int


class Connection(H11Protocol):
    """One connection.

    Args:
        limits: Limits of all connections.
        given: Arguments of uvicorn.

    Attributes:
        stage: "head" or "body" while that is read, else "".
        waits_since_s: Start of the stage, on the loop's clock.
    """

    def __init__(self, limits: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self.stage = ""
        self.waits_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._enter("head", self._limits.head_s)
        if len(self.connections) > self._limits.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter("", 0.0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.is_between_requests:
            self._enter("head", self._limits.head_s)
        elif self.cycle.more_body:
            self._enter("body", self._limits.body_s)
        else:
            self._enter("", 0.0)

    def on_response_complete(self) -> None:
        self._enter("", 0.0)
        self.waits_since_s = self.loop.time()
        super().on_response_complete()

    @property
    def is_between_requests(self) -> bool:
        """Whether no request is complete or has a complete head."""
        return self.cycle is None or self.cycle.response_complete

    def _enter(self, stage: str, limit_s: float) -> None:
        """Begin a stage with a time of its own; one that lasts is not prolonged."""
        if stage == self.stage:
            return
        self.stage = stage
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if stage and not self.transport.is_closing():
            self.waits_since_s = self.loop.time()
            self._timer = self.loop.call_later(limit_s, self._close, _TIMED_OUT)

    def _close(self, last: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(last)
            self.transport.close()

    def _make_room(self) -> None:
        every = [one for one in self.connections if isinstance(one, Connection)]
        others = [one for one in every if one is not self and not one.transport.is_closing()]
        idle = [one for one in others if one.is_between_requests]
        idle = idle or [one for one in others if one.stage == "body"]
        if idle:
            min(idle, key=_wait).transport.abort()
        else:
            self._close(_FULL)


def _wait(connection: Connection) -> float:
    return connection.waits_since_s


def most_connections(wanted: int) -> int:
    """The number of connections that this process can hold, at most `wanted`."""
    try:
        import resource
    except ImportError:  # not on this system
        return wanted
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    in_use = 0
    with suppress(OSError):
        in_use = len(os.listdir("/dev/fd"))
    if limit == resource.RLIM_INFINITY:
        return wanted
    return max(_FEWEST, min(wanted, limit - in_use - ACCEPTED_AT_ONCE - _SPARE_FILES))
