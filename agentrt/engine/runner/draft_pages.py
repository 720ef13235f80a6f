"""Tokens of each KV page of which a draft model has the KV too.

A draft model has a KV page for each page of the target, under the same number and in the same block
tables. So a prefix that is shared, kept or copied is found for both at once. What the draft model
has computed of a page is counted here alone: sequences hold no state of their own that a
preemption, an abort or a fork would have to keep.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agentrt.base.ids import PageId


class DraftPages:
    """Counts of computed tokens, by page.

    Args:
        pages: Pages of the KV cache.
        page_tokens: Tokens of a page.
    """

    def __init__(self, pages: int, page_tokens: int) -> None:
        self._size = page_tokens
        self._computed: NDArray[np.int32] = np.zeros(pages, dtype=np.int32)

    def clear(self, pages: Sequence[PageId]) -> None:
        """Forget pages that have just been allocated: what they hold is of another sequence."""
        self._computed[list(pages)] = 0

    def computed_tokens(self, pages: Sequence[PageId]) -> int:
        """First tokens of a sequence that are computed.

        Args:
            pages: All pages of the sequence.
        """
        computed = self._computed[list(pages)]
        partial = np.flatnonzero(computed < self._size)
        if not len(partial):
            return len(computed) * self._size
        first = int(partial[0])
        return first * self._size + int(computed[first])

    def truncate(self, pages: Sequence[PageId], tokens: int) -> None:
        """Forget what was computed of a sequence behind its first tokens (rollback)."""
        at, offset = divmod(tokens, self._size)
        if at >= len(pages):
            return
        page = pages[at]
        self._computed[page] = min(int(self._computed[page]), offset)
        if at + 1 < len(pages):
            self._computed[list(pages[at + 1 :])] = 0

    def extend(self, pages: Sequence[PageId], tokens: int) -> None:
        """Note that the first tokens of a sequence are computed, and none behind them."""
        at, offset = divmod(tokens, self._size)
        self._computed[list(pages[:at])] = self._size
        if offset:
            self._computed[pages[at]] = offset
