"""States of the target's layers for a head, kept for each token beside its KV.

Every forward of the target leaves the fused state of each of its rows where the KV of the row lies:
under the same page and offset. So a prefix that is shared, kept or copied has its states, and a
sequence needs none of its own. A page that is loaded back from the host has zeros: a head drafts
worse behind it, and no token changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrt.base.ids import PageId
from agentrt.engine.models.native.stream_capture import StreamCapture
from agentrt.engine.ops.linear import Linear


class LayerStates:
    """Fused states by page and offset.

    Args:
        capture: Stream of the last forward of the target.
        fuse: Fuses the states of a row, `[T, layers * hidden]` to `[T, width]`.
        pages: Pages of the KV cache.
        page_tokens: Tokens of a page.
        width: Width of a fused state.
        dtype: Type of the states.
    """

    def __init__(
        self,
        capture: StreamCapture,
        fuse: Linear,
        *,
        pages: int,
        page_tokens: int,
        width: int,
        dtype: torch.dtype,
    ) -> None:
        self._capture, self._fuse = capture, fuse
        self._size = page_tokens
        self._kept = torch.zeros((pages * page_tokens, width), dtype=dtype)

    def keep(self, slots: Tensor) -> None:
        """Keep the states of the last forward of the target.

        Args:
            slots: `[T]` int64, where the KV of each row lies: `page * page_tokens + offset`.
        """
        captured = self._capture.rows[: slots.shape[0]].flatten(1)
        self._kept.index_copy_(0, slots, self._fuse.apply(captured.to(self._kept.dtype)))

    def read(self, pages: NDArray[np.int32], first: int, out: Tensor) -> None:
        """States of consecutive tokens of a sequence.

        Args:
            pages: All pages of the sequence.
            first: Place of the first token.
            out: `[tokens, width]`, filled.
        """
        places = np.arange(first, first + out.shape[0])
        slots = pages[places // self._size].astype(np.int64) * self._size + places % self._size
        torch.index_select(self._kept, 0, torch.from_numpy(slots), out=out)

    def copy_page(self, source: PageId, target: PageId) -> None:
        """Copy the states of a page to another page."""
        pages = self._kept.view(-1, self._size, self._kept.shape[1])
        pages[target].copy_(pages[source])

    def clear(self, pages: Sequence[PageId]) -> None:
        """Forget the states of pages that have just been allocated: they are of other sequences."""
        self._kept.view(-1, self._size, self._kept.shape[1])[list(pages)] = 0
