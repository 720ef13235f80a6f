"""A client's connection under limits of time, and of number together with the others."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from httptools import HttpParserError, HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

Stage = Literal["head", "body", "idle", ""]
"""The awaited part of a request; `idle` between requests, and "" while one is answered."""

_STAGES: tuple[Stage, ...] = ("idle", "head", "body")

ACCEPTED_AT_ONCE = 16
"""Connections that asyncio accepts in one turn of its loop."""

_TURNS_TO_CLOSE = 5
"""Turns of the loop from a connection's start to the end of the one that makes room for it."""

_SPARE_FILES = 32 + ACCEPTED_AT_ONCE * _TURNS_TO_CLOSE
_FEWEST = 8
_VERSIONS = ("1.0", "1.1")
_HEADS = (b"HTTP/1.1 2", b"HTTP/1.1 4", b"HTTP/1.1 5")
MOST_HEAD_BYTES = 64 * 1024
"""Length of a request's head, and of all that is no body between two parts of one."""

_FIELD_BYTES = 4
"""Bytes of a field of a head beside its name and value."""

_PARTING_S = 5.0
_PARTING_BYTES = 16 << 20
"""Time and bytes for a client to send its body, which is not looked at, and read the answer."""

_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_MALFORMED = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_LONG_HEAD = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-length: 0\r\n\r\n"
)
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


class MalformedHead(Exception):
    """A head that the parser takes and this server does not."""


class Connection(HttpToolsProtocol):
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
        self._fields_bytes = 0  # of the fields of the request, its trailers included
        self._has_head = False
        self._unfinished_bytes = 0  # received since the last part that was whole
        self._ignores_input = False
        self.stage: Stage = ""
        self.waits_since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(OneWrite(transport, self._part))  # type: ignore[arg-type]
        self._enter("head", self._limits.head_s)
        if len(self.connections) > self._limits.most:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._enter("", 0.0)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unfinished_bytes += len(data)
        if self._ignores_input:
            if self.transport.is_closing() and self._unfinished_bytes > _PARTING_BYTES:
                self.transport.abort()
            return
        self._unset_keepalive_if_required()
        self._parse(data)  # which may find the ends of parts
        if self._unfinished_bytes > MOST_HEAD_BYTES:
            self._refuse(_LONG_HEAD)
        self._enter_next("head")

    def _parse(self, data: bytes) -> None:
        """Parse what was received. A request that offers an upgrade is answered without one.

        The parser takes what follows the head of such a request for another protocol. So the head
        is parsed once more without the offer.
        """
        rest = memoryview(data)
        try:
            while rest:
                try:
                    self.parser.feed_data(rest)
                    return
                except HttpParserUpgrade as offer:
                    rest = rest[offer.args[0] :]
                    self.parser.feed_data(self._head_without_upgrade())
        except HttpParserError:
            self._refuse(_MALFORMED)  # unless it is refused already

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, version)]
        lines += [b"%s: %s" % field for field in self.headers if field[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._fields_bytes = 0
        self._has_head = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields_bytes += len(name) + len(value) + _FIELD_BYTES
        if self._fields_bytes > MOST_HEAD_BYTES:
            self._refuse(_LONG_HEAD)
            raise MalformedHead("too long")
        if not self._has_head:  # trailers are left out: they may not replace fields of the head
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._unfinished_bytes = 0
        self._has_head = True
        self._check_head()
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unfinished_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished_bytes = 0
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self.transport.write(b"")  # a head that no body has followed
        super().on_response_complete()  # which may begin with the next request
        self._enter_next("idle")

    def _check_head(self) -> None:
        """Refuse what the parser leaves to its caller.

        Other versions, no or several hosts, and tunnels.

        Raises:
            MalformedHead: The head is not one of HTTP/1.
        """
        version = self.parser.get_http_version()
        hosts = sum([name == b"host" for name, _ in self.headers])
        if version not in _VERSIONS or hosts > 1 or (not hosts and version == "1.1"):
            raise MalformedHead("its version or host")
        if self.parser.get_method() == b"CONNECT":
            raise MalformedHead("its method")

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _enter_next(self, between: Stage) -> None:
        if self.transport.is_closing():
            return
        if not self._is_answering:
            self._enter(between, self._limits.head_s if between == "head" else 0.0)
        elif self.cycle.more_body and not self.pipeline:  # else one before it is answered
            self._enter("body", self._limits.body_s)
        else:
            self._enter("", 0.0)

    def _part(self) -> bool:
        """Leave a client that is still sending a body time for its answer; whether it is.

        A socket that is closed with bytes to be read is reset, and the answer may be lost.
        """
        if self.cycle is None or not self.cycle.more_body:
            return False
        self._ignores_input = True
        self._unfinished_bytes = 0
        self.flow.resume_reading()
        self._enter("", 0.0)
        self._enter("body", _PARTING_S)
        return True

    def _enter(self, stage: Stage, limit_s: float) -> None:
        """Begin a stage with a time of its own; one that lasts is not prolonged."""
        if stage == self.stage:
            return
        self.stage = stage
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.waits_since_s = self.loop.time()
        if limit_s:
            self._timer = self.loop.call_later(limit_s, self._end)

    def _end(self) -> None:
        """End a stage that took too long."""
        if self.transport.is_closing():
            self.transport.abort()
        else:
            self._close(_TIMED_OUT)

    def _close(self, last: bytes) -> None:
        if not self.transport.is_closing():
            self._enter("", 0.0)
            self.transport.write(last)
            self.transport.close()

    def _refuse(self, last: bytes) -> None:
        """Read no more; the requests before are answered first."""
        if self.pipeline or (self._is_answering and not self.cycle.more_body):
            self.cycle.keep_alive = False
            self._ignores_input = True
        else:
            self._close(last)

    def _make_room(self) -> None:
        every = [one for one in self.connections if isinstance(one, Connection)]
        others = [one for one in every if one is not self]
        other = least_missed(others)
        if other is not None:
            other._enter("", 0.0)
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
        part: Called before it is closed; if it returns true, only the sending ends, and the
            transport is left to the caller to abort.
    """

    def __init__(self, transport: asyncio.Transport, part: Callable[[], bool]) -> None:
        self._transport = transport
        self._part = part
        self._head = b""
        self._is_parting = False
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
        if self.is_closing():
            return
        if self._part():
            self._is_parting = True
            self._transport.write_eof()
        else:
            self._transport.close()

    def is_closing(self) -> bool:
        """Whether nothing more is sent."""
        return self._is_parting or self._transport.is_closing()

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
