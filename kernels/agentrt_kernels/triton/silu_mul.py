"""The gate of a gated layer: `silu(gate) * up`. Bound by memory."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.blocks import row_warps

_MOST_COLUMNS = 1024


def silu_mul(gate_up: Tensor, out: Tensor) -> None:
    """`out = silu(gate) * up`.

    Args:
        gate_up: `[T, 2 * I]` fp32, fp16 or bf16, the gate first, any row stride.
        out: `[T, I]` of the same dtype, any row stride.
    """
    rows, width = out.shape
    if rows == 0:
        return
    block = min(triton.next_power_of_2(width), _MOST_COLUMNS)
    _silu_mul[(rows, triton.cdiv(width, block))](
        gate_up,
        out,
        gate_up.stride(0),
        out.stride(0),
        width,
        BLOCK=block,
        num_warps=row_warps(block),
    )


@triton.jit
def _silu_mul(gate_up, out, gate_up_stride, out_stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    place = gate_up + row * gate_up_stride + column
    gate = tl.load(place, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(place + width, mask=inside, other=0.0).to(tl.float32)
    gated = gate * tl.sigmoid(gate) * up
    tl.store(out + row * out_stride + column, gated.to(out.dtype.element_ty), mask=inside)
