"""Attention over pages, as transformers' models call it.

The function registered here receives the packed rows of a whole batch, stores their keys and
values, and attends each span to its own pages. Pages are read in tiles of a constant size and
joined by log-sum-exp, in buffers made once: a step allocates the same whatever the length of the
histories.

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

from agentrt.engine.batch import BlockTables, ForwardBatch, Span
from agentrt.engine.kv import PagedKv

NAME = "agentrt"


@dataclass(frozen=True, slots=True)
class Score:
    """How one layer scores.

    Attributes:
        scaling: Of query times key.
        softcap: Bound by `tanh`, or None.
        window: A token sees this many, itself among them; None sees all.
        sinks: `[H]` logits of a place that holds nothing, or None.
    """

    scaling: float
    softcap: float | None
    window: int | None
    sinks: Tensor | None


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences with one row each that share a tile.

    Attributes:
        rows: `[B]` their rows in the batch; a slice where they follow each other.
        blocks: `[B * pages]` of the tile.
        tokens: N, the longest reach, in whole pages.
        hidden: `[B, 1, N]` places that a row must not see.
    """

    rows: slice | Tensor
    size: int
    blocks: Tensor
    tokens: int
    hidden: Tensor


@dataclass(frozen=True, slots=True)
class Work:
    """A batch's attention, for one window: the same for all layers that have it.

    Attributes:
        groups: Decoding sequences, several a tile.
        alone: Spans that are attended one by one.
    """

    groups: tuple[Group, ...]
    alone: tuple[Span, ...]


