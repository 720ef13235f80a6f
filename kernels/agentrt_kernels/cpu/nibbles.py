"""Codes of four bits, two a byte: the one of even index in the lower half."""

from __future__ import annotations

import torch
from torch import Tensor


def pack_nibbles(codes: Tensor) -> Tensor:
    """Two codes of 0 to 15 a byte, uint8 `[N, W / 2]`, of one a byte, uint8 `[N, W]`.

    Example:
        >>> pack_nibbles(torch.tensor([[8, 9]], dtype=torch.uint8))
        tensor([[152]], dtype=torch.uint8)
    """
    return codes[:, ::2] | codes[:, 1::2] << 4


def unpack_nibbles(packed: Tensor) -> Tensor:
    """One code a byte, uint8 `[N, W]`, of two a byte, uint8 `[N, W / 2]`."""
    return torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1)
