"""The input batch of a forward: tokens of many sequences, packed one after the other.

Each sequence brings a slice: one token for a decode, a chunk of its prompt for a prefill, a few
tokens after a run that its grammar forced. Slices differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from agentrt.engine.batch.input_packing import (
    InputFields,
    InputPacker,
    SequenceSlice,
    adapter_rows,
    buffer_words,
)
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache
from agentrt_kernels.contract import PagedRows, SharedPrefix

_BUFFERS = 2
"""The device may still read one buffer while the next is packed."""


@dataclass(frozen=True, slots=True)
class QuerySpan:
    """Rows of one sequence in the batch.

    Attributes:
        slot: Row of its block table.
        start: First row in the batch.
        tokens: Number of rows.
        kv_tokens: Context after this forward; row `i` has position `kv_tokens - tokens + i`.
    """

    slot: int
    start: int
    tokens: int
    kv_tokens: int


class KvArrival(Protocol):
    """KV that may still be on its way to the device."""

    def wait_layer(self, layer: int) -> None:
        """Order everything launched from now on after the copies of this layer."""
        ...


@dataclass(slots=True, eq=False)
class ForwardBatch:
    """The packed batch of T rows of B sequences.

    Its tensors are valid until two more batches have been packed.

    Attributes:
        fields: Token ids, positions, slot mapping.
        logit_rows: `[logits]` int64, rows that need logits.
        paged: Inputs of attention.
        adapters: `[T]` int32 on the host, the adapter of each row, 0 for none; None if no row has
            one.
        kv_arrival: KV that is still being copied, or None.
        load_groups: `[T]` int64, for whom the choice of experts is counted, or None.
    """

    fields: InputFields
    logit_rows: Tensor
    paged: PagedRows
    _slices: Sequence[SequenceSlice]
    _kv: KvCache
    adapters: Tensor | None = None
    kv_arrival: KvArrival | None = None
    load_groups: Tensor | None = None
    _kv_rows: Tensor | None = None

    def wait_layer(self, layer: int) -> None:
        """Order everything launched from now on after the KV copies of this layer."""
        if self.kv_arrival is not None:
            self.kv_arrival.wait_layer(layer)

    @property
    def spans(self) -> tuple[QuerySpan, ...]:
        """The rows of its sequences, in order."""
        spans: list[QuerySpan] = []
        start = 0
        for part in self._slices:
            count = len(part.token_ids)
            spans.append(QuerySpan(part.slot, start, count, part.first_position + count))
            start += count
        return tuple(spans)

    @property
    def kv_rows(self) -> Tensor:
        """`[T]` int64, the slot mapping in rows of `KvCache.write`."""
        if self._kv_rows is None:
            size, slots = self._kv.layout.page_tokens, self.fields.slot_mapping
            self._kv_rows = slots + slots // size * ((self._kv.page_stride - 1) * size)
        return self._kv_rows


class BatchPacker:
    """Packs batches into buffers that are allocated once.

    Args:
        kv: The KV cache.
        tables: Block tables of the running sequences.
        last_tokens: `[slots]` int64, the token last sampled in each slot.
        max_tokens: Most rows of a batch.
        max_sequences: Most sequences of a batch.

    Attributes:
        max_tokens: Most rows of a batch.
        max_sequences: Most sequences of a batch.
    """

    def __init__(
        self,
        kv: KvCache,
        tables: BlockTables,
        last_tokens: Tensor,
        *,
        max_tokens: int,
        max_sequences: int,
    ) -> None:
        self.max_tokens, self.max_sequences = max_tokens, max_sequences
        self._kv = kv
        self._tables = tables
        self._packer = InputPacker(tables.host_table, kv.layout.page_tokens)
        self._last_tokens = last_tokens
        self._page_tokens = kv.layout.page_tokens
        self._device = kv.layout.device
        self._copies = self._device.type == "cuda"
        size = buffer_words(max_tokens, max_sequences)
        self._host_buffers = [
            torch.zeros(size, dtype=torch.int64, pin_memory=self._copies) for _ in range(_BUFFERS)
        ]
        self._device_buffers = [
            host.to(self._device) if self._copies else host for host in self._host_buffers
        ]
        self._host_arrays = [host.numpy() for host in self._host_buffers]
        new: Any = torch.cuda.Event if self._copies else None
        self._sent = [new() for _ in range(_BUFFERS)] if self._copies else []
        pages = tables.device_table.shape[1]
        shape = (_BUFFERS, max_sequences * pages)
        self._block_tables = torch.zeros(shape, dtype=torch.int32, device=self._device)
        self._fields_by_size: dict[tuple[int, int, int], InputFields] = {}
        self._next_buffer = 0

    def pack(
        self,
        slices: Sequence[SequenceSlice],
        prefix: SharedPrefix | None = None,
        *,
        padded_sequences: int = 0,
        padded_tokens: int = 0,
    ) -> ForwardBatch:
        """Pack `slices` into a batch, in their order.

        Args:
            slices: At least one.
            prefix: Prefix that some of them share.
            padded_sequences: Sequences to pad to; added ones store no KV.
            padded_tokens: Rows to pad to; added ones belong to no sequence.
        """
        buffer, self._next_buffer = self._next_buffer, (self._next_buffer + 1) % _BUFFERS
        padding = max(0, padded_sequences - len(slices))
        if padding:
            filler = SequenceSlice(self._tables.padding_slot, [0], 0, wants_logits=True)
            slices = [*slices, *[filler] * padding]
        if self._copies:
            self._sent[buffer].synchronize()  # the device has copied what the buffer held
        packed = self._packer.pack_inputs(self._host_arrays[buffer], slices, padding, padded_tokens)
        sequences = len(slices)
        again = packed.tokens in (sequences, padded_tokens)
        fields = self._fields(buffer, packed.tokens, sequences, keep=again)
        if self._copies:
            fields.flat.copy_(self._host_buffers[buffer][: fields.flat.shape[0]], non_blocking=True)
            self._sent[buffer].record()
        if packed.has_unknown_tokens:
            token_ids = fields.token_ids
            # A slot whose sampling failed holds -1: its sequence ends, so any token will do.
            sampled = self._last_tokens[(-1 - token_ids).clamp_(min=0)].clamp_(min=0)
            torch.where(token_ids < 0, sampled, token_ids, out=token_ids)
        pages = -(-packed.max_kv_tokens // self._page_tokens)
        paged = PagedRows(
            query_start=fields.query_start,
            kv_tokens=fields.kv_tokens,
            block_table=self._block_table(buffer, slices, fields, pages),
            most_query_tokens=packed.max_query_tokens,
            most_kv_tokens=packed.max_kv_tokens,
            prefix=prefix,
        )
        rows = fields.logit_rows
        if packed.logits < sequences:
            rows = rows[: packed.logits]
        adapters = adapter_rows(slices, packed.tokens)
        return ForwardBatch(fields, rows, paged, slices, self._kv, adapters)

    def _block_table(
        self, buffer: int, slices: Sequence[SequenceSlice], fields: InputFields, pages: int
    ) -> Tensor:
        """`[B, pages]` int32, the first pages of each slice; for one slice, a view of its table."""
        if len(slices) == 1:
            return self._tables.row(slices[0].slot)
        sequences = len(slices)
        out = self._block_tables[buffer, : sequences * pages].view(sequences, pages)
        return self._tables.gather(fields.table_rows, out)

    def _fields(self, buffer: int, tokens: int, sequences: int, *, keep: bool) -> InputFields:
        """Fields of a buffer; kept for sizes that recur."""
        key = (buffer, tokens, sequences)
        found = self._fields_by_size.get(key)
        if found is None:
            found = InputFields.split(self._device_buffers[buffer], tokens, sequences)
            if keep:
                self._fields_by_size[key] = found
        return found


def pack(slices: Sequence[SequenceSlice], kv: KvCache, tables: BlockTables) -> ForwardBatch:
    """Pack one batch in buffers of its own."""
    tokens = sum(len(part.token_ids) for part in slices)
    last = torch.zeros(tables.host_table.shape[0], dtype=torch.int64, device=kv.layout.device)
    return BatchPacker(kv, tables, last, max_tokens=tokens, max_sequences=len(slices)).pack(slices)
