"""Scratch memory that kernels share, kept by its bounds.

Sizes are rounded up to powers of two, so that few buffers serve all batches, and a buffer is never
given back: a captured graph holds its address.
"""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

_FEWEST = 1024


class Workspace:
    """Buffers of one device; kernels of one stream use them one after another."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._buffers: dict[tuple[str, torch.dtype, int], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Memory of this shape, contiguous, holding anything."""
        values = prod(shape)
        kept = max(_FEWEST, 1 << (values - 1).bit_length())
        key = (name, dtype, kept)
        if key not in self._buffers:
            self._buffers[key] = torch.empty(kept, dtype=dtype, device=self._device)
        return self._buffers[key][:values].view(shape)
