"""The engine behind the API: who asked what, and where each request's events go."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from agentrt.base.clock import Clock
from agentrt.base.errors import AgentrtError, EngineUnavailable, InternalError, record_of, revive
from agentrt.base.ids import RequestId
from agentrt.base.notifier import Notifier
from agentrt.prompt import Codec
from agentrt.protocol.backend import Backend
from agentrt.protocol.step_output import BackendDown, BackendEvent, End
from agentrt.serve.refusal import RequestRefused, refusal_of
from agentrt.serve.request_builder import BuiltRequest, built_request
from agentrt.serve.request_schema import ChatRequest

DEFAULT_MOST_REQUESTS = 256


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """What has come of an answer since the last part.

    Attributes:
        text: Of it.
        end: Set with the last part.
    """

    text: str
    end: End | None


class OngoingAnswer:
    """A request under way; who reads slowly gets more at once, and nothing piles up.

    Attributes:
        asked: What it is.
    """

    def __init__(self, built_request: BuiltRequest) -> None:
        self.asked = built_request
        self._texts: list[str] = []
        self._end: End | None = None
        self._wake = Notifier()
        self._is_taken = False

    @property
    def is_over(self) -> bool:
        """Whether the engine has ended it."""
        return self._end is not None

    def put(self, text: str, end: End | None = None) -> None:
        """More of the answer."""
        if text:
            self._texts.append(text)
        self._end = self._end or end
        if self._is_taken or end is not None:  # who wants the whole is not woken for a part
            self._wake.notify_all()

    async def take(self) -> AnswerPart:
        """What has come; waits where there is nothing."""
        self._is_taken = True
        while not self._texts and self._end is None:
            await self._wake.wait()
        text, self._texts = "".join(self._texts), []
        return AnswerPart(text, self._end)

    async def whole(self) -> AnswerPart:
        """All of the answer, once it is there."""
        while self._end is None:
            await self._wake.wait()
        return await self.take()


class Service:
    """Puts questions to an engine.

    Args:
        backend: The engine; `start` starts it.
        codec: Of its model.
        clock: Of all instants.
        model: What it is called.
        most_requests: Under way at once; more are told to come back.

    Attributes:
        model: What it is called.
    """

    def __init__(
        self,
        backend: Backend,
        codec: Codec,
        clock: Clock,
        *,
        model: str,
        most_requests: int = DEFAULT_MOST_REQUESTS,
    ) -> None:
        self.model = model
        self._backend = backend
        self._codec = codec
        self._clock = clock
        self._most_requests = most_requests
        self._numbers = itertools.count(1)
        self._ongoing: dict[RequestId, OngoingAnswer] = {}
        self._delivering: asyncio.Task[None] | None = None
        self._down: EngineUnavailable | None = None
        self.started_at_unix_s = clock.unix_ns() // 1_000_000_000

    @property
    def window_tokens(self) -> int:
        """Of the engine's model; 0 when unknown."""
        return self._backend.capabilities.window_tokens

    @property
    def under_way(self) -> int:
        """Requests that are served or wait."""
        return len(self._ongoing)

    @property
    def is_well(self) -> bool:
        """Whether questions are taken."""
        return self._delivering is not None and self._down is None

    def unix_s(self) -> int:
        """Now, on the calendar."""
        return self._clock.unix_ns() // 1_000_000_000

    async def start(self) -> None:
        """Start the engine.

        Raises:
            AgentrtError: It does not start.
        """
        await self._backend.start()
        self._delivering = asyncio.create_task(self._deliver())

    def give_up(self) -> None:
        """Tell all that is under way that it fails, and take no more."""
        self._fail_all(EngineUnavailable("the server is going down", hint="Ask again later"))

    async def aclose(self) -> None:
        """End the engine, and with it what is under way."""
        await self._backend.aclose()
        if self._delivering is not None:
            with suppress(asyncio.CancelledError):
                await self._delivering  # its events end with the backend
            self._delivering = None

    @contextmanager
    def open(self, question: ChatRequest) -> Iterator[OngoingAnswer]:
        """Puts a question; leaving before its end cancels it.

        Raises:
            Refused: It is not taken.
        """
        if question.model != self.model:
            raise RequestRefused(
                404,
                f"the model {question.model!r} is not served here; {self.model!r} is",
                param="model",
                code="model_not_found",
            )
        if self._down is not None:
            raise refusal_of(self._down)
        if len(self._ongoing) >= self._most_requests:
            raise RequestRefused(
                429, f"{len(self._ongoing)} requests are under way: come back soon"
            )
        number = RequestId(next(self._numbers))
        try:
            ongoing = OngoingAnswer(
                built_request(question, number, self._codec, self._clock.now_s())
            )
        except AgentrtError as error:
            raise refusal_of(error) from None
        self._ongoing[number] = ongoing
        self._backend.submit(ongoing.asked.request)
        try:
            yield ongoing
        finally:
            del self._ongoing[number]
            if not ongoing.is_over:
                self._backend.cancel(number, "the client left")

    async def _deliver(self) -> None:
        """Every event to whom it concerns; when there are no more, nobody waits for one."""
        try:
            async for event in self._backend.events():
                self._see(event)
        finally:
            self._fail_all(EngineUnavailable("the engine is gone", hint="Start the server anew"))

    def _fail_all(self, error: EngineUnavailable) -> None:
        self._down = error
        for number in list(self._ongoing):
            self._put(number, "", End(number, "failed", error=record_of(error)))

    def _see(self, event: BackendEvent) -> None:
        if isinstance(event, BackendDown):
            for number in event.lost:
                self._put(number, "", End(number, "failed", error=event.error))
            if not event.restarting:
                self._down = EngineUnavailable(event.error.message, hint=event.error.hint)
            return
        for delta in event.deltas:
            self._put(delta.request_id, delta.text)
        for end in event.ends:
            if end.reason == "cancelled":
                gone = record_of(EngineUnavailable("the server is going down"))
                end = End(end.request_id, "failed", end.ledger, error=gone)
            self._put(end.request_id, "", end)

    def _put(self, number: RequestId, text: str, end: End | None = None) -> None:
        ongoing = self._ongoing.get(number)
        if ongoing is not None:  # else the client has left
            ongoing.put(text, end)


def failure_of(end: End) -> RequestRefused | None:
    """Why a request failed; None where it did not."""
    if end.reason != "failed":
        return None
    return refusal_of(revive(end.error) if end.error else InternalError("it ended without a word"))
