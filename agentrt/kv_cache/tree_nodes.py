"""The nodes of a radix tree: their pages, their locks, and their eviction.

A locked node and its ancestors stay; the leaves of the others are evicted in the order of
`eviction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agentrt.base.errors import InternalError
from agentrt.base.ids import PageId
from agentrt.kv_cache.eviction import EvictionQueue
from agentrt.kv_cache.node import TOKEN_BYTES, EvictionPriority, RadixNode
from agentrt.kv_cache.pages import PagePool
from agentrt.kv_cache.prefix_match import Evicted


class TreeNodes:
    """Nodes over the pages of one pool.

    Args:
        pool: Owner of the pages.
        page_tokens: Tokens of a page.

    Attributes:
        root: Node without pages, which is never evicted.
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

    def nodes(self) -> Iterator[RadixNode]:
        """All nodes but the root, parents first."""
        todo = list(self.root.children.values())
        while todo:
            node = todo.pop()
            yield node
            todo.extend(node.children.values())

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
        upper.add_child(node.key[: self._page_bytes], node)
        self._node_count += 1
        return upper

    def _grow(self, parent: RadixNode, key: bytes, pages: list[PageId]) -> RadixNode:
        node = RadixNode(key, pages, parent, used=self._tick, used_at_s=self.now_s)
        self._add_child(parent, node)
        self._pool.adopt_into_tree(pages)
        self.evictable_pages += len(pages)
        self._offer(node)
        return node

    def _add_child(self, parent: RadixNode, child: RadixNode) -> None:
        """Add a child, which replaces the partial pages that hold nothing but its first tokens."""
        first_page = child.key[: self._page_bytes]
        for end in range(TOKEN_BYTES, len(first_page), TOKEN_BYTES):
            known = parent.children.get(first_page[:end])
            if known is None:
                continue
            if not known.is_lent:
                self._pool.free_from_tree(known.pages)
                self.evictable_pages -= 1
                if known.priority > child.priority:
                    child.priority, child.reuse_by_s = known.priority, known.reuse_by_s
            self._remove(known)
        parent.add_child(first_page, child)
        parent.is_cut = False
        self._node_count += 1

    def _remove(self, leaf: RadixNode) -> None:
        """Take a leaf out of the tree; its pages are the caller's."""
        assert leaf.parent is not None
        leaf.parent.remove_child(leaf.key[: self._page_bytes])
        leaf.parent = None
        leaf.pages = []
        self._node_count -= 1

    def _trim(self, leaf: RadixNode, wanted_pages: int) -> int:
        """Free pages from the end of `leaf`, so that the rest of the prefix stays useful."""
        parent = leaf.parent
        if parent is None:
            raise InternalError("the root of the radix tree cannot be evicted")
        count = min(wanted_pages, len(leaf.pages))
        keep = len(leaf.pages) - count
        is_saved = leaf.priority is not EvictionPriority.DROP and not self._is_partial(leaf)
        if self.before_eviction is not None and is_saved:
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
        self._remove(leaf)
        self._offer(parent)
        return count

    def _is_partial(self, node: RadixNode) -> bool:
        return len(node.key) % self._page_bytes > 0

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
