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
from agentrt_kernels.triton.merge import MOST_SHARES, Partials, leave
from agentrt_kernels.triton.shared_prefix import shared_tokens
from agentrt_kernels.triton.tile import absorb, drain, is_wide

VARYING = [
    "sequences",
    "groups",
    "member_count",
    "rows",
    "own_shares",
    "prefix_shares",
    "window",
]
"""Whole numbers that vary from batch to batch: the compiler makes no version for each kind."""


def paged_decode(
    query: Tensor,
    layer_pages: Tensor,
    rows: PagedRows,
    score: Score,
    out: Tensor,
    *,
    most_rows: int,
    partials: Partials,
    blocks: Blocks,
) -> None:
    """Attention of every sequence with 1 to `most_rows` rows; others are left alone.

    Args:
        query: `[T, H, D]` fp32, fp16 or bf16, any strides of rows and heads.
        layer_pages: `[pages, 2, P, K, D]` of the same dtype, any strides but the last.
        rows: Sequences; of a shared prefix only what follows it is read here.
        score: How.
        out: Like `query`. Filled only where there is nothing to merge.
        most_rows: Rows of a sequence this may meet.
        partials: Where shares go; how many there are.
        blocks: Tokens of a tile, warps, stages.
    """
    heads, width = query.shape[1], query.shape[2]
    kv_heads = layer_pages.shape[3]
    group = heads // kv_heads
    sequences = rows.kv_tokens.shape[0]
    prefix = rows.prefix
    _paged_decode[(sequences, kv_heads, partials.own)](
        query,
        layer_pages,
        rows.query_start,
        rows.kv_tokens,
        rows.block_table,
        rows.kv_tokens if prefix is None else prefix.member_start,
        rows.kv_tokens if prefix is None else prefix.members,
        rows.kv_tokens if prefix is None else prefix.tokens,
        query if score.sinks is None else score.sinks,
        out,
        partials.values,
        partials.logsumexp,
        query.stride(0),
        query.stride(1),
        layer_pages.stride(0),
        layer_pages.stride(1),
        layer_pages.stride(2),
        layer_pages.stride(3),
        rows.block_table.stride(0),
        out.stride(0),
        out.stride(1),
        sequences,
        0 if prefix is None else prefix.tokens.shape[0],
        0 if prefix is None else prefix.members.shape[0],
        most_rows,
        partials.own,
        partials.shared,
        score.scaling,
        score.softcap or 1.0,
        score.window or 0,
        H=heads,
        G=group,
        P=layer_pages.shape[2],
        D=width,
        PREFIX=prefix is not None,
        ALONE=partials.own + partials.shared == 1,
        SOFTCAP=score.softcap is not None,
        WINDOW=score.window is not None,
        SINKS=score.sinks is not None,
        WIDE=is_wide(query),
        BLOCK_M=max(16, triton.next_power_of_2(most_rows * group)),
        BLOCK_N=blocks.columns,
        BLOCK_D=max(16, triton.next_power_of_2(width)),
        BLOCK_MEMBERS=64 if prefix is None else block_for(prefix.members.shape[0]),
        BLOCK_GROUPS=64 if prefix is None else block_for(prefix.tokens.shape[0]),
        BLOCK_SHARED=MOST_SHARES,
        num_warps=blocks.warps,
        num_stages=blocks.stages,
    )


@triton.jit(do_not_specialize=VARYING)
def _paged_decode(
    query,
    pages,
    query_start,
    kv_tokens,
    block_table,
    member_start,
    members,
    prefix_tokens,
    sinks,
    out,
    partial,
    logsumexp,
    query_row_stride,
    query_head_stride,
    page_stride,
    part_stride,
    token_stride,
    head_stride,
    table_stride,
    out_row_stride,
    out_head_stride,
    sequences,
    groups,
    member_count,
    rows,
    own_shares,
    prefix_shares,
    scaling,
    softcap,
    window,
    H: tl.constexpr,
    G: tl.constexpr,
    P: tl.constexpr,
    D: tl.constexpr,
    PREFIX: tl.constexpr,
    ALONE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    WINDOW: tl.constexpr,
    SINKS: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_MEMBERS: tl.constexpr,
    BLOCK_GROUPS: tl.constexpr,
    BLOCK_SHARED: tl.constexpr,
):
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    share = tl.program_id(2)
    start = tl.load(query_start + sequence)
    count = tl.load(query_start + sequence + 1) - start
    if (count < 1) | (count > rows):
        return
    tokens = tl.load(kv_tokens + sequence)

    packed = tl.arange(0, BLOCK_M)  # row * G + head of the group
    row = packed // G
    head = kv_head * G + packed % G
    column = tl.arange(0, BLOCK_D)
    real = row < count
    inside = real[:, None] & (column < D)[None, :]
    source = query + (start + row).to(tl.int64)[:, None] * query_row_stride
    q = tl.load(
        source + head[:, None] * query_head_stride + column[None, :], mask=inside, other=0.0
    )
    if WIDE:
        q = q.to(tl.float32)
    own = tokens - count + row

    first = 0
    if PREFIX:
        first = shared_tokens(
            sequence,
            member_start,
            members,
            prefix_tokens,
            groups,
            member_count,
            BLOCK_MEMBERS,
            BLOCK_GROUPS,
        )
        if (first == 0) & (share == 0):  # nobody else says that there is no such partial
            slot = own_shares + tl.arange(0, BLOCK_SHARED)
            at = ((slot[None, :] * sequences + sequence) * rows + row[:, None]) * H + head[:, None]
            nothing = tl.full([BLOCK_M, BLOCK_SHARED], -float("inf"), tl.float32)
            tl.store(
                logsumexp + at,
                nothing,
                mask=real[:, None] & (slot < own_shares + prefix_shares)[None, :],
            )
    if WINDOW:
        first = tl.maximum(first, tokens - count - window + 1)
    each = tl.cdiv(tl.cdiv(tokens - first, BLOCK_N), own_shares) * BLOCK_N  # tokens of a share
    begin = first + share * each
    end = tl.minimum(begin + each, tokens)

    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    largest = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for place in range(begin, end, BLOCK_N):
        acc, largest, total = absorb(
            acc,
            largest,
            total,
            q,
            own,
            pages + kv_head.to(tl.int64) * head_stride,
            block_table + sequence.to(tl.int64) * table_stride,
            place,
            end,
            page_stride,
            part_stride,
            token_stride,
            scaling,
            softcap,
            window,
            P,
            D,
            BLOCK_N,
            BLOCK_D,
            SOFTCAP,
            WINDOW,
            True,
            WIDE,
        )
    if ALONE:
        if SINKS:
            sink = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32)
            acc, total = drain(acc, largest, total, sink)
        result = acc / tl.where(real, total, 1.0)[:, None]
        target = out + (start + row).to(tl.int64)[:, None] * out_row_stride
        target += head[:, None] * out_head_stride + column[None, :]
        tl.store(target, result.to(out.dtype.element_ty), mask=inside)
    else:
        at = ((share * sequences + sequence) * rows + row).to(tl.int64) * H + head
        leave(partial, logsumexp, at, acc, largest, total, real, D, BLOCK_D)
