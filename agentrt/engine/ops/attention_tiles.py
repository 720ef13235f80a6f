"""Division of a batch's attention into tiles: once per step and sight, for all layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from agentrt.engine.batch.batch import QuerySpan
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.ops.tile import LoadedPages, Tile


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Sequences with one row each that share a tile.

    B sequences, N tokens of the longest context, in whole pages.

    Attributes:
        rows: B, their rows in the batch; a slice if they are contiguous.
        size: B.
        loaded: The tile.
        keys: For each of K heads, `[B, D, N]`.
        values: For each of K heads, `[B, N, D]`.
        scores: `[K, B, G, N]`.
        weights: `[K, B, G, N]`.
        mask: `[B, 1, N]` tokens that a row must not see.
    """

    rows: slice | Tensor
    size: int
    loaded: LoadedPages
    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]
    scores: Tensor
    weights: Tensor
    mask: Tensor


@dataclass(frozen=True, slots=True)
class QueryBlock:
    """Some rows of one sequence, and the part of its tile that they see.

    R rows, N tokens that any of them sees.

    Attributes:
        rows: Rows in the batch.
        count: R.
        key: `[K, D, N]` of the tile.
        value: `[K, N, D]` of the tile.
        scores: `[K, R * G, N]`.
        weights: `[K, R * G, N]`.
        mask: `[R, 1, N]` tokens that a row must not see; None if each sees all.
    """

    rows: slice
    count: int
    key: Tensor
    value: Tensor
    scores: Tensor
    weights: Tensor
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class SingleSequence:
    """One sequence that shares its tiles with no other.

    Attributes:
        tiles: Tiles of its context, mostly one.
        blocks: For each tile, the query blocks that see part of it.
    """

    tiles: tuple[LoadedPages, ...]
    blocks: tuple[tuple[QueryBlock, ...], ...]


@dataclass(frozen=True, slots=True)
class TileDivision:
    """Division of a batch's attention under one sight.

    Attributes:
        groups: Decoding sequences, several per tile.
        sequences: The others, one by one.
        single_row: The batch's only row with its only tile, if that is all there is.
    """

    groups: tuple[DecodeGroup, ...]
    sequences: tuple[SingleSequence, ...]
    single_row: SingleSequence | None


class Sight(NamedTuple):
    """Tokens of its context that a row sees; the fields are those of `Score`."""

    window: int | None = None
    unseen: int = 0


