"""KV hints of the runtime: prefixes to keep, drop, demote or prefetch, and until when."""

from __future__ import annotations

from heapq import heappop, heappush

from agentrt.engine.kv.allocator import KvAllocator
from agentrt.kv_cache import EvictionPriority, key_of
from agentrt.protocol.backend import KvHint

MAX_PENDING = 64
_RETRIES_A_STEP = 4


class KvHints:
    """Applies hints, and ends those that hold until an instant."""

    def __init__(self, allocator: KvAllocator) -> None:
        self._allocator = allocator
        self._expiries: list[tuple[float, bytes]] = []
        self._kept_until: dict[bytes, float] = {}  # by the latest hint
        self._pending: dict[bytes, None] = {}  # kept, but not yet computed to the end

    def apply_hint(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None,
        from_tokens: int = 0,
        cache_salt: str = "",
    ) -> None:
        """Apply a hint; an unknown prefix is no error."""
        key = key_of(token_ids, cache_salt)
        self._kept_until.pop(key, None)
        self._pending.pop(key, None)
        match hint:
            case "keep":
                self._keep(key, until_s)
            case "drop":
                self._allocator.retain(key, EvictionPriority.DROP, from_tokens=from_tokens)
            case "demote":
                self._allocator.demote(key)
            case "prefetch":
                self._allocator.prefetch(key)
                if until_s is not None:
                    self._keep(key, until_s)

    def update(self, now_s: float) -> None:
        """End the hints that have expired, and retry those on prefixes not yet computed."""
        self._allocator.set_time(now_s)
        while self._expiries and self._expiries[0][0] <= now_s:
            until_s, key = heappop(self._expiries)
            self._allocator.release(key)
            if self._kept_until.get(key) == until_s:
                del self._kept_until[key]
                self._pending.pop(key, None)
        for key in list(self._pending)[:_RETRIES_A_STEP]:
            del self._pending[key]
            self._retain(key, self._kept_until[key])

    def _keep(self, key: bytes, until_s: float | None) -> None:
        if until_s is not None:
            self._kept_until[key] = until_s
            heappush(self._expiries, (until_s, key))
        self._retain(key, until_s)

    def _retain(self, key: bytes, until_s: float | None) -> None:
        """Keep the cached part of a prefix; the rest is looked for again in later steps."""
        self._allocator.retain(key, EvictionPriority.KEEP, back_by_s=until_s)
        if until_s is not None and not self._allocator.is_cached(key):
            self._pending[key] = None
            if len(self._pending) > MAX_PENDING:
                del self._pending[next(iter(self._pending))]
