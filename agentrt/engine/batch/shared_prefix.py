"""Which rows of a batch begin with the same pages, so that these are read once.

Two block tables that hold the same page number at the same place hold the same tokens up to there,
since only whole pages of a prefix are shared. So the groups are found from page numbers alone.

A group is of sequences with one row each. What brings a few (a forced run, guesses, the tail of a
prompt) is seen as so many sequences: it stays with its siblings, or its rows are a group by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from agentrt.engine.batch.part import SequenceSlice
from agentrt.engine.kv.block_tables import BlockTables
from agentrt.engine.kv.transfer import to_device
from agentrt_kernels.contract import SharedPrefix

LEAST_MEMBERS = 2
LEAST_TOKENS = 256
"""Shorter prefixes are read faster with the rest of each sequence than apart and joined."""


MOST_ROWS = 8
"""Longer parts are computed faster as what they are."""


def split_rows(parts: Sequence[SequenceSlice], most_sequences: int) -> Sequence[SequenceSlice]:
    """Parts of a few rows behind a long history as parts of one row each, in the same order.

    Args:
        parts: Of a batch.
        most_sequences: There may be; what does not fit any more stays as it is.
    """
    if all(len(part.token_ids) == 1 for part in parts):
        return parts
    spare = most_sequences - len(parts)
    found: list[SequenceSlice] = []
    for part in parts:
        count = len(part.token_ids)
        if not 1 < count <= min(MOST_ROWS, spare + 1) or part.position < LEAST_TOKENS:
            found.append(part)
            continue
        spare -= count - 1
        first = count - 1 - part.drafted
        found += [
            SequenceSlice(part.slot, [token], part.position + at, part.wants_logits and at >= first)
            for at, token in enumerate(part.token_ids)
        ]
    return found


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Sequences that share their first pages.

    Attributes:
        members: Rows of the table they were found in.
        pages: How many first pages they share.
    """

    members: tuple[int, ...]
    pages: int

    @property
    def saved_pages(self) -> int:
        """Pages that need not be read again."""
        return (len(self.members) - 1) * self.pages


def find_groups(
    table: NDArray[np.int32], own_pages: Sequence[int], least_pages: int
) -> list[PrefixGroup]:
    """The groups that save the most reads, each sequence in one of them at most.

    Args:
        table: `[n, pages]` page numbers of `n` sequences.
        own_pages: Of each sequence, how many first pages may be shared.
        least_pages: A group shares at least so many.
    """
    return _best(table, own_pages, least_pages, list(range(table.shape[0])), 0)


def _best(
    table: NDArray[np.int32], own: Sequence[int], least: int, rows: list[int], at: int
) -> list[PrefixGroup]:
    """Of `rows`, which share their first `at` pages."""
    parts: dict[int, list[int]] = {}
    for row in rows:
        if own[row] > at:
            parts.setdefault(int(table[row, at]), []).append(row)
    found: list[PrefixGroup] = []
    for members in parts.values():
        if len(members) < LEAST_MEMBERS:
            continue
        most = min(own[row] for row in members)
        block = table[members, at:most]
        differs = (block != block[0]).any(axis=0)
        pages = at + int(differs.argmax()) if differs.any() else most
        apart = _best(table, own, least, members, pages)
        together = PrefixGroup(tuple(members), pages)
        if pages >= least and together.saved_pages >= sum(one.saved_pages for one in apart):
            found.append(together)
        else:
            found += apart
    return found


class SharedPrefixes:
    """Groups of a batch, kept as long as the same sequences decode."""

    def __init__(self, tables: BlockTables, page_tokens: int) -> None:
        self._tables = tables
        self._page_tokens = page_tokens
        self._seen: tuple[int, list[int]] = (-1, [])
        self._prefix: SharedPrefix | None = None

    def of(self, parts: Sequence[SequenceSlice]) -> SharedPrefix | None:
        """What some of `parts` share, or None."""
        slots = [part.slot if len(part.token_ids) == 1 else -1 for part in parts]
        seen = (self._tables.changes, slots)
        if seen != self._seen:
            self._seen = seen
            single = [(at, part) for at, part in enumerate(parts) if len(part.token_ids) == 1]
            self._prefix = self._find(single)
        return self._prefix

    def _find(self, single: list[tuple[int, SequenceSlice]]) -> SharedPrefix | None:
        least = -(-LEAST_TOKENS // self._page_tokens)
        single = [(index, part) for index, part in single if part.position >= LEAST_TOKENS]
        if len(single) < LEAST_MEMBERS:
            return None
        own = [part.position // self._page_tokens for _, part in single]
        table = self._tables.host[[part.slot for _, part in single], : max(own)]
        groups = find_groups(table, own, least)
        if not groups:
            return None
        where = [index for index, _ in single]
        return self._prefix_of(groups, where, table)

    def _prefix_of(
        self, groups: list[PrefixGroup], where: list[int], table: NDArray[np.int32]
    ) -> SharedPrefix:
        device = self._tables.numbers.device
        sizes = [len(group.members) for group in groups]
        pages = np.zeros((len(groups), max(group.pages for group in groups)), dtype=np.int32)
        for row, group in zip(pages, groups, strict=True):
            row[: group.pages] = table[group.members[0], : group.pages]

        def there(values: object) -> torch.Tensor:
            return to_device(values, torch.int32, device)

        return SharedPrefix(
            member_start=there([0, *np.cumsum(sizes).tolist()]),
            members=there([where[row] for group in groups for row in group.members]),
            tokens=there([group.pages * self._page_tokens for group in groups]),
            block_table=there(torch.from_numpy(pages)),
            most_members=max(sizes),
        )
