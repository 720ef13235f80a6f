"""Products whose weights stay quantised on the device, and their layout.

Letters of the shapes: T rows, N outputs, K inputs, G groups of inputs, E experts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from agentrt_kernels.quantised_weight import MIDDLE_CODE, QuantisedWeight, is_e2m1, is_e4m3
from agentrt_kernels.triton import dequantised_gemv, fp8_gemm
from agentrt_kernels.triton.blocks import Blocks
from agentrt_kernels.triton.dequantised_gemm import UNIT, Codes, dequantised_gemm, halved
from agentrt_kernels.triton.e4m3_rows import e4m3_rows
from agentrt_kernels.triton.product_tile import expert_count
from agentrt_kernels.triton.split_inner import Shares
from agentrt_kernels.triton.workspace import Workspace


class ProductSettings(Protocol):
    """Decisions of a set about a product: its tiles, and how much of a device it fills."""

    def product_blocks(
        self, kernel: str, x: Tensor, bits: int, experts: int | None = None
    ) -> Blocks:
        """Tiles of the product of rows `x` `[T, K]`, of so many experts, and codes of such bits."""
        ...

    def product_room(self, device: torch.device) -> int:
        """Programs of a product that a device holds at a time."""
        ...

    def workspace(self, device: torch.device) -> Workspace:
        """Scratch memory of a device."""
        ...


@dataclass(frozen=True, slots=True)
class QuantisedProduct:
    """`x @ weight.T + bias` with codes, of one matrix or of those of experts.

    Attributes:
        codes: The weight, or those of experts.
        bias: `[N]`, `[E, N]` of experts, or None.
        rounds_rows: Whether rows are rounded to FP8.
        settings: Set that it belongs to.
    """

    codes: Codes
    bias: Tensor | None
    rounds_rows: bool
    settings: ProductSettings

    @property
    def resident_bytes(self) -> int:
        """Bytes of the weight as it is kept."""
        codes = self.codes
        held = (codes.values, codes.scales, codes.zeros, codes.factors, codes.table)
        return sum(one.nbytes for one in held if one is not None)

    def multiply(self, x: Tensor, out: Tensor, expert_start: Tensor | None = None) -> None:
        """Fill `out` `[T, N]` for `x` `[T, K]`; see `dequantised_gemm`."""
        if x.shape[0] == 0:
            return
        if self.rounds_rows:
            self._multiply_rounded(x, out, expert_start)
            return
        if expert_start is None and dequantised_gemv.fits(self.codes, x.shape[0]):
            self._multiply_row(x, out)
            return
        blocks = self.settings.product_blocks(
            "dequantised_gemm", x, self.codes.bits, expert_count(expert_start)
        )
        shares = self._shares(x, blocks, expert_start)
        dequantised_gemm(
            x,
            self.codes,
            self.bias,
            out,
            shares=shares,
            blocks=blocks,
            expert_start=expert_start,
        )
        shares.sum_into(out, self.bias)

    def _multiply_row(self, x: Tensor, out: Tensor) -> None:
        blocks = self.settings.product_blocks("dequantised_gemv", x, self.codes.bits)
        blocks = replace(blocks, inner=dequantised_gemv.inner_of(self.codes, blocks.inner))
        shares = self._shares(x, blocks, None)
        dequantised_gemv.dequantised_gemv(
            x.contiguous(), self.codes, self.bias, out, shares=shares, blocks=blocks
        )
        shares.sum_into(out, self.bias)

    def _multiply_rounded(self, x: Tensor, out: Tensor, expert_start: Tensor | None) -> None:
        rows, width = x.shape
        memory = self.settings.workspace(x.device)
        rounded = memory.take("quantised.rows", (rows, width), torch.float8_e4m3fn)
        scales = memory.take("quantised.row_scales", (rows,), torch.float32)
        e4m3_rows(x, rounded, scales)
        blocks = self.settings.product_blocks("fp8_gemm", x, 8, expert_count(expert_start))
        blocks = replace(blocks, inner=fp8_gemm.inner_of(self.codes, width, blocks))
        shares = self._shares(x, blocks, expert_start)
        fp8_gemm.fp8_gemm(
            rounded,
            scales,
            self.codes,
            self.bias,
            out,
            shares=shares,
            blocks=blocks,
            expert_start=expert_start,
        )
        shares.sum_into(out, self.bias)

    def _shares(self, x: Tensor, blocks: Blocks, expert_start: Tensor | None) -> Shares:
        if expert_start is not None:  # several matrices make programs enough
            return Shares(1)
        outputs, span = self.codes.values.shape
        room, memory = self.settings.product_room(x.device), self.settings.workspace(x.device)
        return Shares.of(x.shape[0], outputs, span, blocks, room, memory)


@dataclass(frozen=True, slots=True)
class QuantisedLinear:
    """A linear of one matrix.

    Attributes:
        product: The matrix.
        order: Input of a row that each input of the weight takes, `[K]`, or None.
    """

    product: QuantisedProduct
    order: Tensor | None

    @property
    def resident_bytes(self) -> int:
        """Bytes of the weight as it is kept."""
        return self.product.resident_bytes + (0 if self.order is None else self.order.nbytes)

    def apply(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        """`x` `[T, K]` to `[T, N]` in its dtype, which may be written to `out`."""
        if out is None:
            out = x.new_empty((x.shape[0], self.product.codes.values.shape[0]))
        if self.order is not None:
            x = x.index_select(1, self.order)
        self.product.multiply(x, out)
        return out


def pack_codes(
    settings: ProductSettings, weight: QuantisedWeight, bias: Tensor | None = None
) -> QuantisedLinear:
    """Lay out a quantised `weight` `[N, K]` as kernels read it; it stays in codes.

    Args:
        settings: Set that multiplies.
        weight: Rows are outputs.
        bias: `[N]`, or None.

    Raises:
        ValueError: Nothing computes by its table, or rounds rows for it.
    """
    order = None if weight.order is None else weight.order.long()
    product = QuantisedProduct(codes_of(weight), bias, weight.row_bits == 8, settings)
    return QuantisedLinear(product, order)


def codes_of(weight: QuantisedWeight) -> Codes:
    """The layout of a quantised matrix `[N, K]`.

    Raises:
        ValueError: Nothing computes by its table, or rounds rows for it.
    """
    is_float, is_small, table = is_e4m3(weight), is_e2m1(weight), weight.table
    if table is not None and weight.bits == 8 and not is_float:
        raise ValueError("cannot pack codes of 8 bits by a table other than that of FP8")
    values = weight.values if weight.bits == 8 else halved(weight.values)
    inputs = values.shape[1] * 8 // weight.bits
    scales, zeros = weight.scales.float(), weight.zeros
    unit = UNIT if is_small else 1.0
    if scales.shape[1] == 1:
        factors, by_group = scales[:, 0] * unit, None
    else:
        factors = _power_of_two(scales.abs().amax(dim=1))
        by_group = (scales / factors[:, None] * unit).half().t().contiguous()
    codes = Codes(
        bits=weight.bits,
        values=values.contiguous(),
        scales=by_group,
        zeros=None if zeros is None else zeros.half().t().contiguous(),
        factors=factors,
        table=None if is_float or is_small else table,
        is_e4m3=is_float,
        is_e2m1=is_small,
        group=min(weight.group, inputs),
        middle=MIDDLE_CODE if weight.bits == 4 and zeros is None and table is None else 0,
    )
    if weight.row_bits == 8 and not fp8_gemm.fits(codes, inputs):
        raise ValueError("cannot round rows to 8 bits but for FP8 in groups of 32 or more")
    return codes


def _power_of_two(largest: Tensor) -> Tensor:
    """Factors that bring a row's largest scale to between 1 and 2; 1 for a row of zeros."""
    return torch.where(largest > 0, torch.exp2(largest.clamp(min=1e-38).log2().floor()), 1.0)
