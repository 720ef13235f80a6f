"""Attention over pages that several sequences begin with, read once for all of them.

A program stacks the queries of a group's members on the rows of one product: what reads memory for
each sequence becomes a matrix product. It writes partial results, which `merge` joins with those of
the sequences' own tokens. Bound by memory for few members, by the matrix units for many.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.contract import PagedRows, Score, SharedPrefix
from agentrt_kernels.triton.blocks import Blocks
from agentrt_kernels.triton.merge import Partials, leave
from agentrt_kernels.triton.tile import is_wide, sweep


def shared_prefix(
    query: Tensor,
    layer_pages: Tensor,
    rows: PagedRows,
    prefix: SharedPrefix,
    score: Score,
    *,
    most_rows: int,
    partials: Partials,
    blocks: Blocks,
) -> None:
    """Partial results of every member over its group's tokens.

    Args:
        query: `[T, H, D]` fp32, fp16 or bf16, any strides of rows and heads.
        layer_pages: `[pages, 2, P, K, D]` of the same dtype, any strides but the last.
        rows: Sequences.
        prefix: Which of them share what; a member has one row.
        score: How.
        most_rows: Rows that `partials` holds of each sequence.
        partials: Filled for members, behind the shares of their own tokens.
        blocks: Rows and tokens of a tile, warps, stages.
    """
    heads, width = query.shape[1], query.shape[2]
    kv_heads = layer_pages.shape[3]
    group = heads // kv_heads
    stacked = triton.next_power_of_2(prefix.most_members * group)
    block_m = max(16, triton.next_power_of_2(group), min(blocks.rows, stacked))
    per_program = block_m // group
    groups = prefix.tokens.shape[0]
    grid = (groups * triton.cdiv(prefix.most_members, per_program), kv_heads, partials.shared)
    _shared_prefix[grid](
        query,
        layer_pages,
        rows.query_start,
        rows.kv_tokens,
        prefix.member_start,
        prefix.members,
        prefix.tokens,
        prefix.block_table,
        partials.values,
        partials.logsumexp,
        query.stride(0),
        query.stride(1),
        layer_pages.stride(0),
        layer_pages.stride(1),
        layer_pages.stride(2),
        layer_pages.stride(3),
        prefix.block_table.stride(0),
        rows.kv_tokens.shape[0],
        groups,
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
        MEMBERS=per_program,
        SOFTCAP=score.softcap is not None,
        WINDOW=score.window is not None,
        WIDE=is_wide(query),
        BLOCK_M=block_m,
        BLOCK_N=blocks.columns,
        BLOCK_D=max(16, triton.next_power_of_2(width)),
        num_warps=blocks.warps,
        num_stages=blocks.stages,
    )


@triton.jit(
    do_not_specialize=["sequences", "groups", "rows", "own_shares", "prefix_shares", "window"]
)
def _shared_prefix(
    query,
    pages,
    query_start,
    kv_tokens,
    member_start,
    members,
    prefix_tokens,
    block_table,
    partial,
    logsumexp,
    query_row_stride,
    query_head_stride,
    page_stride,
    part_stride,
    token_stride,
    head_stride,
    table_stride,
    sequences,
    groups,
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
    MEMBERS: tl.constexpr,
    SOFTCAP: tl.constexpr,
    WINDOW: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    group = tl.program_id(0) % groups
    block = tl.program_id(0) // groups
    kv_head = tl.program_id(1)
    share = tl.program_id(2)
    first_member = tl.load(member_start + group) + block * MEMBERS
    last_member = tl.load(member_start + group + 1)
    if first_member >= last_member:
        return
    tokens = tl.load(prefix_tokens + group)

    packed = tl.arange(0, BLOCK_M)  # member * G + head of the group
    member = first_member + packed // G
    head = kv_head * G + packed % G
    column = tl.arange(0, BLOCK_D)
    real = (member < last_member) & (packed < MEMBERS * G)
    sequence = tl.load(members + member, mask=real, other=0)
    row = tl.load(query_start + sequence)
    own = tl.load(kv_tokens + sequence, mask=real, other=tokens) - 1
    own = tl.where(real, own, tokens)
    source = query + row.to(tl.int64)[:, None] * query_row_stride
    source += head[:, None] * query_head_stride + column[None, :]
    q = tl.load(source, mask=real[:, None] & (column < D)[None, :], other=0.0)
    if WIDE:
        q = q.to(tl.float32)

    first = 0
    if WINDOW:
        first = tl.minimum(tl.maximum(tl.min(own, 0) - window + 1, 0), tokens)
    each = tl.cdiv(tl.cdiv(tokens - first, BLOCK_N), prefix_shares) * BLOCK_N  # tokens of a share
    begin = first + share * each
    end = tl.minimum(begin + each, tokens)
    whole = begin  # [begin, whole) are tiles that need no mask
    if not WINDOW:
        whole = begin + tl.maximum(end - begin, 0) // BLOCK_N * BLOCK_N

    history = pages + kv_head.to(tl.int64) * head_stride
    table = block_table + group.to(tl.int64) * table_stride
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
    at = (((own_shares + share) * sequences + sequence) * rows).to(tl.int64) * H + head
    leave(partial, logsumexp, at, acc, largest, total, real, D, BLOCK_D)


@triton.jit
def shared_tokens(
    sequence,
    member_start,
    members,
    prefix_tokens,
    groups,
    member_count,
    BLOCK_MEMBERS: tl.constexpr,
    BLOCK_GROUPS: tl.constexpr,
):
    """Tokens of the prefix that `sequence` shares; 0 where it shares none.

    The members of all groups are read at once: fewer steps than a table that another kernel would
    have to fill before each layer.
    """
    index = tl.arange(0, BLOCK_MEMBERS)
    group = tl.arange(0, BLOCK_GROUPS)
    filled = tl.minimum(tl.load(member_start + groups), member_count)
    member = tl.load(members + index, mask=index < filled, other=-1)
    found = tl.max(tl.where(member == sequence, index, -1), 0)
    ends = tl.load(member_start + 1 + group, mask=group < groups, other=filled)
    before = tl.sum(((ends <= found) & (group < groups)).to(tl.int32), 0)
    tokens = tl.load(prefix_tokens + tl.minimum(before, groups - 1))
    return tl.where(found >= 0, tokens, 0)
