"""One attempt at a request: sent in the first form that the server takes, read, checked, closed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import anyio

from agentrt.base.clock import Clock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.errors import EngineDied, RequestRejected
from agentrt.base.segments import JSON_ARRAY_FRAME as FRAME
from agentrt.base.trace_context import TRACEPARENT, trace_context_of
from agentrt.protocol.backend import GenerateRequest
from agentrt.protocol.step_output import FinishReason, UnmetAnswer
from agentrt.remote.answers.answer_reader import AnswerReader
from agentrt.remote.answers.answer_text import AnswerText
from agentrt.remote.answers.output_ids import OutputIds
from agentrt.remote.body import build_request, forms_of, left_out
from agentrt.remote.constraints.answer_check import AnswerCheck
from agentrt.remote.constraints.constraint_forms import ConstraintForm
from agentrt.remote.constraints.refused_forms import RefusedForms
from agentrt.remote.exchange import Exchange
from agentrt.remote.http import FormRefused, Http
from agentrt.remote.protocols.answer_parts import AnswerPart
from agentrt.remote.remote_server import RemoteServer
from agentrt.remote.wire_hints import hint_fields
from agentrt.scheduler.order.order import BY_ARRIVAL, Order
from agentrt.telemetry.otel_context import enter_span

CLOSING_S = 0.25
"""Time before a deadline in which an output is closed."""


class Attempts:
    """Attempts at the requests of one server.

    Args:
        http: Address of the server.
        server: The server, as its probes have shown it.
        clock: Clock of deadlines.
        write: Hands on text of an answer.
        order: Order of waiting requests, for hints to the server.

    Attributes:
        server: The server, as its refusals of parameters and schemas have shown it since.
    """

    def __init__(
        self,
        http: Http,
        server: RemoteServer,
        clock: Clock,
        write: Callable[[Exchange, str], None],
        order: Order = BY_ARRIVAL,
    ) -> None:
        self.server = server
        self._http = http
        self._clock = clock
        self._write = write
        self._order = order
        self._refused = RefusedForms()
        self._check = AnswerCheck(server.codec.call_frame if server.codec is not None else FRAME)

    def close(self) -> None:
        """End the threads that check answers."""
        self._check.aclose()

    async def stream(self, exchange: Exchange) -> FinishReason:
        """Stream one attempt, in the first form that the server takes."""
        request = exchange.request
        if len(request.output_ids) >= request.sampling.max_tokens:
            return "length"  # it broke off behind its last token
        if not exchange.forms:
            known_forms = forms_of(request, self.server)
            exchange.forms = self._refused.left(request.constraint, known_forms)
        first: RequestRejected | None = None
        while True:
            server = self.server
            try:
                return await self._stream_form(exchange, server)
            except RequestRejected as refusal:
                in_stream = exchange.reader.failed and not exchange.text
                if not isinstance(refusal, FormRefused) and not in_stream:
                    raise
                if server is not self.server:
                    continue  # another request was refused meanwhile, and showed why
                first = first or refusal
                if known := self.server.after_refusal(refusal.message):
                    self.server = known
                elif len(exchange.forms) > 1:
                    self._note_refused(request.constraint, exchange.forms)
                    del exchange.forms[0]
                else:
                    raise RequestRejected(first.message, hint=first.hint) from None

    def _note_refused(
        self, spec: ConstraintSpec | None, forms: list[ConstraintForm | None]
    ) -> None:
        """Remember a form as refused: for all constraints if it was for its bounds, else for one.

        It was for its bounds as far as is known, if the form without them is yet to try.
        """
        refused, following = forms[0], forms[1]
        if refused is None or spec is None:
            return
        if following is not None and refused.name == following.name:
            self.server = replace(self.server, takes_bounds=False)
        else:
            self._refused.note(spec, refused)

    async def _stream_form(self, exchange: Exchange, server: RemoteServer) -> FinishReason:
        request, form = exchange.request, exchange.form
        sent = build_request(request, server, form)
        output = None if server.codec is None else OutputIds(server.codec, request)
        reader = AnswerReader(sent.max_calls, by_call=sent.reading.by_call, output=output)
        exchange.reader, answer = reader, AnswerText(sent.reading)
        exchange.not_sent = left_out(request)
        exchange.held = [] if form is not None and not form.enforced else None
        if exchange.held is not None and request.constraint is not None:
            await anyio.to_thread.run_sync(self._check.prepare, request.constraint)

        def late() -> dict[str, Any]:
            return hint_fields(exchange.request, self.server.hints, self._order)

        headers = enter_trace(request)
        events = self._http.answer(server.protocol, sent.body, headers, exchange.retries, late)
        silent = await self._read(exchange, answer, events)
        finish = reader.finish
        if finish is None and not reader.full:
            if not exchange.closes_now:
                why = "ended its answer without a reason"
                if silent:
                    stall_s = self._http.limits.stall_s
                    why = f"wrote nothing for {stall_s:g} s in the middle of its answer"
                raise EngineDied(f"the engine at {self._http.url} {why}")
            finish = "length"
        cut = finish == "length"
        rest = answer.feed_text(reader.close(cut=cut))
        self._keep_thought(exchange)
        self._write(exchange, rest + answer.close(calls=reader.calls, cut=cut))
        if request.constraint is not None:
            await self._settle(exchange, request.constraint, answer, cut=cut)
            if request.scored and not cut and not exchange.scores:
                count = len(request.constraint.options)
                raise RequestRejected(
                    f"{self._http.url} sent {len(reader.scores)} scores of {count} options",
                    hint="Leave scored out, or look at the version and the kind of the server",
                )
        return finish or "stop"

    async def _read(
        self,
        exchange: Exchange,
        answer: AnswerText,
        stream: AsyncGenerator[Sequence[AnswerPart], None],
    ) -> bool:
        """Read a stream to its end, or to a limit; whether the server has fallen silent."""
        reader, stall_s = exchange.reader, self._http.limits.stall_s
        with anyio.CancelScope() as limit, anyio.CancelScope() as silence:
            exchange.limit = limit
            self._set_limit(exchange, limit)
            async with aclosing(stream) as events:
                try:
                    async for parts in events:
                        text = reader.feed_parts(parts)
                        self._keep_thought(exchange)
                        self._write(exchange, answer.feed_text(text))
                        if reader.full:
                            break
                        if reader.chunks:
                            silence.deadline = anyio.current_time() + stall_s
                except EngineDied:
                    if reader.finish is None:
                        raise
                    # The answer is whole: only its figures are missing.
        exchange.limit = None
        exchange.closes_now = exchange.closes_now or limit.cancelled_caught
        return silence.cancelled_caught

    def _keep_thought(self, exchange: Exchange) -> None:
        """Keep reasoning until text of the answer goes with it, so that it is reported once."""
        if thought := exchange.reader.take_reasoning():
            exchange.times.first_at_s = exchange.times.first_at_s or self._clock.now_s()
            exchange.thought += thought

    def _set_limit(self, exchange: Exchange, limit: anyio.CancelScope) -> None:
        """Leave time before the deadline to close an output."""
        request = exchange.request
        if exchange.closes_now:
            limit.cancel()
        elif request.on_limit == "close" and request.deadline_at_s is not None:
            left_s = request.deadline_at_s - self._clock.now_s() - CLOSING_S
            limit.deadline = anyio.current_time() + left_s

    async def _settle(
        self, exchange: Exchange, spec: ConstraintSpec, answer: AnswerText, *, cut: bool
    ) -> None:
        """Check an answer that the server may have written in any way, or close one cut off."""
        text = exchange.text
        if cut:
            end = None
            if exchange.request.on_limit == "close":
                end = await anyio.to_thread.run_sync(self._check.closing, spec, text)
            if end is not None and exchange.held is not None:
                wrong = await anyio.to_thread.run_sync(self._check.complaint, spec, text + end)
                end = end if wrong is None else None
            if end is not None:
                exchange.closing_characters, exchange.is_closed = len(end), True
                self._write(exchange, end)
        elif exchange.held is not None:
            wrong = "it is not whole"
            if answer.is_whole:
                wrong = await anyio.to_thread.run_sync(self._check.complaint, spec, text) or ""
            if wrong:
                exchange.unmet = UnmetAnswer(text, wrong)
                return
        if exchange.held is not None:
            held, exchange.held = "".join(exchange.held), None
            exchange.text = ""
            self._write(exchange, held)


def enter_trace(request: GenerateRequest) -> dict[str, str]:
    """The trace headers of a request; an instrumented client puts its own span in between.

    The span of the node becomes the current one of the calling task, so that spans of such a client
    hang below it.
    """
    if not request.traceparent:
        return {}
    enter_span(trace_context_of(request.traceparent))
    return {TRACEPARENT: request.traceparent}
