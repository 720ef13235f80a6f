"""Packed batches over scattered pages, made from a few numbers and a seed."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from agentrt_kernels.contract import PagedRows, Score, SharedPrefix
from agentrt_kernels.kv_codes import encode_heads


@dataclass(frozen=True, slots=True)
class Attention:
    """A batch for attention.

    Attributes:
        before: Tokens that each sequence had.
        rows: New rows of each.
        heads: Heads of queries.
        kv_heads: Heads of keys and values.
        width: Width of a head.
        page: Tokens of a page.
        dtype: Dtype of queries, keys and values.
        softcap: As in `Score`.
        window: As in `Score`.
        sinks: Whether there are sinks.
        groups: Members that share the first pages of the first of them, and how many tokens.
        seed: Seed of all random numbers.
        codes: Dtype of keys and values that are codes, or None.
    """

    before: tuple[int, ...]
    rows: tuple[int, ...]
    heads: int
    kv_heads: int
    width: int
    page: int = 16
    dtype: torch.dtype = torch.float32
    softcap: float | None = None
    window: int | None = None
    sinks: bool = False
    groups: tuple[tuple[tuple[int, ...], int], ...] = ()
    seed: int = 0
    codes: torch.dtype | None = None

    @property
    def tokens(self) -> list[int]:
        """Context of each sequence after the batch."""
        return [before + rows for before, rows in zip(self.before, self.rows, strict=True)]


@dataclass(frozen=True, slots=True)
class Batch:
    """Operands of `Kernels.attend`.

    Attributes:
        query: `[T, H, D]`.
        layer_pages: `[pages, 2, P, K, D]`, a layer of a larger memory; tokens that no
            sequence may see hold NaN, or codes whose scale is NaN.
        rows: Sequences and their pages.
        score: Scaling, bound, window and sinks.
        scales: `[pages, 2, K, P]` of codes, a layer of a larger memory, or None.
        out: `[T, H, D]`, all NaN: values left unwritten stay so.
    """

    query: Tensor
    layer_pages: Tensor
    rows: PagedRows
    score: Score
    scales: Tensor | None = None
    out: Tensor = field(init=False)

    def __post_init__(self) -> None:
        """Make `out`."""
        object.__setattr__(self, "out", torch.full_like(self.query, torch.nan))


def batch_of(case: Attention, device: torch.device) -> Batch:
    """The batch of a case. Each number is drawn on the CPU, so that devices get the same."""
    source = torch.Generator().manual_seed(case.seed)
    table = _table(case, source)
    tokens = case.tokens
    layers, layer = 2, 1
    memory = torch.full(
        (int(table.max()) + 3, layers, 2, case.page, case.kv_heads, case.width), torch.nan
    ).to(case.dtype)
    for row, count in zip(table, tokens, strict=True):
        for at in range(-(-count // case.page)):
            inside = min(case.page, count - at * case.page)
            drawn = torch.randn(2, inside, case.kv_heads, case.width, generator=source)
            memory[int(row[at]), layer, :, :inside] = drawn.to(case.dtype)
    starts = torch.tensor([0, *case.rows]).cumsum(0)
    query = torch.randn(int(starts[-1]), case.heads, case.width, generator=source).to(case.dtype)
    sinks = torch.randn(case.heads, generator=source).to(case.dtype) if case.sinks else None
    rows = PagedRows(
        query_start=starts.int().to(device),
        kv_tokens=torch.tensor(tokens, dtype=torch.int32, device=device),
        block_table=table.to(device),
        most_query_tokens=max(case.rows),
        most_kv_tokens=max(tokens),
        prefix=_prefix(case, table, device),
    )
    score = Score(
        case.width**-0.5, case.softcap, case.window, None if sinks is None else sinks.to(device)
    )
    scales = None
    if case.codes is not None:
        memory, by_token = encode_heads(memory, case.codes)
        scales = by_token.transpose(-1, -2).contiguous().to(device)[:, layer]
    return Batch(query.to(device), memory.to(device)[:, layer], rows, score, scales)


def _table(case: Attention, source: torch.Generator) -> Tensor:
    """`[B, pages]` int32: pages in no order, those of a group shared."""
    needed = [-(-count // case.page) for count in case.tokens]
    pages = torch.randperm(sum(needed) + 2, generator=source).int()
    table = torch.zeros(len(needed), max(1, *needed), dtype=torch.int32)
    at = 0
    for row, count in zip(table, needed, strict=True):
        row[:count] = pages[at : at + count]
        at += count
    for members, shared in case.groups:
        for member in members[1:]:
            table[member, : shared // case.page] = table[members[0], : shared // case.page]
    return table


def _prefix(case: Attention, table: Tensor, device: torch.device) -> SharedPrefix | None:
    if not case.groups:
        return None
    sizes = [len(members) for members, _ in case.groups]
    firsts = [members[0] for members, _ in case.groups]
    most_pages = max(shared for _, shared in case.groups) // case.page

    def whole(values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int32, device=device)

    return SharedPrefix(
        member_start=torch.tensor([0, *sizes]).cumsum(0).int().to(device),
        members=whole([member for members, _ in case.groups for member in members]),
        tokens=whole([shared for _, shared in case.groups]),
        block_table=table[firsts, :most_pages].contiguous().to(device),
        most_members=max(sizes),
    )
