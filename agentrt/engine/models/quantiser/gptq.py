"""GPTQ: error-compensated rounding of a matrix, column by column.

Each input's rounding error is spread over the inputs that are not rounded yet, by the inverse of
the Hessian, so that the outputs on the calibration text change least (arXiv 2210.17323).

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantiser.rounding import RoundingScheme, group_scales, packed
from agentrt_kernels.cpu.rounding import nearest_codes

DAMPING = 0.01
"""Share of the Hessian's mean diagonal that is added to its diagonal."""
_BLOCK = 128
"""Columns after which the errors reach all others, in one product."""


def gptq(
    weight: Tensor,
    hessian: Tensor,
    scheme: RoundingScheme,
    *,
    damping: float = DAMPING,
    orders_inputs: bool = True,
) -> PackedWeight:
    """Round a matrix so that its outputs change little.

    Args:
        weight: fp32 `[N, W]`; groups divide W.
        hessian: fp32 `[W, W]` of its inputs, as of `InputStatistics`.
        scheme: Form of the result.
        damping: Share of the mean diagonal that is added to the Hessian's diagonal.
        orders_inputs: Whether the inputs with the largest second moments are rounded first, with
            scales that are chosen before (act order with static groups). The result's inputs stay
            in their order.
    """
    inputs = weight.shape[1]
    size = scheme.group_size(inputs)
    moments = hessian.diagonal()
    order = moments.argsort(descending=True, stable=True) if orders_inputs else None
    rest = weight.t().contiguous()  # [W, N]: a column is a row, next to the one before
    scales = _scales_of(rest, scheme, moments).repeat_interleave(size, 0)
    if order is not None:
        rest, scales = rest[order], scales[order]
        hessian = hessian[order][:, order]
    inverse = inverse_root(hessian, damping)
    fits = order is None and 0 < scheme.group <= _BLOCK
    block = _BLOCK // size * size if fits else _BLOCK
    codes = torch.empty_like(rest)
    for start in range(0, inputs, block):
        stop = min(start + block, inputs)
        own, errors = rest[start:stop], torch.empty_like(rest[start:stop])
        root = inverse[start:stop, start:stop]
        for at in range(stop - start):
            if fits and at % size == 0:  # the scale suits the values as they are compensated by now
                first, last = start + at, start + at + size
                scales[first:last] = _scales_of(own[at : at + size], scheme, moments[first:last])
            scale = scales[start + at]
            code = nearest_codes(own[at], scale, scheme.bits)
            codes[start + at] = code
            errors[at] = (own[at] - code * scale) / root[at, at]
            own[at + 1 :].addr_(root[at, at + 1 :], errors[at], alpha=-1)
        rest[stop:].addmm_(inverse[start:stop, stop:].t(), errors, alpha=-1)
    if order is not None:
        back = order.argsort()
        codes, scales = codes[back], scales[back]
    return packed(codes.t(), scales[::size].t().contiguous(), scheme)


def inverse_root(hessian: Tensor, damping: float) -> Tensor:
    """Upper Cholesky factor `[W, W]` of the inverse of a damped Hessian `[W, W]`.

    The damping grows until the factor exists: inputs that calibration never saw, or that always
    repeat each other, make a Hessian singular.
    """
    mean = float(hessian.diagonal().mean()) or 1.0
    while True:
        damped = hessian.clone()
        damped.diagonal().add_(damping * mean)
        lower, fault = torch.linalg.cholesky_ex(damped)
        if not fault:
            upper, fault = torch.linalg.cholesky_ex(torch.cholesky_inverse(lower), upper=True)
            if not fault:
                root: Tensor = upper
                return root
        damping = max(10 * damping, 1e-4)


def _scales_of(columns: Tensor, scheme: RoundingScheme, moments: Tensor) -> Tensor:
    """Scales `[G, N]` of the groups in some columns `[W, N]` with these second moments `[W]`."""
    return group_scales(columns.t().contiguous(), scheme, moments).t()