class TileDivider:
    """Divides batches; its buffers grow to the largest batch so far."""

    def __init__(self, tables: BlockTables, tile: Tile, page_tokens: int) -> None:
        self._tables = tables
        self._tile = tile
        self._page_tokens = page_tokens
        self._buffers_pool: list[tuple[Tensor, Tensor, Tensor]] = []
        self._used = 0

    def begin_batch(self) -> None:
        """Begin a new batch: buffers of the last one may be overwritten."""
        self._used = 0

    def divide(self, spans: tuple[QuerySpan, ...], sight: Sight) -> TileDivision:
        """Group decoding sequences while they fit in a tile, the longest first."""
        unshared = [span for span in spans if span.tokens > 1]
        single = [span for span in spans if span.tokens == 1]
        single.sort(key=lambda span: -self._visible_pages(span, sight))
        groups: list[DecodeGroup] = []
        while single:
            pages = self._visible_pages(single[0], sight)
            fit = max(1, self._tile.pages // pages)
            members, single = single[:fit], single[fit:]
            if len(members) == 1:
                unshared += members
            else:
                groups.append(self._group(members, pages, sight))
        sequences = tuple(self._sequence(span, sight) for span in unshared)
        single_row = None
        if len(spans) == 1 and spans[0].tokens == 1 and len(sequences[0].tiles) == 1:
            single_row = sequences[0]
        return TileDivision(tuple(groups), sequences, single_row)

    def _visible_pages(self, span: QuerySpan, sight: Sight) -> int:
        """Pages that a decoding row sees."""
        first = first_visible(span.kv_tokens - 1, sight) // self._page_tokens
        return -(-span.kv_tokens // self._page_tokens) - first

    def _group(self, members: list[QuerySpan], pages: int, sight: Sight) -> DecodeGroup:
        size = self._page_tokens
        tokens = pages * size
        members = sorted(members, key=lambda span: span.start)
        pages_buffer, mask, scratch = self._buffers()
        table = self._tables.block_offsets
        blocks = pages_buffer[: len(members) * pages].zero_()
        begins: list[int] = []
        ends: list[int] = []
        for index, span in enumerate(members):
            seen = first_visible(span.kv_tokens - 1, sight)
            page = seen // size
            row = table[span.slot, page : page + pages]  # shorter at the table's end
            blocks[index * pages : index * pages + row.shape[0]] = row
            begins.append(seen - page * size)
            ends.append(span.kv_tokens - page * size)
        grid = (len(members), tokens)
        indices = self._tile.token_indices[:tokens]
        mask = mask[: len(members) * tokens].view(grid)
        torch.ge(indices, torch.tensor(ends, device=table.device)[:, None], out=mask)
        if sight != Sight():
            before = scratch[: len(members) * tokens].view(grid)
            torch.lt(indices, torch.tensor(begins, device=table.device)[:, None], out=before)
            mask.logical_or_(before)
        rows = [span.start for span in members]
        batch_rows: slice | Tensor = slice(rows[0], rows[-1] + 1)
        if rows[-1] - rows[0] != len(rows) - 1:
            batch_rows = torch.tensor(rows, device=table.device)
        loaded = self._tile.prepare(blocks)
        shape = (len(members), tokens, *loaded.key.shape[1:])
        key, value = loaded.key.view(shape), loaded.value.view(shape)
        heads = self._tile.kv_heads
        scores, weights = self._tile.score_buffers(
            heads, len(members), self._tile.heads // heads, tokens
        )
        return DecodeGroup(
            rows=batch_rows,
            size=len(members),
            loaded=loaded,
            keys=tuple(key[:, :, head].transpose(1, 2) for head in range(heads)),
            values=tuple(value[:, :, head] for head in range(heads)),
            scores=scores,
            weights=weights,
            mask=mask[:, None, :],
        )

    def _buffers(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pages and two masks of a full tile."""
        if self._used == len(self._buffers_pool):
            device = self._tables.block_offsets.device
            self._buffers_pool.append(
                (
                    torch.zeros(self._tile.pages, dtype=torch.int64, device=device),
                    torch.empty(self._tile.tokens, dtype=torch.bool, device=device),
                    torch.empty(self._tile.tokens, dtype=torch.bool, device=device),
                )
            )
        self._used += 1
        return self._buffers_pool[self._used - 1]

    def _sequence(self, span: QuerySpan, sight: Sight) -> SingleSequence:
        size = self._page_tokens
        first = span.kv_tokens - span.tokens
        low = first_visible(first, sight) // size * size
        tiles: list[LoadedPages] = []
        blocks: list[tuple[QueryBlock, ...]] = []
        for begin in range(low, span.kv_tokens, self._tile.tokens):
            end = min(begin + self._tile.tokens, span.kv_tokens)
            pages = -(-(end - begin) // size)
            held = self._tables.block_offsets[span.slot, begin // size : begin // size + pages]
            tiles.append(self._tile.prepare(held))
            blocks.append(self._query_blocks(span, tiles[-1], begin, end, sight))
        return SingleSequence(tuple(tiles), tuple(blocks))

    def _query_blocks(
        self, span: QuerySpan, loaded: LoadedPages, begin: int, end: int, sight: Sight
    ) -> tuple[QueryBlock, ...]:
        """Blocks of rows that see part of the tile of positions `[begin, end)`."""
        first = span.kv_tokens - span.tokens
        max_rows = self._tile.max_rows(min(self._tile.tokens, span.kv_tokens))
        blocks: list[QueryBlock] = []
        for at in range(0, span.tokens, max_rows):
            count = min(max_rows, span.tokens - at)
            position = first + at
            begin_seen = max(begin, first_visible(position, sight))
            end_seen = min(end, position + count)
            if begin_seen >= end_seen:
                continue
            rows = slice(span.start + at, span.start + at + count)
            heads = self._tile.kv_heads
            scores, weights = self._tile.score_buffers(
                heads, count * (self._tile.heads // heads), end_seen - begin_seen
            )
            blocks.append(
                QueryBlock(
                    rows=rows,
                    count=count,
                    key=loaded.key[begin_seen - begin : end_seen - begin].permute(1, 2, 0),
                    value=loaded.value[begin_seen - begin : end_seen - begin].transpose(0, 1),
                    scores=scores,
                    weights=weights,
                    mask=self._mask(position, count, begin_seen, end_seen, sight),
                )
            )
        return tuple(blocks)

    def _mask(self, first: int, rows: int, begin: int, end: int, sight: Sight) -> Tensor | None:
        """`[rows, 1, end - begin]` for rows from position `first` on; None if they see all."""
        window, unseen = sight
        within = window is None or begin > first + rows - 1 - window
        if end <= first + 1 and within and unseen <= max(begin, first):
            return None
        device = self._tables.block_offsets.device
        ahead = torch.arange(begin, end, device=device)
        here = torch.arange(first, first + rows, device=device)[:, None]
        mask = ahead > here
        if window is not None:
            mask |= ahead <= here - window
        if unseen > begin:
            mask |= (ahead < unseen) & (ahead != here)
        return mask[:, None, :]


def first_visible(position: int, sight: Sight) -> int:
    """First position that a token at `position` sees."""
    low = 0 if sight.window is None else position - sight.window + 1
    return min(max(low, sight.unseen), position)
