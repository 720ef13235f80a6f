"""`RemoteBackend`: any OpenAI-compatible server as a `Backend`."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

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
from agentrt.protocol.step_output import BackendEvent, Delta, End, FinishReason, StepDone
from agentrt.remote.body import RemoteServer, build_request
from agentrt.remote.chunks import ChunkReader, JsonCompactor
from agentrt.remote.http import Http
from agentrt.remote.limits import DEFAULT_LIMITS, RemoteLimits
from agentrt.remote.probe import probe
from agentrt.remote.usage import RequestTimes, ledger


@dataclass(slots=True, eq=False)
class Exchange:
    """One request in flight."""

    request: GenerateRequest
    times: RequestTimes
    reader: ChunkReader = field(default_factory=ChunkReader)


class RemoteBackend:
    """A remote engine: one streamed request each, and only features that were proven.

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
        self._tasks: dict[RequestId, asyncio.Task[FinishReason]] = {}
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
        exchange = Exchange(request, RequestTimes(self._clock.now_s()))
        task = asyncio.create_task(self._stream(exchange))
        self._tasks[request.request_id] = task
        task.add_done_callback(lambda done: self._end(exchange, done))

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Do nothing: prompts are sent complete, as `holes` is false."""

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Do nothing: the server orders its own queue."""

    def cancel(self, request_id: RequestId, reason: str) -> None:
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

    async def _stream(self, exchange: Exchange) -> FinishReason:
        """Stream one request to its end; again if it breaks off before its first text."""
        for attempt in itertools.count(1):
            try:
                return await self._stream_once(exchange)
            except EngineDied:
                handed_on = exchange.times.first_at_s > 0.0
                if handed_on or attempt >= self._http.limits.attempts:
                    raise
                await self._http.pause(attempt, exchange.request.deadline_at_s)
                exchange.reader = ChunkReader()
        raise AssertionError("the loop has no end of its own")

    async def _stream_once(self, exchange: Exchange) -> FinishReason:
        assert self._server is not None, "start() comes before submit()"
        request = exchange.request
        sent = build_request(request, self._server)
        reader = exchange.reader
        reader.max_calls = sent.max_calls
        compactor = JsonCompactor() if sent.compact else None
        headers = {"traceparent": _traceparent(request.run_id)}
        answer = self._http.events("/chat/completions", sent.body, headers, request.deadline_at_s)
        async with aclosing(answer) as chunks:
            async for chunk in chunks:
                text = reader.feed_chunk(chunk)
                self._write(exchange, compactor.feed_text(text) if compactor else text)
                if reader.full:
                    break
        self._write(exchange, reader.close())
        if reader.finish is None and not reader.full:
            raise EngineDied(f"the engine at {self._http.url} ended its answer without a reason")
        return reader.finish or "stop"

    def _write(self, exchange: Exchange, text: str) -> None:
        if text:
            exchange.times.first_at_s = exchange.times.first_at_s or self._clock.now_s()
            request_id = exchange.request.request_id
            self._texts[request_id] = self._texts.get(request_id, "") + text
            self._schedule_flush()

    def _end(self, exchange: Exchange, done: asyncio.Task[FinishReason]) -> None:
        """Report the request's end, whatever ended its task."""
        request_id = exchange.request.request_id
        del self._tasks[request_id]
        failure = None if done.cancelled() else done.exception()
        if done.cancelled():
            reason: FinishReason = "cancelled"
        else:
            reason = "failed" if failure else done.result()
        if failure is not None and not isinstance(failure, AgentrtError):
            failure = InternalError(f"{type(failure).__name__}: {failure}")
        error = record_of(failure) if failure else None
        account = ledger(exchange.reader, exchange.times, self._clock.now_s())
        self._ends.append(
            End(request_id, reason, account, error=error, stopped_by=exchange.reader.stopped_by)
        )
        self._schedule_flush()

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
