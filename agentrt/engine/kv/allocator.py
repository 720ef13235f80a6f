"""Moving sequences in and out of KV memory: the one place where pages change hands."""

from __future__ import annotations

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
    RadixTree,
)
from agentrt.kv_cache.node import TOKEN_BYTES


class BlockTableWriter(Protocol):
    """Block tables on the device."""

    def write(self, slot: int, at: int, pages: list[PageId]) -> None:
        """Set the pages of `slot` from its page `at` on."""
        ...


class KvAllocator:
    """The pool, the tree over it, and the slots of running sequences.

    Attributes:
        page_tokens: Tokens of a page.
        pool: All pages.
        tree: The shared ones.
    """

    def __init__(
        self,
        pool: PagePool,
        page_tokens: int,
        tables: BlockTableWriter,
        slots: int,
        host: OffloadCache[TimedCopier] | None = None,
    ) -> None:
        self.pool = pool
        self._host = host
        self.tree = RadixTree(pool, page_tokens)
        self.page_tokens = page_tokens
        self._tables = tables
        self._slots = list(range(slots - 1, -1, -1))
        if host is not None:
            self.tree.before_eviction = self._save

    @property
    def free_slots(self) -> int:
        """Sequences that could still run."""
        return len(self._slots)

    @property
    def available_pages(self) -> int:
        """Pages that are free or can be."""
        return self.pool.free_pages + self.tree.evictable_pages

    def has_room(self, sequence: Sequence, matched_tokens: int, spare_pages: int) -> bool:
        """Whether it might fit: `admit` says no wherever this does, and asks the tree for it.

        Args:
            sequence: It holds nothing now.
            matched_tokens: What the tree knows of it.
            spare_pages: To leave for those that run already.
        """
        size = self.page_tokens
        whole = -(-(len(sequence.tokens) + 1) // size)
        return whole - matched_tokens // size + spare_pages <= self.available_pages

    def admit(self, sequence: Sequence, spare_pages: int) -> bool:
        """Give the sequence a slot and the pages of what the tree knows, if the rest will fit.

        Args:
            sequence: It holds nothing now.
            spare_pages: To leave for those that run already.
        """
        match = self.tree.match_prefix(sequence.key)
        self.tree.lock(match.node)
        whole = -(-(len(sequence.tokens) + 1) // self.page_tokens)
        if whole - len(match.pages) + spare_pages > self.available_pages:
            self.tree.unlock(match.node)
            return False
        brought = self._bring(sequence.key, match)
        if brought is not match and self._host is not None:
            tokens = brought.matched_tokens - match.matched_tokens
            sequence.account.note_reload(tokens, self._host.copier.load_s)
            match = brought
        sequence.slot = self._slots.pop()
        sequence.node = match.node
        sequence.pages = match.pages
        sequence.tree_pages = len(match.pages)
        sequence.computed_tokens = match.matched_tokens
        self._tables.write(sequence.slot, 0, sequence.pages)
        return True

    def known_tokens(self, key: bytes) -> int:
        """Tokens of `key` that need not be computed, wherever their KV is."""
        return self.look(key)[0]

    def look(self, key: bytes) -> tuple[int, PrefixLookup | None]:
        """The same, and what tells whether it is still so.

        Nothing does where there is a host: what it promises changes by rules of its own.
        """
        here = self.tree.look_up(key)
        if self._host is None:
            return here.matched_tokens, here
        return here.matched_tokens + self._promised_tokens(key, here.matched_tokens), None

    def at(self, now_s: float) -> None:
        """It is so late, for what depends on how long ago and how soon something is used."""
        self.tree.now_s = now_s
        if self._host is not None:
            self._host.tier.tree.now_s = now_s

    def retain(
        self,
        key: bytes,
        retention: EvictionPriority,
        *,
        back_by_s: float | None = None,
        from_tokens: int = 0,
    ) -> None:
        """Say what becomes of the prefix `key`, in both tiers; see `RadixTree.retain`."""
        self.tree.set_priority(key, retention, reuse_by_s=back_by_s, from_tokens=from_tokens)
        if self._host is not None:
            lower = self._host.tier.tree
            lower.set_priority(key, retention, reuse_by_s=back_by_s, from_tokens=from_tokens)

    def has_whole(self, key: bytes) -> bool:
        """Whether all of `key` is computed that a prompt finds: it has one token to compute."""
        most = max(0, len(key) // TOKEN_BYTES - 1)
        return self.tree.matched_tokens(key) >= most - most % self.page_tokens

    def release(self, key: bytes) -> None:
        """Who was to be back for `key` by now is not expected any more."""
        self.tree.expire_keeps(key)
        if self._host is not None:
            self._host.tier.tree.expire_keeps(key)

    def demote(self, key: bytes) -> None:
        """The prefix will not be needed soon: the host keeps it, and here it goes first."""
        if self._host is None:
            self.tree.set_priority(key, EvictionPriority.NORMAL)
            return
        pages = self.tree.match_prefix(key + bytes(TOKEN_BYTES)).pages
        whole = key[: len(pages) * self.page_tokens * TOKEN_BYTES]
        self._host.tier.save(whole, pages)
        held = self._host.tier.matched_tokens(whole + bytes(TOKEN_BYTES)) * TOKEN_BYTES
        if held == len(whole):  # else it had no room, and what is given up here is gone
            self.tree.set_priority(whole, EvictionPriority.DEMOTED)

    def prefetch(self, key: bytes) -> None:
        """The prefix will be needed soon: bring back what only the host has."""
        key += bytes(TOKEN_BYTES)
        match = self.tree.match_prefix(key)
        self.tree.lock(match.node)
        self.tree.unlock(self._bring(key, match).node)

    def _save(self, evicted: Evicted) -> None:
        host = self._host
        tokens = len(evicted.key) // TOKEN_BYTES
        if host is not None and host.rates.swap_pays(tokens):
            host.tier.save(evicted.key, evicted.pages)

    def _promised_tokens(self, key: bytes, here_tokens: int) -> int:
        """Tokens behind the first `here_tokens` that the host can bring back, where that pays."""
        if self._host is None:
            return 0
        more = self._host.tier.matched_tokens(key) - here_tokens
        return more if self._host.rates.swap_pays(more) else 0

    def _bring(self, key: bytes, match: PrefixMatch) -> PrefixMatch:
        """What is matched and locked, longer by all that the host promises, or as it was."""
        host = self._host
        pages = self._promised_tokens(key, match.matched_tokens) // self.page_tokens
        if host is None or pages == 0 or pages > self.available_pages:
            return match
        held = host.tier.lock(key)  # making room here may make room there
        self.tree.evict(pages - self.pool.free_pages)
        taken = self.pool.allocate(pages)
        host.tier.load(key, len(match.pages), taken)
        host.tier.unlock(held)
        whole = len(match.pages) + pages
        size = self.page_tokens * TOKEN_BYTES
        inserted = self.tree.insert(key[: whole * size], [*match.pages, *taken])
        self.tree.lock(inserted.node)
        self.tree.unlock(match.node)
        return PrefixMatch(inserted.node, inserted.pages, whole * self.page_tokens)

    def missing_pages(self, sequence: Sequence, tokens: int) -> int:
        """Pages to take before the sequence can compute `tokens` more."""
        whole = -(-(sequence.computed_tokens + tokens) // self.page_tokens)
        return max(0, whole - len(sequence.pages))

    def extend(self, sequence: Sequence, pages: int) -> bool:
        """Give the sequence more pages, evicting what nobody uses; False when there are too few."""
        short = pages - self.pool.free_pages
        if short > 0 and self.tree.evict(short) < short:
            return False
        at = len(sequence.pages)
        taken = self.pool.allocate(pages)
        sequence.pages += taken
        self._tables.write(sequence.slot, at, taken)
        return True

    def publish(self, sequence: Sequence) -> None:
        """Put the whole pages that are computed into the tree, where others find them."""
        known = min(sequence.computed_tokens, len(sequence.tokens))
        full = known // self.page_tokens
        if full <= sequence.tree_pages or sequence.node is None:
            return
        key = sequence.key[: full * self.page_tokens * TOKEN_BYTES]
        inserted = self.tree.insert(key, sequence.pages[:full])
        self.tree.lock(inserted.node)
        self.tree.unlock(sequence.node)
        if inserted.duplicate_pages:
            at = sequence.tree_pages
            self._tables.write(sequence.slot, at, inserted.pages[at:])
        sequence.pages[:full] = inserted.pages
        sequence.node = inserted.node
        sequence.tree_pages = full

    def leave(self, sequence: Sequence) -> None:
        """Take slot, lock and pages from the sequence; what it computed stays in the tree."""
        if sequence.node is None:
            return
        self.publish(sequence)
        self.pool.free(sequence.pages[sequence.tree_pages :])
        self.tree.unlock(sequence.node)
        self._slots.append(sequence.slot)
        sequence.node = None
        sequence.pages = []
        sequence.tree_pages = 0
        sequence.computed_tokens = 0
