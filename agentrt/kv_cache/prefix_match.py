"""Results of the radix tree: what a prompt shares, what an insert or an eviction changes."""

from __future__ import annotations

from dataclasses import dataclass

from agentrt.base.ids import PageId
from agentrt.base.record import record
from agentrt.kv_cache.node import RadixNode


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
class PartialMatch:
    """The first tokens of a page that a prompt shares with another prefix.

    Attributes:
        page: Page to copy.
        tokens: Number of shared tokens, fewer than a page has.
    """

    page: PageId
    tokens: int


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


@record
class PrefixLookup:
    """Length of a prefix match, with the means to check whether it still holds.

    Attributes:
        matched_tokens: Matched tokens, in whole pages.
        partial_tokens: Tokens behind them that another prefix has in a page.
        prompt_tokens: Tokens of the prompt.
        node: Last node reached, whole or in part.
        changes: `RadixNode.changes` of the node at that time.
    """

    matched_tokens: int
    partial_tokens: int
    prompt_tokens: int
    node: RadixNode
    changes: int

    @property
    def is_current(self) -> bool:
        """Whether a new lookup would match as much: a node is evicted before its parents."""
        return self.node.changes == self.changes
