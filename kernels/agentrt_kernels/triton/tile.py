"""One tile of keys and values taken into a running softmax: what all attention kernels share.

State of M rows: `acc` `[M, D]`, `largest` `[M]` and `total` `[M]`, all fp32; scores are in base 2.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.interpreter import InterpretedFunction

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def absorb(
    acc,
    largest,
    total,
    query,
    own,
    pages,
    table,
    first,
    limit,
    page_stride,
    part_stride,
    token_stride,
    scaling,
    softcap,
    window,
    P: tl.constexpr,
    D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    WINDOW: tl.constexpr,
    MASKED: tl.constexpr,
    WIDE: tl.constexpr,
):
    """Tokens `[first, first + BLOCK_N)` below `limit`, gathered from as many pages as hold them.

    `query` `[M, D]`; `own` `[M]` places of the rows; `pages` stands at this head's keys. A tile
    that is not MASKED lies below `limit`, behind no row and inside every window.
    """
    place = first + tl.arange(0, BLOCK_N)
    column = tl.arange(0, BLOCK_D)
    there = place < limit
    if MASKED:
        page = tl.load(table + place // P, mask=there, other=0).to(tl.int64)
    else:
        page = tl.load(table + place // P).to(tl.int64)
    slot = page * page_stride + (place % P) * token_stride
    key_place = pages + slot[None, :] + column[:, None]
    value_place = pages + part_stride + slot[:, None] + column[None, :]
    if MASKED or D != BLOCK_D:
        inside = column < D
        keys = tl.load(key_place, mask=there[None, :] & inside[:, None], other=0.0)  # [D, N]
        values = tl.load(value_place, mask=there[:, None] & inside[None, :], other=0.0)  # [N, D]
    else:
        keys = tl.load(key_place)
        values = tl.load(value_place)
    if WIDE:
        keys = keys.to(tl.float32)
        values = values.to(tl.float32)

    scores = tl.dot(query, keys, input_precision="ieee")  # [M, N]
    if SOFTCAP:
        # tanh through one exponential, which neither overflows nor needs a library.
        scores = scores * (scaling / softcap)
        scores = softcap * (1.0 - 2.0 / (tl.exp2(scores * (2.0 * LOG2_E)) + 1.0))
        scores = scores * LOG2_E
    else:
        scores = scores * (scaling * LOG2_E)
    if MASKED:
        seen = (place[None, :] <= own[:, None]) & there[None, :]
        if WINDOW:
            seen = seen & (place[None, :] > own[:, None] - window)
        scores = tl.where(seen, scores, -float("inf"))

    highest = tl.maximum(largest, tl.max(scores, 1))
    # A row that has seen nothing yet keeps weight zero instead of inf - inf.
    pivot = tl.where(highest == -float("inf"), 0.0, highest)
    weights = tl.exp2(scores - pivot[:, None])  # [M, N]
    shrink = tl.exp2(largest - pivot)
    total = total * shrink + tl.sum(weights, 1)
    acc = tl.dot(
        weights.to(values.dtype), values, acc=acc * shrink[:, None], input_precision="ieee"
    )
    return acc, highest, total


@triton.jit
def sweep(
    query,
    own,
    pages,
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
    P: tl.constexpr,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    WINDOW: tl.constexpr,
    WIDE: tl.constexpr,
):
    """The state after all tokens `[begin, end)`; tiles below `whole` need no mask."""
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    largest = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    for place in range(begin, whole, BLOCK_N):
        acc, largest, total = absorb(
            acc,
            largest,
            total,
            query,
            own,
            pages,
            table,
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
            False,
            WIDE,
        )
    for place in range(whole, end, BLOCK_N):
        acc, largest, total = absorb(
            acc,
            largest,
            total,
            query,
            own,
            pages,
            table,
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
    return acc, largest, total


@triton.jit
def drain(acc, largest, total, sink):
    """Give each row's `sink` `[M]`, a logit of nothing, its share of the softmax."""
    sink = sink * LOG2_E
    highest = tl.maximum(largest, sink)
    shrink = tl.exp2(largest - highest)
    return acc * shrink[:, None], total * shrink + tl.exp2(sink - highest)


def is_interpreted() -> bool:
    """Whether kernels run under the interpreter, which was decided when this was imported."""
    return isinstance(absorb, InterpretedFunction)


def is_wide(x: Tensor) -> bool:
    """Whether operands of `tl.dot` are fp32, as given or because the interpreter needs it."""
    return x.dtype == torch.float32 or is_interpreted()
