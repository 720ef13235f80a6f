"""Prefill ahead: prompts that are expected, computed while there is nothing else to compute.

A chunk of one such prompt has a step of its own, so it lengthens no step of a request. It is
computed in free pages. Between two steps it holds no slot, no page and no lock: what it
has computed is in the radix tree, and is the first to be evicted until a request uses it.
"""

from __future__ import annotations

from agentrt.base.ids import RequestId
from agentrt.engine.kv.allocator import KvAllocator
from agentrt.engine.sequence.sequence import Phase, Sequence
from agentrt.kv_cache import EvictionPriority
from agentrt.kv_cache.node import TOKEN_BYTES

AHEAD_TOKENS = 64
"""Most tokens of a step: a request that arrives meanwhile waits for its end."""


class AheadPrefills:
    """The sequences of requests that are `ahead`, in order of arrival.

    Args:
        allocator: Allocator of the KV pages.
    """

    def __init__(self, allocator: KvAllocator) -> None:
        self._allocator = allocator
        self._sequences: dict[RequestId, Sequence] = {}
        self._ended: list[Sequence] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def add(self, sequence: Sequence) -> None:
        """Add a sequence."""
        sequence.phase = Phase.AHEAD
        self._sequences[sequence.request.request_id] = sequence

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that ends; it need not be here."""
        self._sequences.pop(sequence.request.request_id, None)

    def schedule(self, now_s: float) -> list[tuple[Sequence, int]]:
        """The next chunk, with its slot and pages; empty if there is none.

        A sequence that is computed, or that finds no free page, ends: see `take_ended`.
        """
        for sequence in list(self._sequences.values()):
            if self._fits_free_pages(sequence) and self._allocator.allocate(sequence, 0):
                size = self._allocator.page_tokens
                tokens = min(AHEAD_TOKENS, sequence.pending_tokens(size))
                missing = self._allocator.missing_pages(sequence, tokens)
                if tokens and self._allocator.extend(sequence, missing):
                    sequence.start_running(now_s)
                    return [(sequence, tokens)]
                self._allocator.free(sequence)
            self.remove(sequence)
            self._ended.append(sequence)
        return []

    def rest(self, sequence: Sequence) -> None:
        """Release a sequence after its step; what it computed is evicted before anything else."""
        self._allocator.free(sequence)
        sequence.phase = Phase.AHEAD
        self._allocator.set_priority(
            sequence.key[: sequence.reached_tokens * TOKEN_BYTES],
            EvictionPriority.DROP,
            from_tokens=sequence.metrics.cached_tokens,
        )

    def take_ended(self) -> list[Sequence]:
        """Sequences with nothing left to do, for the caller to end."""
        ended, self._ended = self._ended, []
        return ended

    def _fits_free_pages(self, sequence: Sequence) -> bool:
        """Whether there is a next chunk, and nothing has to be evicted for it."""
        size = self._allocator.page_tokens
        whole = sequence.whole_pages(size)
        cached = self._allocator.cached_tokens(sequence.key)
        end = min(whole, cached + AHEAD_TOKENS)
        on_device = self._allocator.tree.matched_tokens(sequence.key) // size
        return cached < whole and -(-end // size) - on_device <= self._allocator.pool.free_pages
