"""Shared-prefix (cascade) attention: rows that share their first pages read them once.

Two block tables that hold the same page number at the same index hold the same tokens up to there,
since only whole pages of a prefix are shared. So groups are found from page numbers alone.

A group consists of sequences with one row each. A slice of a few rows (a forced run, a draft, the
tail of a prompt) counts as several one-row sequences: it stays in its group, or forms one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from agentrt.engine.batch.input_packing import SequenceSlice
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.transfer import to_device
from agentrt_kernels.contract import SharedPrefix

MIN_MEMBERS = 2
MIN_TOKENS = 256
"""Shorter prefixes are faster to read with each sequence than apart and merged."""


MAX_ROWS = 8
"""Longer slices are faster to compute whole."""


def split_rows(
    slices: Sequence[SequenceSlice], max_sequences: int, min_tokens: int | None = None
) -> Sequence[SequenceSlice]:
    """Split slices of a few rows behind a long context into slices of one row, in the same order.

    Args:
        slices: Slices of a batch.
        max_sequences: Most slices to return; slices for which there is no room stay whole.
        min_tokens: Shortest context behind which slices are split; None for `MIN_TOKENS`.
    """
    min_tokens = MIN_TOKENS if min_tokens is None else min_tokens
    if all(len(part.token_ids) == 1 for part in slices):
        return slices
    spare = max_sequences - len(slices)
    found: list[SequenceSlice] = []
    for part in slices:
        count = len(part.token_ids)
        if not 1 < count <= min(MAX_ROWS, spare + 1) or part.first_position < min_tokens:
            found.append(part)
            continue
        spare -= count - 1
        first = count - 1 - part.draft_tokens
        found += [
            SequenceSlice(
                part.slot,
                [token],
                part.first_position + at,
                part.wants_logits and at >= first,
                angle_offset=part.angle_offset,
                load_group=part.load_group,
                adapter=part.adapter,
            )
            for at, token in enumerate(part.token_ids)
        ]
    return found


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Sequences that share their first pages.

    Attributes:
        members: Rows of the block table in which the group was found.
        pages: Number of shared pages.
    """

    members: tuple[int, ...]
    pages: int

    @property
    def saved_pages(self) -> int:
        """Page reads that the group saves."""
        return (len(self.members) - 1) * self.pages


def find_groups(
    table: NDArray[np.int32],
    shareable_pages: Sequence[int],
    min_pages: int,
    rows: Sequence[int] | None = None,
    depth: int = 0,
) -> list[PrefixGroup]:
    """The groups that save most page reads; a sequence is in at most one of them.

    Args:
        table: `[n, pages]` page numbers of `n` sequences.
        shareable_pages: First pages of each sequence that may be shared.
        min_pages: Least pages that a group shares.
        rows: Sequences to look at; None for all.
        depth: Number of first pages that they are known to share.
    """
    by_page: dict[int, list[int]] = {}
    for row in range(table.shape[0]) if rows is None else rows:
        if shareable_pages[row] > depth:
            by_page.setdefault(int(table[row, depth]), []).append(row)
    found: list[PrefixGroup] = []
    for members in by_page.values():
        if len(members) < MIN_MEMBERS:
            continue
        shared = min(shareable_pages[row] for row in members)
        block = table[members, depth:shared]
        differs = (block != block[0]).any(axis=0)
        pages = depth + int(differs.argmax()) if differs.any() else shared
        subgroups = find_groups(table, shareable_pages, min_pages, members, pages)
        group = PrefixGroup(tuple(members), pages)
        if pages >= min_pages and group.saved_pages >= sum(one.saved_pages for one in subgroups):
            found.append(group)
        else:
            found += subgroups
    return found


_MOST_KEPT = 64


class SharedPrefixes:
    """Prefix groups of batches, kept while the same sequences decode.

    A draft makes a slice longer or shorter from step to step, so the groups of several such batches
    are kept. They are found anew every `MIN_TOKENS` tokens: rows of one sequence share more then.
    """

    def __init__(self, tables: BlockTables, page_tokens: int) -> None:
        self._tables = tables
        self._page_tokens = page_tokens
        self._version = -1
        self._known: dict[tuple[int, ...], SharedPrefix | None] = {}

    def find(self, slices: Sequence[SequenceSlice]) -> SharedPrefix | None:
        """The prefix that some of `slices` share, or None."""
        if self._tables.version != self._version or len(self._known) > _MOST_KEPT:
            self._version = self._tables.version
            self._known.clear()
        longest = max(part.first_position for part in slices)
        slots = [part.slot if len(part.token_ids) == 1 else -1 for part in slices]
        key = (longest // MIN_TOKENS, *slots)
        if key not in self._known:
            single = [(at, part) for at, part in enumerate(slices) if len(part.token_ids) == 1]
            self._known[key] = self._find_prefix(single)
        return self._known[key]

    def _find_prefix(self, single: list[tuple[int, SequenceSlice]]) -> SharedPrefix | None:
        min_pages = -(-MIN_TOKENS // self._page_tokens)
        single = [(index, part) for index, part in single if part.first_position >= MIN_TOKENS]
        if len(single) < MIN_MEMBERS:
            return None
        shareable_pages = [part.first_position // self._page_tokens for _, part in single]
        table = self._tables.host_table[[part.slot for _, part in single], : max(shareable_pages)]
        groups = find_groups(table, shareable_pages, min_pages)
        if not groups:
            return None
        batch_rows = [index for index, _ in single]
        return self._prefix_of(groups, batch_rows, table)

    def _prefix_of(
        self, groups: list[PrefixGroup], batch_rows: list[int], table: NDArray[np.int32]
    ) -> SharedPrefix:
        device = self._tables.device_table.device
        sizes = [len(group.members) for group in groups]
        pages = np.zeros((len(groups), max(group.pages for group in groups)), dtype=np.int32)
        for row, group in zip(pages, groups, strict=True):
            row[: group.pages] = table[group.members[0], : group.pages]

        def to_tensor(values: object) -> torch.Tensor:
            return to_device(values, torch.int32, device)

        return SharedPrefix(
            member_start=to_tensor([0, *np.cumsum(sizes).tolist()]),
            members=to_tensor([batch_rows[row] for group in groups for row in group.members]),
            tokens=to_tensor([group.pages * self._page_tokens for group in groups]),
            block_table=to_tensor(torch.from_numpy(pages)),
            most_members=max(sizes),
        )
