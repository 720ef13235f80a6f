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
from agentrt_kernels.triton.tile import LOG2_E

MOST_SHARES = 64
"""Of a history; a prefix may have as many again."""


@dataclass(frozen=True, slots=True)
class Partials:
    """Where partial results go.

    Attributes:
        values: `[own + shared, B, rows, H, D]` fp32.
        logsumexp: `[own + shared, B, rows, H]` fp32, base 2; minus infinity says "saw nothing".
        own: Shares of a sequence's own tokens.
        shared: Shares of its shared prefix; 0 where the batch has none.
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
        score: Its sinks get their share here, once.
        out: Any strides of rows and heads.
        most_rows: Rows that `partials` holds of each sequence.
        partials: All of them written.
    """
    _, heads, width = out.shape
    sequences = rows.kv_tokens.shape[0]
    shares = partials.own + partials.shared
    _merge[(sequences * most_rows, heads)](
        partials.values,
        partials.logsumexp,
        rows.query_start,
        out if score.sinks is None else score.sinks,
        out,
        out.stride(0),
        out.stride(1),
        sequences,
        most_rows,
        shares,
        H=heads,
        D=width,
        SINKS=score.sinks is not None,
        BLOCK_S=16 if shares <= 16 else 2 * MOST_SHARES,
        BLOCK_D=triton.next_power_of_2(width),
        num_warps=2,
    )


@triton.jit(do_not_specialize=["sequences", "rows", "shares"])
def _merge(
    partial,
    logsumexp,
    query_start,
    sinks,
    out,
    out_row_stride,
    out_head_stride,
    sequences,
    rows,
    shares,
    H: tl.constexpr,
    D: tl.constexpr,
    SINKS: tl.constexpr,
    BLOCK_S: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
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
    if SINKS:
        sink = tl.load(sinks + head).to(tl.float32) * LOG2_E
        highest = tl.maximum(highest, sink)
    weight = tl.exp2(known - highest)  # [shares]; what saw nothing weighs nothing
    inside = (weight > 0.0)[:, None] & (column < D)[None, :]
    values = tl.load(partial + at[:, None] * D + column[None, :], mask=inside, other=0.0)
    total = tl.sum(weight, 0)
    if SINKS:
        total += tl.exp2(sink - highest)
    result = tl.sum(values * weight[:, None], 0) / total
    target = out + (start + row).to(tl.int64) * out_row_stride + head * out_head_stride + column
    tl.store(target, result.to(out.dtype.element_ty), mask=column < D)


@triton.jit
def leave(
    partial, logsumexp, at, acc, largest, total, real, D: tl.constexpr, BLOCK_D: tl.constexpr
):
    """Write the state of M rows to their places `at` `[M]`, where `real`."""
    column = tl.arange(0, BLOCK_D)
    some = total > 0.0
    divisor = tl.where(some, total, 1.0)
    target = partial + at[:, None] * D + column[None, :]
    tl.store(target, acc / divisor[:, None], mask=(real & some)[:, None] & (column < D)[None, :])
    tl.store(logsumexp + at, tl.where(some, largest + tl.log2(divisor), -float("inf")), mask=real)
