"""Block tables: the pages of each running sequence, on the host and on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrt.base.ids import PageId
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.kv.transfer import to_device


class BlockTables:
    """Pages of each running sequence.

    What lies past a sequence's end is old but in range, and never seen.

    Attributes:
        host: `[slots, pages]` int32 page numbers.
        numbers: The same on the device; on a CPU the same memory.
        blocks: `[slots, pages]` int64, `page * page_stride`, on the device.
        spare: A slot that no sequence gets; its pages are valid, and whatever they hold.
        changes: Grows whenever pages of a slot are set from its first on: it has a new sequence.
    """

    def __init__(self, slots: int, pages: int, kv: KvCache) -> None:
        device = kv.layout.device
        self._stride = kv.page_stride
        self._on_host = device.type == "cpu"
        self.spare = slots
        slots += 1
        self.host: NDArray[np.int32] = np.zeros((slots, pages), dtype=np.int32)
        self.numbers = torch.from_numpy(self.host)
        if not self._on_host:
            self.numbers = self.numbers.to(device)
        self._rows = [self.numbers[slot : slot + 1] for slot in range(slots)]
        self._blocks = np.zeros((slots, pages), dtype=np.int64)
        self.blocks = torch.from_numpy(self._blocks).to(device)
        self.changes = 0
        self._stale: set[int] = set()

    def write(self, slot: int, at: int, pages: Sequence[PageId]) -> None:
        """Set the pages of `slot` from its page `at` on."""
        if at == 0:
            self.changes += 1
        if not pages:
            return
        self.host[slot, at : at + len(pages)] = pages
        fresh = self.host[slot, at : at + len(pages)].astype(np.int64) * self._stride
        self._blocks[slot, at : at + len(pages)] = fresh
        if not self._on_host:
            self._stale.add(slot)

    def row(self, slot: int) -> Tensor:
        """`[1, pages]` int32, the pages of `slot`; it follows what is written later."""
        self._refresh()
        return self._rows[slot]

    def gather(self, slots: Tensor, out: Tensor) -> Tensor:
        """`out` `[n, pages]` int32, filled with the first pages of `slots` `[n]` int64."""
        self._refresh()
        return torch.index_select(self.numbers[:, : out.shape[1]], 0, slots, out=out)

    def _refresh(self) -> None:
        """Bring what was written to the device."""
        if not self._stale:
            return
        stale = sorted(self._stale)
        device = self.numbers.device
        rows = to_device(stale, torch.int64, device)
        fresh = to_device(torch.from_numpy(self.host[stale]), torch.int32, device)
        self.numbers.index_copy_(0, rows, fresh)
        blocks = to_device(torch.from_numpy(self._blocks[stale]), torch.int64, device)
        self.blocks.index_copy_(0, rows, blocks)
        self._stale.clear()
