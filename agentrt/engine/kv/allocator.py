"""KV allocator of the engine: the one place where pages change hands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from agentrt.base.ids import PageId
from agentrt.engine.kv.offload import OffloadCache, TimedCopier
from agentrt.engine.sequence.sequence import Sequence
from agentrt.kv_cache import (
    Evicted,
    EvictionPriority,
    PagePool,
    PrefixLookup,
    PrefixMatch,
    RadixNode,
    RadixTree,
)
from agentrt.kv_cache.node import TOKEN_BYTES


class BlockTableWriter(Protocol):
    """Block tables on the device."""

    def write(self, slot: int, first_page: int, pages: list[PageId]) -> None:
        """Set the pages of `slot` from index `first_page` on."""
        ...


class KvAllocator:
    """Allocates slots and pages to sequences, from the page pool and the radix tree over it.

    Args:
        pool: All pages.
        page_tokens: Tokens of a page.
        tables: Block tables of the running sequences.
        copy_page: Copies the KV of one page to another.
        max_running: Number of slots.
        offload: KV offload to CPU memory, or None.
        on_allocate: Called with pages that are about to be written, or None.

    Attributes:
        page_tokens: Tokens of a page.
        pool: All pages.
        tree: Radix tree over the shared pages.
    """

    def __init__(
        self,
        pool: PagePool,
        page_tokens: int,
        tables: BlockTableWriter,
        copy_page: Callable[[PageId, PageId], None],
        max_running: int,
        offload: OffloadCache[TimedCopier] | None = None,
        on_allocate: Callable[[list[PageId]], None] | None = None,
    ) -> None:
        self.pool = pool
        self._offload = offload
        self._on_allocate = on_allocate
        self.tree = RadixTree(pool, page_tokens)
        self.page_tokens = page_tokens
        self._tables = tables
        self._copy_page = copy_page
        self._free_slots = list(range(max_running - 1, -1, -1))
        self._trees = [self.tree]
        if offload is not None:
            self._trees.append(offload.tier.tree)
            self.tree.before_eviction = self._save_evicted

    @property
    def free_slots(self) -> int:
        """Sequences that can still be added to the batch."""
        return len(self._free_slots)

    @property
    def available_pages(self) -> int:
        """Pages that are free or evictable."""
        return self.pool.free_pages + self.tree.evictable_pages

    def may_fit(self, sequence: Sequence, cached_tokens: int, spare_pages: int) -> bool:
        """Whether `allocate` may succeed: it returns False wherever this does, but walks the tree.

        Args:
            sequence: A sequence without pages.
            cached_tokens: Tokens of it that the cache has.
            spare_pages: Pages to leave for the running sequences.
        """
        size = self.page_tokens
        total_pages = -(-(len(sequence.tokens) + 1) // size)
        return total_pages - cached_tokens // size + spare_pages <= self.available_pages

    def allocate(self, sequence: Sequence, spare_pages: int) -> bool:
        """Allocate a slot and the cached pages to `sequence`, if its other pages will fit.

        Args:
            sequence: A sequence without pages.
            spare_pages: Pages to leave for the running sequences.

        Returns:
            False if it does not fit.
        """
        match = self.tree.match_prefix(sequence.key)
        self.tree.lock(match.node)
        total_pages = -(-(len(sequence.tokens) + 1) // self.page_tokens)
        if total_pages - len(match.pages) + spare_pages > self.available_pages:
            self.tree.unlock(match.node)
            return False
        reloaded = self._reload(sequence.key, match)
        if reloaded is not match and self._offload is not None:
            tokens = reloaded.matched_tokens - match.matched_tokens
            sequence.metrics.note_reload(tokens, self._offload.copier.load_s)
            match = reloaded
        sequence.slot = self._free_slots.pop()
        sequence.radix_node = match.node
        sequence.pages = match.pages
        sequence.tree_pages = len(match.pages)
        sequence.computed_tokens = match.matched_tokens
        self._copy_partial(sequence, match.node)
        self._tables.write(sequence.slot, 0, sequence.pages)
        return True

    def _copy_partial(self, sequence: Sequence, node: RadixNode) -> None:
        """Copy the tokens behind the shared pages that another prefix has in a page.

        A page takes microseconds to copy; its sequence would fill a page of its own in any case.
        """
        rest = sequence.key[sequence.computed_tokens * TOKEN_BYTES : -TOKEN_BYTES]
        partial = self.tree.match_partial(node, rest)
        if partial is not None and not self.pool.free_pages:
            self.tree.evict(1)  # may evict that very page
            partial = self.tree.match_partial(node, rest) if self.pool.free_pages else None
        if partial is None:
            return
        (page,) = self._take_pages(1)
        self._copy_page(partial.page, page)
        sequence.pages.append(page)
        sequence.computed_tokens += partial.tokens

    def cached_tokens(self, key: bytes) -> int:
        """Tokens of `key` that need not be computed, on the device or offloaded."""
        return self.lookup_prefix(key)[0]

    def lookup_prefix(self, key: bytes) -> tuple[int, PrefixLookup | None]:
        """Cached tokens of `key`, and the lookup that shows whether they are still current.

        With KV offload the lookup is None: the offloaded tokens change by rules of their own.
        """
        found = self.tree.look_up(key)
        if self._offload is None:
            return found.matched_tokens + found.partial_tokens, found
        reloadable = self._reloadable_tokens(key, found.matched_tokens)
        return found.matched_tokens + (reloadable or found.partial_tokens), None

    def set_time(self, now_s: float) -> None:
        """Set the current time, used for LRU ages and expected reuse."""
        for tree in self._trees:
            tree.now_s = now_s

    def set_priority(
        self,
        key: bytes,
        priority: EvictionPriority,
        *,
        reuse_by_s: float | None = None,
        from_tokens: int = 0,
    ) -> None:
        """Set the eviction priority of a prefix in both tiers; see `RadixTree.set_priority`."""
        for tree in self._trees:
            tree.set_priority(key, priority, reuse_by_s=reuse_by_s, from_tokens=from_tokens)

    def is_cached(self, key: bytes) -> bool:
        """Whether all of `key` is cached that a prompt can match: all but its last token."""
        matchable = max(0, len(key) // TOKEN_BYTES - 1)
        return self.tree.matched_tokens(key) >= matchable - matchable % self.page_tokens

    def expire_keeps(self, key: bytes) -> None:
        """End the expected reuse of `key`: its time has passed."""
        for tree in self._trees:
            tree.expire_keeps(key)

    def demote(self, key: bytes) -> None:
        """Offload a prefix that is not needed soon; its device pages are evicted first."""
        if self._offload is None:
            self.tree.set_priority(key, EvictionPriority.NORMAL)
            return
        pages = self.tree.match_prefix(key + bytes(TOKEN_BYTES)).pages
        whole = key[: len(pages) * self.page_tokens * TOKEN_BYTES]
        self._offload.tier.save(whole, pages)
        held = self._offload.tier.matched_tokens(whole + bytes(TOKEN_BYTES)) * TOKEN_BYTES
        if held == len(whole):  # else it did not fit there, and eviction would lose it
            self.tree.set_priority(key, EvictionPriority.DEMOTED)

    def prefetch(self, key: bytes) -> None:
        """Reload a prefix that is needed soon, as far as it is only offloaded."""
        key += bytes(TOKEN_BYTES)
        match = self.tree.match_prefix(key)
        self.tree.lock(match.node)
        self.tree.unlock(self._reload(key, match).node)

    def _save_evicted(self, evicted: Evicted) -> None:
        offload = self._offload
        tokens = len(evicted.key) // TOKEN_BYTES
        if offload is not None and offload.rates.swap_pays(tokens):
            offload.tier.save(evicted.key, evicted.pages)

    def _reloadable_tokens(self, key: bytes, cached_tokens: int) -> int:
        """Offloaded tokens behind the first `cached_tokens`, if reloading them pays."""
        if self._offload is None:
            return 0
        more = self._offload.tier.matched_tokens(key) - cached_tokens
        return more if self._offload.rates.swap_pays(more) else 0

    def _reload(self, key: bytes, match: PrefixMatch) -> PrefixMatch:
        """Extend a locked match by all reloadable tokens; returned as it is if there are none."""
        offload = self._offload
        pages = self._reloadable_tokens(key, match.matched_tokens) // self.page_tokens
        if offload is None or pages == 0 or pages > self.available_pages:
            return match
        held = offload.tier.lock(key)  # evicting here may evict there
        self.tree.evict(pages - self.pool.free_pages)
        taken = self._take_pages(pages)
        offload.tier.load(key, len(match.pages), taken)
        offload.tier.unlock(held)
        total_pages = len(match.pages) + pages
        size = self.page_tokens * TOKEN_BYTES
        inserted = self.tree.insert(key[: total_pages * size], [*match.pages, *taken])
        self.tree.lock(inserted.node)
        self.tree.unlock(match.node)
        return PrefixMatch(inserted.node, inserted.pages, total_pages * self.page_tokens)

    def missing_pages(self, sequence: Sequence, tokens: int) -> int:
        """Pages to allocate before the sequence can compute `tokens` more."""
        total_pages = -(-(sequence.computed_tokens + tokens) // self.page_tokens)
        return max(0, total_pages - len(sequence.pages))

    def extend(self, sequence: Sequence, pages: int) -> bool:
        """Allocate more pages to the sequence, evicting unused ones; False if there are too few."""
        short = pages - self.pool.free_pages
        if short > 0 and self.tree.evict(short) < short:
            return False
        at = len(sequence.pages)
        taken = self._take_pages(pages)
        sequence.pages += taken
        self._tables.write(sequence.slot, at, taken)
        return True

    def _take_pages(self, pages: int) -> list[PageId]:
        """Take pages from the pool, which has so many."""
        taken = self.pool.allocate(pages)
        if self._on_allocate is not None:
            self._on_allocate(taken)
        return taken

    def cache_prefix(self, sequence: Sequence) -> None:
        """Insert the sequence's computed pages into the radix tree, for others to find.

        The last one is lent unless it is full: the sequence goes on to fill it.
        """
        self._cache_pages(sequence)
        node, lent = sequence.radix_node, sequence.lent_page
        if node is None or sequence.is_prefilling or (lent is not None and lent.parent is not None):
            return
        if tokens := self._partial_key(sequence):
            page = sequence.pages[sequence.tree_pages]
            sequence.lent_page = self.tree.lend_partial(node, tokens, page)

    def _partial_key(self, sequence: Sequence) -> bytes:
        """Key of the computed tokens behind the last page that is the tree's."""
        begin = sequence.tree_pages * self.page_tokens
        return sequence.key[begin * TOKEN_BYTES : sequence.reusable_tokens * TOKEN_BYTES]

    def _cache_pages(self, sequence: Sequence) -> None:
        """Insert the sequence's full pages into the radix tree."""
        full = sequence.reusable_tokens // self.page_tokens
        if full <= sequence.tree_pages or sequence.radix_node is None:
            return
        key = sequence.key[: full * self.page_tokens * TOKEN_BYTES]
        inserted = self.tree.insert(key, sequence.pages[:full])
        self.tree.lock(inserted.node)
        self.tree.unlock(sequence.radix_node)
        if inserted.duplicate_pages:
            at = sequence.tree_pages
            self._tables.write(sequence.slot, at, inserted.pages[at:])
        sequence.pages[:full] = inserted.pages
        sequence.radix_node = inserted.node
        sequence.tree_pages = full

    def free(self, sequence: Sequence) -> None:
        """Free slot, lock and pages of the sequence; its computed KV stays in the radix tree."""
        if sequence.radix_node is None:
            return
        self._cache_pages(sequence)
        if sequence.lent_page is not None:
            self.tree.take_back(sequence.lent_page)
            sequence.lent_page = None
        own = sequence.tree_pages
        tokens = self._partial_key(sequence)
        if tokens and self.tree.keep_partial(sequence.radix_node, tokens, sequence.pages[own]):
            own += 1
        self.pool.free(sequence.pages[own:])
        self.tree.unlock(sequence.radix_node)
        self._free_slots.append(sequence.slot)
        sequence.radix_node = None
        sequence.pages = []
        sequence.tree_pages = 0
        sequence.computed_tokens = 0
