"""Linears whose weights stay quantised: codes of eight or four bits, read from beginning to end.

Letters of the shapes: N outputs, K inputs, G groups of inputs, P panels of 32 outputs.
"""

from __future__ import annotations

from ctypes import addressof
from enum import IntEnum

import torch
from torch import Tensor

from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.linear import (
    LANES,
    PANEL,
    After,
    Allocate,
    LinearParts,
    NativeLinear,
    room,
)
from agentrt_kernels.quantised_weight import QuantisedWeight, is_e4m3

STEP = 8
"""Groups end at multiples of so many inputs, or with the row."""


class Coding(IntEnum):
    """`enum class Coding`: what a code stands for."""

    STEPS = 0
    TABLE = 1
    E4M3 = 2


class QuantisedLinear(NativeLinear):
    """A linear of codes, where rows of x are integers of sixteen or eight bits, or fp32.

    Args:
        library: The native code.
        codes: uint8 `[P, bytes]`.
        scales: fp16 `[P, G, 32]`.
        zeros: fp16 `[P, G, 32]`, from the middle code, or None.
        factors: fp32 `[P, 32]` of the scales.
        bias: `[N]` in the dtype of the rows, or None.
        order: int32 `[K]`, the input of a row that each input takes, or None.
        table: fp32 `[16]`, values of codes of four bits, or None.
        coding: Meaning of a code.
        bits: 8 or 4.
        group: Inputs that share a scale, a multiple of 8.
        row_bits: 16 or 8; 8 needs byte products.
        inputs: K.
        outputs: N; half of it if the weight is gated.
    """

    def __init__(
        self,
        library: c.Native,
        *,
        codes: Tensor,
        scales: Tensor,
        zeros: Tensor | None,
        factors: Tensor,
        bias: Tensor | None,
        order: Tensor | None,
        table: Tensor | None,
        coding: Coding,
        bits: int,
        group: int,
        row_bits: int,
        inputs: int,
        outputs: int,
    ) -> None:
        self._codes, self._scales, self._zeros = codes, scales, zeros
        self._factors, self._bias, self._order = factors, bias, order
        self._table, self._coding = table, coding
        self._bits, self._group, self._row_bits = bits, group, row_bits
        super().__init__(library, inputs, outputs)

    @property
    def resident_bytes(self) -> int:
        """Bytes of the weight as it is kept."""
        held = (self._codes, self._scales, self._zeros, self._factors, self._order)
        return sum(one.nbytes for one in held if one is not None)

    def parts(self) -> LinearParts:
        """See `NativeLinear`."""
        named = {
            "codes": self._codes,
            "scales": self._scales,
            "zeros": self._zeros,
            "factors": self._factors,
            "bias": self._bias,
            "order": self._order,
            "table": self._table,
        }
        held = {name: one for name, one in named.items() if one is not None}
        return LinearParts(self._bits, self._group, self._coding, held)

    def described(self, after: After, scale: float = 1.0) -> c.Linear:
        """See `NativeLinear`."""
        zeros, bias, order, table = self._zeros, self._bias, self._order, self._table
        return c.Linear(
            weight=self._codes.data_ptr(),
            scales=self._scales.data_ptr(),
            zeros=None if zeros is None else zeros.data_ptr(),
            factors=self._factors.data_ptr(),
            bias=None if bias is None else bias.data_ptr(),
            order=None if order is None else order.data_ptr(),
            table=None if table is None else table.data_ptr(),
            inputs=self.inputs,
            outputs=self.outputs,
            bits=self._bits,
            group=self._group,
            row_bits=self._row_bits,
            coding=self._coding,
            after=after,
            scale=scale,
        )


def pack_codes(
    library: c.Native,
    weight: QuantisedWeight,
    bias: Tensor | None = None,
    *,
    gated: bool = False,
    allocate: Allocate = room,
) -> QuantisedLinear:
    """Lay out a quantised `weight` `[N, K]` as it is read; it stays in codes.

    Args:
        library: The native code.
        weight: Rows are outputs; with `gated`, gates and then what they open for.
        bias: `[N]` in the dtype of the rows, or None.
        gated: Whether the product is half as wide: values, each through a gate.
        allocate: Gives the memory of codes, scales and zeros.

    Raises:
        ValueError: The groups do not end at multiples of 8, or nothing computes by its table.
    """
    coding = _coding_of(weight)
    values = weight.values.contiguous()
    rows, inputs = values.shape[0], values.shape[1] * 8 // weight.bits
    if weight.group % STEP and weight.group < inputs:
        raise ValueError(f"cannot pack groups of {weight.group}: they are no multiple of {STEP}")
    padded = -(-inputs // STEP) * STEP
    outputs = rows // 2 if gated else rows
    panels = -(-outputs // (LANES if gated else PANEL))
    codes = allocate(panels * padded * PANEL * weight.bits // 8, torch.uint8).view(panels, -1)
    call = c.PackCodesCall(
        values=values.data_ptr(),
        packed=codes.data_ptr(),
        stride=values.stride(0),
        inputs=inputs,
        outputs=outputs,
        bits=weight.bits,
        gated=gated,
        middle=128 if coding is Coding.STEPS else 0,
    )
    library.pack_codes(addressof(call))
    scales = weight.scales.float()
    factors = _power_of_two(scales.abs().amax(dim=1))
    zeros = weight.zeros
    if zeros is not None and weight.bits == 4:
        zeros = zeros.float() - 8
    order = _order(outputs, panels, gated)
    return QuantisedLinear(
        library,
        codes=codes,
        scales=_by_panel(scales / factors[:, None], order, allocate),
        zeros=None if zeros is None else _by_panel(zeros.float(), order, allocate),
        factors=torch.where(order < 0, 0.0, factors[order.clamp(min=0)]).contiguous(),
        bias=bias,
        order=None if weight.order is None else weight.order.contiguous(),
        table=weight.table if coding is Coding.TABLE else None,
        coding=coding,
        bits=weight.bits,
        group=padded if weight.group >= inputs else weight.group,
        row_bits=weight.row_bits,
        inputs=inputs,
        outputs=outputs,
    )


def _coding_of(weight: QuantisedWeight) -> Coding:
    table = weight.table
    if table is None:
        return Coding.STEPS
    if weight.zeros is None and weight.bits == 4 and table.dtype is torch.float32:
        return Coding.TABLE
    if weight.zeros is None and is_e4m3(weight):
        return Coding.E4M3
    raise ValueError(f"cannot pack codes of {weight.bits} bits by a table of {table.dtype}")


def _order(outputs: int, panels: int, gated: bool) -> Tensor:
    """The row of each column of each panel `[P, 32]`; -1 is none."""
    width = LANES if gated else PANEL
    column = torch.arange(PANEL)
    rows = torch.arange(panels)[:, None] * width + column % width
    shifted = rows + outputs * (column >= width)
    return torch.where(rows < outputs, shifted, -1)


def _by_panel(groups: Tensor, order: Tensor, allocate: Allocate) -> Tensor:
    """`[N, G]` as fp16 `[P, G, 32]` that begins a line of the cache."""
    picked = torch.where((order < 0)[..., None], 0.0, groups[order.clamp(min=0)])
    made = allocate(picked.numel(), torch.float16).view(picked.shape[0], groups.shape[1], PANEL)
    return made.copy_(picked.transpose(1, 2))


def _power_of_two(largest: Tensor) -> Tensor:
    """Factors that bring a row's largest scale to between 1 and 2; 1 for a row of zeros."""
    return torch.where(largest > 0, torch.exp2(largest.clamp(min=1e-38).log2().floor()), 1.0)
