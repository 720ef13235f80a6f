"""The radix tree of prefixes whose KV is in memory.

Keys are token ids as int32 `bytes`: comparing bytes and searching the page where they part is fast
enough in Python (15 us to match 4,096 tokens). A node holds whole pages only, children are found by
their first page of tokens. A locked node, and all above it, stays; of the others the leaves go
first, in the order of `leaves`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agentrt.base.errors import InternalError
from agentrt.base.ids import PageId
from agentrt.kv_cache.eviction import EvictionQueue
from agentrt.kv_cache.node import TOKEN_BYTES, EvictionPriority, PrefixLookup, RadixNode, key_of
from agentrt.kv_cache.pages import PagePool

__all__ = [
    "TOKEN_BYTES",
    "Evicted",
    "EvictionPriority",
    "Inserted",
    "PrefixLookup",
    "PrefixMatch",
    "RadixNode",
    "RadixTree",
    "key_of",
]


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """What of a prompt is there already.

    Attributes:
        node: Where it ends; lock it before anything that may evict.
        pages: Its pages from the start.
        matched_tokens: Their tokens, a multiple of the page.
    """

    node: RadixNode
    pages: list[PageId]
    matched_tokens: int


@dataclass(frozen=True, slots=True)
class Inserted:
    """What an insert did.

    Attributes:
        node: Where the inserted prefix ends.
        pages: The tree's pages of all of it; a block table must use these from now on.
        duplicate_pages: How many given pages stood for tokens that the tree had; they are free.
    """

    node: RadixNode
    pages: list[PageId]
    duplicate_pages: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """The end of a prefix, about to be given up.

    Attributes:
        key: The whole prefix.
        pages: All its pages.
        going_pages: How many of them, from the end, are given up.
    """

    key: bytes
    pages: list[PageId]
    going_pages: int


class RadixTree:
    """Prefixes in the pages of one pool.

    Attributes:
        evictable_pages: Pages that eviction can free now.
        now_s: The instant, for what depends on ages; whoever owns the tree moves it on.
        before_eviction: Told of each prefix that is worth keeping elsewhere, while its pages stand.
    """

    def __init__(self, pool: PagePool, page_tokens: int) -> None:
        self._pool = pool
        self._page_tokens = page_tokens
        self._page_bytes = page_tokens * TOKEN_BYTES
        self._tick = 0
        self._leaves = EvictionQueue()
        self._node_count = 0
        self.now_s = 0.0
        self.root = RadixNode(b"", [], None)
        self.evictable_pages = 0
        self.before_eviction: Callable[[Evicted], None] | None = None

    def match(self, key: bytes) -> PrefixMatch:
        """The longest prefix of `key` in whole pages, at most all its tokens but one.

        One token has to be left to compute: its logits are what the caller wants. Splits a node
        where the match ends inside it.
        """
        node = self.root
        pages: list[PageId] = []
        at = 0
        end = self._floor(len(key) - TOKEN_BYTES)
        self._tick += 1
        while at < end:
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                break
            same = self._common(child.key, key[at:end])
            if same < len(child.key):
                child = self._split(child, same)
            self._touch(child)
            pages += child.pages
            node = child
            at += same
        return PrefixMatch(node, pages, at // TOKEN_BYTES)

    def matched_tokens(self, key: bytes) -> int:
        """How much `match` would find; changes nothing."""
        return self.look(key).tokens

    def look(self, key: bytes) -> PrefixLookup:
        """The same, to be asked later whether it is still so."""
        node = self.root
        at = 0
        end = self._floor(len(key) - TOKEN_BYTES)
        while at < end:
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                break
            same = self._common(child.key, key[at:end])
            at += same
            node = child
            if same < len(child.key):
                break
        return PrefixLookup(at // TOKEN_BYTES, len(key) // TOKEN_BYTES, node, node.changes)

    def lock(self, node: RadixNode) -> None:
        """Hold `node` and all above it."""
        at: RadixNode | None = node
        while at is not None:
            if at.locks == 0:
                self.evictable_pages -= len(at.pages)
            at.locks += 1
            at = at.parent

    def unlock(self, node: RadixNode) -> None:
        """Undo one `lock`."""
        at: RadixNode | None = node
        while at is not None:
            if at.locks == 0:
                raise InternalError("a radix node was unlocked more often than locked")
            at.locks -= 1
            if at.locks == 0:
                self.evictable_pages += len(at.pages)
                self._offer(at)
            at = at.parent

    def insert(self, key: bytes, pages: Sequence[PageId]) -> Inserted:
        """Make the tree know `key`, whose KV stands in `pages` (whole pages).

        Pages for what the tree had already go back to the pool, the others become the tree's.
        """
        if len(key) != len(pages) * self._page_bytes:
            raise InternalError(f"{len(key)} key bytes do not fill {len(pages)} pages")
        node = self.root
        path: list[PageId] = []
        at = 0
        self._tick += 1
        while at < len(key):
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                break
            same = self._common(child.key, key[at:])
            if same < len(child.key):
                child = self._split(child, same)
            self._touch(child)
            path += child.pages
            node = child
            at += same
        known = len(path)
        duplicates = [
            mine for mine, theirs in zip(pages[:known], path, strict=True) if mine != theirs
        ]
        self._pool.give_back(duplicates)
        if at < len(key):
            node = self._grow(node, key[at:], list(pages[known:]))
            path += node.pages
        return Inserted(node, path, len(duplicates))

    def evict(self, wanted_pages: int) -> int:
        """Free up to `wanted_pages` pages, and return how many were freed."""
        freed = 0
        while freed < wanted_pages:
            cuts = self._leaves.next_cuts(wanted_pages - freed, self.now_s)
            if not cuts:
                break
            for leaf, pages in cuts:
                self._trim(leaf, pages)
                freed += pages
        return freed

    def retain(
        self,
        key: bytes,
        retention: EvictionPriority,
        *,
        back_by_s: float | None = None,
        from_tokens: int = 0,
    ) -> bool:
        """Say what becomes of the prefix `key`; whether the tree knows of any node to mark.

        Args:
            key: The prefix.
            retention: What becomes of it. Where nobody goes on from it, or slower memory has it,
                that holds for all of it that nothing else goes on from; else for its last node, for
                as long as that stays what is before it does.
            back_by_s: When whoever it is kept for is back at the latest.
            from_tokens: Nothing is said of so many tokens at its start.
        """
        given_up = retention <= EvictionPriority.DEMOTED
        node = self.root
        at = 0
        end = self._floor(len(key))
        while at < end:
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                break
            same = self._common(child.key, key[at:end])
            if same < len(child.key):
                if given_up:
                    return False  # something longer lives on in the same node
                child = self._split(child, same)
            node = child
            at += same
        gone = end - at > self._page_bytes  # more than the page that an output may leave unfinished
        if node is self.root or (gone and retention is EvictionPriority.DROP):
            return False
        if given_up:
            return self._give_up(node, at, retention, from_tokens * TOKEN_BYTES)
        self._say(node, retention, back_by_s)
        return True

    def _give_up(self, node: RadixNode, end: int, retention: EvictionPriority, start: int) -> bool:
        """Mark `node`, which ends after `end` bytes, and those before it that lead to it alone."""
        start += -start % self._page_bytes
        below: RadixNode | None = None
        while node.parent is not None and start < end and not node.locks:
            others = [child for child in node.children.values() if child is not below]
            if below is not None and any(child.retention > retention for child in others):
                break
            if below is not None and node.retention is EvictionPriority.KEEP:
                break
            if end - len(node.key) < start:
                self._split(node, start - end + len(node.key))  # `node` stays the lower part
            self._say(node, retention, None)
            end -= len(node.key)
            below, node = node, node.parent
        return below is not None

    def _say(self, node: RadixNode, retention: EvictionPriority, back_by_s: float | None) -> None:
        """Mark a node; of several that will be back for it the last one counts."""
        if retention is EvictionPriority.KEEP is node.retention and back_by_s is not None:
            back_by_s = None if node.back_by_s is None else max(back_by_s, node.back_by_s)
        node.retention = retention
        node.back_by_s = back_by_s
        self._offer(node)

    def release(self, key: bytes) -> None:
        """Whoever was to be back for any part of `key` by now is not expected any more."""
        node = self.root
        at = 0
        while at < len(key):
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                return
            at += len(child.key)
            node = child
            back_by_s = node.back_by_s
            if node.retention is not EvictionPriority.KEEP or back_by_s is None:
                continue
            if back_by_s <= self.now_s:
                self._say(node, EvictionPriority.NORMAL, None)

    def nodes(self) -> Iterator[RadixNode]:
        """Every node but the root, parents first."""
        todo = list(self.root.children.values())
        while todo:
            node = todo.pop()
            yield node
            todo.extend(node.children.values())

    def _floor(self, key_bytes: int) -> int:
        return key_bytes - key_bytes % self._page_bytes

    def _common(self, one: bytes, other: bytes) -> int:
        """Bytes that agree from the start, in whole pages."""
        size = self._page_bytes
        pages = min(len(one), len(other)) // size
        if one[: pages * size] == other[: pages * size]:
            return pages * size
        low, high = 0, pages  # pages [0, low) agree, [0, high) do not
        while low + 1 < high:
            middle = (low + high) // 2
            if one[low * size : middle * size] == other[low * size : middle * size]:
                low = middle
            else:
                high = middle
        return low * size

    def _split(self, node: RadixNode, at: int) -> RadixNode:
        """Cut `node` after `at` bytes; returns the new upper part, `node` stays the lower one.

        What the program said holds for the lower part: as long as that stays, the upper does.
        """
        parent = node.parent
        if parent is None:
            raise InternalError("the root of the radix tree cannot be split")
        cut = at // self._page_bytes
        upper = RadixNode(
            node.key[:at],
            node.pages[:cut],
            parent,
            locks=node.locks,
            used=node.used,
            used_at_s=node.used_at_s,
        )
        parent.children[node.key[: self._page_bytes]] = upper
        node.changes += 1
        node.key, node.pages, node.parent = node.key[at:], node.pages[cut:], upper
        upper.children[node.key[: self._page_bytes]] = node
        self._node_count += 1
        return upper

    def _grow(self, parent: RadixNode, key: bytes, pages: list[PageId]) -> RadixNode:
        node = RadixNode(key, pages, parent, used=self._tick, used_at_s=self.now_s)
        parent.children[key[: self._page_bytes]] = node
        parent.is_cut = False
        parent.changes += 1
        self._pool.adopt(pages)
        self.evictable_pages += len(pages)
        self._node_count += 1
        self._offer(node)
        return node

    def _trim(self, leaf: RadixNode, wanted_pages: int) -> int:
        """Free pages from the end of `leaf`, so that what is left of the prefix stays of use."""
        parent = leaf.parent
        if parent is None:
            raise InternalError("the root of the radix tree cannot be evicted")
        count = min(wanted_pages, len(leaf.pages))
        keep = len(leaf.pages) - count
        if self.before_eviction is not None and leaf.retention is not EvictionPriority.DROP:
            key, pages = leaf.path()
            self.before_eviction(Evicted(key, pages, count))
        leaf.is_cut = True
        leaf.changes += 1
        self._pool.release(leaf.pages[keep:])
        self.evictable_pages -= count
        if keep:
            leaf.pages = leaf.pages[:keep]
            leaf.key = leaf.key[: keep * self._page_bytes]
            self._offer(leaf)
            return count
        del parent.children[leaf.key[: self._page_bytes]]
        leaf.parent = None
        leaf.pages = []
        self._node_count -= 1
        self._offer(parent)
        return count

    def _touch(self, node: RadixNode) -> None:
        node.used = self._tick
        node.used_at_s = self.now_s
        if node.retention <= EvictionPriority.DEMOTED:
            node.retention = EvictionPriority.NORMAL  # somebody reached it after all
        self._offer(node)

    def _offer(self, node: RadixNode) -> None:
        """Tell of a node that may go; what was told of it before is stale by then."""
        if not node.is_free_leaf:
            return
        self._leaves.offer(node)
        if len(self._leaves) > 64 + 4 * self._node_count:
            self._leaves.refill(leaf for leaf in self.nodes() if leaf.is_free_leaf)
