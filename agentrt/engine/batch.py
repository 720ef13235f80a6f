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


@dataclass(slots=True, eq=False)
class Part:
    """What one sequence brings to a batch.

    Attributes:
        slot: Row of its block table.
        token_ids: Tokens to compute; -1 - s stands for what slot `s` drew last.
        position: Of the first of them.
        wants_logits: Whether the logits after the last token are wanted.
        drafted: How many of the tokens are guesses, the last ones; logits are then wanted after
            the last that is known, and after each guess.
    """

    slot: int
    token_ids: Sequence[int]
    position: int
    wants_logits: bool
    drafted: int = 0


def wanted_rows(parts: Sequence[Part]) -> list[int]:
    """Rows of the packed `parts` whose logits are wanted, those after guesses among them."""
    rows: list[int] = []
    end = 0
    for part in parts:
        end += len(part.token_ids)
        if part.wants_logits:
            rows += range(end - 1 - part.drafted, end)
    return rows


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
        sizes = (tokens, tokens, tokens, sequences, sequences, sequences + 1)
        ids, positions, slots, tables, wanted, narrow = flat.split_with_sizes(sizes)
        starts, contexts, _ = narrow.view(torch.int32).split_with_sizes(
            (sequences + 1, sequences, 1)
        )
        return cls(ids, positions, slots, tables, wanted, starts, contexts)


def words(tokens: int, sequences: int) -> int:
    """Length of a flat buffer, in int64."""
    return 3 * tokens + 3 * sequences + 1


class Arrivals(Protocol):
    """KV that may still be on its way to the device."""

    def wait(self, layer: int) -> None:
        """What is launched from now on finds the layer's pages whole."""
        ...


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
        arrivals: Who brings KV that is still on its way, or None.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    wanted: Tensor
    paged: PagedRows
    flat: Tensor
    _parts: Sequence[Part]
    _kv: PagedKv
    arrivals: Arrivals | None = None
    _rows: Tensor | None = None

    def await_layer(self, layer: int) -> None:
        """What is launched from now on finds the layer's pages whole."""
        if self.arrivals is not None:
            self.arrivals.wait(layer)

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


@dataclass(slots=True, eq=False)
class Filled:
    """What a batch turned out to be.

    Attributes:
        tokens: Its rows.
        wanted: How many of them want logits.
        most_query_tokens: Rows of the largest part.
        most_kv_tokens: Its longest context.
        names_slots: Whether a token is known by the slot that drew it only.
    """

    tokens: int
    wanted: int
    most_query_tokens: int
    most_kv_tokens: int
    names_slots: bool


class Packer:
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
        self, kv: PagedKv, tables: BlockTables, last: Tensor, *, tokens: int, sequences: int
    ) -> None:
        self.most_tokens, self.most_sequences = tokens, sequences
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
        new: Any = torch.cuda.Event if self._copies else None
        self._sent = [new() for _ in range(_BUFFERS)] if self._copies else []
        pages = tables.numbers.shape[1]
        shape = (_BUFFERS, sequences * pages)
        self._pages = torch.zeros(shape, dtype=torch.int32, device=self._device)
        self._kept: dict[tuple[int, int, int], tuple[Tensor, Fields]] = {}
        self._next = 0

    def pack(
        self,
        parts: Sequence[Part],
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
            parts = [*parts, *[Part(self._tables.spare, [0], 0, wants_logits=True)] * padding]
        if self._copies:
            self._sent[turn].synchronize()  # what this buffer held is on the device
        filled = self._fill(self._numbers[turn], parts, padding, tokens_to)
        sequences = len(parts)
        again = filled.tokens in (sequences, tokens_to)
        flat, fields = self._views(turn, filled.tokens, sequences, keep=again)
        if self._copies:
            flat.copy_(self._host[turn][: flat.shape[0]], non_blocking=True)
            self._sent[turn].record()
        if filled.names_slots:
            named = fields.token_ids
            drawn = self._last[(-1 - named).clamp_(min=0)]
            torch.where(named < 0, drawn, named, out=named)
        pages = -(-filled.most_kv_tokens // self._size)
        room = self._pages[turn, : sequences * pages].view(sequences, pages)
        paged = PagedRows(
            query_start=fields.query_start,
            kv_tokens=fields.kv_tokens,
            block_table=self._tables.gather(fields.tables, room),
            most_query_tokens=filled.most_query_tokens,
            most_kv_tokens=filled.most_kv_tokens,
            prefix=prefix,
        )
        return ForwardBatch(
            token_ids=fields.token_ids[None],
            positions=fields.positions[None],
            slots=fields.slots,
            wanted=fields.wanted[: filled.wanted],
            paged=paged,
            flat=flat,
            _parts=parts,
            _kv=self._kv,
        )

    def _views(
        self, turn: int, tokens: int, sequences: int, *, keep: bool
    ) -> tuple[Tensor, Fields]:
        """The part of a buffer that is used, and its fields; kept for sizes that come again."""
        key = (turn, tokens, sequences)
        found = self._kept.get(key)
        if found is None:
            flat = self._there[turn][: words(tokens, sequences)]
            found = flat, Fields.of(flat, tokens, sequences)
            if keep:
                self._kept[key] = found
        return found

    def _fill(
        self, flat: NDArray[np.int64], parts: Sequence[Part], padding: int, tokens_to: int
    ) -> Filled:
        """Write the flat buffer; the last `padding` parts store nothing."""
        sequences = len(parts)
        ids: list[int] = []
        known: list[tuple[int, int, int]] = []
        rows: list[int] = []
        for part in parts:
            ids += part.token_ids
            end = len(ids)
            known.append((part.slot, part.position, end))
            if part.wants_logits:
                rows.append(end - 1)
        tokens = len(ids)
        tables, first, ends = np.array(known, dtype=np.int64).T
        contexts = first + ends
        contexts[1:] -= ends[:-1]
        counts = contexts - first
        if tokens == sequences:
            positions, owners = first, tables
        else:
            positions = np.arange(tokens) + np.repeat(contexts - ends, counts)
            owners = np.repeat(tables, counts)
        block, offset = np.divmod(positions, self._size)
        total = max(tokens, tokens_to)
        columns = flat[: 3 * total].reshape(3, total)
        columns[0, :tokens] = ids
        columns[1, :tokens] = positions
        columns[2, :tokens] = self._tables.host[owners, block] * self._size + offset
        columns[:2, tokens:] = 0
        columns[2, tokens - padding :] = -1
        rest = flat[3 * total :]
        rest[:sequences] = tables
        rest[sequences : sequences + len(rows)] = rows
        rest[sequences + len(rows) : 2 * sequences] = 0
        narrow = rest[2 * sequences :].view(np.int32)
        narrow[0] = 0
        narrow[1 : sequences + 1] = ends
        narrow[sequences + 1 : 2 * sequences + 1] = contexts
        return Filled(
            tokens=total,
            wanted=len(rows),
            most_query_tokens=int(counts.max()),
            most_kv_tokens=int(contexts.max()),
            names_slots=min(ids) < 0,
        )


def pack(parts: Sequence[Part], kv: PagedKv, tables: BlockTables) -> ForwardBatch:
    """One batch, in buffers of its own."""
    tokens = sum(len(part.token_ids) for part in parts)
    last = torch.zeros(tables.host.shape[0], dtype=torch.int64, device=kv.layout.device)
    return Packer(kv, tables, last, tokens=tokens, sequences=len(parts)).pack(parts)
