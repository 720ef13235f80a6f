"""Rows in FP8: codes with four bits of exponent and three of mantissa, and a scale a row.

Bound by memory: a row is read twice, the second time from the cache.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.blocks import block_for, row_warps
from agentrt_kernels.triton.e4m3 import nearest_e4m3

_MOST_BLOCK = 4096


def e4m3_rows(x: Tensor, codes: Tensor, scales: Tensor) -> None:
    """`x = codes * scales`, rounded to the nearest code.

    Args:
        x: `[T, K]` fp32, fp16 or bf16, any row stride.
        codes: float8_e4m3fn `[T, K]`, filled.
        scales: fp32 `[T]`, filled.
    """
    rows, width = x.shape
    block = min(_MOST_BLOCK, block_for(width))
    _e4m3_rows[(rows,)](
        x,
        codes,
        scales,
        x.stride(0),
        codes.stride(0),
        width,
        BLOCK=block,
        num_warps=row_warps(block),
    )


@triton.jit
def _e4m3_rows(x, codes, scales, x_stride, code_stride, width, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    inner = tl.arange(0, BLOCK)
    largest = tl.full([BLOCK], 0.0, tl.float32)
    for begin in range(0, width, BLOCK):
        there = begin + inner < width
        value = tl.load(x + row * x_stride + begin + inner, mask=there, other=0.0).to(tl.float32)
        # A NaN is kept, so that the row's scale is none.
        largest = tl.maximum(largest, tl.abs(value), propagate_nan=tl.PropagateNan.ALL)
    most = tl.max(largest, 0)
    broken = tl.sum((largest != largest).to(tl.int32), 0) > 0
    scale = tl.maximum(tl.div_rn(most, 448.0), 1e-30)
    scale = tl.where(broken, float("nan"), scale)
    tl.store(scales + row, scale)
    for begin in range(0, width, BLOCK):
        there = begin + inner < width
        value = tl.load(x + row * x_stride + begin + inner, mask=there, other=0.0).to(tl.float32)
        code = nearest_e4m3(tl.div_rn(value, scale)).to(tl.float8e4nv)
        tl.store(codes + row * code_stride + begin + inner, code, mask=there)
