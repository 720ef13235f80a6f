"""Operands of the contract as attention kernels take them: named tuples, unpacked at the launch.

An operand that a call does not have is None, which the compiler sees: no flag repeats it. A number
in a tuple is specialized on being 1 or a multiple of 16, as strides should be. Counts vary from
batch to batch and stay arguments of their own. Their order matters to the assembler: another
one may cost registers.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from agentrt_kernels.contract import Score, SharedPrefix
from agentrt_kernels.triton.e4m3 import is_native
from agentrt_kernels.triton.tile import is_wide


class Shape(NamedTuple):
    """Sizes that a kernel is compiled for; single letters are those of the contract.

    Attributes:
        H: Query heads.
        G: Query heads that share one head of keys and values.
        P: Tokens of a page.
        D: Head width.
        BLOCK_M: Rows of a tile.
        BLOCK_N: Keys and values of a tile.
        BLOCK_D: A power of two that holds D.
        WIDE: Whether operands of `tl.dot` are fp32.
        E4M3: Whether keys and values are bytes of FP8.
        NATIVE: Whether the device converts those itself.
    """

    H: int
    G: int
    P: int
    D: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_D: int
    WIDE: bool
    E4M3: bool
    NATIVE: bool

    @classmethod
    def of(cls, query: Tensor, layer_pages: Tensor, rows: int, columns: int) -> Shape:
        """For `query` `[T, H, D]`, `layer_pages` `[pages, 2, P, K, D]`, tiles `[rows, columns]`."""
        heads, width = query.shape[1:]
        page, kv_heads = layer_pages.shape[2:4]
        padded = max(16, triton.next_power_of_2(width))
        group = heads // kv_heads
        return cls(
            *(heads, group, page, width, rows, columns, padded, is_wide(query)),
            E4M3=layer_pages.dtype is torch.float8_e4m3fn,
            NATIVE=is_native(query.device),
        )


class Heads(NamedTuple):
    """`[T, H, D]`: queries, or the place of their results."""

    data: Tensor
    row_stride: int
    head_stride: int

    @classmethod
    def of(cls, x: Tensor) -> Heads:
        """`x` `[T, H, D]`, any strides but the last."""
        return cls(x, x.stride(0), x.stride(1))


class History(NamedTuple):
    """Pages of one layer, and the block table that gives each sequence its own.

    Pages of codes are bytes and have scales; the strides of those are None without.
    """

    pages: Tensor
    table: Tensor
    page_stride: int
    part_stride: int
    token_stride: int
    head_stride: int
    table_stride: int
    scales: Tensor | None = None
    scale_page_stride: int | None = None
    scale_part_stride: int | None = None
    scale_head_stride: int | None = None

    @classmethod
    def of(cls, layer_pages: Tensor, table: Tensor, scales: Tensor | None) -> History:
        """The operands of a layer.

        Args:
            layer_pages: `[pages, 2, P, K, D]`, any strides but the last.
            table: `[B, pages]`.
            scales: `[pages, 2, K, P]` of codes, any strides but the last, or None.
        """
        page, part, token, head, _ = layer_pages.stride()
        strides = page, part, token, head, table.stride(0)
        if scales is None:
            return cls(layer_pages, table, *strides)
        return cls(layer_pages.view(torch.int8), table, *strides, scales, *scales.stride()[:3])


class Scale(NamedTuple):
    """A `Score` of the contract without its sinks."""

    scaling: float
    softcap: float | None
    window: int | None

    @classmethod
    def of(cls, score: Score) -> Scale:
        """The same fields.

        Raises:
            ValueError: Tokens at the start of a context are unseen, which no kernel here computes.
        """
        if score.unseen:
            raise ValueError(f"triton kernels see all tokens, not those from {score.unseen} on")
        return cls(score.scaling, score.softcap, score.window)


class Groups(NamedTuple):
    """Members and lengths of the shared prefixes, as in `SharedPrefix`."""

    member_start: Tensor
    members: Tensor
    tokens: Tensor

    @classmethod
    def of(cls, prefix: SharedPrefix) -> Groups:
        """The same fields."""
        return cls(prefix.member_start, prefix.members, prefix.tokens)
