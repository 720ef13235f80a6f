"""Heads normed, queries and keys rotated, keys and values stored: one pass over a step's QKV.

A program takes one row and a block of its heads. Half a head is the unit, since rotation pairs
`x[i]` with `x[i + D / 2]`. Bound by memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from agentrt_kernels.contract import HeadNorms
from agentrt_kernels.triton.dependent_launch import overlapped, wait_for_inputs
from agentrt_kernels.triton.e4m3 import e4m3_bits, nearest_e4m3
from agentrt_kernels.triton.operands import Heads

_BLOCK_HEADS = 8


def rope_store(
    qkv: Tensor,
    positions: Tensor,
    angles: Tensor,
    rows: Tensor,
    norms: HeadNorms | None,
    layer_pages: Tensor,
    query: Tensor,
    scales: Tensor | None = None,
) -> None:
    """Fill `query` and the pages.

    Args:
        qkv: `[T, H + 2 * K, D]` fp32, fp16 or bf16, D even; any strides of rows and heads.
        positions: `[T]` int64.
        angles: `[positions, D]` fp32, cosines first; any row stride.
        rows: `[T]` int64 slots; a negative one stores nothing.
        norms: Weights of query and key, or None; any row stride.
        layer_pages: `[pages, 2, P, K, D]`, any strides but the last.
        query: `[T, H, D]`, any strides of rows and heads.
        scales: `[pages, 2, K, P]` bf16 of pages of codes, any strides but the last, or None.
    """
    tokens, all_heads, width = qkv.shape
    heads, kv_heads = query.shape[1], layer_pages.shape[3]
    if tokens == 0:
        return
    _rope_store[(tokens, triton.cdiv(all_heads, _BLOCK_HEADS))](
        Heads.of(qkv),
        positions,
        angles,
        rows,
        None if norms is None else norms.query,
        None if norms is None else norms.key,
        layer_pages if scales is None else layer_pages.view(torch.int8),
        Heads.of(query),
        angles.stride(0),
        layer_pages.stride(0),
        layer_pages.stride(1),
        layer_pages.stride(2),
        layer_pages.stride(3),
        scales,
        *((None, None, None) if scales is None else scales.stride()[:3]),
        norms.query.stride(0) if norms is not None and norms.query.dim() > 1 else 0,
        0.0 if norms is None else norms.epsilon,
        H=heads,
        K=kv_heads,
        P=layer_pages.shape[2],
        HALF=width // 2,
        CENTERED=norms is not None and norms.centered,
        E4M3=layer_pages.dtype is torch.float8_e4m3fn,
        BLOCK_HEADS=_BLOCK_HEADS,
        BLOCK_HALF=triton.next_power_of_2(width // 2),
        num_warps=4,
        **overlapped(qkv.device),
    )


@triton.jit
def _rope_store(
    qkv,
    positions,
    angles,
    rows,
    query_norm,
    key_norm,
    pages,
    query,
    angle_stride,
    page_stride,
    part_stride,
    token_stride,
    head_stride,
    scales,
    scale_page_stride,
    scale_part_stride,
    scale_head_stride,
    norm_stride,
    epsilon,
    H: tl.constexpr,
    K: tl.constexpr,
    P: tl.constexpr,
    HALF: tl.constexpr,
    CENTERED: tl.constexpr,
    E4M3: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
    OVERLAPPED: tl.constexpr,
):
    wait_for_inputs(OVERLAPPED)
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * BLOCK_HEADS + tl.arange(0, BLOCK_HEADS)  # [heads]
    place = tl.arange(0, BLOCK_HALF)  # [D / 2]
    inside = (head < H + 2 * K)[:, None] & (place < HALF)[None, :]
    is_query = (head < H)[:, None]
    is_key = (head >= H)[:, None] & (head < H + K)[:, None]

    source = qkv.data + row * qkv.row_stride + head[:, None] * qkv.head_stride + place[None, :]
    first = tl.load(source, mask=inside, other=0.0).to(tl.float32)
    second = tl.load(source + HALF, mask=inside, other=0.0).to(tl.float32)
    turned = inside & (is_query | is_key)
    if query_norm is not None:
        if CENTERED:
            mean = (tl.sum(first + second, 1) / (2 * HALF))[:, None]
            first = tl.where(turned, first - mean, first)
            second = tl.where(turned, second - mean, second)
        square = tl.sum(first * first + second * second, 1) / (2 * HALF)
        scale = tl.where(turned, tl.rsqrt(square + epsilon)[:, None], 1.0)
        weight = tl.where(
            is_query,
            query_norm + head[:, None] * norm_stride + place[None, :],
            key_norm + (head - H)[:, None] * norm_stride + place[None, :],
        )
        first *= scale * tl.load(weight, mask=turned, other=1.0).to(tl.float32)
        second *= scale * tl.load(weight + HALF, mask=turned, other=1.0).to(tl.float32)
    angle = angles + tl.load(positions + row) * angle_stride + place[None, :]
    cosine = tl.load(angle, mask=turned, other=1.0)  # values are left as they are
    sine = tl.load(angle + HALF, mask=turned, other=0.0)
    left = first * cosine - second * sine
    right = second * cosine + first * sine

    kind = query.data.dtype.element_ty
    target = query.data + row * query.row_stride + head[:, None] * query.head_stride
    target += place[None, :]
    tl.store(target, left.to(kind), mask=inside & is_query)
    tl.store(target + HALF, right.to(kind), mask=inside & is_query)

    slot = tl.load(rows + row)
    kv_head = tl.where(head < H + K, head - H, head - H - K)
    part = tl.where(head < H + K, 0, 1).to(tl.int64)
    offsets = (slot // P) * page_stride + part * part_stride + (slot % P) * token_stride
    target = pages + (offsets + kv_head * head_stride)[:, None] + place[None, :]
    kind = pages.dtype.element_ty
    stored = inside & (head >= H)[:, None] & (slot >= 0)
    if scales is not None:
        left, right, scale = coded(left, right, E4M3)
        at = (slot // P) * scale_page_stride + part * scale_part_stride + slot % P
        there = (head >= H) & (head < H + 2 * K) & (slot >= 0)
        tl.store(scales + at + kv_head * scale_head_stride, scale.to(tl.bfloat16), mask=there)
    tl.store(target, left.to(kind), mask=stored)
    tl.store(target + HALF, right.to(kind), mask=stored)


@triton.jit
def coded(left, right, E4M3: tl.constexpr):
    """Codes of heads, given by halves `[heads, D / 2]`, and their scales; see `kv_codes`.

    What lies past a half is 0.
    """
    largest = tl.maximum(tl.max(tl.abs(left), 1), tl.max(tl.abs(right), 1))
    faults = tl.sum(left * 0.0 + right * 0.0, 1)  # not 0 if a value is not finite
    exact = largest / (448.0 if E4M3 else 127.0)
    finite = faults == 0.0
    scale = tl.where(exact < 1e-30, 0.0, exact)
    if not E4M3:
        bits = (scale.to(tl.int32, bitcast=True) + 0xFFFF) & -0x10000  # bf16, rounded up
        scale = bits.to(tl.float32, bitcast=True)
    whole = finite & (scale > 0.0)
    step = tl.where(whole, scale, 1.0)[:, None]
    left = tl.where(whole[:, None], left / step, 0.0)
    right = tl.where(whole[:, None], right / step, 0.0)
    if E4M3:
        first, second = nearest_e4m3(left), nearest_e4m3(right)
        along = tl.sum(left * first + right * second, 1)
        square = tl.sum(first * first + second * second, 1)
        scale *= tl.where(whole, along / tl.where(whole, square, 1.0), 1.0)
        left, right = e4m3_bits(first), e4m3_bits(second)
    else:
        # Rounded to the nearest, ties to even, by a number whose last bit counts ones.
        left = left + 12582912.0 - 12582912.0
        right = right + 12582912.0 - 12582912.0
    return left, right, tl.where(finite, scale, float("nan"))