class PagedAttention:
    """Attention of one model over one KV memory.

    Attributes:
        tile_tokens: Most tokens that are read at once.
        layers_seen: Layers of this batch that have asked.
    """

    def __init__(
        self, kv: PagedKv, tables: BlockTables, *, heads: int, tile_tokens: int = 4096
    ) -> None:
        layout = kv.layout
        size = layout.page_tokens
        self._kv = kv
        self._tables = tables
        self._heads = heads
        self._tile_pages = max(1, tile_tokens // size)
        self.tile_tokens = self._tile_pages * size
        self._work: dict[int | None, Work] = {}
        self._batch: ForwardBatch | None = None
        width = layout.kv_heads * layout.head_dim
        shape = (self._tile_pages, size * width)
        self._key = torch.empty(shape, dtype=layout.dtype, device=layout.device)
        self._value = torch.empty_like(self._key)
        self._exact = layout.dtype == torch.float32
        if not self._exact:
            self._key_wide = torch.empty(shape, dtype=torch.float32, device=layout.device)
            self._value_wide = torch.empty_like(self._key_wide)
        # 64 rows of a full tile, or more rows of a shorter one.
        self._most_scores = 64 * heads * self.tile_tokens
        self._scores = torch.empty(self._most_scores, dtype=torch.float32, device=layout.device)
        self._weights = torch.empty_like(self._scores)
        self._places = torch.arange(self.tile_tokens, device=layout.device)
        self.layers_seen = 0

    def begin(self, batch: ForwardBatch) -> None:
        """From now on, layers ask for this batch."""
        self._batch = batch
        self._work.clear()
        self.layers_seen = 0

    def __call__(self, layer: int, query: Tensor, key: Tensor, value: Tensor, how: Score) -> Tensor:
        """Store the new tokens and attend.

        Args:
            layer: Which layer.
            query: `[H, T, D]`.
            key: `[K, T, D]`.
            value: `[K, T, D]`.
            how: How to score.

        Returns:
            `[T, H, D]`.
        """
        batch = self._batch
        assert batch is not None
        layout = self._kv.layout
        self.layers_seen += 1
        tokens = query.shape[1]
        width = layout.kv_heads * layout.head_dim
        key = key.transpose(0, 1).reshape(tokens, width)
        value = value.transpose(0, 1).reshape(tokens, width)
        self._kv.write(layer, batch.rows, key, value)
        work = self._work.get(how.window)
        if work is None:
            work = self._work[how.window] = self._divide(batch.spans, how.window)
        query = query.transpose(0, 1)  # [T, H, D]
        out = torch.empty((tokens, self._heads, layout.head_dim), dtype=query.dtype)
        out = out.to(layout.device)
        for group in work.groups:
            out[group.rows] = self._together(layer, query[group.rows], group, how).to(out.dtype)
        for span in work.alone:
            self._one(layer, query, span, how, out)
        return out

    def _divide(self, spans: tuple[Span, ...], window: int | None) -> Work:
        """Put decoding sequences together as long as they fit a tile, the longest first."""
        size = self._kv.layout.page_tokens
        alone = [span for span in spans if span.tokens > 1]
        single = [span for span in spans if span.tokens == 1]
        single.sort(key=lambda span: -_reach_pages(span, window, size))
        groups: list[Group] = []
        while single:
            pages = _reach_pages(single[0], window, size)
            fit = max(1, self._tile_pages // pages)
            members, single = single[:fit], single[fit:]
            if len(members) == 1:
                alone.append(members[0])
            else:
                groups.append(self._group(members, pages, window))
        return Work(tuple(groups), tuple(alone))

    def _group(self, members: list[Span], pages: int, window: int | None) -> Group:
        size = self._kv.layout.page_tokens
        tokens = pages * size
        members = sorted(members, key=lambda span: span.start)
        first = [_first_seen(span.kv_tokens - 1, window) // size for span in members]
        table = self._tables.blocks
        blocks = torch.cat(
            [
                table[span.slot, at : at + pages]
                if at + pages <= table.shape[1]
                else _padded(table[span.slot, at:], pages)
                for span, at in zip(members, first, strict=True)
            ]
        )
        device = table.device
        ends = [
            span.kv_tokens - at * size for span, at in zip(members, first, strict=True)
        ]  # exclusive
        begins = [
            _first_seen(span.kv_tokens - 1, window) - at * size
            for span, at in zip(members, first, strict=True)
        ]
        places = self._places[:tokens]
        hidden = (places >= torch.tensor(ends, device=device)[:, None]) | (
            places < torch.tensor(begins, device=device)[:, None]
        )
        rows = [span.start for span in members]
        at = rows[0]
        follow = rows == list(range(at, at + len(rows)))
        return Group(
            rows=slice(at, at + len(rows)) if follow else torch.tensor(rows, device=device),
            size=len(members),
            blocks=blocks,
            tokens=tokens,
            hidden=hidden[:, None, :],
        )

    def _together(self, layer: int, query: Tensor, group: Group, how: Score) -> Tensor:
        """One row of each of several sequences: `[B, H, D]` to `[B, H, D]`."""
        layout = self._kv.layout
        heads, dim = layout.kv_heads, layout.head_dim
        size, shared = group.size, self._heads // layout.kv_heads
        key, value = self._load(layer, group.blocks)
        key = key.view(size, group.tokens, heads, dim)
        value = value.view(size, group.tokens, heads, dim)
        query = (query.float() * how.scaling).view(size, heads, shared, dim)
        count = self._heads * size * group.tokens
        scores = self._scores[:count].view(heads, size, shared, group.tokens)
        for head in range(heads):
            torch.bmm(query[:, head], key[:, :, head].transpose(1, 2), out=scores[head])
        _shape_scores(scores, group.hidden, how.softcap)
        out = query.new_empty((heads, size, shared, dim))
        weights = self._weights[:count].view(heads, size, shared, group.tokens)
        if how.sinks is None:
            torch.softmax(scores, -1, out=weights)
        else:
            sinks = how.sinks.float().view(heads, 1, shared, 1)
            top = torch.maximum(scores.amax(-1, keepdim=True), sinks)
            torch.exp(scores.sub_(top), out=weights)
            weights.div_(weights.sum(-1, keepdim=True).add_((sinks - top).exp_()))
        for head in range(heads):
            torch.bmm(weights[head], value[:, :, head], out=out[head])
        return out.permute(1, 0, 2, 3).reshape(size, self._heads, dim)

    def _one(self, layer: int, query: Tensor, span: Span, how: Score, out: Tensor) -> None:
        """The rows of one sequence, in blocks of queries."""
        size = self._kv.layout.page_tokens
        begin = span.kv_tokens - span.tokens
        low = _first_seen(begin, how.window) // size * size
        reach = span.kv_tokens - low
        if reach <= self.tile_tokens:
            pages = -(-reach // size)
            held = self._load(layer, self._tables.blocks[span.slot, low // size :][:pages])
        else:
            held = None
        most = max(1, self._most_scores // (self._heads * min(reach, self.tile_tokens)))
        for at in range(0, span.tokens, most):
            rows = slice(span.start + at, span.start + min(at + most, span.tokens))
            block = query[rows]
            first = begin + at
            if held is not None:
                parts = _Fold(self, block, first, how, last_tile=True)
                parts.add(*held, low)
            else:
                parts = _Fold(self, block, first, how, last_tile=False)
                last = first + block.shape[0]
                start = _first_seen(first, how.window) // size * size
                for tile in range(start, last, self.tile_tokens):
                    pages = -(-(min(tile + self.tile_tokens, last) - tile) // size)
                    blocks = self._tables.blocks[span.slot, tile // size :][:pages]
                    parts.add(*self._load(layer, blocks), tile)
            out[rows] = parts.result().to(out.dtype)

    def _load(self, layer: int, blocks: Tensor) -> tuple[Tensor, Tensor]:
        """Pages into the tile: keys and values `[N, K, D]` in fp32."""
        layout = self._kv.layout
        count = blocks.shape[0]
        key, value = self._key[:count], self._value[:count]
        self._kv.read(layer, blocks, key, value)
        if not self._exact:
            key = self._key_wide[:count].copy_(key)
            value = self._value_wide[:count].copy_(value)
        shape = (count * layout.page_tokens, layout.kv_heads, layout.head_dim)
        return key.view(shape), value.view(shape)

    def buffers(self, heads: int, rows: int, tokens: int) -> tuple[Tensor, Tensor]:
        """Scores and weights, `[heads, rows, tokens]` each."""
        count = heads * rows * tokens
        shape = (heads, rows, tokens)
        return self._scores[:count].view(shape), self._weights[:count].view(shape)

    @property
    def places(self) -> Tensor:
        """`[tile_tokens]` 0, 1, 2 ..."""
        return self._places


class _Fold:
    """A block of queries of one sequence, folded over tiles by running log-sum-exp."""

    def __init__(
        self, owner: PagedAttention, block: Tensor, first: int, how: Score, *, last_tile: bool
    ) -> None:
        self._owner = owner
        self._how = how
        self._first = first
        self._only = last_tile and how.sinks is None
        rows, heads, dim = block.shape
        self._shape = (rows, heads, dim)
        self._block = block
        self._query: Tensor | None = None
        self._top: Tensor | None = None
        self._sum: Tensor | None = None
        self._out: Tensor | None = None

    def add(self, key: Tensor, value: Tensor, low: int) -> None:
        """Attend to a tile of keys and values `[N, K, D]` that begins at position `low`."""
        rows, heads, dim = self._shape
        kv_heads = key.shape[1]
        shared = heads // kv_heads
        window = self._how.window
        begin = _first_seen(self._first, window) - low
        begin, end = max(0, begin), min(key.shape[0], self._first + rows - low)
        key, value = key[begin:end], value[begin:end]
        low += begin
        tokens = end - begin
        if self._query is None:
            query = self._block.view(rows, kv_heads, shared, dim).transpose(0, 1)
            query = query.reshape(kv_heads, rows * shared, dim).float()
            self._query = query * self._how.scaling  # [K, R * G, D]
        scores, weights = self._owner.buffers(kv_heads, rows * shared, tokens)
        torch.bmm(self._query, key.permute(1, 2, 0), out=scores)
        hidden = self._hidden(low, tokens)
        view = scores.view(kv_heads, rows, shared, tokens)
        _shape_scores(view, hidden, self._how.softcap)
        value = value.transpose(0, 1)  # [K, N, D]
        if self._only:
            torch.softmax(scores, -1, out=weights)
            self._out = torch.bmm(weights, value)
            return
        top = scores.amax(-1, keepdim=True)
        if self._top is not None:
            top = torch.maximum(top, self._top)
        torch.exp(scores.sub_(top), out=weights)
        total, out = weights.sum(-1, keepdim=True), torch.bmm(weights, value)
        if self._top is not None and self._sum is not None and self._out is not None:
            rest = (self._top - top).exp_()
            total += self._sum * rest
            out += self._out * rest
        self._top, self._sum, self._out = top, total, out

    def result(self) -> Tensor:
        """`[R, H, D]` in fp32."""
        rows, heads, dim = self._shape
        out = self._out
        assert out is not None
        kv_heads = out.shape[0]
        shared = heads // kv_heads
        if not self._only:
            top, total = self._top, self._sum
            assert top is not None
            assert total is not None
            if self._how.sinks is not None:
                sinks = self._how.sinks.float().view(kv_heads, 1, shared)
                sinks = sinks.expand(kv_heads, rows, shared).reshape(kv_heads, rows * shared, 1)
                new_top = torch.maximum(top, sinks)
                rest = (top - new_top).exp_()
                out = out * rest
                total = total * rest + (sinks - new_top).exp_()
            out = out / total
        return out.view(kv_heads, rows, shared, dim).transpose(0, 1).reshape(rows, heads, dim)

    def _hidden(self, low: int, tokens: int) -> Tensor | None:
        """`[R, 1, N]` places that a row must not see, or None when each row sees all."""
        rows = self._shape[0]
        window = self._how.window
        last = self._first + rows - 1
        within = window is None or low >= last - window + 1
        if low + tokens <= self._first + 1 and within:
            return None
        places = self._owner.places
        ahead = places[:tokens] + low
        here = torch.arange(self._first, self._first + rows, device=places.device)[:, None]
        hidden = ahead > here
        if not within:
            assert window is not None
            hidden |= ahead <= here - window
        return hidden[:, None, :]


def _shape_scores(scores: Tensor, hidden: Tensor | None, softcap: float | None) -> None:
    if softcap is not None:
        scores.div_(softcap).tanh_().mul_(softcap)
    if hidden is not None:
        scores.masked_fill_(hidden, torch.finfo(torch.float32).min)


def _first_seen(position: int, window: int | None) -> int:
    return 0 if window is None else max(0, position - window + 1)


def _reach_pages(span: Span, window: int | None, page_tokens: int) -> int:
    """Pages that hold what a decoding row sees."""
    first = _first_seen(span.kv_tokens - 1, window) // page_tokens
    return -(-span.kv_tokens // page_tokens) - first


def _padded(blocks: Tensor, pages: int) -> Tensor:
    return torch.cat([blocks, blocks.new_zeros(pages - blocks.shape[0])])


_current: ContextVar[PagedAttention | None] = ContextVar("agentrt_attention", default=None)


@contextmanager
def serving(attention: PagedAttention) -> Iterator[None]:
    """Models of this thread attend through `attention`."""
    token = _current.set(attention)
    try:
        yield
    finally:
        _current.reset(token)


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
    paged = _current.get()
    assert paged is not None, "the model ran outside the engine"
    how = Score(scaling or query.shape[-1] ** -0.5, softcap, sliding_window, s_aux)
    layer: int = module.layer_idx  # type: ignore[assignment]
    return paged(layer, query[0], key[0], value[0], how)[None], None
