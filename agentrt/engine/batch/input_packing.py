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
    """

    slot: int
    token_ids: Sequence[int]
    first_position: int
    wants_logits: bool
    draft_tokens: int = 0


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
        positions: `[T]` int64.
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


class InputPacker:
    """Writes batches into flat buffers.

    Plain Python: for decodes it is faster than numpy, and long prompts are mapped page by page.

    Args:
        pages: `[slots, pages]` int32 page numbers, read when a buffer is packed.
        page_tokens: Tokens of a page.
    """

    def __init__(self, pages: NDArray[np.int32], page_tokens: int) -> None:
        self._page_of = pages.item
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
        page_of, size = self._page_of, self._page_tokens
        ids: list[int] = []
        positions: list[int] = []
        mapping: list[int] = []
        ends = [0]
        contexts: list[int] = []
        logits: list[int] = []
        longest = 0
        for part in slices:
            first, count = part.first_position, len(part.token_ids)
            ids += part.token_ids
            if count == 1:  # a decode
                positions.append(first)
                mapping.append(page_of(part.slot, first // size) * size + first % size)
            else:
                positions += range(first, first + count)
                self._map_slots(mapping, part.slot, first, first + count)
            ends.append(len(ids))
            contexts.append(first + count)
            if part.wants_logits:
                logits.append(len(ids) - 1)
            if count > longest:
                longest = count
        packed = PackedInputs(
            tokens=max(len(ids), padded_tokens),
            logits=len(logits),
            max_query_tokens=longest,
            max_kv_tokens=max(contexts),
            has_unknown_tokens=min(ids) < 0,
        )
        more = [0] * (packed.tokens - len(ids))
        if padding:
            del mapping[-padding:]
        mapping += [-1] * (packed.tokens - len(mapping))
        tables = [part.slot for part in slices]
        logits += [0] * (len(tables) - len(logits))
        wide = [*ids, *more, *positions, *more, *mapping, *tables, *logits]
        narrow = len(ends) + len(contexts)
        pack_into(f"={len(wide)}q{narrow}i", flat.data, 0, *wide, *ends, *contexts)
        return packed

    def _map_slots(self, mapping: list[int], slot: int, first: int, end: int) -> None:
        """Append the token slots of positions [first, end) of the sequence in `slot`."""
        size = self._page_tokens
        while first < end:
            page, offset = divmod(first, size)
            start = self._page_of(slot, page) * size + offset
            count = min(size - offset, end - first)
            mapping += range(start, start + count)
            first += count
