"""The pool of KV pages, and whose each one is.

A page is free, owned by one sequence, or part of the radix tree. Every change of hands goes through
here and is checked, so a page can neither leak nor be given out twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from agentrt.base.errors import InternalError
from agentrt.base.ids import PageId

_FREE, _OWNED, _TREE = 0, 1, 2
_NAMES = ("free", "owned", "in the tree")


class PagePool:
    """Pages 0 to `total_pages - 1`.

    Attributes:
        total_pages: How many there are.
    """

    __slots__ = ("_counts", "_free", "_holder", "total_pages")

    def __init__(self, total_pages: int) -> None:
        self.total_pages = total_pages
        # Taken from the end, so that low pages are given out first and again soon: warm memory.
        self._free = [PageId(page) for page in range(total_pages - 1, -1, -1)]
        self._holder = bytearray(total_pages)
        self._counts = [total_pages, 0, 0]

    @property
    def free_pages(self) -> int:
        """Pages that nobody has."""
        return self._counts[_FREE]

    @property
    def owned_pages(self) -> int:
        """Pages of running sequences that are not in the tree."""
        return self._counts[_OWNED]

    @property
    def tree_pages(self) -> int:
        """Pages of the radix tree."""
        return self._counts[_TREE]

    def take(self, pages: int) -> list[PageId]:
        """`pages` free ones for a sequence; ask `free_pages` first."""
        if pages > len(self._free):
            raise InternalError(f"{pages} pages taken where {len(self._free)} are free")
        if pages == 0:
            return []
        taken = self._free[-pages:][::-1]
        del self._free[-pages:]
        self._move(taken, _FREE, _OWNED)
        return taken

    def give_back(self, pages: Iterable[PageId]) -> None:
        """A sequence returns pages it owned."""
        pages = list(pages)
        self._move(pages, _OWNED, _FREE)
        self._free.extend(reversed(pages))

    def adopt(self, pages: Iterable[PageId]) -> None:
        """Pages of a sequence become the tree's."""
        self._move(pages, _OWNED, _TREE)

    def release(self, pages: Iterable[PageId]) -> None:
        """The tree gives pages up."""
        pages = list(pages)
        self._move(pages, _TREE, _FREE)
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
