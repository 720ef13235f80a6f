"""What one forward sees: tokens of many sequences, packed one after the other.

A part is what one sequence brings: one token while it decodes, a chunk while its prompt is
computed, some tokens after the grammar forced a run. They differ in nothing else. Everything that
varies lies in one flat buffer, so that one copy brings it to the device and one copy refreshes
what a captured graph reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrt.engine.kv import PagedKv
from agentrt.engine.tables import BlockTables
from agentrt_kernels.contract import PagedRows, SharedPrefix

__all__ = ["BlockTables", "ForwardBatch", "Packer", "Part", "Span", "pack"]

_BUFFERS = 2
"""One may still be read by the device while the next is filled."""


@dataclass(frozen=True, slots=True)
class Span:
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


@dataclass(frozen=True, slots=True)
class Part:
    """What one sequence brings to a batch.

    Attributes:
        slot: Row of its block table.
        token_ids: Tokens to compute; -1 - s stands for what slot `s` drew last.
        position: Of the first of them.
        wants_logits: Whether the logits after the last token are wanted.
    """

    slot: int
    token_ids: Sequence[int]
    position: int
    wants_logits: bool


@dataclass(frozen=True, slots=True)
class Fields:
    """Views of one flat buffer, for T rows of B sequences.

    Attributes:
        token_ids: `[T]` int64.
        positions: `[T]` int64.
        slots: `[T]` int64 token slots, `page * page_tokens + offset`.
        tables: `[B]` int64, rows of the block tables.
        wanted: `[B]` int64, rows whose logits are wanted; those that are not used are 0.
        query_start: `[B + 1]` int32.
        kv_tokens: `[B]` int32.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    tables: Tensor
    wanted: Tensor
    query_start: Tensor
    kv_tokens: Tensor

    @classmethod
    def of(cls, flat: Tensor, tokens: int, sequences: int) -> Fields:
        """Cut `flat`, `[words]` int64, at least `words(tokens, sequences)` long."""
        ends = np.cumsum([tokens, tokens, tokens, sequences, sequences]).tolist()
        narrow = flat[ends[4] :].view(torch.int32)
        return cls(
            flat[: ends[0]],
            flat[ends[0] : ends[1]],
            flat[ends[1] : ends[2]],
            flat[ends[2] : ends[3]],
            flat[ends[3] : ends[4]],
            narrow[: sequences + 1],
            narrow[sequences + 1 : 2 * sequences + 1],
        )


def words(tokens: int, sequences: int) -> int:
    """Length of a flat buffer, in int64."""
    return 3 * tokens + 3 * sequences + 1


@dataclass(slots=True, eq=False)
class ForwardBatch:
    """The packed batch of T rows of B sequences.

    Its tensors are valid until two more batches were packed.

    Attributes:
        token_ids: `[1, T]` int64.
        positions: `[1, T]` int64.
        slots: `[T]` int64, where each token's KV goes, `page * page_tokens + offset`; a negative
            slot stores nothing.
        wanted: `[logits]` int64, rows whose logits are wanted.
        paged: What attention needs.
        flat: The buffer that all of these but the block table are views of.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    wanted: Tensor
    paged: PagedRows
    flat: Tensor
    _parts: Sequence[Part]
    _kv: PagedKv
    _rows: Tensor | None = None

    @property
    def spans(self) -> tuple[Span, ...]:
        """Its sequences, in the order of their rows."""
        spans: list[Span] = []
        start = 0
        for part in self._parts:
            count = len(part.token_ids)
            spans.append(Span(part.slot, start, count, part.position + count))
            start += count
        return tuple(spans)

    @property
    def rows(self) -> Tensor:
        """`[T]` int64, where each token's KV goes as `PagedKv.write` wants it."""
        if self._rows is None:
            size = self._kv.layout.page_tokens
            self._rows = self.slots + self.slots // size * ((self._kv.page_stride - 1) * size)
        return self._rows


