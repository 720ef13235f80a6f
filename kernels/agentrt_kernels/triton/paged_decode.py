"""Attention of sequences with few new rows: the history is split among programs.

A program takes one sequence, one head of keys with its G query heads, and one share of the tiles.
It writes a partial result and its log-sum-exp; `merge` joins them. With one share and no shared
prefix it writes the result itself. Bound by memory: each key and value is read once.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.contract import PagedRows, Score
from agentrt_kernels.triton.blocks import Blocks, block_for
from agentrt_kernels.triton.dependent_launch import overlapped, wait_for_inputs
from agentrt_kernels.triton.merge import BLOCK_SHARES, Partials, leave, share_of
from agentrt_kernels.triton.operands import Groups, Heads, History, Scale, Shape
from agentrt_kernels.triton.shared_prefix import shared_tokens
from agentrt_kernels.triton.tile import load_rows, store_rows, sweep


def paged_decode(
    query: Tensor,
    layer_pages: Tensor,
    rows: PagedRows,
    score: Score,
    out: Tensor,
    scales: Tensor | None = None,
    *,
    most_rows: int,
    partials: Partials,
    blocks: Blocks,
) -> None:
    """Attention of every sequence with 1 to `most_rows` rows; others are left alone.

    Args:
        query: `[T, H, D]` fp32, fp16 or bf16, any strides of rows and heads.
        layer_pages: `[pages, 2, P, K, D]` of the same dtype or codes, any strides but the last.
        rows: Sequences; of a shared prefix only what follows it is read here.
        score: Scaling, bound, window and sinks.
        out: Like `query`. Filled only if there is nothing to merge.
        scales: `[pages, 2, K, P]` of codes, or None.
        most_rows: Bound of the rows of a sequence.
        partials: Memory of the shares, and their numbers.
        blocks: Tokens of a tile, warps, stages.
    """
    kv_heads = layer_pages.shape[3]
    packed = max(16, triton.next_power_of_2(most_rows * (query.shape[1] // kv_heads)))
    prefix = rows.prefix
    _paged_decode[(rows.kv_tokens.shape[0], kv_heads, partials.own)](
        Heads.of(query),
        Heads.of(out),
        History.of(layer_pages, rows.block_table, scales),
        rows.query_start,
        rows.kv_tokens,
        None if prefix is None else Groups.of(prefix),
        (partials.values, partials.logsumexp),
        0 if prefix is None else prefix.tokens.shape[0],
        0 if prefix is None else prefix.members.shape[0],
        most_rows,
        partials.own,
        partials.shared,
        rows.kv_tokens.shape[0],
        Scale.of(score),
        score.sinks,
        shape=Shape.of(query, layer_pages, packed, blocks.columns),
        ALONE=partials.own + partials.shared == 1,
        BLOCK_MEMBERS=64 if prefix is None else block_for(prefix.members.shape[0]),
        BLOCK_GROUPS=64 if prefix is None else block_for(prefix.tokens.shape[0]),
        num_warps=blocks.warps,
        num_stages=blocks.stages,
        **overlapped(query.device),
    )


@triton.jit(
    do_not_specialize=[
        "group_count",
        "member_count",
        "rows",
        "own_shares",
        "prefix_shares",
        "sequences",
    ]
)
def _paged_decode(
    query,
    out,
    history,
    query_start,
    kv_tokens,
    groups,
    partial,
    group_count,
    member_count,
    rows,
    own_shares,
    prefix_shares,
    sequences,
    score,
    sinks,
    shape: tl.constexpr,
    ALONE: tl.constexpr,
    BLOCK_MEMBERS: tl.constexpr,
    BLOCK_GROUPS: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    wait_for_inputs(OVERLAPPED)
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    share = tl.program_id(2)
    start = tl.load(query_start + sequence)
    count = tl.load(query_start + sequence + 1) - start
    if (count < 1) | (count > rows):
        return
    tokens = tl.load(kv_tokens + sequence)

    packed = tl.arange(0, shape.BLOCK_M)  # row * G + head of the group
    row = packed // shape.G
    head = kv_head * shape.G + packed % shape.G
    real = row < count
    own = tokens - count + row

    first = 0
    if groups is not None:
        first = shared_tokens(
            sequence, groups, group_count, member_count, BLOCK_MEMBERS, BLOCK_GROUPS
        )
        if (first == 0) & (share == 0):  # no other program writes these partials
            slot = own_shares + tl.arange(0, BLOCK_SHARES)[None, :]
            at = ((slot * sequences + sequence) * rows + row[:, None]) * shape.H + head[:, None]
            absent = real[:, None] & (slot < own_shares + prefix_shares)
            tl.store(partial[1] + at, -float("inf"), mask=absent)
    if score.window is not None:
        first = tl.maximum(first, tokens - count - score.window + 1)
    begin, end = share_of(first, tokens, share, own_shares, shape.BLOCK_N)
    at = ((share * sequences + sequence) * rows + row).to(tl.int64) * shape.H + head
    if (begin >= end) & (not ALONE):  # the grid is that of a longer history
        tl.store(partial[1] + at, -float("inf"), mask=real)
        return
    q = load_rows(query, start + row, head, real, shape)
    acc, largest, total = sweep(q, own, history, kv_head, sequence, begin, begin, end, score, shape)
    if ALONE:
        store_rows(out, start + row, head, real, acc, largest, total, sinks, shape)
    else:
        leave(partial, at, acc, largest, total, real, shape)
