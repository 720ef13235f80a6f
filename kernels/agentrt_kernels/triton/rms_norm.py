"""RMS norm of rows, after the residual's sum if there is a residual.

A program reads one row once and keeps it in registers; bound by memory.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.blocks import row_warps
from agentrt_kernels.triton.dependent_launch import overlapped, wait_for_inputs


def rms_norm(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor,
    epsilon: float,
    out: Tensor,
    *,
    centered: bool,
) -> None:
    """`out = norm(x)`, or `residual += x; out = norm(residual)`.

    Args:
        x: `[T, W]` fp32, fp16 or bf16, any row stride.
        residual: Like `x`, changed in place, or None. The norm is of the sum as it was rounded.
        weight: `[W]`, like `x` or fp32.
        epsilon: Added to the mean square.
        out: Like `x`; may be `x`.
        centered: Whether the mean is subtracted first.
    """
    rows, width = x.shape
    if rows == 0:
        return
    block = triton.next_power_of_2(width)
    _rms_norm[(rows,)](
        x,
        residual,
        weight,
        out,
        x.stride(0),
        0 if residual is None else residual.stride(0),
        out.stride(0),
        width,
        epsilon,
        CENTERED=centered,
        BLOCK=block,
        num_warps=row_warps(block),
        **overlapped(x.device),
    )


@triton.jit
def _rms_norm(
    x,
    residual,
    weight,
    out,
    x_stride,
    residual_stride,
    out_stride,
    width,
    epsilon,
    CENTERED: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    wait_for_inputs(OVERLAPPED)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < width
    wide = tl.load(x + row * x_stride + column, mask=inside, other=0.0).to(tl.float32)
    if residual is not None:
        place = residual + row * residual_stride + column
        wide += tl.load(place, mask=inside, other=0.0).to(tl.float32)
        rounded = wide.to(residual.dtype.element_ty)
        tl.store(place, rounded, mask=inside)
        wide = rounded.to(tl.float32)
    if CENTERED:
        wide = tl.where(inside, wide - tl.sum(wide, 0) / width, 0.0)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / width + epsilon)
    scaled = wide * scale * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * out_stride + column, scaled.to(out.dtype.element_ty), mask=inside)
