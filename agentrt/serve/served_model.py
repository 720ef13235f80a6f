"""A model behind the API: the runtime that serves it, and which requests it takes."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import anyio

from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.errors import AgentrtError, EngineUnavailable, NodeCancelled
from agentrt.base.ids import RunId
from agentrt.base.segments import CallFrame
from agentrt.runtime import RunOptions, Runtime
from agentrt.serve.api_keys import Tenant
from agentrt.serve.chat_program import Deliver, chat_completion
from agentrt.serve.prompt_size import argument_characters, check_prompt_size, text_bytes
from agentrt.serve.refusal import RequestRefused, going_down, refusal_of
from agentrt.serve.request_builder import CompletionRequest, completion_request
from agentrt.serve.request_schema import ChatRequest
from agentrt.serve.shares import RequestShares
from agentrt.tools.workers import run_in_worker

T = TypeVar("T")
DEFAULT_MOST_REQUESTS = 256
_DEFAULT_TOKENS = 4096
_LARGE_BYTES = 64 * 1024
_MAX_WORKERS = 2


class ServedModel:
    """Runs chat completions on a runtime.

    Args:
        runtime: An open runtime; its engine of the role `default` serves the model.
        name: Name that clients call the model by.
        most_requests: Requests under way at once; further ones are refused for the moment.
        clock: Source of instants on the calendar.

    Attributes:
        name: Name that clients call the model by.
        started_at_unix_s: Start of the service.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        name: str,
        most_requests: int = DEFAULT_MOST_REQUESTS,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self._runtime = runtime
        self._engine = runtime.engines["default"]
        self._clock = clock or MonotonicClock()
        self._under_way = RequestShares(most_requests)
        self._free_workers = anyio.CapacityLimiter(_MAX_WORKERS)
        self._given_up: EngineUnavailable | None = None
        self.started_at_unix_s = self.unix_s()

    @property
    def window_tokens(self) -> int:
        """Context length of the model; 0 when unknown."""
        return self._engine.capabilities.window_tokens

    @property
    def call_frame(self) -> CallFrame:
        """How the model writes tool calls."""
        return self._engine.capabilities.call_frame

    @property
    def under_way(self) -> int:
        """Number of requests that are served or wait."""
        return len(self._under_way)

    @property
    def down(self) -> AgentrtError | None:
        """Why requests are not taken; None if they are."""
        return self._given_up or self._runtime.down

    def unix_s(self) -> int:
        """Now, on the calendar."""
        return self._clock.unix_ns() // 1_000_000_000

    def give_up(self) -> None:
        """Fail all requests under way, and take no more."""
        self._given_up = EngineUnavailable("the server is going down", hint="Ask again later")
        for scope in self._under_way.scopes:
            scope.cancel()

    @asynccontextmanager
    async def taking(
        self, question: ChatRequest, tenant: Tenant
    ) -> AsyncIterator[CompletionRequest]:
        """Take a request, which is under way while the block lasts.

        Args:
            question: Body of the request.
            tenant: Owner of the request.

        Raises:
            RequestRefused: The request is not taken, or was given up.
        """
        self._check_taken(question, tenant)
        scope = anyio.CancelScope()
        self._under_way.add(scope, tenant.name)
        try:
            with scope:
                yield await self._built(question, tenant)
        finally:
            self._under_way.remove(scope, tenant.name)
        if scope.cancelled_caught and self._given_up is not None:
            raise going_down()

    async def in_worker(self, function: Callable[[], T]) -> T:
        """Run work that grows with a body in one of few worker threads."""
        async with self._free_workers:
            return await run_in_worker(function, _nothing)

    async def run(
        self, request: CompletionRequest, tenant: Tenant, run_id: RunId, deliver: Deliver
    ) -> RequestRefused | None:
        """Run a request to its end; the failure, if it fails.

        Args:
            request: One that was taken.
            tenant: Owner of the request.
            run_id: Id of the run.
            deliver: Sends the answer.
        """
        options = RunOptions(
            run_id,
            tenant=tenant.name,
            cache_salt=tenant.cache_salt + request.cache_salt,
            keeps_prefixes=True,
        )
        try:
            await self._runtime.with_options(options).run(chat_completion, request, deliver)
        except NodeCancelled:  # by the engine, which ends
            return going_down()
        except AgentrtError as error:
            return refusal_of(error)
        return None

    def _check_taken(self, question: ChatRequest, tenant: Tenant) -> None:
        if question.model != self.name:
            raise RequestRefused(
                404,
                f"the model {question.model!r} is not served here; {self.name!r} is",
                param="model",
                code="model_not_found",
            )
        if self._given_up is not None:
            raise going_down()
        if self.down is not None:
            raise refusal_of(self.down)
        if not self._under_way.has_room(tenant.name):
            raise RequestRefused(429, f"{self.under_way} requests are under way: come back soon")

    async def _built(self, question: ChatRequest, tenant: Tenant) -> CompletionRequest:
        """The generation of a request; what takes long is done in a worker thread.

        Raises:
            RequestRefused: The request makes no generation, or cannot fit the window.
        """
        codec = self._engine.codec
        window_tokens = codec.window_tokens if codec is not None else 0
        size_bytes = text_bytes(question)
        build = partial(completion_request, question, window_tokens or _DEFAULT_TOKENS)
        try:
            if codec is not None:
                check_prompt_size(size_bytes, window_tokens, codec.vocab)
            size_bytes += argument_characters(question)
            is_large = size_bytes > _LARGE_BYTES or bool(question.tools)
            if not is_large and not question.is_constrained:
                return build()
            request = await self.in_worker(build)
            if codec is not None and is_large:
                chat, salt = request.chat, tenant.cache_salt + request.cache_salt
                await self.in_worker(
                    partial(codec.encode_ahead, chat.tools, chat.segments(), chat.history, salt)
                )
        except AgentrtError as error:
            raise refusal_of(error) from None
        return request


def _nothing() -> None:
    """The end of abandoned work."""


def new_run_id() -> RunId:
    """An id for a run that is about to begin."""
    return RunId(secrets.token_hex(8))
