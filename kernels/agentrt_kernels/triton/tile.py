"""Rows of queries, a running softmax over tiles and its results, common to all attention kernels.

State of M rows: `acc` `[M, D]`, `largest` `[M]` and `total` `[M]`, all fp32; scores are in base 2.
The tuples that kernels take are those of `operands`.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.interpreter import InterpretedFunction

from agentrt_kernels.triton.e4m3 import e4m3_values

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def load_rows(query, row, head, real, shape: tl.constexpr):
    """Queries `[M, D]` of each `row` `[M]` and `head` `[M]`; zeros if not `real` `[M]`."""
    column = tl.arange(0, shape.BLOCK_D)
    place = query.data + row.to(tl.int64)[:, None] * query.row_stride
    place += head[:, None] * query.head_stride + column[None, :]
    rows = tl.load(place, mask=real[:, None] & (column < shape.D)[None, :], other=0.0)
    if shape.WIDE:
        rows = rows.to(tl.float32)
    return rows


@triton.jit
def sweep(query, own, history, kv_head, entry, begin, whole, end, score, shape: tl.constexpr):
    """The state after the tokens `[begin, end)` of one head and one entry of the block table.

    `query` `[M, D]`; `own` `[M]` places of the rows. Tiles below `whole` need no mask: they lie
    behind no row and inside every window.
    """
    pages = history.pages + kv_head.to(tl.int64) * history.head_stride
    table = history.table + entry.to(tl.int64) * history.table_stride
    column = tl.arange(0, shape.BLOCK_D)
    inside = column < shape.D
    acc = tl.zeros(query.shape, tl.float32)
    largest = tl.full(own.shape, -float("inf"), tl.float32)
    total = tl.zeros(own.shape, tl.float32)
    for MASKED in tl.static_range(2):
        for first in range(whole if MASKED else begin, end if MASKED else whole, shape.BLOCK_N):
            place = first + tl.arange(0, shape.BLOCK_N)
            there = place < end
            if MASKED:
                page = tl.load(table + place // shape.P, mask=there, other=0).to(tl.int64)
            else:
                page = tl.load(table + place // shape.P).to(tl.int64)
            slot = page * history.page_stride + (place % shape.P) * history.token_stride
            key_place = pages + slot[None, :] + column[:, None]
            value_place = pages + history.part_stride + slot[:, None] + column[None, :]
            if MASKED or shape.D != shape.BLOCK_D:
                keys = tl.load(key_place, mask=there[None, :] & inside[:, None], other=0.0)
                values = tl.load(value_place, mask=there[:, None] & inside[None, :], other=0.0)
            else:
                keys = tl.load(key_place)  # [D, N]
                values = tl.load(value_place)  # [N, D]
            key_scale, value_scale = None, None
            if history.scales is not None:
                scale_place = history.scales + kv_head.to(tl.int64) * history.scale_head_stride
                scale_place += page * history.scale_page_stride + place % shape.P
                key_scale = tl.load(scale_place, mask=there, other=0.0).to(tl.float32)
                scale_place += history.scale_part_stride
                value_scale = tl.load(scale_place, mask=there, other=0.0).to(tl.float32)
            if shape.E4M3:
                keys = e4m3_values(keys, query.dtype, shape.NATIVE)
                values = e4m3_values(values, query.dtype, shape.NATIVE)
            scores, factor = scored(query, keys.to(query.dtype), key_scale, score)  # [M, N]
            if MASKED:
                seen = (place[None, :] <= own[:, None]) & there[None, :]
                if score.window is not None:
                    seen = seen & (place[None, :] > own[:, None] - score.window)
                scores = tl.where(seen, scores, -float("inf"))

            highest = tl.maximum(largest, tl.max(scores, 1) * factor)
            # A row that has seen nothing yet keeps weight zero instead of inf - inf.
            pivot = tl.where(highest == -float("inf"), 0.0, highest)
            weights = tl.exp2(scores * factor - pivot[:, None])  # [M, N]
            shrink = tl.exp2(largest - pivot)
            total = total * shrink + tl.sum(weights, 1)
            acc *= shrink[:, None]
            if value_scale is not None:
                weights *= value_scale[None, :]
            if value_scale is not None and query.dtype == tl.float16:
                values = values.to(tl.bfloat16)  # weights times scales may be too small for fp16
            else:
                values = values.to(query.dtype)
            acc = tl.dot(weights.to(values.dtype), values, acc=acc, input_precision="ieee")
            largest = highest
    return acc, largest, total


@triton.jit
def scored(query, keys, key_scale, score):
    """Scores `[M, N]` of `query` `[M, D]` and `keys` `[D, N]`, and their factor to base 2.

    `key_scale` `[N]` is that of codes, or None. The factor is left to the exponent, where it costs
    nothing beside the sum.
    """
    scores = tl.dot(query, keys, input_precision="ieee")
    if key_scale is not None:
        scores *= key_scale[None, :]
    if score.softcap is None:
        factor = score.scaling * LOG2_E
    else:
        # tanh through one exponential, which neither overflows nor needs a library.
        scores = scores * (score.scaling / score.softcap)
        scores = score.softcap * (1.0 - 2.0 / (tl.exp2(scores * (2.0 * LOG2_E)) + 1.0))
        factor = LOG2_E
    return scores, factor


@triton.jit
def store_rows(out, row, head, real, acc, largest, total, sinks, shape: tl.constexpr):
    """Write the results of M rows, of which each sink, a logit of nothing, takes its share."""
    if sinks is not None:
        sink = tl.load(sinks + head, mask=real, other=0.0).to(tl.float32) * LOG2_E
        highest = tl.maximum(largest, sink)
        shrink = tl.exp2(largest - highest)
        acc *= shrink[:, None]
        total = total * shrink + tl.exp2(sink - highest)
    result = acc / tl.where(real, total, 1.0)[:, None]
    column = tl.arange(0, shape.BLOCK_D)
    place = out.data + row.to(tl.int64)[:, None] * out.row_stride
    place += head[:, None] * out.head_stride + column[None, :]
    inside = real[:, None] & (column < shape.D)[None, :]
    tl.store(place, result.to(out.data.dtype.element_ty), mask=inside)


def is_interpreted() -> bool:
    """Whether kernels run under the interpreter, which was decided when this was imported."""
    return isinstance(sweep, InterpretedFunction)


def is_wide(x: Tensor) -> bool:
    """Whether operands of `tl.dot` are fp32, as given or because the interpreter needs it."""
    return x.dtype == torch.float32 or is_interpreted()
