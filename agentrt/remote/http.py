"""HTTP to a remote engine: the only module that imports httpx.

It holds the address, the key, timeouts and limits, and converts failures to the error tree. A
request is retried here until its answer begins; `RemoteBackend` retries answers that break off.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import httpx

from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import (
    AgentrtError,
    ContextOverflow,
    EngineDied,
    EngineUnavailable,
    RequestRejected,
)
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.admission.request_rates import needed_tokens, pacer_of
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.answers.sse import EventStream, EventTooLong
from agentrt.remote.asked_wait import asked_wait_s
from agentrt.remote.connections import CONNECTIONS, direct_transport
from agentrt.remote.error_body import error_text
from agentrt.remote.limits import DEFAULT_LIMITS, RemoteLimits
from agentrt.remote.protocols import WIRE_PROTOCOLS, EventReader, WireProtocol
from agentrt.remote.protocols.answer_parts import AnswerPart, UsagePart
from agentrt.remote.protocols.answer_shape import Malformed, parsed_object
from agentrt.remote.request_headers import RequestHeaders
from agentrt.remote.retries import Retries
from agentrt.remote.written_request import WrittenRequest

Json = dict[str, Any]

CONNECT_S = 5.0
MAX_ERROR_BYTES = 64 << 10
_NO_QUOTA = b"insufficient_quota"  # OpenAI: no wait helps
_CROWDED = {429, 529}  # 529: Anthropic is overloaded
_FULL = _CROWDED | {503}
_AWAY_STATUS = {502, 503, 504}
_AWAY = (httpx.ConnectError, httpx.ConnectTimeout)
_LOST = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class FormRefused(RequestRejected):
    """A server does not take a request as it is; another form of it may pass."""


class Http:
    """One remote engine's address. Redirects are refused: the key goes nowhere else.

    Args:
        engine: Settings of the engine, or its address.
        seed: Seed of the jitter between attempts.
        limits: Sizes of answers and number of attempts.
        clock: Clock of deadlines.
        queue: Queue of requests before the server; None takes one by the settings.
        protocol: Name of the wire protocol; "" takes that of the settings.

    Attributes:
        heard_at_s: Instant of the last bytes of the server, on the event loop's clock.
    """

    def __init__(
        self,
        engine: RemoteEngineConfig | str,
        *,
        protocol: str = "",
        seed: int | None = None,
        limits: RemoteLimits = DEFAULT_LIMITS,
        clock: Clock | None = None,
        queue: AdmissionQueue | None = None,
    ) -> None:
        if isinstance(engine, str):
            engine = RemoteEngineConfig(address=engine)
        self.url = engine.url
        self.protocol = WIRE_PROTOCOLS[protocol or engine.described.protocol]
        self.limits = limits
        self._clock = clock or MonotonicClock()
        own = RequestHeaders.of(engine, os.environ)
        self._secrets = own.secrets
        self._random = random.Random(seed)
        self._admission = queue or AdmissionQueue(pacer_of(engine))
        self._answered_at_s = -math.inf
        self.heard_at_s = -math.inf
        headers = {**own.headers, "Accept-Encoding": "identity"}  # what expands has no limit
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(limits.silence_s, connect=CONNECT_S, pool=None),
            limits=CONNECTIONS,
            transport=direct_transport(self.url),
        )

    async def get(self, path: str) -> Json:
        """Fetch the JSON object at `path`.

        Raises:
            EngineUnavailable: The answer is none.
        """
        async with self._open("GET", path, None, {}, self.retries(self.limits.opening)) as response:
            data = await self._read(response, self.limits.event_bytes)
        try:
            return parsed_object(data)
        except Malformed as error:
            raise EngineUnavailable(
                f"{self.url} answers {self.scrub(str(error))}",
                hint="Give the address of an OpenAI-compatible server, such as http://host:8000",
            ) from None

    async def look(self, path: str, body: Json | None = None) -> bytes:
        """The answer of a path beside the API, in one attempt; without one an `AgentrtError`.

        Args:
            path: The path.
            body: JSON for a POST; None fetches by GET.
        """
        url = self.url.removesuffix("/v1") + path
        method = "GET" if body is None else "POST"
        try:
            async with self._client.stream(method, url, json=body, timeout=CONNECT_S) as response:
                if response.status_code == 200:
                    return await self._read(response, self.limits.event_bytes)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        raise RequestRejected(f"{url} answered {response.status_code}")

    async def check_life(self, path: str) -> None:
        """Ask whether the server takes requests; without any answer but 5xx, an error.

        Args:
            path: Path of its health check beside the API; "" asks for its list of models.
        """
        url = self.url.removesuffix("/v1") + path if path else self.url + self.protocol.models_path
        try:
            async with self._client.stream("GET", url, timeout=CONNECT_S) as response:
                self.heard_at_s = anyio.current_time()
                if response.status_code < 500:
                    return
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        raise EngineUnavailable(f"{url} answered {response.status_code}")

    async def answer(
        self,
        protocol: WireProtocol,
        body: Json,
        headers: dict[str, str],
        retries: Retries,
        late: Callable[[], Json] = dict,
    ) -> AsyncGenerator[Sequence[AnswerPart], None]:
        """The parts of a streamed answer, event by event, until the server ends it.

        Args:
            protocol: Protocol of the request.
            body: The request.
            headers: Headers beside those of the settings.
            retries: Attempts of the request.
            late: Fields of the request that may change until it is sent.

        Raises:
            EngineDied: The stream breaks before that.
            RequestRejected: The answer is malformed, or exceeds a limit.
        """
        stream, taken = EventStream(self.limits.event_bytes), 0
        reader, turn = protocol.reader(), retries.turn
        async with self._open("POST", protocol.path, body, headers, retries, late) as response:
            try:
                async for part in response.aiter_bytes():
                    taken += len(part)
                    self.heard_at_s = anyio.current_time()
                    if taken > self.limits.answer_bytes:
                        raise Malformed(f"more than {self.limits.answer_bytes} bytes")
                    for data in stream.feed_data(part):
                        if data == "[DONE]":
                            return
                        yield _parts(reader, parsed_object(data), turn)
                        if reader.ended:
                            return
                for data in stream.flush():
                    if data != "[DONE]":
                        yield _parts(reader, self._last(data), turn)
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

    def retries(
        self,
        limits: RemoteLimits,
        deadline_at_s: float | None = None,
        turn: RequestTurn | None = None,
    ) -> Retries:
        """The attempts of a new request; without a turn of its own it takes one without info."""
        turn = turn or self._admission.turn()
        return Retries(self.url, limits, self._clock, self._random, deadline_at_s, turn)

    def one_attempt(self) -> Retries:
        """A single attempt, which waits for no turn."""
        limits = replace(self.limits, attempts=1, outage_s=0.0)
        return Retries(self.url, limits, self._clock, self._random)

    async def aclose(self) -> None:
        self._admission.close()
        await self._client.aclose()

    def scrub(self, text: str) -> str:
        """`text` without keys, which some servers repeat in their errors."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        body: Json | None,
        headers: dict[str, str],
        retries: Retries,
        late: Callable[[], Json] = dict,
    ) -> AsyncIterator[httpx.Response]:
        """A response with a good status and its headers received."""

        def build(fields: Json) -> httpx.Request:
            sent = None if body is None else body | fields
            return self._client.build_request(method, self.url + path, json=sent, headers=headers)

        written = WrittenRequest(build, late)
        turn = retries.turn if body is not None else None
        if turn is not None and body is not None:
            turn.tokens = needed_tokens(body, len(written.latest().content))
        response = await self._send(written, retries, turn)
        answered = False
        try:
            if response.status_code >= 400:
                error = await self._read(response, MAX_ERROR_BYTES, cut=True)
                raise self._refusal(response.status_code, error)
            if response.status_code >= 300:
                raise self._redirected(response)
            answered = True
            self._answered_at_s = self._clock.now_s()
            yield response
        finally:
            if turn is not None:
                self._admission.end(turn, answered=answered)
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

    async def _send(
        self, written: WrittenRequest[httpx.Request], retries: Retries, turn: RequestTurn | None
    ) -> httpx.Response:
        """Send a request until its headers arrive, with retries, each in its turn."""
        while True:
            if turn is not None and turn.sent_at_s is None:
                await self._admission.begin(turn)
            wait_s, is_full = 0.0, False
            try:
                response = await self._attempt(written.latest(), retries)
                if response is not None:
                    self.heard_at_s = anyio.current_time()
                    is_full = response.status_code in _FULL
                    wait_s = asked_wait_s(response.headers, time.time())
                if response is not None and not await self._may_follow(response, retries):
                    return response
                pause_s = retries.pause_s(wait_s)
            except BaseException:
                if turn is not None and is_full:
                    # A longer wait would close the queue to requests that need not give up.
                    self._admission.refuse(turn, min(wait_s, self.limits.retry_after_s))
                elif turn is not None:
                    self._admission.end(turn)
                raise
            if response is not None:
                await response.aclose()
            if turn is not None and is_full:
                await self._admission.begin_again(turn, pause_s)
                continue
            if turn is not None:
                self._admission.end(turn)
            await anyio.sleep(pause_s)

    async def _attempt(self, request: httpx.Request, retries: Retries) -> httpx.Response | None:
        """One attempt: the response, or None if another one may follow."""
        try:
            return await self._client.send(request, stream=True)
        except _AWAY as error:
            if not retries.note_away():
                raise self._unreachable(error) from None
        except _LOST as error:
            if not retries.note_loss():
                raise self._unreachable(error) from None
        except httpx.HTTPError as error:
            retries.note_silence()
            raise self._unreachable(error) from None
        return None

    async def _may_follow(self, response: httpx.Response, retries: Retries) -> bool:
        """Whether another attempt may follow a response.

        Raises:
            EngineUnavailable: The account has no room, now or at all.
        """
        status = response.status_code
        if status in _CROWDED:
            body = await self._read(response, MAX_ERROR_BYTES, cut=True)
            if _NO_QUOTA in body or not retries.note_busy(self._answered_at_s):
                raise self._refusal(status, body)
            return True
        if not (status == 408 or status >= 500):
            return False
        return retries.note_away() if status in _AWAY_STATUS else retries.note_failure()

    def _unreachable(self, error: httpx.HTTPError) -> EngineUnavailable:
        why = self.scrub(str(error)) or type(error).__name__
        return EngineUnavailable(
            f"no engine answers at {self.url} ({why})",
            hint="Start the server, or correct its address",
        )

    def _redirected(self, response: httpx.Response) -> RequestRejected:
        place = self.scrub(response.headers.get("location", "another place"))[:300]
        return RequestRejected(
            f"{self.url} answered {response.status_code}: a redirect to {place}",
            hint="Give that address itself, if you trust it; no request and no key is sent on",
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
            return RequestRejected(at, hint=_KEY_HINT)
        if status == 404:
            return RequestRejected(at, hint="Check the address and the model's name")
        too_long = b"context_length_exceeded" in body or status == 413
        if too_long or any(word in message.lower() for word in _OVERFLOW):
            return ContextOverflow(at, hint="Shorten the prompt, or lower max_tokens")
        if status in (408, 429) or status >= 500:
            return EngineUnavailable(at, hint="Look at the server's log, or try again later")
        return FormRefused(at, hint="The server does not take this request as it is")


def _parts(reader: EventReader, event: Json, turn: RequestTurn | None) -> Sequence[AnswerPart]:
    """The parts of an event; the tokens that it reports are those of the turn."""
    parts = reader.parts(event)
    for part in parts:
        if turn is not None and isinstance(part, UsagePart):
            turn.used_tokens = float(part.total_tokens)
    return parts


_KEY_HINT = 'Put the key in a variable, and give --api-key env:NAME or key = "env:NAME"'
_OVERFLOW = ("context length", "context_length", "context size", "maximum context", "too long")
