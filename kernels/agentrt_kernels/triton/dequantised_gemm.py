"""Rows times a matrix of codes, which are unpacked in registers and nowhere else.

Outputs are the left side of the product and rows the right one: unpacked codes are in registers
already, from which the matrix units read the left side alone, and one row fills a sixteenth of a
tile instead of a sixty-fourth.

Codes of four bits lie two a byte as `halved` puts them: the input `i` in the lower half and the
input `i + K / 2` in the upper one, so that both halves of a tile are neighbours in a row of `x`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.cpu.nibbles import unpack_nibbles
from agentrt_kernels.triton.blocks import Blocks
from agentrt_kernels.triton.product_tile import (
    expert_count,
    of_expert,
    row_blocks,
    store_tile,
    tile_rows,
    weighed,
)
from agentrt_kernels.triton.split_inner import Shares
from agentrt_kernels.triton.tile import is_wide

UNIT = 2.0**14
"""Factor of codes of MXFP4 that are read as fp16, whose exponents begin so much lower."""


@dataclass(frozen=True, slots=True)
class Codes:
    """A matrix `[N, K]` as the kernel reads it: `(codes - zeros) * scales * factors`.

    Matrices of experts have a dimension E in front of each of their tensors, but for the table.

    Attributes:
        bits: 8 or 4.
        values: int8 `[N, K]`; or uint8 `[N, K / 2]` as `halved` puts them.
        scales: fp16 `[G, N]`; None for ones.
        zeros: fp16 `[G, N]`; None for `middle`.
        factors: fp32 `[N]`.
        table: fp32 `[16]` that codes of four bits stand for; None for steps and `E2M1`.
        is_e4m3: Whether codes of eight bits are those of FP8.
        is_e2m1: Whether codes of four bits are those of MXFP4, `UNIT` of which makes one.
        group: Inputs that share a scale and a zero.
        middle: The code that stands for zero without zeros.
    """

    bits: int
    values: Tensor
    scales: Tensor | None
    zeros: Tensor | None
    factors: Tensor
    table: Tensor | None
    is_e4m3: bool
    is_e2m1: bool
    group: int
    middle: int


def halved(packed: Tensor) -> Tensor:
    """Codes of four bits `[N, K / 2]`, neighbours in a byte, with halves of a row in it instead.

    Example:
        >>> halved(torch.tensor([[0x21, 0x43]], dtype=torch.uint8)).tolist() == [[0x31, 0x42]]
        True
    """
    first, second = unpack_nibbles(packed).chunk(2, dim=1)
    return first | second << 4


def dequantised_gemm(
    x: Tensor,
    weight: Codes,
    bias: Tensor | None,
    out: Tensor,
    *,
    shares: Shares,
    blocks: Blocks,
    expert_start: Tensor | None = None,
) -> None:
    """`out = x @ weight.T + bias`, with sums in fp32.

    Args:
        x: `[T, K]` fp32, fp16 or bf16, any row stride.
        weight: The matrix, or those of experts.
        bias: `[N]`, `[E, N]` of experts, or None; left to `shares` if there are several.
        out: `[T, N]`, any row stride.
        shares: Parts of the inputs that programs sum apart.
        blocks: Rows, columns (outputs) and inner (codes of a row) of a tile, warps, stages.
        expert_start: `[E + 1]` int32, where the rows of each expert begin, or None. Rows past its
            last are left alone.
    """
    rows, width = x.shape
    outputs, span = weight.values.shape[-2:]
    experts = expert_count(expert_start)
    # Inputs of a tile that surely share a scale, wherever the tile begins.
    grain = math.gcd(weight.group, blocks.inner)
    if span < width:
        grain = math.gcd(grain, span)
    if weight.group >= width:
        grain = blocks.inner
    target, stride, share_stride = shares.target(out)
    programs = row_blocks(rows, experts, blocks)
    grid = (programs, triton.cdiv(outputs, blocks.columns), shares.count)
    _dequantised_gemm[grid](
        x,
        weight.values,
        weight.scales,
        weight.zeros,
        weight.factors,
        weight.table,
        bias if shares.count == 1 else None,
        target,
        expert_start,
        experts,
        x.stride(0),
        stride,
        share_stride,
        rows,
        outputs,
        span,
        weight.group,
        -(-width // weight.group),
        shares.codes_of_one(span, blocks.inner),
        BITS=weight.bits,
        HALVES=8 // weight.bits,
        MIDDLE=weight.middle,
        E4M3=weight.is_e4m3,
        E2M1=weight.is_e2m1,
        GRAIN=grain,
        WIDE=is_wide(x),
        BLOCK_M=blocks.rows,
        BLOCK_N=blocks.columns,
        BLOCK_K=blocks.inner,
        num_warps=blocks.warps,
        num_stages=blocks.stages,
    )


@triton.jit(do_not_specialize=["rows", "experts"])
def _dequantised_gemm(
    x,
    codes,
    scales,
    zeros,
    factors,
    table,
    bias,
    out,
    expert_start,
    experts,
    x_stride,
    out_stride,
    share_stride,
    rows,
    outputs,
    span,
    group,
    groups,
    share_codes,
    BITS: tl.constexpr,
    HALVES: tl.constexpr,
    MIDDLE: tl.constexpr,
    E4M3: tl.constexpr,
    E2M1: tl.constexpr,
    GRAIN: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    expert, first_row, stop = tile_rows(expert_start, experts, rows, BLOCK_M)
    if expert_start is not None and first_row >= stop:
        return
    codes = of_expert(codes, expert, outputs * span)
    scales = of_expert(scales, expert, groups * outputs)
    zeros = of_expert(zeros, expert, groups * outputs)
    factors = of_expert(factors, expert, outputs)
    bias = of_expert(bias, expert, outputs)
    row = first_row + tl.arange(0, BLOCK_M)
    output = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    share = tl.program_id(2)
    inner = tl.arange(0, BLOCK_K)
    grain = tl.arange(0, BLOCK_K // GRAIN) * GRAIN
    real = output < outputs
    code_place = codes + output.to(tl.int64)[:, None] * span + inner[None, :]
    x_place = x + row.to(tl.int64)[None, :] * x_stride + inner[:, None]
    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    for begin in range(share * share_codes, tl.minimum((share + 1) * share_codes, span), BLOCK_K):
        there = begin + inner < span
        packed = tl.load(code_place + begin, mask=real[:, None] & there[None, :], other=0)
        for HALF in tl.static_range(HALVES):
            first = begin + HALF * span
            right = tl.load(
                x_place + first, mask=there[:, None] & (row < stop)[None, :], other=0.0
            )  # [K, M]
            if WIDE:
                right = right.to(tl.float32)
            code = packed
            if BITS == 4:
                code = (code >> (4 * HALF)) & 15
            if table is not None:
                left = tl.load(table + code.to(tl.int32))
            elif E2M1:
                bits = code.to(tl.uint16)  # sign, exponent and mantissa, as fp16 has them
                bits = ((bits & 8) << 12) | ((bits & 7) << 9)
                left = bits.to(tl.float16, bitcast=True).to(tl.float32)
            elif E4M3:
                left = code.to(tl.float8e4nv, bitcast=True).to(tl.float32)
            else:
                left = code.to(tl.float32)
            of_group = (first + grain) // group
            known = real[:, None] & (of_group < groups)[None, :]
            scale_place = of_group[None, :] * outputs + output[:, None]
            if zeros is not None:
                zero = tl.load(zeros + scale_place, mask=known, other=0.0).to(tl.float32)
                left -= _each_input(zero, GRAIN)
            elif MIDDLE != 0:
                left -= MIDDLE
            if scales is not None:
                scale = tl.load(scales + scale_place, mask=known, other=0.0).to(tl.float32)
                left *= _each_input(scale, GRAIN)
            acc = tl.dot(left.to(right.dtype), right, acc=acc, input_precision="ieee")
    acc = weighed(acc, factors, bias, output, real)
    out += share.to(tl.int64) * share_stride
    store_tile(out, acc, row[None, :], output[:, None], stop, outputs, out_stride)


@triton.jit
def _each_input(values, GRAIN: tl.constexpr):
    """Values `[N, K / GRAIN]` for each of the inputs that share them, `[N, K]`."""
    if GRAIN == 1:
        return values
    shape: tl.constexpr = [values.shape[0], values.shape[1], GRAIN]
    wide = tl.broadcast_to(values[:, :, None], shape)
    return wide.reshape([values.shape[0], values.shape[1] * GRAIN])
