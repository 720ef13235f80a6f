"""Linears that were packed before, joined from what a file kept of them.

Native code believes the sizes that it is given, so each tensor is held to what its place needs.

Letters of the shapes: N outputs, K inputs, G groups of inputs, P panels of 32 columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from agentrt_kernels.cpu import library as c
from agentrt_kernels.cpu.linear import (
    LANES,
    PANEL,
    LinearParts,
    NativeLinear,
    PackedLinear,
    fits,
)
from agentrt_kernels.cpu.quantised import STEP, Coding, QuantisedLinear


@dataclass(frozen=True, slots=True)
class LinearSize:
    """Size of a linear, as the network around it needs it.

    Attributes:
        inputs: K.
        outputs: N; half of it if the weight is gated.
        dtype: Type of the rows, and of a matrix without codes.
        gated: Whether values go each through a gate.
        row_bits: 16 or 8, to which rows are rounded for codes.
    """

    inputs: int
    outputs: int
    dtype: torch.dtype
    gated: bool = False
    row_bits: int = 16

    @property
    def panels(self) -> int:
        """P."""
        return -(-self.outputs // (LANES if self.gated else PANEL))

    @property
    def bias_values(self) -> int:
        """Values of a bias, gates among them."""
        return self.outputs * (2 if self.gated else 1)


def joined_linear(library: c.Native, parts: LinearParts, size: LinearSize) -> NativeLinear:
    """A linear from its parts, whose memory it shares.

    Args:
        library: The native code.
        parts: Parts as `NativeLinear.parts` gives them.
        size: Size that the network needs.

    Raises:
        ValueError: The parts are not those of such a linear.
    """
    tensors = parts.tensors
    _check(tensors, "bias", (size.bias_values,), size.dtype, optional=True)
    if not parts.bits:
        _check(tensors, "memory", (size.panels, size.inputs, PANEL), size.dtype)
        memory = tensors["memory"]
        if not fits(memory.view(-1, size.inputs)):
            raise ValueError(f"no kernel reads {size.inputs} inputs in {size.dtype}")
        return PackedLinear(library, memory, tensors.get("bias"), size.inputs, size.outputs)
    if parts.bits not in (4, 8) or parts.group < 1 or parts.group % STEP:
        raise ValueError(f"there are no codes of {parts.bits} bits in groups of {parts.group}")
    coding = Coding(parts.coding)
    padded = -(-size.inputs // STEP) * STEP
    groups = (size.panels, -(-size.inputs // parts.group), PANEL)
    _check(tensors, "codes", (size.panels, padded * PANEL * parts.bits // 8), torch.uint8)
    _check(tensors, "scales", groups, torch.float16)
    _check(tensors, "zeros", groups, torch.float16, optional=True)
    _check(tensors, "factors", (size.panels, PANEL), torch.float32)
    _check(tensors, "order", (size.inputs,), torch.int32, optional=True)
    _check(tensors, "table", (16,), torch.float32, optional=coding is not Coding.TABLE)
    order = tensors.get("order")
    if order is not None and (int(order.min()) < 0 or int(order.max()) >= size.inputs):
        raise ValueError(f"its order names inputs that are not among {size.inputs}")
    return QuantisedLinear(
        library,
        codes=tensors["codes"],
        scales=tensors["scales"],
        zeros=tensors.get("zeros"),
        factors=tensors["factors"],
        bias=tensors.get("bias"),
        order=order,
        table=tensors.get("table"),
        coding=coding,
        bits=parts.bits,
        group=parts.group,
        row_bits=size.row_bits,
        inputs=size.inputs,
        outputs=size.outputs,
    )


def _check(
    tensors: dict[str, Tensor],
    name: str,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    *,
    optional: bool = False,
) -> None:
    found = tensors.get(name)
    if found is None and optional:
        return
    if found is None or tuple(found.shape) != shape or found.dtype is not dtype:
        what = "missing" if found is None else f"{tuple(found.shape)} of {found.dtype}"
        raise ValueError(f"its {name} is {what}, not {shape} of {dtype}")
    if not found.is_contiguous():
        raise ValueError(f"its {name} is not dense")
