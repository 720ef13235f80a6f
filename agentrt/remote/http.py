"""HTTP to a remote engine: the only module that imports httpx.

It holds the address, the key, timeouts and limits, and converts failures to the error tree. A
request is retried here until its answer begins; `RemoteBackend` retries answers that break off.
"""

from __future__ import annotations

import json
import os
import random
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import anyio
import httpx

from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.errors import (
    AgentrtError,
    ContextOverflow,
    EngineDied,
    EngineUnavailable,
    RequestRejected,
    UsageError,
)
from agentrt.base.key_reference import key_name
from agentrt.base.loopback import is_loopback
from agentrt.remote.answer_shape import Malformed, check_chunk, parsed_object
from agentrt.remote.limits import DEFAULT_LIMITS, RemoteLimits
from agentrt.remote.retries import Retries
from agentrt.remote.sse import EventStream, EventTooLong

Json = dict[str, Any]

CONNECT_S = 5.0
MAX_ERROR_BYTES = 64 << 10
_BUSY = {408, 429}
_AWAY_STATUS = {502, 503, 504}
_AWAY = (httpx.ConnectError, httpx.ConnectTimeout)
_LOST = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class FormRefused(RequestRejected):
    """A server does not take a request as it is; another form of it may pass."""


class Http:
    """One remote engine's address.

    Args:
        url: `http://host:port`, or with the API's own path (`https://host/v1`).
        api_key: `env:NAME`, the variable that holds the key; None sends none.
        seed: Seed of the jitter between attempts.
        limits: Sizes of answers and number of attempts.
        clock: Clock of deadlines.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        seed: int | None = None,
        limits: RemoteLimits = DEFAULT_LIMITS,
        clock: Clock | None = None,
    ) -> None:
        self.url = _base(url)
        self.limits = limits
        self._clock = clock or MonotonicClock()
        self._key = os.environ[key_name(api_key, "api_key")] if api_key is not None else ""
        self._random = random.Random(seed)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        headers["Accept-Encoding"] = "identity"  # what expands has no size to limit
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(limits.silence_s, connect=CONNECT_S, pool=None),
            limits=_CONNECTIONS,
            transport=_direct_transport(self.url),
        )

    async def get(self, path: str) -> Json:
        """Fetch the JSON object at `path`.

        Raises:
            EngineUnavailable: The answer is none.
        """
        retries = self.retries(self.limits.opening)
        async with self._open("GET", path, None, {}, retries) as response:
            data = await self._read(response, self.limits.event_bytes)
        try:
            return parsed_object(data)
        except Malformed as error:
            raise EngineUnavailable(
                f"{self.url} answers {self.scrub(str(error))}",
                hint="Give the address of an OpenAI-compatible server, such as http://host:8000",
            ) from None

    async def events(
        self,
        path: str,
        body: Json,
        headers: dict[str, str],
        retries: Retries,
    ) -> AsyncGenerator[Json, None]:
        """The chunks of a streamed answer, until the server ends it.

        Raises:
            EngineDied: The stream breaks before that.
            RequestRejected: The answer is malformed, or exceeds a limit.
        """
        stream, taken = EventStream(self.limits.event_bytes), 0
        async with self._open("POST", path, body, headers, retries) as response:
            try:
                async for part in response.aiter_bytes():
                    taken += len(part)
                    if taken > self.limits.answer_bytes:
                        raise Malformed(f"more than {self.limits.answer_bytes} bytes")
                    for data in stream.feed_data(part):
                        if data == "[DONE]":
                            return
                        yield check_chunk(parsed_object(data))
                for data in stream.flush():
                    if data != "[DONE]":
                        yield check_chunk(self._last(data))
            except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
                raise self._cut(type(error).__name__) from None
            except (Malformed, EventTooLong) as error:
                raise RequestRejected(
                    f"{self.url} answers {self.scrub(str(error))}",
                    hint="Look at the server's log: this is not the API that it announces",
                ) from None

    def _last(self, data: str) -> Json:
        """An event without a blank line after it; the connection may have ended inside it."""
        try:
            return parsed_object(data)
        except Malformed:
            raise self._cut("in an event") from None

    def retries(self, limits: RemoteLimits, deadline_at_s: float | None = None) -> Retries:
        """The attempts of a new request."""
        return Retries(self.url, limits, self._clock, self._random, deadline_at_s)

    async def aclose(self) -> None:
        await self._client.aclose()

    def scrub(self, text: str) -> str:
        """`text` without the key, which some servers repeat in their errors."""
        return text.replace(self._key, "***") if self._key else text

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        body: Json | None,
        headers: dict[str, str],
        retries: Retries,
    ) -> AsyncIterator[httpx.Response]:
        """A response with a good status and its headers received."""
        request = self._client.build_request(method, self.url + path, json=body, headers=headers)
        response = await self._send(request, retries)
        try:
            if response.status_code >= 400:
                error = await self._read(response, MAX_ERROR_BYTES, cut=True)
                raise self._refusal(response.status_code, error)
            yield response
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _read(
        self, response: httpx.Response, limit_bytes: int, *, cut: bool = False
    ) -> bytes:
        """The body of an answer; a longer one is an error, or is cut off."""
        data = bytearray()
        try:
            async for part in response.aiter_bytes():
                data += part
                if len(data) > limit_bytes:
                    break
        except (httpx.TransportError, httpx.StreamError, httpx.DecodingError) as error:
            raise self._cut(type(error).__name__) from None
        if len(data) > limit_bytes and not cut:
            raise RequestRejected(f"{self.url} answers more than {limit_bytes} bytes")
        return bytes(data[:limit_bytes])

    async def _send(self, request: httpx.Request, retries: Retries) -> httpx.Response:
        """Send a request until its headers arrive, with retries."""
        while True:
            wait_s = 0.0
            try:
                response = await self._client.send(request, stream=True)
            except _AWAY as error:
                if not retries.note_away():
                    raise self._unreachable(error) from None
            except _LOST as error:
                if not retries.note_loss():
                    raise self._unreachable(error) from None
            except httpx.HTTPError as error:
                raise self._unreachable(error) from None
            else:
                status = response.status_code
                if not (status in _BUSY or status >= 500):
                    return response
                note = retries.note_away if status in _AWAY_STATUS else retries.note_failure
                if not note():
                    return response
                wait_s = retry_after_s(response.headers.get("retry-after", ""), time.time())
                await response.aclose()
            await retries.pause(wait_s)

    def _unreachable(self, error: httpx.HTTPError) -> EngineUnavailable:
        why = self.scrub(str(error)) or type(error).__name__
        return EngineUnavailable(
            f"no engine answers at {self.url} ({why})",
            hint="Start the server, or correct --engine",
        )

    def _cut(self, why: str) -> EngineDied:
        return EngineDied(
            f"the engine at {self.url} closed the stream in the middle ({why})",
            hint="Look at the server's log, and run it again",
        )

    def _refusal(self, status: int, body: bytes) -> AgentrtError:
        """The error for a bad status and its body."""
        message = self.scrub(error_text(body))
        at = f"{self.url} answered {status}: {message}"
        if status in (401, 403):
            return RequestRejected(at, hint="Put the key in a variable and give api_key='env:NAME'")
        if status == 404:
            return RequestRejected(at, hint="Check the address and the model's name")
        too_long = b"context_length_exceeded" in body or status == 413
        if too_long or any(word in message.lower() for word in _OVERFLOW):
            return ContextOverflow(at, hint="Shorten the prompt, or lower max_tokens")
        if status in (408, 429) or status >= 500:
            return EngineUnavailable(at, hint="Look at the server's log, or try again later")
        return FormRefused(at, hint="The server does not take this request as it is")


def _direct_transport(url: str) -> httpx.AsyncHTTPTransport | None:
    """Connections that notice a host that is gone; None if the way there is a proxy's."""
    host = urlsplit(url).hostname or ""
    if not is_loopback(host) and getproxies():
        return None
    return httpx.AsyncHTTPTransport(limits=_CONNECTIONS, socket_options=_KEEP_ALIVE)


