"""Attention of sequences with many new rows: prompts and their chunks.

A program takes a block of one sequence's rows with the G query heads of one head of keys, packed
into the rows of one product. Which sequence a block belongs to is found by binary search: sequence
`b` has its blocks from `query_start[b] // BLOCK_Q + b` on, so that the grid follows from bounds.
Bound by the matrix units.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.contract import PagedRows, Score
from agentrt_kernels.triton.blocks import Blocks
from agentrt_kernels.triton.tile import drain, is_wide, sweep


def paged_extend(
    query: Tensor,
    layer_pages: Tensor,
    rows: PagedRows,
    score: Score,
    out: Tensor,
    *,
    fewest_rows: int,
    blocks: Blocks,
) -> None:
    """Attention of every sequence with at least `fewest_rows` rows; others are left alone.

    Args:
        query: `[T, H, D]` fp32, fp16 or bf16, any strides of rows and heads.
        layer_pages: `[pages, 2, P, K, D]` of the same dtype, any strides but the last.
        rows: Sequences.
        score: How.
        out: Like `query`.
        fewest_rows: Sequences with fewer belong to `paged_decode`.
        blocks: Rows (times heads) and tokens of a tile, warps, stages.
    """
    tokens, heads, width = query.shape
    kv_heads = layer_pages.shape[3]
    group = heads // kv_heads
    sequences = rows.kv_tokens.shape[0]
    block_m = max(blocks.rows, triton.next_power_of_2(group))
    block_q = block_m // group
    _paged_extend[(tokens // block_q + sequences, kv_heads)](
        query,
        layer_pages,
        rows.query_start,
        rows.kv_tokens,
        rows.block_table,
        query if score.sinks is None else score.sinks,
        out,
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
        fewest_rows,
        score.scaling,
        score.softcap or 1.0,
        score.window or 0,
        G=group,
        P=layer_pages.shape[2],
        D=width,
        SOFTCAP=score.softcap is not None,
        WINDOW=score.window is not None,
        SINKS=score.sinks is not None,
        WIDE=is_wide(query),
        BLOCK_Q=block_q,
        BLOCK_M=block_m,
        BLOCK_N=blocks.columns,
        BLOCK_D=max(16, triton.next_power_of_2(width)),
        num_warps=blocks.warps,
        num_stages=blocks.stages,
    )


@triton.jit
def owner(starts, owners, block, BLOCK: tl.constexpr):
    """The last `b` whose blocks begin at or before `block`, with `starts[b] // BLOCK + b`."""
    low = 0
    high = owners
    while high - low > 1:
        middle = (low + high) // 2
        if tl.load(starts + middle) // BLOCK + middle <= block:
            low = middle
        else:
            high = middle
    return low


@triton.jit(do_not_specialize=["sequences", "fewest_rows", "window"])
def _paged_extend(
    query,
    pages,
    query_start,
    kv_tokens,
    block_table,
    sinks,
    out,
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
    fewest_rows,
    scaling,
    softcap,
    window,
    G: tl.constexpr,
    P: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    WINDOW: tl.constexpr,
    SINKS: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    # The last blocks of a prompt see most; they go first, so that none of them is left alone.
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    kv_head = tl.program_id(1)
    sequence = owner(query_start, sequences, block, BLOCK_Q)
    start = tl.load(query_start + sequence)
    count = tl.load(query_start + sequence + 1) - start
    first_row = (block - (start // BLOCK_Q + sequence)) * BLOCK_Q
    if (first_row >= count) | (count < fewest_rows):
        return
    tokens = tl.load(kv_tokens + sequence)

    packed = tl.arange(0, BLOCK_M)  # row * G + head of the group
    row = first_row + packed // G
    head = kv_head * G + packed % G
    column = tl.arange(0, BLOCK_D)
    real = (row < count) & (packed < BLOCK_Q * G)
    inside = real[:, None] & (column < D)[None, :]
    source = query + (start + row).to(tl.int64)[:, None] * query_row_stride
    source += head[:, None] * query_head_stride + column[None, :]
    q = tl.load(source, mask=inside, other=0.0)
    if WIDE:
        q = q.to(tl.float32)
    own = tokens - count + row
    first_own = tokens - count + first_row

    begin = 0
    if WINDOW:
        begin = tl.maximum(first_own - window + 1, 0)
    end = tl.minimum(first_own + BLOCK_Q, tokens)
    whole = begin  # [begin, whole) are tiles that every row sees
    if not WINDOW:
        whole = (first_own + 1) // BLOCK_N * BLOCK_N

    history = pages + kv_head.to(tl.int64) * head_stride
    table = block_table + sequence.to(tl.int64) * table_stride
    acc, largest, total = sweep(
        q,
        own,
        history,
        table,
        begin,
        whole,
        end,
        page_stride,
        part_stride,
        token_stride,
        scaling,
        softcap,
        window,
        P,
        D,
        BLOCK_M,
        BLOCK_N,
        BLOCK_D,
        SOFTCAP,
        WINDOW,
        WIDE,
    )
    if SINKS:
        sink = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32)
        acc, total = drain(acc, largest, total, sink)
    result = acc / tl.where(real, total, 1.0)[:, None]
    target = out + (start + row).to(tl.int64)[:, None] * out_row_stride
    target += head[:, None] * out_head_stride + column[None, :]
    tl.store(target, result.to(out.dtype.element_ty), mask=inside)
