"""The radix tree: prefix caching by prefix match in the KV cache.

Keys are token ids as int32 `bytes`: comparing bytes and searching the page at which they differ is
fast enough in Python (15 us to match 4,096 tokens). A node holds whole pages only; children are
found by their first page of tokens. A locked node and its ancestors stay; the leaves of the others
are evicted in the order of `eviction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from agentrt.base.errors import InternalError
from agentrt.base.ids import PageId
from agentrt.kv_cache.eviction import EvictionQueue
from agentrt.kv_cache.node import (
    TOKEN_BYTES,
    EvictionPriority,
    PrefixLookup,
    RadixNode,
    common_bytes,
)
from agentrt.kv_cache.pages import PagePool


@dataclass(frozen=True, slots=True)
class PrefixMatch:
    """The part of a prompt that is in the KV cache.

    Attributes:
        node: Last node; lock it before anything that may evict.
        pages: Pages from the start of the prompt.
        matched_tokens: Tokens in these pages, a multiple of the page size.
    """

    node: RadixNode
    pages: list[PageId]
    matched_tokens: int


@dataclass(frozen=True, slots=True)
class Inserted:
    """Result of an insert.

    Attributes:
        node: Last node of the inserted prefix.
        pages: The tree's pages of the whole prefix; a block table must use these from now on.
        duplicate_pages: Number of given pages with tokens that the tree already had; now free.
    """

    node: RadixNode
    pages: list[PageId]
    duplicate_pages: int


@dataclass(frozen=True, slots=True)
class Evicted:
    """The end of a prefix that is about to be evicted.

    Attributes:
        key: Whole prefix.
        pages: Pages of the whole prefix.
        going_pages: Number of pages, from the end, that are evicted.
    """

    key: bytes
    pages: list[PageId]
    going_pages: int


class RadixTree:
    """Prefixes in the pages of one pool.

    Attributes:
        evictable_pages: Pages that eviction can free now.
        now_s: Current instant, set by the owner of the tree; ages depend on it.
        before_eviction: Called with each prefix worth offloading, before its pages are freed.
    """

    def __init__(self, pool: PagePool, page_tokens: int) -> None:
        self._pool = pool
        self._page_tokens = page_tokens
        self._page_bytes = page_tokens * TOKEN_BYTES
        self._tick = 0
        self._queue = EvictionQueue()
        self._node_count = 0
        self.now_s = 0.0
        self.root = RadixNode(b"", [], None)
        self.evictable_pages = 0
        self.before_eviction: Callable[[Evicted], None] | None = None

    def match_prefix(self, key: bytes) -> PrefixMatch:
        """The longest prefix of `key` in whole pages, at most all its tokens but one.

        One token has to be left to compute, for its logits. Splits a node if the match ends inside
        it.
        """
        node, pages = self._descend(key[: self._floor(len(key) - TOKEN_BYTES)])
        return PrefixMatch(node, pages, len(pages) * self._page_tokens)

    def _descend(self, key: bytes) -> tuple[RadixNode, list[PageId]]:
        """Last node and pages of the longest prefix of `key`; marks its nodes as used.

        Splits a node if the prefix ends inside it.
        """
        node = self.root
        pages: list[PageId] = []
        at = 0
        self._tick += 1
        while at < len(key):
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                break
            same = common_bytes(child.key, key[at:], self._page_bytes)
            if same < len(child.key):
                child = self._split(child, same)
            self._touch(child)
            pages += child.pages
            node = child
            at += same
        return node, pages

    def matched_tokens(self, key: bytes) -> int:
        """Length of the prefix match; changes nothing."""
        return self.look_up(key).matched_tokens

    def look_up(self, key: bytes) -> PrefixLookup:
        """The same, with the means to check later whether it still holds."""
        node = self.root
        at = 0
        end = self._floor(len(key) - TOKEN_BYTES)
        while at < end:
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                break
            same = common_bytes(child.key, key[at:end], self._page_bytes)
            at += same
            node = child
            if same < len(child.key):
                break
        return PrefixLookup(at // TOKEN_BYTES, len(key) // TOKEN_BYTES, node, node.changes)

    def lock(self, node: RadixNode) -> None:
        """Protect `node` and its ancestors from eviction."""
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
        """Insert `key`, with its KV in `pages` (whole pages).

        Pages of tokens that the tree already had go back to the pool, the others become the tree's.
        """
        if len(key) != len(pages) * self._page_bytes:
            raise InternalError(f"{len(key)} key bytes do not fill {len(pages)} pages")
        node, path = self._descend(key)
        known = len(path)
        duplicates = [
            mine for mine, theirs in zip(pages[:known], path, strict=True) if mine != theirs
        ]
        self._pool.free(duplicates)
        if known < len(pages):
            node = self._grow(node, key[known * self._page_bytes :], list(pages[known:]))
            path += node.pages
        return Inserted(node, path, len(duplicates))

    def evict(self, wanted_pages: int) -> int:
        """Evict up to `wanted_pages` pages; returns the number of freed pages."""
        freed = 0
        while freed < wanted_pages:
            cuts = self._queue.next_cuts(wanted_pages - freed, self.now_s)
            if not cuts:
                break
            for leaf, pages in cuts:
                self._trim(leaf, pages)
                freed += pages
        return freed

    def set_priority(
        self,
        key: bytes,
        priority: EvictionPriority,
        *,
        reuse_by_s: float | None = None,
        from_tokens: int = 0,
    ) -> bool:
        """Set the eviction priority of the prefix `key`; returns whether a node was marked.

        Args:
            key: The prefix.
            priority: New priority. `DROP` and `DEMOTED` hold for all nodes that nothing else
                continues; the others for the last node, which protects those before it.
            reuse_by_s: Latest instant of the expected reuse.
            from_tokens: Leave so many of the first tokens alone.
        """
        demotes = priority <= EvictionPriority.DEMOTED
        node = self.root
        at = 0
        end = self._floor(len(key))
        while at < end:
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                break
            same = common_bytes(child.key, key[at:end], self._page_bytes)
            if same < len(child.key):
                if demotes:
                    return False  # a longer prefix continues in the same node
                child = self._split(child, same)
            node = child
            at += same
        gone = end - at > self._page_bytes  # more than the page that an output may leave unfinished
        if node is self.root or (gone and priority is EvictionPriority.DROP):
            return False
        if demotes:
            return self._mark_path(node, at, priority, from_tokens * TOKEN_BYTES)
        self._mark(node, priority, reuse_by_s)
        return True

    def _mark_path(self, node: RadixNode, end: int, priority: EvictionPriority, start: int) -> bool:
        """Mark `node`, which ends after `end` bytes, and the ancestors that lead to it alone."""
        start += -start % self._page_bytes
        below: RadixNode | None = None
        while node.parent is not None and start < end and not node.locks:
            others = [child for child in node.children.values() if child is not below]
            if below is not None and any(child.priority > priority for child in others):
                break
            if below is not None and node.priority is EvictionPriority.KEEP:
                break
            if end - len(node.key) < start:
                self._split(node, start - end + len(node.key))  # `node` stays the lower part
            self._mark(node, priority, None)
            end -= len(node.key)
            below, node = node, node.parent
        return below is not None

    def _mark(self, node: RadixNode, priority: EvictionPriority, reuse_by_s: float | None) -> None:
        """Mark a node; of several expected reuses the last one counts."""
        if priority is EvictionPriority.KEEP is node.priority and reuse_by_s is not None:
            reuse_by_s = None if node.reuse_by_s is None else max(reuse_by_s, node.reuse_by_s)
        node.priority = priority
        node.reuse_by_s = reuse_by_s
        self._offer(node)

    def expire_keeps(self, key: bytes) -> None:
        """End each `KEEP` on the path of `key` with an overdue reuse."""
        node = self.root
        at = 0
        while at < len(key):
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                return
            at += len(child.key)
            node = child
            reuse_by_s = node.reuse_by_s
            if node.priority is not EvictionPriority.KEEP or reuse_by_s is None:
                continue
            if reuse_by_s <= self.now_s:
                self._mark(node, EvictionPriority.NORMAL, None)

    def nodes(self) -> Iterator[RadixNode]:
        """All nodes but the root, parents first."""
        todo = list(self.root.children.values())
        while todo:
            node = todo.pop()
            yield node
            todo.extend(node.children.values())

    def _floor(self, key_bytes: int) -> int:
        return key_bytes - key_bytes % self._page_bytes

    def _split(self, node: RadixNode, at: int) -> RadixNode:
        """Cut `node` after `at` bytes; returns the new upper part, `node` stays the lower one.

        The priority stays with the lower part: as long as that is there, so is the upper one.
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
        self._pool.adopt_into_tree(pages)
        self.evictable_pages += len(pages)
        self._node_count += 1
        self._offer(node)
        return node

    def _trim(self, leaf: RadixNode, wanted_pages: int) -> int:
        """Free pages from the end of `leaf`, so that the rest of the prefix stays useful."""
        parent = leaf.parent
        if parent is None:
            raise InternalError("the root of the radix tree cannot be evicted")
        count = min(wanted_pages, len(leaf.pages))
        keep = len(leaf.pages) - count
        if self.before_eviction is not None and leaf.priority is not EvictionPriority.DROP:
            key, pages = leaf.path()
            self.before_eviction(Evicted(key, pages, count))
        leaf.is_cut = True
        leaf.changes += 1
        self._pool.free_from_tree(leaf.pages[keep:])
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
        if node.priority <= EvictionPriority.DEMOTED:
            node.priority = EvictionPriority.NORMAL  # it was used after all
        self._offer(node)

    def _offer(self, node: RadixNode) -> None:
        """Offer a leaf that can be evicted; its earlier entries are stale by then."""
        if not node.is_free_leaf:
            return
        self._queue.offer(node)
        if len(self._queue) > 64 + 4 * self._node_count:
            self._queue.rebuild(leaf for leaf in self.nodes() if leaf.is_free_leaf)
