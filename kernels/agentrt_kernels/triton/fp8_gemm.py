"""Rows in FP8 times a matrix in FP8, by the matrix units of Hopper where there are some.

Each row has a scale, and each output has one, or one for each group of its inputs; blocks of
outputs and inputs are groups whose scales repeat. Outputs are the left side, as in
`dequantised_gemm`.
"""

from __future__ import annotations

import math

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.blocks import Blocks
from agentrt_kernels.triton.dependent_launch import capability
from agentrt_kernels.triton.dequantised_gemm import Codes
from agentrt_kernels.triton.product_tile import (
    expert_count,
    of_expert,
    row_blocks,
    store_tile,
    tile_rows,
    weighed,
)
from agentrt_kernels.triton.split_inner import Shares
from agentrt_kernels.triton.tile import is_interpreted

_FIRST_CAPABILITY = 90
_LEAST_INNER = 32


def fits(weight: Codes, width: int) -> bool:
    """Whether the groups of a matrix of so many inputs are made of whole tiles."""
    is_whole = weight.group >= width or weight.group % _LEAST_INNER == 0
    return weight.is_e4m3 and weight.zeros is None and is_whole


def inner_of(weight: Codes, width: int, blocks: Blocks) -> int:
    """Inputs of a tile, all of which share a scale."""
    return blocks.inner if weight.group >= width else math.gcd(weight.group, blocks.inner)


def fp8_gemm(
    codes: Tensor,
    row_scales: Tensor,
    weight: Codes,
    bias: Tensor | None,
    out: Tensor,
    *,
    shares: Shares,
    blocks: Blocks,
    expert_start: Tensor | None = None,
) -> None:
    """`out = (codes * row_scales) @ weight.T + bias`, with sums in fp32.

    Args:
        codes: float8_e4m3fn `[T, K]`, any row stride.
        row_scales: fp32 `[T]`.
        weight: The matrix, which `fits`, or those of experts.
        bias: `[N]`, `[E, N]` of experts, or None; left to `shares` if there are several.
        out: `[T, N]`, any row stride.
        shares: Parts of the inputs that programs sum apart.
        blocks: Rows, columns (outputs) and inner of a tile, as `inner_of` says; warps, stages.
        expert_start: As in `dequantised_gemm`.
    """
    rows, width = codes.shape
    outputs, experts = weight.values.shape[-2], expert_count(expert_start)
    target, stride, share_stride = shares.target(out)
    programs = row_blocks(rows, experts, blocks)
    grid = (programs, triton.cdiv(outputs, blocks.columns), shares.count)
    _fp8_gemm[grid](
        codes,
        row_scales,
        weight.values,
        weight.scales,
        weight.factors,
        bias if shares.count == 1 else None,
        target,
        expert_start,
        experts,
        codes.stride(0),
        stride,
        share_stride,
        rows,
        outputs,
        width,
        weight.group,
        -(-width // weight.group),
        shares.codes_of_one(width, blocks.inner),
        NATIVE=capability(codes.device) >= _FIRST_CAPABILITY,
        WIDE=is_interpreted(),
        BLOCK_M=blocks.rows,
        BLOCK_N=blocks.columns,
        BLOCK_K=blocks.inner,
        num_warps=blocks.warps,
        num_stages=blocks.stages,
    )


@triton.jit(do_not_specialize=["rows", "experts"])
def _fp8_gemm(
    x,
    row_scales,
    codes,
    scales,
    factors,
    bias,
    out,
    expert_start,
    experts,
    x_stride,
    out_stride,
    share_stride,
    rows,
    outputs,
    width,
    group,
    groups,
    share_codes,
    NATIVE: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert, first_row, stop = tile_rows(expert_start, experts, rows, BLOCK_M)
    if expert_start is not None and first_row >= stop:
        return
    codes = of_expert(codes, expert, outputs * width)
    scales = of_expert(scales, expert, groups * outputs)
    factors = of_expert(factors, expert, outputs)
    bias = of_expert(bias, expert, outputs)
    row = first_row + tl.arange(0, BLOCK_M)
    output = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    share = tl.program_id(2)
    inner = tl.arange(0, BLOCK_K)
    real, seen = output < outputs, row < stop
    code_place = codes + output.to(tl.int64)[:, None] * width + inner[None, :]
    x_place = x + row.to(tl.int64)[None, :] * x_stride + inner[:, None]
    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    for begin in range(share * share_codes, tl.minimum((share + 1) * share_codes, width), BLOCK_K):
        there = begin + inner < width
        packed = tl.load(code_place + begin, mask=real[:, None] & there[None, :], other=0)
        left = packed.to(tl.float8e4nv, bitcast=True)
        right = tl.load(x_place + begin, mask=there[:, None] & seen[None, :], other=0.0)
        if WIDE:
            left = left.to(tl.float32)
            right = right.to(tl.float32)
        elif not NATIVE:  # each value of FP8 is one of bf16
            left = left.to(tl.bfloat16)
            right = right.to(tl.bfloat16)
        if scales is None:
            # Matrix units keep some fourteen bits of a sum of FP8, so that it is moved in time.
            acc = tl.dot(
                left, right, acc=acc, input_precision="ieee", max_num_imprecise_acc=BLOCK_K
            )
        else:
            place = scales + (begin // group) * outputs + output
            scale = tl.load(place, mask=real, other=0.0).to(tl.float32)
            acc += tl.dot(left, right, input_precision="ieee") * scale[:, None]
    acc *= tl.load(row_scales + row, mask=seen, other=0.0)[None, :]
    acc = weighed(acc, factors, bias, output, real)
    out += share.to(tl.int64) * share_stride
    store_tile(out, acc, row[None, :], output[:, None], stop, outputs, out_stride)
