"""The block pool of the KV cache: its pages, and the owner of each.

A page (vLLM: block) is free, owned by one sequence, or part of the radix tree. Every change of
owner goes through here and is checked, so a page can neither leak nor be allocated twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.base.errors import InternalError
from agentrt.base.ids import PageId

_FREE, _OWNED, _TREE = 0, 1, 2
_NAMES = ("free", "owned", "in the tree")


class PagePool:
    """Allocator of pages 0 to `total_pages - 1`.

    Attributes:
        total_pages: Number of pages.
    """

    __slots__ = ("_counts", "_free", "_holder", "total_pages")

    def __init__(self, total_pages: int) -> None:
        self.total_pages = total_pages
        # Taken from the end, so that low pages are allocated first and again soon: warm memory.
        self._free = [PageId(page) for page in range(total_pages - 1, -1, -1)]
        self._holder = bytearray(total_pages)
        self._counts = [total_pages, 0, 0]

    @property
    def free_pages(self) -> int:
        """Pages without an owner."""
        return self._counts[_FREE]

    @property
    def owned_pages(self) -> int:
        """Pages of running sequences that are not in the tree."""
        return self._counts[_OWNED]

    @property
    def tree_pages(self) -> int:
        """Pages of the radix tree."""
        return self._counts[_TREE]

    def allocate(self, pages: int) -> list[PageId]:
        """Allocate `pages` free pages to a sequence; check `free_pages` first."""
        if pages > len(self._free):
            raise InternalError(f"{pages} pages taken where {len(self._free)} are free")
        if pages == 0:
            return []
        taken = self._free[-pages:][::-1]
        del self._free[-pages:]
        self._move(taken, _FREE, _OWNED)
        return taken

    def free(self, pages: Iterable[PageId]) -> None:
        """Free pages of a sequence."""
        self._release(list(pages), _OWNED)

    def adopt_into_tree(self, pages: Iterable[PageId]) -> None:
        """Move pages of a sequence to the tree."""
        self._move(pages, _OWNED, _TREE)

    def free_from_tree(self, pages: Iterable[PageId]) -> None:
        """Free pages of the tree."""
        self._release(list(pages), _TREE)

    def _release(self, pages: list[PageId], source: int) -> None:
        self._move(pages, source, _FREE)
        self._free.extend(reversed(pages))

    def _move(self, pages: Iterable[PageId], source: int, target: int) -> None:
        for page in pages:
            if self._holder[page] != source:
                raise InternalError(
                    f"page {page} is {_NAMES[self._holder[page]]}, not {_NAMES[source]}"
                )
            self._holder[page] = target
            self._counts[source] -= 1
            self._counts[target] += 1
