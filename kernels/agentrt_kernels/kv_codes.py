"""Keys and values as codes of eight bits, in plain torch: what the kernels' own coding is held to.

Each head of a token has a scale of its own, so that nothing has to be calibrated and a token can be
stored without a look at the others. A scale is bf16 and rounded up: no value is ever clipped.
"""

from __future__ import annotations

import torch
from torch import Tensor

MOST_CODE = 127
SCALE_DTYPE = torch.bfloat16
_TINY = 1e-30
"""A head whose scale would be below this is stored as zeros."""


def encode_heads(x: Tensor) -> tuple[Tensor, Tensor]:
    """Codes and scales of some heads.

    Args:
        x: `[..., D]`.

    Returns:
        Codes `[..., D]` int8 and scales `[...]` bf16; a value is `code * scale`, off by half a
        scale at most. The scale of a head with a value that is not finite is NaN.

    Example:
        >>> codes, scale = encode_heads(torch.tensor([254.0, -2.0, 127.0]))
        >>> codes.tolist(), scale.item()
        ([127, -1, 64], 2.0)
    """
    wide = x.float()
    exact = wide.abs().amax(-1) / MOST_CODE
    rounded_up = ((exact.view(torch.int32) + 0xFFFF) >> 16).to(torch.int16).view(SCALE_DTYPE)
    scales = torch.where(exact < _TINY, torch.zeros_like(rounded_up), rounded_up)
    scales = torch.where(exact.isfinite(), scales, torch.full_like(scales, torch.nan))
    steps = torch.where(scales == 0, torch.ones_like(exact), scales.float())
    codes = (wide / steps[..., None]).nan_to_num(0.0, 0.0, 0.0).round()
    return codes.clamp(-MOST_CODE, MOST_CODE).to(torch.int8), scales


def decode_heads(codes: Tensor, scales: Tensor) -> Tensor:
    """Values `[..., D]` fp32 of codes `[..., D]` and scales `[...]`.

    Example:
        >>> decode_heads(torch.tensor([127, -1], dtype=torch.int8), torch.tensor(2.0)).tolist()
        [254.0, -2.0]
    """
    return codes.float() * scales.float()[..., None]
