"""Index of the KV offload tier: prefixes evicted from the device to larger, slower memory.

It has a page pool and a radix tree of its own, so that a prefix is on the device, in both tiers, or
here only, and each tier evicts by its own use. A copy moves whole pages, all that were announced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agentrt.base.ids import PageId
from agentrt.kv_cache.node import TOKEN_BYTES, RadixNode
from agentrt.kv_cache.pages import PagePool
from agentrt.kv_cache.radix import RadixTree

_ONE_MORE = bytes(TOKEN_BYTES)
"""A match leaves one token to compute; this token behind a prefix makes it match as a whole."""


class Copier(Protocol):
    """Copies whole pages between the tiers. Any later use of the pages sees the copy done."""

    def save(self, device_pages: Sequence[PageId], host_pages: Sequence[PageId]) -> None:
        """Copy pages from the device to the offload tier."""
        ...

    def load(self, host_pages: Sequence[PageId], device_pages: Sequence[PageId]) -> None:
        """Copy pages from the offload tier to the device."""
        ...


class OffloadTier:
    """The offload tier below the KV cache of a device.

    Attributes:
        pool: Pages of the tier.
        tree: Prefixes in them.
        saved_pages: Pages copied here so far.
        loaded_pages: Pages copied back so far.
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
        """Save the part of `key` that is not here yet; its KV is in the device's `pages`.

        Pages that do not fit are left out from the end: the front of a prefix is of more use.
        """
        match = self.tree.match_prefix(key + _ONE_MORE)
        self.tree.lock(match.node)
        known = len(match.pages)
        missing = len(pages) - known - self.pool.free_pages
        if missing > 0:
            self.tree.evict(missing)
        count = min(len(pages) - known, self.pool.free_pages)
        if count > 0:
            taken = self.pool.allocate(count)
            self._copier.save(pages[known : known + count], taken)
            end = known + count
            self.tree.insert(key[: end * self._page_bytes], [*match.pages, *taken])
            self.saved_pages += count
        self.tree.unlock(match.node)

    def matched_tokens(self, key: bytes) -> int:
        """Tokens of `key`, except its last, that are here."""
        return self.tree.matched_tokens(key)

    def lock(self, key: bytes) -> RadixNode:
        """Keep the part of `key` that is here from being evicted, until `unlock`."""
        node = self.tree.match_prefix(key).node
        self.tree.lock(node)
        return node

    def unlock(self, node: RadixNode) -> None:
        """Undo one `lock`."""
        self.tree.unlock(node)

    def load(self, key: bytes, known_pages: int, device_pages: Sequence[PageId]) -> None:
        """Load the pages of `key` after its first `known_pages`, one into each device page."""
        match = self.tree.match_prefix(key)
        end = known_pages + len(device_pages)
        self._copier.load(match.pages[known_pages:end], device_pages)
        self.loaded_pages += len(device_pages)
