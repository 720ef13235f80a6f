"""Buffers of tiled attention: allocated once, of constant size, used by every step.

All layers of a step see the same pages, so the views of these buffers are made once per step.
K heads of keys and values, H query heads, G = H / K, D head_dim, N tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt.engine.kv.cache import KvCache

_TILE_ROWS = 64
"""Query rows scored at once against a full tile; a shorter tile takes more."""

_MAX_ROWS = 128
"""Upper limit: later rows see more tokens, and masked scores are computed for nothing."""


@dataclass(frozen=True, slots=True)
class LoadedPages:
    """The first pages of the tile, in different views.

    Attributes:
        blocks: `[pages]` KV cache pages that belong there, as in `BlockTables.block_offsets`.
        key_pages: `[pages, width]` as stored, filled for each layer.
        value_pages: The same for values.
        key: `[N, K, D]` fp32.
        value: `[N, K, D]` fp32.
    """

    blocks: Tensor
    key_pages: Tensor
    value_pages: Tensor
    key: Tensor
    value: Tensor


class Tile:
    """Some pages of keys and values side by side, and the scores against them.

    Attributes:
        tokens: Capacity in tokens, a multiple of the page size.
        pages: Capacity in pages.
        kv_heads: K.
        heads: H.
        token_indices: `[tokens]` 0, 1, 2 ...
    """

    def __init__(self, kv: KvCache, *, heads: int, tokens: int) -> None:
        layout = kv.layout
        size = layout.page_tokens
        self._kv = kv
        self.heads = heads
        self.kv_heads = layout.kv_heads
        self.pages = max(1, tokens // size)
        self.tokens = self.pages * size
        self._key = kv.stored.new_empty((self.pages, kv.stored.shape[-1]))
        self._value = torch.empty_like(self._key)
        self._converts = self._key.dtype != torch.float32
        self._key_fp32, self._value_fp32 = self._key, self._value
        if self._converts:
            shape = (self.pages, size * layout.kv_heads * layout.head_dim)
            self._key_fp32 = torch.empty(shape, dtype=torch.float32, device=layout.device)
            self._value_fp32 = torch.empty_like(self._key_fp32)
        self._max_scores = _TILE_ROWS * heads * self.tokens
        self._scores = torch.empty(self._max_scores, dtype=torch.float32, device=layout.device)
        self._weights = torch.empty_like(self._scores)
        self.token_indices = torch.arange(self.tokens, device=layout.device)

    def prepare(self, blocks: Tensor) -> LoadedPages:
        """Views for these pages; `load_pages` fills them."""
        layout = self._kv.layout
        count = blocks.shape[0]
        shape = (count * layout.page_tokens, layout.kv_heads, layout.head_dim)
        return LoadedPages(
            blocks=blocks,
            key_pages=self._key[:count],
            value_pages=self._value[:count],
            key=self._key_fp32[:count].view(shape),
            value=self._value_fp32[:count].view(shape),
        )

    def load_pages(self, layer: int, into: LoadedPages) -> None:
        """Copy the pages of one layer."""
        self._kv.read(layer, into.blocks, into.key_pages, into.value_pages)
        if self._converts:
            count = into.blocks.shape[0]
            self._kv.widen(into.key_pages, into.key.view(count, -1))
            self._kv.widen(into.value_pages, into.value.view(count, -1))

    def score_buffers(self, *shape: int) -> tuple[Tensor, Tensor]:
        """Buffers for scores and for the weights computed from them."""
        count = 1
        for size in shape:
            count *= size
        return self._scores[:count].view(shape), self._weights[:count].view(shape)

    def max_rows(self, tokens: int) -> int:
        """Query rows that can be scored at once against `tokens` tokens."""
        return max(1, min(_MAX_ROWS, self._max_scores // (self.heads * tokens)))