class Packer:
    """Packs batches into buffers made once.

    Args:
        kv: The KV memory.
        tables: Block tables of the running sequences.
        last: `[slots]` int64, the token that each slot drew last.
        tokens: Most rows of a batch.
        sequences: Most sequences of a batch.
    """

    def __init__(
        self, kv: PagedKv, tables: BlockTables, last: Tensor, *, tokens: int, sequences: int
    ) -> None:
        self._kv = kv
        self._tables = tables
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
        pages = tables.numbers.shape[1]
        shape = (_BUFFERS, sequences * pages)
        self._pages = torch.zeros(shape, dtype=torch.int32, device=self._device)
        self._next = 0

    def pack(self, parts: Sequence[Part], prefix: SharedPrefix | None = None) -> ForwardBatch:
        """The batch of `parts`, in their order, of which some begin with `prefix`."""
        turn, self._next = self._next, (self._next + 1) % _BUFFERS
        counts = [len(part.token_ids) for part in parts]
        tokens, sequences = sum(counts), len(parts)
        longest = max(part.position + count for part, count in zip(parts, counts, strict=True))
        wanted = self._fill(self._numbers[turn], parts, counts)
        size = words(tokens, sequences)
        flat = self._there[turn][:size]
        if self._copies:
            flat.copy_(self._host[turn][:size], non_blocking=True)
        fields = Fields.of(flat, tokens, sequences)
        if any(part.token_ids[-1] < 0 for part in parts):
            named = fields.token_ids
            drawn = self._last[(-1 - named).clamp_(min=0)]
            torch.where(named < 0, drawn, named, out=named)
        pages = -(-longest // self._size)
        room = self._pages[turn, : sequences * pages].view(sequences, pages)
        paged = PagedRows(
            query_start=fields.query_start,
            kv_tokens=fields.kv_tokens,
            block_table=self._tables.gather(fields.tables, room),
            most_query_tokens=max(counts),
            most_kv_tokens=longest,
            prefix=prefix,
        )
        return ForwardBatch(
            token_ids=fields.token_ids[None],
            positions=fields.positions[None],
            slots=fields.slots,
            wanted=fields.wanted[:wanted],
            paged=paged,
            flat=flat,
            _parts=parts,
            _kv=self._kv,
        )

    def _fill(self, flat: NDArray[np.int64], parts: Sequence[Part], counts: list[int]) -> int:
        """Write the flat buffer; how many rows want logits."""
        tokens, sequences = sum(counts), len(parts)
        length = np.array(counts, dtype=np.int64)
        first = np.array([part.position for part in parts], dtype=np.int64)
        tables = np.array([part.slot for part in parts], dtype=np.int64)
        ends = length.cumsum()
        if tokens == sequences:
            flat[:tokens] = [part.token_ids[0] for part in parts]
            positions, owners = first, tables
        else:
            at = 0
            for part, count in zip(parts, counts, strict=True):
                flat[at : at + count] = part.token_ids
                at += count
            positions = np.arange(tokens) + np.repeat(first - ends + length, length)
            owners = np.repeat(tables, length)
        pages = self._tables.host[owners, positions // self._size]
        flat[tokens : 2 * tokens] = positions
        flat[2 * tokens : 3 * tokens] = pages * self._size + positions % self._size
        at = 3 * tokens
        flat[at : at + sequences] = tables
        rows = [
            end - 1 for part, end in zip(parts, ends.tolist(), strict=True) if part.wants_logits
        ]
        flat[at + sequences : at + 2 * sequences] = rows + [0] * (sequences - len(rows))
        narrow = flat[at + 2 * sequences :].view(np.int32)
        narrow[0] = 0
        narrow[1 : sequences + 1] = ends
        narrow[sequences + 1 : 2 * sequences + 1] = first + length
        return len(rows)


def pack(parts: Sequence[Part], kv: PagedKv, tables: BlockTables) -> ForwardBatch:
    """One batch, in buffers of its own."""
    tokens = sum(len(part.token_ids) for part in parts)
    last = torch.zeros(tables.host.shape[0], dtype=torch.int64, device=kv.layout.device)
    return Packer(kv, tables, last, tokens=tokens, sequences=len(parts)).pack(parts)
