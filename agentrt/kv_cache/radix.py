"""The radix tree: prefix caching by prefix match in the KV cache.

Keys are token ids as int32 `bytes`: comparing bytes and searching the page at which they differ is
fast enough in Python (15 us to match 4,096 tokens). A node holds whole pages; children are found by
their first page of tokens.

Pages are shared whole. Where two prompts part within a page, the second one copies that page and
goes on behind the common tokens. For this, prefixes that end within a page leave a partial page.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentrt.base.errors import InternalError
from agentrt.base.ids import PageId
from agentrt.kv_cache.node import (
    TOKEN_BYTES,
    EvictionPriority,
    RadixNode,
    common_bytes,
    proves_prefix,
)
from agentrt.kv_cache.prefix_match import Inserted, PartialMatch, PrefixLookup, PrefixMatch
from agentrt.kv_cache.tree_nodes import TreeNodes


class RadixTree(TreeNodes):
    """Prefixes in the pages of one pool: whole pages, and behind them by the token."""

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

    def match_partial(self, node: RadixNode, rest: bytes) -> PartialMatch | None:
        """The page behind `node` that begins with the most tokens of `rest`; None if none does.

        Args:
            node: Last node of a prefix match.
            rest: The part of the key behind it.
        """
        child, same = node.nearest_child(rest)
        if child is None or not self._is_shared(node, rest, same):
            return None
        return PartialMatch(child.pages[0], same // TOKEN_BYTES)

    def _is_shared(self, node: RadixNode, rest: bytes, same_bytes: int) -> bool:
        """Whether so many common bytes behind `node` are common tokens."""
        return same_bytes > 0 and (node is not self.root or proves_prefix(rest, same_bytes))

    def matched_tokens(self, key: bytes) -> int:
        """Length of the prefix match in whole pages; changes nothing."""
        return self.look_up(key).matched_tokens

    def look_up(self, key: bytes) -> PrefixLookup:
        """The same by the token, with the means to check later whether it still holds."""
        node = self.root
        at = 0
        inside = b""
        end = self._floor(len(key) - TOKEN_BYTES)
        while at < end:
            child = node.children.get(key[at : at + self._page_bytes])
            if child is None:
                break
            same = common_bytes(child.key, key[at:end], self._page_bytes)
            at += same
            node = child
            if same < len(child.key):
                inside = child.key[same:]
                break
        rest = key[at:-TOKEN_BYTES]
        partial = common_bytes(inside, rest, TOKEN_BYTES)
        if not inside:
            _, nearest = node.nearest_child(rest)
            partial = nearest if self._is_shared(node, rest, nearest) else 0
        return PrefixLookup(
            matched_tokens=at // TOKEN_BYTES,
            partial_tokens=partial // TOKEN_BYTES,
            prompt_tokens=len(key) // TOKEN_BYTES,
            node=node,
            changes=node.changes,
        )

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

    def keep_partial(self, node: RadixNode, tokens: bytes, page: PageId) -> bool:
        """Keep the page of a sequence that ended within it; False if no prompt could use it.

        Args:
            node: Node of the pages before it.
            tokens: Key of the tokens in the page, fewer than it can hold.
            page: Page of the sequence; the tree's from now on.
        """
        leaf = self._add_partial(node, tokens, page)
        if leaf is None:
            return False
        self._pool.adopt_into_tree(leaf.pages)
        self.evictable_pages += 1
        self._offer(leaf)
        return True

    def lend_partial(self, node: RadixNode, tokens: bytes, page: PageId) -> RadixNode | None:
        """Let others copy the first tokens of a page while its sequence goes on to fill it.

        Returns:
            The leaf to take back before the page is kept or freed; None if no prompt could use it.
        """
        leaf = self._add_partial(node, tokens, page)
        if leaf is not None:
            leaf.is_lent = True
        return leaf

    def take_back(self, lent: RadixNode) -> None:
        """Remove a lent page, unless a whole page with its tokens has replaced it."""
        if lent.parent is not None:
            self._remove(lent)

    def _add_partial(self, node: RadixNode, tokens: bytes, page: PageId) -> RadixNode | None:
        _, same = node.nearest_child(tokens)
        if same == len(tokens) or not self._is_shared(node, tokens, len(tokens)):
            return None
        leaf = RadixNode(tokens, [page], node, used=self._tick, used_at_s=self.now_s)
        self._add_child(node, leaf)
        return leaf

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
        if gone and priority is EvictionPriority.DROP:
            return False
        rest = key[at:]
        if (partial := self._partial_of(node, rest)) is not None:
            node, at = partial, at + len(partial.key)
        if node is self.root:
            return False
        if demotes:
            if not rest:  # the first tokens of an answer that was not kept
                self._mark_partials(node, priority)
            return self._mark_path(node, at, priority, from_tokens * TOKEN_BYTES)
        self._mark(node, priority, reuse_by_s)
        return True

    def _partial_of(self, node: RadixNode, rest: bytes) -> RadixNode | None:
        """The partial page behind `node` that a prefix ends in."""
        child, same = node.nearest_child(rest)
        if child is None or child.is_lent or not self._is_partial(child):
            return None
        return child if same in (len(child.key), len(rest)) else None

    def _mark_partials(self, node: RadixNode, priority: EvictionPriority) -> None:
        """Mark the partial pages behind `node` that nothing keeps."""
        for child in node.children.values():
            if self._is_partial(child) and child.priority is EvictionPriority.NORMAL:
                self._mark(child, priority, None)

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
            child = child or self._partial_of(node, key[at:])
            if child is None:
                return
            at += len(child.key)
            node = child
            reuse_by_s = node.reuse_by_s
            if node.priority is not EvictionPriority.KEEP or reuse_by_s is None:
                continue
            if reuse_by_s <= self.now_s:
                self._mark(node, EvictionPriority.NORMAL, None)

    def _floor(self, key_bytes: int) -> int:
        return key_bytes - key_bytes % self._page_bytes
