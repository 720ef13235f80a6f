"""HTTP to a remote engine: the only module that imports httpx.

It holds the address, the key, timeouts and retries, and converts failures to the error tree. A
request is retried only until the first part of its answer has arrived.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx

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
from agentrt.remote.sse import EventStream

Json = dict[str, Any]

CONNECT_S = 5.0
SILENCE_S = 600.0
MAX_ATTEMPTS = 3
FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
_BUSY = {429, 503}
_LOST = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadError, httpx.RemoteProtocolError)


class Http:
    """One remote engine's address.

    Args:
        url: `http://host:port`, or with the API's own path (`https://host/v1`).
        api_key: `env:NAME`, the variable that holds the key; None sends none.
        seed: Seed of the jitter between attempts.
    """

    def __init__(self, url: str, *, api_key: str | None = None, seed: int | None = None) -> None:
        self.url = _base(url)
        self._key = os.environ[key_name(api_key, "api_key")] if api_key is not None else ""
        self._random = random.Random(seed)
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(SILENCE_S, connect=CONNECT_S, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            trust_env=not is_loopback(
                urlsplit(self.url).hostname or ""
            ),  # no proxy for this machine
        )

    async def get(self, path: str) -> Json:
        """Fetch the JSON object at `path`."""
        async with self._open("GET", path, None, {}) as response:
            return self._object(await response.aread())

    async def post(self, path: str, body: Json) -> Json:
        """Send `body`; returns the JSON object of the answer."""
        async with self._open("POST", path, body, {}) as response:
            return self._object(await response.aread())

    async def events(
        self, path: str, body: Json, headers: dict[str, str]
    ) -> AsyncGenerator[Json, None]:
        """The JSON objects of a streamed answer, until the server ends it.

        Raises:
            EngineDied: The stream breaks before that.
        """
        stream = EventStream()
        async with self._open("POST", path, body, headers) as response:
            try:
                async for chunk in response.aiter_bytes():
                    for data in stream.feed_data(chunk):
                        if data == "[DONE]":
                            return
                        yield self._object(data)
            except (httpx.TransportError, httpx.StreamError) as error:
                raise self._cut(type(error).__name__) from None
            for data in stream.flush():
                if data != "[DONE]":
                    yield self._object(data)

    async def aclose(self) -> None:
        await self._client.aclose()

    def scrub(self, text: str) -> str:
        """`text` without the key, which some servers repeat in their errors."""
        return text.replace(self._key, "***") if self._key else text

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: Json | None, headers: dict[str, str]
    ) -> AsyncIterator[httpx.Response]:
        """A response with a good status and its headers received."""
        request = self._client.build_request(method, self.url + path, json=body, headers=headers)
        response = await self._send(request)
        try:
            if response.status_code >= 400:
                raise self._refusal(response.status_code, await response.aread())
            yield response
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send a request until its headers arrive, with retries."""
        for attempt in range(1, MAX_ATTEMPTS + 1):
            pause_s = FIRST_PAUSE_S * 2**attempt * self._random.random()
            try:
                response = await self._client.send(request, stream=True)
            except _LOST as error:
                if attempt == MAX_ATTEMPTS:
                    raise self._unreachable(error) from None
            except httpx.HTTPError as error:
                raise self._unreachable(error) from None
            else:
                if response.status_code not in _BUSY or attempt == MAX_ATTEMPTS:
                    return response
                pause_s += _retry_after_s(response)
                await response.aclose()
            await anyio.sleep(min(pause_s, MAX_PAUSE_S))
        raise AssertionError("the last try returns or raises")

    def _object(self, data: str | bytes) -> Json:
        try:
            value = json.loads(data)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            shown = data[:60].decode("utf-8", "replace") if isinstance(data, bytes) else data[:60]
            raise EngineUnavailable(
                f"{self.url} answers {self.scrub(shown)!r}, which is not a JSON object",
                hint="Give the address of an OpenAI-compatible server, such as http://host:8000",
            )
        return value

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
        return RequestRejected(at, hint="The server does not take this request as it is")


_OVERFLOW = ("context length", "context_length", "context size", "maximum context", "too long")


def error_text(body: bytes) -> str:
    """Message of an error body in one line: OpenAI's form, FastAPI's, or plain text."""
    try:
        value = json.loads(body)
    except ValueError:
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


def _retry_after_s(response: httpx.Response) -> float:
    try:
        return max(0.0, float(response.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0
