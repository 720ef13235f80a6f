"""`RemoteBackend`: any OpenAI-compatible server as a `Backend`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import anyio

from agentrt.base.clock import Clock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import (
    AgentrtError,
    DeadlineExceeded,
    EngineDied,
    InternalError,
    record_of,
)
from agentrt.base.ids import RequestId, RunId, root_span_id_of, trace_id_of
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import (
    BackendDown,
    BackendEvent,
    Delta,
    End,
    FinishReason,
    StepDone,
)
from agentrt.remote.body import RemoteServer, build_request
from agentrt.remote.chunks import ChunkReader, JsonCompactor
from agentrt.remote.http import Http
from agentrt.remote.limits import DEFAULT_LIMITS, RemoteLimits
from agentrt.remote.probe import probe
from agentrt.remote.retries import Retries
from agentrt.remote.usage import RequestTimes, ledger, output_tokens


@dataclass(slots=True, eq=False)
class Exchange:
    """One request in flight, over all of its attempts.

    Attributes:
        request: The request.
        times: Instants of the first attempt, and what the others cost.
        retries: Decides about further attempts.
        reader: Parser of the attempt under way.
        characters: Characters of the attempt under way.
        most_characters: Characters of the longest attempt.
    """

    request: GenerateRequest
    times: RequestTimes
    retries: Retries
    reader: ChunkReader = field(default_factory=ChunkReader)
    characters: int = 0
    most_characters: int = 0

    def break_off(self) -> None:
        """Prepare the next attempt; the tokens of this one are lost."""
        self.times.retried_tokens += output_tokens(self.reader)
        self.reader = ChunkReader()
        self.characters = 0


class RemoteBackend:
    """A remote engine: one streamed request each, and only features that were proven.

    An answer that breaks off is asked for again. If some of its text has been handed on, it is a
    lost request (`BackendDown`), which the runtime submits again: that compares the second answer
    with the first.

    Args:
        url: `http://host:port`, or with the API's own path.
        model: Name of the model; None takes the only one.
        api_key: `env:NAME`, the variable that holds the key.
        clock: Clock of the ledgers and deadlines.
        limits: Sizes of answers, attempts, and the time for the opening.
    """

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        clock: Clock,
        limits: RemoteLimits = DEFAULT_LIMITS,
    ) -> None:
        self._http = Http(url, api_key=api_key, limits=limits, clock=clock)
        self._model = model
        self._clock = clock
        self._server: RemoteServer | None = None
        self._queue = EventQueue()
        self._tasks: dict[RequestId, asyncio.Task[FinishReason | EngineDied]] = {}
        self._lost: dict[RequestId, Exchange] = {}
        self._texts: dict[RequestId, str] = {}
        self._ends: list[End] = []
        self._scheduled = False

    @property
    def capabilities(self) -> Capabilities:
        if self._server is None:
            raise InternalError("capabilities are known once start() has returned")
        return Capabilities(
            backend="remote",
            model=self._server.model,
            prompt="messages",
            window_tokens=self._server.window_tokens,
            constraints=frozenset(self._server.proven),
            seeds=bool(self._server.family),
            cache_salts=self._server.takes_cache_salt,
        )

    async def start(self) -> None:
        if self._server is None:
            opening_s = self._http.limits.opening_s
            with anyio.move_on_after(opening_s):
                self._server = await probe(self._http, self._model)
            if self._server is None:
                raise DeadlineExceeded(
                    f"{self._http.url} was not open within {opening_s:g} s",
                    hint="Raise the deadline, or look at the server",
                )

    def submit(self, request: GenerateRequest) -> None:
        exchange = self._lost.pop(request.request_id, None)
        if exchange is None:
            retries = self._http.retries(self._http.limits, request.deadline_at_s)
            exchange = Exchange(request, RequestTimes(self._clock.now_s()), retries)
            task = asyncio.create_task(self._stream(exchange))
        else:
            task = asyncio.create_task(self._stream_again(exchange))
        self._tasks[request.request_id] = task
        task.add_done_callback(partial(self._end, exchange))

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Do nothing: prompts are sent complete, as `holes` is false."""

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Do nothing: the server orders its own queue."""

    def cancel(self, request_id: RequestId, reason: str) -> None:
        self._lost.pop(request_id, None)
        if request_id in self._tasks:
            self._tasks[request_id].cancel()

    def hint(self, hint: PrefixHint) -> None:
        """Do nothing: the server keeps its own cache."""

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Do nothing: the server compiles grammars on demand."""

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._queue.read()

    async def aclose(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        with anyio.CancelScope(shield=True):
            if tasks:
                await asyncio.wait(tasks)
            await self._http.aclose()
        self._flush()
        self._queue.close()

    async def _stream(self, exchange: Exchange) -> FinishReason | EngineDied:
        """Stream one request to its end, or until it breaks off behind its first text."""
        while True:
            try:
                return await self._stream_once(exchange)
            except EngineDied as error:
                retries = exchange.retries
                again = retries.note_failure() if exchange.reader.failed else retries.note_loss()
                if not again:
                    raise
                exchange.break_off()
                if exchange.most_characters:
                    return error
                await retries.pause()

    async def _stream_again(self, exchange: Exchange) -> FinishReason | EngineDied:
        """Stream a request that has broken off, after a pause."""
        await exchange.retries.pause()
        return await self._stream(exchange)

    async def _stream_once(self, exchange: Exchange) -> FinishReason:
        assert self._server is not None, "start() comes before submit()"
        request, reader = exchange.request, exchange.reader
        sent = build_request(request, self._server)
        reader.max_calls = sent.max_calls
        compactor = JsonCompactor() if sent.compact else None
        headers = {"traceparent": _traceparent(request.run_id)}
        answer = self._http.events("/chat/completions", sent.body, headers, exchange.retries)
        stall_s = self._http.limits.stall_s
        with anyio.CancelScope() as silence:
            async with aclosing(answer) as chunks:
                try:
                    async for chunk in chunks:
                        text = reader.feed_chunk(chunk)
                        self._write(exchange, compactor.feed_text(text) if compactor else text)
                        if reader.full:
                            break
                        if exchange.characters:
                            silence.deadline = anyio.current_time() + stall_s
                except EngineDied:
                    if reader.finish is None:
                        raise
                    # The answer is whole: only its figures are missing.
        if reader.finish is None and not reader.full:
            why = "ended its answer without a reason"
            if silence.cancelled_caught:
                why = f"wrote nothing for {stall_s:g} s in the middle of its answer"
            raise EngineDied(f"the engine at {self._http.url} {why}")
        self._write(exchange, reader.close())
        return reader.finish or "stop"

    def _write(self, exchange: Exchange, text: str) -> None:
        if not text:
            return
        exchange.times.first_at_s = exchange.times.first_at_s or self._clock.now_s()
        exchange.characters += len(text)
        if exchange.characters > exchange.most_characters:
            exchange.most_characters = exchange.characters
            exchange.retries.note_progress()
        request_id = exchange.request.request_id
        self._texts[request_id] = self._texts.get(request_id, "") + text
        self._schedule_flush()

    def _end(self, exchange: Exchange, done: asyncio.Task[FinishReason | EngineDied]) -> None:
        """Report the request's end, or that it was lost, whatever ended its task."""
        request_id = exchange.request.request_id
        del self._tasks[request_id]
        failure = None if done.cancelled() else done.exception()
        reason: FinishReason = "failed"
        if done.cancelled():
            reason = "cancelled"
        elif failure is None:
            outcome = done.result()
            if isinstance(outcome, EngineDied):
                self._lose(exchange, outcome)
                return
            reason = outcome
        elif not isinstance(failure, AgentrtError):
            failure = InternalError(f"{type(failure).__name__}: {failure}")
        error = record_of(failure) if failure else None
        account = ledger(exchange.reader, exchange.times, self._clock.now_s())
        self._ends.append(
            End(request_id, reason, account, error=error, stopped_by=exchange.reader.stopped_by)
        )
        self._schedule_flush()

    def _lose(self, exchange: Exchange, error: EngineDied) -> None:
        """Give a request back of which some text has been handed on."""
        request_id = exchange.request.request_id
        self._lost[request_id] = exchange
        self._flush()
        self._queue.put(BackendDown(record_of(error), (request_id,), restarting=True))

    def _schedule_flush(self) -> None:
        """Deliver at the end of this turn of the loop: one event for everything in it."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._scheduled = False
        deltas = tuple(Delta(request_id, (), text) for request_id, text in self._texts.items())
        ends, self._ends, self._texts = tuple(self._ends), [], {}
        if deltas or ends:
            self._queue.put(StepDone(None, deltas, ends))


def _traceparent(run_id: RunId) -> str:
    """Trace context, so that a tracing server adds its spans to the trace of the run."""
    return f"00-{trace_id_of(run_id)}-{root_span_id_of(run_id)}-01"
