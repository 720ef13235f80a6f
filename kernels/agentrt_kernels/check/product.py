"""Products with quantised weights: how far they are from the reference, and work to time.

Letters of the shapes: T rows, N outputs, K inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt_kernels.check.difference import worst
from agentrt_kernels.check.stored import stored
from agentrt_kernels.check.work import Work, rounds_of
from agentrt_kernels.contract import CodeLinear, Kernels
from agentrt_kernels.quantised_weight import Stored, quantised_linear

PLAIN = "plain"
"""Kind of the matrices that hold no codes."""


def product_difference(
    kernels: Kernels,
    kind: str,
    rows: int,
    outputs: int,
    inputs: int,
    dtype: torch.dtype,
    device: torch.device,
) -> float:
    """The largest error of a product with a bias, as a share of what is allowed; see `difference`.

    Args:
        kernels: The set.
        kind: Kind of the codes, see `stored.KINDS`.
        rows: T.
        outputs: N.
        inputs: K.
        dtype: Type of the rows.
        device: Where.
    """
    weight = stored(kind, outputs, inputs, device)
    source = torch.Generator().manual_seed(rows + inputs)
    x = torch.randn(rows, inputs + 8, generator=source).to(device, dtype)[:, :inputs]
    bias = torch.randn(outputs, generator=source).to(device, dtype)
    out = torch.full((rows, outputs), torch.nan, dtype=dtype, device=device)
    kernels.pack_codes(weight, bias).apply(x, out)
    return worst(out, quantised_linear(x, weight, bias).to(dtype))


def product(
    kind: str, rows: int, outputs: int, inputs: int, dtype: torch.dtype, device: torch.device
) -> Work:
    """Rows times a matrix of codes, another one in each round."""
    one = stored(kind, outputs, inputs, device)
    moved = stored_bytes(one) + rows * (inputs + outputs) * dtype.itemsize
    rounds = rounds_of(moved)
    x = torch.randn(rows, inputs, device=device).to(dtype)
    out = torch.empty(rows, outputs, dtype=dtype, device=device)
    packed_by: Kernels | None = None
    linears: list[CodeLinear] = []

    def call(kernels: Kernels, at: int) -> None:
        nonlocal packed_by
        if packed_by is not kernels:
            weights = (stored(kind, outputs, inputs, device, seed) for seed in range(rounds))
            linears[:] = [kernels.pack_codes(weight) for weight in weights]
            packed_by = kernels
        linears[at].apply(x, out)

    name = product_name(kind, rows, outputs, inputs)
    return Work(_kernel_of(one, rows), name, call, rounds, moved, 2 * rows * outputs * inputs)


def plain_product(
    rows: int, outputs: int, inputs: int, dtype: torch.dtype, device: torch.device
) -> Work:
    """The same by torch with a plain matrix, to compare with."""
    moved = (outputs * inputs + rows * (inputs + outputs)) * dtype.itemsize
    rounds = rounds_of(moved)
    weight = torch.randn(rounds, outputs, inputs, device=device).to(dtype)
    x = torch.randn(rows, inputs, device=device).to(dtype)
    out = torch.empty(rows, outputs, dtype=dtype, device=device)

    def call(kernels: Kernels, at: int) -> None:
        torch.mm(x, weight[at].t(), out=out)

    name = product_name(PLAIN, rows, outputs, inputs)
    return Work("torch_mm", name, call, rounds, moved, 2 * rows * outputs * inputs)


def _kernel_of(weight: Stored, rows: int) -> str:
    if weight.row_bits == 8:
        return "fp8_gemm"
    return "dequantised_gemv" if rows == 1 and weight.table is None else "dequantised_gemm"


def product_name(kind: str, rows: int, outputs: int, inputs: int) -> str:
    """Name of a product in a report."""
    return f"{rows} rows, {outputs} x {inputs}, {kind}"


def stored_bytes(weight: Stored) -> int:
    """Bytes of a matrix as kernels keep it."""
    parts: tuple[Tensor | None, ...] = (weight.values, weight.zeros)
    scale_bytes = 2 if weight.scales.shape[1] > 1 else 4
    return sum(one.nbytes for one in parts if one is not None) + weight.scales.numel() * scale_bytes
