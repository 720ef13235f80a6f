"""Scales of groups with the smallest error of a matrix's outputs, not of its weights.

Errors of inputs that go together add up or cancel. A group's share of the error of the outputs is
therefore a quadratic form of its weights' errors, by the second moments of its inputs: what AWQ's
search for a clipping bound sums over activations.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row, S inputs of a group.
"""

from __future__ import annotations

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt.engine.models.quantiser.rounding import (
    ENDS,
    RoundingScheme,
    group_scales,
    packed,
)
from agentrt_kernels.cpu.rounding import nearest_codes, one_thread

_WIDEST_GROUP = 1024
"""Inputs of a group up to which their products count. Each scale that is tried takes S products for
a weight: beyond that the moment of each input alone is its importance.
"""
_BLOCK_VALUES = 1 << 16  # tried at once, so that they stay in the cache
_LEAST_SQUARES = 1e-30
_DAMPING = 0.001
"""Share of the mean moment of a group that each of its inputs has at least: one that calibration
never saw keeps its weights.
"""


def output_scales(weight: Tensor, scheme: RoundingScheme, hessian: Tensor) -> Tensor:
    """The scale of each group, exact in the scheme's type.

    Example:
        >>> weight, scheme = torch.randn(8, 64), RoundingScheme(4, 32, torch.bfloat16)
        >>> output_scales(weight, scheme, torch.eye(64)).shape
        torch.Size([8, 2])

    Args:
        weight: fp32 `[N, W]`; groups divide W.
        scheme: Form of the matrix.
        hessian: fp32 `[W, W]` of its inputs, as of `InputStatistics`.

    Returns:
        fp32 `[N, G]`.
    """
    inputs = weight.shape[1]
    size = scheme.group_size(inputs)
    if scheme.bits == 8 or size > _WIDEST_GROUP:
        return group_scales(weight, scheme, hessian.diagonal())
    scales = torch.empty((weight.shape[0], inputs // size))
    rows = max(1, _BLOCK_VALUES // size)
    with one_thread():
        for number in range(inputs // size):
            own = slice(number * size, (number + 1) * size)
            moments = _damped(hessian[own, own])
            for at in range(0, weight.shape[0], rows):
                block = weight[at : at + rows, own].contiguous()
                scales[at : at + rows, number] = _scales_of_group(block, moments, scheme)
    return scales


def round_by_outputs(weight: Tensor, scheme: RoundingScheme, hessian: Tensor) -> PackedWeight:
    """Round each value of a matrix to the nearest step, by scales that suit its outputs.

    Args:
        weight: fp32 `[N, W]`; groups divide W.
        scheme: Form of the result.
        hessian: fp32 `[W, W]` of its inputs.
    """
    scales = output_scales(weight, scheme, hessian)
    groups = weight.reshape(weight.shape[0], -1, scheme.group_size(weight.shape[1]))
    codes = nearest_codes(groups, scales[..., None], scheme.bits)
    return packed(codes.flatten(1), scales, scheme)


def _damped(hessian: Tensor) -> Tensor:
    damped = hessian.clone()
    damped.diagonal().add_(_DAMPING * (float(damped.diagonal().mean()) or 1.0))
    return damped


def _scales_of_group(group: Tensor, hessian: Tensor, scheme: RoundingScheme) -> Tensor:
    """Scales `[N]` of one group of inputs `[N, S]` with second moments `[S, S]`."""
    largest = group.gather(1, group.abs().argmax(1, keepdim=True))
    moments = group @ hessian
    best = torch.zeros_like(largest)
    least = torch.full_like(largest, torch.inf)
    for end in ENDS:
        codes = nearest_codes(group, largest / -end, scheme.bits)
        squares = (codes @ hessian).mul_(codes).sum(1, keepdim=True)
        fitted = (codes * moments).sum(1, keepdim=True) / squares.clamp(min=_LEAST_SQUARES)
        scale = fitted.to(scheme.scale_dtype).float()
        change = nearest_codes(group, scale, scheme.bits).mul_(scale).sub_(group)
        error = (change @ hessian).mul_(change).sum(1, keepdim=True)
        better = error < least
        best, least = torch.where(better, scale, best), torch.where(better, error, least)
    return best[:, 0]
