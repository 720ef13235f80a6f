"""What one forward sees: tokens of many sequences, packed one after the other.

A part is what one sequence brings: one token while it decodes, a chunk while its prompt is
computed, some tokens after the grammar forced a run. They differ in nothing else. Everything that
varies lies in one flat buffer, so that one copy brings it to the device and one copy refreshes
what a captured graph reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from agentrt.engine.batch.input_packing import InputFields, InputPacker, words
from agentrt.engine.batch.part import SequenceSlice, wanted_rows
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache
from agentrt_kernels.contract import PagedRows, SharedPrefix

__all__ = [
    "BatchPacker",
    "BlockTables",
    "ForwardBatch",
    "QuerySpan",
    "SequenceSlice",
    "pack",
    "wanted_rows",
]

_BUFFERS = 2
"""One may still be read by the device while the next is filled."""


@dataclass(frozen=True, slots=True)
class QuerySpan:
    """One sequence's part of the batch.

    Attributes:
        slot: Row of its block table.
        start: Its first row in the batch.
        tokens: How many rows.
        kv_tokens: Its context after this forward; row `i` stands at `kv_tokens - tokens + i`.
    """

    slot: int
    start: int
    tokens: int
    kv_tokens: int


class KvArrival(Protocol):
    """KV that may still be on its way to the device."""

    def wait(self, layer: int) -> None:
        """What is launched from now on finds the layer's pages whole."""
        ...


@dataclass(slots=True, eq=False)
class ForwardBatch:
    """The packed batch of T rows of B sequences.

    Its tensors are valid until two more batches were packed.

    Attributes:
        fields: Token ids, positions, where each token's KV goes (a negative slot stores nothing).
        wanted: `[logits]` int64, rows whose logits are wanted.
        paged: What attention needs.
        arrivals: Who brings KV that is still on its way, or None.
    """

    fields: InputFields
    wanted: Tensor
    paged: PagedRows
    _parts: Sequence[SequenceSlice]
    _kv: KvCache
    arrivals: KvArrival | None = None
    _rows: Tensor | None = None

    def await_layer(self, layer: int) -> None:
        """What is launched from now on finds the layer's pages whole."""
        if self.arrivals is not None:
            self.arrivals.wait(layer)

    @property
    def spans(self) -> tuple[QuerySpan, ...]:
        """Its sequences, in the order of their rows."""
        spans: list[QuerySpan] = []
        start = 0
        for part in self._parts:
            count = len(part.token_ids)
            spans.append(QuerySpan(part.slot, start, count, part.position + count))
            start += count
        return tuple(spans)

    @property
    def rows(self) -> Tensor:
        """`[T]` int64, where each token's KV goes as `KvCache.write` wants it."""
        if self._rows is None:
            size, slots = self._kv.layout.page_tokens, self.fields.slots
            self._rows = slots + slots // size * ((self._kv.page_stride - 1) * size)
        return self._rows


