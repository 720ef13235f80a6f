"""Attention over pages, as transformers' models call it.

The function registered here receives the packed rows of a whole batch, stores their keys and
values, and attends each span to its own pages: by a kernel set that can, else here. Then pages are
read in tiles of a constant size and joined by log-sum-exp, in buffers made once: a step allocates
the same whatever the length of the histories.

Letters of the shapes: T tokens of the batch, R rows of one block of queries, H query heads, K heads
of keys and values, G = H / K, D head_dim, N tokens of a tile, B sequences of a group.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from agentrt.engine.batch.batch import ForwardBatch
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.cache import KvCache
from agentrt.engine.ops.attention_tiles import (
    HeadTile,
    QueryBlock,
    SingleSequence,
    TileDivider,
    TileDivision,
)
from agentrt.engine.ops.tile import Tile
from agentrt_kernels.contract import Kernels, Score

NAME = "agentrt"
_HIDDEN = torch.finfo(torch.float32).min


@dataclass(slots=True, eq=False)
class PartialSoftmax:
    """Rows that were attended to some tiles.

    Attributes:
        top: `[K, R * G, 1]` largest score.
        total: `[K, R * G, 1]` sum of the weights.
        out: `[K, R * G, D]` weighted values, not divided yet.
    """

    top: Tensor
    total: Tensor
    out: Tensor

    def join(self, other: PartialSoftmax) -> PartialSoftmax:
        """Both, as if they had been one."""
        top = torch.maximum(self.top, other.top)
        mine, theirs = (self.top - top).exp_(), (other.top - top).exp_()
        total = self.total * mine + other.total * theirs
        return PartialSoftmax(top, total, self.out * mine + other.out * theirs)


class PagedAttention:
    """Attention of one model over one KV memory.

    Args:
        kv: The memory.
        tables: Block tables of the running sequences.
        heads: Query heads.
        tile_tokens: Tokens that a tile holds.
        kernels: Who attends; None does it here, tile by tile.

    Attributes:
        layers_seen: Layers of this batch that have asked.
    """

    def __init__(
        self,
        kv: KvCache,
        tables: BlockTables,
        *,
        heads: int,
        tile_tokens: int,
        kernels: Kernels | None = None,
    ) -> None:
        self._kv = kv
        self._kernels = kernels
        self._heads = heads
        self._kv_heads = kv.layout.kv_heads
        self._head_dim = kv.layout.head_dim
        self._shared = heads // kv.layout.kv_heads
        self._tile = Tile(kv, heads=heads, tokens=1 if kernels else tile_tokens)
        self._divider = TileDivider(tables, self._tile, kv.layout.page_tokens)
        self._divisions: dict[int | None, TileDivision] = {}
        self._batch: ForwardBatch | None = None
        self.layers_seen = 0

    def begin(self, batch: ForwardBatch) -> None:
        """From now on, layers ask for this batch."""
        self._batch = batch
        self._divisions.clear()
        self._divider.begin()
        self.layers_seen = 0

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: Score) -> Tensor:
        """Store the new tokens and attend.

        Args:
            layer: Which layer.
            query: `[T, H, D]`.
            key: `[T, K, D]`.
            value: `[T, K, D]`.
            how: How to score.

        Returns:
            `[T, H, D]`.
        """
        batch = self._batch
        assert batch is not None
        self.layers_seen += 1
        flat = (query.shape[0], self._kv_heads * self._head_dim)
        self._kv.write(layer, batch.kv_rows, key.reshape(flat), value.reshape(flat))
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        self.over_pages(layer, query, how, out)
        return out

    def over_pages(self, layer: int, query: Tensor, how: Score, out: Tensor) -> None:
        """Attend `query` `[T, H, D]` into `out`; the batch's keys and values are stored already."""
        batch = self._batch
        assert batch is not None
        if self._kernels is not None:
            self._by_kernels(self._kernels, layer, query, batch, how, out)
            return
        division = self._divisions.get(how.window)
        if division is None:
            division = self._divider.divide(batch.spans, how.window)
            self._divisions[how.window] = division
        if division.only is not None and how.sinks is None:
            out.copy_(self._single(layer, query, division.only, how))
            return
        for group in division.groups:
            out[group.rows] = self._together(layer, query[group.rows], group, how).to(out.dtype)
        for alone in division.alone:
            if len(alone.tiles) == 1 and how.sinks is None:
                self._in_one_tile(layer, query, alone, how, out)
            else:
                self._in_tiles(layer, query, alone, how, out)

    def _by_kernels(
        self,
        kernels: Kernels,
        layer: int,
        query: Tensor,
        batch: ForwardBatch,
        how: Score,
        out: Tensor,
    ) -> None:
        pages = self._kv.memory[:, layer]
        if query.dtype == pages.dtype:
            kernels.attend(query, pages, batch.paged, how, out)
            return
        mixed = torch.empty(query.shape, dtype=pages.dtype, device=pages.device)
        kernels.attend(query.to(pages.dtype), pages, batch.paged, how, mixed)
        out.copy_(mixed)

    def _together(self, layer: int, query: Tensor, group: HeadTile, how: Score) -> Tensor:
        """One row of each of several sequences: `[B, H, D]` to `[B, H, D]` fp32."""
        heads, shared, dim, size = self._kv_heads, self._shared, self._head_dim, group.size
        self._tile.load(layer, group.loaded)
        query = query.float().reshape(size, heads, shared, dim)
        scores, weights = group.scores, group.weights
        for head in range(heads):
            row = scores[head]
            _multiply(query[:, head], group.keys[head], how.scaling, row)
        _shape(scores, group.hidden, how.softcap)
        if how.sinks is None:
            torch.softmax(scores, -1, out=weights)
        else:
            sinks = how.sinks.float().view(heads, 1, shared, 1)
            top = torch.maximum(scores.amax(-1, keepdim=True), sinks)
            torch.exp(scores.sub_(top), out=weights)
            weights.div_(weights.sum(-1, keepdim=True).add_((sinks - top).exp_()))
        out = query.new_empty((heads, size, shared, dim))
        for head in range(heads):
            torch.bmm(weights[head], group.values[head], out=out[head])
        return out.permute(1, 0, 2, 3).reshape(size, self._heads, dim)

    def _single(self, layer: int, query: Tensor, alone: SingleSequence, how: Score) -> Tensor:
        """The one row of the batch: `[1, H, D]` fp32."""
        self._tile.load(layer, alone.tiles[0])
        block = alone.blocks[0][0]
        packed = query.reshape(self._kv_heads, self._shared, self._head_dim).float()
        _multiply(packed, block.key, how.scaling, block.scores)
        _shape(block.scores, None, how.softcap)
        torch.softmax(block.scores, -1, out=block.weights)
        return torch.bmm(block.weights, block.value).view(1, self._heads, self._head_dim)

    def _in_one_tile(
        self, layer: int, query: Tensor, alone: SingleSequence, how: Score, out: Tensor
    ) -> None:
        """All that the rows see is in one tile: a plain softmax."""
        self._tile.load(layer, alone.tiles[0])
        for block in alone.blocks[0]:
            self._score(query, block, how)
            torch.softmax(block.scores, -1, out=block.weights)
            self._put(torch.bmm(block.weights, block.value), block, out)

    def _in_tiles(
        self, layer: int, query: Tensor, alone: SingleSequence, how: Score, out: Tensor
    ) -> None:
        """Tile after tile, joined by log-sum-exp; a sink joins as a tile that holds nothing."""
        folds: dict[int, PartialSoftmax] = {}
        last: dict[int, QueryBlock] = {}
        for tile, blocks in zip(alone.tiles, alone.blocks, strict=True):
            self._tile.load(layer, tile)
            for block in blocks:
                self._score(query, block, how)
                top = block.scores.amax(-1, keepdim=True)
                torch.exp(block.scores.sub_(top), out=block.weights)
                total = block.weights.sum(-1, keepdim=True)
                fold = PartialSoftmax(top, total, torch.bmm(block.weights, block.value))
                start = block.rows.start
                folds[start] = folds[start].join(fold) if start in folds else fold
                last[start] = block
        for start, fold in folds.items():
            block = last[start]
            if how.sinks is not None:
                fold = fold.join(self._sink(how.sinks, fold))
            self._put(fold.out / fold.total, block, out)

    def _score(self, query: Tensor, block: QueryBlock, how: Score) -> None:
        """Fill a block's scores."""
        heads, shared, rows = self._kv_heads, self._shared, block.count
        packed = query[block.rows].view(rows, heads, shared, self._head_dim).transpose(0, 1)
        packed = packed.reshape(heads, rows * shared, self._head_dim).float()
        _multiply(packed, block.key, how.scaling, block.scores)
        wide = block.scores.view(heads, rows, shared, -1)
        _shape(wide, block.hidden, how.softcap)

    def _put(self, result: Tensor, block: QueryBlock, out: Tensor) -> None:
        """`result`: `[K, R * G, D]`."""
        shape = (self._kv_heads, block.count, self._shared, self._head_dim)
        wide = result.view(shape).transpose(0, 1)
        out[block.rows].view(wide.shape).copy_(wide)

    def _sink(self, sinks: Tensor, like: PartialSoftmax) -> PartialSoftmax:
        rows = like.top.shape[1] // self._shared
        shape = (self._kv_heads, rows, self._shared)
        top = sinks.float().view(self._kv_heads, 1, self._shared).expand(shape)
        top = top.reshape(like.top.shape)
        return PartialSoftmax(top, torch.ones_like(top), torch.zeros_like(like.out))


