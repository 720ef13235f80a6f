"""The few processes that read large bodies, and the queue for them."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio

from agentrt.base.errors import AgentrtError, InternalError
from agentrt.serve.api_keys import Tenant
from agentrt.serve.body_reader import BodyReader, TooCostlyToRead
from agentrt.serve.body_routes import BodyRoute
from agentrt.serve.fair_turns import FairTurns
from agentrt.serve.refusal import RequestRefused, going_down, refusal_of
from agentrt.serve.request_builder import CompletionRequest
from agentrt.tools.workers import run_in_worker

MOST_WAITING = 64
WAIT_S = 10.0
_MOST_REFUSED = 1024


class BodyReaders:
    """Reads bodies in processes, each tenant's in turn.

    Args:
        readers: One a process.
        most_waiting: Requests that are read or wait for it at once, shared by their tenants.
    """

    def __init__(self, readers: Sequence[BodyReader], most_waiting: int = MOST_WAITING) -> None:
        self._readers = readers
        self._idle = list(readers)
        self._turns = FairTurns(len(readers))
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self._under_way: dict[anyio.CancelScope, str] = {}
        self._most_waiting = most_waiting
        self._is_closed = False
        self._is_warm = asyncio.Event()
        self._is_warm.set()

    def __len__(self) -> int:
        """Requests that are read or wait for it."""
        return len(self._under_way)

    async def prewarm(self) -> None:
        """Start the process of one reader, so that no request waits for its start.

        Requests that come meanwhile wait for it: another process would be ready no sooner.
        """
        reader = self._readers[0]

        def end_if_closed() -> None:
            if self._is_closed:
                reader.close()

        self._is_warm.clear()
        try:
            with suppress(InternalError):  # the first request tries again, and reports it
                await run_in_worker(reader.start, end_if_closed)
        finally:
            self._is_warm.set()

    async def read(self, route: BodyRoute, body: bytes, tenant: Tenant) -> CompletionRequest:
        """Read a body; a caller that is cancelled stops it.

        Args:
            route: Route of the request.
            body: The JSON.
            tenant: Owner of the request, as far as it is known before.

        Raises:
            RequestRefused: The body makes no request, took too much before, or the queue is full.
        """
        if self._refused and await self._digest(body) in self._refused:
            raise _too_costly()
        self._check_room(tenant.name)
        scope = anyio.CancelScope()
        self._under_way[scope] = tenant.name
        try:
            with scope:
                return await self._read(route, body, tenant)
        finally:
            del self._under_way[scope]
        raise going_down()

    def give_up(self) -> None:
        """Refuse all requests that are read or wait for it."""
        for scope in self._under_way:
            scope.cancel()

    def close(self) -> None:
        """End the processes."""
        self._is_closed = True
        for reader in self._readers:
            reader.close()

    async def _read(self, route: BodyRoute, body: bytes, tenant: Tenant) -> CompletionRequest:
        await self._is_warm.wait()
        with anyio.move_on_after(WAIT_S) as wait:
            await self._turns.take(tenant.name)
        if wait.cancelled_caught:
            raise _busy()
        reader = next((one for one in self._idle if one.is_warm), self._idle[0])
        self._idle.remove(reader)
        is_abandoned = threading.Event()

        def put_back() -> None:
            self._idle.append(reader)
            self._turns.give_back(tenant.name)

        work = partial(reader.read, route, body, tenant.cache_salt, is_abandoned)
        try:
            return await run_in_worker(work, put_back)
        except TooCostlyToRead:
            self._refused[await self._digest(body)] = None
            if len(self._refused) > _MOST_REFUSED:
                self._refused.popitem(last=False)
            raise _too_costly() from None
        except AgentrtError as error:
            raise refusal_of(error) from None
        finally:
            is_abandoned.set()

    def _check_room(self, tenant: str) -> None:
        """Refuse a request beyond the limit; a tenant below its share has room up to twice that."""
        if len(self) < self._most_waiting:
            return
        counts = Counter(self._under_way.values())
        share = self._most_waiting // len(counts.keys() | {tenant})
        if counts[tenant] >= share or len(self) >= 2 * self._most_waiting:
            raise _busy()

    async def _digest(self, body: bytes) -> bytes:
        hashed = await run_in_worker(partial(hashlib.sha256, body), _nothing)
        return hashed.digest()


def _nothing() -> None:
    """The end of abandoned work."""


def _busy() -> RequestRefused:
    return RequestRefused(503, "too many large requests wait to be read: come back soon")


def _too_costly() -> RequestRefused:
    return RequestRefused(400, "the request takes too long or too much memory to read")
