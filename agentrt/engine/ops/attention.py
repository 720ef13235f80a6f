"""Paged attention, in the form in which transformers' models call it.

The registered function gets the packed rows of a whole batch, stores their keys and values, and
attends each sequence to its own pages: with a kernel set that can, else here. Here pages are read
in tiles of a constant size and merged by log-sum-exp, in buffers allocated once: a step allocates
the same whatever the length of the contexts.

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
    DecodeGroup,
    QueryBlock,
    Sight,
    SingleSequence,
    TileDivider,
    TileDivision,
)
from agentrt.engine.ops.tile import Tile
from agentrt_kernels.contract import Kernels, Score

NAME = "agentrt"
_MASKED = torch.finfo(torch.float32).min


@dataclass(slots=True, eq=False)
class PartialSoftmax:
    """Attention of rows over some of their tiles.

    Attributes:
        top: `[K, R * G, 1]` largest score.
        total: `[K, R * G, 1]` sum of the weights.
        out: `[K, R * G, D]` weighted values, not divided yet.
    """

    top: Tensor
    total: Tensor
    out: Tensor

    def merge(self, other: PartialSoftmax) -> PartialSoftmax:
        """Attention over the tiles of both."""
        top = torch.maximum(self.top, other.top)
        mine, theirs = (self.top - top).exp_(), (other.top - top).exp_()
        total = self.total * mine + other.total * theirs
        return PartialSoftmax(top, total, self.out * mine + other.out * theirs)


class PagedAttention:
    """Attention of one model over its KV cache.

    Args:
        kv: The KV cache.
        tables: Block tables of the running sequences.
        heads: Query heads.
        tile_tokens: Tokens of a tile.
        kernels: Kernel set that attends; None attends here, tile by tile.

    Attributes:
        attended_layers: Layers that have attended in this batch.
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
        self._queries_per_kv = heads // kv.layout.kv_heads
        self._tile = Tile(kv, heads=heads, tokens=1 if kernels else tile_tokens)
        self._divider = TileDivider(tables, self._tile, kv.layout.page_tokens)
        self._divisions: dict[Sight, TileDivision] = {}
        self._batch: ForwardBatch | None = None
        self.attended_layers = 0

    def begin_batch(self, batch: ForwardBatch) -> None:
        """Attend for this batch from now on."""
        self._batch = batch
        self._divisions.clear()
        self._divider.begin_batch()
        self.attended_layers = 0

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: Score) -> Tensor:
        """Store the new tokens' keys and values, and attend.

        Args:
            layer: Index of the layer.
            query: `[T, H, D]`.
            key: `[T, K, D]`.
            value: `[T, K, D]`.
            how: Scaling, cap, window and sinks of the scores.

        Returns:
            `[T, H, D]`.
        """
        batch = self._batch
        assert batch is not None
        self.attended_layers += 1
        flat = (query.shape[0], self._kv_heads * self._head_dim)
        self._kv.write(layer, batch.kv_rows, key.reshape(flat), value.reshape(flat))
        out = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        self.attend_pages(layer, query, how, out)
        return out

    def attend_pages(self, layer: int, query: Tensor, how: Score, out: Tensor) -> None:
        """Attend `query` `[T, H, D]` into `out`, over keys and values that are already stored."""
        batch = self._batch
        assert batch is not None
        if self._kernels is not None:
            self._attend_with_kernels(self._kernels, layer, query, batch, how, out)
            return
        sight = Sight(how.window, how.unseen)
        division = self._divisions.get(sight)
        if division is None:
            division = self._divisions[sight] = self._divider.divide(batch.spans, sight)
        if division.single_row is not None and how.sinks is None:
            out.copy_(self._attend_single_row(layer, query, division.single_row, how))
            return
        for group in division.groups:
            out[group.rows] = self._attend_tile(layer, query[group.rows], group, how).to(out.dtype)
        for sequence in division.sequences:
            if len(sequence.tiles) == 1 and how.sinks is None:
                self._attend_one_tile(layer, query, sequence, how, out)
            else:
                self._attend_tiles(layer, query, sequence, how, out)

    def _attend_with_kernels(
        self,
        kernels: Kernels,
        layer: int,
        query: Tensor,
        batch: ForwardBatch,
        how: Score,
        out: Tensor,
    ) -> None:
        pages, dtype = self._kv.memory[:, layer], self._kv.layout.dtype
        scales = None if self._kv.scales is None else self._kv.scales[:, layer]
        if query.dtype == dtype:
            kernels.attend(query, pages, batch.paged, how, out, scales)
            return
        mixed = torch.empty(query.shape, dtype=dtype, device=pages.device)
        kernels.attend(query.to(dtype), pages, batch.paged, how, mixed, scales)
        out.copy_(mixed)

    def _attend_tile(self, layer: int, query: Tensor, group: DecodeGroup, how: Score) -> Tensor:
        """Attend one row of each of several sequences: `[B, H, D]` to `[B, H, D]` fp32."""
        heads, shared, dim, size = (
            self._kv_heads,
            self._queries_per_kv,
            self._head_dim,
            group.size,
        )
        self._tile.load_pages(layer, group.loaded)
        query = query.float().reshape(size, heads, shared, dim)
        scores, weights = group.scores, group.weights
        for head in range(heads):
            row = scores[head]
            _multiply(query[:, head], group.keys[head], how.scaling, row)
        _cap_and_mask(scores, group.mask, how.softcap)
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

    def _attend_single_row(
        self, layer: int, query: Tensor, sequence: SingleSequence, how: Score
    ) -> Tensor:
        """Attend the only row of the batch: `[1, H, D]` fp32."""
        self._tile.load_pages(layer, sequence.tiles[0])
        block = sequence.blocks[0][0]
        packed = query.reshape(self._kv_heads, self._queries_per_kv, self._head_dim).float()
        _multiply(packed, block.key, how.scaling, block.scores)
        _cap_and_mask(block.scores, None, how.softcap)
        torch.softmax(block.scores, -1, out=block.weights)
        return torch.bmm(block.weights, block.value).view(1, self._heads, self._head_dim)

    def _attend_one_tile(
        self, layer: int, query: Tensor, sequence: SingleSequence, how: Score, out: Tensor
    ) -> None:
        """Attend rows with a context of one tile: a plain softmax."""
        self._tile.load_pages(layer, sequence.tiles[0])
        for block in sequence.blocks[0]:
            self._score(query, block, how)
            torch.softmax(block.scores, -1, out=block.weights)
            self._write_rows(torch.bmm(block.weights, block.value), block, out)

    def _attend_tiles(
        self, layer: int, query: Tensor, sequence: SingleSequence, how: Score, out: Tensor
    ) -> None:
        """Attend tile by tile, merged by log-sum-exp; a sink merges as a tile without values."""
        partials: dict[int, PartialSoftmax] = {}
        last: dict[int, QueryBlock] = {}
        for tile, blocks in zip(sequence.tiles, sequence.blocks, strict=True):
            self._tile.load_pages(layer, tile)
            for block in blocks:
                self._score(query, block, how)
                top = block.scores.amax(-1, keepdim=True)
                torch.exp(block.scores.sub_(top), out=block.weights)
                total = block.weights.sum(-1, keepdim=True)
                partial = PartialSoftmax(top, total, torch.bmm(block.weights, block.value))
                start = block.rows.start
                partials[start] = partials[start].merge(partial) if start in partials else partial
                last[start] = block
        for start, partial in partials.items():
            block = last[start]
            if how.sinks is not None:
                partial = partial.merge(self._sink(how.sinks, partial))
            self._write_rows(partial.out / partial.total, block, out)

    def _score(self, query: Tensor, block: QueryBlock, how: Score) -> None:
        """Fill a block's scores."""
        heads, shared, rows = self._kv_heads, self._queries_per_kv, block.count
        packed = query[block.rows].view(rows, heads, shared, self._head_dim).transpose(0, 1)
        packed = packed.reshape(heads, rows * shared, self._head_dim).float()
        _multiply(packed, block.key, how.scaling, block.scores)
        wide = block.scores.view(heads, rows, shared, -1)
        _cap_and_mask(wide, block.mask, how.softcap)

    def _write_rows(self, result: Tensor, block: QueryBlock, out: Tensor) -> None:
        """Write `result` `[K, R * G, D]` to the block's rows of `out`."""
        shape = (self._kv_heads, block.count, self._queries_per_kv, self._head_dim)
        wide = result.view(shape).transpose(0, 1)
        out[block.rows].view(wide.shape).copy_(wide)

    def _sink(self, sinks: Tensor, like: PartialSoftmax) -> PartialSoftmax:
        rows = like.top.shape[1] // self._queries_per_kv
        shape = (self._kv_heads, rows, self._queries_per_kv)
        top = sinks.float().view(self._kv_heads, 1, self._queries_per_kv).expand(shape)
        top = top.reshape(like.top.shape)
        return PartialSoftmax(top, torch.ones_like(top), torch.zeros_like(like.out))


