"""Quantised matrices to check and to time kernels with: random codes of each kind.

Letters of the shapes: N outputs, K inputs, G groups of inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from agentrt_kernels.quantised_weight import E2M1, E4M3, MIDDLE_CODE, Stored

NORMAL = 2**0.5 * torch.erfinv(torch.linspace(-0.96, 0.96, 16))
"""Sixteen values as a table of four bits has them."""


def stored(kind: str, outputs: int, inputs: int, device: torch.device, seed: int = 0) -> Stored:
    """A random matrix `[N, K]`; an even K for four bits.

    Args:
        kind: Name of `KINDS`.
        outputs: N.
        inputs: K.
        device: Where.
        seed: Seed of the values.
    """
    source = torch.Generator(device).manual_seed(seed)
    return KINDS[kind](outputs, inputs, source)


def _steps(bits: int, outputs: int, inputs: int, group: int, source: torch.Generator) -> Stored:
    """Codes whose matrix has rows of about unit length, as trained ones do."""
    device, size = source.device, group or inputs
    groups = (outputs, -(-inputs // size))
    low, most, dtype, width = (-127, 128, torch.int8, inputs)
    if bits == 4:
        low, most, dtype, width = (0, 256, torch.uint8, inputs // 2)
    values = torch.randint(low, most, (outputs, width), generator=source, device=device)
    step = (1 << bits) * inputs**0.5 / 3
    # Exact in fp16, in which kernels may keep them.
    scales = ((0.5 + torch.rand(groups, generator=source, device=device)) / step).half()
    return Stored(bits, values.to(dtype), scales, None, size)


def _with_zeros(weight: Stored, source: torch.Generator) -> Stored:
    shift = torch.randint(-3, 4, weight.scales.shape, generator=source, device=source.device)
    return replace(weight, zeros=shift.half() + (MIDDLE_CODE if weight.bits == 4 else 0))


def _reordered(weight: Stored, source: torch.Generator) -> Stored:
    inputs = weight.values.shape[1] * 8 // weight.bits
    order = torch.randperm(inputs, generator=source, device=source.device)
    return replace(weight, order=order.int())


def _normal(weight: Stored) -> Stored:
    return replace(weight, scales=weight.scales * 4, table=NORMAL.to(weight.values.device))


def _two_powers(weight: Stored) -> Stored:
    scales = torch.exp2(weight.scales.float().log2().round() + 1).half()
    return replace(weight, scales=scales, table=E2M1.to(weight.values.device))


def _float(weight: Stored, row_bits: int = 16) -> Stored:
    codes = weight.values.masked_fill(weight.values & 127 == 127, 5)  # those are no numbers
    scales, table = weight.scales / 2, E4M3.to(codes.device)
    return replace(weight, values=codes, scales=scales, table=table, row_bits=row_bits)


KINDS: dict[str, Callable[[int, int, torch.Generator], Stored]] = {
    "int8": lambda n, k, source: _steps(8, n, k, 0, source),
    "int8 in groups with zeros": lambda n, k, source: _with_zeros(
        _steps(8, n, k, 32, source), source
    ),
    "int4 in groups": lambda n, k, source: _steps(4, n, k, 32, source),
    "int4 in groups with zeros": lambda n, k, source: _with_zeros(
        _steps(4, n, k, 128, source), source
    ),
    "int4 reordered": lambda n, k, source: _reordered(_steps(4, n, k, 128, source), source),
    "nf4": lambda n, k, source: _normal(_steps(4, n, k, 64, source)),
    "mxfp4": lambda n, k, source: _two_powers(_steps(4, n, k, 32, source)),
    "fp8": lambda n, k, source: _float(_steps(8, n, k, 0, source)),
    "fp8 by fp8": lambda n, k, source: _float(_steps(8, n, k, 0, source), 8),
    "fp8 in blocks by fp8": lambda n, k, source: _float(_steps(8, n, k, 128, source), 8),
}
"""Makers of matrices by name; "by fp8" rounds rows to FP8, too."""
