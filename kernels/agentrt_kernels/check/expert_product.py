"""Products with quantised matrices of experts: how far they are from the reference, and work.

Letters of the shapes: T rows, N outputs, K inputs, E experts.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt_kernels.check.difference import worst
from agentrt_kernels.check.product import stored_bytes
from agentrt_kernels.check.stored import stored
from agentrt_kernels.check.work import Work, rounds_of
from agentrt_kernels.contract import CodeExperts, Kernels
from agentrt_kernels.quantised_weight import Stored
from agentrt_kernels.reference import Reference

_MOST_ROUNDS = 4
"""Layers of experts to time on; more would not fit a device beside a model."""


def expert_product_difference(
    kernels: Kernels,
    kind: str,
    sizes: tuple[int, ...],
    outputs: int,
    inputs: int,
    dtype: torch.dtype,
    device: torch.device,
) -> float:
    """The largest error of a product with biases, as a share of what is allowed; see `difference`.

    Args:
        kernels: The set.
        kind: Kind of the codes, see `stored.KINDS`.
        sizes: Rows of each expert, some of them none. As many as of the first have no expert.
        outputs: N.
        inputs: K.
        dtype: Type of the rows.
        device: Where.

    Returns:
        Infinite too if a row that has no expert was written.
    """
    weights = _of_experts(kind, len(sizes), outputs, inputs, device)
    rows, source = sum(sizes) + sizes[0], torch.Generator().manual_seed(sum(sizes) + inputs)
    x = torch.randn(rows, inputs + 8, generator=source).to(device, dtype)[:, :inputs]
    biases = torch.randn(len(sizes), outputs, generator=source).to(device, dtype)
    start = _starts(sizes, device)
    outs: list[Tensor] = []
    for one in (kernels, Reference()):
        outs.append(torch.full((rows, outputs), torch.nan, dtype=dtype, device=device))
        one.pack_expert_codes(weights, biases).apply(x, start, outs[-1])
    taken = sum(sizes)
    if not bool(outs[0][taken:].isnan().all()):
        return torch.inf
    return worst(outs[0][:taken], outs[1][:taken])


def expert_product(
    kind: str,
    rows: int,
    count: int,
    outputs: int,
    inputs: int,
    dtype: torch.dtype,
    device: torch.device,
) -> Work:
    """Rows spread evenly over experts, times their matrices of codes."""
    one, used = stored(kind, outputs, inputs, device), min(rows, count)
    moved = used * stored_bytes(one) + rows * (inputs + outputs) * dtype.itemsize
    rounds = min(_MOST_ROUNDS, rounds_of(moved))
    x = torch.randn(rows, inputs, device=device).to(dtype)
    out = torch.empty(rows, outputs, dtype=dtype, device=device)
    start = (torch.arange(count + 1) * rows // count).int().to(device)
    packed_by: Kernels | None = None
    layers: list[CodeExperts] = []

    def call(kernels: Kernels, at: int) -> None:
        nonlocal packed_by
        if packed_by is not kernels:
            layers[:] = [
                kernels.pack_expert_codes(
                    _of_experts(kind, count, outputs, inputs, device, first=count * layer)
                )
                for layer in range(rounds)
            ]
            packed_by = kernels
        layers[at].apply(x, start, out)

    kernel = "grouped_fp8_gemm" if one.row_bits == 8 else "grouped_dequantised_gemm"
    name = f"{rows} rows, {count} experts of {outputs} x {inputs}, {kind}"
    return Work(kernel, name, call, rounds, moved, 2 * rows * outputs * inputs)


def _of_experts(
    kind: str, count: int, outputs: int, inputs: int, device: torch.device, first: int = 0
) -> list[Stored]:
    return [stored(kind, outputs, inputs, device, first + seed) for seed in range(count)]


def _starts(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor([0, *sizes]).cumsum(0).int().to(device)
