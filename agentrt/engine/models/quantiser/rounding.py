"""Symmetric rounding of a matrix, whose scales are exact in the type that stores them.

A scale is rounded to its stored type before the values are rounded by it, so that readers compute
with the scale by which the codes were chosen.

Letters of the shapes: N outputs, W inputs, G groups of inputs in a row, S inputs of a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from agentrt.engine.models.packed_weight import PackedWeight
from agentrt_kernels.cpu.nibbles import pack_nibbles
from agentrt_kernels.cpu.rounding import GroupRounding, nearest_codes, round_groups
from agentrt_kernels.quantised_weight import E4M3, MOST_E4M3

ENDS = tuple(5.0 + 0.25 * step for step in range(17))
"""Steps from zero at which a group's largest value may lie with four bits, of which there are eight
on its side. Fewer steps than eight leave room that nothing uses; more cut that value off and round
all others more finely.
"""


@dataclass(frozen=True, slots=True)
class RoundingScheme:
    """Form of a quantised matrix.

    Attributes:
        bits: Bits of a value.
        group: Inputs that share a scale; 0 is a whole row.
        scale_dtype: Type in which scales are stored.
        is_float: Whether codes of eight bits are those of FP8 (E4M3).
    """

    bits: Literal[4, 8]
    group: int
    scale_dtype: torch.dtype
    is_float: bool = False

    def group_size(self, inputs: int) -> int:
        """Inputs that share a scale in a matrix of so many inputs."""
        return self.group or inputs


def group_scales(
    weight: Tensor, scheme: RoundingScheme, importance: Tensor | None = None
) -> Tensor:
    """The scale of each group, exact in the scheme's type.

    With eight bits the largest value is the last step. With four bits the scale of the smallest
    squared error is searched, and may be negative: the largest value takes the side with eight
    steps.

    Args:
        weight: fp32 `[N, W]`; groups divide W.
        scheme: Form of the matrix.
        importance: Weight of each input's squared error, `[W]`; None weighs all alike.

    Returns:
        fp32 `[N, G]`.
    """
    size = scheme.group_size(weight.shape[1])
    how = GroupRounding(scheme.bits, size, ENDS, importance, codes=False)
    _, scales = round_groups(weight, how)
    return scales.to(scheme.scale_dtype).float()


def round_to_nearest(
    weight: Tensor, scheme: RoundingScheme, importance: Tensor | None = None
) -> PackedWeight:
    """Round each value of a matrix by itself.

    Args:
        weight: fp32 `[N, W]`; groups divide W.
        scheme: Form of the result.
        importance: Weight of each input's squared error where scales are searched, `[W]`.
    """
    if scheme.is_float:
        return _nearest_floats(weight, scheme)
    codes, scales = _nearest(weight, scheme, importance)
    return packed(codes.flatten(1), scales, scheme)


def nearest_values(
    weight: Tensor, scheme: RoundingScheme, importance: Tensor | None = None
) -> Tensor:
    """The values fp32 `[N, W]` that `round_to_nearest` makes of a matrix, without its codes."""
    codes, scales = _nearest(weight, scheme, importance)
    return codes.mul_(scales[..., None]).flatten(1)


def _nearest_floats(weight: Tensor, scheme: RoundingScheme) -> PackedWeight:
    """Codes of FP8 with a scale an output, which puts its largest value on the largest code."""
    scales = weight.abs().amax(1, keepdim=True) / MOST_E4M3
    scales = scales.to(scheme.scale_dtype).float()
    turn = torch.where(scales == 0, 0.0, 1 / scales)
    # A scale that its type has rounded down leaves the largest value beyond the largest code.
    codes = (weight * turn).clamp(-MOST_E4M3, MOST_E4M3).to(torch.float8_e4m3fn)
    return PackedWeight(8, codes.view(torch.int8), scales, None, weight.shape[1], table=E4M3)


def packed(codes: Tensor, scales: Tensor, scheme: RoundingScheme) -> PackedWeight:
    """A quantised matrix of codes `[N, W]` and scales `[N, G]`, both fp32."""
    size = scheme.group_size(codes.shape[1])
    if scheme.bits == 8:
        return PackedWeight(8, codes.to(torch.int8), scales, None, size)
    return PackedWeight(4, pack_nibbles((codes + 8).to(torch.uint8)), scales, None, size)


def _nearest(
    weight: Tensor, scheme: RoundingScheme, importance: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Codes fp32 `[N, G, S]` and scales `[N, G]`."""
    scales = group_scales(weight, scheme, importance)
    groups = weight.reshape(weight.shape[0], -1, scheme.group_size(weight.shape[1]))
    return nearest_codes(groups, scales[..., None], scheme.bits), scales
