"""Keys and values as codes of eight bits, in plain torch: what the kernels' own coding is held to.

Each head of a token has a scale of its own, in bf16, so that nothing has to be calibrated and a
token can be stored without a look at the others. No value is ever clipped: the largest of a head
becomes the largest code. The scale of integers is rounded up for that. Codes of FP8 are chosen by
the exact scale; what is stored is the one that fits them best, by least squares.
"""

from __future__ import annotations

import torch
from torch import Tensor

CODE_DTYPES = {"int8": torch.int8, "fp8": torch.float8_e4m3fn}
"""Dtypes of codes by the names that settings give them."""
MOST_CODES = {torch.int8: 127.0, torch.float8_e4m3fn: 448.0}
"""The largest code of each dtype."""
SCALE_DTYPE = torch.bfloat16
_TINY = 1e-30
"""A head whose scale would be below this is stored as zeros."""


def encode_heads(x: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Codes and scales of some heads.

    Args:
        x: `[..., D]`.
        dtype: One of `CODE_DTYPES`.

    Returns:
        Codes `[..., D]` and scales `[...]` bf16; a value is `code * scale`. In int8 it is off by
        half a scale at most, in FP8 mostly by less than a sixteenth of itself. The scale of a head
        with a value that is not finite is NaN.

    Example:
        >>> codes, scale = encode_heads(torch.tensor([254.0, -2.0, 127.0]), torch.int8)
        >>> codes.tolist(), scale.item()
        ([127, -1, 64], 2.0)
        >>> codes, scale = encode_heads(torch.tensor([896.0, -2.0, 99.0]), torch.float8_e4m3fn)
        >>> codes.float().tolist(), scale.item()
        ([448.0, -1.0, 48.0], 2.0)
    """
    most = MOST_CODES[dtype]
    wide = x.float()
    exact = wide.abs().amax(-1) / most
    steps = exact if dtype is torch.float8_e4m3fn else _rounded_up(exact).float()
    is_whole = exact.isfinite() & (exact >= _TINY)
    turned = wide / torch.where(is_whole, steps, torch.ones_like(steps))[..., None]
    turned = torch.where(is_whole[..., None], turned, torch.zeros_like(turned))
    if dtype is torch.int8:
        codes = turned.round().clamp(-most, most).to(dtype)
    else:
        codes = turned.clamp(-most, most).to(dtype)
        squares = codes.float().square().sum(-1)
        along = (turned * codes.float()).sum(-1)
        steps = steps * torch.where(is_whole, along / squares, torch.ones_like(steps))
    scales = torch.where(exact < _TINY, torch.zeros_like(steps), steps)
    scales = torch.where(exact.isfinite(), scales, torch.full_like(scales, torch.nan))
    return codes, scales.to(SCALE_DTYPE)


def _rounded_up(x: Tensor) -> Tensor:
    """The next bf16 that is not below `x`, which has no sign."""
    return ((x.view(torch.int32) + 0xFFFF) >> 16).to(torch.int16).view(SCALE_DTYPE)


def decode_heads(codes: Tensor, scales: Tensor) -> Tensor:
    """Values `[..., D]` fp32 of codes `[..., D]` and scales `[...]`.

    Example:
        >>> decode_heads(torch.tensor([127, -1], dtype=torch.int8), torch.tensor(2.0)).tolist()
        [254.0, -2.0]
    """
    return codes.float() * scales.float()[..., None]
