"""A lower tier: prefixes that the first tier gave up, kept in slower and larger memory.

It has a pool and a radix tree of its own, so that a prefix is in the first tier, in both, or here
only, and each tier evicts by its own use. Pages move whole and as many as are promised, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentrt.base.ids import PageId
from agentrt.kv_cache.node import TOKEN_BYTES, EvictionPriority, RadixNode
from agentrt.kv_cache.pages import PagePool
from agentrt.kv_cache.radix import RadixTree

_ONE_MORE = bytes(TOKEN_BYTES)
"""A match leaves one token to compute; for a whole prefix that is a token behind it."""


class Copier(Protocol):
    """Moves whole pages. A later use of the pages on either side sees the copy done."""

    def save(self, upper: Sequence[PageId], lower: Sequence[PageId]) -> None:
        """Copy pages of the first tier down."""
        ...

    def load(self, lower: Sequence[PageId], upper: Sequence[PageId]) -> None:
        """Copy pages of the lower tier up."""
        ...


class OffloadTier:
    """Pages below those of another tree.

    Attributes:
        pool: Its pages.
        tree: What they hold.
        saved_pages: Copied down so far.
        loaded_pages: Copied up so far.
    """

    def __init__(self, pages: int, page_tokens: int, copier: Copier) -> None:
        self.pool = PagePool(pages)
        self.tree = RadixTree(self.pool, page_tokens)
        self._page_tokens = page_tokens
        self._page_bytes = page_tokens * TOKEN_BYTES
        self._copier = copier
        self.saved_pages = 0
        self.loaded_pages = 0

    def save(self, key: bytes, pages: Sequence[PageId]) -> None:
        """Copy down what of `key`, whose KV stands in `pages` above, is not here yet.

        What does not fit is left out from its end: the front of a prefix is of more use.
        """
        match = self.tree.match(key + _ONE_MORE)
        self.tree.lock(match.node)
        known = len(match.pages)
        short = len(pages) - known - self.pool.free_pages
        if short > 0:
            self.tree.evict(short)
        count = min(len(pages) - known, self.pool.free_pages)
        if count > 0:
            taken = self.pool.take(count)
            self._copier.save(pages[known : known + count], taken)
            whole = known + count
            self.tree.insert(key[: whole * self._page_bytes], [*match.pages, *taken])
            self.saved_pages += count
        self.tree.unlock(match.node)

    def matched_tokens(self, key: bytes) -> int:
        """How many tokens of `key`, but for its last, are here."""
        return self.tree.matched_tokens(key)

    def hold(self, key: bytes) -> RadixNode:
        """Keep what is here of `key` from being evicted, until `let_go`."""
        node = self.tree.match(key).node
        self.tree.lock(node)
        return node

    def let_go(self, node: RadixNode) -> None:
        """Undo one `hold`."""
        self.tree.unlock(node)

    def load(self, key: bytes, known_pages: int, upper: Sequence[PageId]) -> None:
        """Copy up the pages of `key` behind its first `known_pages`, one into each of `upper`."""
        match = self.tree.match(key)
        self._copier.load(match.pages[known_pages : known_pages + len(upper)], upper)
        self.loaded_pages += len(upper)

    def retain(self, key: bytes, retention: EvictionPriority) -> None:
        """Say what becomes of `key` here."""
        self.tree.retain(key, retention)
