"""`RemoteBackend`: any OpenAI-compatible server as a `Backend`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, get_args

import anyio

from agentrt.base.clock import Clock
from agentrt.base.constraint_spec import ConstraintKind, ConstraintSpec
from agentrt.base.engines.remote_engine_config import RemoteEngineConfig
from agentrt.base.errors import (
    AgentrtError,
    DeadlineExceeded,
    EngineDied,
    InternalError,
    RequestRejected,
    record_of,
)
from agentrt.base.ids import RequestId
from agentrt.base.segments import JSON_ARRAY_FRAME
from agentrt.protocol.backend import (
    Capabilities,
    GenerateRequest,
    HoleFill,
    PrefixHint,
    SchedulingInfo,
)
from agentrt.protocol.event_queue import EventQueue
from agentrt.protocol.step_output import (
    Admission,
    BackendDown,
    BackendEvent,
    End,
    FinishReason,
    StepDone,
)
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.admission.request_rates import pacer_of
from agentrt.remote.admission.request_turn import RequestTurn
from agentrt.remote.admission.server_room import ServerRoom
from agentrt.remote.answers.usage import RequestTimes, ledger
from agentrt.remote.attempt import Attempts
from agentrt.remote.exchange import Exchange
from agentrt.remote.http import Http
from agentrt.remote.limits import DEFAULT_LIMITS, RemoteLimits
from agentrt.remote.load_watch import LoadWatch, load_watch
from agentrt.remote.opening.capability_store import CapabilityStore
from agentrt.remote.opening.listed_window import ListedWindow
from agentrt.remote.opening.model_list import names_listed
from agentrt.remote.opening.server_opening import open_server, with_token_ids
from agentrt.remote.remote_server import RemoteServer
from agentrt.remote.retries import Retries
from agentrt.remote.step_report import StepReport
from agentrt.remote.task_ends import end_tasks

if TYPE_CHECKING:
    from agentrt.prompt import Codec
    from agentrt.remote.warming.warm_ups import WarmUps

MIN_KV_CHANGE = 0.05
"""Share by which the KV memory of a server must change before it is reported."""


class RemoteBackend:
    """A remote engine: one streamed request each, and only features that were proven.

    An answer that breaks off is asked for again. If some of its text has been handed on, it is a
    lost request (`BackendDown`), which the runtime submits again: that compares the second answer
    with the first.

    Args:
        engine: Settings of the engine, or its address.
        model: Name of the model; None takes that of the settings, or else the only one.
        clock: Clock of the ledgers and deadlines.
        limits: Sizes of answers, attempts, and the time for the opening.
        store: Capabilities that earlier probes found; None probes each time.
        queue: Queue of requests before the server; None takes one by the settings.
        retries: Makes the attempts of a request in its turn; None makes them by the limits.
        codec: Codec of its model, so that prompts and outputs are token ids; None sends messages.
    """

    def __init__(
        self,
        engine: RemoteEngineConfig | str,
        *,
        model: str | None = None,
        clock: Clock,
        limits: RemoteLimits = DEFAULT_LIMITS,
        store: CapabilityStore | None = None,
        queue: AdmissionQueue | None = None,
        retries: Callable[[GenerateRequest, RequestTurn], Retries] | None = None,
        codec: Codec | None = None,
    ) -> None:
        if isinstance(engine, str):
            engine = RemoteEngineConfig(address=engine)
        self._admission = queue or AdmissionQueue(pacer_of(engine), clock=clock)
        self._kind = engine.described
        self._retries = retries or self._limited
        self._tokens = None if codec is None else self._kind.tokens
        protocol = "" if self._tokens is None else self._tokens.protocol
        self._codec = None if self._tokens is None else codec
        self._http = Http(
            engine, limits=limits, clock=clock, queue=self._admission, protocol=protocol
        )
        self._store = store
        self._model = model or engine.model or None
        self._clock = clock
        self._attempts: Attempts | None = None
        self._watch: LoadWatch | None = None
        self._warming = engine.warming(has_ids=self._codec is not None)
        self._warm_ups: WarmUps | None = None
        self._window: ListedWindow | None = None
        self._learns_requests = not engine.concurrency
        self._kv_tokens = 0.0
        self._hints = engine.hints
        self._queue = EventQueue()
        self._report = StepReport(self._queue)
        self._tasks: dict[RequestId, asyncio.Task[FinishReason | EngineDied]] = {}
        self._lost: dict[RequestId, Exchange] = {}
        self._exchanges: dict[RequestId, Exchange] = {}

    @property
    def capabilities(self) -> Capabilities:
        server, codec = self.server, self._codec
        return Capabilities(
            backend="remote",
            model=server.model,
            prompt="messages" if codec is None else "tokens",
            codec="" if codec is None else codec.fingerprint,
            window_tokens=server.window_tokens,
            constraints=server.enforced,
            checked=frozenset(get_args(ConstraintKind)) - server.enforced,
            seeds=bool(server.family) and not server.fixed,
            logprobs=self._tokens is not None and self._tokens.logprobs is not None,
            scores=self._tokens is not None and bool(self._tokens.scores),
            closes=True,
            thinks=server.protocol.thinks,
            cache_salts=server.takes_cache_salt,
            call_frame=JSON_ARRAY_FRAME if codec is None else codec.call_frame,
            resumes=codec is not None,
            resumes_state=False,
            prefills_ahead=self._warming is not None,
        )

    @property
    def server(self) -> RemoteServer:
        """The server, as far as it is known by now."""
        if self._attempts is None:
            raise InternalError("capabilities are known once start() has returned")
        server = self._attempts.server
        if self._window is None or not self._window.tokens:
            return server
        return replace(server, window_tokens=self._window.tokens)

    async def read_window(self) -> None:
        """Read the context length that the server lists, which is else read beside a request."""
        if self._window is not None:
            await self._window.read()

    async def start(self) -> None:
        if self._attempts is None:
            opening_s = self._http.limits.opening_s
            with anyio.move_on_after(opening_s):
                server = await open_server(self._http, self._model, self._kind, self._store)
                server = replace(server, hints=self._hints)
                if self._tokens is not None and self._codec is not None:
                    server = await with_token_ids(self._http, server, self._tokens, self._codec)
                order = self._admission.order
                self._attempts = Attempts(self._http, server, self._clock, self._write, order)
                pacer = self._admission.pacer
                self._watch = load_watch(
                    self._http, self._kind, server.family, pacer, self._note_room
                )
                if self._warming is not None:
                    from agentrt.remote.warming.warm_ups import WarmUps  # few engines have them

                    self._warm_ups = WarmUps(
                        self._http,
                        self._attempts,
                        self._warming,
                        self._admission,
                        self._watch,
                        self._report.add_end,
                    )
                if self._kind.lists_window and not server.window_tokens:
                    self._window = ListedWindow(self._http, server.model)
            if self._attempts is None:
                raise DeadlineExceeded(
                    f"{self._http.url} was not open within {opening_s:g} s",
                    hint="Raise the deadline, or look at the server",
                )

    def submit(self, request: GenerateRequest) -> None:
        if request.ahead:
            assert self._warm_ups is not None, "it takes them if `prefills_ahead` says so"
            self._warm_ups.submit(request)
            return
        exchange = self._lost.pop(request.request_id, None)
        if exchange is None:
            turn = self._admission.turn()
            retries = self._retries(request, turn)
            exchange = Exchange(request, RequestTimes(self._clock.now_s()), retries)
            turn.info, turn.on_admitted = request.info, partial(self._note_admission, exchange)
            task = asyncio.create_task(self._stream(exchange))
        else:
            exchange.request = request
            task = asyncio.create_task(self._stream_again(exchange))
        if self._watch is not None:
            self._watch.start()
        if self._window is not None:
            self._window.start()
        self._tasks[request.request_id] = task
        self._exchanges[request.request_id] = exchange
        task.add_done_callback(partial(self._end, exchange))

    def fill_hole(self, request_id: RequestId, fill: HoleFill) -> None:
        """Do nothing: `WarmingBackend` has the holes of such engines."""

    def update(self, updates: tuple[SchedulingInfo, ...]) -> None:
        """Reorder requests that are held back, and close outputs that are due."""
        for info in updates:
            exchange = self._exchanges.get(info.request_id)
            if exchange is None:
                continue
            exchange.request = replace(exchange.request, info=info)
            if exchange.retries.turn is not None:
                self._admission.update(exchange.retries.turn, info)
            if info.deadline_at_s is None:
                continue
            exchange.request = replace(exchange.request, deadline_at_s=info.deadline_at_s)
            if exchange.request.on_limit != "close" or info.deadline_at_s > self._clock.now_s():
                continue
            exchange.closes_now = True
            if exchange.limit is not None:
                exchange.limit.cancel()

    def cancel(self, request_id: RequestId, reason: str) -> None:
        self._lost.pop(request_id, None)
        if request_id in self._tasks:
            self._tasks[request_id].cancel()
        elif self._warm_ups is not None:
            self._warm_ups.cancel(request_id)

    def hint(self, hint: PrefixHint) -> None:
        """Do nothing: the server keeps its own cache."""

    def prewarm(self, constraints: tuple[ConstraintSpec, ...]) -> None:
        """Do nothing: the server compiles grammars on demand."""

    def events(self) -> AsyncIterator[BackendEvent]:
        return self._queue.read()

    async def aclose(self) -> None:
        for beside in (self._watch, self._window, self._warm_ups):
            if beside is not None:
                await beside.aclose()
        await end_tasks(self._tasks.values())
        with anyio.CancelScope(shield=True):
            await self._http.aclose()
        if self._attempts is not None:
            self._attempts.close()
        self._report.flush()
        self._queue.close()

    @property
    def heard_at_s(self) -> float:
        """Instant of the last bytes of the server, on the event loop's clock."""
        return self._http.heard_at_s

    async def check_life(self) -> None:
        """Ask whether the server takes requests; without an answer that says so, an error."""
        await self._http.check_life(self._kind.health)

    async def listed_models(self) -> tuple[str, ...]:
        """Names of the models that the server lists now; empty if unknown. The request is free."""
        return await names_listed(self._http) if self._kind.lists_window else ()

    def _limited(self, request: GenerateRequest, turn: RequestTurn) -> Retries:
        return self._http.retries(self._http.limits, request.deadline_at_s, turn)

    async def _stream(self, exchange: Exchange) -> FinishReason | EngineDied:
        """Stream one request to its end, or until it breaks off behind its first text."""
        assert self._attempts is not None, "start() comes before submit()"
        while True:
            try:
                return await self._attempts.stream(exchange)
            except EngineDied as error:
                retries = exchange.retries
                again = retries.note_failure() if exchange.reader.failed else retries.note_loss()
                if not again:
                    raise
                resumes = self._codec is not None and not exchange.request.keeps_state
                exchange.break_off(resumes=resumes)
                if exchange.most_characters or exchange.request.gives_back:
                    return error
                await retries.pause()

    async def _stream_again(self, exchange: Exchange) -> FinishReason | EngineDied:
        """Stream a request that has broken off, after a pause."""
        await exchange.retries.pause()
        return await self._stream(exchange)

    def _note_room(self, room: ServerRoom) -> None:
        """Send no more than the server has room for, and report its KV memory."""
        if self._learns_requests:
            self._admission.pacer.room = room.requests
            self._admission.reconsider()
        if abs(room.kv_tokens - self._kv_tokens) > MIN_KV_CHANGE * self._kv_tokens:
            self._kv_tokens = room.kv_tokens
            self._queue.put(StepDone(None, (), (), kv_room_tokens=room.kv_tokens))

    def _note_admission(self, exchange: Exchange, admission: Admission) -> None:
        """Report that a request is sent to the server, and why not before."""
        exchange.times.admitted_at_s = admission.at_s
        if self._warm_ups is not None:
            self._warm_ups.yield_room()
        if exchange.request.info is not None:
            self._report.add_admission(admission)

    def _write(self, exchange: Exchange, text: str) -> None:
        if not text:
            return
        exchange.times.first_at_s = exchange.times.first_at_s or self._clock.now_s()
        exchange.text += text
        if exchange.held is not None:
            exchange.held.append(text)
            return
        exchange.characters += len(text)
        if exchange.characters > exchange.most_characters:
            exchange.most_characters = exchange.characters
            exchange.retries.note_progress()
        self._report_output(exchange, text)

    def _report_output(self, exchange: Exchange, text: str = "") -> None:
        """Report text with the ids and the reasoning up to it."""
        thought, exchange.thought = exchange.thought, ""
        token_ids, logprobs = exchange.reader.take_tokens()
        exchange.handed_tokens += len(token_ids)
        if text or thought or token_ids:
            request_id = exchange.request.request_id
            self._report.add_output(request_id, text, token_ids, thought, logprobs)

    def _end(self, exchange: Exchange, done: asyncio.Task[FinishReason | EngineDied]) -> None:
        """Report the request's end, or that it was lost, whatever ended its task."""
        request_id = exchange.request.request_id
        del self._tasks[request_id]
        self._exchanges.pop(request_id, None)
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
        if isinstance(failure, RequestRejected) and self._store is not None:
            self._store.forget(self.server)
        error = record_of(failure) if failure else None
        if exchange.held is None:
            self._report_output(exchange)
        is_paid = reason != "failed" or exchange.reader.chunks > 0
        likely_tokens = exchange.likely_prompt_tokens if is_paid else 0
        now_s = self._clock.now_s()
        resumed_tokens = len(exchange.request.output_ids)
        account = ledger(exchange.reader, exchange.times, now_s, likely_tokens, resumed_tokens)
        self._report.add_end(
            End(
                request_id,
                reason,
                account,
                exchange.is_closed,
                error,
                exchange.reader.stopped_by,
                exchange.scores,
                constraint=exchange.constraint_use,
                unmet=exchange.unmet,
                not_sent=tuple(sorted(self.server.fixed | exchange.not_sent)),
                server=self._http.url,
                prompt="messages" if self._codec is None else "tokens",
                provider=self._kind.provider or self.server.family,
                answer_id=exchange.reader.name.answer_id,
                model=exchange.reader.name.model,
            )
        )

    def _lose(self, exchange: Exchange, error: EngineDied) -> None:
        """Give a request back of which some text has been handed on."""
        request_id = exchange.request.request_id
        self._lost[request_id] = exchange
        self._report.flush()
        self._queue.put(BackendDown(record_of(error), (request_id,), restarting=True))
