"""Rows sorted by expert times that expert's matrix: the product of a mixture's layers.

A program takes a block of one expert's rows and a block of outputs. With few rows bound by memory
(each chosen expert is read once), with many by the matrix units.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.blocks import Blocks
from agentrt_kernels.triton.product_tile import row_blocks, store_tile, tile_rows
from agentrt_kernels.triton.tile import is_wide


def grouped_gemm(
    x: Tensor, weight: Tensor, expert_start: Tensor, out: Tensor, *, blocks: Blocks
) -> None:
    """`out[i] = weight[e] @ x[i]` for the expert `e` of row `i`.

    Args:
        x: `[T, W]` fp32, fp16 or bf16, any row stride.
        weight: `[E, N, W]` of the same dtype, any strides but the last.
        expert_start: `[E + 1]` int32. Rows past its last are left alone.
        out: `[T, N]`, any row stride.
        blocks: Rows, columns (of the output) and inner of a tile, warps, stages.
    """
    rows, width = x.shape
    experts, outputs, _ = weight.shape
    grid = (row_blocks(rows, experts, blocks), triton.cdiv(outputs, blocks.columns))
    _grouped_gemm[grid](
        x,
        weight,
        expert_start,
        out,
        x.stride(0),
        weight.stride(0),
        weight.stride(1),
        out.stride(0),
        experts,
        outputs,
        width,
        WIDE=is_wide(x),
        BLOCK_M=blocks.rows,
        BLOCK_N=blocks.columns,
        BLOCK_K=blocks.inner,
        num_warps=blocks.warps,
        num_stages=blocks.stages,
    )


@triton.jit(do_not_specialize=["experts"])
def _grouped_gemm(
    x,
    weight,
    expert_start,
    out,
    x_stride,
    expert_stride,
    output_stride,
    out_stride,
    experts,
    outputs,
    width,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert, first, stop = tile_rows(expert_start, experts, None, BLOCK_M)
    if first >= stop:
        return
    row = first + tl.arange(0, BLOCK_M)
    output = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    left = x + row.to(tl.int64)[:, None] * x_stride + inner[None, :]
    right = weight + expert * expert_stride
    right += output.to(tl.int64)[None, :] * output_stride + inner[:, None]
    acc = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for begin in range(0, width, BLOCK_K):
        there = begin + inner < width
        a = tl.load(left + begin, mask=(row < stop)[:, None] & there[None, :], other=0.0)
        b = tl.load(right + begin, mask=there[:, None] & (output < outputs)[None, :], other=0.0)
        if WIDE:
            a = a.to(tl.float32)
            b = b.to(tl.float32)
        acc = tl.dot(a, b, acc=acc, input_precision="ieee")
    store_tile(out, acc, row[:, None], output[None, :], stop, outputs, out_stride)
