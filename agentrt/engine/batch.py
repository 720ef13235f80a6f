"""What one forward sees: tokens of many sequences, packed one after the other.

A span is the part of one sequence in the batch: one token while it decodes, a chunk while its
prompt is computed, some tokens after the grammar forced a run. They differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.kv import PagedKv
from agentrt.ids import PageId


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
class ForwardBatch:
    """The packed batch.

    Attributes:
        token_ids: `[1, tokens]` int64.
        positions: `[1, tokens]` int64.
        rows: `[tokens]` int64, where each token's KV goes (`PagedKv.write`).
        spans: In the order of their rows.
        wanted: `[logits]` int64, rows whose logits are wanted.
    """

    token_ids: Tensor
    positions: Tensor
    rows: Tensor
    spans: tuple[Span, ...]
    wanted: Tensor


class BlockTables:
    """Pages of each running sequence, on the device.

    Attributes:
        blocks: `[slots, pages]` int64, `page * page_stride`; what lies past a sequence's end is old
            but in range, and masked.
    """

    def __init__(self, slots: int, pages: int, kv: PagedKv) -> None:
        self._stride = kv.page_stride
        self.blocks = torch.zeros((slots, pages), dtype=torch.int64, device=kv.layout.device)

    def write(self, slot: int, at: int, pages: Sequence[PageId]) -> None:
        """Set the pages of `slot` from its page `at` on."""
        if pages:
            blocks = torch.tensor([page * self._stride for page in pages], dtype=torch.int64)
            self.blocks[slot, at : at + len(pages)] = blocks


@dataclass(frozen=True, slots=True)
class Part:
    """What one sequence brings to a batch.

    Attributes:
        slot: Row of its block table.
        token_ids: Tokens to compute.
        position: Of the first of them.
        pages: All its pages.
        wants_logits: Whether the logits after the last token are wanted.
    """

    slot: int
    token_ids: Sequence[int]
    position: int
    pages: Sequence[PageId]
    wants_logits: bool


def pack(parts: Sequence[Part], kv: PagedKv) -> ForwardBatch:
    """The batch of `parts`, in their order."""
    size = kv.layout.page_tokens
    stride = kv.page_stride * size
    ids: list[int] = []
    positions: list[int] = []
    rows: list[int] = []
    spans: list[Span] = []
    wanted: list[int] = []
    for part in parts:
        start, count = len(ids), len(part.token_ids)
        where = range(part.position, part.position + count)
        ids += part.token_ids
        positions += where
        rows += [part.pages[at // size] * stride + at % size for at in where]
        spans.append(Span(part.slot, start, count, part.position + count))
        if part.wants_logits:
            wanted.append(start + count - 1)
    device = kv.layout.device
    return ForwardBatch(
        token_ids=torch.tensor([ids], device=device),
        positions=torch.tensor([positions], device=device),
        rows=torch.tensor(rows, device=device),
        spans=tuple(spans),
        wanted=torch.tensor(wanted, dtype=torch.int64, device=device),
    )
