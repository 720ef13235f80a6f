"""The flat buffer of a batch: everything that varies from one to the next, as numbers in a row.

What few rows bring is written by plain Python: below some thirty of them the calls of numpy cost
more than the numbers. Both ways write the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from struct import pack_into

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from agentrt.engine.batch.part import SequenceSlice

FEW_ROWS = 32
"""Up to so many rows are written by plain Python."""


@dataclass(slots=True, eq=False)
class InputFields:
    """Views of one flat buffer, for T rows of B sequences.

    Attributes:
        flat: The used part of the buffer, int64.
        token_ids: `[T]` int64.
        positions: `[T]` int64.
        slots: `[T]` int64 token slots, `page * page_tokens + offset`.
        tables: `[B]` int64, rows of the block tables.
        wanted: `[B]` int64, rows whose logits are wanted; those that are not used are 0.
        query_start: `[B + 1]` int32.
        kv_tokens: `[B]` int32.
    """

    flat: Tensor
    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    tables: Tensor
    wanted: Tensor
    query_start: Tensor
    kv_tokens: Tensor

    @classmethod
    def of(cls, room: Tensor, tokens: int, sequences: int) -> InputFields:
        """Cut `room`, int64, at least `words(tokens, sequences)` long."""
        flat = room[: words(tokens, sequences)]
        sizes = (tokens, tokens, tokens, sequences, sequences, sequences + 1)
        ids, positions, slots, tables, wanted, narrow = flat.split_with_sizes(sizes)
        starts, contexts, _ = narrow.view(torch.int32).split_with_sizes(
            (sequences + 1, sequences, 1)
        )
        return cls(flat, ids, positions, slots, tables, wanted, starts, contexts)


def words(tokens: int, sequences: int) -> int:
    """Length of a flat buffer, in int64."""
    return 3 * tokens + 3 * sequences + 1


@dataclass(slots=True, eq=False)
class PackedInputs:
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


class InputPacker:
    """Writes flat buffers.

    Args:
        pages: `[slots, pages]` int32 page numbers, as they are when a buffer is filled.
        page_tokens: Tokens of a page.
    """

    def __init__(self, pages: NDArray[np.int32], page_tokens: int) -> None:
        self._pages = pages
        self._size = page_tokens

    def fill(
        self,
        flat: NDArray[np.int64],
        parts: Sequence[SequenceSlice],
        padding: int = 0,
        tokens_to: int = 0,
        few_rows: int = FEW_ROWS,
    ) -> PackedInputs:
        """Write what `parts` bring.

        Args:
            flat: Long enough for them.
            parts: At least one.
            padding: How many of them, the last, store nothing.
            tokens_to: Up to so many rows, others are added that belong to no sequence.
            few_rows: Up to so many rows are written by plain Python.
        """
        if not padding and not tokens_to and len(parts) <= few_rows:
            tokens = sum([len(part.token_ids) for part in parts])
            if tokens <= few_rows:
                return self._fill_few(flat, parts, tokens)
        return self._fill_many(flat, parts, padding, tokens_to)

    def _fill_few(
        self, flat: NDArray[np.int64], parts: Sequence[SequenceSlice], tokens: int
    ) -> PackedInputs:
        size, table = self._size, self._pages
        ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        ends: list[int] = [0]
        contexts: list[int] = []
        rows: list[int] = []
        most = 0
        for part in parts:
            slot, first, count = part.slot, part.position, len(part.token_ids)
            ids += part.token_ids
            for position in range(first, first + count):
                positions.append(position)
                slots.append(table.item(slot, position // size) * size + position % size)
            if count > most:
                most = count
            ends.append(len(ids))
            contexts.append(first + count)
            if part.wants_logits:
                rows.append(len(ids) - 1)
        wanted, sequences = len(rows), len(parts)
        rows += [0] * (sequences - wanted)
        wide = [*ids, *positions, *slots, *[part.slot for part in parts], *rows]
        pack_into(f"={len(wide)}q{2 * sequences + 1}i", flat.data, 0, *wide, *ends, *contexts)
        return PackedInputs(tokens, wanted, most, max(contexts), min(ids) < 0)

    def _fill_many(
        self, flat: NDArray[np.int64], parts: Sequence[SequenceSlice], padding: int, tokens_to: int
    ) -> PackedInputs:
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
        columns[2, :tokens] = self._pages[owners, block] * self._size + offset
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
        return PackedInputs(
            tokens=total,
            wanted=len(rows),
            most_query_tokens=int(counts.max()),
            most_kv_tokens=int(contexts.max()),
            names_slots=min(ids) < 0,
        )