class BatchPacker:
    """Packs batches into buffers made once.

    Args:
        kv: The KV memory.
        tables: Block tables of the running sequences.
        last: `[slots]` int64, the token that each slot drew last.
        tokens: Most rows of a batch.
        sequences: Most sequences of a batch.

    Attributes:
        most_tokens: Most rows of a batch.
        most_sequences: Most sequences of a batch.
    """

    def __init__(
        self, kv: KvCache, tables: BlockTables, last: Tensor, *, tokens: int, sequences: int
    ) -> None:
        self.most_tokens, self.most_sequences = tokens, sequences
        self._kv = kv
        self._tables = tables
        self._filler = InputPacker(tables.host, kv.layout.page_tokens)
        self._last = last
        self._size = kv.layout.page_tokens
        self._device = kv.layout.device
        self._copies = self._device.type == "cuda"
        size = words(tokens, sequences)
        self._host = [
            torch.zeros(size, dtype=torch.int64, pin_memory=self._copies) for _ in range(_BUFFERS)
        ]
        self._there = [host.to(self._device) if self._copies else host for host in self._host]
        self._numbers = [host.numpy() for host in self._host]
        new: Any = torch.cuda.Event if self._copies else None
        self._sent = [new() for _ in range(_BUFFERS)] if self._copies else []
        pages = tables.numbers.shape[1]
        shape = (_BUFFERS, sequences * pages)
        self._pages = torch.zeros(shape, dtype=torch.int32, device=self._device)
        self._kept: dict[tuple[int, int, int], InputFields] = {}
        self._next = 0

    def pack(
        self,
        parts: Sequence[SequenceSlice],
        prefix: SharedPrefix | None = None,
        *,
        padded_to: int = 0,
        tokens_to: int = 0,
    ) -> ForwardBatch:
        """The batch of `parts`, in their order.

        Args:
            parts: At least one.
            prefix: What some of them begin with.
            padded_to: Up to so many sequences, others are added that store nothing.
            tokens_to: Up to so many rows, others are added that belong to no sequence.
        """
        turn, self._next = self._next, (self._next + 1) % _BUFFERS
        padding = max(0, padded_to - len(parts))
        if padding:
            parts = [
                *parts,
                *[SequenceSlice(self._tables.spare, [0], 0, wants_logits=True)] * padding,
            ]
        if self._copies:
            self._sent[turn].synchronize()  # what this buffer held is on the device
        filled = self._filler.fill(self._numbers[turn], parts, padding, tokens_to)
        sequences = len(parts)
        again = filled.tokens in (sequences, tokens_to)
        fields = self._fields(turn, filled.tokens, sequences, keep=again)
        if self._copies:
            fields.flat.copy_(self._host[turn][: fields.flat.shape[0]], non_blocking=True)
            self._sent[turn].record()
        if filled.names_slots:
            named = fields.token_ids
            # Who could not be drawn for is over, which is not known yet: any token will do.
            drawn = self._last[(-1 - named).clamp_(min=0)].clamp_(min=0)
            torch.where(named < 0, drawn, named, out=named)
        pages = -(-filled.most_kv_tokens // self._size)
        paged = PagedRows(
            query_start=fields.query_start,
            kv_tokens=fields.kv_tokens,
            block_table=self._table(turn, parts, fields, pages),
            most_query_tokens=filled.most_query_tokens,
            most_kv_tokens=filled.most_kv_tokens,
            prefix=prefix,
        )
        return ForwardBatch(
            fields=fields,
            wanted=(
                fields.wanted if filled.wanted == sequences else fields.wanted[: filled.wanted]
            ),
            paged=paged,
            _parts=parts,
            _kv=self._kv,
        )

    def _table(
        self, turn: int, parts: Sequence[SequenceSlice], fields: InputFields, pages: int
    ) -> Tensor:
        """`[B, pages]` int32, the first pages of each part; of one alone they lie as wanted."""
        if len(parts) == 1:
            return self._tables.row(parts[0].slot)
        sequences = len(parts)
        room = self._pages[turn, : sequences * pages].view(sequences, pages)
        return self._tables.gather(fields.tables, room)

    def _fields(self, turn: int, tokens: int, sequences: int, *, keep: bool) -> InputFields:
        """The fields of a buffer; kept for sizes that come again."""
        key = (turn, tokens, sequences)
        found = self._kept.get(key)
        if found is None:
            found = InputFields.of(self._there[turn], tokens, sequences)
            if keep:
                self._kept[key] = found
        return found


def pack(parts: Sequence[SequenceSlice], kv: KvCache, tables: BlockTables) -> ForwardBatch:
    """One batch, in buffers of its own."""
    tokens = sum(len(part.token_ids) for part in parts)
    last = torch.zeros(tables.host.shape[0], dtype=torch.int64, device=kv.layout.device)
    return BatchPacker(kv, tables, last, tokens=tokens, sequences=len(parts)).pack(parts)
