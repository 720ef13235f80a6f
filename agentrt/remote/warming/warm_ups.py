"""Warm-ups at one server: `ahead` requests, sent only into room that nothing else needs.

Each is one attempt that may break off at any time, since nothing depends on it. A server that
refuses one as a request gets no more of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

import anyio

from agentrt.base.engines.kind_warming import KindWarming
from agentrt.base.errors import (
    AgentrtError,
    EngineUnavailable,
    InternalError,
    Unsupported,
    record_of,
)
from agentrt.base.ids import RequestId
from agentrt.protocol.backend import GenerateRequest, TokenPrompt
from agentrt.protocol.step_output import End, Ledger
from agentrt.remote.admission.admission_queue import AdmissionQueue
from agentrt.remote.attempt import Attempts, enter_trace
from agentrt.remote.body import build_request, forms_of
from agentrt.remote.http import FormRefused, Http
from agentrt.remote.load_watch import LoadWatch
from agentrt.remote.protocols import WIRE_PROTOCOLS, WireProtocol
from agentrt.remote.protocols.answer_parts import ErrorPart, UsagePart
from agentrt.remote.task_ends import end_tasks
from agentrt.remote.warming.leftover_room import SpareRoom
from agentrt.remote.warming.rendered_prefix import MARKERS, rendered_prefix, with_marker
from agentrt.remote.wire_hints import hint_fields


class WarmUps:
    """The warm-ups of one server.

    Args:
        http: The server.
        attempts: Attempts at it, with its properties as far as they are known.
        kind: Warm-ups of its kind.
        admission: The requests before it.
        watch: Looks at its load; None if it does not show it.
        on_end: Called with the end of each.
    """

    def __init__(
        self,
        http: Http,
        attempts: Attempts,
        kind: KindWarming,
        admission: AdmissionQueue,
        watch: LoadWatch | None,
        on_end: Callable[[End], None],
    ) -> None:
        self._http = http
        self._attempts = attempts
        self._kind = kind
        self._admission = admission
        self._watch = watch
        self._on_end = on_end
        self._refusal: AgentrtError | None = None
        self._tasks: dict[RequestId, asyncio.Task[Ledger]] = {}

    def submit(self, request: GenerateRequest) -> None:
        """Send a warm-up, or end it if there is no room."""
        task = asyncio.create_task(self._warm(request))
        self._tasks[request.request_id] = task
        task.add_done_callback(partial(self._end, request.request_id))

    def cancel(self, request_id: RequestId) -> None:
        """Break a warm-up off; one that is not here is ignored."""
        if request_id in self._tasks:
            self._tasks[request_id].cancel()

    def yield_room(self) -> None:
        """Break off the newest warm-ups whose room requests need."""
        if self._tasks and (excess := self._room().excess):
            for task in list(self._tasks.values())[-excess:]:
                task.cancel()

    async def aclose(self) -> None:
        """Break off all of them."""
        await end_tasks(self._tasks.values())

    async def _warm(self, request: GenerateRequest) -> Ledger:
        """Send a warm-up if there is room.

        Raises:
            AgentrtError: There is no room, or the attempt failed.
        """
        if self._refusal is not None:
            raise self._refusal
        self._check_room()
        pacer = self._admission.pacer
        pacer.begin_warm_up()
        try:
            if self._watch is not None:
                await self._watch.look()
                self._watch.start()
                pacer.warm_ups -= 1  # it is no reason against itself
                try:
                    self._check_room()
                finally:
                    pacer.warm_ups += 1
            return await self._sent(request)
        finally:
            pacer.end_warm_up()

    async def _sent(self, request: GenerateRequest) -> Ledger:
        try:
            return await self._attempt(request)
        except FormRefused as refusal:
            known = self._attempts.server.after_refusal(refusal.message)
            if known is None:
                self._refusal = refusal
                raise
            self._attempts.server = known
        try:
            return await self._attempt(request)
        except FormRefused as refusal:
            self._refusal = refusal
            raise

    async def _attempt(self, request: GenerateRequest) -> Ledger:
        protocol, body = await self._written(request)

        def late() -> dict[str, Any]:
            return hint_fields(request, self._attempts.server.hints, self._admission.order)

        headers = enter_trace(request)
        usage = UsagePart()
        once = self._http.one_attempt()
        stream = self._http.answer(protocol, body, headers, once, late)
        async with aclosing(stream) as events:
            async for parts in events:
                for part in parts:
                    if isinstance(part, ErrorPart):
                        raise EngineUnavailable(f"{self._http.url}: {part.message}")
                    if isinstance(part, UsagePart):
                        usage = part
        return Ledger(
            prompt_tokens=usage.prompt_tokens,
            cached_tokens=usage.cached_tokens,
            output_tokens=usage.output_tokens,
        )

    async def _written(self, request: GenerateRequest) -> tuple[WireProtocol, dict[str, Any]]:
        """A warm-up as it is sent, and the protocol of it."""
        server, prompt = self._attempts.server, request.prompt
        if isinstance(prompt, TokenPrompt):
            return server.protocol, build_request(request, server).body
        if request.constraint is not None and request.constraint.holes:
            raise Unsupported("its constraint is still pending")
        form = forms_of(request, server)[0]
        chats: list[dict[str, Any]] = []
        for marker in MARKERS:
            marked = replace(prompt, segments=with_marker(prompt.segments, marker))
            chats.append(build_request(replace(request, prompt=marked), server, form).body)
        prefix = await rendered_prefix(self._http, self._kind, chats)
        if not prefix:
            raise Unsupported("the template writes the beginning by what follows")
        body = {
            "model": server.model,
            "prompt": prefix,
            "max_tokens": self._kind.output_tokens,
            "temperature": 0.0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if server.family == "vllm":
            body["return_token_ids"] = True
        if request.cache_salt:
            body[server.fields["cache_salt"]] = request.cache_salt
        return WIRE_PROTOCOLS["completions"], body

    def _check_room(self) -> None:
        """Refuse a warm-up for which there is no room."""
        if reason := self._room().reason_against():
            raise EngineUnavailable(reason)

    def _room(self) -> SpareRoom:
        pacer = self._admission.pacer
        now_s = anyio.current_time()
        return SpareRoom(
            self._admission.waiting,
            0.0 if self._watch is None else self._watch.room.waiting,
            pacer.in_flight,
            pacer.warm_ups,
            pacer.window,
            pacer.is_open(now_s),
        )

    def _end(self, request_id: RequestId, done: asyncio.Task[Ledger]) -> None:
        del self._tasks[request_id]
        if done.cancelled():
            self._on_end(End(request_id, "cancelled"))
        elif (error := done.exception()) is None:
            self._on_end(End(request_id, "stop", done.result()))
        else:
            if not isinstance(error, AgentrtError):
                error = InternalError(f"{type(error).__name__}: {error}")
            self._on_end(End(request_id, "failed", error=record_of(error)))
