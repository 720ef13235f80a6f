"""Weighted sums of the results of each token's experts. Bound by memory."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.blocks import row_warps
from agentrt_kernels.triton.dependent_launch import overlapped, wait_for_inputs

_MOST_COLUMNS = 1024


def weighted_sum(made: Tensor, places: Tensor, shares: Tensor, out: Tensor) -> None:
    """`out[t]` is the sum of `shares[t, a] * made[places[t * A + a]]`, in fp32.

    Args:
        made: Results `[T * A, W]` fp32, fp16 or bf16, any row stride.
        places: `[T * A]` int64.
        shares: `[T, A]` floating, dense.
        out: `[T, W]`, any row stride.
    """
    tokens, width = out.shape
    if tokens == 0:
        return
    block = min(triton.next_power_of_2(width), _MOST_COLUMNS)
    _weighted_sum[(tokens, triton.cdiv(width, block))](
        made,
        places,
        shares,
        out,
        made.stride(0),
        out.stride(0),
        width,
        A=shares.shape[1],
        BLOCK=block,
        num_warps=row_warps(block),
        **overlapped(out.device),
    )


@triton.jit
def _weighted_sum(
    made,
    places,
    shares,
    out,
    made_stride,
    out_stride,
    width,
    A: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    wait_for_inputs(OVERLAPPED)
    token = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    total = tl.zeros([BLOCK], tl.float32)
    for at in range(A):
        place = tl.load(places + token * A + at)
        share = tl.load(shares + token * A + at).to(tl.float32)
        value = tl.load(made + place * made_stride + column, mask=inside, other=0.0)
        total += share * value.to(tl.float32)
    tl.store(out + token * out_stride + column, total.to(out.dtype.element_ty), mask=inside)
