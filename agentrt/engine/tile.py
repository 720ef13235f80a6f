"""The buffers that attention works in: made once, of constant size, used by every step."""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.kv import PagedKv

_ROWS = 64
"""Rows of queries that are scored at once against a full tile; a shorter one takes more."""


class Tile:
    """Some pages of keys and values, side by side, and the scores against them.

    K heads of keys and values, H query heads, D head_dim.

    Attributes:
        tokens: Most tokens it holds, in whole pages.
        pages: The same in pages.
        places: `[tokens]` 0, 1, 2 ...
    """

    def __init__(self, kv: PagedKv, *, heads: int, tokens: int) -> None:
        layout = kv.layout
        size = layout.page_tokens
        self._kv = kv
        self._heads = heads
        self.pages = max(1, tokens // size)
        self.tokens = self.pages * size
        shape = (self.pages, size * layout.kv_heads * layout.head_dim)
        self._key = torch.empty(shape, dtype=layout.dtype, device=layout.device)
        self._value = torch.empty_like(self._key)
        self._wide = None
        if layout.dtype != torch.float32:
            wide = torch.empty(shape, dtype=torch.float32, device=layout.device)
            self._wide = (wide, torch.empty_like(wide))
        self._most_scores = _ROWS * heads * self.tokens
        self._scores = torch.empty(self._most_scores, dtype=torch.float32, device=layout.device)
        self._weights = torch.empty_like(self._scores)
        self.places = torch.arange(self.tokens, device=layout.device)

    def load(self, layer: int, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Copy pages in; keys and values, `[pages * page, K, D]` each, in fp32.

        Args:
            layer: Which layer.
            blocks: `[pages]`, as in `BlockTables`.
        """
        layout = self._kv.layout
        count = blocks.shape[0]
        key, value = self._key[:count], self._value[:count]
        self._kv.read(layer, blocks, key, value)
        if self._wide is not None:
            key = self._wide[0][:count].copy_(key)
            value = self._wide[1][:count].copy_(value)
        shape = (count * layout.page_tokens, layout.kv_heads, layout.head_dim)
        return key.view(shape), value.view(shape)

    def scores(self, *shape: int) -> tuple[Tensor, Tensor]:
        """Room for scores and for the weights they become."""
        count = 1
        for size in shape:
            count *= size
        return self._scores[:count].view(shape), self._weights[:count].view(shape)

    def most_rows(self, tokens: int) -> int:
        """Rows of queries that can be scored at once against `tokens` tokens."""
        return max(1, self._most_scores // (self._heads * tokens))
