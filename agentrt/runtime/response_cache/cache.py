"""The response cache of a runtime: a store, called from a thread of its own.

No call blocks the event loop, and none fails a run. If the store cannot be used, that is said once
and the runs go on without it; it is tried again after a pause.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from agentrt.base.record import record
from agentrt.runtime.response_cache.store import Found, ResponseStore, StoreError

if TYPE_CHECKING:
    from agentrt.runtime.in_flight.cached_answer import CachedAnswer

LEASE_S = 15.0
"""A process that has crashed holds up others for so long."""

RETRY_S = 30.0
"""Pause before a store that could not be used is tried again."""

_log = logging.getLogger("agentrt")


@record
class LookedUp:
    """The outcome of a look-up.

    Attributes:
        answer: The answer; None if there is none.
        is_leased: Whether this process computes the answer, and others wait for it.
        is_off: Whether the store cannot be used.
    """

    answer: CachedAnswer | None = None
    is_leased: bool = False
    is_off: bool = False


class ResponseCache:
    """The response cache of one runtime.

    Args:
        store: The store.
        engines: Identity of the engine of each role; other roles are not cached.
        default_roles: Roles with generations that are cached unless they say otherwise.

    Attributes:
        engines: Identity of the engine of each role.
        default_roles: Roles that are cached by default.
    """

    def __init__(
        self,
        store: ResponseStore,
        engines: Mapping[str, str],
        default_roles: frozenset[str] = frozenset(),
    ) -> None:
        self.engines = engines
        self.default_roles = default_roles
        self._store = store
        self._holder = secrets.token_hex(16)
        self._thread = ThreadPoolExecutor(1, "agentrt responses")
        self._off_until_s = float("-inf")
        self._has_warned = False
        self._is_used = False
        self._looks: Counter[str] = Counter()

    async def find(self, key: str) -> LookedUp:
        """The answer of a key, or a lease on it."""
        self._is_used = True
        find = partial(self._store.find, key, self._holder, LEASE_S)
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._try, find)
        self._looks[key] += 1
        future.add_done_callback(partial(self._looked, key))
        try:
            found = await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(partial(self._give_up, key))
            raise
        if found is None:
            return LookedUp(is_off=True)
        if found.value is None:
            return LookedUp(is_leased=found.is_leased)
        from agentrt.runtime.in_flight.cached_answer import answer_in

        answer = answer_in(found.value)
        if answer is None:  # of another program, or damaged
            self.remove(key)
            return LookedUp(is_leased=True)
        return LookedUp(answer)

    def put(self, key: str, answer: CachedAnswer) -> None:
        """Keep an answer, some time after the return."""
        from agentrt.runtime.in_flight.cached_answer import answer_bytes

        self._submit(lambda: self._store.put(key, answer_bytes(answer), self._holder))

    def renew(self, keys: Sequence[str]) -> None:
        """Let leases last on, likewise."""
        self._submit(lambda: self._store.renew(keys, self._holder, LEASE_S))

    def release(self, key: str) -> None:
        """End a lease without an answer, likewise."""
        self._submit(lambda: self._store.release(key, self._holder))

    def remove(self, key: str) -> None:
        """Drop an answer, likewise."""
        self._submit(lambda: self._store.remove(key))

    async def aclose(self) -> None:
        """Wait for what is still to be written, and close the store."""
        if self._is_used:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._thread, self._store.close)
        self._thread.shutdown(wait=False)

    def _submit(self, work: Callable[[], object]) -> None:
        self._thread.submit(self._try, work)

    def _try(self, work: Callable[[], Found | object]) -> Found | None:
        """Do some work, in the thread; None if the store cannot be used, which is said once.

        One failure is for all that waits behind it: each would wait for the same timeout.
        """
        if time.monotonic() < self._off_until_s:
            return None
        try:
            done = work()
            return done if isinstance(done, Found) else None
        except StoreError as error:
            self._off_until_s = time.monotonic() + RETRY_S
            if not self._has_warned:
                self._has_warned = True
                _log.warning("the response cache is not used: %s", error)
        return None

    def _looked(self, key: str, _: asyncio.Future[Found | None]) -> None:
        self._looks[key] -= 1
        if not self._looks[key]:
            del self._looks[key]

    def _give_up(self, key: str, future: asyncio.Future[Found | None]) -> None:
        """End the lease that a look-up has got after its node had ended, unless the next has it."""
        if future.cancelled() or future.exception() is not None or self._looks[key]:
            return
        found = future.result()
        if found is not None and found.is_leased:
            self.release(key)
