"""A model behind the API: the runtime that serves it, and which requests it takes."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from agentrt.analysis.expert_load import Counts, added
from agentrt.base.clock import Clock, MonotonicClock
from agentrt.base.errors import AgentrtError, EngineUnavailable, NodeCancelled
from agentrt.base.ids import RunId
from agentrt.base.segments import CallFrame
from agentrt.program import Gen
from agentrt.program.prompt_prefix import prompt_segments
from agentrt.protocol.step_output import DraftCount, DraftSource
from agentrt.runtime import RunOptions, Runtime
from agentrt.runtime.model_role import ModelRole
from agentrt.serve.api_keys import Tenant
from agentrt.serve.body_reader import BodyReader
from agentrt.serve.body_readers import BodyReaders
from agentrt.serve.body_routes import BodyRequest, BodyRoute, body_request, generation_of
from agentrt.serve.completion_programs import chat_completion, text_completion
from agentrt.serve.metrics import ServerLoad
from agentrt.serve.prompt_size import body_limit
from agentrt.serve.reader_wire import ReaderModel
from agentrt.serve.refusal import RequestRefused, going_down, refusal_of
from agentrt.serve.request_body import HeldBody
from agentrt.serve.request_builder import CompletionRequest
from agentrt.serve.shares import RequestShares
from agentrt.tools.workers import run_in_worker

if TYPE_CHECKING:
    from agentrt.prompt import Codec

ResultT = TypeVar("ResultT")
DEFAULT_MOST_REQUESTS = 256
SHORT_BODY_BYTES = 8 * 1024
"""Length of a body that takes at most some ten milliseconds, whatever it holds."""

_MAX_WORKERS = 2
_READERS = 2
TenantOf = Callable[[object], Tenant]
"""The tenant of a request by the user that it names, or by None where that is not known yet."""


DeliverText = Callable[[Gen[str], str | None, AsyncIterator[str]], Awaitable[None]]
"""Sends a generation to its client, given its first text and the stream of the rest."""


class Place:
    """The place of a request among those under way.

    Args:
        tenant: Tenant of the request.
        scope: Cancelled if the request is given up.

    Attributes:
        turn: Set from its turn on.
        refusal: Why it was given up; None if its client has left.
    """

    def __init__(self, tenant: Tenant, scope: anyio.CancelScope) -> None:
        self.tenant = tenant
        self.scope = scope
        self.turn = asyncio.Event()
        self.refusal: RequestRefused | None = None

    def refuse(self, refusal: RequestRefused) -> None:
        """Give the request up."""
        self.refusal = refusal
        self.scope.cancel()


class ServedModel:
    """Runs chat completions on a runtime.

    Args:
        runtime: An open runtime; its engine of the role `default` serves the model.
        name: Name that clients call the model by.
        most_requests: Requests under way at once; further ones are refused for the moment.
        clock: Source of instants on the calendar.

    Attributes:
        name: Name that clients call the model by.
        names: Names of the model and of its adapters, the model first.
        started_at_unix_s: Start of the service.
        body_limit: The longest body of a request.
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
        self.names = (name, *self._engine.capabilities.adapters)
        self._clock = clock or MonotonicClock()
        self._shares = RequestShares[Place](most_requests)
        self._free_workers = anyio.CapacityLimiter(_MAX_WORKERS)
        self._readers = _readers_for(self._engine, self.names)
        codec, window_tokens = self._engine.codec, self._engine.window_tokens
        self.body_limit = body_limit(window_tokens, codec.most_text_bytes if codec else 0)
        self._expert_tokens: Counts = ()
        self._expert_hits = self._expert_misses = 0
        self._accepted_drafts: Counter[DraftSource] = Counter()
        self._rejected_drafts: Counter[DraftSource] = Counter()
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
        return len(self._shares) + (len(self._readers) if self._readers is not None else 0)

    @property
    def load(self) -> ServerLoad:
        """The load now, of the engine and of the queues before it."""
        engine = self._runtime.load_of("default")
        before = self._shares.waiting + (len(self._readers) if self._readers is not None else 0)
        if engine is None:
            return ServerLoad(0, before)
        return ServerLoad(
            engine.running,
            engine.waiting + before,
            engine.kv_share,
            engine.kv_tokens,
            engine.slots,
            engine.kv_bytes,
            self._expert_tokens,
            self._expert_hits,
            self._expert_misses,
            tuple(
                DraftCount(source, self._accepted_drafts[source], rejected_tokens)
                for source, rejected_tokens in self._rejected_drafts.items()
            ),
        )

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
        for place in self._shares:
            place.refuse(going_down())
        if self._readers is not None:
            self._readers.give_up()

    async def prewarm(self) -> None:
        """Start a process that reads bodies, which the first constrained request needs."""
        if self._readers is not None:
            await self._readers.prewarm()

    def close(self) -> None:
        """End the processes that read bodies."""
        if self._readers is not None:
            self._readers.close()

    async def read(
        self, route: BodyRoute, body: HeldBody, tenant_of: TenantOf
    ) -> CompletionRequest:
        """The generation of a request: a short body is read here, any other in a process.

        Args:
            route: Route of the request.
            body: Body of the request, which is released.
            tenant_of: Tenant of the request.

        Raises:
            RequestRefused: The request makes no generation, or cannot fit the window.
        """
        content = body.content
        is_short = len(content) <= SHORT_BODY_BYTES
        try:
            self._check_open()
            question = body_request(route, content) if is_short else None
            if question is not None and not question.is_constrained:
                return self._built(question)
            if self._readers is not None:
                return await self._readers.read(route, content, tenant_of(None))
            # The engine takes messages: nothing is tokenised here.
            return await self.in_worker(partial(self._read_here, route, content))
        finally:
            body.release()

    def codec(self) -> Codec:
        """The codec of the model.

        Raises:
            RequestRefused: The engine takes messages.
        """
        codec = self._engine.codec
        if codec is None or self._engine.capabilities.prompt == "messages":
            raise RequestRefused(
                400,
                "the engine of this server takes messages, and has no token ids",
                code="unsupported_value",
            )
        return codec

    async def in_worker(self, work: Callable[[], ResultT]) -> ResultT:
        """Do some work of a request on one of a few threads."""
        async with self._free_workers:
            return await run_in_worker(work, _nothing)

    def prompt_ids(self, request: CompletionRequest, tenant: Tenant) -> tuple[int, ...]:
        """The ids of a prompt, as the engine gets them.

        Raises:
            RequestRefused: The engine takes messages, or the template refuses these.
        """
        codec = self.codec()
        chat, salt = request.chat, tenant.cache_salt + request.terms.cache_salt
        try:
            return codec.encode(chat.tools, prompt_segments(chat), chat.history, salt).token_ids
        except AgentrtError as error:
            raise refusal_of(error) from None

    def enter(self, tenant: Tenant, scope: anyio.CancelScope) -> Place:
        """Take a request, which is under way until it leaves.

        Args:
            tenant: Tenant of the request.
            scope: Cancelled if it is given up.

        Raises:
            RequestRefused: The request is not taken.
        """
        self._check_open()
        place = Place(tenant, scope)
        refused = self._shares.enter(place, tenant.owner)
        if refused is place:
            raise self._too_many()
        if refused is not None:
            refused.refuse(self._too_many())
        return place

    def leave(self, place: Place) -> None:
        """Note the end of a request."""
        self._shares.leave(place)
        self._give_turns()

    async def turn_of(self, place: Place, priority: int) -> None:
        """Wait for the turn of a request that is prepared.

        Args:
            place: Place of the request.
            priority: Priority among the requests of its client; the smallest goes first.
        """
        self._shares.wait(place, priority)
        self._give_turns()
        await place.turn.wait()

    def _give_turns(self) -> None:
        for place in self._shares.next_turns():
            place.turn.set()

    async def run(
        self,
        route: BodyRoute,
        request: CompletionRequest,
        place: Place,
        run_id: RunId,
        deliver: DeliverText,
    ) -> RequestRefused | None:
        """Run a request to its end; the failure, if it fails.

        Args:
            route: Route of the request.
            request: The generation of the request.
            place: Place of the request; its turn ends with the first text.
            run_id: Id of the run.
            deliver: Sends the answer, once there is a first text.
        """
        tenant = place.tenant
        options = RunOptions(
            run_id,
            tenant=tenant.name,
            cache_salt=tenant.cache_salt + request.terms.cache_salt,
            priority=-request.terms.priority,
            session=request.terms.session,
            keeps_prefixes=True,
        )
        program = text_completion if route == "text" else chat_completion

        async def begin(gen: Gen[str]) -> None:
            texts = gen.stream()
            text = await anext(texts, None)
            self._shares.begin(place)
            self._give_turns()
            await deliver(gen, text, texts)
            ledger = gen.meta.ledger
            self._expert_hits += ledger.expert_hits
            self._expert_misses += ledger.expert_misses
            if ledger.expert_tokens:
                self._expert_tokens = added((self._expert_tokens, ledger.expert_tokens))
            for one in ledger.drafts:
                self._accepted_drafts[one.source] += one.accepted_tokens
                self._rejected_drafts[one.source] += one.rejected_tokens

        try:
            await self._runtime.with_options(options).run(program, request, begin)
        except NodeCancelled:  # by the engine, which ends
            return going_down()
        except AgentrtError as error:
            return refusal_of(error)
        return None

    def _check_open(self) -> None:
        if self._given_up is not None:
            raise going_down()
        if self.down is not None:
            raise refusal_of(self.down)

    def _too_many(self) -> RequestRefused:
        return RequestRefused(429, f"{self.under_way} requests are under way: come back soon")

    def _read_here(self, route: BodyRoute, content: bytes) -> CompletionRequest:
        return self._built(body_request(route, content))

    def _built(self, question: BodyRequest) -> CompletionRequest:
        codec = None if self._engine.capabilities.prompt == "messages" else self._engine.codec
        try:
            return generation_of(question, self.names, codec, self._engine.window_tokens)
        except AgentrtError as error:
            raise refusal_of(error) from None


def _readers_for(engine: ModelRole, names: tuple[str, ...]) -> BodyReaders | None:
    """Processes that read bodies; None for an engine whose prompts are not tokenised here."""
    codec = engine.codec
    if codec is None or engine.capabilities.prompt == "messages":
        return None
    model = ReaderModel(codec.path, codec.fingerprint, names, engine.window_tokens)
    return BodyReaders([BodyReader(model) for _ in range(_READERS)])


def _nothing() -> None:
    """The end of abandoned work."""


def new_run_id() -> RunId:
    """An id for a run that is about to begin."""
    return RunId(secrets.token_hex(8))
