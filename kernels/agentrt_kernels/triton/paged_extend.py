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
from agentrt_kernels.triton.dependent_launch import overlapped, wait_for_inputs
from agentrt_kernels.triton.operands import Heads, History, Scale, Shape
from agentrt_kernels.triton.tile import load_rows, store_rows, sweep


def paged_extend(
    query: Tensor,
    layer_pages: Tensor,
    rows: PagedRows,
    score: Score,
    out: Tensor,
    scales: Tensor | None = None,
    *,
    fewest_rows: int,
    blocks: Blocks,
) -> None:
    """Attention of every sequence with at least `fewest_rows` rows; others are left alone.

    Args:
        query: `[T, H, D]` fp32, fp16 or bf16, any strides of rows and heads.
        layer_pages: `[pages, 2, P, K, D]` of the same dtype or codes, any strides but the last.
        rows: Sequences.
        score: Scaling, bound, window and sinks.
        out: Like `query`.
        scales: `[pages, 2, K, P]` of codes, or None.
        fewest_rows: Sequences with fewer belong to `paged_decode`.
        blocks: Rows (times heads) and tokens of a tile, warps, stages.
    """
    kv_heads = layer_pages.shape[3]
    group = query.shape[1] // kv_heads
    sequences = rows.kv_tokens.shape[0]
    block_m = max(blocks.rows, triton.next_power_of_2(group))
    block_q = block_m // group
    _paged_extend[(query.shape[0] // block_q + sequences, kv_heads)](
        Heads.of(query),
        Heads.of(out),
        History.of(layer_pages, rows.block_table, scales),
        rows.query_start,
        rows.kv_tokens,
        sequences,
        fewest_rows,
        Scale.of(score),
        score.sinks,
        shape=Shape.of(query, layer_pages, block_m, blocks.columns),
        BLOCK_Q=block_q,
        num_warps=blocks.warps,
        num_stages=blocks.stages,
        **overlapped(query.device),
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


@triton.jit(do_not_specialize=["sequences", "fewest_rows"])
def _paged_extend(
    query,
    out,
    history,
    query_start,
    kv_tokens,
    sequences,
    fewest_rows,
    score,
    sinks,
    shape: tl.constexpr,
    BLOCK_Q: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    wait_for_inputs(OVERLAPPED)
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

    packed = tl.arange(0, shape.BLOCK_M)  # row * G + head of the group
    row = first_row + packed // shape.G
    head = kv_head * shape.G + packed % shape.G
    real = (row < count) & (packed < BLOCK_Q * shape.G)
    q = load_rows(query, start + row, head, real, shape)
    own = tokens - count + row
    first_own = tokens - count + first_row

    begin = 0
    if score.window is not None:
        begin = tl.maximum(first_own - score.window + 1, 0)
    end = tl.minimum(first_own + BLOCK_Q, tokens)
    whole = begin  # [begin, whole) are tiles that every row sees
    if score.window is None:
        whole = (first_own + 1) // shape.BLOCK_N * shape.BLOCK_N
    acc, largest, total = sweep(q, own, history, kv_head, sequence, begin, whole, end, score, shape)
    store_rows(out, start + row, head, real, acc, largest, total, sinks, shape)
