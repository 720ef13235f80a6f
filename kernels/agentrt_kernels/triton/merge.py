"""Partial results of attention joined by their log-sum-exp.

`o = sum(o_i * exp(l_i - max l)) / sum(exp(l_i - max l))`: exact, and in any order, so that shares
of a history and shared prefixes are joined alike. Triton has no barrier over a grid, hence a
kernel of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.contract import PagedRows, Score
from agentrt_kernels.triton.dependent_launch import overlapped, wait_for_inputs
from agentrt_kernels.triton.operands import Heads
from agentrt_kernels.triton.tile import LOG2_E

MOST_SHARES = 64
"""Bound of the shares of a history; a prefix may have as many again."""
BLOCK_SHARES = tl.constexpr(MOST_SHARES)
FEWEST_SHARE_TOKENS = 128
"""A shorter share costs more to join than it saves."""
_FEWEST_SHARE_TOKENS = tl.constexpr(FEWEST_SHARE_TOKENS)


@dataclass(frozen=True, slots=True)
class Partials:
    """Memory of partial results.

    Attributes:
        values: `[own + shared, B, rows, H, D]` fp32.
        logsumexp: `[own + shared, B, rows, H]` fp32, base 2; minus infinity if no token was seen.
        own: Shares of a sequence's own tokens.
        shared: Shares of its shared prefix; 0 if the batch has none.
    """

    values: Tensor
    logsumexp: Tensor
    own: int
    shared: int


def merge(
    rows: PagedRows, score: Score, out: Tensor, *, most_rows: int, partials: Partials
) -> None:
    """Fill `out` `[T, H, D]` for every sequence with 1 to `most_rows` rows.

    Args:
        rows: Sequences.
        score: Scale, cap and sinks; sinks get their share of the softmax here, once.
        out: Any strides of rows and heads.
        most_rows: Rows that `partials` holds of each sequence.
        partials: Results of all shares.
    """
    _, heads, width = out.shape
    sequences = rows.kv_tokens.shape[0]
    shares = partials.own + partials.shared
    _merge[(sequences * most_rows, heads)](
        partials.values,
        partials.logsumexp,
        rows.query_start,
        score.sinks,
        Heads.of(out),
        sequences,
        most_rows,
        shares,
        H=heads,
        D=width,
        BLOCK_S=16 if shares <= 16 else 2 * MOST_SHARES,
        BLOCK_D=triton.next_power_of_2(width),
        CHUNK=16,
        num_warps=2,
        **overlapped(out.device),
    )


@triton.jit(do_not_specialize=["sequences", "rows", "shares"])
def _merge(
    partial,
    logsumexp,
    query_start,
    sinks,
    out,
    sequences,
    rows,
    shares,
    H: tl.constexpr,
    D: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
    CHUNK: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    wait_for_inputs(OVERLAPPED)
    sequence = tl.program_id(0) // rows
    row = tl.program_id(0) % rows
    head = tl.program_id(1)
    start = tl.load(query_start + sequence)
    count = tl.load(query_start + sequence + 1) - start
    if (row >= count) | (count > rows):
        return
    share = tl.arange(0, BLOCK_S)
    column = tl.arange(0, BLOCK_D)
    at = ((share * sequences + sequence) * rows + row).to(tl.int64) * H + head
    known = tl.load(logsumexp + at, mask=share < shares, other=-float("inf"))
    highest = tl.max(known, 0)
    if sinks is not None:
        sink = tl.load(sinks + head).to(tl.float32) * LOG2_E
        highest = tl.maximum(highest, sink)
    weight = tl.exp2(known - highest)  # [shares]; what saw nothing weighs nothing
    total = tl.sum(weight, 0)
    if sinks is not None:
        total += tl.exp2(sink - highest)
    # Values a chunk at a time: all shares of a long history at once would not fit the registers.
    used = tl.max(tl.where(weight > 0.0, share + 1, 0), 0)
    mixed = tl.zeros([BLOCK_D], tl.float32)
    for first in range(0, used, CHUNK):
        part = first + tl.arange(0, CHUNK)
        place = ((part * sequences + sequence) * rows + row).to(tl.int64) * H + head
        left = tl.load(logsumexp + place, mask=part < used, other=-float("inf"))
        shrink = tl.exp2(left - highest)
        inside = (shrink > 0.0)[:, None] & (column < D)[None, :]
        values = tl.load(partial + place[:, None] * D + column[None, :], mask=inside, other=0.0)
        mixed += tl.sum(values * shrink[:, None], 0)
    result = mixed / total
    target = out.data + (start + row).to(tl.int64) * out.row_stride + head * out.head_stride
    tl.store(target + column, result.to(out.data.dtype.element_ty), mask=column < D)


@triton.jit
def share_of(first, tokens, share, shares, BLOCK_N: tl.constexpr):
    """The range of tokens of one of `shares` of `[first, tokens)`, in whole tiles.

    The grid is that of the longest history, of a captured step that of the longest possible one. A
    shorter history is split into fewer shares, and the range of the others is empty.
    """
    tiles = tl.cdiv(tl.cdiv(tokens - first, BLOCK_N), shares)
    each = tl.maximum(tiles, tl.cdiv(_FEWEST_SHARE_TOKENS, BLOCK_N)) * BLOCK_N
    begin = first + share * each
    return begin, tl.minimum(begin + each, tokens)


@triton.jit
def leave(partial, at, acc, largest, total, real, shape: tl.constexpr):
    """Write the state of the M rows that are `real` to their places `at` `[M]`."""
    values, logsumexp = partial
    column = tl.arange(0, shape.BLOCK_D)
    some = total > 0.0
    divisor = tl.where(some, total, 1.0)
    target = values + at[:, None] * shape.D + column[None, :]
    inside = (real & some)[:, None] & (column < shape.D)[None, :]
    tl.store(target, acc / divisor[:, None], mask=inside)
    tl.store(logsumexp + at, tl.where(some, largest + tl.log2(divisor), -float("inf")), mask=real)