def _multiply(query: Tensor, key: Tensor, scaling: float, scores: Tensor) -> None:
    """`scores = query @ key * scaling`; with `beta=0` what they held does not count."""
    torch.baddbmm(scores, query, key, beta=0, alpha=scaling, out=scores)


def _shape(scores: Tensor, hidden: Tensor | None, softcap: float | None) -> None:
    if softcap is not None:
        scores.div_(softcap).tanh_().mul_(softcap)
    if hidden is not None:
        scores.masked_fill_(hidden, _HIDDEN)


_current: ContextVar[PagedAttention | None] = ContextVar("agentrt_attention", default=None)


@contextmanager
def serving(attention: PagedAttention) -> Iterator[None]:
    """Models of this thread attend through `attention`."""
    token = _current.set(attention)
    try:
        yield
    finally:
        _current.reset(token)


def current() -> PagedAttention:
    """Whom models of this thread attend through."""
    paged = _current.get()
    assert paged is not None, "the model ran outside the engine"
    return paged


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """What transformers calls: `[1, H, T, D]` and `[1, K, T, D]` to `[1, T, H, D]`."""
    how = Score(scaling or query.shape[-1] ** -0.5, softcap, sliding_window, s_aux)
    layer: int = module.layer_idx  # type: ignore[assignment]
    query, key, value = query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1)
    return current()(layer, query, key, value, how)[None], None
