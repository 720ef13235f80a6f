"""A client as thin as asyncio allows: prepared bytes go out, and the answer's bytes are timed."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from agentrt.base.record import record

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
_EVENT = b"data: "
_STREAM_END = b"\r\n0\r\n\r\n"
_STATUS = slice(9, 12)


@record
class RawAnswer:
    """One answer.

    Attributes:
        status: Status code; 0 if the connection closed before.
        first_s: Seconds from the request to the first event of a stream, or to the whole answer.
        whole_s: Seconds to its end.
        head_and_body: All bytes.
    """

    status: int
    first_s: float
    whole_s: float
    head_and_body: bytes


class RawConnection(asyncio.Protocol):
    """A kept-alive connection for one request at a time."""

    def __init__(self) -> None:
        self._found = bytearray()
        self._whole: asyncio.Future[None] | None = None
        self._first_at_s = 0.0
        self._transport: asyncio.Transport | None = None
        self.closed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._found += data
        if not self._first_at_s and _EVENT in self._found:
            self._first_at_s = time.perf_counter()
        if self._is_whole():
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self._end()

    def write(self, data: bytes) -> None:
        """Send bytes whose answer is not waited for."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, request: bytes) -> RawAnswer:
        """Send a prepared request and wait for the end of its answer."""
        self._found.clear()
        self._first_at_s = 0.0
        self._whole = asyncio.get_running_loop().create_future()
        sent_at_s = time.perf_counter()
        self.write(request)
        if not self.closed.is_set():
            await self._whole
        ended_at_s = time.perf_counter()
        status = self._found[_STATUS]
        return RawAnswer(
            int(status) if status.isdigit() else 0,
            (self._first_at_s or ended_at_s) - sent_at_s,
            ended_at_s - sent_at_s,
            bytes(self._found),
        )

    def _is_whole(self) -> bool:
        if self._found.endswith(_STREAM_END):
            return True
        head, end, body = self._found.partition(_HEAD_END)
        length = _LENGTH.search(head + b"\r\n") if end else None
        return length is not None and len(body) >= int(length[1])

    def _end(self) -> None:
        if self._whole is not None and not self._whole.done():
            self._whole.set_result(None)


async def connected(port: int, source: str = "127.0.0.1") -> RawConnection:
    """A connection to a server of this machine.

    Args:
        port: Port of the server.
        source: Address of the client.

    Raises:
        OSError: The server takes none.
    """
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        RawConnection, "127.0.0.1", port, local_addr=(source, 0)
    )
    return connection


def health_request() -> bytes:
    """The bytes of a health check."""
    return b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


def chat_request(fields: Mapping[str, Any], key: str = "") -> bytes:
    """The bytes of a chat completion.

    Args:
        fields: Fields of its body.
        key: API key, or "".
    """
    body = json.dumps(fields).encode()
    lines = [
        "POST /v1/chat/completions HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *((f"authorization: Bearer {key}",) if key else ()),
    ]
    return "\r\n".join(lines).encode() + _HEAD_END + body
