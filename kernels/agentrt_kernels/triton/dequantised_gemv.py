"""One row times a matrix of integer codes: no matrix unit, and no conversion of a code.

A tile for the matrix units holds sixteen rows, and a code has to become a number of their type in
a register that they read. For one row that is more work than the product. Here a code is masked out
of a word of four bytes and read as a float as it stands: fp32 counts evenly from zero up to 2^24 in
steps of 2^-149, so that bits below the exponent are an integer, and products with them are exact.
NVIDIA's processors multiply numbers that small at the full rate. The row is scaled to meet them.

Codes of four bits lie in a word as `halved` puts them.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.triton.blocks import Blocks
from agentrt_kernels.triton.dequantised_gemm import Codes
from agentrt_kernels.triton.split_inner import Shares

_LEAST_INNER = 16
"""Bytes of an output, which a thread reads at once, below which a tile would be mostly scales."""
_RAISED = tl.constexpr(64)
"""Power of two that a row is multiplied by: its values stay finite up to 2^63."""
_LOWERED = tl.constexpr(149 - 64)
"""Power of two that sums are multiplied by at the end: the least float is 2^-149."""


def fits(weight: Codes, rows: int) -> bool:
    """Whether there is one row, codes are integers, and groups and outputs are whole tiles."""
    is_integer = weight.table is None and not weight.is_e4m3 and not weight.is_e2m1
    if rows != 1 or not is_integer or weight.values.dim() != 2:
        return False
    return inner_of(weight, _LEAST_INNER) == _LEAST_INNER


def inner_of(weight: Codes, inner: int) -> int:
    """Bytes of an output in a tile, each half of which shares a scale."""
    span = weight.values.shape[1]
    is_one_group = weight.group >= span * 8 // weight.bits
    return math.gcd(inner, span, 0 if is_one_group else weight.group)


def dequantised_gemv(
    x: Tensor, weight: Codes, bias: Tensor | None, out: Tensor, *, shares: Shares, blocks: Blocks
) -> None:
    """`out = x @ weight.T + bias`, with sums in fp32.

    Args:
        x: `[1, K]` fp32, fp16 or bf16.
        weight: The matrix, which `fits`.
        bias: `[N]`, or None; left to `shares` if there are several.
        out: `[1, N]`.
        shares: Parts of the inputs that programs sum apart.
        blocks: Columns (outputs) and inner (as `inner_of` says) of a tile, warps, stages.
    """
    outputs, span = weight.values.shape
    lowest = 128 if weight.bits == 8 else 0
    target, _, share_stride = shares.target(out)
    _dequantised_gemv[(triton.cdiv(outputs, blocks.columns), shares.count)](
        x,
        weight.values.view(torch.int32),
        weight.scales,
        weight.zeros,
        weight.factors,
        bias if shares.count == 1 else None,
        target,
        share_stride,
        outputs,
        span,
        weight.group,
        shares.codes_of_one(span, blocks.inner),
        BITS=weight.bits,
        LOWEST=lowest,
        MIDDLE=weight.middle + lowest,
        BLOCK_N=blocks.columns,
        BLOCK_K=blocks.inner,
        STAGES=blocks.stages,
        num_warps=blocks.warps,
    )


@triton.jit
def _dequantised_gemv(
    x,
    words,
    scales,
    zeros,
    factors,
    bias,
    out,
    share_stride,
    outputs,
    span,
    group,
    share_codes,
    BITS: tl.constexpr,
    LOWEST: tl.constexpr,
    MIDDLE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):
    output = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    share = tl.program_id(1)
    word = tl.arange(0, BLOCK_K // 4)
    real = output < outputs
    # No mask along the inputs, which would cut what a thread reads at once into words.
    place = words + output.to(tl.int64)[:, None] * (span // 4) + word[None, :]
    acc = tl.zeros([BLOCK_N, BLOCK_K // 4], tl.float32)
    stop = tl.minimum((share + 1) * share_codes, span)
    for begin in tl.range(share * share_codes, stop, BLOCK_K, num_stages=STAGES):
        packed = tl.load(place + begin // 4, mask=real[:, None], other=0)
        packed = packed.to(tl.uint32, bitcast=True)
        if BITS == 8:  # from -128..127 to 0..255
            packed = packed ^ 0x80808080
        last = packed >> 8  # the last byte of a word would reach into the exponent
        for HALF in tl.static_range(8 // BITS):
            first = begin + HALF * span
            part = tl.zeros([BLOCK_N, BLOCK_K // 4], tl.float32)
            total = tl.zeros([1, BLOCK_K // 4], tl.float32)
            for BYTE in tl.static_range(4):
                # Where the code lies in its word.
                LOW = tl.constexpr(8 * min(BYTE, 2) + 4 * HALF)
                right = tl.load(x + first + 4 * word + BYTE).to(tl.float32)[None, :]
                total += right
                code = (packed if BYTE < 3 else last) & (((1 << BITS) - 1) << LOW)
                left = code.to(tl.float32, bitcast=True)
                part += left * (right * (2.0**_RAISED / (1 << LOW)))
            group_place = (first // group) * outputs + output
            middle = float(MIDDLE)
            if zeros is not None:
                zero = tl.load(zeros + group_place, mask=real, other=0.0).to(tl.float32)
                middle = (zero + LOWEST)[:, None]
            part -= (total * 2.0**-_LOWERED) * middle
            if scales is not None:
                part *= tl.load(scales + group_place, mask=real, other=0.0).to(tl.float32)[:, None]
            acc += part
    made = tl.sum(acc, 1) * 2.0**_LOWERED
    made *= tl.load(factors + output, mask=real, other=0.0)
    if bias is not None:
        made += tl.load(bias + output, mask=real, other=0.0).to(tl.float32)
    out += share.to(tl.int64) * share_stride + output
    tl.store(out, made.to(out.dtype.element_ty), mask=real)
