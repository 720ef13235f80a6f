"""AWQ: scales of inputs that make the important ones round finely, searched on calibration text.

Inputs are divided by the scales where they are made (a norm, or the rows of the matrix before) and
multiplied by them in the matrices that take them: the same function, with other rounding errors
(arXiv 2306.00978).

Letters of the shapes: N outputs, W inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from agentrt.engine.models.quantiser.input_statistics import InputStatistics, output_error
from agentrt.engine.models.quantiser.rounding import RoundingScheme, nearest_values

_STEPS = 20
"""Exponents from 0 to 1 that are tried."""
_MOST_ROWS = 1024
"""Outputs whose errors are summed: many more tell nothing else, and take as much longer."""


def input_scales(
    weight: Tensor,
    statistics: InputStatistics,
    scheme: RoundingScheme,
    tied: Callable[[Tensor], Tensor] = lambda scales: scales,
) -> Tensor:
    """Scales of the inputs with the smallest error of the rounded matrix's outputs.

    Tried are powers of each input's mean size, and the same divided by powers of its weights'
    sizes; the exponent 0, which scales nothing, is among them.

    Args:
        weight: fp32 `[N, W]`, all matrices that take the inputs.
        statistics: Statistics of the inputs.
        scheme: Form of the rounded matrices.
        tied: Makes scales that can be undone where the inputs are made, for example with equal ones
            for inputs that come from one value.

    Returns:
        fp32 `[W]`.
    """
    hessian, sizes = statistics.hessian, statistics.mean_size.clamp(min=1e-8)
    weights = weight.abs().mean(0).clamp(min=1e-8)
    weight = weight[:: -(-weight.shape[0] // _MOST_ROWS)]
    best, least = torch.ones_like(sizes), torch.inf
    for step in range(_STEPS + 1):
        power = step / _STEPS
        for by_weights in (False, True):
            raw = sizes**power
            if by_weights:
                raw = raw / weights ** (1 - power)
            elif step == 0:
                raw = torch.ones_like(sizes)
            scales = tied(_centred(raw))
            error = _error(weight, hessian, scales, scheme)
            if error < least:
                best, least = scales, error
    return best


def _centred(scales: Tensor) -> Tensor:
    """Scales around 1: only their ratios matter."""
    scales = scales.clamp(min=float(scales.max()) * 1e-4)
    return scales / (scales.max() * scales.min()).sqrt()


def _error(weight: Tensor, hessian: Tensor, scales: Tensor, scheme: RoundingScheme) -> float:
    moments = hessian.diagonal() / scales.square()
    made = nearest_values(weight * scales, scheme, moments)
    return output_error(made.div_(scales).sub_(weight), hessian)
