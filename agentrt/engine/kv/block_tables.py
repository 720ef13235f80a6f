"""Block tables: the pages of each running sequence, in CPU memory and on the device."""

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

    Entries past a sequence's end are stale but in range; they are never read.

    Attributes:
        host_table: `[slots, pages]` int32 page numbers.
        device_table: The same on the device; on a CPU the same memory.
        block_offsets: `[slots, pages]` int64, `page * page_stride`, on the device.
        padding_slot: Slot for padding, given to no sequence; its pages are valid with any content.
        version: Incremented when a slot is written from its first page on, for a new sequence.
    """

    def __init__(self, slots: int, pages: int, kv: KvCache) -> None:
        device = kv.layout.device
        self._stride = kv.page_stride
        self._on_cpu = device.type == "cpu"
        self.padding_slot = slots
        slots += 1
        self.host_table: NDArray[np.int32] = np.zeros((slots, pages), dtype=np.int32)
        self.device_table = torch.from_numpy(self.host_table)
        if not self._on_cpu:
            self.device_table = self.device_table.to(device)
        self._rows = [self.device_table[slot : slot + 1] for slot in range(slots)]
        self._host_offsets = np.zeros((slots, pages), dtype=np.int64)
        self.block_offsets = torch.from_numpy(self._host_offsets).to(device)
        self.version = 0
        self._stale: set[int] = set()

    def write(self, slot: int, first_page: int, pages: Sequence[PageId]) -> None:
        """Set the pages of `slot` from index `first_page` on."""
        if first_page == 0:
            self.version += 1
        if not pages:
            return
        self.host_table[slot, first_page : first_page + len(pages)] = pages
        offsets = (
            self.host_table[slot, first_page : first_page + len(pages)].astype(np.int64)
            * self._stride
        )
        self._host_offsets[slot, first_page : first_page + len(pages)] = offsets
        if not self._on_cpu:
            self._stale.add(slot)

    def row(self, slot: int) -> Tensor:
        """`[1, pages]` int32, the pages of `slot`; a view that follows later writes."""
        self._refresh()
        return self._rows[slot]

    def gather(self, slots: Tensor, out: Tensor) -> Tensor:
        """Fill `out` `[n, pages]` int32 with the first pages of `slots` `[n]` int64."""
        self._refresh()
        return torch.index_select(self.device_table[:, : out.shape[1]], 0, slots, out=out)

    def _refresh(self) -> None:
        """Copy stale rows to the device."""
        if not self._stale:
            return
        stale = sorted(self._stale)
        device = self.device_table.device
        rows = to_device(stale, torch.int64, device)
        table = to_device(torch.from_numpy(self.host_table[stale]), torch.int32, device)
        self.device_table.index_copy_(0, rows, table)
        blocks = to_device(torch.from_numpy(self._host_offsets[stale]), torch.int64, device)
        self.block_offsets.index_copy_(0, rows, blocks)
        self._stale.clear()
