"""Quantised matrices as all sets take them, and their products in plain torch: the reference.

Letters of the shapes: T rows, N outputs, K inputs, G groups of inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from agentrt_kernels.cpu.nibbles import unpack_nibbles

E4M3 = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
"""Values of the codes of eight bits with four of exponent and three of mantissa."""
_POSITIVE = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1 = torch.tensor([*_POSITIVE, *(-one for one in _POSITIVE)])
"""Values of the codes of four bits with two of exponent and one of mantissa: those of MXFP4."""
MOST_E4M3 = 448.0
MIDDLE_CODE = 8
"""The code of four bits that stands for zero if a matrix has no zeros of its own."""
_LEAST_SCALE = 1e-30
"""Scale of a row of zeros."""


class QuantisedWeight(Protocol):
    """A matrix `[N, K]` of small integers with scales: `(values - zeros) * scales`.

    With a table the codes stand for values of it: `table[values] * scales`.

    Attributes:
        bits: 8 or 4.
        values: int8 `[N, K]`, or uint8 `[N, K / 2]`, the input of even index in the lower half.
        scales: `[N, G]` fp16 or fp32.
        zeros: `[N, G]` in steps, or None: 0 for 8 bits, 8 for 4 bits.
        group: Inputs that share a scale.
        row_bits: 16 or 8, to which rows are rounded that are multiplied by it.
        order: Input of a row that each of its inputs takes, int32 `[K]`; None for the same.
        table: Values of codes of four bits, fp32 `[16]`, or those of `E4M3`; None for steps.
    """

    @property
    def bits(self) -> int: ...
    @property
    def values(self) -> Tensor: ...
    @property
    def scales(self) -> Tensor: ...
    @property
    def zeros(self) -> Tensor | None: ...
    @property
    def group(self) -> int: ...
    @property
    def row_bits(self) -> int: ...
    @property
    def order(self) -> Tensor | None: ...
    @property
    def table(self) -> Tensor | None: ...


@dataclass(frozen=True, slots=True)
class Stored:
    """A `QuantisedWeight` as plain data."""

    bits: int
    values: Tensor
    scales: Tensor
    zeros: Tensor | None
    group: int
    row_bits: int = 16
    order: Tensor | None = None
    table: Tensor | None = None


def is_e4m3(weight: QuantisedWeight) -> bool:
    """Whether its codes are floating-point numbers of eight bits."""
    table = weight.table
    return table is not None and torch.equal(table.cpu().nan_to_num(), E4M3.nan_to_num())


def is_e2m1(weight: QuantisedWeight) -> bool:
    """Whether its codes are floating-point numbers of four bits."""
    table = weight.table
    return table is not None and torch.equal(table.cpu(), E2M1)


def dequantised(weight: QuantisedWeight) -> Tensor:
    """The matrix fp32 `[N, K]` that a weight stands for: the reference of all kernels."""
    codes = weight.values if weight.bits == 8 else unpack_nibbles(weight.values)
    inputs, table = codes.shape[1], weight.table
    if table is not None:
        steps = table.to(codes.device)[codes.view(torch.uint8).long()]
    else:
        steps = codes.float()
    if weight.zeros is not None:
        steps -= _each_input(weight.zeros, weight.group, inputs)
    elif weight.bits == 4 and table is None:
        steps -= MIDDLE_CODE
    matrix = steps * _each_input(weight.scales, weight.group, inputs)
    return matrix if weight.order is None else matrix[:, weight.order.argsort()]


def quantised_linear(x: Tensor, weight: QuantisedWeight, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias` for `x` `[T, K]`: fp32 `[T, N]`.

    Rows that meet codes of FP8 are rounded to FP8 if the weight asks for rows of eight bits.
    """
    rows = x.float()
    if weight.row_bits == 8:
        codes, scales = e4m3_rows(x)
        rows = codes.float() * scales[:, None]
    product = rows @ dequantised(weight).t()
    return product if bias is None else product + bias.float()


def e4m3_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows `[T, K]` in FP8: codes float8_e4m3fn `[T, K]` and a scale a row, fp32 `[T]`.

    A row's largest value becomes 448, the largest of the format. A row that holds a NaN or an
    infinity has a scale that is none, too.

    Example:
        >>> codes, scales = e4m3_rows(torch.tensor([[896.0, -1.0]]))
        >>> codes.tolist(), scales.tolist()
        ([[448.0, -0.5]], [2.0])
    """
    wide = x.float()
    scales = (wide.abs().amax(1) / MOST_E4M3).clamp(min=_LEAST_SCALE)
    return (wide / scales[:, None]).to(torch.float8_e4m3fn), scales


def _each_input(groups: Tensor, size: int, inputs: int) -> Tensor:
    """Values of groups `[N, G]`, in fp32 for each of their inputs `[N, K]`."""
    return groups.float().repeat_interleave(size, dim=1, output_size=groups.shape[1] * size)[
        :, :inputs
    ]
