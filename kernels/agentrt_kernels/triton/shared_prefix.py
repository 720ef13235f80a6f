"""Cascade attention: pages that several sequences begin with are read once for all of them.

A program stacks the queries of a group's members on the rows of one product: what reads memory for
each sequence becomes a matrix product. It writes partial results, which `merge` joins with those of
the sequences' own tokens. Bound by memory for few members, by the matrix units for many.

A grid has as many programs as fill the device. They are dealt out on the device, to the blocks of
members that there are: a captured step has room for many groups, and mostly serves one.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.contract import PagedRows, Score, SharedPrefix
from agentrt_kernels.triton.blocks import Blocks, block_for
from agentrt_kernels.triton.dependent_launch import overlapped, wait_for_inputs
from agentrt_kernels.triton.merge import BLOCK_SHARES, Partials, leave, share_of
from agentrt_kernels.triton.operands import Groups, Heads, History, Scale, Shape
from agentrt_kernels.triton.tile import load_rows, sweep


def shared_prefix(
    query: Tensor,
    layer_pages: Tensor,
    rows: PagedRows,
    prefix: SharedPrefix,
    score: Score,
    scales: Tensor | None = None,
    *,
    most_rows: int,
    programs: int,
    partials: Partials,
    blocks: Blocks,
) -> None:
    """Partial results of every member over its group's tokens.

    Args:
        query: `[T, H, D]` fp32, fp16 or bf16, any strides of rows and heads.
        layer_pages: `[pages, 2, P, K, D]` of the same dtype or codes, any strides but the last.
        rows: Sequences.
        prefix: Groups of sequences and their shared pages; a member has one row.
        score: Scaling, bound and window.
        scales: `[pages, 2, K, P]` of codes, or None.
        most_rows: Rows that `partials` holds of each sequence.
        programs: Programs that the device has room for.
        partials: Filled for members, behind the shares of their own tokens.
        blocks: Rows and tokens of a tile, warps, stages.
    """
    kv_heads = layer_pages.shape[3]
    group = query.shape[1] // kv_heads
    stacked = triton.next_power_of_2(prefix.most_members * group)
    block_m = max(16, triton.next_power_of_2(group), min(blocks.rows, stacked))
    per_program = block_m // group
    groups = prefix.tokens.shape[0]
    # A group's last block may be half empty, so that there are more than the members alone fill.
    most_blocks = min(
        groups * triton.cdiv(prefix.most_members, per_program),
        groups + prefix.members.shape[0] // per_program,
    )
    grid = (max(most_blocks, programs // kv_heads), kv_heads)
    _shared_prefix[grid](
        Heads.of(query),
        History.of(layer_pages, prefix.block_table, scales),
        rows.query_start,
        rows.kv_tokens,
        Groups.of(prefix),
        (partials.values, partials.logsumexp),
        groups,
        most_rows,
        partials.own,
        partials.shared,
        rows.kv_tokens.shape[0],
        Scale.of(score),
        shape=Shape.of(query, layer_pages, block_m, blocks.columns),
        MEMBERS=per_program,
        BLOCK_GROUPS=block_for(groups),
        num_warps=blocks.warps,
        num_stages=blocks.stages,
        **overlapped(query.device),
    )


@triton.jit(do_not_specialize=["group_count", "rows", "own_shares", "prefix_shares", "sequences"])
def _shared_prefix(
    query,
    history,
    query_start,
    kv_tokens,
    groups,
    partial,
    group_count,
    rows,
    own_shares,
    prefix_shares,
    sequences,
    score,
    shape: tl.constexpr,
    MEMBERS: tl.constexpr,
    BLOCK_GROUPS: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    wait_for_inputs(OVERLAPPED)
    kv_head = tl.program_id(1)
    every = tl.arange(0, BLOCK_GROUPS)
    starts = tl.load(groups.member_start + every, mask=every < group_count, other=0)
    ends = tl.load(groups.member_start + 1 + every, mask=every < group_count, other=0)
    held = tl.cdiv(ends - starts, MEMBERS)  # blocks of each group; none where nobody is in it
    last_block = tl.cumsum(held, 0)
    blocks = tl.sum(held, 0)
    used = tl.maximum(tl.num_programs(0) // tl.maximum(blocks, 1), 1)
    used = tl.minimum(used, prefix_shares)  # shares of each block
    share = tl.program_id(0) // tl.maximum(blocks, 1)
    block = tl.program_id(0) % tl.maximum(blocks, 1)
    if (share >= used) | (blocks == 0):
        return
    group = tl.sum(((last_block <= block) & (every < group_count)).to(tl.int32), 0)
    block -= tl.sum(tl.where(every < group, held, 0), 0)
    first_member = tl.load(groups.member_start + group) + block * MEMBERS
    last_member = tl.load(groups.member_start + group + 1)
    tokens = tl.load(groups.tokens + group)

    packed = tl.arange(0, shape.BLOCK_M)  # member * G + head of the group
    member = first_member + packed // shape.G
    head = kv_head * shape.G + packed % shape.G
    real = (member < last_member) & (packed < MEMBERS * shape.G)
    sequence = tl.load(groups.members + member, mask=real, other=0)
    row = tl.load(query_start + sequence)
    own = tl.load(kv_tokens + sequence, mask=real, other=tokens) - 1
    own = tl.where(real, own, tokens)

    first = 0
    if score.window is not None:
        first = tl.minimum(tl.maximum(tl.min(own, 0) - score.window + 1, 0), tokens)
    begin, end = share_of(first, tokens, share, used, shape.BLOCK_N)
    at = (((own_shares + share) * sequences + sequence) * rows).to(tl.int64) * shape.H + head
    if share == 0:  # no program writes the partials of shares that nobody took
        slot = tl.arange(0, BLOCK_SHARES)[None, :]
        left = ((own_shares + slot) * sequences + sequence[:, None]) * rows
        absent = real[:, None] & (slot >= used) & (slot < prefix_shares)
        tl.store(
            partial[1] + left.to(tl.int64) * shape.H + head[:, None], -float("inf"), mask=absent
        )
    if begin >= end:  # the prefix is too short for so many shares
        tl.store(partial[1] + at, -float("inf"), mask=real)
        return
    q = load_rows(query, row, head, real, shape)
    whole = begin  # [begin, whole) are tiles that need no mask
    if score.window is None:
        whole = begin + tl.maximum(end - begin, 0) // shape.BLOCK_N * shape.BLOCK_N
    acc, largest, total = sweep(q, own, history, kv_head, group, begin, whole, end, score, shape)
    leave(partial, at, acc, largest, total, real, shape)


@triton.jit
def shared_tokens(
    sequence,
    groups,
    group_count,
    member_count,
    BLOCK_MEMBERS: tl.constexpr,
    BLOCK_GROUPS: tl.constexpr,
):
    """Tokens of the prefix that `sequence` shares; 0 if it shares none.

    The members of all groups are read at once: fewer steps than a table that another kernel would
    have to fill before each layer.
    """
    index = tl.arange(0, BLOCK_MEMBERS)
    group = tl.arange(0, BLOCK_GROUPS)
    filled = tl.minimum(tl.load(groups.member_start + group_count), member_count)
    member = tl.load(groups.members + index, mask=index < filled, other=-1)
    found = tl.max(tl.where(member == sequence, index, -1), 0)
    ends = tl.load(groups.member_start + 1 + group, mask=group < group_count, other=filled)
    before = tl.sum(((ends <= found) & (group < group_count)).to(tl.int32), 0)
    tokens = tl.load(groups.tokens + tl.minimum(before, group_count - 1))
    return tl.where(found >= 0, tokens, 0)
