"""A quantised matrix in the one form that all readers and quantisers make, and all kernels take.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from agentrt.base.errors import InternalError
from agentrt_kernels.cpu.nibbles import unpack_nibbles
from agentrt_kernels.quantised_weight import dequantised

_TENSORS = ("values", "scales", "zeros", "order", "table")


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A matrix `[N, W]` of small integers with scales: `(values - zeros) * scales`.

    Attributes:
        bits: Bits of a value.
        values: For 8 bits int8 `[N, W]`; for 4 bits uint8 `[N, W / 2]`, two codes of 0 to 15 a
            byte, the input of even index in its lower half.
        scales: float16 or float32 `[N, G]`, of any sign; G is `W / group`, rounded up.
        zeros: The value that stands for zero in each group, in steps, float `[N, G]`. None is 0
            for 8 bits and 8 for 4 bits.
        group: Inputs that share a scale; the last group of a row may be shorter.
        row_bits: Bits to which kernels round the rows that they multiply by it: 16 with one scale a
            row, which the result does not show, or 8 with a scale for at most 128 inputs.
        order: Input of a row that each input of the weight takes, int32 `[W]`; None for the same.
            Groups of inputs that are no neighbours in the row become neighbours by it.
        table: Values that codes stand for, fp32 `[16]` or `[256]`, instead of steps: the weights
            are `table[codes] * scales`, without zeros. None for steps.

    Raises:
        InternalError: The tensors do not fit each other.

    Example:
        >>> codes = torch.tensor([[0x98]], dtype=torch.uint8)
        >>> PackedWeight(4, codes, torch.ones(1, 1), None, 2).dequantize()
        tensor([[0., 1.]])
    """

    bits: Literal[4, 8]
    values: Tensor
    scales: Tensor
    zeros: Tensor | None
    group: int
    row_bits: Literal[8, 16] = 16
    order: Tensor | None = None
    table: Tensor | None = None

    def __post_init__(self) -> None:
        fault = self._fault()
        if fault:
            raise InternalError(f"a packed weight does not fit itself: {fault}")

    @property
    def shape(self) -> torch.Size:
        """`[N, W]`."""
        rows, width = self.values.shape
        return torch.Size((rows, width * 8 // self.bits))

    @property
    def resident_bytes(self) -> int:
        """Bytes that its tensors take."""
        held = (self.values, self.scales, self.zeros, self.order)
        return sum(one.nbytes for one in held if one is not None)

    def numel(self) -> int:
        """Number of weights."""
        return self.shape.numel()

    def dequantize(self) -> Tensor:
        """The matrix in fp32 `[N, W]`: the reference of all kernels."""
        return dequantised(self)

    def codes(self) -> Tensor:
        """The values one a byte `[N, W]`: int8 for 8 bits, uint8 for 4 bits."""
        if self.bits == 8:
            return self.values
        return unpack_nibbles(self.values)

    def to(self, device: torch.device) -> PackedWeight:
        """The same weight on a device."""
        held = {name: getattr(self, name) for name in _TENSORS}
        moved = {name: one.to(device) for name, one in held.items() if one is not None}
        return replace(self, **moved)

    def rows(self, wanted: Tensor | slice) -> PackedWeight:
        """Some of the outputs, by index or as a slice."""
        zeros = None if self.zeros is None else self.zeros[wanted]
        return replace(self, values=self.values[wanted], scales=self.scales[wanted], zeros=zeros)

    def _fault(self) -> str | None:
        kind = torch.int8 if self.bits == 8 else torch.uint8
        if self.bits not in (4, 8) or self.values.dtype is not kind or self.values.dim() != 2:
            return f"{self.values.dtype} of {tuple(self.values.shape)} for {self.bits} bits"
        if self.group < 1:
            return f"groups of {self.group}"
        rows, inputs = self.shape
        groups = (rows, -(-inputs // self.group))
        for name, one in (("scales", self.scales), ("zeros", self.zeros)):
            if one is not None and tuple(one.shape) != groups:
                return f"{name} of {tuple(one.shape)}, not {groups}"
        if self.order is not None and self.order.shape != (inputs,):
            return f"an order of {tuple(self.order.shape)} for {inputs} inputs"
        table = self.table
        if table is not None and (self.zeros is not None or table.shape != (1 << self.bits,)):
            return f"a table of {tuple(table.shape)} for {self.bits} bits, or with zeros"
        return None


def concatenated_rows(parts: Sequence[PackedWeight]) -> PackedWeight:
    """The outputs of all parts one after the other; all have equal bits, inputs, groups and orders.

    Raises:
        InternalError: They differ.
    """
    first = parts[0]
    if not all(
        _form(one) == _form(first)
        and _same(one.order, first.order)
        and _same(one.table, first.table)
        for one in parts
    ):
        raise InternalError("packed weights of different forms cannot be concatenated")
    zeros = [one.zeros for one in parts if one.zeros is not None]
    if zeros and len(zeros) < len(parts):
        raise InternalError("packed weights with and without zeros cannot be concatenated")
    return replace(
        first,
        values=torch.cat([one.values for one in parts]),
        scales=torch.cat([one.scales for one in parts]),
        zeros=torch.cat(zeros) if zeros else None,
    )


def _form(weight: PackedWeight) -> tuple[int, int, int, int]:
    return weight.bits, weight.group, weight.row_bits, weight.shape[1]


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None:
        return one is other
    return torch.equal(one.nan_to_num(), other.nan_to_num())