def _multiply(query: Tensor, key: Tensor, scaling: float, scores: Tensor) -> None:
    """`scores = query @ key * scaling`; `beta=0` ignores what they held."""
    torch.baddbmm(scores, query, key, beta=0, alpha=scaling, out=scores)


def _cap_and_mask(scores: Tensor, mask: Tensor | None, softcap: float | None) -> None:
    if softcap is not None:
        scores.div_(softcap).tanh_().mul_(softcap)
    if mask is not None:
        scores.masked_fill_(mask, _MASKED)


_current: ContextVar[PagedAttention | None] = ContextVar("agentrt_attention", default=None)


@contextmanager
def attending_with(attention: PagedAttention) -> Iterator[None]:
    """Let the models of this thread attend with `attention`."""
    token = _current.set(attention)
    try:
        yield
    finally:
        _current.reset(token)


def current_attention() -> PagedAttention:
    """Attention of this thread's models."""
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
    """The function that transformers calls: `[1, H, T, D]` and `[1, K, T, D]` to `[1, T, H, D]`."""
    how = Score(scaling or query.shape[-1] ** -0.5, softcap, sliding_window, s_aux)
    layer: int = module.layer_idx  # type: ignore[assignment]
    query, key, value = query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1)
    return current_attention()(layer, query, key, value, how)[None], None
