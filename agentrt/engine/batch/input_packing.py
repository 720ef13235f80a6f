"""Input packing: the token ids, positions, slot mapping and lengths of a batch in one flat buffer.

One buffer means one copy to the device, and one copy to refresh the inputs of a CUDA graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack_into

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(slots=True, eq=False)
class SequenceSlice:
    """Tokens of one sequence in a batch.

    Attributes:
        slot: Row of its block table.
        token_ids: Tokens to compute; `-1 - s` stands for the token last sampled in slot `s`.
        first_position: Position of the first token.
        wants_logits: Whether the logits behind the last token are needed.
        draft_tokens: How many of the last tokens are guesses. Logits are then needed behind the
            last known token and behind each guess.
        angle_offset: Added to positions where angles are looked up; see `Sequence.angle_offset`.
        load_group: Group of counters of its choice of experts.
        adapter: Number of its adapter from 1 on; 0 for none.
    """

    slot: int
    token_ids: Sequence[int]
    first_position: int
    wants_logits: bool
    draft_tokens: int = 0
    angle_offset: int = 0
    load_group: int = 0
    adapter: int = 0


def adapter_rows(slices: Sequence[SequenceSlice], tokens: int) -> Tensor | None:
    """The adapter of each of so many rows, `[tokens]` int32; None if no row has one."""
    if not any(part.adapter for part in slices):
        return None
    rows: list[int] = []
    for part in slices:
        rows += [part.adapter] * len(part.token_ids)
    return torch.tensor([*rows, *[0] * (tokens - len(rows))], dtype=torch.int32)


def logit_rows(slices: Sequence[SequenceSlice]) -> list[int]:
    """Rows of the packed `slices` that need logits, those behind guesses included."""
    rows: list[int] = []
    end = 0
    for part in slices:
        end += len(part.token_ids)
        if part.wants_logits:
            rows += range(end - 1 - part.draft_tokens, end)
    return rows


@dataclass(slots=True, eq=False)
class InputFields:
    """Views of one flat buffer, for T rows of B sequences.

    Attributes:
        flat: Used part of the buffer, int64.
        token_ids: `[T]` int64.
        positions: `[T]` int64, rows of the table of angles.
        slot_mapping: `[T]` int64, where each token's KV goes: `page * page_tokens + offset`; a
            negative slot stores nothing.
        table_rows: `[B]` int64, rows of the block tables.
        logit_rows: `[B]` int64, rows that need logits; unused entries are 0.
        query_start: `[B + 1]` int32.
        kv_tokens: `[B]` int32.
    """

    flat: Tensor
    token_ids: Tensor
    positions: Tensor
    slot_mapping: Tensor
    table_rows: Tensor
    logit_rows: Tensor
    query_start: Tensor
    kv_tokens: Tensor

    @classmethod
    def split(cls, buffer: Tensor, tokens: int, sequences: int) -> InputFields:
        """Split `buffer`, int64, at least `buffer_words(tokens, sequences)` long."""
        flat = buffer[: buffer_words(tokens, sequences)]
        sizes = (tokens, tokens, tokens, sequences, sequences, sequences + 1)
        ids, positions, mapping, tables, logits, narrow = flat.split_with_sizes(sizes)
        starts, contexts, _ = narrow.view(torch.int32).split_with_sizes(
            (sequences + 1, sequences, 1)
        )
        return cls(flat, ids, positions, mapping, tables, logits, starts, contexts)


def buffer_words(tokens: int, sequences: int) -> int:
    """Length of a flat buffer, in int64."""
    return 3 * tokens + 3 * sequences + 1


@dataclass(slots=True, eq=False)
class PackedInputs:
    """Sizes of a packed batch.

    Attributes:
        tokens: Rows, padding included.
        logits: Rows that need logits.
        max_query_tokens: Rows of the longest slice.
        max_kv_tokens: Longest context, in tokens.
        has_unknown_tokens: Whether a token is known only by the slot in which it was sampled.
    """

    tokens: int
    logits: int
    max_query_tokens: int
    max_kv_tokens: int
    has_unknown_tokens: bool


_FEW_ROWS = 96
"""Rows up to which plain Python maps the chunks of prompts faster than numpy."""


class InputPacker:
    """Writes batches into flat buffers.

    Plain Python maps decodes to their slots, numpy maps batches with long chunks of prompts.

    Args:
        pages: `[slots, pages]` int32 page numbers, read when a buffer is packed.
        page_tokens: Tokens of a page.
    """

    def __init__(self, pages: NDArray[np.int32], page_tokens: int) -> None:
        self._pages = pages
        self._page_tokens = page_tokens

    def pack_inputs(
        self,
        flat: NDArray[np.int64],
        slices: Sequence[SequenceSlice],
        padding: int = 0,
        padded_tokens: int = 0,
    ) -> PackedInputs:
        """Pack `slices` into `flat`.

        Args:
            flat: Buffer, long enough.
            slices: At least one.
            padding: How many slices, the last ones, have one token each and store no KV.
            padded_tokens: Rows to pad to; added rows belong to no sequence.
        """
        page_of, size = self._pages.item, self._page_tokens
        ids: list[int] = []
        positions: list[int] = []
        slot_mapping: list[int] = []
        ends = [0]
        contexts: list[int] = []
        logits: list[int] = []
        longest = 0
        for part in slices:
            first, count = part.first_position, len(part.token_ids)
            ids += part.token_ids
            if count == 1:  # a decode
                positions.append(first + part.angle_offset)
                slot_mapping.append(page_of(part.slot, first // size) * size + first % size)
            elif len(ids) <= _FEW_ROWS:
                for position in range(first, first + count):
                    positions.append(position + part.angle_offset)
                    page = page_of(part.slot, position // size)
                    slot_mapping.append(page * size + position % size)
            ends.append(len(ids))
            contexts.append(first + count)
            if part.wants_logits:
                logits.append(len(ids) - 1)
            if count > longest:
                longest = count
        tokens, total = len(ids), max(len(ids), padded_tokens)
        tables = [part.slot for part in slices]
        packed = PackedInputs(total, len(logits), longest, max(contexts), min(ids) < 0)
        tail = [*tables, *logits, *[0] * (len(tables) - len(logits))]
        narrow = [*ends, *contexts]
        more = [0] * (total - tokens)
        if len(slot_mapping) == tokens:
            if padding:
                del slot_mapping[-padding:]
            slot_mapping += [-1] * (total - len(slot_mapping))
            wide = [*ids, *more, *positions, *more, *slot_mapping, *tail]
            pack_into(f"={len(wide)}q{len(narrow)}i", flat.data, 0, *wide, *narrow)
            return packed
        columns = flat[: 3 * total].reshape(3, total)
        pack_into(f"={total}q", flat.data, 0, *ids, *more)
        offsets = [part.angle_offset for part in slices]
        columns[1:, :tokens] = self._map_rows(tables, contexts, ends, offsets)
        columns[1, tokens:] = 0
        columns[2, tokens - padding :] = -1
        start = 3 * total * flat.itemsize
        pack_into(f"={len(tail)}q{len(narrow)}i", flat.data, start, *tail, *narrow)
        return packed

    def _map_rows(
        self, tables: list[int], contexts: list[int], ends: list[int], offsets: list[int]
    ) -> NDArray[np.int64]:
        """`[2, rows]`, the row of the angles and the slot of each row."""
        slots, kv_tokens, row_ends, angle_offsets = np.array((tables, contexts, ends[1:], offsets))
        counts = np.diff(ends)
        positions = np.arange(ends[-1]) + np.repeat(kv_tokens - row_ends, counts)
        block, offset = np.divmod(positions, self._page_tokens)
        pages = self._pages[np.repeat(slots, counts), block]
        positions += np.repeat(angle_offsets, counts)
        return np.stack((positions, pages * self._page_tokens + offset))
