"""KV hints of the runtime: prefixes to keep, drop, demote or prefetch, and until when."""

from __future__ import annotations

from heapq import heappop, heappush

from agentrt.engine.kv.allocator import KvAllocator
from agentrt.kv_cache import EvictionPriority, key_of, kv_salt
from agentrt.protocol.backend import PrefixHint

MAX_PENDING = 64
_RETRIES_A_STEP = 4


class KvHints:
    """Applies hints, and ends those that hold until an instant.

    Attributes:
        kept_until: Instant by key, from the latest hint.
        pending: Keys that are kept, but not yet computed to the end.
    """

    def __init__(self, allocator: KvAllocator) -> None:
        self._allocator = allocator
        self._expiries: list[tuple[float, bytes]] = []
        self.kept_until: dict[bytes, float] = {}
        self.pending: dict[bytes, None] = {}

    def apply_hint(self, hint: PrefixHint) -> None:
        """Apply a hint; an unknown prefix is no error."""
        try:
            key = key_of(hint.token_ids, kv_salt(hint.cache_salt, hint.adapter))
        except OverflowError:  # no token has such an id
            return
        until_s = hint.until_s
        self.kept_until.pop(key, None)
        self.pending.pop(key, None)
        match hint.hint:
            case "keep":
                self._keep(key, until_s)
            case "drop":
                drop = EvictionPriority.DROP
                self._allocator.set_priority(key, drop, from_tokens=hint.from_tokens)
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
            self._allocator.expire_keeps(key)
            if self.kept_until.get(key) == until_s:
                del self.kept_until[key]
                self.pending.pop(key, None)
        for key in list(self.pending)[:_RETRIES_A_STEP]:
            del self.pending[key]
            self._keep_cached(key, self.kept_until[key])

    def _keep(self, key: bytes, until_s: float | None) -> None:
        if until_s is not None:
            self.kept_until[key] = until_s
            heappush(self._expiries, (until_s, key))
        self._keep_cached(key, until_s)

    def _keep_cached(self, key: bytes, until_s: float | None) -> None:
        """Keep the cached part of a prefix; the rest is looked for again in later steps."""
        self._allocator.set_priority(key, EvictionPriority.KEEP, reuse_by_s=until_s)
        if until_s is not None and not self._allocator.is_cached(key):
            self.pending[key] = None
            if len(self.pending) > MAX_PENDING:
                del self.pending[next(iter(self.pending))]
