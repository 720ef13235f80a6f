"""A client's connection under limits of time, and of number together with the others."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from uvicorn.protocols.http.h11_impl import H11Protocol

Stage = Literal["head", "body", "idle", ""]
"""The awaited part of a request; `idle` between requests, and "" while one is answered."""

_STAGES: tuple[Stage, ...] = ("idle", "head", "body")

ACCEPTED_AT_ONCE = 16
"""Connections that asyncio accepts in one turn of its loop."""

_TURNS_TO_CLOSE = 5
"""Turns of the loop from a connection's start to the end of the one that makes room for it."""

_SPARE_FILES = 32 + ACCEPTED_AT_ONCE * _TURNS_TO_CLOSE
_FEWEST = 8
_HEADS = (b"HTTP/1.1 2", b"HTTP/1.1 4", b"HTTP/1.1 5")
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
        most: Connections at once. A further one takes the place of another that waits for its
            client, see `least_missed`; if there is none, it is refused.
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
        stage: Part that it waits for.
        waits_since_s: Start of the stage, on the loop's clock.
    """

    def __init__(self, limits: ConnectionLimits, **given: Any) -> None:
        super().__init__(**given)
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self.stage: Stage = ""
        self.waits_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(OneWrite(transport))  # type: ignore[arg-type]
        self._enter("head", self._limits.head_s)
        if len(self.connections) > self._limits.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter("", 0.0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._enter_next("head")

    def on_response_complete(self) -> None:
        super().on_response_complete()  # which may begin with the next request
        self._enter_next("idle")

    def _enter_next(self, between: Stage) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._enter(between, self._limits.head_s if between == "head" else 0.0)
        elif self.cycle.more_body:
            self._enter("body", self._limits.body_s)
        else:
            self._enter("", 0.0)

    def _enter(self, stage: Stage, limit_s: float) -> None:
        """Begin a stage with a time of its own; one that lasts is not prolonged."""
        if stage == self.stage:
            return
        self.stage = stage
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.waits_since_s = self.loop.time()
        if limit_s and not self.transport.is_closing():
            self._timer = self.loop.call_later(limit_s, self._close, _TIMED_OUT)

    def _close(self, last: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(last)
            self.transport.close()

    def _make_room(self) -> None:
        every = [one for one in self.connections if isinstance(one, Connection)]
        others = [one for one in every if one is not self and not one.transport.is_closing()]
        other = least_missed(others)
        if other is not None:
            other.transport.abort()
        else:
            self._close(_FULL)


class WaitingConnection(Protocol):
    """The facts by which one connection is chosen to make room for another."""

    @property
    def stage(self) -> Stage: ...

    @property
    def waits_since_s(self) -> float: ...

    @property
    def client(self) -> tuple[str, int] | None: ...


ConnectionT = TypeVar("ConnectionT", bound=WaitingConnection)


def least_missed(connections: Sequence[ConnectionT]) -> ConnectionT | None:
    """The connection that makes room for another; None if the requests of all are being answered.

    It is one of the address that has most of those that wait for their clients. Connections between
    two requests go first, since their clients connect again. Otherwise the kind goes of which there
    are more: heads and bodies that are read have half of the places each, however many come of the
    others. Of its kind, the one goes that has waited longest.
    """
    waiting = [one for one in connections if one.stage]
    if not waiting:
        return None
    (address, _), *_ = Counter(map(_address, waiting)).most_common(1)
    own = [one for one in waiting if _address(one) == address]
    idle, heads, bodies = ([one for one in own if one.stage == stage] for stage in _STAGES)
    many = heads if len(heads) >= len(bodies) else bodies
    return min(idle or many, key=_start)


def _start(connection: WaitingConnection) -> float:
    return connection.waits_since_s


def _address(connection: WaitingConnection) -> str:
    return connection.client[0] if connection.client else ""


class OneWrite:
    """A transport that sends the head of a response together with what follows it.

    Each write is a system call, and a packet. uvicorn writes a head when it starts a response, and
    a part of the body right after it.

    Args:
        transport: The transport itself.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self.is_closing = transport.is_closing
        self.abort = transport.abort

    def write(self, data: bytes) -> None:
        """Send data; the head of a response waits for the next write."""
        if not self._head and data.startswith(_HEADS):
            self._head = data
        elif self._head or data:
            head, self._head = self._head, b""
            self._transport.write(head + data)

    def close(self) -> None:
        """Send what waits, and close."""
        if self._head:
            self.write(b"")
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


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
    return max(_FEWEST, min(wanted, limit - in_use - _SPARE_FILES))
