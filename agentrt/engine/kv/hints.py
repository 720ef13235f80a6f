"""What the runtime says of prefixes: who keeps, who goes, and until when."""

from __future__ import annotations

from heapq import heappop, heappush

from agentrt.engine.kv.allocator import KvAllocator
from agentrt.kv_cache import EvictionPriority, key_of
from agentrt.protocol.backend import KvHint

MOST_UNMET = 64
_TRIED_A_STEP = 4


class KvHints:
    """Obeys hints, and ends those that hold for a while."""

    def __init__(self, paging: KvAllocator) -> None:
        self._paging = paging
        self._ends: list[tuple[float, bytes]] = []
        self._kept: dict[bytes, float] = {}  # the last word on each
        self._unmet: dict[bytes, None] = {}  # kept, and not computed to its end yet

    def obey(
        self,
        token_ids: tuple[int, ...],
        hint: KvHint,
        until_s: float | None,
        from_tokens: int = 0,
        cache_salt: str = "",
    ) -> None:
        """Do what is asked; a prefix that nobody knows is no error."""
        key = key_of(token_ids, cache_salt)
        self._kept.pop(key, None)
        self._unmet.pop(key, None)
        match hint:
            case "keep":
                self._keep(key, until_s)
            case "drop":
                self._paging.retain(key, EvictionPriority.DROP, from_tokens=from_tokens)
            case "demote":
                self._paging.demote(key)
            case "prefetch":
                self._paging.prefetch(key)
                if until_s is not None:
                    self._keep(key, until_s)

    def settle(self, now_s: float) -> None:
        """What was kept until now is as any other; what is computed by now is kept."""
        self._paging.at(now_s)
        while self._ends and self._ends[0][0] <= now_s:
            until_s, key = heappop(self._ends)
            self._paging.release(key)
            if self._kept.get(key) == until_s:
                del self._kept[key]
                self._unmet.pop(key, None)
        for key in list(self._unmet)[:_TRIED_A_STEP]:
            del self._unmet[key]
            self._mark(key, self._kept[key])

    def _keep(self, key: bytes, until_s: float | None) -> None:
        if until_s is not None:
            self._kept[key] = until_s
            heappush(self._ends, (until_s, key))
        self._mark(key, until_s)

    def _mark(self, key: bytes, until_s: float | None) -> None:
        """Keep what is there of it; what is not is looked for again in the steps to come."""
        self._paging.retain(key, EvictionPriority.KEEP, back_by_s=until_s)
        if until_s is not None and not self._paging.has_whole(key):
            self._unmet[key] = None
            if len(self._unmet) > MOST_UNMET:
                del self._unmet[next(iter(self._unmet))]