_CONNECTIONS = httpx.Limits(max_connections=None, max_keepalive_connections=64)
_PROBES = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in _PROBES.items()
        if hasattr(socket, name)
    ),
]
"""A peer that answers no probe for 30 s is gone: no reset comes from a host without power."""

_OVERFLOW = ("context length", "context_length", "context size", "maximum context", "too long")


def error_text(body: bytes) -> str:
    """Message of an error body in one line: OpenAI's form, FastAPI's, or plain text."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return " ".join(body.decode("utf-8", "replace").split())[:300]
    for key in ("error", "detail", "message"):
        if isinstance(value, dict) and key in value:
            value = value[key]
    return " ".join((value if isinstance(value, str) else json.dumps(value)).split())[:300]


def _base(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(
            f"{url!r} is not the address of an engine", hint="Give http://host:port or https://..."
        )
    bare = url.rstrip("/")
    return bare if parts.path.strip("/") else f"{bare}/v1"


def retry_after_s(value: str, unix_s: float) -> float:
    """Seconds that a `Retry-After` asks to wait, given as a number or as a date; else 0."""
    try:
        wait_s = float(value)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(value).timestamp() - unix_s
        except (ValueError, OverflowError):
            return 0.0
    return max(0.0, wait_s) if wait_s == wait_s else 0.0
