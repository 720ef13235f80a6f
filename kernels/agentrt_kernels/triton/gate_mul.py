"""The gate of a gated layer. Bound by memory."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.contract import SILU, Activation
from agentrt_kernels.triton.blocks import row_warps
from agentrt_kernels.triton.dependent_launch import overlapped, wait_for_inputs

_MOST_COLUMNS = 1024
_LEAST: tl.constexpr = tl.constexpr(-80.0)
"""Below it a gate is shut, and the exponential of its size overflows."""


def gate_mul(gate_up: Tensor, out: Tensor, activation: Activation = SILU) -> None:
    """Open gates.

    Args:
        gate_up: `[T, 2 * I]` fp32, fp16 or bf16, the gate first, any row stride.
        out: `[T, I]` of the same dtype, any row stride.
        activation: How a gate opens.
    """
    rows, width = out.shape
    if rows == 0:
        return
    block = min(triton.next_power_of_2(width), _MOST_COLUMNS)
    _gate_mul[(rows, triton.cdiv(width, block))](
        gate_up,
        out,
        gate_up.stride(0),
        out.stride(0),
        width,
        activation.slope,
        activation.cubic,
        activation.shift,
        activation.limit,
        BLOCK=block,
        num_warps=row_warps(block),
        **overlapped(out.device),
    )


@triton.jit
def _gate_mul(
    gate_up,
    out,
    gate_up_stride,
    out_stride,
    width,
    slope,
    cubic,
    shift,
    limit,
    BLOCK: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    wait_for_inputs(OVERLAPPED)
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    place = gate_up + row * gate_up_stride + column
    gate = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(place + width, mask=inside, other=0.0).to(tl.float32)
    gate = tl.where(gate > limit, limit, gate)  # a NaN stays one
    up = tl.where(up > limit, limit, up)
    up = tl.where(up < -limit, -limit, up)
    opening = tl.sigmoid(tl.maximum(gate * (slope + cubic * gate * gate), _LEAST))
    gated = gate * opening * (up + shift)
    tl.store(out + row * out_stride + column, gated.to(out.dtype.element_ty), mask=inside)
